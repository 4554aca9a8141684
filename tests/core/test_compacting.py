"""What comes while a conversation is shortened: it waits, it is not lost, and only an abort ends the compaction (3.10)."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from agentrail.core.policy.budget import Budget, Price
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import CancelStream, Publish, Refuse, StartStream
from agentrail.core.protocol.hooks import FileWritten
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.session import machine
from agentrail.core.session.effect_owners import OfSummaryTimer
from agentrail.core.session.state import Phase
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import read_call
from agentrail.errors import ErrorInfo, SessionDown
from agentrail.events import CompactEnd, PromptDropped
from agentrail.messages import CallId, SteerRef, Text, TokenUsage, ToolCall, UserMessage
from agentrail.testing.promises import PROMISES
from agentrail.testing.promises.conversation import a_budget_is_never_passed_by_a_promise
from agentrail.testing.scenario import read_scenario
from tests.core.worlds import completed, new_session, prompt, walk

SCRIPT = Path("tests/scenarios/compact_aborted.txt")


def compacting(**changed):
    """A session that waits for a summary, as the scenario has it up to `Compact`."""
    scenario = read_scenario((Path(__file__).parents[2] / SCRIPT).read_text())
    stack, states = load_stack(scenario.plugins)
    config = replace(scenario.config, **changed)
    state = machine.new_session(config, scenario.tools, stack, states)
    for line in scenario.inputs:
        if isinstance(line.signal, s.Steer):
            break
        state, _ = machine.step(state, line.signal)
    assert state.data.compaction is not None
    return state


def said(state):
    users = [message for message in state.data.history.messages if isinstance(message, UserMessage)]
    return [block.text for message in users for block in message.content if isinstance(block, Text)]


SPEAKING = [
    prompt("p9", "And you?", at_ms=110),
    s.Steer(at_ms=110, signal_id=s.SignalId("p9"), ref=SteerRef("p9"), text="And you?"),
]


@pytest.mark.at(41, 42, 45, 46)
@pytest.mark.parametrize("spoken", SPEAKING, ids=["prompt", "steer"])
def test_what_is_said_in_a_compaction_waits_and_is_heard(spoken):
    """It stops nothing, is not dropped, and stands in the history behind the summary."""
    state, effects = machine.step(compacting(), spoken)
    assert not any(isinstance(effect, CancelStream) for effect in effects)
    assert state.data.compaction is not None
    all_of_it = [*effects]
    for signal in (
        completed(state.data.compaction.effect_id, Text(text="They lived.")),
        s.PluginRequestFinished(
            at_ms=130, effect_id=EffectId("e6"), result=FileWritten(path="c/x.md", written_bytes=9)
        ),
    ):
        state, effects = machine.step(state, signal)
        all_of_it += effects
    published = [effect.event for effect in all_of_it if isinstance(effect, Publish)]
    assert any(isinstance(event, CompactEnd) and event.removed for event in published)
    assert not any(isinstance(event, PromptDropped) for event in published)
    assert said(state)[-1] == "And you?"
    assert state.phase is Phase.RUNNING
    assert isinstance(all_of_it[-1], StartStream)


PRICE = Price(input=3.0, output=15.0)
PRICED = ModelFacts(model="m", context_window=200_000, max_output_tokens=8_000, price=PRICE)
PAID = {"model": PRICED, "budget": Budget(max_cost_usd=100.0, max_total_tokens=1_000_000)}
OVERLOADED = ErrorInfo(code="overloaded", message=".")
BROKEN = s.StreamFailed(
    at_ms=120, effect_id=EffectId("c5"), error=OVERLOADED, usage=TokenUsage(cost_usd=None)
)


def silent(state):
    """The timer that looks whether the summary's stream is silent, when it is."""
    (timer,) = (name for name, owner in state.data.open.items() if isinstance(owner, OfSummaryTimer))
    return s.TimerFired(at_ms=10_000_000, effect_id=timer)


def test_a_summary_without_text_is_a_summary():
    """A model calls a tool in place of a summary. Its request has ended, and the budget holds nothing for it."""
    before = compacting(**PAID)
    call = ToolCall(call_id=CallId("t1"), name="fly", arguments={})
    (seen,) = walk([completed(before.data.compaction.effect_id, call)], before)
    assert seen.after.data.compaction.summary == ""
    assert not seen.after.data.ledger.open
    a_budget_is_never_passed_by_a_promise(seen)


CUTS = {
    "broke off": lambda _: BROKEN,
    "silent": silent,
    "aborted": lambda _: s.AbortCycle(at_ms=120, signal_id=s.SignalId("a1")),
    "stopped": lambda state: s.Recovered(at_ms=120, cause="gone", open=tuple(state.data.open)),
}


def test_an_abort_does_not_wait_for_the_file_of_the_full_text():
    """It may still be written. No promise is broken by that, and the file's end changes nothing."""
    asked = compacting()
    writing, _ = machine.step(asked, completed(asked.data.compaction.effect_id, Text(text="They lived.")))
    (seen,) = walk([CUTS["aborted"](writing)], writing)
    for promise in PROMISES:
        promise(seen)
    assert (seen.after.data.compaction, seen.after.data.open, seen.after.phase) == (None, {}, Phase.IDLE)
    late = s.PluginRequestFinished(
        at_ms=130, effect_id=EffectId("e6"), result=FileWritten(path="c/x.md", written_bytes=9)
    )
    assert machine.step(seen.after, late)[0].data.history == seen.after.data.history


@pytest.mark.parametrize("cut", CUTS)
def test_a_summary_that_is_cut_is_not_free(cut):
    """The budget counts all that was reserved, and users read an estimate with its price: as of a turn that is cut."""
    before = compacting(**PAID)
    (bound,) = (bound for name, bound in before.data.ledger.open if name.endswith("/c5"))
    was, ledger = before.data.usage, before.data.ledger
    after = machine.step(before, CUTS[cut](before))[0].data
    assert after.ledger.spent_tokens - ledger.spent_tokens == bound.tokens
    assert after.ledger.spent_nano_usd - ledger.spent_nano_usd == bound.nano_usd
    used = after.usage.input - was.input
    assert used > 20
    assert after.usage.cost_usd == pytest.approx(was.cost_usd + used * 3e-6)
    assert after.usage.estimated
    old = replace(before, data=replace(before.data, semantics=0))
    folded = machine.step(old, CUTS[cut](old))[0].data  # an older journal folds as it was lived
    assert (folded.usage.total, folded.usage.estimated) == (was.total, False)
    unpriced = compacting(model=replace(PRICED, price=None))
    assert machine.step(unpriced, CUTS[cut](unpriced))[0].data.usage.cost_usd is None


def test_a_session_that_stops_shortens_nothing_more():
    """Its call is still being stopped. The caller is told that the session has ended."""
    call = read_call("c1", "deploy", "{}")
    stop = s.StopSession(at_ms=3, signal_id=s.SignalId("k1"))
    *_, stopping = walk([prompt(), completed("r1", call), stop], new_session())
    (seen,) = walk([s.Compact(at_ms=4, signal_id=s.SignalId("k2"))], stopping.after)
    (refusal,) = seen.of(Refuse)
    assert isinstance(refusal.error, SessionDown)
    assert seen.after.data.compact_asked is None
