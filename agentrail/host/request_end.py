"""Whose end is it? How one request stands, from the events of its session: a fold, with no look at anything else.

Pure: a standing and an event give the next standing. A session runs one cycle at a time, and prompts wait, are taken for decisions, are
thrown away or steer; so an end belongs to a request only by the rules in this file. One table per session, kept by a task, would be
a second state, which could differ from the session's.
Who subscribes, and who is told, is decided elsewhere.
"""

from typing import Final, Literal, TypeAlias, get_args

from msgspec.structs import replace as evolve

from agentrail.core.session.projection import Status
from agentrail.errors import ErrorInfo
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
from agentrail.host.payloads import RequestOutcome
from agentrail.messages import Message, PromptRef, SteerRef, TokenUsage
from agentrail.structs import Value

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
        status: One of `RequestStatus`.
        seq: The number of the last event that changed it; 0 before any.
        pending: What its cycle waits for, oldest first; none but while it is `waiting`.
        is_kept: Whether it put something into the history, or made the session do so.
        messages: Those of its cycle, behind an end that was none of an abort or a failure.
        usage: Of its cycle so far; of all of it behind an end that says it. None before the first response.
        last_usage: Of the last response in its cycle; None before the first.
        stop_reason: Why its cycle finished; None for any other end.
        error: Why it failed.
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
    """Say how a request stands behind the next event of its session.

    Args:
        standing: How it stood. One that has ended stays as it is.
        event: Of its session, in order; none may be left out that is of `KINDS_OF_REQUESTS`, but those before its acceptance.
    """
    if standing.has_ended:
        return standing
    after = _of_prompts(standing, event)
    if after is standing:
        after = _of_cycles(standing, event)
    if after is standing or event.meta is None:
        return after
    return evolve(after, seq=event.meta.seq)


def _of_prompts(standing: RequestStanding, event: Event) -> RequestStanding:
    """What becomes of a prompt before a cycle works on it, and where it is none of its own."""
    ref = standing.ref
    match event:
        case PromptReceived(ref=one) if one == ref:
            return evolve(standing, status="running")
        case PromptQueued(ref=one) if one == ref:
            # Also a steer that no cycle heard: it is a prompt from now on, and has a cycle of its own.
            return evolve(standing, status="queued")
        case PromptDropped(ref=one) if one == ref:
            return evolve(standing, status="failed" if standing.is_given_up else "dropped")
        case PromptRejected(ref=one, reason=reason) if one == ref:
            return evolve(standing, status="refused", reason=reason)
        case PromptTaken(ref=one) if one == ref:
            # One cycle at a time: what it decided about belongs to that one, whose end comes next.
            return evolve(standing, status="running", is_joined=True, is_kept=True)
        case SteeringApplied(refs=refs) if SteerRef(ref) in refs:
            return evolve(standing, status="running", is_joined=True, is_kept=True)
        case _:
            return standing


def _of_cycles(standing: RequestStanding, event: Event) -> RequestStanding:
    """What becomes of the cycle that runs, whosever it is."""
    match event:
        case AgentStart(ref=ref):
            if ref == standing.ref:
                return evolve(standing, status="running", cycle=ref, is_kept=True)
            return evolve(standing, cycle=ref)
        case AgentSuspended(waiting=waiting) if standing.is_at_work:
            return evolve(standing, status="waiting", pending=waiting)
        case AgentResumed() if standing.status == "waiting":
            return evolve(standing, status="running", pending=())
        case ResponseComplete(usage=usage) if standing.is_at_work:
            used = usage if standing.usage is None else standing.usage + usage
            return evolve(standing, usage=used, last_usage=usage)
        case AgentEnd() | AgentAbort() | AgentError():
            return _behind_end(standing, event)
        case SessionParked():
            return evolve(standing, is_given_up=True)
        case SessionEnd(reason=reason):
            return without_session(standing, reason)
        case _:
            return standing


def _behind_end(standing: RequestStanding, event: AgentEnd | AgentAbort | AgentError) -> RequestStanding:
    # A name is missing where there was no cycle to abort, and in journals that are older than these names. A prompt that supersedes
    # a suspended cycle is accepted before that one ends: so the name counts, where there is one, and not the order alone.
    ended = standing.cycle if event.ref is None else event.ref
    if not standing.is_joined and ended != standing.ref:
        return standing if ended is None else evolve(standing, cycle=None)
    over = evolve(standing, cycle=None, pending=())
    match event:
        case AgentEnd(stop_reason="superseded"):
            return evolve(
                over,
                status="aborted",
                reason="a later prompt took its place",
                usage=event.usage,
                messages=event.messages,
                stop_reason=event.stop_reason,
            )
        case AgentEnd():
            return evolve(
                over,
                status="completed",
                usage=event.usage,
                messages=event.messages,
                stop_reason=event.stop_reason,
            )
        case AgentAbort(reason=reason):
            return evolve(over, status="aborted", reason=reason)
        case AgentError(error=error):
            return evolve(over, status="failed", error=error)


def without_session(standing: RequestStanding, reason: str) -> RequestStanding:
    """Say how a request stands whose session is gone, or was given up, without a word about it."""
    if standing.has_ended:
        return standing
    error = ErrorInfo(code="session_ended", message=f"the session has ended: {reason}")
    return evolve(standing, status="failed", pending=(), error=error)


def behind_loss(standing: RequestStanding, lost: EventsLost, status: Status) -> RequestStanding:
    """Say how a request stands behind events that are kept no longer, or count no more.

    Args:
        standing: How it stood before.
        lost: Which ones.
        status: How the session stands behind them. One that waits there still waits; of any other no end can come any more.
    """
    if standing.has_ended or standing.ref in status.queued or SteerRef(standing.ref) in status.steers:
        return standing
    message = f"the events {lost.from_seq} to {lost.to_seq} of its session are kept no longer, and its end may be among them"
    return evolve(standing, status="failed", pending=(), error=ErrorInfo(code="events_lost", message=message))


def ended_by_host(standing: RequestStanding, outcome: RequestOutcome, reason: str) -> RequestStanding:
    """End a request that its host ends: its session says nothing of that, or too late."""
    if standing.has_ended:
        return standing
    return evolve(standing, status=outcome, pending=(), reason=reason)
