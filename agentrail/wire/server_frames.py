"""The frames that a server sends over a WebSocket, subprotocol `agentrail.v1`, and with which codes a socket closes.

Pure values. Each frame is one JSON object in one text message; `type` says which. An event has its wire form in the field `event`. What a
client sends is read in `agentrail.gateway`, and written in `agentrail.remote`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from agentrail.structs import Value

PROTOCOL: Final = "agentrail.v1"
"""The subprotocol, which a client has to offer."""

FrameId: TypeAlias = str | int
"""How a client calls one of its frames."""


class CloseCode(IntEnum):
    """With what a socket is closed; behind each stands whose move it is."""

    GOING_DOWN = 1001  # the client should reconnect and resume at the cursors
    TOO_LARGE = 1009  # the client should send less in one frame
    SERVER_FAULT = 1011  # our fault, with the cause in the log
    MALFORMED = 4400  # a bug in the client, which reconnecting does not fix
    UNAUTHORIZED = 4401  # the client needs another token
    SILENT = 4408  # the client should send pings and reconnect
    SLOW = 4409  # the client should read faster or subscribe to less, then resume at the cursors
    FLOOD = 4429  # the client should send fewer frames per second


REASONS: Final[Mapping[CloseCode, str]] = {
    CloseCode.GOING_DOWN: "shutdown",
    CloseCode.TOO_LARGE: "too_large",
    CloseCode.SERVER_FAULT: "internal",
    CloseCode.MALFORMED: "malformed",
    CloseCode.UNAUTHORIZED: "unauthorized",
    CloseCode.SILENT: "no_heartbeat",
    CloseCode.SLOW: "slow_reader",
    CloseCode.FLOOD: "flood",
}
"""What `closing` says of each code."""


class SocketLimits(Value, frozen=True, kw_only=True):
    """What a client is told of the limits of its socket.

    Attributes:
        frame_bytes: Of one frame that it sends.
        subscriptions: How many it may have.
        commands_per_second: How many frames it may send.
    """

    frame_bytes: int
    subscriptions: int
    commands_per_second: int


class Welcome(Value, frozen=True, kw_only=True, tag_field="type", tag="welcome"):
    """The answer to `hello`: commands are taken from here on.

    Attributes:
        protocol: `agentrail.v1`.
        heartbeat: Seconds; a client that is not heard of for twice as long is taken for lost.
        limits: Of the socket.
        version: Of the server.
        instance: A text that each process makes anew: another one is a process that was started since.
    """

    protocol: str
    heartbeat: float
    limits: SocketLimits
    version: str = ""
    instance: str = ""


class Subscribed(Value, frozen=True, kw_only=True, tag_field="type", tag="subscribed"):
    """A session is read from here on. Comes again, with the same id, where the client has to begin anew; a `reply` of that id is the end.

    Attributes:
        id: Of the frame that asked for it.
        session_id: Which session.
        seq: The number that events follow on.
        snapshot: How the session stands there, for one that begins.
    """

    id: FrameId
    session_id: str
    seq: int
    snapshot: Raw | UnsetType = UNSET


class SocketReply(Value, frozen=True, kw_only=True, tag_field="type", tag="reply"):
    """What became of a frame.

    Attributes:
        id: Of the frame; None where it had none.
        ok: Whether it was done.
        result: What it gave, as its route does over HTTP.
        error: Why not: `code`, `message`, `hint` as over HTTP, and its `status` there.
    """

    id: FrameId | None
    ok: bool
    result: Raw | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class Pong(Value, frozen=True, kw_only=True, tag_field="type", tag="pong"):
    """The answer to `ping`.

    Attributes:
        n: As it came.
    """

    n: int


class Lag(Value, frozen=True, kw_only=True, tag_field="type", tag="lag"):
    """Ephemeral events were left out, because the client reads too slowly.

    Attributes:
        session_id: Of which session.
        dropped: How many.
    """

    session_id: str
    dropped: int


class RowsWatched(Value, frozen=True, kw_only=True, tag_field="type", tag="watching"):
    """Rows are watched from here on; what there is comes with it, and behind it in `changed` where that is much.

    Attributes:
        id: Of the frame that asked for it.
        what: What is watched.
        rows: Some of those that there are.
        total: How many are wanted in all, also those beyond the limit.
    """

    id: FrameId
    what: str
    rows: tuple[Raw, ...]
    total: int


class Changed(Value, frozen=True, kw_only=True, tag_field="type", tag="changed"):
    """Rows that are watched are other ones now. A `reply` with the same id is the end.

    Attributes:
        id: Of the frame that asked for it.
        rows: That are new, or other than before, each as a whole.
        gone: The keys of rows that are not there any more, or not wanted.
        total: How many are wanted in all, also those beyond the limit.
    """

    id: FrameId
    rows: tuple[Raw, ...]
    gone: tuple[str, ...]
    total: int


class Closing(Value, frozen=True, kw_only=True, tag_field="type", tag="closing"):
    """The last frame of a socket.

    Attributes:
        reason: Why; each code of a close has its own.
        cursors: For each session that was read, the number to go on after.
    """

    reason: str
    cursors: dict[str, int]
