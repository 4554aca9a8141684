"""Events and signals as JSON and back, one object each. Pure; how a class becomes an object is decided in `wire_form`.

An event begins with what every reader needs: `kind`, `seq`, `session_id`, `at_ms`; then come its own fields, all of
them, under their own names. What stands in a union says which member it is: blocks have a `kind`, messages a `role`.
So each object can be decoded without looking at what else it holds.

A newer version has kinds and fields that this one does not know. An event that has some of them is kept as an
`UnknownEvent`, whole, because whoever only passes it on or draws it must not lose it. A signal is refused: a state that was
made from half of a signal would be another state.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agentrail.core.changes import RequestCompaction, UpdateContext, UpdateTodos
from agentrail.core.hooks import FileText, FileWritten, Found, ModelAnswer, RequestFailed
from agentrail.core.request import (
    ArgumentsDelta,
    Completed,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    UsageUpdate,
)
from agentrail.core.signals import Signal
from agentrail.core.wire_form import FieldOfTwin, Form, Forms, Shape, Tag, one_of
from agentrail.errors import CodecError
from agentrail.events import KINDS, Envelope, Event, UnknownEvent, kind_of
from agentrail.messages import (
    AssistantMessage,
    FileRef,
    Image,
    Opaque,
    SessionId,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)

TAGS: Final[Mapping[type, Tag]] = MappingProxyType(
    {
        Text: ("kind", "text"),
        Image: ("kind", "image"),
        FileRef: ("kind", "file_ref"),
        Thinking: ("kind", "thinking"),
        Opaque: ("kind", "opaque"),
        ToolCall: ("kind", "tool_call"),
        UserMessage: ("role", "user"),
        AssistantMessage: ("role", "assistant"),
        ToolMessage: ("role", "tool"),
        TextDelta: ("kind", "text_delta"),
        ThinkingDelta: ("kind", "thinking_delta"),
        ToolCallStarted: ("kind", "tool_call_started"),
        ArgumentsDelta: ("kind", "arguments_delta"),
        UsageUpdate: ("kind", "usage_update"),
        Completed: ("kind", "completed"),
        FileText: ("kind", "file_text"),
        FileWritten: ("kind", "file_written"),
        ModelAnswer: ("kind", "model_answer"),
        Found: ("kind", "found"),
        RequestFailed: ("kind", "request_failed"),
        UpdateTodos: ("kind", "update_todos"),
        UpdateContext: ("kind", "update_context"),
        RequestCompaction: ("kind", "request_compaction"),
    }
)
"""How the members of unions are told apart: the name and the value of a member of the object."""

SIGNAL_KINDS: Final[Mapping[type[Signal], str]] = MappingProxyType(
    {signal: kind_of(signal) for signal in get_args(Signal)}
)
"""The name of each kind of signal in a journal: the class name in snake_case."""


# --- events


def encode_event(event: Event | UnknownEvent) -> bytes:
    """Encode an event as one JSON object, without a line break.

    Args:
        event: With its `meta`, as subscribers get it; one that was made by hand has no number, session and time.

    Returns:
        UTF-8. `ephemeral` is there, and true, for events that are never replayed; `session_path` for those of a session
        that another one started. What was decoded as unknown comes out as it went in.
    """
    if isinstance(event, UnknownEvent):
        return event.document
    return _encode(_twin_of(event))


def decode_event(text: bytes | str) -> Event | UnknownEvent:
    """Decode what `encode_event` made, in this version, an older one or a newer one.

    Args:
        text: One JSON object.

    Returns:
        The event, with its `meta` if the object has a number. An `UnknownEvent` where this version does not know the
        kind, a field, or a word that stands where only certain words may.

    Raises:
        CodecError: Your move: this is no JSON, or no event.
    """
    try:
        return _event_of(_events.decode(text))
    except _FAULTS as error:
        if not _is_news(error):
            raise _refusal(error, of="event") from error
    return _unknown(text)


def event_schema() -> dict[str, Any]:
    """Give the JSON Schema, draft 2020-12, of all that `encode_event` writes in this version."""
    return msgspec.json.schema(WireEvent)


# The envelope: there on all that a session published, and absent, all of it, on an event that somebody made by hand.
_ENVELOPE: Final[tuple[FieldOfTwin, ...]] = (
    ("seq", int | UnsetType, UNSET),
    ("session_id", str | UnsetType, UNSET),
    ("at_ms", int | UnsetType, UNSET),
    ("session_path", tuple[str, ...] | UnsetType, UNSET),
    ("ephemeral", bool | UnsetType, UNSET),
)


def _twin_of(event: Event) -> Struct:
    form = _FORMS[type(event)]
    meta = event.meta
    if meta is None:
        return form.write(event)
    return form.twin(
        seq=meta.seq,
        session_id=meta.session_id,
        at_ms=meta.at_ms,
        session_path=meta.path if len(meta.path) > 1 else UNSET,
        ephemeral=meta.ephemeral or UNSET,
        **form.fields_of(event),
    )


def _event_of(twin: Any) -> Event:
    form = _FORM_OF_TWIN[type(twin)]
    event: Event = form.of(meta=_envelope_of(twin), **form.values_of(twin))
    return event


def _envelope_of(twin: Any) -> Envelope | None:
    parts = (twin.seq, twin.session_id, twin.at_ms)
    if UNSET not in parts:
        own = SessionId(twin.session_id)
        path = (own,) if twin.session_path is UNSET else twin.session_path
        return Envelope(own, twin.seq, twin.at_ms, path, twin.ephemeral is True)
    if parts == (UNSET, UNSET, UNSET):
        return None
    message = "no event: seq, session_id and at_ms belong together, and one of them is missing: give all three or none"
    raise CodecError(message, path="$")


_event_forms: Final = Forms(
    {**TAGS, **{event: ("kind", kind) for event, kind in KINDS.items()}},
    module=__name__,
    loops={Event: Shape("WireEvent", _twin_of, _event_of)},
)
_FORMS: Final[Mapping[type[Event], Form]] = {
    event: _event_forms.form_of(event, head=_ENVELOPE, skip=frozenset({"meta"})) for event in KINDS
}
_FORM_OF_TWIN: Final = {form.twin: form for form in _FORMS.values()}
WireEvent: Final = one_of(_FORM_OF_TWIN)
"""The union of the twins. The twin of `SubagentEvent` finds it by this name."""
_events: Final = msgspec.json.Decoder(WireEvent)


class _Outline(Struct, frozen=True, gc=False):
    """What can be read of an event that is not known."""

    kind: str
    seq: int | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    at_ms: int | UnsetType = UNSET
    session_path: tuple[str, ...] | UnsetType = UNSET
    ephemeral: bool | UnsetType = UNSET


_outlines: Final = msgspec.json.Decoder(_Outline)


def _unknown(text: bytes | str) -> UnknownEvent:
    try:
        outline = _outlines.decode(text)
        # Not the values that Python would make of it: 1.0 and 1e0 are one number to Python, two texts to the next reader.
        document = msgspec.json.format(text.encode() if isinstance(text, str) else text, indent=-1)
    except _FAULTS as error:
        raise _refusal(error, of="event") from error
    return UnknownEvent(meta=_envelope_of(outline), kind=outline.kind, document=document)


# --- signals


def encode_signal(signal: Signal) -> bytes:
    """Encode a signal as one JSON object, without a line break.

    Args:
        signal: Any; whether it should be journaled is not decided here.

    Returns:
        UTF-8; `kind` comes first, then the signal's fields, all of them.
    """
    return _encode(_SIGNAL_FORMS[type(signal)].write(signal))


def decode_signal(text: bytes | str) -> Signal:
    """Decode what `encode_signal` made, in this version or an older one.

    Args:
        text: One JSON object.

    Raises:
        CodecError: Your move: this is no JSON, no signal, or one of a newer version.
    """
    try:
        twin: Struct = _signals.decode(text)
    except _FAULTS as error:
        raise _refusal(error, of="signal") from error
    signal: Signal = _SIGNAL_OF_TWIN[type(twin)].read(twin)
    return signal


_signal_forms: Final = Forms(
    {**TAGS, **{signal: ("kind", kind) for signal, kind in SIGNAL_KINDS.items()}},
    module=__name__,
    loops={Event: Shape("WireEvent", _twin_of, _event_of)},
)
_SIGNAL_FORMS: Final[Mapping[type[Signal], Form]] = {
    signal: _signal_forms.form_of(signal) for signal in SIGNAL_KINDS
}
_SIGNAL_OF_TWIN: Final = {form.twin: form for form in _SIGNAL_FORMS.values()}
_signals: Final = msgspec.json.Decoder(one_of(_SIGNAL_OF_TWIN))


# --- JSON


def _plain(value: object) -> NoReturn:
    message = f"{type(value).__name__} is no JSON: objects, arrays, texts, numbers, true, false and null are"
    raise TypeError(message)


_encoder: Final = msgspec.json.Encoder(enc_hook=_plain)


def _encode(twin: Struct) -> bytes:
    try:
        return _encoder.encode(twin)
    except UnicodeEncodeError:  # a lone surrogate, which some models write as an escape and no UTF-8 can hold
        return _encoder.encode(_mended(msgspec.to_builtins(twin, enc_hook=_plain)))


def _mended(value: object) -> object:
    match value:
        case str():
            # Through UTF-16, where two halves that belong together become the one character that they mean.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_mended(name): _mended(item) for name, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value


_FAULTS: Final = (
    msgspec.DecodeError,
    RecursionError,
)  # the second for what is nested more deeply than Python may go

# How msgspec begins to say that a name is new: of a field, of a member of a union, of a word in a closed set. All else
# that it says is about a value of the wrong type, or one that is missing.
_NEWS: Final = ("Object contains unknown field", "Invalid value", "Invalid enum value")
_PLACE: Final = re.compile(r"(?P<fault>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)


def _is_news(error: Exception) -> bool:
    return str(error).startswith(_NEWS)


def _refusal(error: Exception, *, of: Literal["event", "signal"]) -> CodecError:
    found = _PLACE.fullmatch(str(error))
    assert found is not None  # noqa: S101 - the pattern takes every text
    path = found["path"] or "$"
    hint = "a newer version may have written it" if _is_news(error) else f"pass what encode_{of} made"
    return CodecError(f"no {of}: at {path}: {found['fault']}; {hint}", path=path)
