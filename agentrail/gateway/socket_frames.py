"""Frames of the WebSocket, subprotocol `agentrail.v1`: one JSON object per text message, with its kind in `type`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from agentrail.core.session.views import Snapshot
from agentrail.core.wire.codec import encode_event
from agentrail.events import Event, UnknownEvent
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, error_answer, refuse_call
from agentrail.gateway.request_parser import (
    check_filter,
    check_id,
    check_known,
    events_of_kinds,
    read_object,
    refuse_field,
)
from agentrail.gateway.watch_window import WatchPart
from agentrail.host.quotas import Limits
from agentrail.structs import Value, converter_of
from agentrail.wire.form_fields import encode_snapshot
from agentrail.wire.plain import encode_plain
from agentrail.wire.rows import RowFilter
from agentrail.wire.server_frames import (
    MAX_CURSOR,
    PROTOCOL,
    Changed,
    FrameId,
    RowsWatched,
    SocketLimits,
    SocketReply,
    Subscribed,
    Welcome,
)

MIN_HEARTBEAT_SECONDS: Final = 5.0
MAX_HEARTBEAT_SECONDS: Final = 60.0
USUAL_HEARTBEAT_SECONDS: Final = 15.0
"""Heartbeat for clients that request none."""

MAX_TOKEN_CHARACTERS: Final = 4_096
MAX_ID_CHARACTERS: Final = 128

# --- from the client


class Hello(Value, frozen=True, kw_only=True):
    """Introduces the client: its token, unless the upgrade carried it, and its heartbeat.

    Attributes:
        token: The token, in the form used after `Bearer`.
        heartbeat: Interval in seconds. The server uses the nearest value from 5 to 60.
        replay_frames: Whether past events are sent in `events` frames with many events each, instead of one `event` frame each.
    """

    token: str | None = None
    heartbeat: float | None = None
    replay_frames: bool = False

    def __repr__(self) -> str:
        told = f"token={'…' if self.token is not None else None}, heartbeat={self.heartbeat}"
        return f"Hello({told}, replay_frames={self.replay_frames})"


class Subscribe(Value, frozen=True, kw_only=True):
    """Starts a subscription to a session.

    Attributes:
        id: Frame id.
        session_id: Session id.
        after: Number of the last committed event that the client has, or None to start with a snapshot.
        kinds: Event kinds, or None for all.
        deltas: Whether to include ephemeral events.
    """

    id: FrameId
    session_id: str
    after: int | None = None
    kinds: tuple[str, ...] | None = None
    deltas: bool = True

    @property
    def event_classes(self) -> tuple[type[Event], ...] | None:
        return None if self.kinds is None else events_of_kinds(self.kinds)


class Unsubscribe(Value, frozen=True, kw_only=True):
    """Ends a subscription to a session.

    Attributes:
        id: Frame id.
        session_id: Session id.
    """

    id: FrameId
    session_id: str


class WatchRows(Value, frozen=True, kw_only=True):
    """Starts a watch of rows, such as those of a session list.

    Attributes:
        id: Id of the frame. `changed` frames carry it, and `unwatch` names it.
        what: Kind of the rows, such as `sessions`.
        filter: Rows to watch. If omitted, the thousand most recently changed ones.
    """

    id: FrameId
    what: str
    filter: RowFilter = RowFilter()


class UnwatchRows(Value, frozen=True, kw_only=True):
    """Ends a watch of rows. The reply is the last frame with this id.

    Attributes:
        id: Id of the frame that started the watch.
    """

    id: FrameId


class Ping(Value, frozen=True, kw_only=True):
    """Signals that the client is still connected.

    Attributes:
        n: Number to return in the `pong`.
    """

    n: int = 0


class CommandFrame(Value, frozen=True, kw_only=True):
    """A command for a session.

    Attributes:
        name: Name of the method.
        id: Frame id.
        session_id: Id of the session, or None if none was named.
        fields: All remaining fields.
        size: Size of the frame in bytes.
    """

    name: str
    id: FrameId
    session_id: str | None
    fields: dict[str, Any]
    size: int


OwnFrame: TypeAlias = Hello | Subscribe | Unsubscribe | WatchRows | UnwatchRows | Ping

ClientFrame: TypeAlias = OwnFrame | CommandFrame

OF_CLIENT: Final[Mapping[str, type[OwnFrame]]] = {
    "hello": Hello,
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "watch": WatchRows,
    "unwatch": UnwatchRows,
    "ping": Ping,
}
"""Client frames other than commands, by type."""


class FrameRefused(CallRefused):
    def __init__(self, answer: ErrorAnswer, frame_id: FrameId | None = None) -> None:
        super().__init__(answer)
        self.frame_id = frame_id


class FrameMalformed(FrameRefused):
    """A frame that is binary, no JSON object, or of an unknown type. The third one closes the socket."""


def decode_frame(text: bytes, limits: Limits, commands: frozenset[str]) -> ClientFrame:
    try:
        if not text:
            refuse_call("bad_json", "the frame is binary or empty: expected a text message")
        plain = read_object(text, limits)
    except CallRefused as refused:
        raise FrameMalformed(refused.answer) from None
    frame_id = _id_of(plain)
    kind = plain.pop("type", None)
    if not isinstance(kind, str) or (kind not in OF_CLIENT and kind not in commands):
        told = f"{kind:.80}" if isinstance(kind, str) else "missing, or not text"
        message = f"type is {told!r}: expected a frame or a command"
        raise FrameMalformed(error_answer("field_invalid", message, more={"field": "type"}), frame_id)
    try:
        if kind in OF_CLIENT:
            return _own_frame(OF_CLIENT[kind], plain)
        return _command(kind, plain, len(text))
    except CallRefused as refused:
        raise FrameRefused(refused.answer, frame_id) from None


def _id_of(plain: Mapping[str, Any]) -> FrameId | None:
    found = plain.get("id")
    if isinstance(found, str):
        return found if 1 <= len(found) <= MAX_ID_CHARACTERS else None
    return found if type(found) is int and abs(found) <= MAX_CURSOR else None


def _own_frame(kind: type[OwnFrame], plain: dict[str, Any]) -> ClientFrame:
    check_known(plain, kind.__struct_fields__)
    if "id" in kind.__struct_fields__:
        _check_id_of_frame(plain)
    try:
        made = converter_of(kind)(plain)
    except msgspec.ValidationError as error:
        # The message has names of fields and types only, no values, so no token either.
        refuse_call("field_invalid", f"{error}"[:300])
    match made:
        case Hello(token=token) if token is not None and len(token) > MAX_TOKEN_CHARACTERS:
            refuse_field("token", f"has more than {MAX_TOKEN_CHARACTERS} characters")
        case Hello(heartbeat=heartbeat) if heartbeat is not None and not 0 <= heartbeat <= MAX_CURSOR:
            refuse_field("heartbeat", "is not a number of seconds")
        case Ping(n=n) if abs(n) > MAX_CURSOR:
            refuse_field("n", f"is larger than {MAX_CURSOR}")
        case WatchRows():
            check_filter(made.filter, before="filter.")
        case Subscribe() | Unsubscribe():
            check_id("session_id", made.session_id, of_session=True)
            if isinstance(made, Subscribe):
                _check_terms(made)
        case _:
            pass
    return made


def _check_terms(frame: Subscribe) -> None:
    if frame.after is not None and not 0 <= frame.after <= MAX_CURSOR:
        refuse_call("cursor_invalid", "after is not a whole number >= 0", more={"field": "after"})
    events_of_kinds(frame.kinds or ())


def _command(name: str, plain: dict[str, Any], size: int) -> CommandFrame:
    _check_id_of_frame(plain)
    frame_id: FrameId = plain.pop("id")
    session_id = plain.pop("session_id", None)
    if session_id is not None:
        if not isinstance(session_id, str):
            refuse_field("session_id", "is not text")
        check_id("session_id", session_id, of_session=True)
    return CommandFrame(name=name, id=frame_id, session_id=session_id, fields=plain, size=size)


def _check_id_of_frame(plain: Mapping[str, Any]) -> None:
    if _id_of(plain) is None:
        refuse_field(
            "id",
            f"is missing or invalid: expected a text of up to {MAX_ID_CHARACTERS} characters, or a whole number",
        )


# --- to the client


def welcome_frame(heartbeat_seconds: float, limits: Limits, *, version: str, instance: str) -> bytes:
    return encode_plain(
        Welcome(
            protocol=PROTOCOL,
            heartbeat=heartbeat_seconds,
            limits=SocketLimits(
                frame_bytes=limits.max_frame_bytes,
                subscriptions=limits.max_subscriptions,
                commands_per_second=limits.commands_per_second,
            ),
            version=version,
            instance=instance,
        )
    )


def watching_frame(asked: WatchRows, part: WatchPart) -> bytes:
    rows = tuple([Raw(row) for row in part.rows])
    return encode_plain(RowsWatched(id=asked.id, what=asked.what, rows=rows, total=part.total))


def changed_frame(frame_id: FrameId, part: WatchPart) -> bytes:
    rows = tuple([Raw(row) for row in part.rows])
    return encode_plain(Changed(id=frame_id, rows=rows, gone=part.gone, total=part.total))


def subscribed_frame(
    asked: Subscribe, seq: int, snapshot: Snapshot | None, *, agent_id: str | None = None
) -> bytes:
    form = UNSET if snapshot is None else Raw(encode_snapshot(snapshot, agent_id=agent_id))
    return encode_plain(Subscribed(id=asked.id, session_id=asked.session_id, seq=seq, snapshot=form))


_EVENT_HEAD: Final = b'{"type":"event","event":'


def socket_event_frame(event: Event | UnknownEvent) -> bytes:
    return _EVENT_HEAD + encode_event(event) + b"}"


def replay_frame(session_id: str, frames: Sequence[bytes]) -> bytes:
    events = b",".join([frame[len(_EVENT_HEAD) : -1] for frame in frames])
    return b'{"type":"events","session_id":%b,"events":[%b]}' % (encode_plain(session_id), events)


def reply_frame(frame_id: FrameId | None, result: bytes) -> bytes:
    return encode_plain(SocketReply(id=frame_id, ok=True, result=Raw(result)))


def refusal_frame(frame_id: FrameId | None, answer: ErrorAnswer) -> bytes:
    told = msgspec.json.decode(answer.encode())["error"]
    told.setdefault("status", answer.status)  # for `already_resolved`, that of the decision, as over HTTP
    if "retry-after" in answer.headers:
        told["retry_after"] = answer.headers["retry-after"]
    return encode_plain(SocketReply(id=frame_id, ok=False, error=told))


def agreed_heartbeat(asked: float | None) -> float:
    if asked is None:
        return USUAL_HEARTBEAT_SECONDS
    return min(max(asked, MIN_HEARTBEAT_SECONDS), MAX_HEARTBEAT_SECONDS)
