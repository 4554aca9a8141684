"""Sections A and B of the conformance scenarios, as far as decisions go: starting, and the restart types."""

import gc
import weakref

import pytest

from agentrail.errors import InvalidSpec
from agentrail.otp.child_specs import Arguments, SupervisorFlags
from agentrail.otp.exits import Crashed, InitFailed, Normal, Shutdown
from agentrail.otp.supervision import begin_supervisor
from agentrail.otp.supervision_types import (
    ById,
    GetChildSpecCall,
    InstanceStarted,
    Report,
    RestartChildCall,
    StartChildCall,
    Started,
    StartInstanceCall,
)
from tests.otp.supervision_rig import BROKEN, CRASH, Rig, W, serve, subtree

ABC = [W("a"), W("b"), W("c")]
KINDS = ["permanent", "transient", "temporary"]


@pytest.mark.scenario("S-001")
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_supervisor_without_children_is_up_at_once(strategy):
    """Without children it is up when `begin_supervisor` returns, and counts nothing."""
    rig = Rig(strategy)
    assert rig.state.phase == "running"
    assert rig.counts() == (0, 0, 0, 0)


@pytest.mark.scenario("S-002")
def test_children_start_one_after_the_other():
    """The start of b is asked for only after a has reported started."""
    rig = Rig(specs=ABC, starts={"a": ["hang"]})
    assert rig.events() == ["start a"]
    rig.come_up("a")
    assert rig.events() == ["up a", "start b", "up b", "start c", "up c"]


@pytest.mark.scenario("S-003")
def test_start_takes_as_long_as_its_children_take():
    """It is not up before the last child is."""
    rig = Rig(specs=[W("a")], starts={"a": ["hang"]})
    assert rig.state.phase == "starting"
    rig.now = 2.0
    rig.come_up("a")
    assert (rig.state.phase, rig.running()) == ("running", ["a"])


@pytest.mark.scenario("S-004")
def test_failed_start_takes_the_others_down_and_names_the_culprit():
    """Those before the culprit are stopped, those behind it never started; one report, and the reason is nested."""
    rig = Rig(specs=ABC, starts={"b": ["fail"]})
    assert rig.events("start", "stop") == ["start a", "start b", "stop a"]
    assert rig.ended.reason == InitFailed("child", cause=BROKEN, child_id="b")
    assert rig.kinds() == [("start_error", "b")]
    assert rig.counts()[1] == 0


@pytest.mark.scenario("S-005")
def test_rollback_is_in_reverse_and_one_at_a_time():
    """Each is gone before the one before it is asked."""
    rig = Rig(specs=[*ABC, W("d")], starts={"d": ["fail"]})
    assert rig.events("stop", "down") == ["stop c", "down c", "stop b", "down b", "stop a", "down a"]


@pytest.mark.scenario("S-004")
def test_culprit_is_named_through_the_tree():
    """The reason of a subtree that did not start says which child of which child it was."""
    rig = Rig(
        specs=[W("top", kind="supervisor")],
        starts={"top": [subtree("one_for_one", [W("x")], starts={"x": ["fail"]})]},
    )
    below = InitFailed("child", cause=BROKEN, child_id="x")
    assert rig.ended.reason == InitFailed("child", cause=below, child_id="top")


@pytest.mark.scenario("S-006")
@pytest.mark.scenario("S-008")
def test_ignored_start_keeps_a_permanent_spec():
    """`start_child` answers without a handle; the spec stays, stopped, and nothing is reported."""
    rig = Rig(starts={"a": ["ignore"]})
    assert rig.call(StartChildCall(W("a"))) == Started(None, None)
    assert rig.status() == [("a", "stopped")]
    assert rig.counts() == (1, 0, 0, 1)
    assert rig.children["a"].handle is None
    assert rig.reports == []


@pytest.mark.scenario("S-009")
def test_ignored_start_drops_a_temporary_spec():
    """Neither among the initial children nor by `start_child` is anything kept of it."""
    rig = Rig(specs=[W("a", restart="temporary")], starts={"a": ["ignore"], "b": ["ignore"]})
    assert rig.call(StartChildCall(W("b", restart="temporary"))) == Started(None, None)
    assert rig.counts() == (0, 0, 0, 0)


@pytest.mark.scenario("S-010")
@pytest.mark.parametrize("restart", KINDS)
def test_ignored_instance_is_not_kept(restart):
    """A dynamic supervisor keeps nothing of it, and stops without an error."""
    rig = Rig("dynamic", [W("t", restart=restart)], starts={"t": ["ignore"]})
    assert rig.call(StartInstanceCall()) == Started(None, None)
    assert rig.counts() == (0, 0, 0, 0)
    rig.stop()
    assert (rig.ended.reason, rig.reports) == (Shutdown(), [])


@pytest.mark.scenario("S-008")
def test_ignored_initial_child_does_not_hold_up_the_others():
    """Its spec stays without a process, and the next one starts."""
    rig = Rig(specs=ABC, starts={"b": ["ignore"]})
    assert rig.status() == [("a", "running"), ("b", "stopped"), ("c", "running")]


@pytest.mark.scenario("S-011")
def test_info_goes_to_the_caller_and_stays_with_nobody():
    """The very object is in the answer, and the state does not refer to it."""

    class Info:
        pass

    rig = Rig(starts={"a": ["hang"]})
    request = rig.ask(StartChildCall(W("a")))
    info = Info()
    rig.send(InstanceStarted, rig.tokens["a"], "handle", info)
    assert rig.answer(request).info is info
    there = weakref.ref(info)
    del info
    rig.answers.clear()
    rig.effects.clear()
    gc.collect()
    assert there() is None


@pytest.mark.scenario("S-012")
@pytest.mark.scenario("S-013")
@pytest.mark.scenario("S-015")
@pytest.mark.scenario("S-017")
@pytest.mark.scenario("S-020")
@pytest.mark.parametrize(
    ("strategy", "specs", "code"),
    [
        ("one_for_one", [W("a"), W("a")], "duplicate_id"),
        ("one_for_one", [{"start": serve}], "missing_id"),
        ("one_for_one", [W("a"), {"id": "b", "start": serve, "kind": "woker"}], "invalid_kind"),
        ("one_for_one", [W("a", significant=True)], "bad_significant"),
        ("dynamic", [], "one_template"),
        ("dynamic", [W("a"), W("b")], "one_template"),
    ],
)
def test_bad_specs_start_nothing(strategy, specs, code):
    """`begin_supervisor` checks everything before it returns an effect."""
    with pytest.raises(InvalidSpec) as caught:
        begin_supervisor("top", SupervisorFlags(strategy), specs, at_seconds=0.0)
    assert caught.value.code == code


@pytest.mark.scenario("S-015")
@pytest.mark.scenario("S-018")
@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"id": "x", "start": serve, "restart": "always"}, "invalid_restart"),
        ({"id": "x", "start": serve, "shutdown_seconds": -1}, "invalid_shutdown"),
        ({"id": "x", "start": 5}, "invalid_start"),
        (W("x", restart="transient", significant=True), "bad_significant"),
        ({"idd": "x", "start": serve}, "unknown_field"),
        (None, "invalid_spec"),
    ],
)
def test_start_child_refuses_a_bad_spec(spec, code):
    """The caller gets the same refusal as at opening, without a traceback, and nothing changes."""
    rig = Rig(specs=[W("a")])
    refusal = rig.call(StartChildCall(spec))
    assert isinstance(refusal, InvalidSpec)
    assert (refusal.code, refusal.__traceback__) == (code, None)
    assert rig.status() == [("a", "running")]


# --- B. restart types


@pytest.mark.scenario("S-022")
@pytest.mark.scenario("S-023")
@pytest.mark.scenario("S-024")
@pytest.mark.parametrize("reason", [Normal(), Shutdown("x"), CRASH])
def test_permanent_child_is_restarted_after_any_end(reason):
    """With a new handle and the next incarnation; the counts stay."""
    rig = Rig(specs=[W("a")])
    before, counts = rig.children["a"], rig.counts()
    rig.exit("a", reason=reason)
    after = rig.children["a"]
    assert after.handle not in (None, before.handle)
    assert (before.incarnation, after.incarnation) == (1, 2)
    assert rig.counts() == counts


@pytest.mark.scenario("S-025")
@pytest.mark.scenario("S-026")
@pytest.mark.scenario("S-027")
@pytest.mark.parametrize("reason", [Normal(), Shutdown(), Shutdown("budget exhausted")])
def test_transient_child_stays_down_after_a_clean_end(reason):
    """Its spec stays without a process, and `restart_child` starts it again."""
    rig = Rig(specs=[W("a", restart="transient")])
    rig.exit("a", reason=reason)
    assert (rig.status(), rig.counts()) == ([("a", "stopped")], (1, 0, 0, 1))
    assert rig.call(RestartChildCall("a")) == Started(rig.handles["a"], "info of a")
    assert rig.children["a"].incarnation == 2


@pytest.mark.scenario("S-029")
@pytest.mark.scenario("S-030")
@pytest.mark.scenario("S-031")
@pytest.mark.parametrize("reason", [Normal(), Shutdown("x"), CRASH])
def test_temporary_child_is_gone_after_any_end(reason):
    """It is not listed any more, and its id is free at once."""
    rig = Rig(specs=[W("a", restart="temporary")])
    rig.exit("a", reason=reason)
    assert rig.status() == []
    assert isinstance(rig.call(StartChildCall(W("a"))), Started)


@pytest.mark.scenario("S-032")
@pytest.mark.parametrize("restart", ["transient", "temporary"])
@pytest.mark.parametrize("reason", [Normal(), Shutdown(), Shutdown("x")])
def test_clean_ends_are_not_reported(restart, reason):
    """The clean end of a transient or temporary child is no error."""
    rig = Rig(specs=[W("a", restart=restart)])
    rig.exit("a", reason=reason)
    assert rig.kinds() == []


@pytest.mark.scenario("S-033")
@pytest.mark.parametrize(("restart", "reason"), [*((kind, CRASH) for kind in KINDS), ("permanent", Normal())])
def test_each_other_end_is_reported_once_with_its_reason(restart, reason):
    """One `child_terminated`, which says who it was, which instance, and why."""
    rig = Rig(specs=[W("a", restart=restart)])
    rig.now = 3.0
    rig.exit("a", reason=reason)
    (report,) = [report for report in rig.reports if report.kind != "progress"]
    assert report == Report(
        kind="child_terminated",
        supervisor="top",
        child_id="a",
        incarnation=1,
        child_kind="worker",
        restart=restart,
        reason=reason,
        at_seconds=3.0,
    )


@pytest.mark.scenario("S-034")
def test_restart_gets_the_arguments_as_first_given():
    """What the caller or an instance does to a list that was given changes nothing for the next instance."""
    given = [1]
    rig = Rig()
    rig.ask(StartChildCall(W("a", given)))
    given.append("by the caller")
    used = rig.specs["a"].spec.start.arguments.copied()
    used.positional[0].append("by the child")
    rig.crash("a")
    assert rig.specs["a"].spec.start.arguments.copied().positional == ([1],)


@pytest.mark.scenario("S-034")
def test_arguments_of_a_temporary_child_are_not_kept():
    """Once it is up nothing in the state refers to them, neither to its own nor to those of an instance."""
    secret = Crashed("secret", "secret")
    static = Rig(specs=[W("a", secret, restart="temporary")])
    dynamic = Rig("dynamic", [W("t", restart="temporary")])
    dynamic.ask(StartInstanceCall(Arguments(("i", secret))))
    assert "secret" not in repr(static.state)
    assert "secret" not in repr(dynamic.state)


@pytest.mark.scenario("S-034")
def test_spec_of_a_temporary_child_is_shown_without_arguments():
    """`get_child_spec` gives all defaults, and the arguments of the others only."""
    rig = Rig(specs=[W("a", 1), W("b", 2, restart="temporary")], starts={"b": ["hang"]})
    a, b = (rig.call(GetChildSpecCall(ById(name))) for name in "ab")
    assert a.start.arguments.positional == (1,)
    assert b.start.arguments.positional == ()
    assert (a.shutdown_seconds, a.kind, a.start_timeout_seconds) == (5.0, "worker", 30.0)
