"""Sessions that are deleted, or wake, between the look at them and what is done with them: found by the soak of the gateway."""

import pytest
import trio

from agentrail.errors import SessionNotFound, SessionRested, SessionUnknown, StillNeeded, Unrevivable
from agentrail.host.identity import metadata_of_session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from agentrail.testing.faulty_store import CutStore
from agentrail.testing.models import FunctionModel, says
from agentrail.tools import builtin
from tests.host.hosting import ANN, asked, hosting
from tests.runtime.rig import on_virtual_time


def talking():
    return FunctionModel(lambda _: says("Hello."))


async def text_of(host, message, **given):
    request = await asked(host, message, session_id="main", **given)
    await request.outcome()
    return request.record.text


def goes_after_the_look(host, monkeypatch):
    """Let the session be deleted in the store right behind the first look at it."""
    looked = []
    find = SessionSupervisor.facts_of

    async def look(self, session_id, *, scope=""):
        facts = await find(self, session_id, scope=scope)
        if facts is not None and not looked:
            looked.append(facts)
            await host.supervisor.delete_session(session_id, scope=scope)
        return facts

    monkeypatch.setattr(SessionSupervisor, "facts_of", look)
    return looked


@on_virtual_time
@pytest.mark.parametrize("kind", ["chat", "chat with a name", "prompt"])
async def test_a_session_that_was_deleted_after_the_look_at_it(kind, monkeypatch):
    """A chat begins it anew with its metadata, as of any id that is unknown, named or not; a prompt creates none."""
    store = MemoryStore()
    async with hosting(talking(), store=store) as host:
        await text_of(host, "Hi")
    async with hosting(talking(), store=store) as host:
        looked = goes_after_the_look(host, monkeypatch)
        if kind == "prompt":
            with pytest.raises(SessionNotFound):
                await asked(host, "And?", session_id="main", kind="prompt")
            with pytest.raises(SessionUnknown):
                await host.session("main", ANN)
        else:
            client_id = "c-1" if kind == "chat with a name" else None
            metadata = {"ticket": "T-1"}
            assert await text_of(host, "And?", client_id=client_id, metadata=metadata) == "Hello."
            session = await host.session("main", ANN)
            assert len(await session.messages()) == 2
            assert metadata_of_session(session.facts.user_data) == metadata
        assert looked


def wakes_before_it_goes(host, monkeypatch, times):
    """Let a reader wake the session right in front of its deletion, so many times; gives how often it was to be deleted."""
    tried = []
    delete = SessionSupervisor.delete_session

    async def wake_and_delete(self, session_id, **options):
        tried.append(session_id)
        if len(tried) <= times:
            await (await host.session_to_read(session_id, ANN)).status()
        return await delete(self, session_id, **options)

    monkeypatch.setattr(SessionSupervisor, "delete_session", wake_and_delete)
    return tried


@on_virtual_time
async def test_a_session_that_wakes_as_it_is_deleted_is_deleted(monkeypatch):
    """A read at that moment does not prevent the deletion. A fork that needs the session does."""
    async with hosting(talking(), store=MemoryStore()) as host:
        await text_of(host, "Hi")
    async with hosting(talking(), store=host.options.store) as host:
        tried = wakes_before_it_goes(host, monkeypatch, 1)
        await host.delete_session("main", ANN, purge=True)
        assert tried == ["main", "main"]
        with pytest.raises(SessionUnknown):
            await host.session("main", ANN)
        await text_of(host, "Hi")
        await host.fork_session("main", ANN, wanted="copy")
        with trio.fail_after(60), pytest.raises(StillNeeded):
            await host.delete_session("main", ANN, purge=True)


@on_virtual_time
async def test_a_fork_is_named_although_the_store_was_away_after_it_began():
    """Its caller knows no other way to find it, and would make a second one."""
    cuts = []
    store = CutStore(MemoryStore(), lambda name: cuts.pop() if name == "find" and cuts else None)
    async with hosting(talking(), store=store) as host:
        await text_of(host, "Hi")
        cuts += ["before", "before"]
        fork, number = await host.fork_session("main", ANN)
        assert (cuts, store.get(fork.scope, fork.session_id).forked_from) == ([], ("main", number))


@on_virtual_time
async def test_a_session_whose_code_is_gone_is_named_in_the_log_with_what_is_missing(caplog):
    """Who calls hears that the log says it."""
    store = MemoryStore()
    async with hosting(talking(), session_tools=builtin("read_file"), store=store) as host:
        await text_of(host, "Hi")
    async with hosting(talking(), store=store) as host:
        with pytest.raises(Unrevivable):
            await host.session("main", ANN)
    said = "session 'main' cannot continue: profile 'desk' no longer has tool 'read_file'"
    assert said in caplog.text


@on_virtual_time
async def test_a_session_that_is_put_to_rest_after_the_look_has_not_ended(monkeypatch):
    """A drain puts the session to rest between the look and the message: its caller is told to repeat, and not that the session has ended."""
    find = SessionSupervisor.facts_of
    async with hosting(talking(), store=MemoryStore()) as host:
        await text_of(host, "Hi")

        async def look(self, session_id, *, scope=""):
            facts = await find(self, session_id, scope=scope)
            if facts is not None and facts.is_here:
                await host.supervisor.rest(session_id, scope=scope)
            return facts

        monkeypatch.setattr(SessionSupervisor, "facts_of", look)
        with pytest.raises(SessionRested):
            await text_of(host, "Again", kind="prompt")
