"""Section J of the conformance scenarios, on the engine: state entry and timers."""

import math

import pytest

from agentrail.otp.exits import Crashed, Shutdown
from agentrail.otp.statem import (
    STATE_TIMER,
    ArmTimer,
    CancelTimer,
    Cast,
    DisarmTimer,
    EventTimeout,
    Hibernate,
    Init,
    Internal,
    Keep,
    NamedTimeout,
    NextEvent,
    NextState,
    Perform,
    PerformEffect,
    Postpone,
    Repeat,
    Reply,
    SendReply,
    StateTimeout,
    Stop,
    StopAndReply,
    Terminate,
    UpdateTimer,
    start_statem,
    step_statem,
)
from tests.otp.rig import Rig, Table, goto, obey, of_kind, postpone, said

# --- enter


@pytest.mark.scenario("S-148")
def test_enter_comes_before_every_event_of_the_new_state():
    """It gets the old and the new state, at the start both the first; what is inserted and replayed comes after it."""

    def leave(event):
        if said(event) == "p":
            return Keep(actions=[Postpone()])
        return NextState("s2", actions=[NextEvent(Internal("i"))])

    def arrive(event):
        return Keep(actions=[NextEvent(Internal("j"))] if said(event) == "i" else [])

    rig = Rig(Table({"s1": leave, "s2": arrive}, enter=Keep()))
    assert rig.log == [("enter", "s1", "s1")]
    rig.cast("p", "go")
    assert rig.log[3:] == [("enter", "s1", "s2"), ("s2", "i"), ("s2", "j"), ("s2", "p")]


@pytest.mark.scenario("S-149")
def test_repeat_enters_the_same_state_and_replays_nothing():
    """`Repeat` calls `enter` with old equal to current, again while that repeats; without `state_enter` it is as `Keep`."""
    rig = Rig(
        Table(
            {"s1": lambda event: Repeat() if said(event) == "again" else Keep(actions=[Postpone()])},
            enter=Keep(),
        )
    )
    rig.cast("p", "again")
    assert rig.log[1:] == [("s1", "p"), ("s1", "again"), ("enter", "s1", "s1")]
    assert rig.engine.postponed == (Cast("p"),)
    rig = Rig(
        Table({"s1": NextState("s2", 1)}, enter=lambda _, data: Repeat(data + 1) if 0 < data < 3 else Keep()),
        Init("s1", 0),
    )
    rig.cast("go")
    assert rig.log[2:] == [("enter", "s1", "s2"), ("enter", "s2", "s2"), ("enter", "s2", "s2")]
    assert rig.engine.data == 3
    rig = Rig(Table({"s1": Repeat("new", [Perform("x")])}))
    rig.cast("again")
    assert (rig.engine.data, rig.effects, rig.log) == ("new", [PerformEffect("x")], [("s1", "again")])


@pytest.mark.scenario("S-138", "S-150")
@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (NextState("s1"), "the state 's1'"),
        (Keep(actions=[Postpone()]), "Postpone"),
        (Keep(actions=[Postpone(on=False)]), "Postpone"),
        (Repeat(actions=[NextEvent(Internal("i"))]), "NextEvent"),
    ],
    ids=repr,
)
def test_enter_may_not_change_postpone_or_insert(returned, named):
    """A state change, a postpone or an inserted event in `enter` is a crash `BadEnterResult` that names it, also at the start."""
    rig = Rig(Table({"s1": goto}, enter=lambda state, _: returned if state == "s2" else Keep()))
    rig.cast(("go", "s2"))
    assert isinstance(rig.engine.stopped, Crashed)
    assert rig.engine.stopped.type == "BadEnterResult"
    assert named in rig.engine.stopped.text
    assert rig.effects == [Terminate(rig.engine.stopped)]
    rig = Rig(Table({}, enter=NextState("s2")))
    assert (rig.engine.stopped.type, rig.engine.last) == ("BadEnterResult", None)


@pytest.mark.scenario("S-151")
def test_enter_may_change_data_set_timers_and_reply():
    """Data, a timer, a reply to a kept call and a perform of `enter` all take effect, the same state is allowed."""
    rig = Rig(
        Table(
            {"s1": lambda event: NextState("s2", event.to), "s2": Keep()},
            enter=lambda state, data: (
                Keep()
                if state == "s1"
                else NextState(state, "new", [StateTimeout(5.0, "due"), Reply(data, "yes"), Perform("x")])
            ),
        )
    )
    effects = rig.call("later")
    assert effects == (
        SendReply("caller", "yes"),
        PerformEffect("x"),
        ArmTimer(STATE_TIMER, 1, rig.now + 5.0),
    )
    assert rig.engine.data == "new"
    rig.advance(5.0)
    assert rig.log[-1] == ("s2", ("state", "due"))


@pytest.mark.parametrize(
    "returned", [Stop(Shutdown("x"), "new"), StopAndReply([Reply("a", 1)], Shutdown("x"), "new")]
)
def test_enter_may_stop(returned):
    """`enter` may end the machine, with a reason, data and replies."""
    rig = Rig(Table({}, enter=returned))
    assert rig.effects[-1] == Terminate(Shutdown("x"))
    assert rig.replies == ([("a", 1)] if isinstance(returned, StopAndReply) else [])
    assert rig.engine.data == "new"


# --- timers


@pytest.mark.scenario("S-152")
@pytest.mark.parametrize("event", ["none", "cast", "inserted", "replayed", "other timeout"])
def test_any_event_cancels_the_event_timer(event):
    """A cast, an inserted event, a replayed event and another timeout each cancel it; without one it fires, once."""
    rig = Rig(Table({"s1": lambda event: postpone(event) if said(event) == "p" else obey(event), "s2": obey}))
    started = [EventTimeout(10.0, "idle")]
    match event:
        case "none":
            rig.cast(Keep(actions=started))
            rig.advance(100.0)
            assert rig.log[1:] == [("s1", ("event", "idle"))]
            return
        case "cast":
            rig.cast(Keep(actions=started))
            rig.cast("x")
        case "inserted":
            rig.cast(Keep(actions=[*started, NextEvent(Internal("x"))]))
        case "replayed":
            rig.cast("p")
            rig.cast(NextState("s2", actions=started))
        case "other timeout":
            rig.cast(Keep(actions=[*started, StateTimeout(5.0)]))
            rig.advance(5.0)
    assert len(of_kind(rig.effects, DisarmTimer)) == 1
    assert rig.engine.timers.count == 0
    handled = len(rig.log)
    rig.advance(100.0)
    assert len(rig.log) == handled


@pytest.mark.scenario("S-152")
@pytest.mark.parametrize(
    ("actions", "seen"),
    [
        ([EventTimeout(0, "a"), NextEvent(Internal("i"))], ["i"]),
        ([EventTimeout(0, "a"), StateTimeout(0, "b")], [("event", "a"), ("state", "b")]),
        ([StateTimeout(0, "b"), EventTimeout(0, "a")], [("state", "b")]),
    ],
    ids=["inserted first", "oldest itself", "another zero timeout first"],
)
def test_waiting_zero_event_timeout_is_cancelled_like_a_running_one(actions, seen):
    """A zero event timeout waits, and is cancelled by any event that is handled before it."""
    rig = Rig(Table({"s1": obey}))
    rig.cast(Keep(actions=actions))
    assert [what for _, what in rig.log[1:]] == seen


@pytest.mark.scenario("S-153")
@pytest.mark.parametrize("no_change", [Keep(), Repeat(), NextState("s1")], ids=repr)
def test_state_timer_survives_all_but_a_change(no_change):
    """It runs on over `Keep`, `Repeat` and the same state; a change cancels it, and one of that transition is started after."""
    rig = Rig(Table({"s1": obey, "s2": obey}), Init("s1", None, [StateTimeout(10.0)]))
    rig.cast(no_change)
    assert rig.engine.timers.count == 1
    rig.cast(NextState("s2"))
    assert rig.effects[-1] == DisarmTimer(STATE_TIMER)
    rig.cast(Keep(actions=[StateTimeout(10.0, "old")]), NextState("s1", actions=[StateTimeout(20.0, "new")]))
    rig.advance(100.0)
    assert [what for _, what in rig.log[4:]] == [("state", "new")]


@pytest.mark.scenario("S-156", "S-157")
@pytest.mark.parametrize(
    ("timer", "killer"),
    [
        (NamedTimeout("t", 5.0), Keep(actions=[CancelTimer("named", "t")])),
        (NamedTimeout("t", 5.0), Keep(actions=[NamedTimeout("t", 50.0)])),
        (NamedTimeout("t", 5.0), Keep(actions=[NamedTimeout("t", math.inf)])),
        (StateTimeout(5.0), NextState("s2", actions=[StateTimeout(50.0, "new")])),
    ],
    ids=repr,
)
def test_timer_that_fired_already_is_not_delivered_once_cancelled(timer, killer):
    """A timer whose firing lies in the mailbox while a handler cancels, replaces or leaves it is never delivered."""
    rig = Rig(Table({"s1": obey, "s2": obey}), Init("s1", None, [timer]))
    (fired,) = rig.armed.values()
    rig.cast(killer)
    before = rig.engine
    rig.fire(fired)
    assert len(rig.log) == 1
    assert rig.engine is before


@pytest.mark.scenario("S-158")
@pytest.mark.parametrize(("kind", "name"), [("named", "t"), ("state", None), ("event", None)])
def test_update_changes_the_content_and_not_the_time(kind, name):
    """`UpdateTimer` delivers at the old time, arming nothing anew; of a timer that does not run it delivers at once."""
    update = Keep(actions=[UpdateTimer(kind, "new", name)])
    if kind != "event":  # which never runs when an event is handled
        timeout = NamedTimeout("t", 10.0, "old") if name else StateTimeout(10.0, "old")
        rig = Rig(Table({"s1": obey}), Init("s1", None, [timeout]))
        rig.advance(4.0)
        assert rig.send(Cast(update)) == ()
        rig.advance(5.9)
        assert len(rig.log) == 1
        rig.advance(0.1)
        assert rig.log[1:] == [("s1", (name or kind, "new"))]
    rig = Rig(Table({"s1": obey}), Init("s1", None, [EventTimeout(10.0)]))
    rig.cast(update)
    assert rig.log[1:] == [("s1", (name or kind, "new"))]


@pytest.mark.scenario("S-159")
@pytest.mark.parametrize("never", [StateTimeout(math.inf), StateTimeout(at_seconds=math.inf)], ids=repr)
def test_infinity_cancels(never):
    """A running timer that is set to `math.inf` never fires; to cancel what does not run is fine, and so is `Hibernate`."""
    rig = Rig(Table({"s1": obey}), Init("s1", None, [StateTimeout(5.0)]))
    assert rig.send(Cast(Keep(actions=[never]))) == (DisarmTimer(STATE_TIMER),)
    rig.advance(1e9)
    assert len(rig.log) == 1
    assert rig.engine.timers.count == 0
    rig = Rig(Table({"s1": obey}))
    actions = [CancelTimer("event"), CancelTimer("state"), CancelTimer("named", "t"), Hibernate()]
    assert rig.send(Cast(Keep(actions=actions))) == ()
    assert rig.engine == Rig(Table({})).engine


@pytest.mark.scenario("S-160")
@pytest.mark.parametrize(
    "timeout", [StateTimeout(0), EventTimeout(0.0), NamedTimeout("t", 0), StateTimeout(1e-30)], ids=repr
)
def test_zero_timeout_is_handled_before_the_mailbox(timeout):
    """A timeout of 0 is handled in the step that asks for it, so before the next message, and arms nothing."""
    rig = Rig(Table({"s1": obey}))
    assert rig.send(Cast(Keep(actions=[timeout]))) == ()
    assert len(rig.log) == 2


@pytest.mark.scenario("S-158", "S-160", "S-162")
def test_zero_timeouts_keep_the_order_of_their_requests():
    """Of one timer the last request gives the place, and an update keeps it; one that is set to 50 ms fires then, once."""
    rig = Rig(Table({"s1": obey}))
    rig.cast(
        Keep(
            actions=[NamedTimeout("a", 0, 1), NamedTimeout("b", 0), NamedTimeout("a", 0, 2), StateTimeout(0)]
        )
    )
    assert [what for _, what in rig.log[1:]] == [("b", None), ("a", 2), ("state", None)]
    rig = Rig(Table({"s1": obey}))
    update = NextEvent(Internal(Keep(actions=[UpdateTimer("named", "new", "a")])))
    rig.cast(Keep(actions=[NamedTimeout("a", 0, "old"), NamedTimeout("b", 0), update]))
    assert [what for _, what in rig.log[2:]] == [("a", "new"), ("b", None)]
    rig = Rig(Table({"s1": obey}))
    again = NextEvent(Internal(Keep(actions=[StateTimeout(0.05, "new")])))
    effects = rig.send(Cast(Keep(actions=[StateTimeout(0, "old"), again])))
    assert effects == (ArmTimer(STATE_TIMER, 1, rig.now + 0.05),)
    assert len(rig.log) == 2
    rig.advance(0.05)
    rig.advance(100.0)
    assert rig.log[2:] == [("s1", ("state", "new"))]


@pytest.mark.scenario("S-160")
def test_zero_timeout_takes_the_place_of_a_running_timer():
    """A running timer that is set to 0 is disarmed and fires once; a waiting one can be cancelled, or left by a change."""
    rig = Rig(Table({"s1": obey, "s2": Keep()}), Init("s1", None, [StateTimeout(5.0, "old")]))
    assert rig.send(Cast(Keep(actions=[StateTimeout(0, "new")]))) == (DisarmTimer(STATE_TIMER),)
    rig.cast(
        Keep(actions=[NamedTimeout("a", 0), NextEvent(Internal(Keep(actions=[CancelTimer("named", "a")])))])
    )
    rig.cast(Keep(actions=[StateTimeout(0), NextEvent(Internal(NextState("s2")))]))
    rig.advance(100.0)
    assert [what for _, what in rig.log if isinstance(what, tuple)] == [("state", "new")]


@pytest.mark.scenario("S-164")
@pytest.mark.parametrize("how", ["cancelled", "fired", "replaced"])
def test_timers_leave_no_residue(how):
    """After ten thousand timers were set and cancelled, fired or replaced, none is kept, by engine or shell."""
    rig = Rig(Table({"s1": obey}))
    for number in range(10_000):
        match how:
            case "cancelled":
                rig.cast(Keep(actions=[NamedTimeout(number, 5.0), EventTimeout(5.0)]))
                rig.cast(Keep(actions=[CancelTimer("named", number)]))
            case "fired":
                rig.cast(Keep(actions=[NamedTimeout(number, 5.0)]))
                rig.advance(5.0)
            case "replaced":
                rig.cast(Keep(actions=[NamedTimeout("t", 5.0)]))
    if how == "replaced":
        assert rig.engine.timers.count == len(rig.armed) == 1
        rig.cast(Keep(actions=[CancelTimer("named", "t")]))
    fresh = Rig(Table({"s1": obey})).engine
    assert rig.engine.timers is fresh.timers
    assert rig.armed == {}
    assert rig.engine.queue == ()


@pytest.mark.scenario("S-165")
def test_timers_end_with_the_instance():
    """A timer that fires after its machine has ended, or in a new one of the same, does nothing."""
    machine = Table({"s1": obey})
    rig = Rig(machine, Init("s1", None, [StateTimeout(5.0), NamedTimeout("t", 5.0)]))
    timers = list(rig.armed.values())
    rig.cast(Stop())
    assert rig.armed == {}
    for timer in timers:
        rig.fire(timer)
    again = Rig(machine)
    for timer in timers:
        again.fire(timer)
    assert len(machine.log) == 1
    assert rig.effects[-1] == Terminate(rig.engine.stopped)


# --- the clock


@pytest.mark.scenario("S-160", "S-163")
@pytest.mark.parametrize(
    "timeout",
    [
        StateTimeout(0),
        StateTimeout(1e-30),
        StateTimeout(at_seconds=100.0),
        StateTimeout(60.0, at_seconds=99.0),
    ],
    ids=repr,
)
def test_due_at_once_with_a_clock(timeout):
    """A timeout of 0, and an absolute one up to the time of the event, even with `seconds`, however long the handler took."""
    now = [100.0]

    def slow(event):
        now[0] += 10.0
        return obey(event)

    machine = Table({"s1": slow})
    engine, _ = start_statem(machine, Init("s1", None), now=100.0, clock=lambda: now[0])
    event = Cast(Keep(actions=[timeout]))
    _, effects = step_statem(machine, engine, event, now=100.0, clock=lambda: now[0])
    assert effects == ()
    assert machine.log[1:] == [("s1", ("state", None))]
    rig = Rig(Table({"s1": obey}))
    assert rig.send(event) == ()
    assert rig.log[1:] == [("s1", ("state", None))]
    later = StateTimeout(at_seconds=rig.now + 1)
    assert rig.send(Cast(Keep(actions=[later]))) == (ArmTimer(STATE_TIMER, 1, rig.now + 1),)
