"""Section F of the conformance scenarios, as far as decisions go: what a supervisor answers, and when."""

from collections import deque

import pytest

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
from agentrail.otp.exits import InitFailed, Shutdown, Stuck, describe
from agentrail.otp.supervision_types import (
    AnswerUntaken,
    ByHandle,
    ById,
    ChildCounts,
    CountChildrenCall,
    DeleteChildCall,
    GetChildSpecCall,
    InstanceIgnored,
    InstanceStuck,
    ReconfigureCall,
    RestartChildCall,
    StartChildCall,
    Started,
    StartInstanceCall,
    StopCall,
    TerminateChildCall,
    Token,
    WhichChildrenCall,
)
from tests.otp.supervision_rig import BROKEN, WAITS, Rig, W, subtree

ABC = [W("a"), W("b"), W("c")]
GROUPS = ["one_for_all", "rest_for_one"]
STATIC = ["one_for_one", *GROUPS]
GONE = "stranger"


def terminate(name):
    """Return the call."""
    return TerminateChildCall(ById(name))


@pytest.mark.scenario("S-079")
def test_start_of_a_running_child():
    """The refusal carries the live handle."""
    rig = Rig(specs=[W("a")])
    refusal = rig.call(StartChildCall(W("a")))
    assert isinstance(refusal, AlreadyStarted)
    assert refusal.handle is rig.handles["a"]


@pytest.mark.scenario("S-080")
@pytest.mark.scenario("S-081")
def test_start_of_a_spec_without_a_process():
    """A terminated child is terminated again without complaint, but its id is not free."""
    rig = Rig(specs=[W("a")])
    assert rig.call(terminate("a")) is None
    assert rig.call(terminate("a")) is None
    assert isinstance(rig.call(StartChildCall(W("a"))), AlreadyPresent)


@pytest.mark.scenario("S-082")
@pytest.mark.parametrize("name", ["x", ["unhashable"]])
def test_unknown_id(name):
    """Every call that names a child says that there is none, also if nothing can have this id."""
    rig = Rig(specs=[W("a")])
    calls = [terminate(name), RestartChildCall(name), DeleteChildCall(name), GetChildSpecCall(ById(name))]
    for call in calls:
        assert isinstance(rig.call(call), ChildNotFound)


@pytest.mark.scenario("S-083")
@pytest.mark.parametrize("call", [RestartChildCall, DeleteChildCall])
def test_running_child_is_neither_restarted_nor_deleted(call):
    """It has to be terminated first."""
    rig = Rig(specs=[W("a")])
    assert isinstance(rig.call(call("a")), ChildRunning)
    rig.call(terminate("a"))
    assert not isinstance(rig.call(call("a")), Exception)


@pytest.mark.scenario("S-085")
def test_terminated_temporary_child_is_gone():
    """There is nothing left to delete or to restart."""
    rig = Rig(specs=[W("a", restart="temporary")])
    assert rig.call(terminate("a")) is None
    for call in (DeleteChildCall("a"), RestartChildCall("a")):
        assert isinstance(rig.call(call), ChildNotFound)


@pytest.mark.scenario("S-086")
@pytest.mark.parametrize("strategy", STATIC)
def test_start_child_that_fails(strategy):
    """The caller gets the reason, and no spec is kept."""
    rig = Rig(strategy, starts={"a": ["fail"]})
    refusal = rig.call(StartChildCall(W("a")))
    assert isinstance(refusal, ChildStartRefused)
    assert refusal.reason == BROKEN
    assert str(refusal) == f"child 'a' did not start ({describe(BROKEN)}): mend that and start it again"
    assert (rig.counts(), rig.kinds()) == ((0, 0, 0, 0), [("start_error", "a")])
    assert isinstance(rig.call(StartChildCall(W("b"))), Started)


@pytest.mark.scenario("S-087")
def test_restart_child_that_fails():
    """The caller gets the reason, and the spec stays without a process."""
    rig = Rig(specs=[W("a")], starts={"a": ["up", "fail"]})
    rig.call(terminate("a"))
    assert rig.call(RestartChildCall("a")).reason == BROKEN
    assert (rig.status(), rig.state.restarts) == ([("a", "stopped")], ())


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
def test_keys_of_a_dynamic_supervisor():
    """An id is the wrong key, a live stranger is not found, a dead handle is fine, a child's own handle works."""
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


@pytest.mark.scenario("S-089")
def test_handles_at_a_static_supervisor():
    """A child's own handle works; that of an earlier instance, or of nobody, does not."""
    rig = Rig(specs=[W("a")])
    old = rig.handles["a"]
    rig.crash("a")
    for handle, alive in ((old, False), (GONE, True), (GONE, False)):
        assert isinstance(rig.call(TerminateChildCall(ByHandle(handle, alive=alive))), ChildNotFound)
    assert rig.call(TerminateChildCall(ByHandle(rig.handles["a"], alive=True))) is None
    assert rig.running() == []


@pytest.mark.scenario("S-090")
def test_counts():
    """`active` counts processes, `supervisors` and `workers` count specs."""
    rig = Rig(specs=[*ABC, W("s", kind="supervisor")], starts={"s": [subtree("one_for_one", [])]})
    rig.call(terminate("a"))
    assert rig.call(CountChildrenCall()) == ChildCounts(specs=4, active=3, supervisors=1, workers=3)


@pytest.mark.scenario("S-093")
def test_calls_during_a_slow_stop():
    """Reads are answered, another child stops first, and a second `terminate_child` returns with the first."""
    rig = Rig(specs=ABC)
    rig.stops["b"] = WAITS
    first = rig.ask(terminate("b"))
    assert rig.status() == [("a", "running"), ("b", "stopping"), ("c", "running")]
    assert rig.counts() == (3, 3, 0, 3)
    assert rig.call(terminate("a")) is None
    second = rig.ask(terminate("b"))
    rig.events()
    assert (rig.answer(first), rig.answer(second)) == (WAITS, WAITS)
    rig.go_down("b")
    assert (rig.answer(first), rig.answer(second)) == (None, None)
    assert rig.events("stop") == []


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
def test_restart_waits_for_a_start_under_a_group_strategy():
    """Both are starts, and those go one at a time."""
    rig = Rig("rest_for_one", [W("a")], starts={"x": ["hang"]})
    rig.call(terminate("a"))
    rig.ask(StartChildCall(W("x")))
    restart = rig.ask(RestartChildCall("a"))
    assert rig.answer(restart) is WAITS
    rig.come_up("x")
    assert isinstance(rig.answer(restart), Started)


@pytest.mark.scenario("S-093")
def test_second_start_of_an_id_waits_for_the_first():
    """And is refused, or not, by what came of it."""
    for end, kind in ((Rig.come_up, AlreadyStarted), (Rig.fail, Started)):
        rig = Rig(starts={"x": ["hang", "up"]})
        rig.ask(StartChildCall(W("x")))
        second = rig.ask(StartChildCall(W("x")))
        assert rig.answer(second) is WAITS
        end(rig, "x")
        assert isinstance(rig.answer(second), kind)


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
    """From its init and from its end reads are answered, and what would wait for it is refused."""
    rig = Rig(specs=ABC, starts={"b": ["hang"]})
    path = [rig.tokens["b"], Token(0, 1)]
    assert len(rig.call(WhichChildrenCall(), path=path)) == 3
    refusal = rig.call(StartChildCall(W("x")), path=path)
    assert isinstance(refusal, WouldDeadlock)
    assert str(refusal).startswith("start_child would wait for child 'b', which is being started")
    rig.come_up("b")
    rig.stops["b"] = WAITS
    first = rig.ask(terminate("b"))
    assert rig.call(CountChildrenCall(), path=path).specs == 3
    for call in (terminate("b"), RestartChildCall("b"), StartChildCall(W("b"))):
        assert isinstance(rig.call(call, path=path), WouldDeadlock)
    assert isinstance(rig.call(StartChildCall(W("x")), path=path), Started)
    rig.go_down("b")
    assert rig.answer(first) is None


@pytest.mark.scenario("S-094")
def test_running_child_cannot_wait_for_its_own_stop():
    """`terminate_child` of itself is refused; of another instance that had its id it is not."""
    rig = Rig(specs=[W("a")])
    old = rig.tokens["a"]
    assert isinstance(rig.call(terminate("a"), path=[old]), WouldDeadlock)
    rig.crash("a")
    assert rig.call(terminate("a"), path=[old]) is None


@pytest.mark.scenario("S-094")
def test_who_may_wait_for_a_sweep():
    """A child that the group restart is going to stop may not, one that it leaves alone or has started may."""
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


@pytest.mark.scenario("S-094")
def test_start_from_the_init_of_another_start():
    """Under a group strategy it would wait for its caller's start; one for one it does not."""
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
def test_reconfigure():
    """New flags apply, what runs is left alone, an id that is missing stays, a new one is listed without a process."""
    rig = Rig(specs=[W("a"), W("b")])
    before = rig.children
    specs = (W("a", restart="temporary"), W("b", 1), {"id": "new", "start": W("new").start})
    assert rig.call(ReconfigureCall(SupervisorFlags("one_for_all", 0), specs)) is None
    assert rig.status() == [("a", "running"), ("b", "running"), ("new", "stopped")]
    assert {name: rig.children[name].handle for name in "ab"} == {name: before[name].handle for name in "ab"}
    assert rig.call(GetChildSpecCall(ById("a"))).restart == "temporary"
    assert rig.call(GetChildSpecCall(ById("b"))).start.arguments.positional == (1,)
    rig.crash("a")
    assert (rig.ended, rig.status()[0]) == (None, ("b", "running"))
    rig.crash("b")
    assert rig.ended.reason == Shutdown("max_restart_intensity")


@pytest.mark.scenario("S-097")
def test_reconfigure_of_a_dynamic_supervisor_takes_a_new_template():
    """Its instances take it when they are restarted."""
    rig = Rig("dynamic", [W("t", 1)])
    rig.call(StartInstanceCall())
    assert rig.call(ReconfigureCall(SupervisorFlags("dynamic"), (W("t", 2),))) is None
    rig.crash("t")
    assert rig.specs["t"].spec.start.arguments.positional == (2,)


@pytest.mark.scenario("S-097")
@pytest.mark.parametrize(
    ("flags", "specs", "code"),
    [
        (SupervisorFlags("one_for_one"), (W("a"), W("a")), "duplicate_id"),
        (SupervisorFlags("dynamic"), (W("a"),), "invalid_strategy"),
    ],
)
def test_reconfigure_that_is_refused_changes_nothing(flags, specs, code):
    """A static supervisor does not become a dynamic one."""
    rig = Rig(specs=[W("a")])
    before = rig.state.flags
    assert rig.call(ReconfigureCall(flags, specs)).code == code
    assert rig.state.flags == before


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


@pytest.mark.parametrize(
    "flags", [None, "one_for_one", SupervisorFlags, {"strategy": "one_for_one"}], ids=repr
)
def test_flags_that_are_none_are_refused(flags):
    """By name, and nothing is changed."""
    rig = Rig(specs=ABC)
    before = rig.state.flags
    refusal = rig.call(ReconfigureCall(flags, ()))
    assert isinstance(refusal, InvalidSpec)
    assert (refusal.code, refusal.field) == ("invalid_flags", "flags")
    assert "SupervisorFlags(strategy, …), got" in str(refusal)
    assert (rig.state.flags, rig.running()) == (before, ["a", "b", "c"])


def test_start_instance_needs_a_template():
    """A static supervisor says what to use instead."""
    refusal = Rig().call(StartInstanceCall())
    assert isinstance(refusal, InvalidSpec)
    assert "start_child" in str(refusal)
