"""The WebSocket frames, as a client encodes and decodes them. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentrail.core.wire.codec import decode_event
from agentrail.errors import CodecError
from agentrail.events import Event, UnknownEvent
from agentrail.structs import decoder_of
from agentrail.wire.form_fields import decoded_answer
from agentrail.wire.operations import OPERATIONS
from agentrail.wire.plain import encode_plain
from agentrail.wire.server_frames import FrameHead

USUAL_FRAME_BYTES: Final = 1 << 20
USUAL_FRAMES_A_SECOND: Final = 100
"""Default rate limit, if the server states none."""


class ServerFrame(FrameHead, frozen=True, kw_only=True):
    """A frame of the server, of any type. `agentrail.wire.server_frames` describes each type.

    Attributes:
        heartbeat: In seconds.
    """

    event: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    heartbeat: float = 15.0
    limits: dict[str, Any] = msgspec.field(default_factory=dict)


_FRAMES: Final = decoder_of(ServerFrame)
_OBJECTS: Final = decoder_of(dict[str, Any])


def decode_server_frame(text: str | bytes) -> ServerFrame:
    try:
        return _FRAMES.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the server sent an invalid frame of agentrail.v1: {error}"
        raise CodecError(message, path="$") from error


class LinkTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The server's terms for a connection.

    Attributes:
        heartbeat: In seconds.
    """

    heartbeat: float
    frame_bytes: int
    frames_a_second: float


def terms_in(frame: ServerFrame) -> LinkTerms:
    bounds = {
        "heartbeat": (frame.heartbeat, 1.0, 3_600.0),
        "frame_bytes": (frame.limits.get("frame_bytes", USUAL_FRAME_BYTES), 1, 1 << 40),
        "commands_per_second": (frame.limits.get("commands_per_second", USUAL_FRAMES_A_SECOND), 1, 1e9),
    }
    for name, (value, least, most) in bounds.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            message = f"the server sent an invalid welcome of agentrail.v1: {name} is {value!r:.80}, expected {least} to {most}"
            raise CodecError(message, path=f"$.{name}")
    (beat, *_), (size, *_), (rate, *_) = bounds.values()
    return LinkTerms(heartbeat=float(beat), frame_bytes=int(size), frames_a_second=max(float(rate), 2.0))


def object_in(result: str | bytes) -> dict[str, Any]:
    return decoded_answer(_OBJECTS, result)


def event_in(frame: ServerFrame) -> Event | UnknownEvent:
    return decode_event(bytes(b"null" if frame.event is UNSET else frame.event))


def position_of(event: Event | UnknownEvent) -> tuple[int, bool]:
    """Return the number of an event, even of a newer version, and whether it is ephemeral. 0 for an event without a number."""
    if isinstance(event, UnknownEvent):
        told = msgspec.json.decode(event.document)
        seq = told.get("seq", 0)
        return seq if type(seq) is int else 0, bool(told.get("ephemeral", False))
    return (0, False) if event.meta is None else (event.meta.seq, event.meta.ephemeral)


def session_in(event: Event | UnknownEvent) -> str:
    if isinstance(event, UnknownEvent):
        return str(msgspec.json.decode(event.document).get("session_id", ""))
    return "" if event.meta is None else event.meta.session_id


def hello_frame(heartbeat_seconds: float) -> bytes:
    return encode_plain({"type": "hello", "heartbeat": heartbeat_seconds})


def ping_frame(number: int) -> bytes:
    return encode_plain({"type": "ping", "n": number})


# `rules` only reads, but its frame has always had a `client_id`, and frames do not change.
_READS: Final = frozenset(
    {one.name for one in OPERATIONS if one.is_read} - {"rules"}
    | {"messages", "request", "commands", "sessions"}
)


def named_fields(name: str, fields: Mapping[str, Any], new_name: str) -> Mapping[str, Any]:
    """Add a client id to a command that changes something, so that a repetition has no second effect."""
    if name in _READS or fields.get("client_id") is not None:
        return fields
    return {**fields, "client_id": new_name}


def command_frame(name: str, frame_id: int, session_id: str | None, fields: Mapping[str, Any]) -> bytes:
    told = {key: value for key, value in fields.items() if value is not None}
    named = {} if session_id is None else {"session_id": session_id}
    return encode_plain({**told, **named, "type": name, "id": frame_id})
