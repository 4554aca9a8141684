"""Sections C, D and E of the conformance scenarios, as far as decisions go: intensity, strategies, restarting."""

from collections import deque

import pytest

from agentrail.errors import AlreadyPresent, ChildRestarting, ChildStuck as ChildStuckRefusal
from agentrail.otp.child_specs import Arguments, Backoff
from agentrail.otp.exits import InitFailed, Normal, Shutdown, Stuck
from agentrail.otp.supervision_types import (
    ByHandle,
    ById,
    DeleteChildCall,
    InstanceExited,
    InstanceStuck,
    RestartChildCall,
    RetryDue,
    StartChildCall,
    Started,
    StartInstanceCall,
    TerminateChildCall,
    WhichChildrenCall,
)
from tests.otp.supervision_rig import CRASH, WAITS, Rig, W, subtree

ABC = [W("a"), W("b"), W("c")]
ABCD = [*ABC, W("d")]
GAVE_UP = Shutdown("max_restart_intensity")
FAILS = ["up", "fail"]  # once up, then never again


def looping(**options):
    """Return a supervisor whose child b crashed and does not start again; its intensity has no end."""
    rig = Rig(specs=ABC, starts={"b": ["up", "hang"]}, **{"intensity": 1_000_000, **options})
    rig.crash("b")
    return rig


def restarts(rig):
    """How many restarts are counted."""
    return len(rig.state.restarts)


# --- C. intensity


@pytest.mark.scenario("S-036")
def test_one_crash_more_than_the_intensity_ends_the_supervisor():
    """With intensity 2 the third crash within the period stops all children, in reverse order."""
    rig = Rig(specs=ABC, intensity=2)
    for at in (0, 1):
        rig.crash("b", at)
        assert rig.ended is None
    rig.events()
    rig.crash("b", 2)
    assert rig.events("start", "stop") == ["stop c", "stop a"]
    assert rig.ended.reason == GAVE_UP
    assert rig.kinds("child_terminated") == [("shutdown", "b")]


@pytest.mark.scenario("S-037")
def test_intensity_zero_allows_no_restart():
    """The first crash ends the supervisor, and nothing is started."""
    rig = Rig(specs=[W("a")], intensity=0)
    rig.events()
    rig.crash("a")
    assert (rig.ended.reason, rig.events()) == (GAVE_UP, [])


@pytest.mark.scenario("S-038")
def test_window_slides():
    """Crashes that are further apart than the period never add up."""
    rig = Rig(specs=[W("a")], period_seconds=1.0)
    for count in range(1, 5):
        rig.crash("a", count * 2.1)
    assert (rig.ended, rig.children["a"].incarnation) == (None, 5)


@pytest.mark.scenario("S-039")
@pytest.mark.parametrize(("second", "lives"), [(5.0, False), (5.01, True)])
def test_edge_of_the_window_is_inside(second, lives):
    """A restart exactly one period ago still counts."""
    rig = Rig(specs=[W("a")])
    rig.crash("a", 0)
    rig.crash("a", second)
    assert (rig.ended is None) is lives


def apart(*specs, **flags):
    """Return a dynamic supervisor with these children, each of which has its own budget."""
    rig = Rig("dynamic", [W("template")], intensity_per="child", **flags)
    for spec in specs:
        rig.call(StartChildCall(spec))
    return rig


@pytest.mark.at(150)
def test_a_child_that_exceeds_its_own_budget_is_given_up_alone():
    """One report `shutdown` names it, it is gone from the books, and the supervisor and the others go on."""
    rig = apart(W("a"), W("b"))
    rig.crash("a", 0)
    rig.crash("a", 5.0)
    assert (rig.ended, rig.state.phase) == (None, "running")
    assert ("shutdown", "a") in rig.kinds("child_terminated")
    assert list(rig.children) == ["b"]
    rig.crash("b", 6)
    assert rig.children["b"].incarnation == 2


@pytest.mark.scenario("S-040")
def test_failed_restarts_count():
    """With intensity 4 exactly 4 starts are attempted after the crash."""
    rig = Rig(specs=[W("a")], starts={"a": FAILS}, intensity=4)
    rig.events()
    rig.crash("a")
    while rig.retries:
        rig.retry()
    assert rig.events("start") == ["start a"] * 4
    assert rig.ended.reason == GAVE_UP


@pytest.mark.scenario("S-041")
def test_recovery_within_the_budget():
    """Two failed starts and one that succeeds are three restarts."""
    rig = Rig(specs=[W("a")], starts={"a": ["up", "fail", "fail", "up"]}, intensity=5)
    rig.crash("a")
    rig.retry()
    assert rig.status() == [("a", "restarting")]
    rig.retry()
    assert (rig.running(), restarts(rig)) == (["a"], 3)
    assert rig.kinds() == [("child_terminated", "a"), ("start_error", "a"), ("start_error", "a")]


@pytest.mark.scenario("S-043")
def test_what_does_not_count():
    """Calls, ends of temporary children and clean ends of transient ones leave the budget alone."""
    rig = Rig(specs=[W("a"), W("b", restart="transient")])
    for _ in range(10):
        rig.call(TerminateChildCall(ById("a")))
        rig.call(RestartChildCall("a"))
        rig.call(StartChildCall(W("t", restart="temporary")))
        rig.crash("t")
        rig.exit("b", reason=Normal())
        rig.call(RestartChildCall("b"))
    assert (rig.ended, restarts(rig)) == (None, 0)
    rig.crash("a")
    assert rig.running() == ["a", "b"]


@pytest.mark.scenario("S-044")
def test_group_restart_counts_once():
    """Three children are restarted for one crash; the second crash is too much for intensity 1."""
    rig = Rig("one_for_all", ABC)
    rig.crash("b")
    assert (rig.running(), restarts(rig)) == (["a", "b", "c"], 1)
    rig.crash("b")
    assert rig.ended.reason == GAVE_UP


@pytest.mark.scenario("S-045")
def test_simultaneous_crashes_of_a_group_are_one_restart():
    """The second crash is an error of the stop, whose sequence it does not disturb."""
    rig = Rig("one_for_all", ABC)
    rig.events()
    rig.exit("b", "a")
    assert rig.events("start", "stop") == ["stop c", "start a", "start b", "start c"]
    assert (rig.running(), restarts(rig)) == (["a", "b", "c"], 1)
    assert rig.kinds() == [("child_terminated", "b"), ("shutdown_error", "a")]


@pytest.mark.scenario("S-046")
def test_simultaneous_crashes_one_for_one_are_two_restarts():
    """Which are too many for intensity 1."""
    rig = Rig(specs=ABC)
    rig.exit("b", "a")
    assert rig.ended.reason == GAVE_UP


@pytest.mark.scenario("S-047")
@pytest.mark.parametrize(("restart", "comes_back"), [("transient", False), ("permanent", True)])
def test_giving_up_is_a_clean_end(restart, comes_back):
    """It restarts no transient supervisor; a permanent one comes back with its initial children only."""
    below = deque([subtree("one_for_one", [W("x")], intensity=0), subtree("one_for_one", [W("x")])])
    rig = Rig(specs=[W("sub", kind="supervisor", restart=restart)], starts={"sub": below})
    first = rig.stops["sub"]
    first.call(StartChildCall(W("y")))
    first.crash("y")
    assert first.ended.reason == GAVE_UP
    assert (rig.running() == ["sub"]) is comes_back
    if comes_back:
        assert rig.stops["sub"] is not first
        assert rig.stops["sub"].running() == ["x"]


@pytest.mark.scenario("S-048")
def test_escalation_multiplies():
    """Three levels of intensity 1 start a leaf that always crashes eight times, then the top gives up."""

    def inner():
        return subtree("one_for_one", [W("leaf")], starts={"leaf": ["crash"]})

    def middle():
        return subtree("one_for_one", [W("inner", kind="supervisor")], starts={"inner": [inner()]})

    rig = Rig(specs=[W("middle", kind="supervisor")], starts={"middle": [middle()]})
    assert rig.events("start").count("start leaf") == 8
    assert rig.ended.reason == GAVE_UP


@pytest.mark.scenario("S-050")
@pytest.mark.scenario("S-075")
def test_retry_goes_behind_other_requests():
    """A start that failed is tried again by a signal of its own, so calls that wait come first and can end the loop."""
    rig = Rig(specs=[W("a")], starts={"a": FAILS}, intensity=1_000_000)
    rig.crash("a")
    for _ in range(100):
        rig.retry()
    rig.events()
    assert rig.status() == [("a", "restarting")]
    assert rig.call(TerminateChildCall(ById("a"))) is None
    assert (rig.status(), rig.retries, rig.events()) == ([("a", "stopped")], {}, [])


@pytest.mark.at(150)
@pytest.mark.scenario("S-213")
@pytest.mark.parametrize("draw", [0.0, 0.5])
def test_back_off_grows_up_to_its_maximum(draw):
    """1, 2, 4, 8, 8 s, each longer by a share of the jitter; and 1 s again after the child ran for the reset time."""
    rig = Rig(specs=[W("a")], intensity=1000, backoff=Backoff(1, 8, 2, 0.2, reset_after_seconds=10))
    rig.draw = draw
    waits = []
    for _ in range(5):
        rig.crash("a")
        waits.append(rig.retries["a"][1])
        rig.retry()
    rig.crash("a", rig.now + 9.9)
    waits.append(rig.retries["a"][1])
    rig.retry()
    rig.crash("a", rig.now + 10)
    waits.append(rig.retries["a"][1])
    assert waits == [seconds * (1 + 0.2 * draw) for seconds in (1, 2, 4, 8, 8, 8, 1)]


@pytest.mark.scenario("S-213")
def test_back_off_has_no_end_and_resets_by_itself():
    """A thousand restarts in a row wait no longer than the maximum; the default reset time is the mean of both."""
    rig = Rig(
        specs=[W("a")],
        intensity=10_000,
        backoff=Backoff(0.5, 2, 10, 0.0),
        starts={"a": [*["up"] * 2, "fail"]},
    )
    rig.crash("a")
    rig.retry()
    rig.crash("a", rig.now + 1.25)
    assert rig.retries["a"][1] == 0.5
    for _ in range(1_000):
        rig.retry()
    assert rig.retries["a"][1] == 2


@pytest.mark.scenario("S-213")
def test_stop_during_the_wait_acts_at_once():
    """Nothing of a retry is left."""
    rig = Rig(specs=[W("a")], backoff=Backoff())
    rig.crash("a")
    rig.stop()
    assert (rig.ended.reason, rig.retries) == (Shutdown(), {})


@pytest.mark.scenario("S-213")
def test_group_waits_when_it_is_down():
    """With a back-off the others are stopped first, then comes the wait, then the starts."""
    rig = Rig("one_for_all", ABC, backoff=Backoff(jitter=0))
    rig.events()
    rig.crash("b")
    assert rig.events() == ["stop c", "down c", "stop a", "down a"]
    assert rig.status() == [("a", "stopped"), ("b", "restarting"), ("c", "stopped")]
    rig.retry()
    assert rig.running() == ["a", "b", "c"]


# --- D. strategies


@pytest.mark.scenario("S-052")
@pytest.mark.scenario("S-053")
@pytest.mark.scenario("S-054")
@pytest.mark.scenario("S-055")
@pytest.mark.parametrize(
    ("strategy", "crashed", "events"),
    [
        ("one_for_one", "b", ["start b"]),
        ("one_for_all", "b", ["stop d", "stop c", "stop a", "start a", "start b", "start c", "start d"]),
        ("rest_for_one", "b", ["stop d", "stop c", "start b", "start c", "start d"]),
        ("rest_for_one", "d", ["start d"]),
    ],
)
def test_whom_a_crash_concerns(strategy, crashed, events):
    """Stops are in reverse start order, starts in start order; the others keep their handles."""
    rig = Rig(strategy, ABCD)
    before = rig.handles.copy()
    rig.events()
    rig.crash(crashed)
    assert rig.events("start", "stop") == events
    assert rig.running() == ["a", "b", "c", "d"]
    new = {name for name in "abcd" if rig.children[name].handle != before[name]}
    assert new == {event[-1] for event in events}


@pytest.mark.scenario("S-057")
def test_temporary_sibling_is_stopped_and_forgotten():
    """A group restart stops it and does not start it again."""
    rig = Rig("one_for_all", [W("a"), W("b", restart="temporary"), W("c")])
    rig.crash("a")
    assert rig.status() == [("a", "running"), ("c", "running")]


@pytest.mark.scenario("S-058")
@pytest.mark.scenario("S-059")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize(("restart", "reason"), [("temporary", CRASH), ("transient", Normal())])
def test_exit_that_is_not_restart_worthy_touches_no_sibling(strategy, restart, reason):
    """Neither the crash of a temporary child nor the clean end of a transient one."""
    rig = Rig(strategy, [W("a"), W("b", restart=restart), W("c")])
    rig.events()
    rig.exit("b", reason=reason)
    assert (rig.events(), rig.running()) == ([], ["a", "c"])


@pytest.mark.scenario("S-060")
@pytest.mark.scenario("S-061")
def test_group_revives_what_had_ended():
    """A transient child that had ended cleanly and one that was terminated run again after a group restart."""
    rig = Rig("one_for_all", [W("a"), W("b", restart="transient"), W("c")])
    rig.exit("b", reason=Normal())
    rig.call(TerminateChildCall(ById("c")))
    assert rig.running() == ["a"]
    rig.crash("a")
    assert rig.running() == ["a", "b", "c"]


@pytest.mark.scenario("S-062")
def test_group_restart_that_fails_half_way_begins_anew():
    """Under one_for_all what the attempt had started is stopped, and all start again; two restarts are counted."""
    rig = Rig("one_for_all", [W("a"), W("b")], starts={"b": ["up", "fail", "up"]}, intensity=5)
    rig.events()
    rig.crash("a")
    assert rig.events("start", "stop") == ["stop b", "start a", "start b", "stop a"]
    rig.retry()
    assert rig.events("start", "stop") == ["start a", "start b"]
    assert (rig.running(), restarts(rig)) == (["a", "b"], 2)


@pytest.mark.scenario("S-062")
def test_rest_restart_that_fails_goes_on_from_there():
    """Under rest_for_one those before the one that failed are kept, those behind it are stopped meanwhile."""
    rig = Rig("rest_for_one", ABCD, starts={"c": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    assert rig.status() == [("a", "running"), ("b", "running"), ("c", "restarting"), ("d", "stopped")]
    rig.events()
    rig.retry()
    assert rig.events("start", "stop") == ["start c", "start d"]


@pytest.mark.scenario("S-062")
def test_crash_before_the_group_that_waits_takes_it_along():
    """While c waits for its retry b crashes: one restart from b on, and the retry of c is off."""
    rig = Rig("rest_for_one", ABCD, starts={"c": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    rig.crash("b")
    assert (rig.running(), rig.retries, restarts(rig)) == (["a", "b", "c", "d"], {}, 3)


@pytest.mark.scenario("S-062")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_crash_inside_a_group_that_waits_adds_no_restart(strategy):
    """Somebody started d while its group waits for a retry; its crash is reported, and the retry brings it back."""
    rig = Rig(strategy, ABCD, starts={"c": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    rig.call(RestartChildCall("d"))
    rig.crash("d")
    assert restarts(rig) == 2
    assert dict(rig.status())["d"] == "stopped"
    rig.retry()
    assert rig.running() == ["a", "b", "c", "d"]
    assert rig.kinds()[-1] == ("child_terminated", "d")


@pytest.mark.scenario("S-062")
def test_retry_of_a_group_begins_with_a_stop():
    """Who was started while the group waited is stopped again: nothing of a group is older than its restart."""
    rig = Rig("one_for_all", ABC, starts={"b": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    rig.call(RestartChildCall("c"))
    rig.events()
    rig.retry()
    assert rig.events("start", "stop") == ["stop c", "start a", "start b", "start c"]


@pytest.mark.scenario("S-062")
def test_terminating_the_trigger_gives_the_group_up():
    """As in OTP: no attempt follows, and the siblings stay as the failed attempt left them."""
    rig = Rig("one_for_all", ABC, starts={"b": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    assert rig.call(TerminateChildCall(ById("b"))) is None
    assert (rig.running(), rig.retries) == ([], {})
    assert isinstance(rig.call(RestartChildCall("a")), Started)


@pytest.mark.scenario("S-064")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_nothing_of_a_group_starts_before_all_of_it_has_ended(strategy):
    """A child that takes its time to stop holds up every start."""
    rig = Rig(strategy, ABC)
    rig.stops["c"] = WAITS
    rig.events()
    rig.crash("b")
    assert rig.events() == ["stop c"]
    rig.go_down("c")
    assert rig.running() == ["a", "b", "c"]


@pytest.mark.scenario("S-064")
def test_group_waits_for_a_child_that_is_being_terminated():
    """The group restart comes upon a stop that somebody had asked for: it asks nobody twice, and starts it again."""
    rig = Rig("one_for_all", ABC)
    rig.stops["c"] = WAITS
    asked = rig.ask(TerminateChildCall(ById("c")))
    rig.events()
    rig.crash("a")
    assert rig.events() == []
    rig.go_down("c")
    assert (rig.answer(asked), rig.running()) == (None, ["a", "b", "c"])


@pytest.mark.scenario("S-065")
def test_crash_while_being_stopped_adds_no_restart():
    """It is a `shutdown_error`, and the group comes back."""
    rig = Rig("one_for_all", ABC)
    rig.stops["c"] = CRASH
    rig.crash("a")
    assert (rig.running(), restarts(rig)) == (["a", "b", "c"], 1)
    assert rig.kinds() == [("child_terminated", "a"), ("shutdown_error", "c")]


@pytest.mark.scenario("S-045")
def test_crash_of_a_new_instance_is_judged_after_the_group_restart():
    """A child that crashes while the rest of its group still starts brings the next restart, and not this one."""
    rig = Rig("one_for_all", ABC, starts={"c": ["up", "hang", "up"]}, intensity=5)
    rig.crash("b")
    rig.crash("a")
    assert (rig.status()[0], restarts(rig)) == (("a", "restarting"), 1)
    rig.events()
    rig.come_up("c")
    assert rig.events("start", "stop") == ["stop c", "stop b", "start a", "start b", "start c"]
    assert restarts(rig) == 2


@pytest.mark.scenario("S-066")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_stop_during_a_group_restart(strategy):
    """The start under way is cancelled, what had been started is stopped in reverse order, the rest never starts."""
    rig = Rig(strategy, ABCD, starts={"c": ["up", "hang"]})
    rig.crash("a")
    rig.events()
    rig.stop()
    assert rig.events("start", "stop", "cancel") == ["cancel c", "stop b", "stop a"]
    assert rig.ended.reason == Shutdown()


@pytest.mark.scenario("S-067")
def test_dynamic_child_is_restarted_with_its_own_arguments():
    """The crash of one instance concerns no other."""
    rig = Rig("dynamic", [W("t", "common")])
    one, two = (rig.call(StartInstanceCall(Arguments((name,)))).handle for name in ("one", "two"))
    rig.crash("one")
    assert rig.specs["one"].extra == Arguments(("one",))
    assert rig.specs["one"].spec.start.arguments == Arguments(("common",))
    running = {info.handle for info in rig.call(WhichChildrenCall())}
    assert two in running
    assert one not in running


@pytest.mark.scenario("S-068")
def test_dynamic_child_whose_restart_is_ignored_is_gone():
    """A static one keeps its spec, without a retry; neither is an error."""
    dynamic = Rig("dynamic", [W("t")], starts={"t": ["up", "ignore"]})
    dynamic.call(StartInstanceCall())
    static = Rig(specs=[W("t")], starts={"t": ["up", "ignore"]})
    for rig, left in ((dynamic, (0, 0, 0, 0)), (static, (1, 0, 0, 1))):
        rig.crash("t")
        assert rig.counts() == left
        rig.stop()
        assert rig.kinds() == [("child_terminated", "t")]


@pytest.mark.scenario("S-069")
def test_restart_of_a_tree():
    """One of two subtrees gives up: both are new, and what was added below is gone."""
    below = {name: deque(subtree("one_for_one", [W(f"{name}1")], intensity=0) for _ in "12") for name in "ab"}
    rig = Rig("one_for_all", [W(name, kind="supervisor") for name in "ab"], starts=below)
    first = dict(rig.stops)
    first["a"].call(StartChildCall(W("a2")))
    first["b"].crash("b1")
    assert rig.running() == ["a", "b"]
    assert {name: rig.stops[name].running() for name in "ab"} == {"a": ["a1"], "b": ["b1"]}
    assert all(rig.stops[name] is not first[name] for name in "ab")


# --- E. restarting


@pytest.mark.scenario("S-071")
def test_restarting_child_is_not_active():
    """It counts among the specs and the workers."""
    rig = looping()
    assert rig.counts() == (3, 2, 0, 3)
    assert (rig.children["b"].status, rig.children["b"].handle) == ("restarting", None)


@pytest.mark.scenario("S-072")
@pytest.mark.scenario("S-073")
@pytest.mark.scenario("S-074")
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (RestartChildCall("b"), ChildRestarting),
        (DeleteChildCall("b"), ChildRestarting),
        (StartChildCall(W("b")), AlreadyPresent),
    ],
)
def test_calls_that_a_restarting_child_refuses(call, refusal, waits):
    """During an attempt, and between two."""
    rig = looping()
    if waits:
        rig.fail("b")
    assert isinstance(rig.call(call), refusal)
    assert dict(rig.status())["b"] == "restarting"


@pytest.mark.scenario("S-075")
@pytest.mark.parametrize("waits", [False, True])
def test_terminate_ends_the_loop(waits):
    """It returns at once, no further start is attempted, and the spec can be deleted."""
    rig = looping()
    if waits:
        rig.fail("b")
    rig.events()
    assert rig.call(TerminateChildCall(ById("b"))) is None
    assert dict(rig.status())["b"] == "stopped"
    assert rig.events("start") == []
    assert rig.retries == {}
    assert rig.call(DeleteChildCall("b")) is None


@pytest.mark.scenario("S-076")
@pytest.mark.parametrize("waits", [False, True])
def test_stop_cancels_the_attempt_under_way(waits):
    """And waits for no other."""
    rig = looping()
    if waits:
        rig.fail("b")
    rig.events()
    rig.stop()
    assert rig.events("start", "cancel") == ([] if waits else ["cancel b"])
    assert (rig.ended.reason, rig.retries) == (Shutdown(), {})


@pytest.mark.scenario("S-076")
def test_retry_that_comes_due_during_the_stop_starts_nothing():
    """A wait that was over when the stop had not come to its child yet is over for good."""
    rig = looping()
    rig.fail("b")
    rig.stops["c"] = WAITS
    rig.stop()
    rig.events()
    rig.retry()
    rig.go_down("c")
    assert rig.events("start") == []
    assert rig.ended.reason == Shutdown()


@pytest.mark.scenario("S-078")
@pytest.mark.parametrize("waits", [False, True])
def test_old_handle_of_a_restarting_dynamic_child(waits):
    """`terminate_child` with the handle of the last instance turns the retry off, and the child is gone."""
    rig = Rig("dynamic", [W("t")], starts={"t": ["up", "hang"]}, intensity=9)
    handle = rig.call(StartInstanceCall()).handle
    rig.crash("t")
    if waits:
        rig.fail("t")
    assert rig.call(TerminateChildCall(ByHandle(handle, alive=False))) is None
    assert (rig.counts(), rig.retries) == ((0, 0, 0, 0), {})


# --- stuck


def stuck(strategy, name, **options):
    """Return a supervisor of a, b, c, one of which does not obey its kill when b has crashed."""
    rig = Rig(strategy, ABC, **options)
    rig.stops[name] = InstanceStuck
    rig.crash("b")
    return rig


def test_group_waits_for_what_is_stuck():
    """It waits in `restarting`, does not count the wait, and starts when the stuck one has really ended."""
    rig = stuck("one_for_all", "c")
    assert rig.status() == [("a", "stopped"), ("b", "restarting"), ("c", "stuck")]
    assert rig.kinds() == [("child_terminated", "b"), ("stuck", "c")]
    rig.now = 1000.0
    rig.exit("c", reason=Stuck(999.0))
    assert (rig.running(), restarts(rig)) == (["a", "b", "c"], 1)
    assert rig.kinds()[-1] == ("late_end", "c")


def test_group_that_waits_for_what_is_stuck_can_be_given_up():
    """`terminate_child` of the trigger; the stuck one ends later, and nothing starts."""
    rig = stuck("one_for_all", "c")
    assert isinstance(rig.call(RestartChildCall("b")), ChildRestarting)
    rig.call(TerminateChildCall(ById("b")))
    rig.exit("c", reason=Stuck(9.0))
    assert rig.status() == [("a", "stopped"), ("b", "stopped"), ("c", "stopped")]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
def test_start_that_is_stuck_blocks_its_id(strategy):
    """A start that failed and is still there: the caller hears why, and the id is free when it has ended."""
    rig = Rig(strategy, starts={"a": ["hang"]})
    request = rig.ask(StartChildCall(W("a")))
    reason = InitFailed("timeout", cause=Stuck(1.0))
    rig.fail("a", reason)
    assert rig.answer(request).reason == reason
    assert isinstance(rig.call(StartChildCall(W("a"))), ChildStuckRefusal)
    assert (rig.status(), rig.kinds()) == ([("a", "stuck")], [("start_error", "a"), ("stuck", "a")])
    rig.exit("a", reason=Stuck(5.0))
    assert rig.status() == []


def test_restart_that_is_stuck_is_retried_when_it_has_ended():
    """A new instance never meets an old one: the retry waits for the end, and the end for the retry."""
    for order in ("retry first", "end first"):
        rig = looping()
        rig.fail("b", InitFailed("timeout", cause=Stuck(1.0)))
        rig.events()
        if order == "retry first":
            rig.retry()
            assert rig.events("start") == []
            rig.exit("b", reason=Stuck(2.0))
        else:
            rig.exit("b", reason=Stuck(2.0))
            assert rig.events("start") == []
            rig.retry()
        assert rig.events("start") == ["start b"]


def test_group_restart_whose_start_is_stuck():
    """The group waits for the end of the start that did not even obey its kill."""
    rig = Rig("one_for_all", ABC, starts={"b": ["up", "hang", "up"]}, intensity=5)
    rig.crash("a")
    rig.fail("b", InitFailed("timeout", cause=Stuck(1.0)))
    rig.retry()
    assert rig.status() == [("a", "stopped"), ("b", "stuck"), ("c", "stopped")]
    rig.exit("b", reason=Stuck(2.0))
    assert rig.running() == ["a", "b", "c"]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
def test_restart_that_is_stuck_can_be_given_up(strategy):
    """By `terminate_child`, and by a stop; it is not started again when it has ended."""
    for give_up in (lambda rig: rig.ask(TerminateChildCall(ById("b"))), Rig.stop):
        rig = looping(strategy=strategy)
        if strategy == "one_for_all":
            assert rig.status()[1] == ("b", "restarting")
        rig.fail("b", InitFailed("timeout", cause=Stuck(1.0)))
        give_up(rig)
        assert rig.retries == {}
        rig.events()
        rig.exit("b", reason=Stuck(2.0))
        assert (rig.events("start"), dict(rig.status())["b"]) == ([], "stopped")


# --- tokens


def test_unknown_tokens_are_dropped_and_counted():
    """No answer is taken for that of another instance, and none twice."""
    rig = Rig(specs=[W("a")])
    old = rig.tokens["a"]
    rig.crash("a")
    before = rig.status(), rig.handles["a"]
    rig.send(InstanceExited, old, CRASH)
    rig.send(RetryDue, old)
    rig.send(InstanceStuck, rig.tokens["a"])
    rig.cancel(77)
    assert rig.state.dropped == 4
    assert (rig.status(), rig.handles["a"]) == before
    assert restarts(rig) == 1
