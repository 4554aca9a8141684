"""Tools of the client through the doors: who answers, who answers too late, what is no answer, and sessions without a client."""

from typing import Any

import pytest
import trio

from agentrail.abc import Error, Ok
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.request import ModelRequest
from agentrail.core.protocol.signals import AnswerCall, SignalId
from agentrail.core.session.client_calls import MAX_ANSWER_BYTES
from agentrail.core.session.machine import step
from agentrail.errors import AlreadyResolved, InvalidResponse, OptionError
from agentrail.events import AgentEnd, AgentSuspended, ClientCall, ToolExecutionEnd, WaitingFor
from agentrail.messages import ClientCallRef, JsonObject, ToolMessage
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, calls, says
from agentrail.tools.client import ClientTool
from tests.runtime.rig import open_over, until

PLACE: JsonObject = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
SHOW = ClientTool(name="show_map", description="Show a place on the map.", parameters=PLACE)


def calling() -> ScriptedModel:
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


def brought(*required: str) -> ClientTool:
    """One name, another schema for each prompt."""
    parameters: JsonObject = {"type": "object", "required": list(required)}
    return ClientTool(name="show_map", description=f"Show a {required[0]}.", parameters=parameters)


BROKEN: JsonObject = {
    "name": "show_map",
    "description": "Show.",
    "parameters": {"type": "object", "$ref": "http://example.com"},
}


class ToolsSeen:
    """A model that calls the tool of its cycle once, as soon as it may, and keeps what it was shown."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.shown: list[list[tuple[str, JsonObject]]] = []

    async def answer(self, request: ModelRequest) -> Turn:
        await self.open.wait()
        self.shown.append([(spec.name, spec.parameters) for spec in request.tools])
        if not request.tools or isinstance(request.messages[-1], ToolMessage):
            return says("There.")
        required: Any = request.tools.specs[0].parameters["required"]
        return calls(("show_map", dict.fromkeys(required, 1)))


@pytest.mark.protocol(67)
async def test_each_prompt_in_the_queue_shows_the_model_its_own_client_tool():
    """P-067: of one name, with another schema; a restart between them changes nothing, and the next cycle has none."""
    store, seen = MemoryStore(lease_ms=0), ToolsSeen()
    model = FunctionModel(seen.answer)
    settings = PromptSettings(tools=(brought("place").spec,))
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=model, session_id="s-1")
        async with session.subscribe() as events:
            await session.prompt("Where is it?", settings=settings)
            await session.prompt("And that?", settings={"tools": [brought("lat", "lon")]})
            with pytest.raises(
                OptionError, match=r"tools\[0\] 'show_map': the schema of tool 'show_map' refers to"
            ):
                await session.prompt("And there?", settings={"tools": [BROKEN]})
            seen.open.set()
            first = await called_in(events)
        assert len((await session.status()).queued) == 1
    async with open_over(store) as supervisor:
        session = await supervisor.resume_session("s-1", model=model)
        async with session.subscribe(after=first.meta.seq) as events:
            await session.answer(first.ref, Ok(text="shown"))
            second = await called_in(events)
            await session.answer(second.ref, Ok(text="shown"))
            await until(events, AgentEnd)
        assert (first.arguments, second.arguments) == ({"place": 1}, {"lat": 1, "lon": 1})
        one, other = (
            [("show_map", brought("place").parameters)],
            [("show_map", brought("lat", "lon").parameters)],
        )
        assert seen.shown == [one, one, other, other]
        assert await session.ask("And now?") == "There."
        assert seen.shown[4:] == [[]]


async def called_in(events) -> ClientCall:
    """The next call of the client."""
    *_, called = await until(events, ClientCall)
    assert isinstance(called, ClientCall)
    return called
