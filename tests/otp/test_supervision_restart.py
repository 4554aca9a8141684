"""Sections A to E of the conformance scenarios, as far as decisions go: starting, restart types, intensity, strategies, restarting."""

import pytest

from agentrail.errors import AlreadyPresent, ChildRestarting, ChildStuck as ChildStuckRefusal, InvalidSpec
from agentrail.otp.child_specs import Arguments, Backoff
from agentrail.otp.exits import Crashed, InitFailed, Normal, Shutdown, Stuck
from agentrail.otp.supervision_types import (
    ByHandle,
    ById,
    DeleteChildCall,
    GetChildSpecCall,
    InstanceExited,
    InstanceStuck,
    Report,
    RestartChildCall,
    RetryDue,
    StartChildCall,
    Started,
    StartInstanceCall,
    TerminateChildCall,
)
from tests.otp.supervision_rig import BROKEN, CRASH, WAITS, Rig, W, subtree

ABC = [W("a"), W("b"), W("c")]
ABCD = [*ABC, W("d")]


def looping(**options):
    """Return a supervisor whose child b crashed and does not start again; its intensity has no end."""
    rig = Rig(specs=ABC, starts={"b": ["up", "hang"]}, **{"intensity": 1_000_000, **options})
    rig.crash("b")
    return rig


def restarts(rig):
    return len(rig.state.restarts)


# --- C. intensity


@pytest.mark.at(150)
def test_a_child_that_exceeds_its_own_budget_is_given_up_alone():
    """One report `shutdown` names it, it is gone from the books, and the supervisor and the others go on."""
    rig = Rig("dynamic", [W("template")], intensity_per="child")
    for name in "ab":
        rig.call(StartChildCall(W(name)))
    rig.crash("a", 0)
    rig.crash("a", 5.0)
    assert (rig.ended, rig.state.phase) == (None, "running")
    assert ("shutdown", "a") in rig.kinds("child_terminated")
    assert list(rig.children) == ["b"]
    rig.crash("b", 6)
    assert rig.children["b"].incarnation == 2


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
def test_group_waits_when_it_is_down():
    """With a back-off the others are stopped first, then comes the wait, then the starts; a stop acts at once."""
    rig = Rig("one_for_all", ABC, backoff=Backoff(jitter=0), intensity=5)
    rig.events()
    rig.crash("b")
    assert rig.events() == ["stop c", "down c", "stop a", "down a"]
    assert rig.status() == [("a", "stopped"), ("b", "restarting"), ("c", "stopped")]
    rig.retry()
    assert rig.running() == ["a", "b", "c"]
    rig.crash("a")
    rig.stop()
    assert (rig.ended.reason, rig.retries) == (Shutdown(), {})


# --- D. strategies


@pytest.mark.scenario("S-062")
@pytest.mark.parametrize("way", ["retried", "a crash before it"])
def test_rest_restart_that_fails_goes_on_from_there(way):
    """Those before the one that failed are kept, those behind it stopped; a crash of one before it takes it along."""
    rig = Rig("rest_for_one", ABCD, starts={"c": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    assert rig.status() == [("a", "running"), ("b", "running"), ("c", "restarting"), ("d", "stopped")]
    rig.events()
    if way == "retried":
        rig.retry()
        assert rig.events("start", "stop") == ["start c", "start d"]
    else:
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
@pytest.mark.parametrize("way", ["given up", "retried"])
def test_group_that_waits_for_its_retry(way):
    """`terminate_child` of the trigger gives it up, as in OTP; a retry first stops who was started meanwhile."""
    rig = Rig("one_for_all", ABC, starts={"b": ["up", "fail", "up"]}, intensity=5)
    rig.crash("b")
    if way == "given up":
        assert rig.call(TerminateChildCall(ById("b"))) is None
        assert (rig.running(), rig.retries) == ([], {})
        assert isinstance(rig.call(RestartChildCall("a")), Started)
    else:
        rig.call(RestartChildCall("c"))
        rig.events()
        rig.retry()
        assert rig.events("start", "stop") == ["stop c", "start a", "start b", "start c"]


@pytest.mark.scenario("S-064")
@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
@pytest.mark.parametrize("is_asked", [False, True])
def test_nothing_of_a_group_starts_before_all_of_it_has_ended(strategy, is_asked):
    """A child that takes its time holds up every start; one whose stop somebody had asked for is not asked twice."""
    rig = Rig(strategy, ABC)
    rig.stops["c"] = WAITS
    asked = rig.ask(TerminateChildCall(ById("c"))) if is_asked else None
    first = rig.events("stop") if is_asked else []
    rig.events()
    rig.crash("a" if strategy == "one_for_all" else "b")
    assert first + rig.events("start", "stop", "down") == ["stop c"]
    rig.go_down("c")
    assert asked is None or rig.answer(asked) is None
    assert rig.running() == ["a", "b", "c"]


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


@pytest.mark.scenario("S-008", "S-068")
def test_dynamic_child_whose_restart_is_ignored_is_gone():
    """A static one keeps its spec, without a retry, and an initial one holds nobody up; none of them is an error."""
    dynamic = Rig("dynamic", [W("t")], starts={"t": ["up", "ignore"]})
    dynamic.call(StartInstanceCall())
    static = Rig(specs=[W("t")], starts={"t": ["up", "ignore"]})
    for rig, left in ((dynamic, (0, 0, 0, 0)), (static, (1, 0, 0, 1))):
        rig.crash("t")
        assert rig.counts() == left
        rig.stop()
        assert rig.kinds() == [("child_terminated", "t")]
    rig = Rig(specs=ABC, starts={"b": ["ignore"]})
    assert rig.status() == [("a", "running"), ("b", "stopped"), ("c", "running")]


# --- E. restarting


@pytest.mark.scenario("S-050", "S-071", "S-072", "S-073", "S-074", "S-075")
@pytest.mark.parametrize("waits", [False, True])
def test_calls_about_a_restarting_child(waits):
    """During an attempt, and between two: it is not active, and `terminate_child` alone is no refusal; it ends the loop."""
    rig = looping()
    if waits:
        rig.fail("b")
    for call, refusal in (
        (RestartChildCall("b"), ChildRestarting),
        (DeleteChildCall("b"), ChildRestarting),
        (StartChildCall(W("b")), AlreadyPresent),
    ):
        assert isinstance(rig.call(call), refusal)
    assert rig.counts() == (3, 2, 0, 3)
    assert (rig.children["b"].status, rig.children["b"].handle) == ("restarting", None)
    rig.events()
    assert rig.call(TerminateChildCall(ById("b"))) is None
    assert dict(rig.status())["b"] == "stopped"
    assert (rig.events("start"), rig.retries) == ([], {})
    assert rig.call(DeleteChildCall("b")) is None


@pytest.mark.scenario("S-076")
@pytest.mark.parametrize("waits", [False, True])
def test_stop_cancels_the_attempt_under_way(waits):
    """And waits for no other; a retry that comes due while the stop has not come to its child yet starts nothing."""
    rig = looping()
    if waits:
        rig.fail("b")
        rig.stops["c"] = WAITS
    rig.events()
    rig.stop()
    if waits:
        rig.retry()
        rig.go_down("c")
    assert rig.events("start", "cancel") == ([] if waits else ["cancel b"])
    assert (rig.ended.reason, rig.retries) == (Shutdown(), {})


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


@pytest.mark.parametrize("is_given_up", [False, True])
def test_group_waits_for_what_is_stuck(is_given_up):
    """In `restarting`, without counting the wait, until the stuck one has really ended; or the trigger is terminated."""
    rig = Rig("one_for_all", ABC)
    rig.stops["c"] = InstanceStuck
    rig.crash("b")
    assert rig.status() == [("a", "stopped"), ("b", "restarting"), ("c", "stuck")]
    assert rig.kinds() == [("child_terminated", "b"), ("stuck", "c")]
    if is_given_up:
        assert isinstance(rig.call(RestartChildCall("b")), ChildRestarting)
        rig.call(TerminateChildCall(ById("b")))
    rig.now = 1000.0
    rig.exit("c", reason=Stuck(999.0))
    assert (rig.running(), restarts(rig)) == ([] if is_given_up else ["a", "b", "c"], 1)
    assert rig.kinds()[-1] == ("late_end", "c")


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


KINDS = ["permanent", "transient", "temporary"]


@pytest.mark.scenario("S-004", "S-012")
def test_starts_that_fail():
    """The reason of a subtree says which child of which child it was; bad specs are refused before anything starts."""
    rig = Rig(
        specs=[W("top", kind="supervisor")],
        starts={"top": [subtree("one_for_one", [W("x")], starts={"x": ["fail"]})]},
    )
    below = InitFailed("child", cause=BROKEN, child_id="x")
    assert rig.ended.reason == InitFailed("child", cause=below, child_id="top")
    log = []
    with pytest.raises(InvalidSpec):
        Rig(specs=[W("a"), W("a")], log=log)
    assert log == []


# --- B. restart types


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
def test_arguments_of_a_temporary_child_are_not_kept():
    """Once it is up nothing in the state refers to them; `get_child_spec` gives all defaults, and no arguments of it."""
    secret = Crashed("secret", "secret")
    static = Rig(specs=[W("a", secret, restart="temporary")])
    dynamic = Rig("dynamic", [W("t", restart="temporary")])
    dynamic.ask(StartInstanceCall(Arguments(("i", secret))))
    assert "secret" not in repr(static.state)
    assert "secret" not in repr(dynamic.state)
    rig = Rig(specs=[W("a", 1), W("b", 2, restart="temporary")], starts={"b": ["hang"]})
    a, b = (rig.call(GetChildSpecCall(ById(name))) for name in "ab")
    assert a.start.arguments.positional == (1,)
    assert b.start.arguments.positional == ()
    assert (a.shutdown_seconds, a.kind, a.start_timeout_seconds) == (5.0, "worker", 30.0)
