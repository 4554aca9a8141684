"""Requests of a quiet session extend each other, and what is volatile in them is named (7.5, 7.13; AT-138 to AT-140)."""

import itertools
from typing import Any

import pytest
import trio
from msgspec.structs import replace

import agentrail
from agentrail.abc import Provider, Tool
from agentrail.core.protocol.request import ModelRequest
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import TokenUsage, UserMessage
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from agentrail.testing.check_requests import check_requests_extend
from agentrail.testing.models import ScriptedModel, calls, says
from tests.providers.transcripts import request_of, said, tools

KINDS: list[type[Any]] = [AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses]


def providers() -> list[Provider]:
    return [kind(ProviderOptions(), HttpClients()) for kind in KINDS]


@agentrail.tool(effect_class="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@agentrail.tool(effect_class="pure")
async def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


async def _requests_of_a_session(*, tools: list[Tool]) -> list[ModelRequest]:
    model = ScriptedModel(
        [
            calls(("add", {"a": 2, "b": 3}), ("multiply", {"a": 2, "b": 3}), text="Let me see."),
            says("5 and 6."),
            says("Nothing."),
            says("Good-bye."),
        ]
    )
    with trio.fail_after(60):
        async with agentrail.open_supervisor(environ={}) as supervisor:
            session = await supervisor.start_session(model=model, tools=tools)
            for prompt in ("Go on", "Say nothing", "Good-bye"):
                await session.ask(prompt)
    return model.requests


@pytest.mark.at(139)
@pytest.mark.at(140)
async def test_a_quiet_session_extends_its_requests_in_every_format():
    """With tools and their results, each body is the one before it with something put in at one place."""
    requests = await _requests_of_a_session(tools=[add, multiply])
    assert len(requests) == 4
    check_requests_extend(requests, providers())


@pytest.mark.at(138)
@pytest.mark.parametrize("kind", KINDS)
async def test_tools_attached_in_another_order_change_no_byte(kind):
    """The list of tools is sent in a stable order (AT-138)."""
    provider = kind(ProviderOptions(), HttpClients())
    for one, other in zip(
        await _requests_of_a_session(tools=[add, multiply]),
        await _requests_of_a_session(tools=[multiply, add]),
        strict=True,
    ):
        assert provider.encode(one) == provider.encode(other)


def _clock_in_the_system_prompt(request: ModelRequest, number: int) -> ModelRequest:
    return replace(request, system=f"Be brief. It is 10:0{number}. Be kind.")


def _counter_in_a_tool(request: ModelRequest, number: int) -> ModelRequest:
    spec = ToolSpec(name="add", description=f"Used {number} times.", parameters={"type": "object"})
    return replace(request, tools=Toolbox([spec]))


def _note_written_anew(request: ModelRequest, number: int) -> ModelRequest:
    note = UserMessage(content=said(f"{number} todos are open").content, origin="note")
    return replace(request, messages=(note, *request.messages))


def _first_message_lost(request: ModelRequest, number: int) -> ModelRequest:
    return replace(request, messages=request.messages[number:])


@pytest.mark.at(139)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_clock_in_the_system_prompt, r"the system prompt was ….*10:00.* and is now ….*10:01"),
        (_counter_in_a_tool, r"the tool 'add' was ….*Used 0 times.* and is now ….*Used 1 times"),
        (_note_written_anew, r"message 0 \(a note of the session\) was ….*0 todos.* and is now ….*1 todos"),
        (_first_message_lost, r"request 1 does not extend request 0: message 0 \(the user's prompt\) was"),
    ],
)
async def test_the_culprit_is_named(spoil, words):
    """What is volatile in the cached part of a request is named, with what it was and what it is (AT-139)."""
    requests = await _requests_of_a_session(tools=[add, multiply])
    spoilt = [spoil(request, number) for number, request in enumerate(requests)]
    with pytest.raises(AssertionError, match=words):
        check_requests_extend(spoilt)


class _Counting(OpenAIChat):
    """A provider that numbers its bodies, in front or at the end."""

    def __init__(self, *, in_front: bool) -> None:
        super().__init__(ProviderOptions(), HttpClients())
        self._numbers = itertools.count()
        self._in_front = in_front

    def encode(self, request: ModelRequest) -> bytes:
        number, body = b'"number":%d' % next(self._numbers), super().encode(request)
        return b"{%b,%b" % (number, body[1:]) if self._in_front else b"%b,%b}" % (body[:-1], number)


@pytest.mark.parametrize("in_front", [True, False])
def test_a_provider_that_encodes_anew_is_named(in_front):
    """Equal values that become other bytes are the provider's fault."""
    older = request_of("Hi", tools=tools())
    newer = request_of("Hi", "and?", tools=tools())
    with pytest.raises(
        AssertionError, match=r"openai-chat encodes the same values differently, .* missing: .*"
    ):
        check_requests_extend([older, newer], [_Counting(in_front=in_front)])


@pytest.mark.at(140)
def test_the_share_that_came_from_the_cache():
    """Of the input of a response, a cycle or a session; nothing read is nothing cached (AT-140)."""
    turn = TokenUsage(input=1_000, cache_read=900)
    assert turn.cached_share == 0.9
    assert (turn + TokenUsage(input=1_000)).cached_share == 0.45
    assert TokenUsage().cached_share == 0.0
