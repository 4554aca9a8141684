"""How long the tool sources of a supervisor live, with sources that need no process."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio

import agentrail
from agentrail.actors import open_supervisor
from agentrail.otp.child_specs import SupervisorFlags
from agentrail.runtime.tool_sources import KEEP_UNUSED_SECONDS, ToolSources
from agentrail.testing.cancelling import crash
from agentrail.testing.models import ScriptedModel, says
from agentrail.tools.mcp import McpServer
from tests.runtime.rig import eventually

STOP_SECONDS = 3.0


class FakeSource:
    """A source that takes a while to close, and counts its lives."""

    reason = instructions = user_login = None
    prompts = ()
    is_required = is_eager = False

    def __init__(self, name, sharing="principal"):
        self.name, self.sharing, self.state = name, sharing, "connecting"
        self.settled = trio.Event()
        self.is_open = False
        self.listeners = []

    async def serve(self):
        self.is_open = True
        self.settled.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(STOP_SECONDS)
            self.is_open = False

    def restart(self): ...

    def park(self): ...

    def forget_login(self): ...

    def join(self, listener):
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


class Sources:
    """The sources that were made, with their owners."""

    def __init__(self, sharing="principal"):
        self.sharing, self.made = sharing, []

    def __call__(self, server, owner=""):
        self.made.append((owner, FakeSource(server.name, self.sharing)))
        return self.made[-1][1]

    def open_for(self, owner):
        return [one.is_open for of, one in self.made if of == owner]


@asynccontextmanager
async def opened(make):
    """The tool sources of one server, below a supervisor."""
    async with (
        open_supervisor(SupervisorFlags("one_for_one")) as root,
        trio.open_nursery() as nursery,
    ):
        yield root, ToolSources(make, [SimpleNamespace(name="p")], root.start_child, nursery)
        nursery.cancel_scope.cancel()


async def test_a_source_of_a_principal_ends_when_it_is_used_no_more(autojump_clock):
    """Not at once, because its user may return, and not while another session uses it."""
    make = Sources()
    async with opened(make) as (root, sources):

        def join(owner):
            (running,) = sources.of_principal(None, owner, "")
            sources.start(running)
            return running.join(object())

        leave_first, leave_second, leave_bob = join("ann"), join("ann"), join("bob")
        leave_first()
        await trio.sleep(3 * KEEP_UNUSED_SECONDS)
        assert make.open_for("ann") == make.open_for("bob") == [True]

        leave_second()
        await trio.sleep(KEEP_UNUSED_SECONDS / 2)
        assert make.open_for("ann") == [True]
        await trio.sleep(2 * KEEP_UNUSED_SECONDS)
        assert make.open_for("ann") == [False]
        assert make.open_for("bob") == [True]
        assert not sources.running["p"].is_running  # nobody uses the one that all would share

        leave_bob()
        join("ann")
        await trio.sleep(3 * KEEP_UNUSED_SECONDS)
        assert make.open_for("ann") == [False, True]
        assert make.open_for("bob") == [False]
        assert [child.id for child in (await root.tree()).children] == ["mcp p ann"]


async def test_a_session_that_comes_while_its_source_ends_has_a_new_one(autojump_clock):
    """It is started under the same name, as soon as that is free."""
    make = Sources()
    async with opened(make) as (_, sources):
        (first,) = sources.of_principal(None, "ann", "")
        sources.start(first)
        first.join(object())()
        await trio.sleep(KEEP_UNUSED_SECONDS + STOP_SECONDS / 2)
        assert make.open_for("ann")[0]  # it is still closing

        (second,) = sources.of_principal(None, "ann", "")
        second.join(object())
        sources.start(second)
        await trio.sleep(2 * STOP_SECONDS)
        assert make.made[0][1].is_open is False
        assert second.source.is_open


async def test_a_source_that_is_being_started_ends_when_its_user_is_forgotten(autojump_clock):
    """It would have its login, and the next one of this user would wait for its end."""
    make = Sources()
    async with opened(make) as (_, sources):
        (first,) = sources.of_principal(None, "ann", "")
        sources.start(first)
        await sources.forget_logins("ann")
        (second,) = sources.of_principal(None, "ann", "")
        second.join(object())
        sources.start(second)
        await trio.sleep(2 * STOP_SECONDS)
        assert not first.source.is_open
        assert second.source.is_open


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_session_that_was_given_up_leaves_its_sources(is_kept, monkeypatch, autojump_clock):
    """Its memory is free, and what a server says reaches it no more."""
    make = Sources("supervisor")
    monkeypatch.setattr("agentrail.app.make_source", lambda server, owner, **_: make(server, owner))
    servers = [McpServer("p", command=["p"])]
    kept = {"store": "memory:"} if is_kept else {}
    async with agentrail.open_supervisor(mcp=servers, **kept) as supervisor:
        session = await supervisor.start_session(model=ScriptedModel([says("Hi.")]), restart="temporary")
        ((_, source),) = make.made
        assert len(source.listeners) == len(supervisor.sources.joined) == 1
        crash(session, "a bug")
        await eventually(lambda: supervisor.sessions() == ())
        assert source.listeners == []
        assert supervisor.sources.joined == {}
