"""What holds in a world that answers late, in any order, or not as asked: the properties of section M, on the reducer.

The machine is a shell that keeps its contract and nothing else: every start and stop stays open until a rule answers it.
"""

import pytest
from attrs import define
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentrail.errors import SupervisorError
from agentrail.otp.child_specs import Backoff, ChildSpec, SupervisorFlags
from agentrail.otp.exits import Crashed, InitFailed, Killed, Normal, Shutdown, Stuck
from agentrail.otp.supervision import begin_supervisor, step_supervisor
from agentrail.otp.supervision_state import OPEN, PROCESS, ChildPhase
from agentrail.otp.supervision_types import (
    AnswerRequest,
    AnswerUntaken,
    ByHandle,
    ById,
    CancelRetry,
    CancelStart,
    CountChildrenCall,
    DeleteChildCall,
    EndSupervisor,
    GetChildSpecCall,
    InstanceExited,
    InstanceIgnored,
    InstanceStarted,
    InstanceStartFailed,
    InstanceStopped,
    InstanceStuck,
    ReconfigureCall,
    Report,
    RequestCancelled,
    RestartChildCall,
    RetryDue,
    ScheduleRetry,
    StartChild,
    StartChildCall,
    Started,
    StartInstanceCall,
    StopCall,
    StopChild,
    StopRequested,
    SupervisorRequest,
    TerminateChildCall,
    Token,
    WhichChildrenCall,
)


async def serve():
    """Stand for a child; nobody calls it."""


IDS = ["a", "b", "c", "d"]
NOT_FORCED = False
NAMES = st.sampled_from(IDS)
STRATEGIES = ["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
REASONS = st.sampled_from([Crashed("ValueError", "boom"), Normal(), Shutdown(), Shutdown("x"), Killed()])
FAILURES = st.sampled_from(
    [
        InitFailed("raised"),
        InitFailed("cancelled"),
        InitFailed("timeout", cause=Stuck(1.0)),
        Crashed("X", "y"),
    ]
)
PICKS = st.integers(0, 50)


@st.composite
def specs(draw, names=NAMES):
    """Draw a spec."""
    restart = draw(st.sampled_from(["permanent", "transient", "temporary"]))
    return ChildSpec(
        draw(names),
        serve,
        restart,
        significant=restart != "permanent" and draw(st.booleans()),
        shutdown_seconds=draw(st.sampled_from([5.0, "brutal_kill", "infinity"])),
    )


@st.composite
def flags(draw, strategies):
    """Draw flags that go with any spec."""
    return SupervisorFlags(
        draw(strategies),
        intensity=draw(st.integers(0, 6)),
        auto_shutdown=draw(st.sampled_from(["any_significant", "all_significant"])),
        backoff=draw(st.sampled_from([None, None, Backoff()])),
    )


@st.composite
def lists_of_specs(draw, strategy, smallest=0):
    """Draw specs with ids of their own; for a dynamic supervisor one."""
    if strategy == "dynamic":
        return [draw(specs())]
    names = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=smallest))
    return [draw(specs(st.just(name))) for name in names]


SUPERVISORS = st.sampled_from(STRATEGIES).flatmap(
    lambda strategy: st.tuples(flags(st.just(strategy)), lists_of_specs(strategy, smallest=2))
)
KEYS = st.one_of(st.sampled_from(IDS).map(ById), st.builds(ByHandle, PICKS, alive=st.booleans()))
CALLS = st.one_of(
    *(specs().map(StartChildCall), st.just(StartInstanceCall()), st.just(StartInstanceCall())),
    *(KEYS.map(TerminateChildCall), KEYS.map(TerminateChildCall), KEYS.map(GetChildSpecCall)),
    *(st.sampled_from(IDS).map(RestartChildCall), st.sampled_from(IDS).map(DeleteChildCall)),
    *(st.just(WhichChildrenCall()), st.just(CountChildrenCall())),
    st.sampled_from(STRATEGIES).flatmap(
        lambda strategy: st.builds(
            ReconfigureCall, flags(st.just(strategy)), lists_of_specs(strategy).map(tuple)
        )
    ),
)


@define
class Process:
    """What the shell knows of one attempt."""

    token: Token
    number: int
    state: str  # starting, running, stopping, stuck


def shown(effects):
    """Return effects so that equal ones are equal: an error equals only itself."""
    return [repr(effect) for effect in effects]


class Shell(RuleBasedStateMachine):
    """Carries out nothing, and remembers what it owes."""

    @initialize(supervisor=SUPERVISORS)
    def begin(self, supervisor):
        """Begin."""
        self.now = 0.0
        self.processes = {}
        self.retries = set()
        self.asked = {}
        self.cancelled = set()
        self.answered = {}
        self.most_intensive = supervisor[0].intensity
        self.killing = False
        self.ended = None
        self.handles = 0
        self.steps = 0
        self.kept = []
        self.deaf = 0
        self.untaken = []
        self.state, effects = begin_supervisor("top", *supervisor, at_seconds=self.now)
        assert shown(effects) == shown(begin_supervisor("top", *supervisor, at_seconds=self.now)[1])
        self.carry_out(effects)

    # --- what the world does

    @precondition(lambda self: self.of("starting"))
    @rule(pick=PICKS, outcome=st.sampled_from(["up", "up", "up", "ignored", "failed"]), reason=FAILURES)
    def start_is_answered(self, pick, outcome, reason):
        """As the contract says: once."""
        process = self.pick("starting", pick)
        if outcome == "up":
            process.state = "running"
            self.handles += 1
            self.send(InstanceStarted, process.token, self.handles, None)
        elif outcome == "ignored":
            del self.processes[process.token]
            self.send(InstanceIgnored, process.token)
        else:
            if isinstance(reason, InitFailed) and reason.cause is not None:
                process.state = "stuck"
            else:
                del self.processes[process.token]
            self.send(InstanceStartFailed, process.token, reason)

    @precondition(lambda self: self.of("running"))
    @rule(pick=PICKS, reason=REASONS)
    def child_exits(self, pick, reason):
        """By itself."""
        process = self.pick("running", pick)
        del self.processes[process.token]
        self.send(InstanceExited, process.token, reason)

    @precondition(lambda self: self.of("stopping"))
    @rule(
        pick=PICKS, reason=REASONS, how=st.sampled_from(["stopped", "stopped", "forced", "exited", "stuck"])
    )
    def stop_is_answered(self, pick, reason, how):
        """As the contract says: once."""
        process = self.pick("stopping", pick)
        if how == "stuck":
            process.state = "stuck"
            self.send(InstanceStuck, process.token)
            return
        del self.processes[process.token]
        if how == "exited":
            self.send(InstanceExited, process.token, reason)
        else:
            self.send(InstanceStopped, process.token, reason, how == "forced")

    @precondition(lambda self: self.of("stuck"))
    @rule(pick=PICKS)
    def stuck_child_ends(self, pick):
        """At last."""
        process = self.pick("stuck", pick)
        del self.processes[process.token]
        self.send(InstanceExited, process.token, Stuck(9.0))

    @precondition(lambda self: self.retries)
    @rule(pick=PICKS)
    def retry_comes_due(self, pick):
        """One of them."""
        token = sorted(self.retries, key=repr)[pick % len(self.retries)]
        self.retries.remove(token)
        self.send(RetryDue, token)

    @rule(call=CALLS, pick=st.none() | PICKS)
    def somebody_calls(self, call, pick):
        """From outside, or from a child in any state."""
        path = ()
        if pick is not None and self.processes:
            path = (sorted(self.processes, key=repr)[pick % len(self.processes)],)
        self.ask(call, path)

    @precondition(lambda self: self.open_requests())
    @rule(pick=PICKS)
    def caller_goes(self, pick):
        """One that waits."""
        waiting = self.open_requests()
        request_id = waiting[pick % len(waiting)]
        self.cancelled.add(request_id)
        self.send(RequestCancelled, request_id)

    @rule(answers=st.integers(1, 3))
    def callers_go_too_early(self, answers):
        """The next starts come up at the very instant at which their callers go."""
        self.deaf = answers

    @rule(seconds=st.sampled_from([0.5, 4.0, 5.0, 20.0]))
    def time_passes(self, seconds):
        """For all."""
        self.now += seconds

    @rule(rarely=st.integers(0, 20), reason=st.sampled_from([Shutdown(), Killed()]), calls=st.booleans())
    def stop_is_asked(self, rarely, reason, calls):
        """By the parent, or by a call."""
        if rarely == 0:
            self.killing = self.killing or isinstance(reason, Killed)
            if calls:
                self.ask(StopCall(reason))
            else:
                self.send(StopRequested, reason)

    @rule(
        kind=st.sampled_from([RetryDue, InstanceStuck, InstanceExited, InstanceIgnored]),
        child=st.integers(-1, 9),
    )
    def nonsense_arrives(self, kind, child):
        """A token that nobody gave: it changes nothing but a count."""
        before = self.state
        values = (Token(child, 10_000),) if kind is not InstanceExited else (Token(child, 0), Normal())
        self.send(kind, *values)
        assert self.state.dropped == before.dropped + 1
        assert self.state.children == before.children

    # --- the contract

    def send(self, kind, *values):
        """Take a step, twice: it depends on nothing else. Now and then keep the state as it was."""
        signal = kind(*values, at_seconds=self.now, draw=0.5)
        before = self.state
        self.steps += 1
        if self.steps % 8 == 0:
            self.kept.append((before, repr(before)))
        self.state, effects = step_supervisor(before, signal)
        again, same = step_supervisor(before, signal)
        assert shown(effects) == shown(same)
        assert again == self.state
        self.most_intensive = max(self.most_intensive, self.state.flags.intensity)
        self.carry_out(effects)
        while self.untaken:
            answer = self.untaken.pop()
            self.send(AnswerUntaken, answer.child, answer.is_new)
            self.nothing_stays_of(answer)

    def nothing_stays_of(self, answer):
        """No instance runs that somebody has given up, and what came with its call is on its way out."""
        child = self.state.children.get(answer.child)
        if child is None:
            return
        assert child.phase is not ChildPhase.RUNNING or self.state.ending is not None
        if answer.is_new:
            assert child.fresh
            assert child.phase in (ChildPhase.STOPPING, ChildPhase.STUCK) or self.state.ending is not None

    def ask(self, call, path=()):
        """Call the supervisor."""
        request_id = len(self.asked) + 1
        self.asked[request_id] = call
        self.send(SupervisorRequest, request_id, path, call)

    def carry_out(self, effects):
        """Note what is owed."""
        for effect in effects:
            assert self.ended is None or isinstance(effect, Report | AnswerRequest)
            match effect:
                case StartChild(token=token):
                    assert token not in self.processes
                    self.processes[token] = Process(token, token.child, "starting")
                case CancelStart(token=token):
                    assert self.processes[token].state == "starting"
                case StopChild(token=token):
                    process = self.processes[token]
                    assert process.state == "running" or (process.state == "stopping" and self.killing)
                    process.state = "stopping"
                case ScheduleRetry(token=token):
                    self.retries.add(token)
                case CancelRetry(token=token):
                    self.retries.remove(token)
                case AnswerRequest(request_id=request_id, outcome=outcome):
                    assert request_id in self.asked
                    assert request_id not in self.answered
                    assert request_id not in self.cancelled
                    self.answered[request_id] = outcome
                    if effect.child is not None and self.deaf:
                        assert isinstance(outcome, Started)
                        self.deaf -= 1
                        self.untaken.append(effect)
                case EndSupervisor():
                    self.ended = effect

    def of(self, state):
        """Return the processes in this state."""
        return [process for process in self.processes.values() if process.state == state]

    def pick(self, state, pick):
        """Return one of them."""
        found = self.of(state)
        return found[pick % len(found)]

    def open_requests(self):
        """Return the requests that wait."""
        return [name for name in self.asked if name not in self.answered and name not in self.cancelled]

    # --- what holds

    @invariant()
    def one_instance_per_child_and_id(self):
        """S-215: what is starting, up, or has not ended is alone."""
        if not hasattr(self, "state"):
            return
        numbers = [process.number for process in self.processes.values()]
        assert len(numbers) == len(set(numbers))
        if self.state.flags.strategy != "dynamic":
            names = [child.spec.id for _, child in self.state.children.items()]
            assert len(names) == len(set(names))

    @invariant()
    def books_are_right(self):
        """Every counter and queue says what one would find by counting."""
        if not hasattr(self, "state"):
            return
        state = self.state
        children = dict(state.children.items())
        assert state.active == sum(child.phase in PROCESS for child in children.values())
        assert state.open == sum(child.phase in OPEN for child in children.values())
        assert [*state.stuck.items()] == [
            (n, n) for n, child in children.items() if child.phase is ChildPhase.STUCK
        ]
        assert set(self.processes) == {
            child.token
            for child in children.values()
            if child.phase not in (ChildPhase.IDLE, ChildPhase.EXITED)
        }
        assert self.retries >= {Token(n, child.retry) for n, child in children.items() if child.retry}
        assert {name for name, _ in state.requests.items()} == set(self.open_requests())
        assert all(child.restarting for child in children.values() if child.retry)
        assert all(
            child.phase in (ChildPhase.IDLE, ChildPhase.STARTING, ChildPhase.STUCK)
            for child in children.values()
            if child.restarting
        )
        if state.flags.strategy == "dynamic":
            assert not [
                n for n, child in children.items() if child.phase is ChildPhase.IDLE and not child.restarting
            ]

    @invariant()
    def budget_holds(self):
        """S-218: while it has not given up, what counts within the period was within the intensity of its day."""
        if hasattr(self, "state") and self.state.phase in ("starting", "running"):
            assert len(self.state.restarts) <= self.most_intensive

    @invariant()
    def stops_are_in_reverse(self):
        """S-219: a static supervisor that stops asks nobody while one that started later is there."""
        if not hasattr(self, "state") or self.state.flags.strategy == "dynamic" or self.killing:
            return
        if self.state.phase == "stopping":
            open_numbers = sorted(
                process.number for process in self.processes.values() if process.state != "stuck"
            )
            asked = [process.number for process in self.of("stopping")]
            doomed = [n for n, child in self.state.children.items() if child.doomed and n in open_numbers]
            assert not open_numbers or open_numbers[-1] in {*asked, *doomed}

    @invariant()
    def end_is_the_end(self):
        """Nothing is open, nothing waits, and the count of what is stuck was told."""
        if hasattr(self, "state") and self.ended is not None:
            assert {process.state for process in self.processes.values()} <= {"stuck"}
            assert (self.retries, self.open_requests()) == (set(), [])

    def teardown(self):
        """Whatever happened, a stop ends it: no orphan, and no caller that waits for ever."""
        if not hasattr(self, "state"):
            return
        self.send(StopRequested, Shutdown())
        while self.of("starting") or self.of("stopping"):
            for process in self.of("starting"):
                del self.processes[process.token]
                self.send(InstanceStartFailed, process.token, InitFailed("cancelled"))
            for process in self.of("stopping"):
                del self.processes[process.token]
                self.send(InstanceStopped, process.token, Shutdown(), NOT_FORCED)
        assert self.ended is not None
        assert {process.state for process in self.processes.values()} <= {"stuck"}
        assert self.open_requests() == []
        assert all(repr(state) == as_it_was for state, as_it_was in self.kept)
        for request_id, outcome in self.answered.items():
            if isinstance(self.asked[request_id], WhichChildrenCall | CountChildrenCall | StopCall):
                assert not isinstance(outcome, SupervisorError)


@pytest.mark.scenario("S-214", "S-215", "S-218", "S-219", "S-220")
class TestShell(Shell.TestCase):  # type: ignore[valid-type,misc]  # Hypothesis makes it at run time
    """No orphan, one instance per id, the budget, reverse order, and the same trace for the same script."""
