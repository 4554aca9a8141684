"""What a host says about a prompt: through which door it came, which request brought it, and what its sender's words were."""

import hashlib

import pytest
import trio

from agentrail.errors import BadRequest, CannotGoOn, ClientIdReused, CycleFailed, SessionDown
from agentrail.events import AgentEnd, AgentStart, PromptReceived
from agentrail.messages import AssistantMessage, CallId, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentrail.testing.models import ScriptedModel, fails, says
from tests.runtime.rig import saying

DIGEST = hashlib.sha256(b"Look.").hexdigest()


async def test_events_say_whose_a_prompt_is(supervisor):
    """The door and the request stand in what begins, and the end names the prompt."""
    session = await supervisor.start_session(model=saying("fine"))
    async with session.subscribe(kinds=(PromptReceived, AgentStart, AgentEnd)) as events:
        receipt = await session.prompt("Hi", via="http", request_id="tenant:1@req+7")
        assert receipt.request_id == "tenant:1@req+7"
        seen = [await events.__anext__() for _ in range(3)]
    assert (seen[0].via, seen[0].request_id) == ("http", "tenant:1@req+7")
    assert seen[1].request_id == "tenant:1@req+7"
    assert {event.ref for event in seen} == {receipt.ref}
    assert seen[0].meta.seq == receipt.seq


async def test_a_message_is_known_by_its_senders_words(supervisor):
    """Other content under one digest is the same message: it has the first receipt, and there is no second cycle."""
    session = await supervisor.start_session(model=saying("fine"))
    assert await session.receipt_of("web-1") is None
    first = await session.prompt("A file.\n---\nLook.", client_id="web-1", digest=DIGEST, request_id="r1")
    again = await session.prompt(
        "Another file.\n---\nLook.", client_id="web-1", digest=DIGEST, request_id="r2"
    )
    assert (
        first
        == again
        == await session.receipt_of("web-1")
        == await session.receipt_of("web-1", digest=DIGEST)
    )
    assert await session.collect_reply() == "fine"
    assert [message.content[0].text for message in await session.messages()] == [
        "A file.\n---\nLook.",
        "fine",
    ]
    with pytest.raises(ClientIdReused):
        await session.receipt_of("web-1", digest="0" * 64)
    with pytest.raises(ClientIdReused):
        await session.prompt("A file.\n---\nLook.", client_id="web-1")


async def test_a_receipt_of_a_steer_is_found_too(supervisor):
    """Both kinds of messages have names of one room."""
    session = await supervisor.start_session(model=saying("fine"))
    steered = await session.steer("Left.", client_id="web-2", request_id="r3", via="acp")
    assert steered.status == "became_prompt"
    assert await session.receipt_of("web-2") == steered
    assert steered.request_id == "r3"


async def test_a_caller_that_is_gone_asks_for_nothing(supervisor):
    """A cancelled question leaves nothing behind; an ended session says that it has ended."""
    session = await supervisor.start_session(model=saying("fine"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.receipt_of("web-1")
    assert scope.cancelled_caught
    await session.stop()
    with pytest.raises(SessionDown):
        await session.receipt_of("web-1")


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


async def test_a_cycle_that_failed_is_tried_again_without_new_words(supervisor):
    """The prompt stands in the history once, whoever answers it."""
    model = ScriptedModel([fails(BadRequest("no such model")), says("Here.")])
    session = await supervisor.start_session(model=model)
    with pytest.raises(CannotGoOn, match="no conversation yet"):
        await session.go_on()
    with pytest.raises(CycleFailed):
        await session.ask("Where?")
    with trio.CancelScope() as scope:  # a caller that is gone before it asked has asked for nothing
        scope.cancel()
        await session.go_on()
    assert (await session.status()).phase == "idle"
    await session.go_on()
    assert await session.collect_reply() == "Here."
    assert len(await session.messages()) == 2


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
