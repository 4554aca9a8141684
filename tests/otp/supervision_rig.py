"""A supervisor without processes: a shell that answers by a script, keeps a clock, and runs whole trees.

A child is started by what its recipe's function says: `up`, `fail`, `ignore` or `hang`; a `Subtree` is a supervisor of
its own. What is asked of a child is answered at once, unless the rig was told otherwise.
"""

import itertools
from collections import deque

from attrs import frozen

from agentrail.otp.child_specs import Arguments, ChildSpec, StartRecipe, SupervisorFlags
from agentrail.otp.exits import Crashed, InitFailed, Killed, Shutdown
from agentrail.otp.supervision import begin_supervisor, step_supervisor
from agentrail.otp.supervision_types import (
    AnswerRequest,
    AnswerUntaken,
    CancelRetry,
    CancelStart,
    CountChildrenCall,
    EndSupervisor,
    InstanceExited,
    InstanceIgnored,
    InstanceStarted,
    InstanceStartFailed,
    InstanceStopped,
    InstanceStuck,
    Report,
    RequestCancelled,
    RetryDue,
    ScheduleRetry,
    StartChild,
    StopChild,
    StopRequested,
    SupervisorRequest,
    WhichChildrenCall,
)

CRASH = Crashed("ValueError", "boom")
BROKEN = InitFailed("raised", CRASH)
SHUTDOWN = Shutdown()
WAITS = object()
NOT_FORCED = False


async def serve():
    """Stand for a child; the rig never calls it."""


def W(name, *args, **spec):  # noqa: N802 - the word of the scenarios
    return ChildSpec(name, StartRecipe(serve, Arguments(args)), **spec)


@frozen
class Handle:
    """What the rig gives for an instance: which child, and which of its instances."""

    id: object
    incarnation: int
    number: int


class Rig:
    """Runs one supervisor by the contract of its effects.

    Args:
        strategy: One of the flags.
        specs: The initial children.
        flags: Further flags, without which the intensity is 1, as in the scenarios; and the first values of `starts`,
            `stops`, `log` and `on_end`, which is told of the end.

    Attributes:
        now: The clock.
        log: What happened to children, in order: `("start", id)`, `("up", id)`, `("stop", id)`, `("down", id)`.
        starts: By id what its next starts do: `up`, `fail`, `ignore` or `hang`. The last one goes on for ever.
        stops: By id how it answers a stop: a reason, `WAITS`, or `InstanceStuck`.
        answers: By request id what was answered, each time.
        queue: Signals that wait for the supervisor.
        deaf: Nobody takes what is answered to a start.
    """

    def __init__(self, strategy="one_for_one", specs=(), **flags):
        self.now = 0.0
        self.draw = 0.0
        self.log = flags.pop("log", [])
        self.effects = []
        self.reports = []
        self.answers = {}
        self.starts = {name: deque(script) for name, script in flags.pop("starts", {}).items()}
        self.stops = dict(flags.pop("stops", {}))
        self.tokens = {}
        self.handles = {}
        self.specs = {}
        self.retries = {}
        self.queue = deque()
        self.deaf = False
        self.untaken = []
        self.busy = False
        self.asked = False
        self.ended = None
        self.on_end = flags.pop("on_end", None)
        self.steps = 0
        self.ids = itertools.count(1)
        self.serials = itertools.count(1)
        self.names = {}
        flags = {"intensity": 1, "strategy": strategy, **flags}
        self.state, effects = begin_supervisor("top", SupervisorFlags(**flags), specs, at_seconds=self.now)
        self.carry_out(effects)
        self.run()

    # --- driving

    def put(self, kind, *values):
        self.queue.append((kind, values))

    def run(self):
        """Give the supervisor all that waits for it; unless it is at work, then it comes to that by itself."""
        if self.busy:
            return
        self.busy = True
        while self.queue:
            kind, values = self.queue.popleft()
            self._step(kind, *values)
            while self.untaken:  # before anything else
                answer = self.untaken.pop()
                self._step(AnswerUntaken, answer.child, answer.is_new)
        self.busy = False

    def _step(self, kind, *values):
        signal = kind(*values, at_seconds=self.now, draw=self.draw)
        self.steps += 1
        before = self.state
        self.state, effects = step_supervisor(before, signal)
        self.carry_out(effects)

    def send(self, kind, *values):
        """Give the supervisor a signal, and all that follows from it."""
        self.put(kind, *values)
        self.run()

    def ask(self, call, *, path=()):
        """Call the supervisor; return the id of the request."""
        request_id = next(self.ids)
        self.send(SupervisorRequest, request_id, tuple(path), call)
        return request_id

    def call(self, call, *, path=()):
        """Call the supervisor and return what it answers, which has to be now."""
        (answer,) = self.answers[self.ask(call, path=path)]
        return answer

    def answer(self, request_id):
        """Return the one answer to a request, `WAITS` if there is none yet."""
        found = self.answers.get(request_id, [WAITS])
        assert len(found) == 1
        return found[0]

    def cancel(self, request_id):
        self.send(RequestCancelled, request_id)

    def exit(self, *ids, reason=CRASH):
        """Let children end by themselves, all before the supervisor looks."""
        for name in ids:
            self.put(InstanceExited, self.tokens[name], reason)
        self.run()

    def crash(self, name, at=None):
        self.now = self.now if at is None else at
        self.exit(name)

    def come_up(self, name):
        self.log.append(("up", name))
        handle = self.new_handle(name)
        self.send(InstanceStarted, self.tokens[name], handle, f"info of {name}")

    def fail(self, name, reason=BROKEN):
        self.send(InstanceStartFailed, self.tokens[name], reason)

    def go_down(self, name, reason=SHUTDOWN, *, forced=False):
        self.log.append(("down", name))
        self.send(InstanceStopped, self.tokens[name], reason, forced)

    def retry(self, name=None):
        """Let the wait for a retry pass, of the only child that waits or of this one."""
        token, delay = self.retries.pop(name) if name is not None else self.retries.popitem()[1]
        self.now += delay
        self.send(RetryDue, token)

    def stop(self, reason=SHUTDOWN):
        self.send(StopRequested, reason)

    # --- looking

    @property
    def children(self):
        """The children by id, as `which_children` says."""
        return {info.id: info for info in self.call(WhichChildrenCall())}

    def status(self):
        """The status of every child, in start order."""
        return [(info.id, info.status) for info in self.call(WhichChildrenCall())]

    def running(self):
        return [name for name, status in self.status() if status == "running"]

    def counts(self):
        counts = self.call(CountChildrenCall())
        return counts.specs, counts.active, counts.supervisors, counts.workers

    def kinds(self, *but):
        """The kinds of all reports with the child they are about, without `progress`."""
        hidden = {"progress", *but}
        return [(report.kind, report.child_id) for report in self.reports if report.kind not in hidden]

    def events(self, *kinds):
        """Return the log, of these kinds, as `kind id`; and begin a new one."""
        log = self.log.copy()
        self.log.clear()
        return [f"{kind} {name}" for kind, name in log if not kinds or kind in kinds]

    # --- carrying out

    def carry_out(self, effects):
        """Do what the supervisor asks for, in order."""
        for effect in effects:
            assert self.ended is None or isinstance(effect, Report | AnswerRequest)
            self.effects.append(effect)
            self._carry_out(effect)

    def _carry_out(self, effect):
        match effect:
            case StartChild():
                self._start(effect)
            case CancelStart(token=token):
                name = self.names[token]
                self.log.append(("cancel", name))
                if self.stops.get(name, Shutdown()) is not WAITS:
                    self.put(InstanceStartFailed, token, InitFailed("cancelled"))
            case StopChild(token=token, how=how):
                self._stop(self.names[token], token, how)
            case ScheduleRetry(token=token, delay_seconds=delay):
                self.retries[self._id_of(token)] = (token, delay)
            case CancelRetry(token=token):
                del self.retries[self._id_of(token)]
            case AnswerRequest() if self.deaf and effect.child is not None:
                self.untaken.append(effect)
            case AnswerRequest(request_id=request_id, outcome=outcome):
                self.answers.setdefault(request_id, []).append(outcome)
            case Report():
                self.reports.append(effect)
            case EndSupervisor():
                self.ended = effect
                if self.on_end is not None:
                    self.on_end(effect)

    def _id_of(self, token):
        child = self.state.children.get(token.child)
        return self.names.get(token.child, child and child.spec.id)

    def _start(self, effect):
        name, token = effect.spec.id, effect.token
        if self.state.flags.strategy == "dynamic":
            name = effect.extra.positional[0] if effect.extra.positional else name
            name = self.names.get(token.child, name)
        self.names[token] = self.names[token.child] = name
        self.tokens[name] = token
        self.specs[name] = effect
        self.log.append(("start", name))
        script = self.starts.get(name, deque(["up"]))
        match script.popleft() if len(script) > 1 else script[0]:
            case "up":
                self.log.append(("up", name))
                self.put(InstanceStarted, token, self.new_handle(name), f"info of {name}")
            case "fail":
                self.put(InstanceStartFailed, token, BROKEN)
            case "ignore":
                self.put(InstanceIgnored, token)
            case "crash":
                self.log.append(("up", name))
                self.put(InstanceStarted, token, self.new_handle(name), None)
                self.put(InstanceExited, token, CRASH)
            case "hang":
                pass
            case start_subtree:
                start_subtree(self, name, token)

    def new_handle(self, name):
        self.handles[name] = Handle(name, self.specs[name].incarnation, next(self.serials))
        return self.handles[name]

    def _stop(self, name, token, how):
        self.log.append(("stop" if how != "brutal_kill" else "kill", name))
        answer = self.stops.get(name, Killed() if how == "brutal_kill" else Shutdown())
        if answer is InstanceStuck:
            self.put(InstanceStuck, token)
        elif isinstance(answer, Rig):
            answer.asked = True
            answer.stop(Killed() if how == "brutal_kill" else Shutdown())
        elif answer is not WAITS:
            self.log.append(("down", name))
            self.put(InstanceStopped, token, answer, NOT_FORCED)


def subtree(strategy, specs, **options):
    """Return what starts a child that is a supervisor itself, as an entry of `starts`."""

    def start(parent, name, token):
        ends = []
        rig = Rig(strategy, specs, on_end=ends.append, log=parent.log, **options)
        parent.stops[name] = rig

        def on_end(end):
            if isinstance(end.reason, InitFailed):
                parent.put(InstanceStartFailed, token, end.reason)
            elif end.stuck:
                parent.put(InstanceStuck, token)
            elif rig.asked:
                parent.log.append(("down", name))
                parent.put(InstanceStopped, token, end.reason, NOT_FORCED)
            else:
                parent.put(InstanceExited, token, end.reason)
            parent.run()

        if not (ends and isinstance(ends[0].reason, InitFailed)):
            parent.log.append(("up", name))
            parent.put(InstanceStarted, token, parent.new_handle(name), None)
        rig.on_end = on_end
        for end in ends:
            on_end(end)

    return start
