"""The frames and close codes that a server sends over a WebSocket with the subprotocol `agentrail.v1`."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType, field

from agentrail.structs import Value

PROTOCOL: Final = "agentrail.v1"
"""The subprotocol that a client must offer."""

MAX_CURSOR: Final = (1 << 53) - 1
"""The largest whole number that every client can represent."""

FrameId: TypeAlias = str | int
"""Id that a client gives one of its frames."""


class CloseCode(IntEnum):
    """Close code of a socket. The comment on each member names who must act."""

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
"""The `reason` in a `closing` frame, for each code."""


class SocketLimits(Value, frozen=True, kw_only=True):
    """Limits of a socket, as sent to the client.

    Attributes:
        frame_bytes: Maximum size of one client frame, in bytes.
        subscriptions: Maximum number of subscriptions.
        commands_per_second: Maximum number of client frames per second.
    """

    frame_bytes: int
    subscriptions: int
    commands_per_second: int


class Welcome(Value, frozen=True, kw_only=True, tag_field="type", tag="welcome"):
    """Reply to `hello`. The server now accepts commands.

    Attributes:
        protocol: `agentrail.v1`.
        heartbeat: Seconds. A client that is silent for twice as long is considered lost.
        limits: Limits of the socket.
        version: Version of the server.
        instance: Random text of the server process. It changes when the server restarts.
    """

    protocol: str
    heartbeat: float
    limits: SocketLimits
    version: str = ""
    instance: str = ""


class Subscribed(Value, frozen=True, kw_only=True, tag_field="type", tag="subscribed"):
    """A subscription has started. Sent again, with the same id, if the client must start over. A `reply` with that id ends it.

    Attributes:
        id: Id of the frame that requested it.
        session_id: Id of the session.
        seq: Number after which events follow.
        snapshot: Snapshot of the session at `seq`, for a client that starts from the beginning.
    """

    id: FrameId
    session_id: str
    seq: int
    snapshot: Raw | UnsetType = UNSET


class SocketReply(Value, frozen=True, kw_only=True, tag_field="type", tag="reply"):
    """The outcome of a frame.

    Attributes:
        id: Id of the frame, or None if it had none.
        ok: Whether it succeeded.
        result: Its result, the same as that of its route over HTTP.
        error: Why it failed: `code`, `message` and `hint` as over HTTP, and the HTTP `status`.
    """

    id: FrameId | None
    ok: bool
    result: Raw | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class Pong(Value, frozen=True, kw_only=True, tag_field="type", tag="pong"):
    """Reply to `ping`.

    Attributes:
        n: The number from the `ping`.
    """

    n: int


class Lag(Value, frozen=True, kw_only=True, tag_field="type", tag="lag"):
    """Ephemeral events were dropped because the client reads too slowly.

    Attributes:
        session_id: Id of the session.
        dropped: Number of dropped events.
    """

    session_id: str
    dropped: int


class RowsWatched(Value, frozen=True, kw_only=True, tag_field="type", tag="watching"):
    """A watch of rows has started. It carries the existing rows, and `changed` frames carry the rest if there are many.

    Attributes:
        id: Id of the frame that requested it.
        what: Kind of the watched rows.
        rows: The first existing rows.
        total: Number of matching rows, including those beyond the limit.
    """

    id: FrameId
    what: str
    rows: tuple[Raw, ...]
    total: int


class Changed(Value, frozen=True, kw_only=True, tag_field="type", tag="changed"):
    """Watched rows have changed. A `reply` with the same id ends the watch.

    Attributes:
        id: Id of the frame that requested the watch.
        rows: New and changed rows, each complete.
        gone: Keys of rows that no longer exist or no longer match.
        total: Number of matching rows, including those beyond the limit.
    """

    id: FrameId
    rows: tuple[Raw, ...]
    gone: tuple[str, ...]
    total: int


class Closing(Value, frozen=True, kw_only=True, tag_field="type", tag="closing"):
    """The last frame of a socket.

    Attributes:
        reason: Reason for closing. Each close code has its own.
        cursors: By subscribed session, the event number to resume after.
    """

    reason: str
    cursors: dict[str, int]


class FrameHead(Struct, frozen=True, kw_only=True):
    """The fields that every reader of frames decodes, of a frame of any type. Missing fields have these defaults."""

    type: str
    id: FrameId | None = None
    session_id: str = ""
    seq: int = 0
    snapshot: Raw | UnsetType = UNSET
    ok: bool = False
    error: dict[str, Any] = field(default_factory=dict)
    dropped: int = 0
    reason: str = ""
