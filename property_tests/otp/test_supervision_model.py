"""The reducer against a supervisor that blocks: in a world that answers at once both decide the same, in one order."""

from collections import deque

from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import InitFailed, Killed, Normal, Shutdown
from agentrail.otp.restarts import admit_restart
from agentrail.otp.supervision_types import (
    ByHandle,
    ById,
    DeleteChildCall,
    InstanceExited,
    RestartChildCall,
    RetryDue,
    StartChildCall,
    StopCall,
    TerminateChildCall,
)
from property_tests.otp.naive_supervision import NaiveChild, NaiveSupervisor
from tests.otp.supervision_rig import CRASH, Rig, serve

IDS = ["a", "b", "c", "d", "e"]
RESTARTS = st.sampled_from(["permanent", "transient", "temporary"])
REASONS = st.sampled_from([CRASH, CRASH, Normal(), Shutdown(), Shutdown("x"), Killed()])
SCRIPT = st.lists(st.sampled_from(["up", "up", "up", "fail", "ignore"]), max_size=6).map(
    lambda told: [*told, "up"]
)


@st.composite
def specs(draw, name):
    """Draw what a child may be, as (id, restart, significant, brutal)."""
    restart = draw(RESTARTS)
    return name, restart, restart != "permanent" and draw(st.booleans()), draw(st.booleans())


class Prompt(Rig):
    """A rig whose children answer before anything else that waits."""

    def put(self, kind, *values):
        """Let a signal wait; what a child says while an effect is carried out goes to the front, in its order."""
        if self.carrying is None:
            super().put(kind, *values)
        else:
            self.carrying.append((kind, values))

    carrying = None

    def carry_out(self, effects):
        """Carry out all, then let the answers be heard."""
        self.carrying = []
        super().carry_out(effects)
        self.queue.extendleft(reversed(self.carrying))
        self.carrying = None

    def _stop(self, name, token, how):
        for waiting in self.queue:
            if waiting[0] is InstanceExited and waiting[1][0] == token:  # it is dead, and that is the answer
                self.queue.remove(waiting)
                self.carrying.append(waiting)
                return
        super()._stop(name, token, how)


class AgainstTheModel(RuleBasedStateMachine):
    """Does the same to both, and compares all that can be seen."""

    @initialize(
        flags=st.fixed_dictionaries(
            {
                "strategy": st.sampled_from(["one_for_one", "one_for_all", "rest_for_one", "dynamic"]),
                "intensity": st.integers(0, 4),
                "auto_shutdown": st.sampled_from(["any_significant", "all_significant"]),
            }
        ),
        children=st.tuples(*(specs(name) for name in IDS[:4])),
        starts=st.dictionaries(st.sampled_from(IDS), SCRIPT),
        stops=st.dictionaries(st.sampled_from(IDS), REASONS),
    )
    def begin(self, flags, children, starts, stops):
        """Begin both with the same script."""
        script = {name: deque(told) for name, told in starts.items()}
        self.model = NaiveSupervisor(**flags, starts=script, stops=stops)
        self.model.begin([NaiveChild(*told) for told in children])
        told = (
            [ChildSpec("template", serve)]
            if flags["strategy"] == "dynamic"
            else [spec_of(*told) for told in children]
        )
        self.rig = Prompt(specs=told, starts=starts, stops=stops, **flags)
        self.compare()

    @precondition(lambda self: self.model.ended is None)
    @rule(
        picks=st.lists(
            st.tuples(st.sampled_from(IDS), REASONS), min_size=1, max_size=3, unique_by=lambda pick: pick[0]
        )
    )
    def children_exit(self, picks):
        """Some end by themselves before the supervisor looks."""
        picks = [(child, reason) for name, reason in picks if (child := self.running(name)) is not None]
        for child, reason in picks:
            self.rig.put(InstanceExited, self.rig.tokens[child.name], reason)
        self.model.exits(*picks)
        self.rig.run()
        self.compare()

    @precondition(lambda self: self.model.retries)
    @rule(pick=st.integers(0, 10))
    def retry_comes_due(self, pick):
        """One of the retries."""
        child = self.model.retries[pick % len(self.model.retries)]
        token, _ = self.rig.retries.pop(child.name)
        self.rig.send(RetryDue, token)
        self.model.retry(child)
        self.compare()

    @rule(seconds=st.sampled_from([0.5, 2.5, 5.0, 5.5]))
    def time_passes(self, seconds):
        """For both."""
        self.rig.now += seconds
        self.model.now += seconds

    @rule(told=st.sampled_from(IDS).flatmap(specs))
    def start_child(self, told):
        """By a spec, also of an id that is known."""
        if self.model.strategy == "dynamic" and self.model.find(told[0]) is not None:
            return  # the rig knows instances by their labels
        answer = self.rig.call(StartChildCall(spec_of(*told)))
        assert type(answer).__name__ == self.model.start_child(NaiveChild(*told))
        self.compare()

    @rule(name=st.sampled_from(IDS))
    def restart_child(self, name):
        """Whatever it does now."""
        assert type(self.rig.call(RestartChildCall(name))).__name__ == self.model.restart_child(name)
        self.compare()

    @rule(told=st.sampled_from(IDS).flatmap(specs))
    def start_child_that_nobody_takes(self, told):
        """Its caller goes at the instant at which it is up."""
        if self.model.strategy == "dynamic" and self.model.find(told[0]) is not None:
            return
        child = NaiveChild(*told)
        if self.model.start_child(child) == "Started":
            self.model.undo_start(child, is_new=True)
        self.unheard(StartChildCall(spec_of(*told)))

    @rule(name=st.sampled_from(IDS))
    def restart_child_that_nobody_takes(self, name):
        """As that: it is stopped again."""
        child = self.model.find(name)
        if self.model.restart_child(name) == "Started":
            self.model.undo_start(child, is_new=False)
        self.unheard(RestartChildCall(name))

    def unheard(self, call):
        """Make a call whose answer nobody takes."""
        self.rig.deaf = True
        self.rig.ask(call)
        self.rig.deaf = False
        self.compare()

    @rule(name=st.sampled_from(IDS))
    def delete_child(self, name):
        """Whatever it does now."""
        assert type(self.rig.call(DeleteChildCall(name))).__name__ == self.model.delete_child(name)
        self.compare()

    @rule(name=st.sampled_from(IDS))
    def terminate_child(self, name):
        """By its id, or by the handle of its last instance."""
        child = self.model.find(name)
        key = ById(name)
        if self.model.strategy == "dynamic":
            key = ByHandle(self.rig.handles.get(name), alive=True)
        answer = self.rig.call(TerminateChildCall(key))
        assert type(answer).__name__ == self.model.terminate_child(child)
        self.compare()

    @precondition(lambda self: self.model.ended is None)
    @rule(rarely=st.integers(0, 5))
    def stop(self, rarely):
        """End both."""
        if rarely == 0:
            self.rig.call(StopCall())
            self.model.stop_supervisor()
            self.compare()

    def running(self, name):
        """Return the child of this id, if it runs."""
        child = self.model.find(name)
        return child if child is not None and child.status == "running" else None

    def compare(self):
        """What is asked of children and in which order, every status, every report, the budget, the end."""
        assert self.rig.events("start", "stop", "kill") == self.model.log
        self.model.log.clear()
        assert self.rig.status() == [(child.name, child.status) for child in self.model.children]
        told, said = self.rig.kinds(), self.model.reports
        if self.model.strategy == "dynamic" and self.model.ended is not None:  # equal errors are one report
            told, said = set(told), set(said)
        assert told == said
        assert [*self.rig.state.restarts] == self.model.times
        ended = self.rig.ended and self.rig.ended.reason
        if isinstance(ended, InitFailed):
            assert (ended.child_id, type(self.model.ended)) == (self.model.ended.child_id, InitFailed)
        else:
            assert ended == self.model.ended
        assert set(self.rig.retries) == {child.name for child in self.model.retries}


def spec_of(name, restart, significant, brutal):
    """Return the spec of what was drawn."""
    how = "brutal_kill" if brutal else 5.0
    return ChildSpec(name, serve, restart, significant=significant, shutdown_seconds=how)


TestAgainstTheModel = AgainstTheModel.TestCase


@given(
    times=st.lists(st.integers(0, 60).map(lambda tenths: tenths / 4), max_size=30),
    intensity=st.integers(0, 5),
    period=st.sampled_from([0.25, 1.0, 5.0]),
)
def test_budget_is_what_a_filter_says(times, intensity, period):
    """However restarts are spaced, the list is that of a filter, bounded, and no window holds more than allowed."""
    restarts, naive, admitted = (), [], []
    for now in sorted(times):
        restarts, go_ahead = admit_restart(restarts, now, intensity, period)
        naive = [then for then in naive if now - then <= period] + [now]
        assert go_ahead is (len(naive) <= intensity)
        naive = naive[-intensity - 1 :]
        assert list(restarts) == naive
        if go_ahead:
            admitted.append(now)
    for end in admitted:
        assert len([then for then in admitted if 0 <= end - then <= period]) <= max(intensity, 0)
