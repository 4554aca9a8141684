"""JSON encoding of events and signals, one object each. Pure."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Union, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from agentrail.core.protocol.signals import ChildPublished, Signal
from agentrail.core.wire.normalize import mended
from agentrail.errors import CodecError, OptionError, ToolContractError
from agentrail.events import KINDS, Envelope, Event, SubagentEvent, UnknownEvent, kind_of
from agentrail.events.union import SubagentsEvent
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import show
from agentrail.structs import converter_of, decoder_of

SIGNAL_KINDS: Final[Mapping[type[Signal], str]] = MappingProxyType(
    {signal: kind_of(signal) for signal in get_args(Signal)}
)
"""The name of each kind of signal in a journal: its tag, which never changes."""


class _Head(Struct, frozen=True, kw_only=True, gc=False):
    """The beginning of an event. The envelope is present on every published event, and absent on an event made by hand.

    When decoding, all other fields are skipped, so it can be read from any object.
    """

    kind: str
    seq: int | UnsetType = UNSET
    session_id: SessionId | UnsetType = UNSET
    at_ms: int | UnsetType = UNSET
    session_path: tuple[SessionId, ...] | UnsetType = UNSET
    ephemeral: bool | UnsetType = UNSET


# --- events


def encode_event(event: Event | UnknownEvent) -> bytes:
    """Encode an event as one JSON object, without a line break.

    Args:
        event: With its `meta`, as delivered to subscribers. An event made by hand has no number, session and time.

    Returns:
        UTF-8. `ephemeral` is present, and true, for events that are never replayed, and `session_path` for those of a session
        that another one started. An unknown event is encoded exactly as it was decoded.

    Raises:
        CodecError: Your move: not an event.
    """
    if isinstance(event, UnknownEvent):
        return event.document
    if type(event) not in _HEADS:
        message = f"{show(event)} is not an event: pass one of agentrail.events"
        raise CodecError(message, path="$")
    kind, length = _HEADS[type(event)]
    meta = event.meta
    if meta is not None:
        event = replace(event, meta=None)
    if type(event) is SubagentEvent:
        event = replace(event, event=Raw(encode_event(event.event)))
    # msgspec's output begins with the kind and an empty `meta`, if it writes one. The head replaces both.
    return _encode(_head_of(kind, meta))[:-1] + _encode(event)[length:]


def decode_event(text: bytes | str) -> Event | UnknownEvent:
    """Decode an event from `encode_event` of this version, an older one or a newer one.

    Args:
        text: One JSON object.

    Returns:
        The event, with its `meta` if the object has a number. An `UnknownEvent` if this version does not know the
        kind, a field, or a word of a closed choice.

    Raises:
        CodecError: Your move: the text is not JSON, or not an event.
    """
    try:
        return _event_of(_with_meta(_read(text)))
    except (*_FAULTS, TypeError, UnicodeEncodeError) as error:
        # The last two: neither bytes nor text of Unicode.
        if not _is_news(error):
            raise _refusal(error, of="event") from error
    return _unknown(text)


# The second form if defaults are omitted.
_BEGINS: Final = (b'{"kind":"%b","meta":null', b'{"kind":"%b"')
_HEADS: Final[dict[type[Event], tuple[str, int]]] = {
    event: (kind, len(_BEGINS[event.__struct_config__.omit_defaults] % kind.encode()))
    for event, kind in KINDS.items()
}
"""The beginning of each kind: its name, and how much msgspec writes before its own fields."""


def _head_of(kind: str, meta: Envelope | None) -> "_Head":
    if meta is None:
        return _Head(kind=kind)
    return _Head(
        kind=kind,
        seq=meta.seq,
        session_id=meta.session_id,
        at_ms=meta.at_ms,
        session_path=meta.path if len(meta.path) > 1 else UNSET,
        ephemeral=meta.ephemeral or UNSET,
    )


def _envelope_of(head: _Head, at: str = "$") -> Envelope | None:
    seq, own, at_ms, path = head.seq, head.session_id, head.at_ms, head.session_path
    if seq is not UNSET and own is not UNSET and at_ms is not UNSET:
        return Envelope(own, seq, at_ms, (own,) if path is UNSET else path, head.ephemeral is True)
    if seq is UNSET and own is UNSET and at_ms is UNSET:
        return None
    message = "not an event: seq, session_id and at_ms belong together, and one of them is missing: give all three or none"
    raise CodecError(message, path=at)


def _with_meta(document: Any, at: str = "$") -> Any:
    """Convert the JSON of an event to msgspec's form: the flat envelope moves into `meta`."""
    if type(document) is not dict:
        return document
    if "meta" in document:  # a field of the class, but not of the wire
        raise _moved(msgspec.ValidationError(_NO_FIELD), at)
    try:
        head = _to_head(document)
    except msgspec.ValidationError as error:
        raise _moved(error, at) from error
    for name in _ENVELOPE:
        document.pop(name, None)
    document["meta"] = _envelope_of(head, at)
    if head.kind == KINDS[SubagentEvent] and "event" in document:
        document["event"] = _with_meta(document["event"], f"{at}.event")
    return document


def _event_of(document: Any) -> Event:
    # By the class, because msgspec would analyse a union each time. Any union reports an unknown kind.
    kind: Any = document.get("kind") if type(document) is dict else None
    event: Event = _CONVERTERS.get(kind, _any_kind)(document)
    return event


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    kind: converter_of(event) for event, kind in KINDS.items()
}
_any_kind: Final = converter_of(SubagentsEvent)
_to_head: Final = converter_of(_Head)
_to_published: Final = converter_of(ChildPublished)
_ENVELOPE: Final = ("seq", "session_id", "at_ms", "session_path", "ephemeral")
_NO_FIELD: Final = "Object contains unknown field `meta`"


def _moved(error: msgspec.ValidationError, at: str) -> msgspec.ValidationError:
    fault, _, path = str(error).partition(" - at `$")
    return msgspec.ValidationError(f"{fault} - at `{at}{path or '`'}")


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of everything that `encode_event` writes in this version."""
    schema = msgspec.json.schema(Event)
    definitions = schema["$defs"]
    del definitions[Envelope.__name__]
    for definition in definitions.values():
        definition.pop("description", None)  # the whole docstring, which describes the Python class
        for rules in definition["properties"].values():
            rules.pop("default", None)  # defaults are written anyway
            if "anyOf" in rules and all(one == rules["anyOf"][0] for one in rules["anyOf"]):
                rules.update(rules.pop("anyOf")[0])  # two kinds of ids have the same JSON type
    head = msgspec.json.schema(_Head)["$defs"][_Head.__name__]["properties"]
    for kind in KINDS:
        definition = definitions[kind.__name__]
        own = definition["properties"]
        del own["meta"]
        definition["properties"] = {**head, **own}
    return schema


def _unknown(text: bytes | str) -> UnknownEvent:
    try:
        outline = _outlines.decode(text)
        # Not re-encoded from Python values: 1.0 and 1e0 are the same number in Python, but different texts
        # for the next reader.
        document = msgspec.json.format(text.encode() if isinstance(text, str) else text, indent=-1)
    except _FAULTS as error:
        raise _refusal(error, of="event") from error
    return UnknownEvent(meta=_envelope_of(outline), kind=outline.kind, document=document)


_outlines: Final = decoder_of(_Head)


# --- signals


def encode_signal(signal: Signal) -> bytes:
    """Encode a signal as one JSON object, without a line break."""
    if isinstance(signal, ChildPublished):
        return _encode(replace(signal, event=Raw(encode_event(signal.event))))
    return _encode(signal)


def decode_signal(text: bytes | str) -> Signal:
    try:
        return _signal_of(text)
    except _FAULTS as error:
        raise _refusal(error, of="signal") from error
    except (ToolContractError, OptionError) as error:  # a change or a price that is invalid
        message = f"no signal: {error}"
        raise CodecError(message, path="$") from error


def _signal_of(text: bytes | str) -> Signal:
    try:
        signal: Signal = _signals.decode(text)
        return signal
    except msgspec.ValidationError as error:
        if str(error) != _HAS_AN_EVENT:
            raise
    document: Any = _read(text)
    if "event" in document:
        document["event"] = _with_meta(document["event"], "$.event")
    return _to_published(document)


_HAS_AN_EVENT: Final = f"Invalid value {SIGNAL_KINDS[ChildPublished]!r} - at `$.kind`"
# All but the one that contains an event, whose envelope msgspec does not know. Its kind is checked first.
_signals: Final[msgspec.json.Decoder[Any]] = decoder_of(
    Union[tuple(kind for kind in SIGNAL_KINDS if kind is not ChildPublished)]  # noqa: UP007 - a union that only exists at runtime
)


# --- JSON


def _read(text: bytes | str) -> object:
    try:
        return _documents.decode(text)
    except msgspec.ValidationError as error:
        # A number is too large for a float, and msgspec does not report where.
        message = f"{str(error).partition(' - at ')[0]} - at `{_place_of_fault(text)}`"
        raise msgspec.ValidationError(message) from error


def _place_of_fault(text: bytes | str | Raw, path: str = "$", levels: int = 8) -> str:
    """Return the path of the unreadable part, a few levels down. Each level reads the text once more."""
    try:
        parts = _parts.decode(text) if levels else {}
    except msgspec.DecodeError:
        return path
    named = parts.items() if isinstance(parts, dict) else enumerate(parts)
    for name, part in named:
        try:
            _documents.decode(part)
        except msgspec.DecodeError:
            step = f".{name}" if isinstance(name, str) else f"[{name}]"
            return _place_of_fault(part, path + step, levels - 1)
    return path


_documents: Final = msgspec.json.Decoder()
_parts: Final = decoder_of(dict[str, Raw] | list[Raw])


def _plain(value: object) -> object:
    if isinstance(value, Raw):
        return _documents.decode(value)
    message = f"{type(value).__name__} is not JSON: expected an object, array, text, number, boolean or null"
    raise TypeError(message)


_encoder: Final = msgspec.json.Encoder(enc_hook=_plain)


def _encode(value: Struct) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate, which some models write as an escape, and UTF-8 cannot represent.
        return _encoder.encode(mended(msgspec.to_builtins(value, enc_hook=_plain)))


# RecursionError for too deeply nested values.
_FAULTS: Final = (msgspec.DecodeError, RecursionError)

# The beginnings of msgspec's errors about new names: a field, a member of a union, a word of a closed choice.
# All other errors are about wrong types or missing values.
_NEWS: Final = ("Object contains unknown field", "Invalid value", "Invalid enum value")
_PLACE: Final = re.compile(r"(?P<fault>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)


def _is_news(error: Exception) -> bool:
    return str(error).startswith(_NEWS)


def _refusal(error: Exception, *, of: Literal["event", "signal"]) -> CodecError:
    found = _PLACE.fullmatch(str(error))
    assert found is not None  # noqa: S101 - the pattern matches every text
    path = found["path"] or "$"
    hint = "it may come from a newer version" if _is_news(error) else f"pass what encode_{of} made"
    return CodecError(f"no {of}: at {path}: {found['fault']}; {hint}", path=path)
