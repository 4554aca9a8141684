"""The frames of the WebSocket as a client writes and reads them. Pure.

What a server says that is newer than this client is left out: a frame of an unknown type is none, unknown fields are skipped.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentrail.core.wire.codec import decode_event
from agentrail.errors import CodecError
from agentrail.events import Event, UnknownEvent
from agentrail.structs import decoder_of
from agentrail.wire.operations import OPERATIONS
from agentrail.wire.plain import encode_plain

USUAL_FRAME_BYTES: Final = 1 << 20
USUAL_FRAMES_A_SECOND: Final = 100
"""Where the server does not say."""


class ServerFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of the server, of whichever type; what it does not have is as below. `agentrail.wire.server_frames` describes each.

    Attributes:
        heartbeat: Seconds.
    """

    type: str
    id: str | int | None = None
    session_id: str = ""
    seq: int = 0
    snapshot: Raw | UnsetType = UNSET
    event: Raw | UnsetType = UNSET
    ok: bool = False
    result: Raw | UnsetType = UNSET
    error: dict[str, Any] = msgspec.field(default_factory=dict)
    heartbeat: float = 15.0
    limits: dict[str, Any] = msgspec.field(default_factory=dict)
    dropped: int = 0
    reason: str = ""


_FRAMES: Final = decoder_of(ServerFrame)


def decode_server_frame(text: str | bytes) -> ServerFrame:
    """Read a frame."""
    try:
        return _FRAMES.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"what the server sent is no frame of agentrail.v1: {error}"
        raise CodecError(message, path="$") from error


class LinkTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of a connection.

    Attributes:
        heartbeat: Seconds.
    """

    heartbeat: float
    frame_bytes: int
    frames_a_second: float


def terms_in(frame: ServerFrame) -> LinkTerms:
    """Read the terms of a connection out of `welcome`; what it does not say is as usual."""
    bounds = {
        "heartbeat": (frame.heartbeat, 1.0, 3_600.0),
        "frame_bytes": (frame.limits.get("frame_bytes", USUAL_FRAME_BYTES), 1, 1 << 40),
        "commands_per_second": (frame.limits.get("commands_per_second", USUAL_FRAMES_A_SECOND), 1, 1e9),
    }
    for name, (value, least, most) in bounds.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            message = f"what the server sent is no welcome of agentrail.v1: {name} is {value!r:.80}, expected {least} to {most}"
            raise CodecError(message, path=f"$.{name}")
    (beat, *_), (size, *_), (rate, *_) = bounds.values()
    return LinkTerms(heartbeat=float(beat), frame_bytes=int(size), frames_a_second=max(float(rate), 2.0))


def object_in(result: bytes) -> dict[str, Any]:
    """Read a result that is an object."""
    try:
        told = msgspec.json.decode(result or b"null")
    except RecursionError as error:
        message = f"what the server sent cannot be read: {error}"
        raise CodecError(message, path="$") from error
    if not isinstance(told, dict):
        message = f"what the server sent is {told!r:.80}, expected an object"
        raise CodecError(message, path="$")
    return told


def event_in(frame: ServerFrame) -> Event | UnknownEvent:
    """Read the event of a frame that has one."""
    return decode_event(bytes(b"null" if frame.event is UNSET else frame.event))


def position_of(event: Event | UnknownEvent) -> tuple[int, bool]:
    """Give the number of an event and whether it is ephemeral; of one of a newer version too. 0 for one without a number."""
    if isinstance(event, UnknownEvent):
        told = msgspec.json.decode(event.document)
        seq = told.get("seq", 0)
        return seq if type(seq) is int else 0, bool(told.get("ephemeral", False))
    return (0, False) if event.meta is None else (event.meta.seq, event.meta.ephemeral)


def session_in(event: Event | UnknownEvent) -> str:
    """Say which session an event is of; empty for one that does not."""
    if isinstance(event, UnknownEvent):
        return str(msgspec.json.decode(event.document).get("session_id", ""))
    return "" if event.meta is None else event.meta.session_id


def hello_frame(heartbeat_seconds: float) -> bytes:
    """Write the first frame. The token went with the upgrade, so that it is refused as an upgrade is."""
    return encode_plain({"type": "hello", "heartbeat": heartbeat_seconds})


def ping_frame(number: int) -> bytes:
    """Write the frame that says that this client is there."""
    return encode_plain({"type": "ping", "n": number})


# `rules` only reads, but its frame has always had a `client_id`: frames stay as they are.
_READS: Final = frozenset(
    {one.name for one in OPERATIONS if one.is_read} - {"rules"}
    | {"messages", "request", "commands", "sessions"}
)


def named_fields(name: str, fields: Mapping[str, Any], new_name: str) -> Mapping[str, Any]:
    """Give a command that changes something a name, where it has none: sent again under it, it is not done twice."""
    if name in _READS or fields.get("client_id") is not None:
        return fields
    return {**fields, "client_id": new_name}


def command_frame(name: str, frame_id: int, session_id: str | None, fields: Mapping[str, Any]) -> bytes:
    """Write a command, or a frame that is written like one: `subscribe`, `unsubscribe`."""
    told = {key: value for key, value in fields.items() if value is not None}
    named = {} if session_id is None else {"session_id": session_id}
    return encode_plain({**told, **named, "type": name, "id": frame_id})
