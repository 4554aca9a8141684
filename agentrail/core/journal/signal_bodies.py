"""The bodies of records that are signals: as short as they can be, and read back to the very signal. Pure.

A record says of itself what kind it is and when it was, so its body does not say it again. Fields that hold their default are left
out, and so are those of what nearly every signal has in it: an answer of a model, its calls, what it used. So a default means for ever
what it means today. In version 1 of records a body was the signal as `encode_signal` writes it, whole; those are read like the others.
What a record is, and which signals become one, does not enter.
"""

from collections.abc import Callable, Mapping
from math import copysign
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, Raw
from msgspec.structs import fields

from agentrail.core.journal.record import HEARD
from agentrail.core.protocol.signals import ChunksArrived, Signal
from agentrail.core.wire.codec import SIGNAL_KINDS, decode_signal, encode_event, encode_signal
from agentrail.errors import CodecError
from agentrail.events import Event
from agentrail.messages import AssistantBlock, AssistantMessage, TokenUsage, ToolCall

_OF_THE_RECORD: Final = frozenset({"at_ms"})
"""Fields of a signal that its record has: its kind is the other one."""


def encode_signal_body(signal: Signal) -> bytes:
    """Write a signal as the body of its record.

    Args:
        signal: Any; its `at_ms` and its kind are left to the record.

    Returns:
        A JSON object, UTF-8, without a line break.
    """
    try:
        return _encoder.encode(_SIGNALS[type(signal)](signal))
    except UnicodeEncodeError:  # half of a character: what that codec makes of it
        mended = decode_signal(encode_signal(signal))
        return _encoder.encode(_SIGNALS[type(mended)](mended))


def decode_signal_body(kind: str, at_ms: int, body: bytes) -> Signal:
    """Read what `encode_signal_body` wrote, or the whole signal that a body of version 1 is.

    Args:
        kind: Of the record.
        at_ms: Of the record.
        body: Of the record, with its large values in place.

    Raises:
        CodecError: Your move: it is no such text, or one of a newer version.
    """
    if body.startswith(_WHOLE):
        signal = decode_signal(body)
        if SIGNAL_KINDS[type(signal)] != _TAGS.get(kind):
            said = f"no signal: at $.kind: expected that of a {kind!r:.60} record, got {SIGNAL_KINDS[type(signal)]!r}"
            raise CodecError(said, path="$.kind")
        return signal
    head = _HEADS.get(kind)
    if head is None:
        message = f"no signal: at $.kind: Invalid value {kind!r:.60}; a newer version may have written it"
        raise CodecError(message, path="$.kind")
    return decode_signal(head + str(at_ms).encode() + (b"}" if body == b"{}" else b"," + body[1:]))


def whole_body(kind: str, at_ms: int, body: bytes) -> bytes:
    """Give a body with all that its record says and all defaults, as `encode_signal` writes it; of no signal the very one.

    Args:
        kind: As of `decode_signal_body`; so are the others.
        at_ms: As there.
        body: As there.

    Raises:
        CodecError: As there.
    """
    return encode_signal(decode_signal_body(kind, at_ms, body)) if kind in _HEADS else body


_TAGS: Final[Mapping[str, str]] = MappingProxyType(
    {kind: kind for kind in SIGNAL_KINDS.values()} | {HEARD: SIGNAL_KINDS[ChunksArrived]}
)
_WHOLE: Final = b'{"kind":'
"""How bodies of version 1 begin, and no other: the tag of a signal comes first, and none of its fields has that name."""

_HEADS: Final[Mapping[str, bytes]] = MappingProxyType(
    {kind: b'{"kind":"%b","at_ms":' % tag.encode() for kind, tag in _TAGS.items()}
)
"""What is put in front of a body again."""


# --- short forms


def _short_float(value: Any) -> Any:
    """Give the very zero that is left out for any other one; but for -0.0, which is not the default."""
    return _ZERO if value == 0.0 and copysign(1.0, value) > 0 else value


# Not typed as a number: compiled code makes a new object of one each time that it hands it on.
_ZERO: Final[Any] = float()  # noqa: UP018 - a literal would be put in place of its name


def _short_blocks(blocks: Any) -> Any:
    return [_short_call(block) if type(block) is ToolCall else block for block in blocks]


def _short_event(event: Event) -> Raw:
    return Raw(encode_event(event))


def _short_of(kind: type[msgspec.Struct], *, left_out: frozenset[str] = frozenset(), is_tagged: bool) -> Any:
    """Make what makes the short form of the values of a class.

    Args:
        kind: The class.
        left_out: Names of fields that are not written.
        is_tagged: Whether it says which class it is.
    """
    # msgspec leaves out a field only where the very object of the default stands in it, or for all fields of a class. So the
    # values go into a class of the same fields that leaves out what it may: what is one object wherever it comes from.
    own = [field for field in fields(kind) if field.name not in left_out]
    config = kind.__struct_config__
    tag: Any = {"tag_field": config.tag_field, "tag": config.tag} if is_tagged else {}
    twin: Any = msgspec.defstruct(
        f"_Short{kind.__name__}",
        [(field.encode_name, Any, _default_of(field)) for field in own],
        omit_defaults=True,
        gc=False,
        **tag,
    )
    how = {place: _HOW[field.type] for place, field in enumerate(own) if field.type in _HOW}
    read = _reader([field.name for field in own])
    if not how:
        return lambda value: twin(*read(value))

    def short(value: Any) -> Any:
        given = list(read(value))
        for place, one in how.items():
            given[place] = one(given[place])
        return twin(*given)

    return short


def _reader(names: list[str]) -> Callable[[Any], Any]:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            one = attrgetter(name)
            return lambda value: (one(value),)
        case _:
            return attrgetter(*names)


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    """Give the default that is left out; what stands in no signal where the field is always written."""
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if type(default) is float and default == 0.0:
        return _ZERO
    is_one_object = default is None or default in ((), "") or type(default) is bool
    # Small numbers are one object each in CPython. Words and values of classes are not.
    is_small = type(default) is int and 0 <= default <= _MOST_KEPT
    return default if is_one_object or is_small else _ALWAYS


_ALWAYS: Final = object()
_MOST_KEPT: Final = 256

_encoder: Final = msgspec.json.Encoder()

_HOW: Final[dict[Any, Callable[[Any], Any]]] = {
    float: _short_float,
    float | None: _short_float,
    Event: _short_event,
    tuple[AssistantBlock, ...]: _short_blocks,
}
"""By the annotation of a field."""

_short_call: Final = _short_of(ToolCall, is_tagged=True)
_HOW[TokenUsage] = _short_of(TokenUsage, is_tagged=False)
_HOW[AssistantMessage] = _short_of(AssistantMessage, is_tagged=True)

_SIGNALS: Final[Mapping[type[Signal], Callable[[Any], Any]]] = MappingProxyType(
    {kind: _short_of(kind, left_out=_OF_THE_RECORD, is_tagged=False) for kind in SIGNAL_KINDS}
)
