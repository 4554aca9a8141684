"""The state machine engine against a naive model of its rules, with random machines and random scripts."""

import math

import pytest
from attrs import define, field, frozen
from hypothesis import given, settings, strategies as st

from agentrail.otp.exits import Crashed, Normal, Shutdown
from agentrail.otp.statem import (
    KEEP,
    ArmTimer,
    Call,
    CancelTimer,
    Cast,
    DeadLetter,
    DisarmTimer,
    EventTimeout,
    Info,
    Init,
    Internal,
    Keep,
    Limits,
    NamedTimeout,
    NextEvent,
    NextState,
    Note,
    Perform,
    PerformEffect,
    Postpone,
    RefuseCall,
    Repeat,
    Reply,
    SendReply,
    StateTimeout,
    Stop,
    StopAndReply,
    Terminate,
    TimerDue,
    UpdateTimer,
    start_statem,
    step_statem,
)
from property_tests.otp.naive_statem import Naive

# --- random machines: a table from state and label to a transition


@frozen
class Rules:
    """What a random machine answers; what is not in a table keeps the state."""

    handle: dict[tuple[object, str], object]
    enter: dict[object, object]
    state_enter: bool
    init: Init[object, object]
    limits: Limits
    takes: dict[str, float] = field(factory=dict)  # how long an event of this label is worked on


@define
class Machine:
    """A machine of these rules, with a log of all that it was asked."""

    rules: Rules
    log: list[tuple[object, ...]]
    now: float = 0.0

    @property
    def state_enter(self):
        """Tell whether `enter` is called."""
        return self.rules.state_enter

    def handle(self, event, state, data):
        """Note it, and look it up by state and label."""
        self.log.append((event, state, data))
        self.now += self.rules.takes.get(label_of(event), 0.0)
        return self.rules.handle.get((state, label_of(event)), Keep())

    def enter(self, old, state, data):
        """Note it; a state is entered as the table says, but repeated only while the data is new."""
        self.log.append(("enter", old, state, data))
        self.now += self.rules.takes.get("a", 0.0)
        return self.rules.enter.get((state, data), Keep())


def label_of(event):
    """Return what the tables know an event by."""
    match event:
        case Call(_, label) | Cast(label) | Info(label) | Internal(label):
            return label
        case _:
            return event.content


labels = st.sampled_from("abcd")
states = st.sampled_from([0, 1, (2, "x")])
data = st.sampled_from([KEEP, "d1", "d2", "d3"])
names = st.sampled_from(["m", "n"])
seconds = st.sampled_from([0, 0.0, 1, 2.5, 5, 7, math.inf])
moments = st.none() | st.sampled_from([0.0, 3.0, 10.0, 20.0, math.inf])
keys = st.sampled_from([("event", None), ("state", None), ("named", "m"), ("named", "n")])
events = st.one_of(
    st.builds(Call, labels, labels),
    st.builds(Cast, labels),
    st.builds(Info, labels),
    st.builds(Internal, labels),
)
timers = st.one_of(
    st.builds(StateTimeout, seconds, labels, at_seconds=moments),
    st.builds(EventTimeout, seconds, labels, at_seconds=moments),
    st.builds(NamedTimeout, names, seconds, labels, at_seconds=moments),
    st.builds(lambda key: CancelTimer(*key), keys),
    st.builds(lambda key, label: UpdateTimer(key[0], label, key[1]), keys, labels),
)
outward = st.builds(Reply, labels, labels) | st.builds(Perform, labels)
actions = st.lists(
    st.one_of(timers, timers, outward, st.builds(Postpone, st.booleans()), st.builds(NextEvent, events)),
    max_size=4,
)
stops = st.builds(Stop, st.sampled_from([Normal(), Shutdown("x")]), data) | st.builds(
    StopAndReply, st.lists(st.builds(Reply, labels, labels), max_size=2), st.just(Normal()), data
)
moves = st.builds(NextState, states, data, actions)
waits = st.builds(
    Keep, data, st.just([Postpone()])
)  # often, so that two wait at a time and a third meets the limit
transitions = st.one_of(
    moves, moves, waits, waits, st.builds(Keep, data, actions), st.builds(Repeat, data, actions)
)
quiet = st.lists(timers | outward, max_size=3)  # what `enter` may ask for
entries = st.one_of(
    st.builds(Keep, data, quiet), st.builds(Keep, data, quiet), st.builds(Repeat, data, quiet)
)

rules = st.builds(
    Rules,
    handle=st.dictionaries(
        st.tuples(states, labels),
        st.integers(0, 20).flatmap(lambda n: transitions if n else stops),
        min_size=4,
        max_size=12,
    ),
    enter=st.dictionaries(
        st.tuples(states, st.sampled_from(["d0", "d1", "d2", "d3"])),
        st.integers(0, 12).flatmap(lambda n: entries if n else transitions | stops),
        max_size=6,
    ),
    state_enter=st.booleans(),
    init=st.builds(Init, states, st.just("d0"), actions),
    limits=st.builds(
        Limits,
        postponed=st.integers(1, 4),
        postpone_overflow=st.sampled_from(["refuse", "refuse", "stop"]),
        events_per_step=st.just(25),
    ),
    takes=st.dictionaries(labels, st.sampled_from([0.25, 1.5, 10.0]), max_size=3),
)

# --- random scripts: an event, time that passes, or a firing of any arming that there ever was

senders = st.one_of(st.builds(Call, labels, labels), st.builds(Cast, labels), st.builds(Info, labels))
scripts = st.lists(
    st.one_of(senders, senders, senders, st.sampled_from([0.5, 1.0, 2.5, 6.0]), st.integers(0, 40)),
    max_size=25,
)


class Live:
    """The engine with a shell that does what the effects say, and believes nothing else."""

    def __init__(self, rules):
        self.machine = Machine(rules, [])
        self.armed = {}
        self.armings = []
        self.effects = []
        self.engine, effects = start_statem(
            self.machine, rules.init, now=self.now, limits=rules.limits, clock=lambda: self.now
        )
        self.carry_out(effects)

    @property
    def now(self):
        """The time: it goes on while a handler works."""
        return self.machine.now

    @now.setter
    def now(self, now):
        self.machine.now = now

    def step(self, event):
        """Take one step."""
        before = len(self.machine.log)
        self.engine, effects = step_statem(
            self.machine, self.engine, event, now=self.now, clock=lambda: self.now
        )
        self.carry_out(effects)
        handled = [entry for entry in self.machine.log[before:] if entry[0] != "enter"]
        assert len(handled) <= self.engine.limits.events_per_step

    def fire(self, number):
        """Fire this arming: on time, early, late, or again."""
        arming = self.armings[number]
        if self.armed.get(arming.key) == arming:
            del self.armed[arming.key]
        self.step(TimerDue(arming.key, arming.epoch))

    def due(self, now):
        """Return the number of the armed timer that is due first, or `None`."""
        due = [arming for arming in self.armed.values() if arming.due_seconds <= now]
        return self.armings.index(min(due, key=lambda each: (each.due_seconds, each.epoch))) if due else None

    def carry_out(self, effects):
        """Arm, disarm, end, and keep the rest."""
        self.effects += effects
        for effect in effects:
            match effect:
                case ArmTimer(key):
                    self.armed[key] = effect
                    self.armings.append(effect)
                case DisarmTimer(key):
                    del self.armed[key]
                case Terminate():
                    assert effect is effects[-1]
                    self.armed.clear()
        self.check()

    def check(self):
        """Hold what is promised of every engine between two steps."""
        engine = self.engine
        assert len(engine.postponed) <= engine.limits.postponed
        epochs = [arming.epoch for arming in self.armings]
        assert epochs == sorted(set(epochs))
        if engine.stopped is None:
            assert (engine.queue, engine.last) == ((), None)
            running = {key: (timer.epoch, timer.due_seconds) for key, timer in engine.timers.items()}
            assert running == {key: (each.epoch, each.due_seconds) for key, each in self.armed.items()}
        else:
            assert [effect for effect in self.effects if isinstance(effect, Terminate)] == [self.effects[-1]]


def run(live, script, follow=None):
    """Play a script; `follow` hears of each thing that happens."""
    for line in script:
        if live.engine.stopped is not None:
            return
        match line:
            case float(passed):
                until = live.now + passed
                while (number := live.due(until)) is not None:
                    live.now = began = max(live.now, live.armings[number].due_seconds)
                    live.fire(number)
                    if follow:
                        follow("fire", number, began)
                live.now = max(live.now, until)
            case int(pick):
                if live.armings:
                    number, began = pick % len(live.armings), live.now
                    live.fire(number)
                    if follow:
                        follow("fire", number, began)
            case event:
                began = live.now
                live.step(event)
                if follow:
                    follow("step", event, began)


def told(effects):
    """Say effects as the model does: without those about timers, and a crash by its type."""
    for effect in effects:
        match effect:
            case SendReply(to, value):
                yield ("reply", to, value)
            case PerformEffect(performed):
                yield ("perform", performed)
            case RefuseCall(to, "postpone queue"):
                yield ("refuse", to)
            case DeadLetter(event, "postpone queue"):
                yield ("dead", event)
            case Note(kind):
                yield ("note", kind)


@settings(max_examples=300, deadline=None)
@given(rules=rules, script=scripts)
def test_engine_does_what_the_naive_model_does(rules, script):
    """In every step engine and model handle the same events in the same order, with the same effects and timers."""
    live = Live(rules)
    model = Naive(Machine(rules, []), rules.limits)
    model.start(rules.init, 0.0)

    def compare():
        assert live.machine.log == model.machine.log
        assert list(told(live.effects)) == model.effects
        ended = live.engine.stopped
        assert (ended.type if isinstance(ended, Crashed) else ended) == model.ended
        assert (live.engine.state, live.engine.data) == (model.state, model.data)
        assert list(live.engine.postponed) == model.postponed
        if ended is None:
            running = {
                (key.kind, key.name): (t.due_seconds, t.content) for key, t in live.engine.timers.items()
            }
            assert running == model.running()

    def follow(what, value, began):
        if what == "fire":
            model.fire(value, began)
        else:
            model.step(value, began)
        compare()

    compare()
    run(live, script, follow)


@settings(max_examples=100, deadline=None)
@given(rules=rules, script=scripts)
def test_same_input_twice_gives_the_same_output(rules, script):
    """Two runs of one script give equal engines, equal effects and equal logs."""
    one, other = Live(rules), Live(rules)
    run(one, script)
    run(other, script)
    assert one.engine == other.engine
    assert one.effects == other.effects
    assert one.machine.log == other.machine.log


@settings(max_examples=100, deadline=None)
@given(rules=rules, script=scripts, dropped=st.lists(senders, min_size=1, max_size=5))
def test_dropped_step_is_as_if_it_never_happened(rules, script, dropped):
    """Steps whose result is thrown away before each other step change nothing of what that one returns."""
    undisturbed, disturbed = Live(rules), Live(rules)
    run(undisturbed, script)
    for line in script:
        for event in dropped:
            step_statem(Machine(rules, []), disturbed.engine, event, now=disturbed.now)
        run(disturbed, [line])
    assert disturbed.engine == undisturbed.engine
    assert disturbed.effects == undisturbed.effects


@pytest.mark.scenario("S-164")
@settings(max_examples=100, deadline=None)
@given(rules=rules, script=scripts)
def test_no_timer_is_left_when_all_are_cancelled_or_fired(rules, script):
    """Whatever happened, when all that is armed has fired the engine keeps no timer and no entry."""
    live = Live(rules)
    run(live, script)
    live.machine.rules = Rules({}, {}, state_enter=False, init=rules.init, limits=rules.limits)
    run(live, [1e9])
    if live.engine.stopped is None:
        assert live.armed == {}
        assert live.engine.timers == start_statem(live.machine, Init(0, 0), now=0.0)[0].timers
        assert live.engine.timers.count == 0
