"""Tools of the client through the doors: who answers, who answers too late, what is no answer, and sessions without a client."""

from typing import Any

import pytest

from agentrail.abc import Error, Ok
from agentrail.core.protocol.signals import AnswerCall, SignalId
from agentrail.core.session.client_calls import MAX_ANSWER_BYTES
from agentrail.core.session.machine import step
from agentrail.errors import AlreadyResolved, InvalidResponse
from agentrail.events import AgentEnd, AgentSuspended, ClientCall, ToolExecutionEnd, WaitingFor
from agentrail.messages import ClientCallRef, JsonObject
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.client import ClientTool
from tests.runtime.rig import until

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


async def test_an_answer_that_is_too_long_is_refused_and_the_call_waits_on(supervisor):
    """At the door, and by the core too, which may be told of one by a journal."""
    session = await supervisor.start_session(model=calling(), tools=[SHOW])
    async with session.subscribe() as events:
        called = await until_called(session, events)
        with pytest.raises(InvalidResponse, match="has 1,048,577 bytes, at most 1,048,576 are allowed"):
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
