"""Sections G and H of the conformance scenarios, as far as decisions go: stopping, and automatic shutdown."""

import itertools

import pytest

from agentrail.errors import SupervisorStopping
from agentrail.otp.child_specs import Arguments
from agentrail.otp.exits import Killed, Normal, Shutdown
from agentrail.otp.supervision_types import (
    ById,
    CancelStart,
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
    return [(rig.names[effect.token], effect.how) for effect in rig.effects if isinstance(effect, StopChild)]


def instances(rig, *names):
    return [rig.call(StartInstanceCall(Arguments((name,)))).handle for name in names]


# --- G. stopping


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
    rig.send(InstanceExited, rig.tokens["last"], Normal())  # in place of the answer to its stop
    assert (rig.events("start", "stop"), rig.ended.reason) == ([], Shutdown())
    errors = {place for kind, place in rig.kinds() if kind == "shutdown_error"}
    assert errors == {
        *(
            place
            for place, (restart, reason) in enumerate(ends)
            if reason == CRASH or (restart == "permanent" and reason != Shutdown())
        ),
        "last",
    }
    assert len(rig.kinds()) == len(errors)
    rig.go_down("last")
    assert rig.state.dropped == 1


@pytest.mark.parametrize("end", [Rig.fail, Rig.come_up])
def test_a_start_that_ends_while_its_supervisor_stops_is_answered_with_that(end):
    """A child that comes up all the same is stopped in its turn."""
    rig = Rig(starts={"x": ["hang"]}, stops={"y": WAITS})
    started = rig.ask(StartChildCall(W("x")))
    rig.call(StartChildCall(W("y")))
    rig.stop()
    end(rig, "x")
    assert isinstance(rig.answer(started), SupervisorStopping)
    rig.go_down("y")
    assert rig.ended.reason == Shutdown()
    assert ("stop x" in rig.events("stop")) == (end is Rig.come_up)


@pytest.mark.scenario("S-109")
def test_second_and_cancelled_stops():
    """Each child is asked once, the first reason counts, and a caller that goes does not end the stop."""
    rig = Rig(specs=ABC)
    rig.stops["b"] = WAITS
    cancelled, one, two = rig.ask(StopCall()), rig.ask(StopCall(Shutdown("later"))), rig.ask(StopCall())
    rig.stop(Shutdown("later still"))
    rig.cancel(cancelled)
    rig.go_down("b")
    assert rig.answer(one) == rig.answer(two)
    assert (rig.answer(cancelled), rig.ended.reason) == (WAITS, Shutdown())
    assert (rig.answer(one).reason, rig.answer(one).ended, len(hows(rig))) == (Shutdown(), 3, 3)


@pytest.mark.scenario("S-110", "S-113")
def test_kill_takes_all_at_once():
    """Nobody is asked, starts are cancelled without grace, and the reason is `Killed`; also during a group restart."""
    rig = Rig(specs=[*ABC], starts={"x": ["hang"], "a": [subtree("one_for_one", [W("a1")])]})
    rig.ask(StartChildCall(W("x")))
    rig.events()
    rig.stop(Killed())
    assert rig.events("kill", "cancel") == ["cancel x", "kill c", "kill b", "kill a", "kill a1"]
    assert rig.ended.reason == Killed()
    assert CancelStart(rig.tokens["x"], "brutal_kill") in rig.effects
    assert rig.kinds() == []

    rig = Rig("one_for_all", ABC, starts={"c": ["up", "hang"]}, intensity=9)
    rig.crash("b")
    rig.crash("a")
    rig.stop(Killed())
    assert (rig.ended.reason, rig.counts()[1]) == (Killed(), 0)

    rig = Rig(specs=ABC, starts={"c": ["hang"]})  # from inside, also from an init: it is no changing call
    for name in ("b", "c"):
        rig.ask(StopCall(), path=[rig.tokens[name]])
    assert rig.ended.reason == Shutdown()


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


# --- H. automatic shutdown


def significant(name, restart="transient"):
    return W(name, restart=restart, significant=True)


@pytest.mark.scenario("S-123")
@pytest.mark.parametrize("start", ["hang", "fail"])
def test_all_significant_and_a_child_that_restarts(start):
    """Who was terminated does not run, but ends nothing; who is restarting, or waits for a retry, runs."""
    rig = Rig(
        specs=[significant(name) for name in "abc"],
        auto_shutdown="all_significant",
        starts={"c": ["up", start, "up"]},
        intensity=5,
    )
    rig.call(TerminateChildCall(ById("a")))
    rig.crash("c")
    rig.exit("b", reason=Normal())
    assert rig.ended is None
    if start == "hang":
        rig.come_up("c")
    else:
        rig.retry()
    rig.exit("c", reason=Normal())
    assert rig.ended.reason == DOWN


@pytest.mark.scenario("S-118", "S-124")
@pytest.mark.parametrize("auto_shutdown", ["never", "any_significant", "all_significant"])
@pytest.mark.parametrize(("restart", "reason"), [*itertools.product(KINDS, [Normal(), Shutdown("x"), CRASH])])
def test_ends_that_shut_nothing_down(auto_shutdown, restart, reason):
    """However a child that is not significant ends, the supervisor lives; and so it does when a transient one crashes."""
    rig = Rig(specs=[W("a", restart=restart)], auto_shutdown=auto_shutdown)
    rig.exit("a", reason=reason)
    assert rig.ended is None
    if auto_shutdown != "never":
        rig = Rig(specs=[significant("b")], auto_shutdown=auto_shutdown)
        rig.crash("b")
        assert (rig.ended, rig.running()) == (None, ["b"])


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
