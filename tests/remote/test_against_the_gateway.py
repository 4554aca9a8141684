"""A client against the gateway itself, over real connections: what a handle in this process gives, this one gives too."""

import sys
import weakref
from contextlib import asynccontextmanager
from uuid import UUID

import attrs
import pytest
import trio

import agentrail
from agentrail import errors, events, tool
from agentrail.commands import CommandAnswer, CommandRegistry, SlashCommand
from agentrail.remote.command_results import read_session_page
from agentrail.remote.connect import open_remote
from agentrail.remote.dialer import address_of, dial_for
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from tests.garbage import without_collector
from tests.gateway.callers import auth
from tests.gateway.web import serving
from tests.host.hosting import answering
from tests.runtime.rig import on_bounded_time

pytestmark = on_bounded_time


def url_of(web):
    host, port = web.address
    return f"http://{host}:{port}"


async def test_it_talks():
    """As with a session in this process: ask, run, stream, messages, status, snapshot; texts of two responses are apart."""
    apart = [calls(("note", {}), text="I look."), says("It is so.")]
    model = ScriptedModel([says("One."), says("Two."), says("Three."), *apart, *apart])
    async with (
        serving(model, auth=auth, session_tools=[RecordingTool(name="note")]) as web,
        agentrail.connect(url_of(web), "ann", agent_id="desk") as session,
    ):
        assert await session.ask("Hi") == "One."
        reply = await session.run("Again")
        assert (reply.text, reply.turns, len(reply.messages)) == ("Two.", 1, 2)
        said = ""
        async with session.stream("More") as cycle:
            async for event in cycle:
                said += event.delta if isinstance(event, events.MessageDelta) else ""
        assert said == cycle.reply.text == "Three."
        assert len(await session.messages()) == 6
        assert (await session.status()).phase == "idle"
        snapshot = await session.snapshot()
        assert len(snapshot.last_messages) == 6
        assert await session.collect_reply() == "Three."
        assert (await session.wait_for(events.AgentStart)).ref == cycle.ref
        for deltas in (True, False):
            async with session.stream("Hi", deltas=deltas) as cycle:
                texts = "".join([text async for text in cycle.text()])
                assert texts == cycle.reply.all_text == "I look.\n\nIt is so."


async def test_text_whose_deltas_were_missed_comes_with_its_response():
    """Deltas are not stored, so what the model says while the connection is down is in the message alone."""
    streams = []
    async with serving(
        ScriptedModel([says("One, ", "two, ", "three.", pause_seconds=0.05)]), auth=auth
    ) as web:
        dial = dial_for(address_of(url_of(web)), "ann")

        @asynccontextmanager
        async def recorded(within_seconds):
            if streams:
                await web.host.quiet()
            async with dial(within_seconds) as connection:
                streams.append(connection)
                yield connection

        async with open_remote(recorded, None, "desk", 10.0) as session, session.stream("Count") as cycle:
            texts = []
            async for text in cycle.text():
                texts.append(text)
                if len(texts) == 1:
                    await trio.aclose_forcefully(streams[0]._stream)  # noqa: SLF001 - there is no other way to break it
        assert texts == ["One, ", "two, three."]
        assert len(streams) == 2


@pytest.mark.host("H-079")
async def test_one_iteration_sees_each_committed_event_once_though_the_socket_dies_three_times():
    """In one cycle of several turns; the answer is there all the same."""
    streams, model = [], None
    gates = [trio.Event() for _ in range(4)]

    @tool
    async def look(place: int) -> str:
        """Look at a place."""
        await gates[place].wait()
        return f"place {place}"

    turns = [calls(("look", {"place": place})) for place in range(4)]
    model = ScriptedModel([*turns, says("All seen.")])
    async with serving(model, auth=auth, session_tools=[look]) as web:
        dial = dial_for(address_of(url_of(web)), "ann")

        @asynccontextmanager
        async def recorded(within_seconds):
            async with dial(within_seconds) as connection:
                streams.append(connection)
                yield connection

        async with open_remote(recorded, None, "desk", 10.0) as session, session.subscribe() as stream:
            receipt = await session.prompt("Look around")
            numbers, cuts = [], 0
            async for event in stream:
                if event.meta.ephemeral:
                    continue
                numbers.append(event.meta.seq)
                if isinstance(event, events.ToolExecutionStart):
                    if cuts < 3:
                        await trio.aclose_forcefully(streams[-1]._stream)  # noqa: SLF001 - there is no other way to break it
                    gates[cuts].set()
                    cuts += 1
                if isinstance(event, events.AgentEnd):
                    break
            assert cuts == 4
            assert len(streams) == 4
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            told = await session.wait_for_request(receipt.request_id)
            assert told["text"] == "All seen."


async def test_slash_commands_are_those_of_the_server():
    """12.10: listed as over HTTP, as they stand for the session; run by their names, once for one `client_id`; refused as they are there."""
    model = ScriptedModel([says("One."), says("Done.")])

    async def commit(call):
        return CommandAnswer(prompt=f"Commit {call.text}.")

    mine = SlashCommand(name="git:commit", description="Commits.", run=commit, in_history=True)
    async with (
        serving(model, auth=auth, commands=CommandRegistry().with_commands(mine), store="memory:") as web,
        agentrail.connect(url_of(web), "ann", agent_id="desk") as session,
    ):
        await session.ask("Hi")
        rows = await session.commands()
        told = await web.client.get(
            f"/commands?session_id={session.session_id}", headers={"Authorization": "Bearer ann"}
        )
        assert [attrs.asdict(one) for one in rows] == told.json()["commands"]
        assert [one.available for one in rows if one.name in ("git:commit", "quit")] == [False, True]
        status = await session.run_command("/STATUS")
        assert (status.command, status.request_id) == ("status", None)
        assert status.lines[0].startswith("idle · ")
        done = await session.run_command("git:commit", "it", client_id="c-1")
        assert await session.run_command("git:commit", "it", client_id="c-1") == done
        assert (await session.wait_for_request(str(done.request_id)))["text"] == "Done."
        assert model.requests[1].messages[-1].content[0].text == "Commit it."
        fork = await session.run_command("fork", client_id="c-2")
        assert await session.run_command("fork", client_id="c-2") == fork
        with pytest.raises(errors.ClientIdReused):
            await session.run_command("status", client_id="c-2")
        with pytest.raises(errors.UnknownCommand, match="did you mean /status"):
            await session.run_command("statu")
        with pytest.raises(errors.CommandError, match="only at a terminal"):
            await session.run_command("quit")
        with pytest.raises(errors.OptionError, match="text is 5"):
            await session.run_command("status", 5)


async def test_the_sessions_of_a_caller_are_listed_beside_the_one_that_is_talked_with():
    """What was at work last comes first, with its first words; another's are neither listed nor known."""
    async with serving(answering("One.", "Two."), auth=auth, store="memory:") as web:
        async with agentrail.connect(url_of(web), "bob", agent_id="desk") as other:
            await other.ask("Mine alone")
        async with (
            agentrail.connect(url_of(web), "ann", agent_id="desk") as first,
            agentrail.connect(url_of(web), "ann", agent_id="desk") as second,
        ):
            await first.ask("Apples?")
            listed = await second.sessions()
            assert [one.session_id for one in listed] == [first.session_id, second.session_id]
            assert (listed[0].agent_id, listed[0].phase, listed[0].title) == ("desk", "idle", "Apples?")
            assert len(await second.sessions(1)) == 1
            assert await second.knows_session(first.session_id)
            assert not await second.knows_session(other.session_id)
            for limit in (0, 201, True, "5"):
                with pytest.raises(errors.OptionError, match="expected a whole number from 1 to 200"):
                    await second.sessions(limit)
        for text in (b"", b"[]", b'{"sessions": [{"phase": "idle"}]}', b"[" * 100_000):
            with pytest.raises(errors.CodecError, match="; it may be a newer version"):
                read_session_page(text)


async def test_an_id_that_is_not_a_text_is_refused_at_once():
    """A `UUID` would be sent as a text, and its handle would wait for events of another session."""
    number = UUID(int=7)
    async with serving(answering(), auth=auth) as web:
        for name in ("session_id", "agent_id"):
            with pytest.raises(errors.OptionError, match=rf"{name} is UUID\(.*expected a text"):
                async with agentrail.connect(url_of(web), "ann", **{name: number}):
                    pass
        async with agentrail.connect(url_of(web), "ann", "mine", "desk") as mine:
            with pytest.raises(errors.OptionError, match=r"session_id is UUID\(.*expected a text"):
                await mine.fork(session_id=number)


async def test_an_empty_reason_is_none():
    """Not refused, as in this process: a form of a page sends what its field has."""
    async with (
        serving(answering(), auth=auth) as web,
        agentrail.connect(url_of(web), "ann", agent_id="desk") as session,
    ):
        assert (await session.abort(" ")).settled
        await session.compact("")
        with pytest.raises(errors.UnknownApproval):
            await session.reject("none", "")
        await session.stop("")


async def test_errors_are_those_of_a_session_in_this_process():
    """Class and attributes, on calls and subscriptions; an abort gives its caller a receipt, and the prompt's caller an exception."""
    model = ScriptedModel([says("One."), says("a", "b", pause_seconds=60)])
    async with serving(model, auth=auth) as web:
        async with agentrail.connect(url_of(web), "ann", agent_id="desk") as session:
            with pytest.raises(errors.UnknownApproval):
                await session.approve("none")
            for ahead in (10_000, 2**60, 10**5_000):
                with pytest.raises(errors.CursorAhead) as caught:
                    async with session.subscribe(after=ahead):
                        pass
                assert caught.value.positions[session.session_id] < 10_000
            with pytest.raises(errors.NotRemote, match="via"):
                await session.prompt("Hi", via="http")
            with pytest.raises(errors.NotRemote, match="code"):
                await session.attach_tools()
            async with trio.open_nursery() as nursery:
                monitor, gone = session.monitor(), []

                async def watch():
                    gone.append(await monitor.wait())

                nursery.start_soon(watch)
                async with session.subscribe(after=0) as stream:
                    await session.stop()
                    assert isinstance([event async for event in stream][-1], events.SessionEnd)
            assert gone[0].session_id == session.session_id
            with pytest.raises((errors.SessionDown, errors.SessionUnknown)):
                await session.prompt("Hi")
        with pytest.raises(errors.Unauthorized):
            async with agentrail.connect(url_of(web), "wrong"):
                pass
        async with agentrail.connect(url_of(web), "ann", "mine", "desk") as mine:
            assert mine.session_id == "mine"
            with pytest.raises(errors.SessionUnknown):
                async with agentrail.connect(url_of(web), "bob", "mine"):
                    pass
            async with agentrail.connect(url_of(web), "ann", "mine") as again:
                assert await again.ask("Hi") == "One."
                assert len(await mine.messages()) == 2
            async with trio.open_nursery() as nursery, mine.subscribe() as stream:

                async def ask():
                    with pytest.raises(errors.CycleAborted, match="enough"):
                        await mine.ask("Hi")

                nursery.start_soon(ask)
                while not isinstance(await anext(stream), events.AgentStart):
                    pass
                assert (await mine.abort("enough")).settled


_KEPT_BY_PYTHON = pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="since CPython 3.12, contextlib keeps an error that an async generator replaces, as a nursery does",
)


@pytest.mark.parametrize(
    "why", ["token", *[pytest.param(one, marks=_KEPT_BY_PYTHON) for one in ("profile", "session", "block")]]
)
async def test_the_error_of_a_connection_is_freed_without_the_collector(why):
    """With the connection: one that is refused, or whose block raises, leaves no cycle."""
    token = "none" if why == "token" else "ann"
    named = (
        {"session_id": "s-none"} if why == "session" else {"agent_id": "none" if why == "profile" else "desk"}
    )
    async with serving(answering("One."), auth=auth) as web:
        known = None
        with without_collector():
            try:
                async with agentrail.connect(url_of(web), token, **named):
                    raise errors.YourMove
            except errors.AgentrailError as error:
                known = weakref.ref(error)
            await trio.lowlevel.checkpoint()
            assert known is not None
            assert known() is None


async def test_an_error_of_a_cancelled_block_is_not_lost():
    """It leaves `connect` unchanged, although the connection is cancelled too."""
    async with serving(answering("One."), auth=auth) as web:

        async def fail_as_cancelled():
            with trio.CancelScope() as scope:
                async with agentrail.connect(url_of(web), "ann", agent_id="desk"):
                    scope.cancel()
                    raise errors.YourMove

        with pytest.raises(errors.YourMove):
            await fail_as_cancelled()
