"""The rules of the state machine, written as plainly as they are told: lists, loops, no epochs, nothing clever.

Handlers take time, so seconds count from the end of whoever set them: the machine says with `now` how late it is by then.
It is its own shell: it knows which of its timers run, so a timer that was cancelled is simply off. Faults of actions and
returns are not in here; a table of bad values in `tests/otp` says all there is to say about those.
"""

import math

from attrs import define

from agentrail.otp.statem import (
    KEEP,
    Call,
    CancelTimer,
    EventTimeout,
    NamedTimeout,
    NextEvent,
    NextState,
    Perform,
    Postpone,
    Repeat,
    Reply,
    StateTimeout,
    Stop,
    StopAndReply,
    TimedOut,
    UpdateTimer,
)


class EndedError(Exception):
    """The machine has ended; the argument is the reason, or the type of its crash."""


@define
class Arming:
    """One start of a timer."""

    key: tuple[str, object]
    due_seconds: float
    content: object
    runs: bool = True


class Naive:
    """One machine, changed in place by `start`, `step` and `fire`."""

    def __init__(self, machine, limits):
        self.machine = machine
        self.limits = limits
        self.state = self.data = None
        self.postponed = []
        self.armings = []  # all there ever were
        self.noted = False
        self.ended = None
        self.effects = []  # all but those about timers
        self.queue = []
        self.zeros = []  # [key, content], oldest first
        self.now = 0.0
        self.asked_at = {}  # when the handler that asked for a timer had ended
        self.count = 0

    def start(self, init, now):
        """Begin."""
        self.state, self.data = init.state, init.data
        self.guarded(now, lambda: self.follow(None, init.state, Repeat(actions=init.actions)))

    def step(self, event, now):
        """Handle one event and what follows."""
        if self.ended is None:
            self.guarded(now, lambda: self.turn(event))

    def fire(self, number, now):
        """Let one of all armings fire, whether or not it still runs."""
        arming = self.armings[number]
        if arming.runs:
            arming.runs = False
            self.step(TimedOut(*arming.key, arming.content), now)

    def running(self):
        """Return the timers that run, with time and content."""
        return {arming.key: (arming.due_seconds, arming.content) for arming in self.armings if arming.runs}

    def guarded(self, now, first):
        """Do the first thing, then empty the queue, then the zero timeouts one by one."""
        self.now, self.count, self.queue, self.zeros = now, 0, [], []
        self.machine.now = now
        try:
            first()
            while self.queue or self.zeros:
                if self.queue:
                    self.turn(self.queue.pop(0))
                else:
                    key, content = self.zeros.pop(0)
                    self.turn(TimedOut(*key, content))
        except EndedError as ended:
            self.ended = ended.args[0]

    def turn(self, event):
        """Handle one event."""
        self.tick()
        old = self.state
        self.follow(event, old, self.machine.handle(event, old, self.data))

    def tick(self):
        """Count."""
        self.count += 1
        if self.count > self.limits.events_per_step:
            raise EndedError("EngineLoop")  # noqa: EM101 - compared, not read

    def follow(self, event, old, transition):
        """Steps 1 to 6."""
        asked = []
        self.take(transition, asked)
        if isinstance(transition, NextState):
            self.state = transition.state
        changed = self.state != old
        if self.machine.state_enter and (changed or isinstance(transition, Repeat)):
            self.enter(old, asked)
        postpones = [action.on for action in asked if isinstance(action, Postpone)]
        if postpones and postpones[-1] and event is not None:
            self.put_by(event, changed)
        if changed and self.postponed:
            self.queue = self.postponed + self.queue
            self.postponed = []
            self.noted = False
        self.queue = [action.event for action in asked if isinstance(action, NextEvent)] + self.queue
        self.time(changed, asked)

    def take(self, transition, asked):
        """Send what goes out at once, and collect the rest."""
        if isinstance(transition, StopAndReply):
            self.effects += [("reply", reply.to, reply.value) for reply in transition.replies]
        if not isinstance(transition, Stop | StopAndReply):
            for action in transition.actions:
                if isinstance(action, Reply):
                    self.effects.append(("reply", action.to, action.value))
                elif isinstance(action, Perform):
                    self.effects.append(("perform", action.effect))
                else:
                    asked.append(action)
                    self.asked_at[id(action)] = self.machine.now
        if transition.data is not KEEP:
            self.data = transition.data
        if isinstance(transition, Stop | StopAndReply):
            raise EndedError(transition.reason)

    def enter(self, old, asked):
        """Enter the state, again and again while it asks for that."""
        transition = self.machine.enter(old, self.state, self.data)
        if isinstance(transition, NextState) and transition.state != self.state:
            raise EndedError("BadEnterResult")  # noqa: EM101 - compared, not read
        of_enter = []
        self.take_of_enter(transition, of_enter)
        asked += of_enter
        if isinstance(transition, Repeat):
            self.tick()
            self.enter(self.state, asked)

    def take_of_enter(self, transition, asked):
        """Take what comes before the first action that `enter` may not have, then end."""
        if isinstance(transition, Stop | StopAndReply):
            self.take(transition, asked)
        for number, action in enumerate(transition.actions):
            if isinstance(action, Postpone | NextEvent):
                self.take(Repeat(actions=transition.actions[:number]), asked)
                raise EndedError("BadEnterResult")  # noqa: EM101 - compared, not read
        self.take(transition, asked)

    def put_by(self, event, changed):
        """Postpone it, if there is room."""
        if changed or len(self.postponed) < self.limits.postponed:
            self.postponed = [*self.postponed, event]
        elif self.limits.postpone_overflow == "stop":
            raise EndedError("PostponeOverflow")  # noqa: EM101 - compared, not read
        else:
            if not self.noted:
                self.effects.append(("note", "postpone_overflow"))
            self.noted = True
            self.effects.append(("refuse", event.to) if isinstance(event, Call) else ("dead", event))

    def time(self, changed, asked):
        """Cancel what has to be cancelled, then do the last thing that was asked of each timer."""
        self.cancel(("event", None))
        if changed:
            self.cancel(("state", None))
        timed = [action for action in asked if not isinstance(action, Postpone | NextEvent)]
        for number, action in enumerate(timed):
            key = key_of(action)
            if key not in [key_of(later) for later in timed[number + 1 :]]:
                self.set(key, action)

    def set(self, key, action):
        """Do one timer action."""
        if isinstance(action, UpdateTimer):
            if waiting := [arming for arming in self.armings if arming.runs and arming.key == key]:
                waiting[0].content = action.content
            elif waiting := [zero for zero in self.zeros if zero[0] == key]:
                waiting[0][1] = action.content
            else:
                self.zeros.append([key, action.content])
            return
        self.cancel(key)
        if isinstance(action, CancelTimer):
            return
        if action.at_seconds is None:
            due_seconds = self.asked_at[id(action)] + action.seconds
            at_once = not action.seconds
        else:
            due_seconds = action.at_seconds
            at_once = due_seconds <= self.now
        if at_once:
            self.zeros.append([key, action.content])
        elif due_seconds != math.inf:
            self.armings.append(Arming(key, due_seconds, action.content))

    def cancel(self, key):
        """Let it not run and not wait."""
        self.zeros = [zero for zero in self.zeros if zero[0] != key]
        for arming in self.armings:
            if arming.key == key:
                arming.runs = False


def key_of(action):
    """Return which timer an action is about."""
    match action:
        case EventTimeout():
            return ("event", None)
        case StateTimeout():
            return ("state", None)
        case NamedTimeout(name):
            return ("named", name)
        case CancelTimer(kind, name) | UpdateTimer(kind, _, name):
            return (kind, name)
