"""`check_dialects`: checks that every vendor accepts a request, so that the session can switch to any model.

check_dialects(model.requests[-1])  # in all formats that agentrail speaks
check_dialect("openai-chat", MyProvider().encode(request))  # one body, of a provider of your own
"""

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from agentrail.abc import Provider
from agentrail.core.protocol.request import ModelRequest
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses

Dialect: TypeAlias = Literal["anthropic", "openai-chat", "openai", "google"]
"""A wire format, by the name of its provider."""

_Item: TypeAlias = Mapping[str, Any]


def check_dialects(request: ModelRequest) -> None:
    """Check that a request can be sent in every format that agentrail speaks.

    Args:
        request: A request of a session, such as those in `ScriptedModel.requests`.

    Raises:
        AssertionError: The caller's mistake in the conversation. The message names the format, the rule and the place.
    """
    for name, provider in _providers().items():
        check_dialect(name, provider.encode(request))


def check_dialect(dialect: Dialect, body: bytes) -> None:
    """Check that a body follows the rules of its format.

    Args:
        dialect: The format.
        body: JSON, as `Provider.encode` returns it.

    Raises:
        AssertionError: A mistake of the provider's author. The message names the rule and the place.
    """
    read: _Item = json.loads(body)
    try:
        _RULES[dialect](read)
    except AssertionError as error:
        message = f"{dialect} would refuse this request: {error}"
        raise AssertionError(message) from None


@functools.cache
def _providers() -> Mapping[Dialect, Provider]:
    options, unused = ProviderOptions.parse({}), HttpClients()
    return MappingProxyType(
        {
            "anthropic": AnthropicMessages(options, unused),
            "openai-chat": OpenAIChat(options, unused),
            "openai": OpenAIResponses(options, unused),
            "google": Gemini(options, unused),
        }
    )


def _anthropic(body: _Item) -> None:
    messages = body["messages"]
    _turns_alternate([message["role"] for message in messages])
    for place, message in enumerate(messages):
        blocks = message["content"]
        _is_not_empty(blocks, place)
        for block in blocks:
            assert block["type"] != "text" or block["text"].strip(), f"a text of message {place} is blank"
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert all(block["type"] == "tool_result" for block in blocks[: len(answers)]), (
            f"message {place} has content before its results"
        )
        before = messages[place - 1]["content"] if place else ()
        _are_answered([block["id"] for block in before if block["type"] == "tool_use"], answers, place)
    last = messages[-1]["content"] if messages else ()
    _nothing_is_open([block["id"] for block in last if block["type"] == "tool_use"])


def _openai_chat(body: _Item) -> None:
    messages = body["messages"]
    # Each result is a separate message.
    _turns_alternate(
        [role for role in (message["role"] for message in messages) if role != "tool"], tools=True
    )
    expected: list[str] = []
    for place, message in enumerate(messages):
        _is_not_empty(message.get("content") or message.get("tool_calls"), place)
        if message["role"] == "tool":
            assert expected, f"message {place} is a result without a call"
            wanted = expected.pop(0)
            _are_answered([wanted], [message["tool_call_id"]], place)
            continue
        _nothing_is_open(expected)
        expected = [call["id"] for call in message.get("tool_calls", ())]
        _arguments_are_objects(
            (call["function"]["arguments"] for call in message.get("tool_calls", ())), place
        )
    _nothing_is_open(expected)


def _openai(body: _Item) -> None:
    items = body["input"]
    kinds = [item.get("type") or item["role"] for item in items]
    leads_to = {
        "reasoning": {"reasoning", "assistant", "function_call"},
        # Output of a response after its calls comes before their results.
        "function_call": {"reasoning", "assistant", "function_call", "function_call_output", "user"},
        "user": {"reasoning", "assistant", "function_call"},
        "assistant": {"reasoning", "user", "function_call", "function_call_output"},
        "function_call_output": {"reasoning", "user", "assistant", "function_call", "function_call_output"},
    }
    for place, (kind, following) in enumerate(itertools.pairwise(kinds)):
        assert following in leads_to[kind], f"{following} comes after {kind} at item {place}"
    assert kinds[-1:] != ["reasoning"], "reasoning is last, with no output after it"
    expected: list[str] = []
    for place, (item, kind) in enumerate(zip(items, kinds, strict=True)):
        _is_not_empty(item.get("content", "no content"), place)
        if kind == "function_call":
            expected.append(item["call_id"])
            _arguments_are_objects([item["arguments"]], place)
        elif kind == "function_call_output":
            _are_answered(expected[:1], [item["call_id"]], place)
            del expected[:1]
        elif kind == "user":
            _nothing_is_open(expected)
    _nothing_is_open(expected)


def _google(body: _Item) -> None:
    contents = body["contents"]
    _turns_alternate([content["role"] for content in contents])
    for place, content in enumerate(contents):
        parts = content["parts"]
        _is_not_empty(parts, place)
        answers = [part["functionResponse"]["id"] for part in parts if "functionResponse" in part]
        before = contents[place - 1]["parts"] if place else ()
        _are_answered(
            [part["functionCall"]["id"] for part in before if "functionCall" in part], answers, place
        )
    last = contents[-1]["parts"] if contents else ()
    _nothing_is_open([part["functionCall"]["id"] for part in last if "functionCall" in part])


_RULES: Final[Mapping[Dialect, Callable[[_Item], None]]] = MappingProxyType(
    {"anthropic": _anthropic, "openai-chat": _openai_chat, "openai": _openai, "google": _google}
)


def _turns_alternate(roles: Sequence[str], *, tools: bool = False) -> None:
    for place, (one, other) in enumerate(itertools.pairwise(roles)):
        # With results left out, a response may follow a response: the results were between them.
        assert one != other or (tools and one == "assistant"), (
            f"{one!r} has two messages in a row, from message {place}"
        )


def _is_not_empty(content: object, place: int) -> None:
    assert content, f"message {place} is empty"


def _are_answered(calls: Sequence[str], answers: Sequence[str], place: int) -> None:
    assert list(calls) == list(answers), (
        f"expected the results of {', '.join(calls) or 'no call'} at {place}, got those of {', '.join(answers) or 'none'}"
    )


def _nothing_is_open(calls: Sequence[str]) -> None:
    assert not calls, f"there is no result after {', '.join(calls)}"


def _arguments_are_objects(texts: Iterable[str], place: int) -> None:
    for text in texts:
        assert isinstance(json.loads(text), dict), f"the arguments at {place} are not an object: {text}"
