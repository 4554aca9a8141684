"""One step of the state machine engine. `EngineRun._turn` and `EngineRun._settle` implement "the exact order"."""

import math
import sys
from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, NoReturn, cast

from attrs import define, field

from agentrail.otp.exits import Crashed, ExitReason, Redact, is_reason
from agentrail.otp.guarded_calls import show, travels
from agentrail.otp.statem_types import (
    KEEP,
    ArmTimer,
    Call,
    CancelTimer,
    Cast,
    Clock,
    D,
    DeadLetter,
    DisarmTimer,
    Engine,
    EngineEffect,
    EnteringMachine,
    EventTimeout,
    Hibernate,
    Info,
    Internal,
    Keep,
    Machine,
    MachineEvent,
    NamedTimeout,
    NextEvent,
    NextState,
    Note,
    Perform,
    Postpone,
    RefuseCall,
    Repeat,
    Reply,
    S,
    SendReply,
    StateTimeout,
    Stop,
    StopAndReply,
    Terminate,
    TimedOut,
    Transition,
    TransitionAction,
    UpdateTimer,
)
from agentrail.otp.timers import EVENT_TIMER, STATE_TIMER, Timer, TimerIndex, TimerKey, TimerKind

_EVENTS: Final = (Call, Cast, Info, TimedOut, Internal)
_NAMELESS: Final[dict[str, TimerKey]] = {"event": EVENT_TIMER, "state": STATE_TIMER}


class _Halt(Exception):
    """The machine ends in the middle of a turn, with this reason. Everything it did so far stays."""

    def __init__(self, reason: ExitReason) -> None:
        self.reason = reason


class _BrokenRule(Exception):
    """The machine ends in the middle of a turn, because it broke a rule of the engine."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text


@define(eq=False, repr=False, weakref_slot=False)
class EngineRun(Generic[S, D]):
    """One step in progress, from an engine to the next one and the effects."""

    machine: Machine[S, D]
    before: Engine[S, D]
    now: float
    redact: Redact
    clock: Clock | None
    timers: TimerIndex = field(init=False)
    _state: S = field(init=False)
    _data: D = field(init=False)
    _postponed: tuple[MachineEvent, ...] = field(init=False)
    _epoch: int = field(init=False)
    _overflowing: bool = field(init=False)
    _stopped: ExitReason | None = field(init=False, default=None)
    _effects: list[EngineEffect] = field(init=False, factory=list)
    _queue: deque[MachineEvent] = field(init=False, factory=deque)
    # Pending zero timeouts and their contents, oldest first.
    _due: dict[TimerKey, object] = field(init=False, factory=dict)
    _handled: int = field(init=False, default=0)
    # State of one turn: its event, and the requests of its actions.
    _event: MachineEvent | None = field(init=False, default=None)
    _entering: bool = field(init=False, default=False)
    _postpone: bool = field(init=False, default=False)
    _inserted: list[MachineEvent] = field(init=False, factory=list)
    # Due time and content. A time of None keeps the previous one.
    _wanted: dict[TimerKey, tuple[float | None, object]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        before = self.before
        self.timers, self._state, self._data = before.timers, before.state, before.data
        self._postponed, self._epoch, self._overflowing = before.postponed, before.epoch, before.overflowing

    def run(self, event: MachineEvent | None, actions: Sequence[TransitionAction] = ()) -> None:
        """Handle an event and everything that follows from it; None is the start, with the actions of `init`."""
        try:
            if event is None:
                self._begin(actions)
            else:
                self._turn(event)
            while self._queue or self._due:  # 7
                self._turn(self._queue.popleft() if self._queue else self._oldest_zero_timeout())
        except _Halt as halt:
            self._stopped = halt.reason
        except _BrokenRule as broken:
            self._stopped = Crashed.of_rule(broken.name, broken.text, redact=self.redact)
        except BaseException as error:  # noqa: ASYNC103 - an actor's edge: its machine's error is its exit reason
            if travels(error):
                raise
            self._stopped = Crashed.from_exception(error, redact=self.redact)

    def result(self) -> tuple[Engine[S, D], tuple[EngineEffect, ...]]:
        """Return the next engine and the effects."""
        last: MachineEvent | None = None
        left: tuple[MachineEvent, ...] = ()
        if self._stopped is not None:
            self._effects.append(Terminate(self._stopped))
            last = self._event
            left = (*self._queue, *(_timed_out(key, content) for key, content in self._due.items()))
        after = Engine(
            self._state,
            self._data,
            self.before.limits,
            self._postponed,
            self.timers,
            self._epoch,
            self._overflowing,
            self._stopped,
            last,
            left,
        )
        return after, tuple(self._effects)

    # --- the exact order, with the numbers of the specification

    def _begin(self, actions: Sequence[TransitionAction]) -> None:
        self._act(actions)  # 1
        if getattr(self.machine, "state_enter", False):
            self._enter(self._state)  # 2
        self._settle(changed=False)  # 3 to 6

    def _turn(self, event: MachineEvent) -> None:
        self._event = event
        self._count()
        left = self._state
        transition = self.machine.handle(event, left, self._data)
        self._take(transition)  # 1
        if isinstance(transition, NextState):
            self._state = transition.state
        changed = not _is_same(left, self._state)
        if (changed or isinstance(transition, Repeat)) and getattr(self.machine, "state_enter", False):
            self._enter(left)  # 2
        self._settle(changed=changed)  # 3 to 6

    def _settle(self, *, changed: bool) -> None:
        if self._postpone:  # 3
            self._postpone = False
            if self._event is not None:  # `init` has no event to postpone
                self._put_by(self._event, changed=changed)
        if changed and self._postponed:  # 4
            self._queue.extendleft(reversed(self._postponed))
            self._postponed = ()
            self._overflowing = False
        if self._inserted:  # 5
            self._queue.extendleft(reversed(self._inserted))
            self._inserted = []
        if self._wanted or self._due or self.timers.count:  # 6
            self._set_timers(changed=changed)

    def _enter(self, left: S) -> None:
        machine = cast("EnteringMachine[S, D]", self.machine)
        self._entering = True
        while True:
            transition = machine.enter(left, self._state, self._data)
            if isinstance(transition, NextState) and not _is_same(self._state, transition.state):
                _bad_enter(f"the state {show(transition.state)}")
            self._take(transition)
            if not isinstance(transition, Repeat):
                break
            self._count()
            left = self._state
        self._entering = False

    # --- transitions and actions

    def _take(self, transition: Transition[S, D]) -> None:
        if isinstance(transition, (NextState, Keep, Repeat)):
            if transition.actions:
                self._act(transition.actions)
            if transition.data is not KEEP:
                self._data = transition.data
        elif isinstance(transition, (Stop, StopAndReply)):
            self._end(transition)
        else:
            _fault(
                "BadTransition",
                _NO_TRANSITION.format("enter" if self._entering else "handle", show(transition)),
            )

    def _end(self, transition: Stop[D] | StopAndReply[D]) -> NoReturn:
        if isinstance(transition, StopAndReply):
            for reply in transition.replies:
                if isinstance(reply, Reply):
                    self._effects.append(SendReply(reply.to, reply.value))
                else:
                    _fault("BadAction", f"StopAndReply takes only Reply, got {show(reply)}")
        if transition.data is not KEEP:
            self._data = transition.data
        if is_reason(transition.reason):
            raise _Halt(transition.reason)
        _fault(
            "BadTransition", f"Stop takes an exit reason, got {show(transition.reason)}: use Shutdown(why)"
        )

    def _act(self, actions: Sequence[TransitionAction]) -> None:
        if not isinstance(actions, (tuple, list, Sequence)):
            _fault("BadAction", f"actions must be a list or a tuple, got {show(actions)}: put it in brackets")
        for action in actions:
            if type(action) is Perform:  # the most common action
                self._effects.append(action)
                continue
            match action:
                case Reply(to, value):
                    self._effects.append(SendReply(to, value))
                case Postpone() | NextEvent() if self._entering:
                    _bad_enter(show(action))
                case Postpone(on):
                    self._postpone = on
                case NextEvent(event) if isinstance(event, _EVENTS):
                    self._inserted.append(event)
                case StateTimeout(content=content):
                    self._want(STATE_TIMER, self._due_seconds(action), content)
                case EventTimeout(content=content):
                    self._want(EVENT_TIMER, self._due_seconds(action), content)
                case NamedTimeout(content=content):
                    self._want(self._key_of(action, "named"), self._due_seconds(action), content)
                case CancelTimer(kind):
                    self._want(self._key_of(action, kind), math.inf, None)
                case UpdateTimer(kind, content):
                    self._want(self._key_of(action, kind), None, content)
                case Hibernate():
                    pass
                case _:
                    _fault("BadAction", _NO_ACTION.format(show(action)))

    # --- postponing

    def _put_by(self, event: MachineEvent, *, changed: bool) -> None:
        # At a state change the queue is replayed at once, so it cannot grow and nothing is refused.
        limits = self.before.limits
        if changed or len(self._postponed) < limits.postponed:
            self._postponed = (*self._postponed, event)
            return
        if limits.postpone_overflow == "stop":
            _fault("PostponeOverflow", f"{limits.postponed} events are postponed, which is the limit")
        if not self._overflowing:
            self._overflowing = True
            self._effects.append(Note("postpone_overflow"))
        if isinstance(event, Call):
            self._effects.append(RefuseCall(event.to, "postpone queue"))
        else:
            self._effects.append(DeadLetter(event, "postpone queue"))

    # --- timers

    def _want(self, key: TimerKey, due_seconds: float | None, content: object) -> None:
        self._wanted.pop(key, None)  # the last one wins, and zero timeouts keep the order of the winners
        self._wanted[key] = (due_seconds, content)

    def _set_timers(self, *, changed: bool) -> None:
        self._cancel(EVENT_TIMER)
        if changed:
            self._cancel(STATE_TIMER)
        wanted, self._wanted = self._wanted, {}
        for key, (due_seconds, content) in wanted.items():
            if due_seconds is None:
                timer = self.timers.get(key)
                if timer is None:
                    self._due[key] = content  # a pending one keeps its place
                else:  # not a new arming: the same epoch, and no effect for the shell
                    self.timers = self.timers.put(key, Timer(timer.epoch, timer.due_seconds, content))
            elif due_seconds == math.inf:
                self._cancel(key)
            elif due_seconds <= self.now:
                self._cancel(key)
                self._due[key] = content
            else:
                self._due.pop(key, None)
                self._epoch += 1
                self.timers = self.timers.put(key, Timer(self._epoch, due_seconds, content))
                self._effects.append(ArmTimer(key, self._epoch, due_seconds))

    def _cancel(self, key: TimerKey) -> None:
        self._due.pop(key, None)
        if self.timers.get(key) is not None:
            self.timers = self.timers.drop(key)
            self._effects.append(DisarmTimer(key))

    def _oldest_zero_timeout(self) -> TimedOut:
        key = next(iter(self._due))
        return _timed_out(key, self._due.pop(key))

    def _due_seconds(self, timeout: StateTimeout | EventTimeout | NamedTimeout) -> float:
        due_seconds = timeout.at_seconds
        if (
            due_seconds is None
            and timeout.seconds is not None
            and _is_number(timeout.seconds)
            and timeout.seconds >= 0
        ):
            # The handler has returned, so its seconds count from here. An absolute time is compared with
            # `now` instead: a machine behind its schedule would otherwise never finish the step.
            since = self.now if self.clock is None else self.clock()
            due_seconds = since + timeout.seconds
            if due_seconds <= since:
                due_seconds = self.now
        if due_seconds is None or not _is_number(due_seconds):
            _fault(
                "BadAction",
                f"{show(timeout)}: a timeout needs seconds >= 0, or at_seconds on the machine's clock",
            )
        return due_seconds

    def _key_of(self, action: NamedTimeout | CancelTimer | UpdateTimer, kind: TimerKind) -> TimerKey:
        if kind == "named" and _is_hashable(action.name):
            return TimerKey(kind, action.name)
        if action.name is not None or kind not in _NAMELESS:
            _fault(
                "BadAction",
                f"{show(action)}: a timer must be event, state or named, and a named timer needs a hashable name",
            )
        return _NAMELESS[kind]

    def _count(self) -> None:
        self._handled += 1
        if self._handled > self.before.limits.events_per_step:
            _fault(
                "EngineLoop",
                f"more than {self._handled - 1} events in one step: events are inserted in an endless loop",
            )


def _fault(name: str, text: str) -> NoReturn:
    raise _BrokenRule(name, text)


def _bad_enter(what: str) -> NoReturn:
    _fault(
        "BadEnterResult",
        f"enter returned {what}: only handle may change the state, postpone or insert events",
    )


_NO_TRANSITION: Final = (
    "{} returned {}, expected NextState, Keep, Repeat, Stop or StopAndReply: return one of them"
)
_NO_ACTION: Final = (
    "{} is not an action, and NextEvent takes an event: wrap an effect for the shell in Perform"
)


def _timed_out(key: TimerKey, content: object) -> TimedOut:
    return TimedOut(key.kind, key.name, content)


def _is_same(one: object, other: object) -> bool:
    # `==` alone would take 1 for True.
    return one is other or (type(one) is type(other) and bool(one == other))


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and abs(value) <= sys.float_info.max  # a larger one fits no clock


def _is_hashable(name: object) -> bool:
    try:
        hash(name)  # not `isinstance(name, Hashable)`: a tuple may hold a list
    except TypeError:
        return False
    return True
