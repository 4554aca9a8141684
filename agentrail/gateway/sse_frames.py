"""Server-sent events: the exact bytes of events, snapshots and the end of a stream. No content can end a frame early."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from agentrail.core.session.views import Snapshot
from agentrail.core.wire.codec import encode_event
from agentrail.errors import ErrorInfo
from agentrail.events import KINDS, Event, UnknownEvent
from agentrail.messages import SessionId, TokenUsage
from agentrail.structs import Value
from agentrail.wire.form_fields import encode_snapshot
from agentrail.wire.plain import encode_plain

CONTENT_TYPE: Final = "text/event-stream"

STREAM_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"cache-control": "no-store", "x-accel-buffering": "no"}
)
"""Prevents proxies and caches from storing or buffering a stream."""

MIN_RETRY_MS: Final = 500
MAX_RETRY_MS: Final = 3_000
"""Bounds of the reconnection delay of a browser."""

HEARTBEAT: Final = b":\n"
"""A comment, which every parser skips.

No empty line after it: some parsers, including httpx-sse, treat one as the end of an event even without data,
    and would yield an empty event per heartbeat.
"""

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
"""How a stream ends: with its request, with its session, or because it cannot continue here."""

_KIND: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_LINE_ENDS: Final = (
    (b"\xc2\x85", b"\\u0085"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)
"""Characters that some parsers read as a line break.

In JSON they occur only in strings, where an escape is equivalent.
"""


def retry_line(draw: float) -> bytes:
    """Return the first line of a stream, the reconnection delay in milliseconds."""
    return b"retry: %d\n" % (MIN_RETRY_MS + draw * (MAX_RETRY_MS - MIN_RETRY_MS))


class ContextUse(Value, frozen=True, kw_only=True):
    """How full the model's context window is.

    Attributes:
        tokens: Input tokens of the last request, including cached ones, or None if no request was made.
        window: Context window in tokens, or None if unknown.
    """

    tokens: int | None = None
    window: int | None = None


class StreamEnd(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a stream: its last frame, and the only one of this kind.

    Attributes:
        reason: Reason for the end.
        session_id: Session id.
        seq: Number of the last committed event in the stream, with which a reader resumes.
        request_id: Request that ended the stream, or None if none did.
        usage: Usage of the request's cycle.
        context: Context use after the request's cycle.
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
    meta = event.meta
    kind = event.kind if isinstance(event, UnknownEvent) else KINDS[type(event)]
    is_committed = meta is not None and not meta.ephemeral
    return _frame(kind, encode_event(event), meta.seq if meta is not None and is_committed else None)


def snapshot_frame(snapshot: Snapshot, *, agent_id: str | None = None) -> bytes:
    """Return the frame of a snapshot. It has no `id:`, because that event may not have been seen."""
    return _frame("snapshot", encode_snapshot(snapshot, agent_id=agent_id), None)


def done_frame(done: StreamEnd) -> bytes:
    return _frame("done", encode_plain(done), None)


def text_frame(data: bytes) -> bytes:
    return b"data: %b\n\n" % _on_one_line(data)


def _frame(kind: str, data: bytes, number: int | None) -> bytes:
    # The kind of a newer event may be any text, which could be more than one line as a frame name.
    name = kind if _KIND.fullmatch(kind) else "unknown"
    end = b"\n\n" if number is None else b"\nid: %d\n\n" % number
    return b"event: %b\ndata: %b%b" % (name.encode(), _on_one_line(data), end)


def _on_one_line(data: bytes) -> bytes:
    if not data.isascii():
        for end, escape in _LINE_ENDS:
            data = data.replace(end, escape)
    if b"\n" in data or b"\r" in data:  # between JSON tokens, where a blank is equivalent
        data = data.replace(b"\r", b" ").replace(b"\n", b" ")
    return data
