"""What a host says about a prompt: through which door it came, which request brought it, and what its sender's words were."""

from typing import Any

import pytest
import trio

from agentrail.errors import CannotGoOn
from agentrail.events import AgentEnd, AgentStart, PromptReceived
from agentrail.messages import (
    AssistantMessage,
    CallId,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    TraceContext,
    UserMessage,
)
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from tests.runtime.rig import open_over, saying


async def test_results_from_elsewhere_are_answered(supervisor):
    """A conversation that ends with results is a whole one: the model answers, and no word was said for that."""
    past = (
        UserMessage(content=(Text(text="Look."),)),
        AssistantMessage(content=(ToolCall(call_id=CallId("c1"), name="look", arguments={}),), model="m"),
        ToolMessage(results=(ToolResult(call_id=CallId("c1"), name="look", text="a cat"),)),
    )
    session = await supervisor.start_session(model=saying("A cat.", "Meow."), messages=past)
    async with session.subscribe(kinds=(PromptReceived, AgentStart, AgentEnd)) as events:
        receipt = await session.go_on(via="http", request_id="r1", client_id="web-1")
        started, ended = [await events.__anext__() for _ in range(2)]
    assert (started.ref, started.goes_on, started.via, started.request_id) == (
        receipt.ref,
        True,
        "http",
        "r1",
    )
    assert (ended.ref, [message.text for message in ended.messages]) == (receipt.ref, ["A cat."])
    assert receipt.seq == started.meta.seq
    assert await session.go_on(client_id="web-1") == receipt
    with pytest.raises(CannotGoOn, match="ends with an answer"):
        await session.go_on()
    assert await session.ask("And it says?") == "Meow."


async def test_settings_reach_the_model_for_one_cycle(supervisor):
    """As a mapping or as the class; the next cycle has none, and a child of the session has none."""
    model = saying('{"n": 1}', "plain")
    session = await supervisor.start_session(model=model, max_output_tokens=100)
    wanted = {"temperature": 0, "max_output_tokens": 50, "response_format": {"type": "object"}}
    await session.prompt("Count.", settings=wanted)
    assert await session.collect_reply() == '{"n": 1}'
    assert await session.ask("And now?") == "plain"
    first, second = model.requests
    assert (first.settings.temperature, first.max_output_tokens) == (0.0, 50)
    assert (second.settings, second.max_output_tokens, second.response_format) == (None, 100, None)
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.prompt("Never said.", settings=wanted)
    assert len(await session.messages()) == 4


async def test_instructions_are_the_last_section_of_one_cycle(supervisor):
    """Also where the session has no system prompt of its own; the next cycle does not have them."""
    for prompt in (None, "You are a clerk."):
        model = saying("Yes.", "No.")
        session = await supervisor.start_session(model=model, system_prompt=prompt, base_prompt=False)
        await session.prompt("Hi", settings={"instructions": "Be brief."})
        await session.collect_reply()
        await session.ask("And?")
        told = [prompt, "Be brief."] if prompt else ["Be brief."]
        assert [request.system for request in model.requests] == ["\n\n".join(told), prompt]


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE: Any = {"traceparent": PARENT, "tracestate": "rojo=00f067aa0ba902b7"}
MALFORMED: Any = (
    {"traceparent": "none"},
    {"traceparent": f"ff{PARENT[2:]}"},
    {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"},
    {"traceparent": PARENT, "tracestate": f"k={'v' * 598}"},
    PARENT,
)


async def traces_in(supervisor: SessionSupervisor) -> list[TraceContext | None]:
    """What the events say of each prompt's trace."""
    page = await supervisor.events_page("s-1", after=0, kinds=[PromptReceived])
    return [event.trace for event in page.events if isinstance(event, PromptReceived)]


async def test_the_trace_of_a_sender_is_kept_and_a_malformed_one_is_counted():
    """In the events that tell of its prompt, in the journal, and in the next process; every prompt is answered."""
    store, known = MemoryStore(lease_ms=0), TraceContext(**STATE)
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(model=saying(*"abcdefghi"), session_id="s-1")
        for trace in (None, {"authorization": "x"}, STATE, known, *MALFORMED):
            await session.prompt("Hi", trace=trace)
            await session.collect_reply()
        parent = TraceContext(traceparent=PARENT)
        told = [None, None, known, known, None, None, None, parent, None]
        assert await traces_in(supervisor) == told
        assert supervisor.statistics().malformed_traces == len(MALFORMED)
    bodies = [bytes(record.body) for record in store.read("", "s-1") if record.kind == "prompt"]
    assert [b"tracestate" in body for body in bodies] == [False, False, True, True] + [False] * 5
    async with open_over(store) as supervisor:
        assert await traces_in(supervisor) == told
