"""What is promised about a step holds in all of a small world; the large one is in property_tests/core."""

import pytest

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Publish, Refuse, ReplyToCaller
from agentrail.core.session import machine, transitions
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.core.session.state import Phase
from agentrail.core.session.transitions import Verdict
from agentrail.core.session.views import status_of
from agentrail.core.values.toolbox import read_call
from agentrail.errors import HistoryError, InternalError, MailboxFull
from agentrail.events import AbortReceipt, AgentStart
from agentrail.messages import PromptRef, Text
from agentrail.testing.promises import PROMISES
from tests.core.worlds import completed, new_session, prompt, run, small_world
from tests.thinned import each, sample


@pytest.mark.check
@each("promise", PROMISES)
def test_promise_holds_in_all_of_a_small_world(promise):
    """No sequence of signals reaches a step in which it does not hold: every fifth step, and all of them in `make nightly`."""
    steps = small_world()
    for seen in sample(steps, len(steps) // 20):
        promise(seen)


@each("promise", PROMISES)
def test_promise_holds_here_and_there_in_a_small_world(promise):
    """In every thirty-first step of it, for those who have two minutes; signals come in another order for each state."""
    for seen in small_world()[::31]:
        promise(seen)


def test_a_bug_leaves_the_state_as_good_as_before(monkeypatch):
    """A signal that crashes the core raises InternalError with the cause, and the session goes on from where it was."""
    before = run([prompt(), completed("r1", Text(text="Hi."))])

    def crash(*_: object) -> None:
        message = "a planted bug"
        raise HistoryError(message)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    assert machine.TAKERS.keys() == transitions.LEGALITY.keys()
    with monkeypatch.context() as planted:
        planted.setattr(machine, "TAKERS", {**machine.TAKERS, s.Prompt: crash})
        with pytest.raises(InternalError, match="HistoryError: a planted bug"):
            machine.step(before, prompt("p2"))
    with monkeypatch.context() as planted:  # `KeyboardInterrupt` is no bug of the core: it ends the program
        planted.setattr(machine, "TAKERS", {**machine.TAKERS, s.Prompt: interrupted})
        with pytest.raises(KeyboardInterrupt):
            machine.step(before, prompt("p2"))
    after, effects = machine.step(before, prompt("p3"))
    assert after.phase is Phase.RUNNING
    assert AgentStart(ref=PromptRef("p3")) in [e.event for e in effects if isinstance(e, Publish)]


def test_a_time_that_no_clock_says_is_a_bug_that_is_noticed():
    """It raises InternalError with what came, and not whatever the arithmetic says of it; a time before 1970 is one all the same."""
    said = r"StatusQuery has the time .*: expected whole milliseconds since 1970"
    for at_ms in ("soon", 10**400, 1.5, float("nan")):
        with pytest.raises(InternalError, match=said):
            machine.step(new_session(), s.StatusQuery(at_ms=at_ms, signal_id=s.SignalId("q")))
    after, effects = machine.step(new_session(), s.StatusQuery(at_ms=-1, signal_id=s.SignalId("q")))
    assert (after.phase, len(effects)) == (Phase.IDLE, 1)


def test_one_who_waits_too_late_for_the_end_of_a_teardown_is_refused():
    """So many callers may wait until what was stopped is gone; one more is told MailboxFull, and the others hear of it."""
    begun = [prompt(), completed("r1", read_call("c1", "read", "{}"))]
    for late in (s.AbortCycle, s.StopSession):
        state = run([*begun, *(late(at_ms=2, signal_id=s.SignalId(f"a{n}")) for n in range(MAX_ASKERS))])
        state, effects = machine.step(state, late(at_ms=3, signal_id=s.SignalId("one more")))
        (refusal,) = [effect for effect in effects if isinstance(effect, Refuse)]
        assert (refusal.to, type(refusal.error)) == ("one more", MailboxFull)
        gone = state.data.teardown.effect_id
        _, effects = machine.step(state, s.TeardownFinished(at_ms=9, effect_id=gone, receipt=AbortReceipt()))
        assert sum(isinstance(effect, ReplyToCaller) for effect in effects) == MAX_ASKERS


def test_what_is_postponed_too_often_is_refused_or_a_bug(monkeypatch):
    """One call more is told MailboxFull, and those before it wait on; a notice has no caller who hears of it, so its table is wrong."""
    for kind in (s.StatusQuery, s.SessionBegan):
        monkeypatch.setitem(transitions.VERDICTS, kind, (dict.fromkeys(Phase, Verdict.POSTPONE), None))
    full = run(s.StatusQuery(at_ms=1, signal_id=s.SignalId(f"q{n}")) for n in range(machine.MAX_POSTPONED))
    state, (refusal,) = machine.step(full, s.StatusQuery(at_ms=1, signal_id=s.SignalId("one more")))
    assert isinstance(refusal, Refuse)
    assert (refusal.to, type(refusal.error)) == ("one more", MailboxFull)
    assert len(state.postponed) == machine.MAX_POSTPONED
    with pytest.raises(InternalError, match="no caller of this SessionBegan"):
        machine.step(full, s.SessionBegan(at_ms=1))


def test_a_session_has_run_for_no_negative_time():
    """The clock may be set back before the session continues in another process."""
    state = run([s.SessionBegan(at_ms=5)])
    assert status_of(state.phase, state.data, at_ms=4).uptime_ms == 0
