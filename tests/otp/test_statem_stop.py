"""Section K of the conformance scenarios, as far as the engine shows it: replies, stops, faults and limits."""

import pytest

from agentrail.otp.exits import Crashed, Killed, Normal, Shutdown
from agentrail.otp.statem import (
    Call,
    CancelTimer,
    Cast,
    DeadLetter,
    Info,
    Init,
    Internal,
    Keep,
    Limits,
    NamedTimeout,
    NextEvent,
    NextState,
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
    UpdateTimer,
    start_statem,
    step_statem,
)
from tests.otp.rig import Rig, Table, obey, of_kind, postpone, said


@pytest.mark.scenario("S-169", "S-174")
@pytest.mark.parametrize("reason", [Normal(), Shutdown("x"), Killed()], ids=repr)
def test_stop_ends_with_its_reason_and_data(reason):
    """`Terminate` with the reason is the last effect, after the replies; the data given is what the machine ends with."""
    rig = Rig(Table({"s1": obey}))
    assert rig.call(Stop(reason, "final")) == (Terminate(reason),)
    assert (rig.engine.stopped, rig.engine.data) == (reason, "final")
    assert rig.engine.last == Call("caller", Stop(reason, "final"))
    rig = Rig(Table({"s1": obey}))
    rig.cast(StopAndReply([Reply("a", 1), Reply("b", 2)], data="final"))
    assert rig.effects == [SendReply("a", 1), SendReply("b", 2), Terminate(Normal())]
    assert rig.engine.data == "final"


def test_machine_that_ended_takes_nothing_more():
    """After the end a call is refused, anything else is a dead letter, a second stop changes nothing."""
    rig = Rig(Table({"s1": obey}))
    rig.cast(Stop(Shutdown("x")))
    ended = rig.engine
    assert rig.call("more") == (RefuseCall("caller", "stopped"),)
    assert rig.send(Info("more")) == (DeadLetter(Info("more"), "stopped"),)
    rig.stop(Killed())
    assert rig.engine is ended
    assert len(of_kind(rig.effects, Terminate)) == 1


# --- faults


@pytest.mark.scenario("S-176")
@pytest.mark.parametrize("returned", [None, "s2", Postpone(), ("next_state", "s2"), Normal()], ids=repr)
def test_return_that_is_no_transition_is_named(returned):
    """A handler that returns anything but a transition crashes the machine; the reason names what it returned."""
    rig = Rig(Table({"s1": lambda _: returned}))
    rig.call("x")
    stopped = rig.engine.stopped
    assert rig.effects == [Terminate(stopped)]
    assert stopped.type == "BadTransition"
    assert stopped.text.startswith(f"handle returned {returned!r}, expected NextState, Keep")
    assert rig.engine.last == Call("caller", "x")


@pytest.mark.scenario("S-176")
@pytest.mark.parametrize(
    ("action", "named"),
    [
        ("reply", "'reply' is not an action"),
        (Keep(), "is not an action"),
        (NextEvent("x"), "NextEvent takes an event"),  # type: ignore[arg-type]
        (StateTimeout(-1), "seconds=-1"),
        (StateTimeout(float("nan")), "seconds=nan"),
        (StateTimeout(), "seconds=None"),
        (StateTimeout("5"), "seconds='5'"),  # type: ignore[arg-type]
        (StateTimeout(5, at_seconds=float("nan")), "at_seconds=nan"),
        (StateTimeout(5, at_seconds="noon"), "at_seconds='noon'"),  # type: ignore[arg-type]
        (NamedTimeout([], 5), "hashable name"),  # type: ignore[arg-type]
        (NamedTimeout(([],), 5), "hashable name"),
        (CancelTimer("alarm"), "kind='alarm'"),  # type: ignore[arg-type]
        (StateTimeout(10**400), "StateTimeout(seconds=1000"),
        (NamedTimeout("t", at_seconds=10**400), "at_seconds=1000"),
        (CancelTimer("state", "t"), "name='t'"),
        (UpdateTimer("event", "x", "t"), "name='t'"),
    ],
    ids=str,
)
def test_bad_action_is_named_and_what_came_before_stands(action, named):
    """An unknown action or a time that cannot be is a crash that names it; the effects before it stand, none after."""
    rig = Rig(Table({"s1": obey}), Init("s1", "data"))
    rig.cast(NextState("s2", "new", [Perform("before"), Reply("a", 1), action, Perform("after")]))
    stopped = rig.engine.stopped
    assert rig.effects == [PerformEffect("before"), SendReply("a", 1), Terminate(stopped)]
    assert stopped.type == "BadAction"
    assert named in stopped.text
    assert (rig.engine.state, rig.engine.data) == ("s1", "data")


@pytest.mark.scenario("S-176")
def test_answers_that_are_none_are_named():
    """Of `enter` too; one action that is not in a list, with the hint to put it in brackets, in `init` as well."""
    rig = Rig(Table({}, enter=lambda _state, _data: None))
    assert rig.engine.stopped.type == "BadTransition"
    assert rig.engine.stopped.text.startswith("enter returned None")
    rig = Rig(Table({"s1": obey}))
    rig.cast(Keep(actions=Postpone()))
    assert rig.engine.stopped == Crashed(
        "BadAction", "actions must be a list or a tuple, got Postpone(on=True): put it in brackets"
    )
    assert Rig(Table({}), Init("s1", None, {Postpone()})).engine.stopped.type == "BadAction"


@pytest.mark.scenario("S-176")
def test_stop_with_bad_reply_or_reason_is_named():
    """`StopAndReply` with something else than replies and `Stop` with something else than a reason are crashes."""
    rig = Rig(Table({"s1": obey}))
    rig.cast(StopAndReply([Reply("a", 1), Perform("x")]))
    assert rig.effects == [SendReply("a", 1), Terminate(rig.engine.stopped)]
    assert rig.engine.stopped.type == "BadAction"
    assert "Perform(effect='x')" in rig.engine.stopped.text
    rig = Rig(Table({"s1": obey}))
    rig.cast(Stop("done"))
    assert rig.engine.stopped == Crashed(
        "BadTransition", "Stop takes an exit reason, got 'done': use Shutdown(why)"
    )


@pytest.mark.scenario("S-177")
def test_handler_that_raises_ends_the_machine_and_shows_what_waited():
    """A raise is a crash with its traceback; earlier effects stand, the rest of the queue and the postponed show."""

    def second(event):
        if said(event) == "i":
            message = "broken"
            raise LookupError(message)
        return Keep(actions=[Perform(said(event)), Postpone()])

    rig = Rig(Table({"s1": postpone, "s2": second}))
    rig.cast("p1", "p2")
    rig.machine.table["s1"] = NextState(
        "s2", actions=[NextEvent(Cast("a")), NextEvent(Cast("i")), NextEvent(Cast("b"))]
    )
    rig.cast("go")
    stopped = rig.engine.stopped
    assert (stopped.type, stopped.text) == ("LookupError", "broken")
    assert "in second" in stopped.traceback
    assert rig.effects == [PerformEffect("a"), Terminate(stopped)]
    assert rig.engine.last == Cast("i")
    assert rig.engine.postponed == (Cast("a"),)
    assert rig.engine.queue == (Cast("b"), Cast("p1"), Cast("p2"))


@pytest.mark.scenario("S-177")
def test_what_is_raised_is_no_answer():
    """Not even a transition that an exception carries; `KeyboardInterrupt` leaves the engine as good as it was."""

    def handle(event):
        if said(event) == "interrupt":
            raise KeyboardInterrupt
        if said(event) == "throw":
            raise LookupError(Keep("thrown"))
        return Keep(actions=[Perform("done")])

    rig = Rig(Table({"s1": handle}))
    with pytest.raises(KeyboardInterrupt):
        rig.cast("interrupt")
    assert rig.send(Cast("again")) == (PerformEffect("done"),)
    rig.cast("throw")
    assert (rig.engine.stopped.type, rig.engine.data) == ("LookupError", None)


@pytest.mark.scenario("S-186")
def test_texts_of_a_crash_are_redacted():
    """`redact` is applied to what was raised and to what was returned, at the start and in a step."""

    def fail(_event):
        message = "hunter2"
        raise ValueError(message)

    def redact(text):
        return text.replace("hunter2", "***")

    engine, _ = start_statem(Table({"s1": fail}), Init("s1", None), now=0.0)
    engine, effects = step_statem(Table({"s1": fail}), engine, Cast("x"), now=0.0, redact=redact)
    assert engine.stopped.text == "***"
    assert "hunter2" not in repr(effects)
    returning = Table({}, enter=lambda _state, data: data)
    engine, effects = start_statem(returning, Init("s1", "hunter2"), now=0.0, redact=redact)
    assert "'***'" in engine.stopped.text
    assert "hunter2" not in repr(effects)


# --- loops


def test_machine_that_goes_on_for_ever_is_stopped():
    """More events in one step than the limit are a crash `EngineLoop`: inserted ones, entries, and zero timeouts."""

    def handle(event):
        left = said(event)
        return Keep(actions=[NextEvent(Internal(left - 1))] if left > 1 else [])

    rig = Rig(Table({"s1": handle}), limits=Limits(events_per_step=10))
    rig.cast(10)
    rig.cast(10)
    assert rig.engine.stopped is None
    rig.cast(11)
    assert rig.engine.stopped.type == "EngineLoop"
    assert "more than 10 events" in rig.engine.stopped.text
    assert len(rig.log) == 30

    rig = Rig(Table({"s1": Keep()}, enter=Repeat()), limits=Limits(events_per_step=5))
    assert rig.engine.stopped.type == "EngineLoop"
    assert len(rig.log) == 6

    rig = Rig(Table({"s1": Keep(actions=[StateTimeout(0)])}))
    rig.cast("go")
    assert rig.engine.stopped.type == "EngineLoop"
    assert len(rig.log) == 10_000
