"""The next request to the model, part by part, for users who want to see it. Pure, read-only, without decisions."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from agentrail.core.policy.request_context import fixed_tokens_of, outgoing, tokens_of
from agentrail.core.session.state import Known
from agentrail.core.session.views import (
    model_of,
    offered_tools_of,
    own_prompt_of,
    system_prompt_of,
    system_sections_of,
)
from agentrail.core.values.toolbox import Toolbox
from agentrail.frozen import canonical_json
from agentrail.messages import (
    AssistantMessage,
    FileRef,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)

PartKind: TypeAlias = Literal["system", "tools", "message", "provider", "summary"]

MAX_HEAD_CHARACTERS: Final = 500
MAX_MESSAGES_NAMED: Final = 1_000
"""Maximum number of messages that are parts of their own. Earlier ones form one part together."""


class ContextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the next model request.

    Attributes:
        name: Name of a section or a tool, or the kind of a message.
        kind: Kind of the part.
        role: Role of a message, or None for other parts.
        seq: Number of the event that added it, or None if unknown.
        tokens: Estimated length in tokens.
        text_head: Beginning of the text, at most 500 characters.
        call_ids: Calls requested by an answer, or calls answered by results.
        ref: Prompt that the message belongs to, or None for other parts.
    """

    name: str
    kind: PartKind
    role: str | None
    seq: int | None
    tokens: int
    text_head: str
    call_ids: tuple[str, ...]
    ref: str | None


class ContextReply(msgspec.Struct, frozen=True, kw_only=True):
    """The next model request.

    Attributes:
        model: Model string.
        window: Context window in tokens, or None if unknown.
        tokens: Estimated length of all parts in tokens.
        counted_tokens: Tokens counted by the vendor in the last request, or 0 before the first.
        digest: SHA-256 of the request, hexadecimal.
        parts: Parts in the order of the request.
    """

    model: str
    window: int | None
    tokens: int
    counted_tokens: int
    digest: str
    parts: tuple[ContextPart, ...]


Clean: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""


def next_request_of(data: Known, clean: Clean) -> ContextReply:
    handed = data.cycle.handed if data.cycle is not None else None
    _, messages = outgoing(data.outgoing, data.history.messages if handed is None else handed, data.refused)
    drawn = (
        *_system_parts(data),
        *[
            _part(spec.name, "tools", fixed_tokens_of(None, Toolbox([spec])), spec.description)
            for spec in offered_tools_of(data)
        ],
        *_message_parts(messages),
        *_added_parts(data),
    )
    parts = tuple([replace(part, text_head=clean(part.text_head)[:MAX_HEAD_CHARACTERS]) for part in drawn])
    facts = model_of(data)
    return ContextReply(
        model=facts.model,
        window=None if facts.window_is_assumed else facts.context_window,
        tokens=sum(part.tokens for part in parts),
        counted_tokens=data.context_tokens,
        digest=_digest_of(system_prompt_of(data), offered_tools_of(data), messages),
        parts=parts,
    )


_LOOKED_AT: Final = 8_192
"""Length of the part of a text that is cleaned for its beginning: more than the longest key."""

_NO_TOOLS: Final = Toolbox()


def _system_parts(data: Known) -> Iterator[ContextPart]:
    own = own_prompt_of(data)
    for name, text in (*([("system_prompt", own)] if own else []), *system_sections_of(data)):
        yield _part(name, "system", fixed_tokens_of(text, _NO_TOOLS), text)


def _message_parts(messages: Sequence[Message]) -> Iterator[ContextPart]:
    before = max(0, len(messages) - MAX_MESSAGES_NAMED)
    if before:
        yield _part("earlier", "message", tokens_of(tuple(islice(messages, before))), f"{before}")
    for place in range(before, len(messages)):
        yield _message_part(messages[place], is_first=place == 0)


def _message_part(message: Message, *, is_first: bool) -> ContextPart:
    tokens, head = tokens_of((message,)), _head_of(message)
    match message:
        case UserMessage(origin=origin, ref=ref):
            kind: PartKind = "summary" if is_first and origin == "note" else "message"
            return _part(origin, kind, tokens, head, role="user", ref=ref)
        case AssistantMessage():
            ids = tuple([call.call_id for call in message.calls])
            return _part("answer", "message", tokens, head, role="assistant", call_ids=ids)
        case ToolMessage(results=results):
            ids = tuple([result.call_id for result in results])
            return _part("results", "message", tokens, head, role="tool", call_ids=ids)
        case never:
            assert_never(never)


def _added_parts(data: Known) -> Iterator[ContextPart]:
    """Yield the parts added after the conversation: context for this turn alone, and new steers."""
    cycle = data.cycle
    if cycle is not None and cycle.context is not None and cycle.context.count:
        context = cycle.context
        yield _part(context.digest[:8], "provider", context.tokens, f"{context.count}")
    for steer in data.steers:
        said = UserMessage(content=(Text(text=steer.text),), origin="steer")
        yield _part("steer", "message", tokens_of((said,)), steer.text, role="user")


def _part(  # noqa: PLR0913 - one argument per field
    name: str,
    kind: PartKind,
    tokens: int,
    text: str,
    *,
    role: str | None = None,
    call_ids: tuple[str, ...] = (),
    ref: str | None = None,
) -> ContextPart:
    return ContextPart(
        name=name,
        kind=kind,
        role=role,
        seq=None,
        tokens=tokens,
        text_head=_head(text),
        call_ids=call_ids,
        ref=ref,
    )


def _head_of(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return _head("\n".join([f"{one.name}: {one.text[:_LOOKED_AT]}" for one in message.results]))
    told: list[str] = []
    for block in message.content:
        match block:
            case Text(text=text) | Thinking(text=text):
                told.append(text[:_LOOKED_AT])
            case ToolCall(name=name):
                told.append(f"{name}(…)")
            case FileRef(path=path):
                told.append(path)
            case _:
                told.append(f"[{type(block).__name__.lower()}]")
    return _head("\n".join(told))


def _head(text: str) -> str:
    return text[:_LOOKED_AT]


def _digest_of(system: str | None, tools: Toolbox, messages: Sequence[Message]) -> str:
    digest = hashlib.sha256((system or "").encode("utf-8", "surrogatepass"))
    for spec in tools:
        parameters = msgspec.to_builtins(spec.parameters, enc_hook=dict)
        digest.update(canonical_json([spec.name, spec.description, parameters]))
    for message in messages:
        digest.update(canonical_json(msgspec.to_builtins(message)))
    return digest.hexdigest()
