"""Sections G and H of the conformance scenarios, as far as decisions go: stopping, and automatic shutdown."""

import itertools
from collections import deque

import pytest

from agentrail.otp.child_specs import Arguments
from agentrail.otp.exits import Killed, Normal, Shutdown
from agentrail.otp.supervision_types import (
    ById,
    CancelStart,
    EndSupervisor,
    InstanceExited,
    StartChildCall,
    StartInstanceCall,
    StopCall,
    StopChild,
    TerminateChildCall,
)
from tests.otp.supervision_rig import CRASH, WAITS, Rig, W, subtree

ABC = [W("a"), W("b"), W("c")]
KINDS = ["permanent", "transient", "temporary"]
DOWN = Shutdown("auto_shutdown")


def hows(rig):
    """How each child was asked to stop."""
    return [(rig.names[effect.token], effect.how) for effect in rig.effects if isinstance(effect, StopChild)]


def instances(rig, *names):
    """Start instances of the template, under names of their own."""
    return [rig.call(StartInstanceCall(Arguments((name,)))).handle for name in names]


# --- G. stopping


@pytest.mark.scenario("S-099")
@pytest.mark.scenario("S-108")
def test_static_supervisor_stops_in_reverse_one_at_a_time():
    """Each is gone before the one before it is asked, and it is asked by its shutdown time."""
    rig = Rig(specs=[W("a"), W("b", shutdown_seconds=0.2), W("c", shutdown_seconds="infinity")])
    rig.events()
    rig.stop()
    assert rig.events() == ["stop c", "down c", "stop b", "down b", "stop a", "down a"]
    assert hows(rig) == [("c", "infinity"), ("b", 0.2), ("a", 5.0)]
    assert (rig.ended, rig.kinds()) == (EndSupervisor(Shutdown()), [])


@pytest.mark.scenario("S-100")
def test_kill_that_became_necessary_is_an_error():
    """One report, with the real reason."""
    rig = Rig(specs=[W("a")])
    rig.stops["a"] = WAITS
    rig.stop()
    rig.go_down("a", Killed(), forced=True)
    assert [(report.kind, report.reason) for report in rig.reports[1:]] == [("shutdown_error", Killed())]


@pytest.mark.scenario("S-100")
def test_kill_that_was_overtaken_is_an_error_too():
    """It had to be killed, whatever it says."""
    rig = Rig(specs=[W("a")])
    rig.stops["a"] = WAITS
    stop = rig.ask(StopCall())
    rig.go_down("a", Shutdown(), forced=True)
    assert rig.kinds() == [("shutdown_error", "a")]
    assert rig.answer(stop).killed == 1


@pytest.mark.scenario("S-101")
def test_brutal_kill_is_no_error():
    """It was meant."""
    rig = Rig(specs=[W("a", shutdown_seconds="brutal_kill")])
    rig.stop()
    assert (hows(rig), rig.kinds()) == ([("a", "brutal_kill")], [])


@pytest.mark.scenario("S-102")
def test_infinity_waits():
    """The supervisor is not down before its child is."""
    rig = Rig(specs=[W("a", shutdown_seconds="infinity")])
    rig.stops["a"] = WAITS
    stop = rig.ask(StopCall())
    rig.now = 60.0
    assert rig.ended is None
    rig.go_down("a")
    assert (rig.answer(stop).seconds, rig.ended.reason) == (60.0, Shutdown())


@pytest.mark.scenario("S-103")
@pytest.mark.scenario("S-107")
def test_dynamic_supervisor_asks_all_at_once():
    """Those of the template and those with specs of their own, each with its own time."""
    rig = Rig("dynamic", [W("t", shutdown_seconds=7)])
    for seconds in (1, 2, 3):
        rig.call(StartChildCall(W(f"c{seconds}", shutdown_seconds=seconds)))
    rig.call(StartInstanceCall())
    for name in ("c1", "c2", "c3", "t"):
        rig.stops[name] = WAITS
    rig.stop()
    assert sorted(hows(rig)) == [("c1", 1), ("c2", 2), ("c3", 3), ("t", 7)]
    for name in ("c2", "c3", "t"):
        rig.go_down(name)
        assert rig.ended is None
    rig.go_down("c1")
    assert rig.ended.reason == Shutdown()


@pytest.mark.scenario("S-104")
def test_exits_during_the_stop():
    """None is restarted; what is expected of a child that is stopped is silent, the rest is an error each."""
    ends = list(itertools.product(KINDS, [Normal(), Shutdown(), Shutdown("x"), CRASH]))
    rig = Rig(specs=[*(W(place, restart=restart) for place, (restart, _) in enumerate(ends)), W("last")])
    rig.stops["last"] = WAITS
    rig.stop()
    rig.events()
    for place, (_, reason) in enumerate(ends):
        rig.exit(place, reason=reason)
    rig.go_down("last")
    assert (rig.events("start", "stop"), rig.ended.reason) == ([], Shutdown())
    errors = {place for kind, place in rig.kinds() if kind == "shutdown_error"}
    assert errors == {
        place
        for place, (restart, reason) in enumerate(ends)
        if reason == CRASH or (restart == "permanent" and reason != Shutdown())
    }
    assert len(rig.kinds()) == len(errors)


@pytest.mark.scenario("S-104")
def test_exit_that_comes_instead_of_the_answer_to_a_stop():
    """A child that had ended when it was asked is down; a second word from it is dropped."""
    rig = Rig(specs=[W("a")])
    rig.stops["a"] = WAITS
    rig.stop()
    rig.send(InstanceExited, rig.tokens["a"], Normal())
    assert rig.ended.reason == Shutdown()
    rig.go_down("a")
    assert rig.state.dropped == 1


@pytest.mark.scenario("S-108")
def test_nested_stop_is_depth_first():
    """A subtree is completely gone before its next sibling is asked."""
    trees = {name: [subtree("one_for_one", [W(f"{name}1"), W(f"{name}2")])] for name in "xy"}
    rig = Rig(specs=[W("x", kind="supervisor"), W("y", kind="supervisor")], starts=trees)
    rig.events()
    rig.stop()
    assert rig.events("stop", "down") == [
        *("stop y", "stop y2", "down y2", "stop y1", "down y1", "down y"),
        *("stop x", "stop x2", "down x2", "stop x1", "down x1", "down x"),
    ]


@pytest.mark.scenario("S-109")
def test_stop_is_idempotent():
    """Two callers get the same summary, each child was asked once, and the first reason counts."""
    rig = Rig(specs=ABC)
    rig.stops["b"] = WAITS
    one, two = rig.ask(StopCall()), rig.ask(StopCall(Shutdown("later")))
    rig.stop(Shutdown("later still"))
    rig.go_down("b")
    assert rig.answer(one) == rig.answer(two)
    assert rig.answer(one).reason == Shutdown()
    assert rig.answer(one).ended == 3
    assert len(hows(rig)) == 3


@pytest.mark.scenario("S-109")
def test_cancelled_stop_goes_on():
    """Nobody is told, and the supervisor ends."""
    rig = Rig(specs=ABC)
    rig.stops["b"] = WAITS
    request = rig.ask(StopCall())
    rig.cancel(request)
    rig.go_down("b")
    assert (rig.answer(request), rig.ended.reason) == (WAITS, Shutdown())


@pytest.mark.scenario("S-110")
def test_stop_from_inside_a_child():
    """It is no changing call: also from an init it begins the stop."""
    rig = Rig(specs=ABC, starts={"c": ["hang"]})
    for name in ("b", "c"):
        rig.ask(StopCall(), path=[rig.tokens[name]])
    assert rig.ended.reason == Shutdown()


@pytest.mark.scenario("S-111")
def test_crash_in_clean_up_disturbs_nothing():
    """It is reported, a is stopped after b, and the supervisor ends with its own reason."""
    rig = Rig(specs=ABC)
    rig.stops["b"] = CRASH
    rig.events()
    rig.stop()
    assert rig.events("stop") == ["stop c", "stop b", "stop a"]
    assert (rig.ended.reason, rig.kinds()) == (Shutdown(), [("shutdown_error", "b")])


@pytest.mark.scenario("S-113")
def test_kill_takes_all_at_once():
    """Nobody is asked, starts are cancelled without grace, and the reason is `Killed`."""
    rig = Rig(specs=[*ABC], starts={"x": ["hang"], "a": [subtree("one_for_one", [W("a1")])]})
    rig.ask(StartChildCall(W("x")))
    rig.events()
    rig.stop(Killed())
    assert rig.events("kill", "cancel") == ["cancel x", "kill c", "kill b", "kill a", "kill a1"]
    assert rig.ended.reason == Killed()
    assert CancelStart(rig.tokens["x"], "brutal_kill") in rig.effects
    assert rig.kinds() == []


@pytest.mark.scenario("S-113")
@pytest.mark.parametrize("strategy", ["one_for_all", "dynamic"])
def test_kill_overtakes_a_stop(strategy):
    """All that is left is killed at once, what is stopping and what was not asked yet; once."""
    rig = Rig(strategy, ABC[:1] if strategy == "dynamic" else ABC)
    names = "abc" if strategy == "one_for_all" else "xyz"
    if strategy == "dynamic":
        instances(rig, *names)
    for name in names:
        rig.stops[name] = WAITS
    rig.stop()
    rig.events()
    rig.stop(Killed())
    rig.stop(Killed())
    rig.stop(Shutdown())
    assert sorted(rig.events()) == [f"kill {name}" for name in names]
    for name in names:
        rig.go_down(name, Killed())
    assert (rig.ended.reason, rig.ended.stuck) == (Killed(), 0)
    # What had been asked before is an error: the kill became necessary.
    errors = sum(report.count for report in rig.reports if report.kind == "shutdown_error")
    assert errors == (3 if strategy == "dynamic" else 1)


@pytest.mark.scenario("S-113")
def test_kill_during_a_group_restart_takes_what_waits_for_judgement():
    """A child that had crashed meanwhile is not asked, and nothing is waited for that is not there."""
    rig = Rig("one_for_all", ABC, starts={"c": ["up", "hang"]}, intensity=9)
    rig.crash("b")
    rig.crash("a")
    rig.stop(Killed())
    assert (rig.ended.reason, rig.counts()[1]) == (Killed(), 0)


def test_exit_during_the_initial_start_is_judged_after_it():
    """As in OTP; if the start fails it is an error of the stop."""
    for end, kinds in (
        (Rig.come_up, [("child_terminated", "a")]),
        (Rig.fail, [("start_error", "b"), ("shutdown_error", "a")]),
    ):
        rig = Rig(specs=[W("a"), W("b")], starts={"b": ["hang"]})
        rig.crash("a", at=1.0)
        assert rig.status() == [("a", "restarting"), ("b", "starting")]
        rig.now = 2.0
        end(rig, "b")
        assert rig.kinds() == kinds
        assert {report.at_seconds for report in rig.reports if report.child_id == "a"} >= {1.0}
        assert rig.running() == (["a", "b"] if rig.ended is None else [])


# --- stuck


# --- equal errors


# --- H. automatic shutdown


def significant(name, restart="transient"):
    """Return the spec of a significant child."""
    return W(name, restart=restart, significant=True)


@pytest.mark.scenario("S-118")
def test_any_significant_clean_end():
    """The rest is stopped in reverse, and the supervisor ends with `Shutdown("auto_shutdown")`."""
    rig = Rig(specs=[W("a"), significant("b"), W("c")], auto_shutdown="any_significant")
    rig.events()
    rig.exit("b", reason=Normal())
    assert rig.events("start", "stop") == ["stop c", "stop a"]
    assert rig.ended.reason == DOWN


@pytest.mark.scenario("S-118")
def test_any_significant_crash_of_a_transient_child():
    """It is restarted, and the supervisor lives."""
    rig = Rig(specs=[significant("b")], auto_shutdown="any_significant")
    rig.crash("b")
    assert (rig.ended, rig.running()) == (None, ["b"])


@pytest.mark.scenario("S-120")
def test_any_significant_crash_of_a_temporary_child():
    """It is not restarted, so it ends the supervisor."""
    rig = Rig(specs=[significant("b", "temporary")], auto_shutdown="any_significant")
    rig.crash("b")
    assert rig.ended.reason == DOWN


@pytest.mark.scenario("S-121")
@pytest.mark.scenario("S-122")
def test_all_significant():
    """The supervisor ends with the last of them, and not before."""
    rig = Rig(specs=[significant("a"), significant("b"), W("c")], auto_shutdown="all_significant")
    rig.exit("a", reason=Normal())
    assert rig.ended is None
    rig.exit("b", reason=Shutdown("done"))
    assert rig.ended.reason == DOWN


@pytest.mark.scenario("S-123")
def test_all_significant_and_terminate():
    """Who was terminated does not run, but ends nothing; who is restarting runs."""
    rig = Rig(
        specs=[significant(name) for name in "abc"],
        auto_shutdown="all_significant",
        starts={"c": ["up", "hang"]},
    )
    rig.call(TerminateChildCall(ById("a")))
    rig.crash("c")
    rig.exit("b", reason=Normal())
    assert rig.ended is None
    rig.come_up("c")
    rig.exit("c", reason=Normal())
    assert rig.ended.reason == DOWN


@pytest.mark.scenario("S-123")
def test_all_significant_and_a_child_that_waits_for_its_retry():
    """It is restarting, so it counts as running."""
    specs = [significant("b"), significant("c")]
    rig = Rig(specs=specs, auto_shutdown="all_significant", starts={"c": ["up", "fail", "up"]}, intensity=5)
    rig.crash("c")
    rig.exit("b", reason=Normal())
    assert rig.ended is None
    rig.retry()
    rig.exit("c", reason=Normal())
    assert rig.ended.reason == DOWN


@pytest.mark.scenario("S-124")
@pytest.mark.parametrize("auto_shutdown", ["never", "any_significant", "all_significant"])
@pytest.mark.parametrize(("restart", "reason"), [*itertools.product(KINDS, [Normal(), Shutdown("x"), CRASH])])
def test_child_that_is_not_significant(auto_shutdown, restart, reason):
    """However it ends, the supervisor lives."""
    rig = Rig(specs=[W("a", restart=restart)], auto_shutdown=auto_shutdown)
    rig.exit("a", reason=reason)
    assert rig.ended is None


@pytest.mark.scenario("S-125")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("auto_shutdown", ["any_significant", "all_significant"])
@pytest.mark.parametrize("ends_first", [False, True])
def test_bystander(strategy, auto_shutdown, ends_first):
    """A significant child that its group's restart stops, or finds ended, is started again and ends nothing."""
    rig = Rig(strategy, [W("a"), significant("b"), W("c")], auto_shutdown=auto_shutdown)
    if ends_first:
        rig.put(InstanceExited, rig.tokens["a"], CRASH)
        rig.put(InstanceExited, rig.tokens["b"], Normal())
        rig.run()
    else:
        rig.crash("a")
    assert (rig.ended, rig.running()) == (None, ["a", "b", "c"])


@pytest.mark.scenario("S-127")
def test_subtree_that_shuts_itself_down_counts_at_its_parent():
    """A permanent one is restarted each time, and the budget of the parent ends it."""

    def start():
        return subtree("one_for_one", [significant("x")], auto_shutdown="any_significant")

    rig = Rig(
        specs=[W("sub", kind="supervisor")], starts={"sub": deque([start(), start(), start()])}, intensity=2
    )
    for _ in range(2):
        rig.stops["sub"].exit("x", reason=Normal())
        assert rig.running() == ["sub"]
    rig.stops["sub"].exit("x", reason=Normal())
    assert rig.ended.reason == Shutdown("max_restart_intensity")


@pytest.mark.scenario("S-128")
def test_all_significant_instances():
    """A dynamic supervisor ends with the last of its children."""
    rig = Rig("dynamic", [significant("t", "temporary")], auto_shutdown="all_significant")
    instances(rig, "one", "two")
    rig.crash("one")
    assert rig.ended is None
    rig.exit("two", reason=Normal())
    assert rig.ended.reason == DOWN
