"""A machine given as a table, and the smallest shell that can run it: a clock that stands still, and armed timers."""

from agentrail.otp.statem import (
    ArmTimer,
    Call,
    Cast,
    DisarmTimer,
    EngineEffect,
    Incoming,
    Info,
    Init,
    Keep,
    Limits,
    NextState,
    Postpone,
    SendReply,
    Terminate,
    TimedOut,
    TimerDue,
    start_statem,
    step_statem,
    stop_statem,
)


class Table:
    """A machine that notes what it handled and entered, in order.

    Args:
        table: For each state a function of the event, or the transition that is the answer to every event.
        enter: A function of state and data, or the one answer; without it there is no state entry.
    """

    def __init__(self, table, enter=None):
        self.table = table
        self.state_enter = enter is not None
        self.on_enter = enter
        self.log = []

    def handle(self, event, state, data):
        """Note the event by its contents, and look it up."""
        self.log.append((state, said(event)))
        answer = self.table[state]
        return answer(event) if callable(answer) else answer

    def enter(self, old_state, state, data):
        """Note both states, and ask the function for it."""
        self.log.append(("enter", old_state, state))
        return self.on_enter(state, data) if callable(self.on_enter) else self.on_enter


class Rig:
    """Runs a machine by the contract of its effects, and keeps all of them in `effects`."""

    def __init__(self, machine, init=None, *, limits=None):
        self.machine = machine
        self.now = 100.0
        self.armed = {}
        self.effects = []
        init = Init("s1", None) if init is None else init
        self.engine, effects = start_statem(machine, init, now=self.now, limits=limits or Limits())
        self._carry_out(effects)

    def send(self, event: Incoming) -> tuple[EngineEffect, ...]:
        self.engine, effects = step_statem(self.machine, self.engine, event, now=self.now)
        self._carry_out(effects)
        return effects

    def cast(self, *messages: object) -> None:
        for message in messages:
            self.send(Cast(message))

    def call(self, request: object, to: object = "caller") -> tuple[EngineEffect, ...]:
        return self.send(Call(to, request))

    def stop(self, reason) -> None:
        self.engine, effects = stop_statem(self.engine, reason)
        self._carry_out(effects)

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire what comes due, in order."""
        end = self.now + seconds
        while due := [timer for timer in self.armed.values() if timer.due_seconds <= end]:
            timer = min(due, key=lambda each: each.due_seconds)
            self.now = timer.due_seconds
            self.fire(timer)
        self.now = end

    def fire(self, timer: ArmTimer) -> None:
        """Take it off and tell the machine, as a shell does that saw it come due a while ago."""
        if self.armed.get(timer.key) == timer:
            del self.armed[timer.key]
        self.send(TimerDue(timer.key, timer.epoch))

    @property
    def log(self):
        return self.machine.log

    @property
    def replies(self) -> list[tuple[object, object]]:
        return [(effect.to, effect.value) for effect in self.effects if isinstance(effect, SendReply)]

    def _carry_out(self, effects) -> None:
        self.effects += effects
        for effect in effects:
            match effect:
                case ArmTimer(key):
                    self.armed[key] = effect
                case DisarmTimer(key):
                    del self.armed[key]  # a KeyError: the engine disarmed what did not run
                case Terminate():
                    assert effect is effects[-1]
                    self.armed.clear()


def said(event) -> object:
    """Return what an event says, without the envelope."""
    match event:
        case Call(_, request):
            return request
        case Cast(message) | Info(message):
            return message
        case TimedOut(kind, None, content):
            return (kind, content)
        case TimedOut(_, name, content):
            return (name, content)
        case _:
            return event.content


def goto(event, otherwise=()):
    """Go where `("go", state)` says, else stay with the actions given."""
    match said(event):
        case ("go", state):
            return NextState(state)
        case _:
            return Keep(actions=otherwise)


def postpone(event):
    """Put every event by, but go where `("go", state)` says."""
    return goto(event, [Postpone()])


def obey(event):
    """Answer with the transition that the event carries, or stay."""
    transition = said(event)
    return Keep() if isinstance(transition, str | tuple) or transition is None else transition


def of_kind(effects, kind):
    return [effect for effect in effects if isinstance(effect, kind)]
