"""The WebSocket frames, as a client encodes and decodes them. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from agentrail.core.wire.codec import decode_event
from agentrail.events import Event, UnknownEvent
from agentrail.structs import decoder_of
from agentrail.wire.form_fields import decoded_answer
from agentrail.wire.operations import OPERATIONS
from agentrail.wire.plain import encode_plain
from agentrail.wire.server_frames import FrameHead

USUAL_FRAME_BYTES: Final = 1 << 20
USUAL_FRAMES_A_SECOND: Final = 100
"""Default rate limit, if the server states none."""


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    frame_bytes: Annotated[float, Meta(ge=1, le=1 << 40)] = USUAL_FRAME_BYTES
    commands_per_second: Annotated[float, Meta(ge=1, le=1e9)] = USUAL_FRAMES_A_SECOND


class ServerFrame(FrameHead, frozen=True, kw_only=True):
    """A frame of the server, of any type. `agentrail.wire.server_frames` describes each type.

    Attributes:
        heartbeat: In seconds.
    """

    event: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    heartbeat: Annotated[float, Meta(ge=1, le=3_600)] = 15.0
    limits: LinkLimits = LinkLimits()


_FRAMES: Final = decoder_of(ServerFrame)
_OBJECTS: Final = decoder_of(dict[str, Any])


def decode_server_frame(text: str | bytes) -> ServerFrame:
    return decoded_answer(_FRAMES, text, "the server sent an invalid frame of agentrail.v1")


class LinkTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The server's terms for a connection.

    Attributes:
        heartbeat: In seconds.
    """

    heartbeat: float
    frame_bytes: int
    frames_a_second: float


def terms_in(frame: ServerFrame) -> LinkTerms:
    size, rate = frame.limits.frame_bytes, frame.limits.commands_per_second
    return LinkTerms(heartbeat=frame.heartbeat, frame_bytes=int(size), frames_a_second=max(rate, 2.0))


def object_in(result: str | bytes) -> dict[str, Any]:
    return decoded_answer(_OBJECTS, result)


def event_in(frame: ServerFrame) -> Event | UnknownEvent:
    return decode_event(bytes(b"null" if frame.event is UNSET else frame.event))


def position_of(event: Event | UnknownEvent) -> tuple[int, bool]:
    """Return the number of an event, even of a newer version, and whether it is ephemeral. 0 for an event without a number."""
    return (0, False) if event.meta is None else (event.meta.seq, event.meta.ephemeral)


def session_in(event: Event | UnknownEvent) -> str:
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
