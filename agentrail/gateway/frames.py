"""Server-sent events: what each event, each snapshot and the end of a stream look like, byte for byte.

Pure: values in, bytes out. Who reads a stream, and when something goes out, stands in `hub`. A frame ends with an empty line, and
nothing in a session can end one early: its JSON is on one line, and whatever some readers take for the end of one is escaped.
"""

import re
from typing import Final, Literal, TypeAlias

from agentrail.core.session.projection import Snapshot
from agentrail.core.wire.codec import encode_event
from agentrail.errors import ErrorInfo
from agentrail.events import KINDS, Event, UnknownEvent
from agentrail.messages import SessionId, TokenUsage
from agentrail.structs import Value
from agentrail.wire.forms import encode_snapshot
from agentrail.wire.plain import encode_plain

CONTENT_TYPE: Final = "text/event-stream"

STREAM_HEADERS: Final[tuple[tuple[str, str], ...]] = (
    ("cache-control", "no-store"),
    ("x-accel-buffering", "no"),
)
"""So that nothing on the way keeps a stream, or waits until there is more of it."""

MIN_RETRY_MS: Final = 500
MAX_RETRY_MS: Final = 3_000
"""Bounds of the time after which a browser comes back."""

HEARTBEAT: Final = b":\n"
"""A comment, which every reader skips. No empty line stands behind it: some readers, httpx-sse among them, take one for the end of an event
whether it has data or not, and would give an empty one for each heartbeat."""

DoneReason: TypeAlias = Literal[
    "completed",
    "aborted",
    "failed",
    "refused",
    "dropped",
    "session_ended",
    "shutdown",
    "moved",
    "slow_reader",
    "unauthorized",
    "store_unavailable",
]
"""How a stream ends: with its request, with its session, or because it cannot go on here."""

_KIND: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_LINE_ENDS: Final = (
    (b"\xc2\x85", b"\\u0085"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)
"""What some readers take for the end of a line: in JSON it stands in texts alone, where an escape says the same."""


def retry_line(draw: float) -> bytes:
    """Return the first line of a stream: after how many milliseconds a browser comes back. It belongs to the frame after it."""
    return b"retry: %d\n" % (MIN_RETRY_MS + draw * (MAX_RETRY_MS - MIN_RETRY_MS))


class ContextUse(Value, frozen=True, kw_only=True):
    """How full the model's window is.

    Attributes:
        tokens: The input of the last request, with its cached part; None where no request was made.
        window: How many there may be; None where that is not known.
    """

    tokens: int | None = None
    window: int | None = None


class StreamEnd(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a stream: the last of its frames, and the only one of this kind.

    Attributes:
        reason: Why it ends.
        session_id: Whose stream it was.
        seq: The number of the last committed event that it gave: what a reader comes back with.
        request_id: The request that it ended with; None where it ended with none.
        usage: Of the request's cycle.
        context: Behind the request's cycle.
        error: Why the request failed.
        detail: Why it was aborted or refused, in words.
    """

    reason: DoneReason
    session_id: SessionId
    seq: int
    request_id: str | None = None
    usage: TokenUsage | None = None
    context: ContextUse | None = None
    error: ErrorInfo | None = None
    detail: str | None = None


def event_frame(event: Event | UnknownEvent) -> bytes:
    """Make the frame of an event: `event:` its kind, `data:` its wire form, `id:` its number if it is committed."""
    meta = event.meta
    kind = event.kind if isinstance(event, UnknownEvent) else KINDS[type(event)]
    is_committed = meta is not None and not meta.ephemeral
    return _frame(kind, encode_event(event), meta.seq if meta is not None and is_committed else None)


def snapshot_frame(snapshot: Snapshot, *, agent_id: str | None = None) -> bytes:
    """Make the frame of a snapshot. It has no `id:`: its number stands in it, and no event of this number need have been seen."""
    return _frame("snapshot", encode_snapshot(snapshot, agent_id=agent_id), None)


def done_frame(done: StreamEnd) -> bytes:
    """Make the frame that a stream ends with."""
    return _frame("done", encode_plain(done), None)


def text_frame(data: bytes) -> bytes:
    """Make a frame without a name and a number, of a text on one line: for protocols that have neither."""
    return b"data: %b\n\n" % _on_one_line(data)


def _frame(kind: str, data: bytes, number: int | None) -> bytes:
    # The kind of an event of a newer version is any text: as the name of a frame it might be more than one line.
    name = kind if _KIND.fullmatch(kind) else "unknown"
    end = b"\n\n" if number is None else b"\nid: %d\n\n" % number
    return b"event: %b\ndata: %b%b" % (name.encode(), _on_one_line(data), end)


def _on_one_line(data: bytes) -> bytes:
    if not data.isascii():
        for end, escape in _LINE_ENDS:
            data = data.replace(end, escape)
    if b"\n" in data or b"\r" in data:  # between two parts of a JSON text, where a blank says the same
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    return data
