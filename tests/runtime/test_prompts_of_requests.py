"""What a host says about a prompt: through which door it came, which request brought it, and what its sender's words were."""

import pytest
import trio

from agentrail.errors import CannotGoOn
from agentrail.events import AgentEnd, AgentStart, PromptReceived
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from tests.runtime.rig import saying


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
