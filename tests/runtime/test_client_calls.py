"""Tools of the client through the doors: who answers, who answers too late, what is no answer, and sessions without a client."""

from typing import Any

import pytest
import trio
import trio.testing

import agentrail
from agentrail.abc import Error, Ok
from agentrail.core.protocol.signals import AnswerCall, SignalId
from agentrail.core.session.client_calls import MAX_ANSWER_BYTES
from agentrail.core.session.machine import step
from agentrail.errors import AlreadyResolved, InvalidResponse, OptionError, UnknownApproval
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentSuspended,
    ClientCall,
    ToolExecutionEnd,
    WaitingFor,
)
from agentrail.messages import ClientCallRef, JsonObject
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.tools import RecordingTool
from agentrail.tools.client import ClientTool
from tests.runtime.rig import on_virtual_time, until
from tests.thinned import first

PLACE: JsonObject = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
SHOW = ClientTool(name="show_map", description="Show a place on the map.", parameters=PLACE)


def calling() -> ScriptedModel:
    """A model that makes one call of the client."""
    return ScriptedModel([calls(("show_map", {"place": "Lisbon"})), says("There.")])


WRONG: Any = {1, 2}


async def until_called(session, events) -> ClientCall:
    """Prompt, and wait until the cycle waits for the client."""
    await session.prompt("Where is it?")
    seen = await until(events, AgentSuspended)
    (called,) = [one for one in seen if isinstance(one, ClientCall)]
    assert seen[-1] == AgentSuspended(
        waiting=(WaitingFor(kind="client_call", id=called.ref, call_id=called.call_id),)
    )
    return called


async def test_the_client_answers_a_call(supervisor):
    """It sees name and arguments; what it gives is the result, cleaned as that of any tool; a second one finds it answered."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        assert (called.name, called.arguments) == ("show_map", {"place": "Lisbon"})
        (waiting,) = (await session.status()).client_calls
        assert (waiting.ref, waiting.arguments) == (called.ref, {"place": "Lisbon"})
        assert (await session.status()).all_client_calls == (waiting,)
        await session.answer(called.ref, Ok(text="sh\x00own\ud800", details={"tiles": 4}))
        seen = await until(events, AgentEnd)
        with pytest.raises(AlreadyResolved, match="approved, by client"):
            await session.answer(called.ref, Error(text="late"))
    (end,) = [one for one in seen if isinstance(one, ToolExecutionEnd)]
    assert (end.result.text, end.result.is_error, end.result.details) == ("shown\ufffd", False, {"tiles": 4})


async def test_an_answer_for_a_call_that_was_taken_back_is_refused(supervisor):
    """It says by what; the session goes on."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        receipt = await session.abort("enough")
        assert receipt.unknown == (called.call_id,)
        await until(events, AgentAbort)
        with pytest.raises(AlreadyResolved, match="aborted, by abort"):
            await session.answer(called.ref, Ok(text="shown"))
        with pytest.raises(UnknownApproval, match="nothing waits under 'x/a1'"):
            await session.answer("x/a1", Ok(text="shown"))


async def test_an_answer_of_the_wrong_kind_is_refused(supervisor):
    """A call of the client is not answered with words, not declined, and not approved."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        for wrong in (
            session.respond(called.ref, "x"),
            session.decline(called.ref),
            session.approve(called.ref),
        ):
            with pytest.raises(InvalidResponse, match="is a call of the client: answer it with answer"):
                await wrong
        await session.answer(called.ref, Error(text=""))
        seen = await until(events, AgentEnd)
    (end,) = [one for one in seen if isinstance(one, ToolExecutionEnd)]
    assert (end.result.text, end.result.is_error) == ("[no output]", True)


async def test_an_answer_that_is_too_long_is_refused_and_the_call_waits_on(supervisor):
    """At the door, and by the core too, which may be told of one by a journal."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        with pytest.raises(InvalidResponse, match="has 1,048,577 bytes, at most 1,048,576 are taken"):
            await session.answer(called.ref, Ok(text="x" * (MAX_ANSWER_BYTES + 1)))
        state = session._cell.state  # noqa: SLF001 - as a journal would have it
        told = AnswerCall(
            at_ms=9,
            signal_id=SignalId("s9"),
            ref=ClientCallRef(called.ref),
            text="x" * (MAX_ANSWER_BYTES + 1),
        )
        after, (refused,) = step(state, told)
        assert isinstance(refused.error, InvalidResponse)
        assert after.data.interactions == state.data.interactions
        await session.answer(called.ref, Ok(text="shown"))
        await until(events, AgentEnd)


@pytest.mark.parametrize(
    ("ref", "outcome", "words"),
    [
        (7, Ok(text="x"), "ref is 7: expected a text"),
        ("s/a1", "x", r"outcome is 'x': expected Ok\('…'\) or Error"),
        ("s/a1", Ok(text=WRONG), "outcome has the text {1, 2}: expected a text"),
        ("s/a1", Ok(text="x", details=WRONG), "outcome.details"),
        ("s/a1", Ok(text="x", details="x" * 2_000_000), "outcome.details has more than 1,000,000 characters"),
    ],
)
async def test_what_is_no_answer_is_refused_at_the_door(supervisor, ref, outcome, words):
    """Before anything is sent."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    with pytest.raises(OptionError, match=words):
        await session.answer(ref, outcome)


@on_virtual_time
async def test_where_no_client_is_the_clock_answers(supervisor):
    """After as long as a tool may take, and the model reads that it may have taken effect."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW], tool_timeout_seconds=20)
    async with session.subscribe() as events:
        await session.prompt("Where is it?")
        seen = await until(events, AgentEnd)
    (end,) = [one for one in seen if isinstance(one, ToolExecutionEnd)]
    expected = "The client did not answer within 20 s. It may have taken effect; check before repeating."
    assert end.result.text == expected


async def test_a_client_that_is_cancelled_while_it_answers_has_answered(supervisor):
    """Only the confirmation is lost: asked again it hears that the call is decided."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.answer, called.ref, Ok(text="shown"))
                await trio.testing.wait_all_tasks_blocked(0)
                scope.cancel()
        await until(events, AgentEnd)
        with pytest.raises(AlreadyResolved):
            await session.answer(called.ref, Ok(text="shown"))


async def test_a_function_can_stand_for_a_tool_of_the_client(supervisor):
    """`answered_by="client"`: its signature is the schema, and it is never called."""

    @agentrail.tool(answered_by="client")
    async def show_map(place: str) -> str:
        """Show a place on the map."""
        raise AssertionError(place)

    session = await supervisor.start_session(model=calling(), tools=[show_map])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        await session.answer(called.ref, Ok(text="shown"))
        await until(events, AgentEnd)


async def test_outside_of_a_session_there_is_no_client():
    """The tool says so, whoever calls it."""
    ctx: Any = None
    assert (await SHOW.execute({}, ctx)).text == "There is no client to run show_map outside of a session."


@pytest.mark.parametrize("mode", first(["cancel", "crash", "close", "abort"], 2))
async def test_a_client_that_never_answers_leaves_nothing_behind(mode):
    """Struck at its n-th step, for every n: nothing waits for the client that was taken back, and all that was begun has an end."""
    reached: list[bool] = []

    async def silent_client(stage):
        """The model asks the client for something beside a tool that runs here; then come a prompt and an abort, and no answer."""
        model = ScriptedModel(
            [calls(("show_map", {"place": "Lisbon"}), ("read", {})), says("All right."), says("All right.")]
        )
        session = await stage.start_session(model=model, tools=[SHOW, RecordingTool(name="read")])
        await session.prompt("Where is it?")
        for _ in range(20):  # not until it is so: a strike may have taken it away
            if (await session.status()).client_calls:
                reached.append(True)
                break
        # Supersedes the call, if nothing else goes on; else it waits behind it.
        await session.prompt("Never mind.")
        await session.abort()
        await session.stop()

    assert await cancel_everywhere(silent_client, mode=mode) > 10
    assert reached
