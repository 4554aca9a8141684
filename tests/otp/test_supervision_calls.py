"""Section F of the conformance scenarios, as far as decisions go: what a supervisor answers, and when."""

from collections import deque

import pytest
from msgspec import structs

from agentrail.errors import (
    AlreadyPresent,
    AlreadyStarted,
    ChildNotFound,
    ChildRunning,
    ChildStartFailed as ChildStartRefused,
    ChildStuck as ChildStuckRefusal,
    InvalidSpec,
    TooManyChildren,
    WouldDeadlock,
    WrongChildKey,
)
from agentrail.otp.child_specs import Arguments, SupervisorFlags
from agentrail.otp.exits import InitFailed, Shutdown, Stuck
from agentrail.otp.supervision import begin_supervisor, step_supervisor
from agentrail.otp.supervision_types import (
    NO_CALLER,
    AnswerUntaken,
    ByHandle,
    ById,
    CountChildrenCall,
    DeleteChildCall,
    GetChildSpecCall,
    InstanceIgnored,
    InstanceStarted,
    InstanceStuck,
    ReconfigureCall,
    RestartChildCall,
    StartChildCall,
    Started,
    StartInstanceCall,
    StopCall,
    SupervisorRequest,
    TerminateChildCall,
    Token,
    WhichChildrenCall,
)
from tests.otp.supervision_rig import WAITS, Rig, W

ABC = [W("a"), W("b"), W("c")]
GROUPS = ["one_for_all", "rest_for_one"]
STATIC = ["one_for_one", *GROUPS]
GONE = "stranger"


def terminate(name):
    return TerminateChildCall(ById(name))


@pytest.mark.scenario("S-088")
@pytest.mark.parametrize("strategy", STATIC)
def test_terminate_and_restart_touch_no_sibling(strategy):
    """All siblings keep their handles."""
    rig = Rig(strategy, ABC)
    rig.events()
    rig.call(terminate("a"))
    rig.call(RestartChildCall("a"))
    assert rig.events("start", "stop") == ["stop a", "start a"]


@pytest.mark.scenario("S-089")
def test_keys_of_children():
    """Of a dynamic supervisor an id is the wrong key, and a dead handle is fine; of a static one a handle must be of now."""
    rig = Rig("dynamic", [W("t")])
    handle = rig.call(StartInstanceCall()).handle
    for call in (terminate("t"), RestartChildCall("t"), DeleteChildCall("t"), GetChildSpecCall(ById("t"))):
        refusal = rig.call(call)
        assert isinstance(refusal, WrongChildKey)
        assert "'dynamic'" in str(refusal)
    assert isinstance(rig.call(TerminateChildCall(ByHandle(GONE, alive=True))), ChildNotFound)
    assert rig.call(TerminateChildCall(ByHandle(GONE, alive=False))) is None
    assert rig.call(GetChildSpecCall(ByHandle(handle, alive=True))).id == "t"
    assert rig.call(TerminateChildCall(ByHandle(handle, alive=True))) is None
    assert rig.counts() == (0, 0, 0, 0)

    rig = Rig(specs=[W("a")])
    old = rig.handles["a"]
    rig.crash("a")
    for handle, alive in ((old, False), (GONE, True), (GONE, False)):
        assert isinstance(rig.call(TerminateChildCall(ByHandle(handle, alive=alive))), ChildNotFound)
    assert rig.call(TerminateChildCall(ByHandle(rig.handles["a"], alive=True))) is None
    assert rig.running() == []


@pytest.mark.scenario("S-093")
def test_calls_that_need_a_stopping_child_wait_for_it():
    """`start_child`, `restart_child` and `delete_child` of it are looked at when it has ended, in their order."""
    rig = Rig(specs=ABC)
    rig.stops["b"] = WAITS
    asked = [rig.ask(call) for call in (terminate("b"), StartChildCall(W("b")), RestartChildCall("b"))]
    delete = rig.ask(DeleteChildCall("b"))
    assert [rig.answer(request) for request in (*asked, delete)] == [WAITS] * 4
    rig.go_down("b")
    kinds = [type(rig.answer(request)) for request in (*asked, delete)]
    assert kinds == [type(None), AlreadyPresent, Started, ChildRunning]


@pytest.mark.scenario("S-093")
@pytest.mark.parametrize(("strategy", "second"), [("one_for_one", ["start y"]), ("one_for_all", [])])
def test_starts_are_side_by_side_or_one_at_a_time(strategy, second):
    """Under the group strategies the second start waits for the first, a failed one too."""
    rig = Rig(strategy, [W("a")], starts={"x": ["hang"], "z": ["hang"]})
    x = rig.ask(StartChildCall(W("x")))
    rig.events()
    y = rig.ask(StartChildCall(W("y")))
    assert rig.events("start") == second
    z = rig.ask(StartChildCall(W("z")))
    rig.fail("x")
    assert isinstance(rig.answer(x), ChildStartRefused)
    assert isinstance(rig.answer(y), Started)
    assert rig.status()[-1] == ("z", "starting")
    rig.send(InstanceIgnored, rig.tokens["z"])
    assert rig.answer(z) == Started(None, None)


@pytest.mark.scenario("S-093")
def test_starts_that_wait_for_another():
    """A second one of an id, by what came of the first; and under a group strategy a restart."""
    for end, kind in ((Rig.come_up, AlreadyStarted), (Rig.fail, Started)):
        rig = Rig(starts={"x": ["hang", "up"]})
        rig.ask(StartChildCall(W("x")))
        second = rig.ask(StartChildCall(W("x")))
        assert rig.answer(second) is WAITS
        end(rig, "x")
        assert isinstance(rig.answer(second), kind)
    rig = Rig("rest_for_one", [W("a")], starts={"x": ["hang"]})
    rig.call(terminate("a"))
    rig.ask(StartChildCall(W("x")))
    restart = rig.ask(RestartChildCall("a"))
    assert rig.answer(restart) is WAITS
    rig.come_up("x")
    assert isinstance(rig.answer(restart), Started)


@pytest.mark.scenario("S-093")
def test_exit_during_a_start_under_a_group_strategy():
    """It is judged when the start is over, and the new child belongs to the group; calls about it wait for that."""
    rig = Rig("one_for_all", [W("a"), W("b", restart="temporary")], starts={"x": ["hang", "up"]}, intensity=5)
    rig.ask(StartChildCall(W("x")))
    rig.crash("a")
    rig.crash("b")
    assert rig.status() == [("a", "restarting"), ("b", "stopped"), ("x", "starting")]
    delete = rig.ask(DeleteChildCall("b"))
    rig.events()
    assert rig.answer(delete) is WAITS
    rig.come_up("x")
    assert rig.events("start", "stop") == ["stop x", "start a", "start x"]
    assert isinstance(rig.answer(delete), ChildNotFound)


@pytest.mark.scenario("S-093")
def test_changing_calls_wait_for_the_initial_start_and_for_a_group_restart():
    """In their order, and behind an exit that came meanwhile; reads do not wait."""
    rig = Rig("one_for_all", ABC, starts={"c": ["hang", "hang", "up"]}, intensity=5)
    for _ in range(2):
        asked = [rig.ask(call) for call in (terminate("a"), RestartChildCall("a"), StartChildCall(W("b")))]
        assert [rig.answer(request) for request in asked] == [WAITS] * 3
        assert rig.counts()[0] == 3
        rig.come_up("c")
        assert [type(rig.answer(request)) for request in asked] == [type(None), Started, AlreadyStarted]
        rig.crash("a")


# --- WouldDeadlock


@pytest.mark.scenario("S-094")
def test_child_calls_its_own_supervisor():
    """What would wait for it is refused, in its init, while it runs and at its end; reads are answered."""
    rig = Rig(specs=ABC, starts={"b": ["hang"]})
    path = [rig.tokens["b"], Token(0, 1)]
    assert len(rig.call(WhichChildrenCall(), path=path)) == 3
    refusal = rig.call(StartChildCall(W("x")), path=path)
    assert isinstance(refusal, WouldDeadlock)
    assert str(refusal).startswith("start_child would wait for child 'b', which is being started")
    rig.come_up("b")
    assert isinstance(rig.call(terminate("b"), path=path), WouldDeadlock)
    rig.stops["b"] = WAITS
    first = rig.ask(terminate("b"))
    assert rig.call(CountChildrenCall(), path=path).specs == 3
    for call in (terminate("b"), RestartChildCall("b"), StartChildCall(W("b"))):
        assert isinstance(rig.call(call, path=path), WouldDeadlock)
    assert isinstance(rig.call(StartChildCall(W("x")), path=path), Started)
    rig.go_down("b")
    assert rig.answer(first) is None
    old = rig.tokens["a"]
    rig.crash("a")
    assert rig.call(terminate("a"), path=[old]) is None  # another instance that had its id


@pytest.mark.scenario("S-094")
def test_who_may_wait_for_a_group():
    """A child that its restart is going to stop may not, one that it leaves alone or has started may; nor may an init."""
    rig = Rig("rest_for_one", [*ABC, W("d")], intensity=5)
    rig.stops["d"] = WAITS
    rig.crash("b")
    call = StartChildCall(W("x", restart="temporary"))
    for name in "cd":
        assert isinstance(rig.call(call, path=[rig.tokens[name]]), WouldDeadlock)
    a = rig.ask(call, path=[rig.tokens["a"]])
    rig.starts["c"] = deque(["hang"])
    rig.go_down("d")
    assert isinstance(rig.call(call, path=[rig.tokens["c"]]), WouldDeadlock)
    b = rig.ask(call, path=[rig.tokens["b"]])
    rig.come_up("c")
    assert isinstance(rig.answer(a), Started)
    assert isinstance(rig.answer(b), AlreadyStarted)
    for strategy, kind in (("one_for_all", WouldDeadlock), ("one_for_one", Started)):
        rig = Rig(strategy, starts={"x": ["hang"]})
        rig.ask(StartChildCall(W("x")))
        path = [rig.tokens["x"]]
        assert isinstance(rig.call(StartChildCall(W("y")), path=path), kind)
        assert isinstance(rig.call(StartChildCall(W("x")), path=path), WouldDeadlock)


# --- callers that go


@pytest.mark.parametrize("strategy", [*STATIC, "dynamic"])
def test_cancelled_start_leaves_neither_child_nor_spec(strategy):
    """Whether the start obeys, comes up all the same, ignores or fails; and the next start goes on."""
    call = StartInstanceCall() if strategy == "dynamic" else StartChildCall(W("x"))
    for end in ("obeys", "comes up", "ignores", "fails"):
        rig = Rig(strategy, [W("x")] if strategy == "dynamic" else [], starts={"x": ["hang", "up"]})
        rig.stops["x"] = Shutdown() if end == "obeys" else WAITS
        request = rig.ask(call)
        rig.cancel(request)
        if end == "comes up":
            rig.come_up("x")
            rig.go_down("x")
        elif end == "ignores":
            rig.send(InstanceIgnored, rig.tokens["x"])
        elif end == "fails":
            rig.fail("x")
        assert (rig.answer(request), rig.counts()) == (WAITS, (0, 0, 0, 0))
        assert rig.kinds() == ([("shutdown_error", "x")] if end == "fails" else [])
        assert isinstance(rig.call(call), Started)


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
def test_cancelled_start_that_is_stuck(strategy):
    """Its id is blocked until it has ended, and then nothing is left of it; other starts go on."""
    rig = Rig(strategy, starts={"x": ["hang"]})
    rig.stops["x"] = WAITS
    rig.cancel(rig.ask(StartChildCall(W("x"))))
    rig.fail("x", InitFailed("cancelled", cause=Stuck(2.0)))
    assert isinstance(rig.call(StartChildCall(W("x"))), ChildStuckRefusal)
    assert isinstance(rig.call(StartChildCall(W("y", restart="temporary"))), Started)
    rig.crash("y")
    rig.exit("x", reason=Stuck(3.0))
    assert (rig.status(), rig.kinds()) == ([], [("stuck", "x"), ("child_terminated", "y"), ("late_end", "x")])


def test_cancelled_request_that_waits_is_never_looked_at():
    """It changes nothing when its turn would have come."""
    rig = Rig("one_for_all", [W("a")], starts={"a": ["hang"], "y": ["hang"]})
    rig.cancel(rig.ask(StartChildCall(W("x"))))
    rig.come_up("a")
    rig.ask(StartChildCall(W("y")))
    rig.cancel(rig.ask(StartChildCall(W("z"))))
    rig.come_up("y")
    assert rig.running() == ["a", "y"]


# --- limits, stuck, reconfigure


@pytest.mark.scenario("S-095")
def test_max_children_counts_those_that_are_restarting():
    """A dynamic supervisor refuses one more, of its template or by a spec of its own."""
    rig = Rig("dynamic", [W("t")], starts={"t": ["up", "hang"]}, max_children=1)
    rig.call(StartInstanceCall())
    rig.crash("t")
    for call in (StartInstanceCall(), StartChildCall(W("own"))):
        assert isinstance(rig.call(call), TooManyChildren)


@pytest.mark.scenario("S-096")
def test_steps_grow_with_the_children_and_no_faster():
    """Starting and stopping 1,000 children takes ten times the steps of 100, and nothing is left."""

    def steps(children):
        rig = Rig("dynamic", [W("t")])
        for number in range(children):
            rig.call(StartInstanceCall(Arguments((number,))))
        rig.stop()
        assert rig.ended.reason == Shutdown()
        assert rig.counts() == (0, 0, 0, 0)
        return rig.steps - 2, rig.state  # without the stop and the count, which are one step for any number

    few, _ = steps(100)
    many, state = steps(1_000)
    assert many == 10 * few
    assert (state.children.count, dict(state.handles.items()), dict(state.requests.items())) == (0, {}, {})


@pytest.mark.scenario("S-097")
def test_reconfigure_to_another_kind():
    """A static supervisor does not become a dynamic one, and has no template; what a new spec says holds from then on."""
    rig = Rig(specs=[W("a")])
    before = rig.state.flags
    for flags, specs, code in (
        (None, (), "invalid_flags"),
        (SupervisorFlags("one_for_one"), (W("a"), W("a")), "duplicate_id"),
        (SupervisorFlags("dynamic"), (W("a"),), "invalid_strategy"),
    ):
        assert rig.call(ReconfigureCall(flags, specs)).code == code
        assert rig.state.flags == before
    refusal = rig.call(StartInstanceCall())
    assert isinstance(refusal, InvalidSpec)
    assert ("start_child" in str(refusal), refusal.__traceback__) == (True, None)
    assert rig.call(ReconfigureCall(before, (W("a", restart="temporary"),))) is None
    rig.crash("a")
    assert (rig.status(), rig.ended) == ([], None)
    rig = Rig("dynamic", [W("t", 1)])
    rig.call(StartInstanceCall())
    assert rig.call(ReconfigureCall(SupervisorFlags("dynamic"), (W("t", 2),))) is None
    rig.crash("t")
    assert rig.specs["t"].spec.start.arguments.positional == (2,)


def test_stuck_child_blocks_its_id():
    """Who stopped it goes on; the id is refused until it has really ended."""
    rig = Rig(specs=[W("a")])
    rig.stops["a"] = InstanceStuck
    assert rig.call(terminate("a")) is None
    assert (rig.status(), rig.counts()) == ([("a", "stuck")], (1, 1, 0, 1))
    for call in (StartChildCall(W("a")), RestartChildCall("a"), DeleteChildCall("a")):
        assert isinstance(rig.call(call), ChildStuckRefusal)
    assert rig.call(terminate("a")) is None
    rig.exit("a", reason=Stuck(7.0))
    assert rig.status() == [("a", "stopped")]
    assert [(report.kind, report.reason) for report in rig.reports[1:]] == [
        ("stuck", Stuck(1.0)),
        ("late_end", Stuck(7.0)),
    ]


# --- answers that nobody takes


@pytest.mark.parametrize("strategy", STATIC)
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("start", ["up", "ignore"])
def test_a_start_whose_answer_nobody_takes_leaves_neither_child_nor_spec(strategy, restart, start):
    """The child is stopped, its spec forgotten, nothing is reported as an error, and the id is free."""
    rig = Rig(strategy, ABC, starts={"x": [start]})
    rig.deaf = True
    rig.ask(StartChildCall(W("x", restart=restart)))
    assert (rig.running(), rig.counts()) == (["a", "b", "c"], (3, 3, 0, 3))
    assert rig.kinds() == []
    rig.deaf = False
    assert isinstance(rig.call(StartChildCall(W("x"))), Started)


def test_a_stop_that_takes_its_time_undoes_a_start():
    """Who wants the same id waits for that; and once the whole stops, in the order of all."""
    rig = Rig(specs=[W("a")], stops={"x": WAITS})
    rig.deaf = True
    rig.ask(StartChildCall(W("x")))
    assert dict(rig.status()) == {"a": "running", "x": "stopping"}
    rig.deaf = False
    again = rig.ask(StartChildCall(W("x")))
    assert rig.answer(again) is WAITS
    rig.go_down("x")
    assert isinstance(rig.answer(again), Started)
    assert rig.running() == ["a", "x"]


def test_a_start_is_not_undone_twice():
    """A child that is gone, or on its way because all stop, is left alone."""
    rig = Rig("one_for_all", ABC, starts={"x": ["hang"]}, intensity=5)
    rig.ask(StartChildCall(W("x")))
    rig.exit("a")  # it is judged in the step in which x is up, and then the group goes down
    rig.deaf = True
    rig.come_up("x")
    assert rig.running() == ["a", "b", "c"]
    rig = Rig(specs=[W("a"), W("b")], stops={"a": WAITS, "b": WAITS})
    stop = rig.ask(StopCall())
    rig.send(AnswerUntaken, 0, False)  # noqa: FBT003 - of a field
    assert rig.events("stop") == ["stop b"]
    rig.send(AnswerUntaken, 99, True)  # noqa: FBT003 - of a field
    rig.go_down("b")
    rig.go_down("a")
    assert rig.answer(stop).ended == 2


# --- garbage


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_a_start_in_one_step_comes_to_the_same_as_in_two(restart):
    """A start for which no caller waits may bring its handle. State and effects are those of one that reports itself later."""
    state, _ = begin_supervisor("top", SupervisorFlags("dynamic"), [W("t")], at_seconds=0.0)
    for handle in ("first", "second"):
        call = StartChildCall(W(handle, ["an argument"], restart=restart))
        offered = SupervisorRequest(NO_CALLER, (), call, handle, at_seconds=1.0, draw=0.5)
        after, effects = step_supervisor(state, offered)
        plain, (start,) = step_supervisor(state, structs.replace(offered, handle=None))
        told = InstanceStarted(start.token, handle, at_seconds=1.0, draw=0.5)
        plain, reports = step_supervisor(plain, told)
        assert after == plain
        assert effects == (structs.replace(start, handle=handle), *reports)
        state = after
