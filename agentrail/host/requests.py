"""Requests as values and handles: what is known of one, how its caller waits for it, and the last ones of each session.

How a request stands is a fold of the events of its session; how it is carried out, with all hooks, stands in `carrying`. Here is no hook and no rule.
"""

import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Literal, Self, TypeAlias, cast, get_args

import trio
from attrs import evolve, field, frozen
from msgspec.structs import replace

from agentrail.core.session.projection import Status
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
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
from agentrail.host.identity import SessionOwner
from agentrail.host.payloads import RequestKind, RequestOutcome
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
from agentrail.runtime.event_waits import told_of_outages
from agentrail.runtime.glancing import window_of
from agentrail.runtime.handle import Session
from agentrail.runtime.subscription import Subscription
from agentrail.structs import Value

# Whose end is it? How one request stands, from the events of its session: a fold, with no look at anything else.
#
# Pure: a standing and an event give the next standing. A session runs one cycle at a time, and prompts wait, are taken for decisions, are
# thrown away or steer; so an end belongs to a request only by the rules in this file. One table per session, kept by a task, would be
# a second state, which could differ from the session's.
# Who subscribes, and who is told, is decided elsewhere.

RequestStatus: TypeAlias = Literal["queued", "running", "waiting"] | RequestOutcome
"""How a request stands: it waits for its turn, is worked on, waits for people, or has ended with an outcome."""

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
"""What has to be read of a session to know how its requests stand."""


class RequestStanding(Value, frozen=True, kw_only=True):
    """How a request stands. A struct, since each event of a cycle makes another one.

    Attributes:
        ref: Its prompt or its steer, as its receipt says.
        seq: The number of the last event that changed it; 0 before any.
        pending: What its cycle waits for, oldest first; none but while it is `waiting`.
        is_kept: Whether it put something into the history, or made the session do so.
        messages: Those of its cycle, behind an end that was none of an abort or a failure.
        usage: Of its cycle so far; of all of it behind an end that says it. None before the first response.
        last_usage: Of the last response in its cycle; None before the first.
        stop_reason: Why its cycle finished; None for any other end.
        reason: Why it was aborted or refused, in the words of whom that came from.
        cycle: The cycle that runs in the session, its own or another's, as far as was read.
        is_joined: Whether it is worked on by a cycle that its own prompt did not start: it was taken for a decision, or steered.
        is_given_up: Whether the session was: what is thrown away behind that has failed.
    """

    ref: PromptRef
    status: RequestStatus = "queued"
    seq: int = 0
    pending: tuple[WaitingFor, ...] = ()
    is_kept: bool = False
    messages: tuple[Message, ...] = ()
    usage: TokenUsage | None = None
    last_usage: TokenUsage | None = None
    stop_reason: EndReason | None = None
    error: ErrorInfo | None = None
    reason: str | None = None
    cycle: PromptRef | None = None
    is_joined: bool = False
    is_given_up: bool = False

    def __repr__(self) -> str:
        """Say which and how, and nothing of what was said."""
        return f"RequestStanding(ref={self.ref!r}, status={self.status!r}, seq={self.seq})"

    @property
    def has_ended(self) -> bool:
        """Whether nothing changes it any more."""
        return self.status in OUTCOMES

    @property
    def is_at_work(self) -> bool:
        """Whether the cycle that runs is its own."""
        return not self.has_ended and (self.is_joined or self.cycle == self.ref)


def stand_behind(standing: RequestStanding, event: Event) -> RequestStanding:
    """Say how a request stands behind the next event of its session."""
    if standing.has_ended:
        return standing
    after = _of_prompts(standing, event)
    if after is standing:
        after = _of_cycles(standing, event)
    if after is standing or event.meta is None:
        return after
    return replace(after, seq=event.meta.seq)


def _of_prompts(standing: RequestStanding, event: Event) -> RequestStanding:
    """What becomes of a prompt before a cycle works on it, and where it is none of its own."""
    ref = standing.ref
    match event:
        case PromptReceived(ref=one) if one == ref:
            return replace(standing, status="running")
        case PromptQueued(ref=one) if one == ref:
            # Also a steer that no cycle heard: it is a prompt from now on, and has a cycle of its own.
            return replace(standing, status="queued")
        case PromptDropped(ref=one) if one == ref:
            return replace(standing, status="failed" if standing.is_given_up else "dropped")
        case PromptRejected(ref=one, reason=reason) if one == ref:
            return replace(standing, status="refused", reason=reason)
        case PromptTaken(ref=one) if one == ref:
            # One cycle at a time: what it decided about belongs to that one, whose end comes next.
            return replace(standing, status="running", is_joined=True, is_kept=True)
        case SteeringApplied(refs=refs) if SteerRef(ref) in refs:
            return replace(standing, status="running", is_joined=True, is_kept=True)
        case _:
            return standing


def _of_cycles(standing: RequestStanding, event: Event) -> RequestStanding:
    """What becomes of the cycle that runs, whosever it is."""
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
    # A name is missing where there was no cycle to abort, and in journals that are older than these names. A prompt that supersedes
    # a suspended cycle is accepted before that one ends: so the name counts, where there is one, and not the order alone.
    ended = standing.cycle if event.ref is None else event.ref
    if not standing.is_joined and ended != standing.ref:
        return standing if ended is None else replace(standing, cycle=None)
    over = replace(standing, cycle=None, pending=())
    match event:
        case AgentEnd(stop_reason="superseded"):
            return replace(
                over,
                status="aborted",
                reason="a later prompt took its place",
                usage=event.usage,
                messages=event.messages,
                stop_reason=event.stop_reason,
            )
        case AgentEnd():
            return replace(
                over,
                status="completed",
                usage=event.usage,
                messages=event.messages,
                stop_reason=event.stop_reason,
            )
        case AgentAbort(reason=reason):
            return replace(over, status="aborted", reason=reason)
        case AgentError(error=error):
            return replace(over, status="failed", error=error)


def without_session(standing: RequestStanding, reason: str) -> RequestStanding:
    """Say how a request stands whose session is gone, or was given up, without a word about it."""
    if standing.has_ended:
        return standing
    error = ErrorInfo(code="session_ended", message=f"the session has ended: {reason}")
    return replace(standing, status="failed", pending=(), error=error)


def behind_loss(standing: RequestStanding, lost: EventsLost, status: Status) -> RequestStanding:
    """Say how a request stands behind events that are kept no longer, or count no more."""
    if standing.has_ended or standing.ref in status.queued or SteerRef(standing.ref) in status.steers:
        return standing
    message = f"the events {lost.from_seq} to {lost.to_seq} of its session are kept no longer, and its end may be among them"
    return replace(
        standing, status="failed", pending=(), error=ErrorInfo(code="events_lost", message=message)
    )


def ended_by_host(standing: RequestStanding, outcome: RequestOutcome, reason: str) -> RequestStanding:
    """End a request that its host ends: its session says nothing of that, or too late."""
    if standing.has_ended:
        return standing
    return replace(standing, status=outcome, pending=(), reason=reason)


MAX_KEPT_REQUESTS: Final = 1_000
"""Of how many requests of a session it is known how they stand, or ended."""

MAX_KEPT_IN_ALL: Final = 100_000
"""Of how many of all sessions together; the one that ended first is forgotten first."""

OnDisconnect: TypeAlias = Literal["continue", "abort"]
"""What becomes of a request whose caller leaves."""

MessageReceipt: TypeAlias = PromptReceipt | SteerReceipt
"""What a session gave when it took the message: that of a prompt, or of a steer."""


_REQUEST_ID: Final = re.compile(r"r-([csp])[0-9a-f]{24}")
_KINDS: Final[dict[str, RequestKind]] = {"c": "chat", "s": "stream", "p": "prompt"}


def mint_request_id(kind: RequestKind) -> str:
    """Make the id of a new request. Its kind is in it: of what an earlier process took, only the id is in the journal."""
    return f"r-{kind[0]}{current().ids(12)}"


def kind_of_request(request_id: str) -> RequestKind | None:
    """Return how the answer to a request is wanted; None where its id does not say so."""
    found = _REQUEST_ID.fullmatch(request_id)
    return None if found is None else _KINDS[found[1]]


@frozen(kw_only=True)
class RequestRecord:
    """What is known of a request.

    Attributes:
        request_id: Its name.
        session_id: The session that works on it.
        agent_id: Of the profile.
        kind: How its answer is wanted; None where that is not known any more.
        status: `queued`, `running`, `waiting`, or the outcome that it ended with.
        seq: The number of the event that its receipt names.
        end_seq: The number of the event that ended it; None before, and where none did.
        text: The answer, or what was said of it when it was aborted or failed; empty before the end.
        usage: What its cycle has used so far; None before the first response.
        last_usage: Of the last response: `input` is how much of the window it filled.
        context_window: How much the model reads at most, as the profile says, else as is known of the model; None where that is not.
        stop_reason: Why its cycle finished; None for any other end.
        error: Why it failed.
        reason: Why it was aborted or refused.
        pending: What it waits for, while it is `waiting`.
    """

    request_id: str
    session_id: SessionId
    agent_id: str
    kind: RequestKind | None
    status: RequestStatus = "queued"
    seq: int = 0
    end_seq: int | None = None
    text: str = field(default="", repr=False)
    usage: TokenUsage | None = None
    last_usage: TokenUsage | None = None
    context_window: int | None = None
    stop_reason: EndReason | None = None
    error: ErrorInfo | None = None
    reason: str | None = None
    pending: tuple[WaitingFor, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether nothing changes it any more."""
        return self.status in OUTCOMES

    @property
    def outcome(self) -> RequestOutcome | None:
        """What became of it; None before its end."""
        return cast("RequestOutcome", self.status) if self.has_ended else None

    @property
    def cost_usd(self) -> float | None:
        """What it cost; None while nothing was used, and where a price is unknown."""
        return None if self.usage is None else self.usage.cost_usd


def record_behind(record: RequestRecord, standing: RequestStanding) -> RequestRecord:
    """Bring a record up to how its request stands; its answer is not known by that."""
    return evolve(
        record,
        status=standing.status,
        end_seq=standing.seq if standing.has_ended else None,
        usage=standing.usage,
        last_usage=standing.last_usage,
        stop_reason=standing.stop_reason,
        error=standing.error,
        reason=standing.reason,
        pending=standing.pending,
    )


class RequestTrack:
    """One request, for all who wait for it: its record, and the moment at which that changes."""

    def __init__(
        self,
        record: RequestRecord,
        ref: PromptRef | None = None,
        *,
        on_change: "Callable[[RequestTrack], None] | None" = None,
    ) -> None:
        """Begin with what is known."""
        self._record = record
        self._is_behind = False
        self.standing: RequestStanding = RequestStanding(
            ref=ref or PromptRef(record.request_id), seq=record.seq
        )
        self._changed = trio.Event()
        self._on_change = on_change

    @property
    def record(self) -> RequestRecord:
        """What is told of it. Brought up to how it stands when it is asked for: most events of a cycle change it unseen."""
        if self._is_behind:
            self._is_behind = False
            self._record = record_behind(self._record, self.standing)
        return self._record

    def stand(self, standing: RequestStanding) -> None:
        """Take how it stands now. That it has ended is heard with its answer, by `end`."""
        if standing.has_ended and not self.standing.has_ended:
            self._is_behind, self._record = False, self.record
        before, self.standing = self.standing, standing
        if not standing.has_ended and before is not standing:
            self._is_behind = True
            if self._on_change is not None:
                self._on_change(self)
            if before.status != standing.status:
                self._tell()

    def learn_window(self, tokens: int | None) -> None:
        """Take how much the model reads at most, where the profile does not say it."""
        self._record = evolve(self.record, context_window=tokens)

    def end(self, text: str) -> None:
        """Say to all who wait that it has ended, and with which answer."""
        self._is_behind, self._record = False, evolve(record_behind(self._record, self.standing), text=text)
        if self._on_change is not None:
            self._on_change(self)
        self._tell()

    def look_again(self) -> None:
        """Let those who wait look whether they still want to."""
        self._tell()

    async def wait_changed(self, is_enough: Callable[[RequestRecord], bool]) -> RequestRecord:
        """Wait until its record is as it is wanted, or it has ended."""
        while not (self.record.has_ended or is_enough(self.record)):
            await self._changed.wait()
        return self.record

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class SessionReading:
    """What hooks may read of a session: nothing is changed through it."""

    def __init__(self, session: Session) -> None:
        """Read this one."""
        self._session = session

    async def messages(self, after: int = 0) -> Sequence[Message]:
        """Give the conversation behind so many messages."""
        return (await self._session.messages())[after:]

    async def status(self) -> Status:
        """Say how the session stands."""
        return await self._session.status()


class RequestEvents:
    """The events of a session from the acceptance of a request to its end: an async context manager to iterate over.

    All that the session publishes comes, also the rest of a cycle that the request waits for. It is entered once and read by one task.
    """

    def __init__(self, subscription: Subscription, track: RequestTrack) -> None:
        """Made by `HostRequest.events`."""
        self._events = subscription
        self._track = track
        self._standing = RequestStanding(ref=track.standing.ref)

    async def __aenter__(self) -> Self:
        """Subscribe.

        Raises:
            SessionDown, YourMove: As of `Subscription`.
        """
        await self._events.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Read no more; the request goes on."""
        await self._events.__aexit__(None, None, None)  # noqa: ASYNC102 - it waits for nothing

    def __aiter__(self) -> Self:
        """Iterate over oneself."""
        return self

    async def __anext__(self) -> Event:
        """Give the next event.

        Raises:
            SubscriberTooSlow: The reader's move: the buffer was full.

        Cancellation: Nothing is lost by it.
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
    """A message that was accepted. Its session works on it, whether its caller stays or not.

    Attributes:
        session: The session.
        receipt: What the session gave when it took the message; of one that is sent again the first one.
        kind: How this caller wants the answer.
        is_repeat: Whether the message was known by its client id: then it is a request that was there before.
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
    ) -> None:
        """Made by `Host.submit`."""
        self.session = session
        self.receipt = receipt
        self.kind: RequestKind = kind
        self.is_repeat = is_repeat
        self._track = track
        self._on_disconnect = on_disconnect

    def __repr__(self) -> str:
        """Show which one it is, and how it stands."""
        return f"<HostRequest {self.request_id} of {self.session_id} {self.record.status}>"

    @property
    def request_id(self) -> str:
        """Its name."""
        return self.record.request_id

    @property
    def session_id(self) -> SessionId:
        """The session that works on it."""
        return self.record.session_id

    @property
    def record(self) -> RequestRecord:
        """What is known of it now."""
        return self._track.record

    async def outcome(self) -> RequestOutcome:
        """Wait for its end.

        Returns:
            What became of it; `record` has the answer.

        Raises:
            StoreUnavailable: The store takes no records for longer than its patience. The request continues when it is back.

        Cancellation: Nothing is lost by it; the request goes on.
        """
        record = await self._wait(lambda _: False)
        return cast("RequestOutcome", record.status)

    async def answered(self, within: float | None = None) -> RequestRecord:
        """Wait until it has ended, or waits for people, or the time is over.

        Args:
            within: How many seconds; None for as long as it takes.

        Returns:
            What is known of it then: see `status`.

        Raises:
            StoreUnavailable: As of `outcome`.

        Cancellation: Nothing is lost by it; the request goes on.
        """
        with trio.move_on_after(float("inf") if within is None else within):
            await self._wait(lambda record: record.status == "waiting")
        return self.record

    async def settled(self) -> None:
        """Wait until it has ended, waits for people, or can be answered no sooner than the store is back.

        Cancellation: Nothing is lost by it; the request goes on.
        """
        with suppress(StoreUnavailable):
            await self.answered()

    async def _wait(self, is_enough: Callable[[RequestRecord], bool]) -> RequestRecord:
        """Wait for a change, for as long as the store lets anything change."""
        with told_of_outages(self.session, self._track.look_again) as call:
            record = await self._track.wait_changed(
                lambda record: isinstance(call.error, StoreUnavailable) or is_enough(record)
            )
        if isinstance(call.error, StoreUnavailable) and not (record.has_ended or is_enough(record)):
            raise call.error
        return record

    def events(self, *, deltas: bool = True, buffer: int = 1024) -> RequestEvents:
        """Give the events of its session from the one that its receipt names up to its end.

        Args:
            deltas: Whether ephemeral events come too.
            buffer: As of `Session.subscribe`.

        Raises:
            OptionError: The caller's move: an argument that cannot be.
        """
        after = max(self.receipt.seq - 1, 0)
        return RequestEvents(self.session.subscribe(after=after, deltas=deltas, buffer=buffer), self._track)

    async def cancel(self, reason: str | None = None) -> None:
        """Abort its cycle, or take its prompt out of the queue. Returns when that has begun.

        Args:
            reason: For people.

        Raises:
            RequestOver: The caller's move: it has ended.
            SessionDown: Its session has.

        Cancellation: The abort goes on.
        """
        standing = self._track.standing
        if standing.has_ended or self.record.has_ended:
            message = f"request {self.request_id} has ended: {self.record.status}"
            raise RequestOver(message)
        # One that was taken for a decision, or steered, ends with a cycle that another prompt has started.
        ref = standing.cycle if standing.is_joined else standing.ref
        with suppress(StopNotWritten):  # it has begun all the same
            await self.session.abort(reason, ref=ref, wait=False)

    async def caller_left(self) -> None:
        """Say that its caller waits for it no more: it goes on, or is cancelled, as it was sent."""
        if self._on_disconnect == "abort" and not self.record.has_ended:
            await self.cancel("the caller left")


def key_of_requests(owner: SessionOwner, session_id: str) -> str:
    """Name the requests of a session: with whose they are, since an id may be another user's when its session has ended."""
    return f"{owner.tenant_id}/{owner.user_id}/{session_id}"


class RequestBook:
    """The requests of all sessions of a host: those that are open, and the last ones that have ended."""

    def __init__(self) -> None:
        """Begin without any."""
        self._open: dict[str, dict[str, RequestTrack]] = {}
        self._ended: dict[str, OrderedDict[str, RequestRecord]] = {}
        self._order: OrderedDict[tuple[str, str], None] = OrderedDict()

    @property
    def open_tracks(self) -> tuple[RequestTrack, ...]:
        """All that have not ended."""
        return tuple(track for tracks in self._open.values() for track in tracks.values())

    def open(self, key: str, track: RequestTrack) -> None:
        """Note one that was accepted."""
        self._open.setdefault(key, {})[track.record.request_id] = track

    def close(self, key: str, track: RequestTrack) -> None:
        """Note that one has ended: its record alone is kept, and not what it was read from."""
        request_id = track.record.request_id
        tracks = self._open.get(key, {})
        tracks.pop(request_id, None)
        if not tracks:
            self._open.pop(key, None)
        ended = self._ended.setdefault(key, OrderedDict[str, RequestRecord]())
        ended[request_id] = track.record
        self._order[key, request_id] = None
        if len(ended) > MAX_KEPT_REQUESTS:
            self._forget(key, next(iter(ended)))
        if len(self._order) > MAX_KEPT_IN_ALL:
            self._forget(*next(iter(self._order)))

    def find(self, key: str, request_id: str) -> RequestTrack | None:
        """Give a request that is known; None for any other."""
        tracks = self._open.get(key)
        if tracks is not None and request_id in tracks:
            return tracks[request_id]
        ended = self._ended.get(key)
        if ended is None or request_id not in ended:
            return None
        return RequestTrack(ended[request_id])

    def forget_session(self, key: str) -> None:
        """Forget what has ended of a session that was removed: the next one of its id is another one."""
        if key in self._ended:
            for request_id in tuple(self._ended[key]):
                self._forget(key, request_id)

    def _forget(self, key: str, request_id: str) -> None:
        ended = self._ended[key]
        del ended[request_id], self._order[key, request_id]
        if not ended:
            del self._ended[key]


# Following a request by the events of its session, to its end and to its answer. Decides nothing: the rules stand above.

_BUFFER: Final = 4096
"""Events of beginnings and ends alone: the task that reads them is never so far behind."""


_READ_IN_ONE_GO: Final = 64


def subscribe_to_requests(session: Session, *, after: int | None = None) -> Subscription:
    """Subscribe to what has to be read of a session to know how its requests stand."""
    return session.subscribe(kinds=KINDS_OF_REQUESTS, deltas=False, buffer=_BUFFER, after=after)


def follow_nowait(track: RequestTrack, events: Subscription) -> None:
    """Take what waits to be read: what a session said at once, when it took the message."""
    with suppress(trio.WouldBlock, trio.EndOfChannel, SubscriberTooSlow):
        while not track.standing.has_ended:
            _take(track, events, events.next_nowait())


async def follow(session: Session, track: RequestTrack, events: Subscription) -> Event | None:
    """Read the events of a session until a request has ended.

    Cancellation: It is followed no longer.
    """
    after = await _follow_to_end(track, events)
    while isinstance(after, int):  # others kept the loop for so long that the buffer was full
        async with subscribe_to_requests(session, after=after) as again:
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
            track.stand(ended_by_host(track.standing, "shutdown", "the session was put to rest"))
        else:
            track.stand(without_session(track.standing, "it said no more"))
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
    """Look for a request among the events of a session, from its first one on; None where none of them names it.

    For one that an earlier process began.

    Cancellation: Nothing has changed.
    """
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
    """Say that a request has ended, with what there is of an answer."""
    standing, text = track.standing, ""
    try:
        if session is not None and track.record.context_window is None:
            track.learn_window(window_of(session))
        if session is not None and standing.is_kept:
            text = await _answer_of(session, standing)
    finally:  # whatever the session says: others wait for it
        track.end(text)


async def _answer_of(session: Session, standing: RequestStanding) -> str:
    read = session.reads_answers()
    if standing.messages:
        return read(standing.messages)
    # Of one that was aborted or has failed the end says nothing of what was said.
    with suppress(AgentrailError), trio.move_on_after(1.0):
        return read(said_to(standing.ref, await session.messages()))
    return ""


def said_to(ref: PromptRef, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Give what stands in the history behind a prompt, up to the next one; nothing where it does not stand there."""
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
