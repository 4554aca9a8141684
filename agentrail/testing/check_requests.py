"""`check_requests_extend`: each request of a quiet session extends the one before it, byte for byte.

model = ScriptedModel([calls(("add", {"a": 1})), says("1"), says("Bye.")])
...  # a session that talks to it
check_requests_extend(model.requests, [AnthropicMessages(ProviderOptions(), HttpClients())])
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.abc import Provider
from agentrail.core.protocol.request import ModelRequest
from agentrail.messages import AssistantMessage, Message, Origin, ToolMessage, UserMessage

_AROUND: Final = 40
_WHOSE: Final[Mapping[Origin, str]] = MappingProxyType(
    {
        "prompt": "the user's prompt",
        "steer": "the user's steer",
        "intervention": "a plugin's intervention",
        "note": "a note of the session",
    }
)


def check_requests_extend(requests: Sequence[ModelRequest], providers: Iterable[Provider] = ()) -> None:
    """Check that no request changes the content of the one before it.

    Args:
        requests: Requests of one session, in order, such as `ScriptedModel.requests`. No intended rewrite may be between
            them: no compaction, no other model, no attached tools.
        providers: Providers whose bodies must also extend each other, byte for byte.

    Raises:
        AssertionError: Some content is volatile. The message names the request, the part, its old and its new value.
    """
    kinds = list(providers)
    for number, (older, newer) in enumerate(itertools.pairwise(requests), 1):
        place = f"request {number} does not extend request {number - 1}"
        for what, before, after in _parts(older, newer):
            assert before == after, f"{place}: {what} {_changed(repr(before), repr(after))}"
        for provider in kinds:
            gone = _gone(provider.encode(older), provider.encode(newer)).decode(errors="replace")
            words = gone if len(gone) <= 2 * _AROUND else f"{gone[:_AROUND]} … {gone[-_AROUND:]}"
            assert not gone, (
                f"{place}: {provider.name} encodes the same values differently, and this is missing: {words}"
            )


def _parts(older: ModelRequest, newer: ModelRequest) -> Iterator[tuple[str, object, object]]:
    """Yield the parts of both requests, with a name for users, in the order in which vendors cache them."""
    before, after = ({spec.name: spec for spec in request.tools} for request in (older, newer))
    for name in sorted({*before, *after}):
        yield f"the tool {name!r}", before.get(name), after.get(name)
    yield "the system prompt", older.system, newer.system
    for position, message in enumerate(older.messages):
        now = newer.messages[position] if position < len(newer.messages) else None
        yield f"message {position} ({_kind(message)})", message, now


def _gone(older: bytes, newer: bytes) -> bytes:
    """Return the lost bytes of a body. Empty if the newer one is the older one with an insertion at one place.

    At any one place rather than the end, because some formats write the tools after the conversation.
    """
    begin = _first_difference(older, newer)
    end = len(older) - _first_difference(older[::-1], newer[::-1])
    return older[begin:end]


def _kind(message: Message) -> str:
    match message:
        case UserMessage(origin=origin):
            return _WHOSE[origin]
        case AssistantMessage():
            return "the model's"
        case ToolMessage(results=results):
            return f"the results of {', '.join(result.name for result in results)}"


def _changed(before: str, after: str) -> str:
    """Return the change, with a few words around the first difference."""
    place = _first_difference(before, after)
    begin = max(0, place - _AROUND)
    return f"was …{before[begin : place + _AROUND]}… and is now …{after[begin : place + _AROUND]}…"


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
