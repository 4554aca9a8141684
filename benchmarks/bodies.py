"""What the body of a request costs when the conversation is long: one message more behind a thousand, and behind ten.

A message is encoded once per wire format and a body is a join of what is kept, so the work grows with what is new. No network
and no session: the very method that a session's request goes through, for all four formats.
"""

from functools import partial
from time import process_time
from typing import Final

from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.values.history import Log
from agentrail.core.values.toolbox import Toolbox
from agentrail.messages import AssistantMessage, Message, Text, UserMessage
from agentrail.providers.http import HttpClients
from agentrail.providers.options import ProviderOptions
from agentrail.providers.vendors import AnthropicMessages, Gemini, OpenAIChat, OpenAIResponses
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, Target, interleave
from benchmarks.ours import expect

_LONG: Final = 1_000
_SHORT: Final = 10
_BODIES: Final = 50
_CHARACTERS: Final = 200
_MICROSECONDS: Final = 1e6
_FORMATS: Final = (AnthropicMessages, OpenAIChat, OpenAIResponses, Gemini)


def bodies(effort: Effort) -> list[Row]:
    """The body with one new message behind 1,000 of equal size; bare: behind 10."""
    count = effort.of(_BODIES)
    rounds = interleave(partial(_grow, count, _SHORT), partial(_grow, count, _LONG), effort.rounds)
    return [
        rounds.row(
            "bodies",
            "body_encodings",
            "messages encoded for the body with one new message behind 1,000; bare: behind 10",
            unit="messages",
            target=Target(of="ours", must=1.0),
        ),
        rounds.row(
            "bodies",
            "body_seconds",
            "CPU for that body, all four formats; bare: behind 10",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("body"),
        ),
    ]


def _grow(count: int, length: int) -> Sample:
    http = HttpClients()
    providers = [kind(ProviderOptions(), http) for kind in _FORMATS]
    messages: Log[Message] = Log()
    for place in range(length):
        messages = messages.appended(_message(place))
    for provider in providers:
        provider.encode(_request(messages))
        expect("encodings of the whole", provider.encodings, length)
    took = 0.0
    for place in range(length, length + count):
        messages = messages.appended(_message(place))
        request = _request(messages)
        began_at = process_time()
        for provider in providers:
            provider.encode(request)
        took += process_time() - began_at
    encoded = sum(provider.encodings - length for provider in providers)
    return {
        "body_encodings": encoded / (count * len(providers)),
        "body_seconds": took / (count * len(providers)),
    }


def _request(messages: Log[Message]) -> ModelRequest:
    return ModelRequest(
        attempt=EffectId("r1"), model="stub:model", system="Be kind.", messages=messages, tools=Toolbox()
    )


def _message(place: int) -> Message:
    content = (Text(text=f"{place} ".ljust(_CHARACTERS, "x")),)
    return (
        AssistantMessage(content=content, model="stub:model") if place % 2 else UserMessage(content=content)
    )
