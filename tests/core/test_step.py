"""A step: its order is that of gen_statem, all of it happens at one time, and its draft stays inside."""

import json
from itertools import chain

import pytest

from agentrail.core.policy.calls import hash_arguments
from agentrail.core.policy.context import Outgoing, outgoing
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    Approve,
    ChangePlugins,
    Prompt,
    SessionBegan,
    SignalId,
    TimerFired,
    ToolFinished,
)
from agentrail.core.session import batch, compaction, loops, machine
from agentrail.core.session.budget import count_history, count_tokens, fixed_of
from agentrail.core.session.legality import LEGALITY
from agentrail.core.session.projection import request_of
from agentrail.core.session.state import Phase, SessionData, StepDraft
from agentrail.core.session.step_context import StepContext
from agentrail.core.stack.loading import load_stack
from agentrail.core.values.toolbox import read_call
from agentrail.events import RequestStart
from agentrail.messages import ApprovalId, AssistantMessage, PromptRef, Text, UserMessage
from agentrail.testing.plugins import PuppetPlugin, PuppetRule
from agentrail.testing.promises.seen import comparable
from property_tests.vandal import everything_in
from tests.core import engine_oracle
from tests.core.drawn_lives import lives, steps
from tests.core.worlds import TOOLS, completed, config, new_session, run, small_world, walk

LIVES = 40
SIGNALS = 50


@pytest.mark.parametrize("seed", lives(LIVES))
def test_a_step_comes_out_in_the_order_of_gen_statem(seed):
    """Replayed in front of what was queued, then the next prompt or the end: state, effects and what is put off are the same."""
    engine = None
    before = None
    for signal, state, effects in steps(10_000 + seed, SIGNALS):
        if engine is None:
            engine, before = "begun", state
            continue
        engine = engine_oracle.engine_of(before) if engine == "begun" else engine
        engine, wanted = engine_oracle.step(engine, signal)
        assert list(map(comparable, effects)) == list(map(comparable, wanted))
        assert (state.phase, state.data) == (engine.state, engine.data)
        assert state.postponed == tuple(event.message for event in engine.postponed)
        assert state.ended == (engine.stopped is not None)


@pytest.mark.parametrize("seed", lives(LIVES))
def test_a_step_ends_where_the_table_says_that_it_may(seed):
    """With all that follows in it: what plugins want, what was postponed, the next prompt."""
    before = None
    for signal, state, _ in steps(30_000 + seed, SIGNALS):
        phase = Phase.IDLE if before is None else before.phase
        assert state.phase in LEGALITY[type(signal)][phase].followed_by
        before = state


def test_every_change_of_phase_in_the_table_happens():
    """Each arrow of the diagram is met: the table does not allow what never comes."""
    changes = {
        (before, after)
        for row in LEGALITY.values()
        for before, cell in row.items()
        for after in cell.followed_by - {before}
    }
    rule = PuppetRule(
        hook="BeforeTool", tool=None, action="approve", text="sure?"
    )  # without plugins nobody is asked
    stack, states = load_stack([PuppetPlugin((rule,), name="asks")])
    approved = walk(
        [
            Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("p1"), content=(Text(text="1"),)),
            completed("r1", read_call("c1", "read", "{}")),
            Approve(at_ms=2, signal_id=SignalId("s2"), approval_id=ApprovalId("s/a2")),
        ],
        machine.new_session(config(), TOOLS, stack, states),
    )
    steps_seen = chain(small_world(), approved)
    assert changes == {
        (seen.before.phase, seen.after.phase)
        for seen in steps_seen
        if seen.before.phase is not seen.after.phase
    }


def test_each_row_of_the_table_has_a_taker():
    """And no taker is without a row."""
    assert machine.TAKERS.keys() == LEGALITY.keys()


def test_time_does_not_run_backwards_after_what_was_postponed():
    """A change of plugins that waited for idle has an old time; the prompt behind it begins when it begins."""
    stack, states = load_stack([PuppetPlugin((), name="a"), PuppetPlugin((), name="b")])
    before = run(
        [
            SessionBegan(at_ms=0),
            Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("p1"), content=(Text(text="1"),)),
            ChangePlugins(at_ms=2, signal_id=SignalId("s2"), change="detach", name="a"),
            Prompt(at_ms=3, signal_id=SignalId("s3"), ref=PromptRef("p2"), content=(Text(text="2"),)),
        ],
        machine.new_session(config(), TOOLS, stack, states),
    )
    after, effects = machine.step(before, completed("r1", Text(text="Hi."), at_ms=60_000))
    assert after.data.stack.names == ("b",)
    events = [effect.event for effect in effects if isinstance(effect, Publish)]
    assert isinstance(events[-1], RequestStart)
    assert {event.meta.at_ms for event in events} == {60_000}


# --- the draft


def test_a_draft_has_the_fields_of_what_it_becomes():
    """One copy to begin with, one at the end; in between a typo is no new field."""
    data = run([SessionBegan(at_ms=0)]).data
    step = StepContext(data, 1)
    draft = step.data
    assert isinstance(draft, StepDraft)
    assert StepDraft.__struct_fields__ == SessionData.__struct_fields__
    assert step.close() == data
    with pytest.raises(AttributeError):
        draft.quque = ()
    with pytest.raises(AttributeError):
        data.queue = ()


def test_a_draft_is_gone_when_its_step_is_over():
    """Whoever kept the step and goes on with it fails, and changes nothing."""
    step = StepContext(new_session().data, 1)
    step.data.minted = 7
    data = step.close()
    with pytest.raises(AttributeError):
        step.data.minted = 8
    with pytest.raises(AttributeError):
        step.mint("r")
    assert data.minted == 7


@pytest.mark.parametrize("seed", lives(LIVES))
def test_no_draft_leaves_its_step(seed):
    """Neither in the state nor in an effect, and no plugin is shown one: not as event, not as context."""
    shown = []

    def watch(member, event, state, ctx):
        shown.append((event, state, ctx))
        return member.plugin.handle(event, state, ctx)

    for _, state, effects in steps(20_000 + seed, SIGNALS, ask=watch):
        handed = [state.data, state.postponed, *effects, *shown]
        # What a session knows is its own, open to writing or not.
        assert not [one for one in everything_in(handed[1:]) if isinstance(one, StepDraft | SessionData)]
        assert not [one for one in everything_in(handed[:1]) if isinstance(one, StepDraft)]
        shown.clear()


# --- what is not done twice

ONE_CALL = (
    Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("p1"), content=(Text(text="1"),)),
    completed("r1", read_call("c1", "read", '{"path": "a"}')),
    ToolFinished(at_ms=3, effect_id=EffectId("t2"), text="done", started_at_ms=2),
    completed("r3", Text(text="Done.")),
)


def test_a_compaction_that_is_not_due_makes_no_request(monkeypatch):
    """Whether one is due is known from what was counted; only for a summary a request is made."""
    made = []
    monkeypatch.setattr(compaction, "request_of", lambda *_, **__: made.append(1))
    assert run(ONE_CALL).data.last.outcome == "finished"
    assert not made


def test_arguments_are_hashed_once(monkeypatch):
    """For the runner, for the look at loops, and for every retry: the hash of what ran is kept."""
    hashed = []

    def counted(arguments):
        hashed.append(arguments)
        return hash_arguments(arguments)

    monkeypatch.setattr(batch, "hash_arguments", counted)
    monkeypatch.setattr(loops, "hash_arguments", counted)
    crash = ToolFinished(at_ms=3, effect_id=EffectId("t2"), text="boom", started_at_ms=2, crashed=True)
    script = [*ONE_CALL[:2], crash, TimerFired(at_ms=9, effect_id=EffectId("w3"))]
    again = ToolFinished(at_ms=10, effect_id=EffectId("t4"), text="done", started_at_ms=9)
    after = run([*script, again])
    assert after.data.history.open == ()
    assert hashed == [{"path": "a"}]


def test_an_interrupt_passes_through_a_step(monkeypatch):
    """`KeyboardInterrupt` is no bug of the core: it ends the program, and not the step with an error of ours."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "TAKERS", {**machine.TAKERS, SessionBegan: interrupted})
    with pytest.raises(KeyboardInterrupt):
        machine.step(new_session(), SessionBegan(at_ms=0))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"a": ["b", {"c": "d"}, 3]}, {"a": ["b", {"c": "d"}, 3]}),
        ({"a": ["b", "x" * 2_500]}, {"a": ["b", f"{'x' * 500} [… 2,000 characters left out …]"]}),
        ({"a": {"b": "x" * 2_500}}, {"a": {"b": f"{'x' * 500} [… 2,000 characters left out …]"}}),
    ],
)
def test_a_call_is_sent_shorter_only_where_something_in_it_is_long(given, sent):
    """However deep it stands; a call without anything long is the very same one."""
    call = read_call("c1", "write", json.dumps(given))
    message = AssistantMessage(content=(Text(text="a"), call), model="m")
    _, messages = outgoing(Outgoing(), [message, *[UserMessage(content=(Text(text="b"),))] * 40])
    assert messages[0].calls[0].arguments == sent
    assert (messages[0] is message) == (given == sent)


def test_a_conversation_is_counted_anew_with_another_prompt():
    """What stands before it is part of what was counted."""
    state = run(ONE_CALL)
    step = StepContext(state.data, 9)
    before = count_history(step, 10)
    assert count_history(step, 30) == before + 20
    assert step.data.tokens.fixed == 30


def test_what_plugins_handed_on_counts_alone():
    """With what stands before it, and without the conversation that it is sent in place of."""
    state = run(ONE_CALL)
    step = StepContext(state.data, 9)
    handed = (UserMessage(content=(Text(text="abcd"),)),)
    request = request_of(state.data, EffectId("r9"), last_turn=False, messages=handed)
    assert count_tokens(step, request, is_handed=True) == fixed_of(state.data) + 1
