"""What is promised about a step holds in all of a small world; the large one is in property_tests/core."""

from types import MappingProxyType

import pytest

from agentrail.core.protocol.effects import Publish, Refuse, ReplyToCaller, RunTool, StartStream
from agentrail.core.protocol.signals import (
    AbortCycle,
    Prompt,
    ReplyQuery,
    SessionBegan,
    SignalId,
    StatusQuery,
    StopSession,
    StreamStarted,
    TeardownFinished,
    ToolFinished,
)
from agentrail.core.session import legality, machine
from agentrail.core.session.cycle import MAX_ASKERS
from agentrail.core.session.legality import Cell, Verdict
from agentrail.core.session.state import Phase
from agentrail.core.values.toolbox import read_call
from agentrail.errors import HistoryError, InternalError, MailboxFull
from agentrail.events import AbortReceipt, AgentStart, SessionStart
from agentrail.messages import PromptRef, Text
from agentrail.testing.promises import PROMISES, comparable
from tests.core.worlds import completed, new_session, run, shape, small_world, walk


def prompt(name: str, *texts: str, at_ms: int = 1) -> Prompt:
    """A prompt that wants a receipt."""
    content = tuple(Text(text=text) for text in texts)
    return Prompt(at_ms=at_ms, signal_id=SignalId(name), ref=PromptRef(name), content=content)


@pytest.mark.check
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_promise_holds_in_all_of_a_small_world(promise):
    """Complete: no sequence of signals reaches a small state, or a step from one, in which it does not hold."""
    for seen in small_world():
        promise(seen)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_promise_holds_here_and_there_in_a_small_world(promise):
    """In every thirty-first step of it, for those who have two minutes; signals come in another order for each state."""
    for seen in small_world()[::31]:
        promise(seen)


def test_the_small_world_is_not_tiny():
    """It has every phase, a session that ended, and states in which tools run, wait and survive at once."""
    shapes = {shape(seen.before) for seen in small_world()}
    assert len(shapes) > 500
    assert {seen.before.phase for seen in small_world()} == set(Phase)
    assert any(seen.before.ended for seen in small_world())
    assert any(seen.before.data.survivors and seen.before.data.batch for seen in small_world())


def test_a_new_session_is_idle_and_says_what_it_has():
    """The first signal of a life publishes SessionStart with the model and the tools, under number 1."""
    state, effects = machine.step(new_session(), SessionBegan(at_ms=7))
    assert state.phase is Phase.IDLE
    assert state.data.started_at_ms == 7
    expected = SessionStart(model="scripted:model", tools=("ask", "deploy", "read", "watch"))
    assert effects == (Publish(expected),)
    assert expected != SessionStart(model="scripted:model", tools=())
    assert effects[0].event.meta.seq == 1


def test_nothing_happens_on_a_session_that_has_ended():
    """A step on an ended session returns it as it is, without an effect."""
    ended = run([StopSession(at_ms=1, signal_id=SignalId("s1"))])
    assert ended.ended
    for signal in (
        prompt("p1", "Hello"),
        SessionBegan(at_ms=2),
        StatusQuery(at_ms=2, signal_id=SignalId("q1")),
    ):
        assert machine.step(ended, signal) == (ended, ())


def test_a_bug_leaves_the_state_as_good_as_before(monkeypatch):
    """A signal that crashes the core raises InternalError with the cause, and the session goes on from where it was."""
    before = run([prompt("p1", "Hello"), completed("r1", Text(text="Hi."))])

    def crash(*_: object) -> None:
        message = "a planted bug"
        raise HistoryError(message)

    with monkeypatch.context() as planted:
        planted.setattr(machine, "TAKERS", {**machine.TAKERS, Prompt: crash})
        with pytest.raises(InternalError, match="HistoryError: a planted bug"):
            machine.step(before, prompt("p2", "Hello?"))
    after, effects = machine.step(before, prompt("p3", "Hello?"))
    assert after.phase is Phase.RUNNING
    assert AgentStart(ref=PromptRef("p3")) in [e.event for e in effects if isinstance(e, Publish)]


@pytest.mark.parametrize("at_ms", ["soon", 10**400, 1.5, float("nan")])
def test_a_time_that_no_clock_says_is_a_bug_that_is_noticed(at_ms):
    """It raises InternalError with what came, and not whatever the arithmetic says of it."""
    with pytest.raises(
        InternalError, match=r"StatusQuery has the time .*: expected whole milliseconds since 1970"
    ):
        machine.step(new_session(), StatusQuery(at_ms=at_ms, signal_id=SignalId("q")))


def test_one_who_asks_too_late_for_a_reply_is_refused():
    """So many callers may wait for the end of a cycle; one more is told MailboxFull."""
    state = run([prompt("p1", "Hello")])
    state = run((ReplyQuery(at_ms=2, signal_id=SignalId(f"q{n}")) for n in range(MAX_ASKERS)), state)
    for name in ("one more", "and another"):
        full, effects = machine.step(state, ReplyQuery(at_ms=3, signal_id=SignalId(name)))
        (refusal,) = effects
        assert isinstance(refusal, Refuse)
        assert refusal.to == name
        assert isinstance(refusal.error, MailboxFull)
        state = full
    _, effects = machine.step(state, completed("r1", Text(text="Hi.")))
    assert sum(isinstance(effect, ReplyToCaller) for effect in effects) == MAX_ASKERS


@pytest.mark.parametrize("late", [AbortCycle, StopSession], ids=["abort", "stop"])
def test_one_who_waits_too_late_for_the_end_of_a_teardown_is_refused(late):
    """So many callers may wait until what was stopped is gone; one more is told MailboxFull, and the others hear of it."""
    begun = [prompt("p1", "Hello"), completed("r1", read_call("c1", "read", "{}"))]
    state = run([*begun, *(late(at_ms=2, signal_id=SignalId(f"a{n}")) for n in range(MAX_ASKERS))])
    state, effects = machine.step(state, late(at_ms=3, signal_id=SignalId("one more")))
    (refusal,) = [effect for effect in effects if isinstance(effect, Refuse)]
    assert refusal.to == "one more"
    assert isinstance(refusal.error, MailboxFull)
    _, effects = machine.step(
        state, TeardownFinished(at_ms=9, effect_id=state.data.teardown.effect_id, receipt=AbortReceipt())
    )
    assert sum(isinstance(effect, ReplyToCaller) for effect in effects) == MAX_ASKERS


def test_a_call_that_is_postponed_too_often_is_refused(monkeypatch):
    """As many calls may be put off as a session postpones; one more is told MailboxFull, and those before it wait on."""
    cells = MappingProxyType({phase: Cell(Verdict.POSTPONE, frozenset({phase})) for phase in Phase})
    monkeypatch.setattr(legality, "LEGALITY", {**legality.LEGALITY, StatusQuery: cells})
    full = run(StatusQuery(at_ms=1, signal_id=SignalId(f"q{n}")) for n in range(machine.MAX_POSTPONED))
    state, (refusal,) = machine.step(full, StatusQuery(at_ms=1, signal_id=SignalId("one more")))
    assert isinstance(refusal, Refuse)
    assert (refusal.to, type(refusal.error)) == ("one more", MailboxFull)
    assert len(state.postponed) == machine.MAX_POSTPONED


def test_a_notice_that_is_postponed_too_often_is_a_bug_that_is_noticed(monkeypatch):
    """What is thrown away must have had a caller who hears of it; a table that postpones a notice is wrong."""
    cells = MappingProxyType({phase: Cell(Verdict.POSTPONE, frozenset({phase})) for phase in Phase})
    monkeypatch.setattr(legality, "LEGALITY", {**legality.LEGALITY, SessionBegan: cells})
    state = run(SessionBegan(at_ms=1) for _ in range(machine.MAX_POSTPONED))
    with pytest.raises(InternalError, match="nobody waits for this SessionBegan"):
        machine.step(state, SessionBegan(at_ms=1))


def test_old_states_still_work_after_newer_ones():
    """Every state of a long life is what it was when it was made, and steps from it lead where they led (fork)."""
    script = [
        prompt("p1", "one"),
        prompt("p2", "two"),
        StreamStarted(at_ms=2, effect_id="r1"),
        completed("r1", Text(text="Looking."), read_call("c1", "read", "{}"), read_call("c1", "watch", "{}")),
        ToolFinished(at_ms=3, effect_id="t2", text="a", started_at_ms=2),
        ToolFinished(at_ms=3, effect_id="t3", text="b", started_at_ms=2),
        completed("r4", Text(text="Done.")),
        completed("r5", Text(text="Two."), read_call("c1", "read", "{}")),
    ]
    steps = list(walk(script))
    written = [repr((tuple(seen.before.data.history.messages), seen.before)) for seen in steps]
    for seen in (*reversed(steps), *steps):
        after, effects = machine.step(seen.before, seen.signal)
        assert after == seen.after
        assert list(map(comparable, effects)) == list(map(comparable, seen.effects))
    assert [repr((tuple(seen.before.data.history.messages), seen.before)) for seen in steps] == written


def test_two_forks_of_one_state_do_not_see_each_other():
    """Two prompts to the same old state give two conversations that share what was said before, and nothing else."""
    shared = run([prompt("p1", "one"), completed("r1", Text(text="1"))])
    left = run([prompt("p2", "left"), completed("r2", Text(text="L"))], shared)
    right = run([prompt("p2", "right"), completed("r2", Text(text="R"))], shared)
    assert [str(m.content[0].text) for m in left.data.history.messages] == ["one", "1", "left", "L"]
    assert [str(m.content[0].text) for m in right.data.history.messages] == ["one", "1", "right", "R"]
    assert len(shared.data.history) == 2


def test_two_sessions_share_nothing():
    """The defaults of a state are shared by all sessions of a process; one session never writes into them."""
    run([prompt("p1", "one"), completed("r1", read_call("c1", "read", "{}"))])
    fresh = new_session()
    assert len(fresh.data.history) == 0
    assert "c1" not in fresh.data.call_ids
    assert fresh == new_session()


def test_events_carry_the_time_of_the_signal_behind_them():
    """A cycle that starts by itself starts when the one before ended, not when somebody had asked for its reply."""
    script = [prompt("p1", "one"), prompt("p2", "two"), ReplyQuery(at_ms=20, signal_id=SignalId("q1"))]
    *_, seen = walk([*script, completed("r1", Text(text="1"), at_ms=900)])
    assert [type(event).__name__ for event in seen.events][-2:] == ["AgentStart", "RequestStart"]
    assert {event.meta.at_ms for event in seen.events} == {900}


def test_attempts_at_two_calls_with_equal_arguments_are_two_operations():
    """The idempotency key tells a second call from a retry of the first, and a replay makes the same keys."""
    script = [prompt("p1", "go"), completed("r1", *(read_call(f"c{n}", "read", "{}") for n in (1, 2)))]
    first, second = [
        [effect for effect in list(walk(script))[-1].effects if isinstance(effect, RunTool)] for _ in range(2)
    ]
    assert first == second
    assert first[0].arguments_hash == first[1].arguments_hash
    assert first[0].operation_id != first[1].operation_id


def test_a_request_shares_the_history():
    """A request carries the conversation as it is: not a copy of it, so a long one costs no more than a short one."""
    state, effects = machine.step(new_session(), prompt("p1", "Hello"))
    (start,) = [effect for effect in effects if isinstance(effect, StartStream)]
    assert start.request.messages is state.data.history.messages
