"""Types of the state machine engine: events, transitions, actions, effects. `statem` implements them."""

import enum
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from attrs import Attribute, field, frozen
from msgspec import Struct

from agentrail.errors import InvalidSpec
from agentrail.otp.exits import ExitReason, Normal
from agentrail.otp.guarded_calls import show
from agentrail.otp.timers import NO_TIMERS, TimerIndex, TimerKey, TimerKind

Clock: TypeAlias = Callable[[], float]
"""Returns the time in seconds, on a clock that never goes back."""

S = TypeVar("S")
D = TypeVar("D")
S_co = TypeVar("S_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)


class KeepType(enum.Enum):
    """The type of `KEEP`, so that a type checker can distinguish it from data."""

    KEEP = "keep"


KEEP: Final = KeepType.KEEP
"""Placeholder for data: keep it unchanged."""


R_co = TypeVar("R_co", covariant=True)


class RequestFor(Generic[R_co]):
    """Base for the classes of your requests.

    `class Total(RequestFor[int])` makes `await handle.call(Total())` an `int`. Only for type checkers and editors:
    the type of the value in `Reply` is not checked.
    """

    __slots__ = ()


# --- events


class Call(Struct, frozen=True):
    """A request whose caller waits for an answer.

    Attributes:
        to: Destination of the answer: a one-shot slot of the shell, which can be kept, passed on and answered
            later. The engine never inspects it.
        request: The request itself.
    """

    to: object
    request: object


class Cast(Struct, frozen=True):
    """A message whose sender does not wait for an answer."""

    message: object


class Info(Struct, frozen=True, repr_omit_defaults=True):
    """Any other message: the end of another actor, the outcome of an effect.

    Attributes:
        message: The message itself.
        tag: For the outcome of an effect, the tag of its `Perform`, which distinguishes several outcomes.
    """

    message: object
    tag: Hashable = None


class TimedOut(Struct, frozen=True):
    """A timer of this machine is due. `name` is `None` unless `kind` is `named`."""

    kind: TimerKind
    name: Hashable
    content: object


class Internal(Struct, frozen=True):
    """An event that only the machine itself can create, with `NextEvent`."""

    content: object


MachineEvent: TypeAlias = Call | Cast | Info | TimedOut | Internal
"""The argument of `handle`."""


class TimerDue(Struct, frozen=True, gc=False):
    """The shell reports that a timer is due. Dropped unless `epoch` is that of the timer now running."""

    key: TimerKey
    epoch: int


Incoming: TypeAlias = Call | Cast | Info | TimerDue
"""The argument of `step_statem`. No sender can create a timeout or an `Internal`."""


# --- actions of a transition, carried out from left to right


class Reply(Struct, frozen=True, gc=False):
    """Answer a call, the current one or an earlier one. Sent at once, in its place among the effects."""

    to: object
    value: object


class Postpone(Struct, frozen=True):
    """Handle this event again after the next state change. `on=False` cancels an earlier `Postpone`."""

    on: bool = True


class NextEvent(Struct, frozen=True):
    """Insert an event of any type. It is handled before all queued events."""

    event: MachineEvent


class _AtSeconds(Struct, frozen=True, gc=False, kw_only=True):
    at_seconds: float | None = None


class StateTimeout(_AtSeconds, frozen=True, gc=False):
    """Restart the state timer, which a state change cancels.

    Attributes:
        seconds: Time from now. 0 fires before anything from the mailbox, `math.inf` cancels.
        content: Content of its `TimedOut`.
        at_seconds: Absolute time on the clock of `now`. Takes precedence over `seconds`.
    """

    seconds: float | None = None
    content: object = None


class EventTimeout(_AtSeconds, frozen=True, gc=False):
    """Restart the event timer, which any event cancels. Attributes are the same as for `StateTimeout`."""

    seconds: float | None = None
    content: object = None


class NamedTimeout(_AtSeconds, frozen=True, gc=False):
    """Restart the timer of this name, which only the machine cancels. Attributes are the same as for `StateTimeout`."""

    name: Hashable
    seconds: float | None = None
    content: object = None


class CancelTimer(Struct, frozen=True, gc=False):
    """Cancel a timer, even if it was due and not handled yet. Has no effect if it is not running."""

    kind: TimerKind
    name: Hashable = None


class UpdateTimer(Struct, frozen=True, gc=False):
    """Replace the content of a running timer and keep its due time. A timer that is not running fires at once."""

    kind: TimerKind
    content: object
    name: Hashable = None


class Perform(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Pass an effect to the shell, in its place among the effects. The engine does not inspect it.

    Attributes:
        effect: Effect for the shell.
        tag: Tag of its outcome, `Info(value, tag)`. With a tag there is always an outcome, `Info(None, tag)` if
            there is no value. Without a tag, a value of `None` sends nothing.
    """

    effect: object
    tag: Hashable = None


class Hibernate(Struct, frozen=True):
    """Does nothing: Python has no heap per actor to compact. Accepted so that code ported from Erlang runs."""


TransitionAction: TypeAlias = (
    Perform
    | Reply
    | Postpone
    | NextEvent
    | StateTimeout
    | EventTimeout
    | NamedTimeout
    | CancelTimer
    | UpdateTimer
    | Hibernate
)


# --- transitions, returned by `handle` and `enter`


class NextState(Struct, Generic[S_co, D_co], frozen=True, gc=False):
    """Go to a state. It is a *state change* if that state differs from the current one."""

    state: S_co
    data: D_co | KeepType = KEEP
    actions: Sequence[TransitionAction] = ()


class Keep(Struct, Generic[D_co], frozen=True, gc=False):
    """Stay in this state."""

    data: D_co | KeepType = KEEP
    actions: Sequence[TransitionAction] = ()


class Repeat(Struct, Generic[D_co], frozen=True):
    """Stay in this state and enter it again: `enter` is called, postponed events are not replayed."""

    data: D_co | KeepType = KEEP
    actions: Sequence[TransitionAction] = ()


class Stop(Struct, Generic[D_co], frozen=True):
    """End the machine."""

    reason: ExitReason = Normal()
    data: D_co | KeepType = KEEP


class StopAndReply(Struct, Generic[D_co], frozen=True):
    """End the machine. The replies are sent before it terminates, and before its end is reported."""

    replies: Sequence[Reply]
    reason: ExitReason = Normal()
    data: D_co | KeepType = KEEP


Transition: TypeAlias = NextState[S, D] | Keep[D] | Repeat[D] | Stop[D] | StopAndReply[D]


class Machine(Protocol[S, D]):
    """Logic of a state machine: a plain function without I/O.

    The optional attribute `state_enter` turns on `enter` calls; see `EnteringMachine`.
    """

    def handle(self, event: MachineEvent, state: S, data: D, /) -> Transition[S, D]:
        """Decide how to react to an event in this state."""
        ...


class EnteringMachine(Machine[S, D], Protocol[S, D]):
    """A machine whose `enter` is called at the start, after each state change, and for each `Repeat`."""

    state_enter: bool

    def enter(self, old_state: S, state: S, data: D, /) -> Transition[S, D]:
        """Set up a state, before its first event. It must not change the state, postpone or insert events."""
        ...


class Init(Struct, Generic[S_co, D_co], frozen=True):
    """Initial state of a machine.

    Attributes:
        state: The first state.
        data: The first data.
        actions: Same as for a transition. A `Postpone` is ignored, because there is no event to keep.
        info: Value for the starter. The engine does not inspect it.
    """

    state: S_co
    data: D_co
    actions: Sequence[TransitionAction] = ()
    info: object = None


# --- effects: instructions of the engine to its shell


class SendReply(Struct, frozen=True, gc=False):
    """Put the value into the slot of a call."""

    to: object
    value: object


class RefuseCall(Struct, frozen=True):
    """Tell a caller that its call will not be handled: `MailboxFull(why)`."""

    to: object
    why: str


class ArmTimer(Struct, frozen=True, gc=False):
    """Send `TimerDue(key, epoch)` at this time. Replaces the timer armed under the same key."""

    key: TimerKey
    epoch: int
    due_seconds: float


class DisarmTimer(Struct, frozen=True, gc=False):
    """Cancel the timer armed under this key."""

    key: TimerKey


PerformEffect: TypeAlias = Perform
"""Carry out an effect of the machine: its own action, passed on without a wrapper."""


class DeadLetter(Struct, frozen=True):
    """This event will not be handled, and no caller waits for an answer."""

    event: MachineEvent
    why: str


class Note(Struct, frozen=True):
    """An observation for observers, once per episode."""

    kind: Literal["postpone_overflow"]


class Terminate(Struct, frozen=True):
    """The machine has ended, with everything it still had: armed timers, queued events, open calls."""

    reason: ExitReason


EngineEffect: TypeAlias = (
    PerformEffect | SendReply | ArmTimer | DisarmTimer | RefuseCall | DeadLetter | Note | Terminate
)
"""Effects are carried out in the order of the list. `Terminate` is always the last effect of a machine."""


# --- the engine's value

PostponeOverflow: TypeAlias = Literal["refuse", "stop"]


def check_bound(field_name: str, value: object) -> None:
    """Raise InvalidSpec unless this is a positive number of messages."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{field_name} is {show(value)}: expected an integer >= 1"
        raise InvalidSpec(message, code="invalid_mailbox", field=field_name)


def _is_bound(_: object, attribute: "Attribute[int]", value: object) -> None:
    check_bound(attribute.name, value)


def _is_overflow(_: object, attribute: "Attribute[PostponeOverflow]", value: object) -> None:
    allowed = get_args(PostponeOverflow)
    if value not in allowed:
        message = f"{attribute.name} is {show(value)}: expected one of {', '.join(map(repr, allowed))}"
        raise InvalidSpec(message, code="invalid_mailbox", field=attribute.name)


@frozen(kw_only=True)
class Limits:
    """Limits on the growth of a machine and on the length of a step.

    Attributes:
        postponed: Maximum number of postponed events.
        postpone_overflow: Reaction to one more: `refuse` it (a call is answered with an error), or `stop` the
            machine.
        events_per_step: Maximum number of events, and of repeated `enter` calls, that follow from one incoming
            event.

    Raises:
        InvalidSpec: Your move: `invalid_mailbox`, a bound below 1 or an unknown policy.
    """

    postponed: int = field(default=1_000, validator=_is_bound)
    postpone_overflow: PostponeOverflow = field(default="refuse", validator=_is_overflow)
    events_per_step: int = field(default=10_000, validator=_is_bound)


class Engine(Struct, Generic[S, D], frozen=True):
    """State of a machine between two steps. A caller that keeps an old one can drop a step as if it never happened.

    After a dropped `TimerDue`, the timer still runs in the old state, so the shell has to fire it again or
    re-arm it.

    Attributes:
        data: Data of the machine. Immutable only if the machine keeps it so.
        postponed: Events that wait for a state change, oldest first; at most `limits.postponed`.
        epoch: The newest epoch. It never falls, so each arming is unique.
        overflowing: Whether an overflow of `postponed` was noted and no state change has emptied it since.
        stopped: Exit reason of the machine, or `None` while it runs.
        last: Event that ended the machine, or `None`.
        queue: Events that an ended machine would still have handled in that step, in order, including pending
            zero timeouts. Empty while the machine runs, because a step ends when only the mailbox can bring
            more.
    """

    state: S
    data: D
    limits: Limits
    postponed: tuple[MachineEvent, ...] = ()
    timers: TimerIndex = NO_TIMERS
    epoch: int = 0
    overflowing: bool = False
    stopped: ExitReason | None = None
    last: MachineEvent | None = None
    queue: tuple[MachineEvent, ...] = ()
