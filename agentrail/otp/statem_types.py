"""The words of the state machine engine: events, transitions, actions, effects. What they do stands in `statem`.

All of them are `msgspec.Struct`s, not attrs classes: a session makes several per signal, and these cost a tenth. Those
that live for one step are not seen by the cyclic garbage collector (`gc=False`).
"""

import enum
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from attrs import Attribute, field, frozen
from msgspec import Struct

from agentrail.errors import InvalidSpec
from agentrail.otp.exits import ExitReason, Normal
from agentrail.otp.timers import NO_TIMERS, TimerIndex, TimerKey, TimerKind

Clock: TypeAlias = Callable[[], float]
"""Reads the time in seconds, on a clock that never falls."""

S = TypeVar("S")
D = TypeVar("D")
S_co = TypeVar("S_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)


class KeepType(enum.Enum):
    """The type of `KEEP`, so that a type checker can tell it from data."""

    KEEP = "keep"


KEEP: Final = KeepType.KEEP
"""In place of data: what it was."""


R_co = TypeVar("R_co", covariant=True)


class RequestFor(Generic[R_co]):
    """A base for the classes of your requests: `class Total(RequestFor[int])` lets `await handle.call(Total())` be an `int`.

    Only for type checkers and editors: whether what `Reply` brings has that type is not checked.
    """

    __slots__ = ()


# --- events


class Call(Struct, frozen=True):
    """A caller asks, and waits.

    Attributes:
        to: Where the answer goes: a one-shot slot of the shell, which may be kept, passed on and answered later. The
            engine never looks into it.
        request: What is asked.
    """

    to: object
    request: object


class Cast(Struct, frozen=True):
    """A sender says something, and does not wait."""

    message: object


class Info(Struct, frozen=True, repr_omit_defaults=True):
    """Anything else that arrives: the end of another actor, the outcome of an effect.

    Attributes:
        message: What.
        tag: Of the outcome of an effect: that of its `Perform`, so that two of them can be told apart.
    """

    message: object
    tag: Hashable = None


class TimedOut(Struct, frozen=True):
    """A timer of this machine came due; `name` is `None` unless `kind` is `named`."""

    kind: TimerKind
    name: Hashable
    content: object


class Internal(Struct, frozen=True):
    """What only the machine itself can say, with `NextEvent`."""

    content: object


MachineEvent: TypeAlias = Call | Cast | Info | TimedOut | Internal
"""What `handle` is given."""


class TimerDue(Struct, frozen=True, gc=False):
    """The shell says that a timer came due. Dropped unless `epoch` is that of the timer which runs now."""

    key: TimerKey
    epoch: int


Incoming: TypeAlias = Call | Cast | Info | TimerDue
"""What `step` is given. No sender can make a timeout or an `Internal`."""


# --- actions: what a transition asks for, carried out from left to right


class Reply(Struct, frozen=True, gc=False):
    """Answer a call, this one or one that was kept. At once, in its place among the effects."""

    to: object
    value: object


class Postpone(Struct, frozen=True):
    """Handle this event again after the next state change; `on=False` takes an earlier `Postpone` back."""

    on: bool = True


class NextEvent(Struct, frozen=True):
    """Insert an event of any type. It is handled before all that waits."""

    event: MachineEvent


class _AtSeconds(Struct, frozen=True, gc=False, kw_only=True):
    at_seconds: float | None = None


class StateTimeout(_AtSeconds, frozen=True, gc=False):
    """Start the state timer anew; a state change ends it.

    Attributes:
        seconds: From now on; 0 comes before anything from the mailbox, `math.inf` cancels.
        content: What its `TimedOut` carries.
        at_seconds: Instead of `seconds`: when, on the clock of `now`. If both are given this one counts.
    """

    seconds: float | None = None
    content: object = None


class EventTimeout(_AtSeconds, frozen=True, gc=False):
    """Start the event timer anew; any event ends it. Attributes as of `StateTimeout`."""

    seconds: float | None = None
    content: object = None


class NamedTimeout(_AtSeconds, frozen=True, gc=False):
    """Start the timer of this name anew; nothing ends it but the machine. Attributes as of `StateTimeout`."""

    name: Hashable
    seconds: float | None = None
    content: object = None


class CancelTimer(Struct, frozen=True, gc=False):
    """Cancel a timer, also if it came due already and was not handled yet. Fine if it does not run."""

    kind: TimerKind
    name: Hashable = None


class UpdateTimer(Struct, frozen=True, gc=False):
    """Let a running timer carry other content, at the same time. One that does not run fires at once."""

    kind: TimerKind
    content: object
    name: Hashable = None


class Perform(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Hand an effect to the shell, in its place among the effects. The engine does not look into it.

    Attributes:
        effect: For the shell.
        tag: What its outcome carries, `Info(value, tag)`. One that is given is always answered, with `Info(None, tag)` where
            there is no value; without one a value of `None` sends nothing.
    """

    effect: object
    tag: Hashable = None


class Hibernate(Struct, frozen=True):
    """Does nothing: Python has no heap of one actor to compact. Accepted, so that ports from Erlang run."""


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


# --- transitions: what `handle` and `enter` answer


class NextState(Struct, Generic[S_co, D_co], frozen=True, gc=False):
    """Go to a state. It is a *state change* if that differs from the present one."""

    state: S_co
    data: D_co | KeepType = KEEP
    actions: Sequence[TransitionAction] = ()


class Keep(Struct, Generic[D_co], frozen=True, gc=False):
    """Stay in this state."""

    data: D_co | KeepType = KEEP
    actions: Sequence[TransitionAction] = ()


class Repeat(Struct, Generic[D_co], frozen=True):
    """Stay in this state and enter it again: `enter` is called, nothing is replayed."""

    data: D_co | KeepType = KEEP
    actions: Sequence[TransitionAction] = ()


class Stop(Struct, Generic[D_co], frozen=True):
    """End the machine."""

    reason: ExitReason = Normal()
    data: D_co | KeepType = KEEP


class StopAndReply(Struct, Generic[D_co], frozen=True):
    """End the machine. The replies go out before it terminates, and before anybody hears of the end."""

    replies: Sequence[Reply]
    reason: ExitReason = Normal()
    data: D_co | KeepType = KEEP


Transition: TypeAlias = NextState[S, D] | Keep[D] | Repeat[D] | Stop[D] | StopAndReply[D]


class Machine(Protocol[S, D]):
    """What the engine runs: a plain function without I/O. Its attribute `state_enter` may be true, see below."""

    def handle(self, event: MachineEvent, state: S, data: D, /) -> Transition[S, D]:
        """Decide what one event means in this state."""
        ...


class EnteringMachine(Machine[S, D], Protocol[S, D]):
    """A machine whose `enter` is called at the start, after each state change, and for each `Repeat`."""

    state_enter: bool

    def enter(self, old_state: S, state: S, data: D, /) -> Transition[S, D]:
        """Set up a state, before any of its events. It may do all but change the state, postpone and insert."""
        ...


class Init(Struct, Generic[S_co, D_co], frozen=True):
    """How a machine begins.

    Attributes:
        state: The first state.
        data: The first data.
        actions: As of a transition; a `Postpone` is ignored, since there is no event to keep.
        info: For the starter. The engine does not look into it.
    """

    state: S_co
    data: D_co
    actions: Sequence[TransitionAction] = ()
    info: object = None


# --- effects: what the engine asks of its shell


class SendReply(Struct, frozen=True, gc=False):
    """Put the value into the slot of a call."""

    to: object
    value: object


class RefuseCall(Struct, frozen=True):
    """Tell a caller that its call is not going to be handled: `MailboxFull(why)`."""

    to: object
    why: str


class ArmTimer(Struct, frozen=True, gc=False):
    """Bring `TimerDue(key, epoch)` at this time, in place of what was armed under the key before."""

    key: TimerKey
    epoch: int
    due_seconds: float


class DisarmTimer(Struct, frozen=True, gc=False):
    """Forget what is armed under this key."""

    key: TimerKey


PerformEffect: TypeAlias = Perform
"""Carry out what the machine asked for: its own action, passed on. A second wrapper per effect would say no more."""


class DeadLetter(Struct, frozen=True):
    """This event is not going to be handled, and no caller waits for an answer."""

    event: MachineEvent
    why: str


class Note(Struct, frozen=True):
    """Something that an observer should hear of, once per episode."""

    kind: Literal["postpone_overflow"]


class Terminate(Struct, frozen=True):
    """The machine has ended. All that it still has goes with it: armed timers, waiting events, open calls."""

    reason: ExitReason


EngineEffect: TypeAlias = (
    PerformEffect | SendReply | ArmTimer | DisarmTimer | RefuseCall | DeadLetter | Note | Terminate
)
"""Carried out in the order of the list. `Terminate` is always the last one, and nothing follows it ever."""


# --- the engine's value

PostponeOverflow: TypeAlias = Literal["refuse", "stop"]


def check_bound(field_name: str, value: object) -> None:
    """Refuse a number of messages that is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{field_name} is {value!r}, allowed is an integer from 1"
        raise InvalidSpec(message, code="invalid_mailbox", field=field_name)


def _is_bound(_: object, attribute: "Attribute[int]", value: object) -> None:
    check_bound(attribute.name, value)


def _is_overflow(_: object, attribute: "Attribute[PostponeOverflow]", value: object) -> None:
    allowed = get_args(PostponeOverflow)
    if value not in allowed:
        message = f"{attribute.name} is {value!r}, allowed is one of {', '.join(map(repr, allowed))}"
        raise InvalidSpec(message, code="invalid_mailbox", field=attribute.name)


@frozen(kw_only=True)
class Limits:
    """What keeps a machine from growing or spinning without end.

    Attributes:
        postponed: How many events may be postponed at a time.
        postpone_overflow: What becomes of one more: `refuse` it, a call with an answer, or `stop` the machine.
        events_per_step: How many events, and repeated `enter` calls, may follow from one incoming event.

    Raises:
        InvalidSpec: Your move: `invalid_mailbox`, a bound below 1 or another policy.
    """

    postponed: int = field(default=1_000, validator=_is_bound)
    postpone_overflow: PostponeOverflow = field(default="refuse", validator=_is_overflow)
    events_per_step: int = field(default=10_000, validator=_is_bound)


class Engine(Struct, Generic[S, D], frozen=True):
    """All that a machine is between two steps. Who keeps an old one can drop a step as if it never happened.

    For a dropped `TimerDue` that means: here the timer still runs, so the shell has to fire it again or arm it anew.

    Attributes:
        data: Its data. Frozen only if the machine keeps it so.
        postponed: Events that wait for a state change, oldest first; never more than `limits.postponed`.
        epoch: The newest epoch. It never falls, so that no arming is taken for another.
        overflowing: An overflow of `postponed` was noted, and no state change has emptied it since.
        stopped: Why the machine has ended; `None` while it has not.
        last: Of a machine that has ended: the event that ended it, `None` if none did.
        queue: Of a machine that has ended: what else it would have handled in that step, in this order, waiting zero
            timeouts included. Else empty, a step ends when only the mailbox could bring more.
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
