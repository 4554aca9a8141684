"""Requests as values and handles. The standing of a request is a fold of its session's events."""

import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, Self, TypeAlias, cast, get_args

import trio
from msgspec.structs import replace

from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import Status
from agentrail.core.values.import_history import Repair
from agentrail.errors import (
    AgentrailError,
    ErrorInfo,
    RequestOver,
    StopNotWritten,
    StoreUnavailable,
    SubscriberTooSlow,
)
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentResumed,
    AgentStart,
    AgentSuspended,
    EndReason,
    Event,
    EventsLost,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    ResponseComplete,
    SessionEnd,
    SessionParked,
    SteeringApplied,
    WaitingFor,
)
from agentrail.host.hook_payloads import RequestKind, RequestOutcome
from agentrail.host.identity import SessionOwner
from agentrail.messages import (
    AssistantMessage,
    Message,
    PromptRef,
    SessionId,
    SteerRef,
    TokenUsage,
    UserMessage,
)
from agentrail.outside import current
from agentrail.runtime.event_subscription import Subscription
from agentrail.runtime.event_waits import told_of_outages
from agentrail.runtime.journal_events import subscribed_in_the_end
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_rows import repairs_of, window_of
from agentrail.structs import Value

# Assignment of ends to requests: the standing of one request, folded from the events of its session alone.
#
# Pure: a standing and an event give the next standing. A session runs one cycle at a time, and prompts wait,
# are taken as decisions, are discarded or steer. So an end belongs to a request only by the rules in this
# file. One table per session, kept by a task, was rejected: it would be a second state that could differ from
# the session's. Subscriptions and notifications are decided elsewhere.

RequestStatus: TypeAlias = Literal["queued", "running", "waiting"] | RequestOutcome
"""Status of a request: queued, running, waiting for the user, or ended with an outcome."""

OUTCOMES: Final[frozenset[str]] = frozenset(get_args(RequestOutcome))

KINDS_OF_REQUESTS: Final[tuple[type[Event], ...]] = (
    PromptReceived,
    PromptQueued,
    PromptDropped,
    PromptRejected,
    PromptTaken,
    AgentStart,
    AgentEnd,
    AgentAbort,
    AgentError,
    AgentSuspended,
    AgentResumed,
    SteeringApplied,
    ResponseComplete,
    SessionParked,
    SessionEnd,
)
"""Event types needed to determine the status of requests."""


class RequestFacts(Value, frozen=True, kw_only=True):
    """What is known of the standing of a request."""

    status: RequestStatus = "queued"
    seq: int = 0
    pending: tuple[WaitingFor, ...] = ()
    usage: TokenUsage | None = None
    last_usage: TokenUsage | None = None
    stop_reason: EndReason | None = None
    error: ErrorInfo | None = None
    reason: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is final."""
        return self.status in OUTCOMES


class RequestStanding(RequestFacts, frozen=True, kw_only=True):
    """Standing of a request. A struct, because each event of a cycle creates another one.

    Attributes:
        seq: Number of the last event that changed it. 0 before any.
        pending: Approvals and questions of its cycle, oldest first. Empty unless it is `waiting`.
        cycle: The session's running cycle, its own or another's, as of the last event read.
        is_joined: Whether a cycle that its own prompt did not start handles it: it was taken as a decision, or steered.
        is_given_up: Whether the session was given up. Prompts dropped after that have failed.
    """

    ref: PromptRef
    is_kept: bool = False
    messages: tuple[Message, ...] = ()
    cycle: PromptRef | None = None
    is_joined: bool = False
    is_given_up: bool = False

    def __repr__(self) -> str:
        return f"RequestStanding(ref={self.ref!r}, status={self.status!r}, seq={self.seq})"

    @property
    def is_at_work(self) -> bool:
        return not self.has_ended and (self.is_joined or self.cycle == self.ref)


def stand_behind(standing: RequestStanding, event: Event) -> RequestStanding:
    if standing.has_ended:
        return standing
    after = _of_prompts(standing, event)
    if after is standing:
        after = _of_cycles(standing, event)
    if after is standing or event.meta is None:
        return after
    return replace(after, seq=event.meta.seq)


def _of_prompts(standing: RequestStanding, event: Event) -> RequestStanding:
    ref = standing.ref
    match event:
        case PromptReceived(ref=one) if one == ref:
            return replace(standing, status="running")
        case PromptQueued(ref=one) if one == ref:
            # Also a steer that no cycle read: from now on it is a prompt with its own cycle.
            return replace(standing, status="queued")
        case PromptDropped(ref=one, reason=reason) if one == ref:
            return replace(standing, status="failed" if standing.is_given_up else "dropped", reason=reason)
        case PromptRejected(ref=one, reason=reason) if one == ref:
            return replace(standing, status="refused", reason=reason)
        case PromptTaken(ref=one) if one == ref:
            # One cycle at a time: the decision belongs to the running cycle, whose end comes next.
            return replace(standing, status="running", is_joined=True, is_kept=True)
        case SteeringApplied(refs=refs) if SteerRef(ref) in refs:
            return replace(standing, status="running", is_joined=True, is_kept=True)
        case _:
            return standing


def _of_cycles(standing: RequestStanding, event: Event) -> RequestStanding:
    match event:
        case AgentStart(ref=ref):
            if ref == standing.ref:
                return replace(standing, status="running", cycle=ref, is_kept=True)
            return replace(standing, cycle=ref)
        case AgentSuspended(waiting=waiting) if standing.is_at_work:
            return replace(standing, status="waiting", pending=waiting)
        case AgentResumed() if standing.status == "waiting":
            return replace(standing, status="running", pending=())
        case ResponseComplete(usage=usage) if standing.is_at_work:
            used = usage if standing.usage is None else standing.usage + usage
            return replace(standing, usage=used, last_usage=usage)
        case AgentEnd() | AgentAbort() | AgentError():
            return _behind_end(standing, event)
        case SessionParked():
            return replace(standing, is_given_up=True)
        case SessionEnd(reason=reason):
            return without_session(standing, reason)
        case _:
            return standing


def _behind_end(standing: RequestStanding, event: AgentEnd | AgentAbort | AgentError) -> RequestStanding:
    # The ref is missing if there was no cycle to abort, and in journals older than refs. A prompt that
    # supersedes a suspended cycle is accepted before that cycle ends, so the ref counts if there is one, and
    # not the order alone.
    ended = standing.cycle if event.ref is None else event.ref
    if not standing.is_joined and ended != standing.ref:
        return replace(standing, cycle=None)
    over = replace(standing, cycle=None, pending=())
    match event:
        case AgentEnd(stop_reason=why):
            over = replace(over, usage=event.usage, messages=event.messages, stop_reason=why)
            if why == "superseded":
                return replace(over, status="aborted", reason="a later prompt took its place")
            return replace(over, status="completed")
        case AgentAbort(reason=reason):
            return replace(over, status="aborted", reason=reason)
        case AgentError(error=error):
            return replace(over, status="failed", error=error)


def without_session(standing: RequestStanding, reason: str) -> RequestStanding:
    if standing.has_ended:
        return standing
    error = ErrorInfo(code=_WITHOUT_SESSION, message=f"the session has ended: {reason}")
    return replace(standing, status="failed", pending=(), error=error)


_WITHOUT_SESSION: Final = "session_ended"


def is_without_session(standing: "RequestStanding | RequestRecord") -> bool:
    """Return whether a request counts as failed only because its session left this process."""
    return standing.error is not None and standing.error.code == _WITHOUT_SESSION


def behind_loss(standing: RequestStanding, lost: EventsLost, status: Status) -> RequestStanding:
    """Return the standing after events that are no longer stored or no longer count."""
    if standing.has_ended or standing.ref in status.queued or SteerRef(standing.ref) in status.steers:
        return standing
    message = f"the events {lost.from_seq} to {lost.to_seq} of its session are no longer kept, and its end may be among them"
    error = ErrorInfo(code="events_lost", message=message)
    return replace(standing, status="failed", pending=(), error=error)


def ended_by_host(standing: RequestStanding, outcome: RequestOutcome, reason: str) -> RequestStanding:
    if standing.has_ended:
        return standing
    return replace(standing, status=outcome, pending=(), reason=reason)


_MOVED: Final = "its session moved to another node"

MAX_KEPT_REQUESTS: Final = 1_000
"""Number of requests per session whose standing is remembered."""

MAX_KEPT_IN_ALL: Final = 10_000
"""Limit for all sessions together. The request that ended first is forgotten first. A session that has not ended can recall it from its events."""

OnDisconnect: TypeAlias = Literal["continue", "abort"]
"""Handling of a request whose caller disconnects."""

MessageReceipt: TypeAlias = PromptReceipt | SteerReceipt
"""Receipt of a message: that of a prompt, or of a steer."""


_REQUEST_ID: Final = re.compile(r"r-([csp])[0-9a-f]{24}")
_KINDS: Final[dict[str, RequestKind]] = {"c": "chat", "s": "stream", "p": "prompt"}


def mint_request_id(kind: RequestKind) -> str:
    """Return a new request id. It contains the kind, which no journal has."""
    return f"r-{kind[0]}{current().ids(12)}"


def kind_of_request(request_id: str) -> RequestKind | None:
    found = _REQUEST_ID.fullmatch(request_id)
    return None if found is None else _KINDS[found[1]]


class RequestRecord(RequestFacts, frozen=True, kw_only=True):
    """Known facts of a request.

    Attributes:
        request_id: Id of the request.
        session_id: Id of the session that handles it.
        agent_id: Id of the profile.
        kind: How its answer is returned. None if no longer known.
        status: `queued`, `running`, `waiting`, or its outcome.
        seq: Number of the event in its receipt.
        end_seq: Number of the event that ended it. None before, and if no event did.
        text: The answer, or the text so far if it was aborted or failed. Empty before the end.
        usage: Usage of its cycle so far. None before the first response.
        last_usage: Usage of the last response: `input` is how much of the context window it filled.
        context_window: Context window as in the profile, otherwise the model's known value. None if unknown.
        stop_reason: Why its cycle finished. None for any other end.
        error: Why it failed.
        reason: Why it was aborted, refused or dropped.
        pending: Pending approvals and questions while it is `waiting`.
    """

    request_id: str
    session_id: SessionId
    agent_id: str
    kind: RequestKind | None
    end_seq: int | None = None
    text: str = ""
    context_window: int | None = None

    def __repr__(self) -> str:
        return f"RequestRecord(request_id={self.request_id!r}, status={self.status!r}, seq={self.seq})"

    @property
    def outcome(self) -> RequestOutcome | None:
        """Its outcome. None before its end."""
        return cast("RequestOutcome", self.status) if self.has_ended else None

    @property
    def has_moved(self) -> bool:
        """Whether it continues on another node, and only this record of it has ended."""
        return self.status == "shutdown" and self.reason == _MOVED

    @property
    def cost_usd(self) -> float | None:
        """Its cost. None while nothing was used, and if a price is unknown."""
        return None if self.usage is None else self.usage.cost_usd


def record_behind(record: RequestRecord, standing: RequestStanding) -> RequestRecord:
    return replace(
        record,
        status=standing.status,
        pending=standing.pending,
        usage=standing.usage,
        last_usage=standing.last_usage,
        stop_reason=standing.stop_reason,
        error=standing.error,
        reason=standing.reason,
        end_seq=standing.seq if standing.has_ended else None,
    )


class RequestTrack:
    """One request, shared by all its waiters: its record, and notification of changes."""

    def __init__(
        self,
        record: RequestRecord,
        ref: PromptRef | None = None,
        *,
        on_change: "Callable[[RequestTrack], None] | None" = None,
    ) -> None:
        self.callers: int = 0  # with `abort`, and still there
        self._record = record
        self._is_behind = False
        self.standing: RequestStanding = RequestStanding(
            ref=ref or PromptRef(record.request_id), seq=record.seq
        )
        self._changed = trio.lowlevel.ParkingLot()
        self._on_change = on_change

    @property
    def record(self) -> RequestRecord:
        """The current record, updated on access."""
        if self._is_behind:
            self._is_behind = False
            self._record = record_behind(self._record, self.standing)
        return self._record

    def stand(self, standing: RequestStanding) -> None:
        if standing.has_ended and not self.standing.has_ended:
            self._is_behind, self._record = False, self.record
        before, self.standing = self.standing, standing
        if not standing.has_ended and before is not standing:
            self._is_behind = True
            if self._on_change is not None:
                self._on_change(self)
            if before.status != standing.status:
                self.tell()

    def end(self, text: str, window: int | None = None) -> None:
        record = record_behind(self._record, self.standing)
        self._is_behind, self._record = False, replace(record, text=text, context_window=window)
        if self._on_change is not None:
            self._on_change(self)
        self.tell()

    async def wait_changed(self, is_enough: Callable[[RequestRecord], bool]) -> RequestRecord:
        while not (self.record.has_ended or is_enough(self.record)):
            await self._changed.park()
        return self.record

    def tell(self) -> None:
        self._changed.unpark_all()


class SessionReading:
    """Read access to a session for hooks. Read-only."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def messages(self, after: int = 0) -> Sequence[Message]:
        return (await self._session.messages())[after:]

    async def status(self) -> Status:
        return await self._session.status()


class RequestEvents:
    """Events of a session from the acceptance of a request to its end: an async context manager and iterator.

    Includes all events of the session, also the rest of a cycle that the request waits for. Entered once and read by
    one task.
    """

    def __init__(self, subscription: Subscription, track: RequestTrack) -> None:
        """Created by `HostRequest.events`."""
        self._events = subscription
        self._track = track
        self._standing = RequestStanding(ref=track.standing.ref)

    async def __aenter__(self) -> Self:
        """Subscribe.

        Raises:
            SessionDown, YourMove: See `Subscription`.
        """
        await self._events.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Unsubscribe. The request continues."""
        await self._events.__aexit__(None, None, None)  # noqa: ASYNC102 - it waits for nothing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event.

        Raises:
            SubscriberTooSlow: The reader's move: the buffer was full.

        Cancellation: Safe, nothing is lost.
        """
        if self._standing.has_ended:
            raise StopAsyncIteration
        event = await anext(self._events)
        self._standing = stand_behind(self._standing, event)
        if isinstance(event, EventsLost) and self._track.record.has_ended:
            snapshot = self._events.snapshot
            assert snapshot is not None  # noqa: S101 - it comes with the loss
            self._standing = behind_loss(self._standing, event, snapshot.status)
        return event


class HostRequest:
    """An accepted message. Its session handles it even if its caller disconnects.

    Attributes:
        session: The session.
        receipt: The session's receipt. For a repeated message, the first one.
        kind: How this caller receives the answer.
        is_repeat: Whether the client id was known: then this is the existing request.
        repairs: Repairs of the history that the message brought. Empty without one, and for a hibernated session.
    """

    def __init__(  # noqa: PLR0913 - what a request is made of
        self,
        session: Session,
        receipt: MessageReceipt,
        track: RequestTrack,
        *,
        kind: RequestKind,
        on_disconnect: OnDisconnect,
        is_repeat: bool = False,
        has_history: bool = False,
    ) -> None:
        """Created by `Host.submit`."""
        self.session = session
        self.receipt = receipt
        self.kind: RequestKind = kind
        self.is_repeat = is_repeat
        self._track = track
        self._can_abort = on_disconnect == "abort"
        track.callers += self._can_abort
        self.repairs: tuple[Repair, ...] = repairs_of(session) if has_history else ()

    def __repr__(self) -> str:
        return f"<HostRequest {self.request_id} of {self.session_id} {self.record.status}>"

    @property
    def request_id(self) -> str:
        """Id of the request."""
        return self.record.request_id

    @property
    def session_id(self) -> SessionId:
        """Id of the session that handles it."""
        return self.record.session_id

    @property
    def record(self) -> RequestRecord:
        """The currently known facts."""
        return self._track.record

    async def outcome(self) -> RequestOutcome:
        """Wait for its end.

        Returns:
            Its outcome. `record` has the answer.

        Raises:
            StoreUnavailable: The store accepts no records for longer than its patience. The request continues when it
                is back.

        Cancellation: Safe, the request continues.
        """
        record = await self._wait(lambda _: False)
        return cast("RequestOutcome", record.status)

    async def answered(self, within: float | None = None) -> RequestRecord:
        """Wait until it ends, waits for the user, or the time is over.

        Args:
            within: Time limit in seconds. None: no limit.

        Returns:
            The facts known then. See `status`.

        Raises:
            StoreUnavailable: See `outcome`.

        Cancellation: Safe, the request continues.
        """
        with trio.move_on_after(float("inf") if within is None else within):
            await self._wait(lambda record: record.status == "waiting")
        return self.record

    async def settled(self) -> None:
        """Wait until it ends, waits for the user, or is blocked by a store outage.

        Cancellation: Safe, the request continues.
        """
        with suppress(StoreUnavailable):
            await self.answered()

    async def _wait(self, is_enough: Callable[[RequestRecord], bool]) -> RequestRecord:
        with told_of_outages(self.session, self._track.tell) as call:
            record = await self._track.wait_changed(
                lambda record: isinstance(call.error, StoreUnavailable) or is_enough(record)
            )
        if isinstance(call.error, StoreUnavailable) and not (record.has_ended or is_enough(record)):
            raise call.take_error(call.error)
        return record

    def events(self, *, deltas: bool = True, buffer: int = 1024) -> RequestEvents:
        """Return the events of its session, from the one in its receipt to its end.

        Args:
            deltas: Whether to include ephemeral events.
            buffer: See `Session.subscribe`.

        Raises:
            OptionError: The caller's move: an invalid argument.
        """
        after = max(self.receipt.seq - 1, 0)
        return RequestEvents(self.session.subscribe(after=after, deltas=deltas, buffer=buffer), self._track)

    async def cancel(self, reason: str | None = None) -> None:
        """Abort its cycle, or remove its prompt from the queue. Returns when the abort has begun.

        Args:
            reason: Reason for display.

        Raises:
            RequestOver: The caller's move: it has ended.
            SessionDown: Its session has ended.

        Cancellation: The abort continues.
        """
        standing = self._track.standing
        if standing.has_ended or self.record.has_ended:
            message = f"request {self.request_id} has ended: {self.record.status}"
            raise RequestOver(message)
        # A message taken as a decision, or a steer, ends with a cycle that another prompt started.
        ref = standing.cycle if standing.is_joined else standing.ref
        with suppress(StopNotWritten):  # it has begun anyway
            await self.session.abort(reason, ref=ref, wait=False)

    async def caller_left(self) -> None:
        """Handle the disconnect of its caller. The last caller that chose `abort` cancels the request."""
        if self.release() and not self.record.has_ended:
            await self.cancel("the caller disconnected")

    def release(self) -> bool:
        """Count its caller no longer. Return whether it was the last one that chose `abort`."""
        can_abort, self._can_abort = self._can_abort, False
        self._track.callers -= can_abort
        return can_abort and not self._track.callers


def key_of_requests(owner: SessionOwner, session_id: str) -> str:
    """Return the key of a session's requests, with the owner, because ids of ended sessions may be reused."""
    return f"{owner.tenant_id}/{owner.user_id}/{session_id}"


class RequestBook:
    """The requests of all sessions of a host: open ones, and the most recently ended."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, RequestTrack]] = {}
        self._ended: dict[str, dict[str, RequestRecord]] = {}
        self._order: OrderedDict[tuple[str, str], None] = OrderedDict()

    def open(self, key: str, track: RequestTrack) -> None:
        self._open.setdefault(key, {})[track.record.request_id] = track

    def close(self, key: str, track: RequestTrack) -> None:
        """Mark a request as ended. Only its record is kept."""
        request_id = track.record.request_id
        tracks = self._open.get(key, {})
        tracks.pop(request_id, None)
        if not tracks:
            self._open.pop(key, None)
        ended = self._ended.setdefault(key, {})
        ended[request_id] = track.record
        self._order[key, request_id] = None
        if len(ended) > MAX_KEPT_REQUESTS:
            self._forget(key, next(iter(ended)))
        if len(self._order) > MAX_KEPT_IN_ALL:
            self._forget(*next(iter(self._order)))

    def find(self, key: str, request_id: str) -> RequestTrack | None:
        track = self._open.get(key, {}).get(request_id)
        if track is None and (record := self._ended.get(key, {}).get(request_id)) is not None:
            track = RequestTrack(record)
        return track

    def forget_lost(self, key: str, request_id: str) -> None:
        """Forget the record of a request whose session left this process before it ended."""
        record = self._ended.get(key, {}).get(request_id)
        if record is not None and (record.status == "shutdown" or is_without_session(record)):
            self._forget(key, request_id)

    def forget_session(self, key: str) -> None:
        for request_id in tuple(self._ended.get(key, {})):
            self._forget(key, request_id)

    def _forget(self, key: str, request_id: str) -> None:
        ended = self._ended[key]
        del ended[request_id], self._order[key, request_id]
        if not ended:
            del self._ended[key]


# Following a request by its session's events, to its end and its answer. The rules are above.

_BUFFER: Final = 4096
"""Only starts and ends are buffered, so the reading task never falls that far behind."""


_READ_IN_ONE_GO: Final = 64


def subscribe_to_requests(session: Session, *, after: int | None = None) -> Subscription:
    return session.subscribe(kinds=KINDS_OF_REQUESTS, deltas=False, buffer=_BUFFER, after=after)


def follow_nowait(track: RequestTrack, events: Subscription) -> None:
    with suppress(trio.WouldBlock, trio.EndOfChannel, SubscriberTooSlow):
        while not track.standing.has_ended:
            _take(track, events, events.next_nowait())


async def follow(session: Session, track: RequestTrack, events: Subscription) -> Event | None:
    after = await _follow_to_end(track, events)
    while isinstance(after, int):  # other tasks blocked the loop until the buffer was full
        async with subscribed_in_the_end(partial(subscribe_to_requests, session, after=after)) as again:
            after = await _follow_to_end(track, again)
    return after


async def _follow_to_end(track: RequestTrack, events: Subscription) -> Event | int | None:
    event: Event | None = None
    try:
        while not track.standing.has_ended:
            event = await anext(events)
            _take(track, events, event)
    except StopAsyncIteration:
        if events.is_rested:
            why = _MOVED if events.is_moved else "the session was stopped"
            track.stand(ended_by_host(track.standing, "shutdown", why))
        else:
            track.stand(without_session(track.standing, "it gave no reason"))
        return None
    except SubscriberTooSlow as slow:
        return slow.resume_after or 0
    return event


def _take(track: RequestTrack, events: Subscription, event: Event) -> None:
    if isinstance(event, EventsLost):
        snapshot = events.snapshot
        assert snapshot is not None  # noqa: S101 - it comes with the loss
        track.stand(behind_loss(track.standing, event, snapshot.status))
    else:
        track.stand(stand_behind(track.standing, event))


async def find_standing(session: Session, request_id: str) -> tuple[RequestStanding, int] | None:
    """Find a request of an earlier process in all events of a session."""
    standing: RequestStanding | None = None
    seq = 0
    async with subscribe_to_requests(session, after=0) as events:
        with suppress(trio.WouldBlock, trio.EndOfChannel, SubscriberTooSlow):
            for number in itertools.count(1):
                event = events.next_nowait()
                named = isinstance(event, PromptReceived | PromptQueued) and event.request_id == request_id
                if standing is None and named and isinstance(event, PromptReceived | PromptQueued):
                    standing = RequestStanding(ref=event.ref)
                    seq = 0 if event.meta is None else event.meta.seq
                if standing is not None:
                    standing = stand_behind(standing, event)
                if number % _READ_IN_ONE_GO == 0:
                    await trio.lowlevel.checkpoint()
    return None if standing is None else (standing, seq)


async def end_track(session: Session | None, track: RequestTrack) -> None:
    """Read the answer of a request that has ended, and publish its end, even if cancelled."""
    standing, text, window = track.standing, "", track.record.context_window
    try:
        if session is not None and window is None:
            window = window_of(session)
        if session is not None and standing.is_kept:
            text = await _answer_of(session, standing)
    finally:  # in every case: other tasks wait for it
        track.end(text, window)


async def _answer_of(session: Session, standing: RequestStanding) -> str:
    read = session.reads_answers()
    if standing.messages:
        return read(standing.messages)
    # The end event of an aborted or failed cycle has no messages.
    with suppress(AgentrailError), trio.move_on_after(1.0, shield=True):
        return read(said_to(standing.ref, await session.messages()))
    return ""


def said_to(ref: PromptRef, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    begins = [
        place
        for place, one in enumerate(messages)
        if isinstance(one, UserMessage) and one.origin == "prompt" and one.ref is not None
    ]
    for number, place in enumerate(begins):
        one = messages[place]
        if isinstance(one, UserMessage) and one.ref == ref:
            end = begins[number + 1] if number + 1 < len(begins) else len(messages)
            return tuple(found for found in messages[place:end] if isinstance(found, AssistantMessage))
    return ()
