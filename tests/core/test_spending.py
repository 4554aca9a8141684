"""What a session reserves and books, over whole cycles; sums and limits are judged in test_budget."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.budget import Budget, Ledger, Price, spent_of
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import RunPluginRequest, SpawnChild
from agentrail.core.protocol.hooks import RequestFailed
from agentrail.core.protocol.request import EffectId, ModelFacts, TextDelta
from agentrail.core.session.machine import new_session as make_session
from agentrail.core.session.state import SessionState
from agentrail.core.session.views import status_of
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox, read_call
from agentrail.errors import ErrorInfo
from agentrail.events import AgentError, PluginEvent, ToolExecutionEnd
from agentrail.messages import Text, TokenUsage
from agentrail.plugins import BeforePrompt, CallModel, Emit, Request
from agentrail.testing import strategies
from agentrail.testing.promises import PROMISES
from tests.core.plugin_rig import Says
from tests.core.test_children_of_tools import TASK, at_work
from tests.core.worlds import TOOLS, changed, completed, config, new_session, prompt, run, walk

PROMPT = prompt(text="Hello")
SMALL: dict[str, Any] = {
    "budget": Budget(max_total_tokens=400),
    "max_output_tokens": 40,
    "max_prompt_queue": 3,
}


def asks(**options: Any) -> Says:
    """Make a plugin that asks a model on each prompt, and tells what came."""

    def answer(event: Any, state: Any, ctx: Any) -> Any:
        if isinstance(event, BeforePrompt):
            return Request(CallModel(prompt="Is it fine?", **options), "judge", state)
        if isinstance(event.result, RequestFailed):
            return Emit("failed", event.result.error.code, state)
        return Emit("told", type(event.result).__name__, state)

    return Says("asks", answer, hooks=(BeforePrompt,))


def asking(**options: Any) -> SessionState:
    stack, states = load_stack([asks(max_output_tokens=30)])
    return make_session(config(max_output_tokens=40, **options), Toolbox(), stack, states)


def test_what_a_plugin_asks_is_refused_when_it_cannot_be_paid():
    """The shell answers it with the refusal, so the plugin hears RequestDone like of any other failure; the cycle goes on."""
    *_, seen = walk([PROMPT], asking(budget=Budget(max_total_tokens=43)))
    (refused,) = seen.of(RunPluginRequest)
    assert refused.refused is None  # 33 are free before the prompt's own request is judged
    assert isinstance(seen.events[-1], AgentError)
    start = asking(budget=Budget(max_total_tokens=32))
    *_, seen = walk([PROMPT], start)
    (plugin_request,) = seen.of(RunPluginRequest)
    assert plugin_request.refused.code == "budget_exceeded"
    assert "the request may use up to 33 tokens, and 32 of 32 are left" in plugin_request.refused.message
    done = s.PluginRequestFinished(
        at_ms=5, effect_id=plugin_request.effect_id, result=RequestFailed(error=plugin_request.refused)
    )
    *_, seen = walk([done], seen.after)
    (told,) = [event for event in seen.events if isinstance(event, PluginEvent)]
    assert (told.name, told.payload) == ("failed", "budget_exceeded")


def test_a_plugin_request_to_a_model_that_nobody_knows_needs_a_budget_that_allows_it():
    """Its price is unknown, so a limit of the cost refuses it, as it refuses such a request of the session."""
    stack, states = load_stack([asks(model="other:model")])
    for allowed in (False, True):
        budget = Budget(max_cost_usd=1, allow_unknown_prices=allowed)
        *_, seen = walk([PROMPT], make_session(config(budget=budget), Toolbox(), stack, states))
        (plugin_request,) = seen.of(RunPluginRequest)
        assert (plugin_request.refused is None) == allowed


def with_tasks(*calls: str, **options: Any) -> SessionState:
    """A session whose model has called for children, one for each of these ids."""
    response = completed("r1", *(read_call(call_id, "task", "{}") for call_id in calls))
    return run([PROMPT, response], new_session(Toolbox([TASK]), max_output_tokens=40, **options))


TIGHT = {"budget": Budget(max_total_tokens=400)}
STARTS: dict[str, tuple[SessionState, tuple[str, ...]]] = {
    "requests": (new_session(**SMALL), strategies.TOOL_NAMES),
    "requests of plugins": (asking(budget=Budget(max_total_tokens=300)), strategies.TOOL_NAMES),
    "children": (with_tasks("c1", "c2", **TIGHT), ("task",)),
    "sessions of tools": (at_work("read", "watch", "task"), ("read", "watch", "task")),
}


@pytest.mark.check
@pytest.mark.parametrize("what", STARTS)
@given(data=st.data())
def test_a_budget_holds_in_long_scripts(what, data):
    """Whatever becomes of them: each is reserved while it is out, what was lent and is not back is promised, none could pass the limit."""
    start, names = STARTS[what]
    for seen in walk(data.draw(strategies.scripts(start, names)), start):
        for promise in PROMISES:
            promise(seen)


def test_children_are_lent_equal_shares_of_what_is_left():
    """As many shares as calls of the batch want a child, also those that wait for a slot; what was used comes back counted."""
    state = with_tasks("c1", "c2", "c3", budget=Budget(max_total_tokens=401))  # two run at a time
    spent_tokens = 2
    share = (401 - spent_tokens) // 3
    ledger = state.data.ledger
    assert [bound.tokens for _, bound in ledger.open] == [share, share]
    usage = TokenUsage(input=30, output=20, cost_usd=0.5)
    done = s.ToolFinished(
        at_ms=5,
        effect_id=state.data.batch[0].effect_id,
        text="ok",
        started_at_ms=1,
        spent=spent_of(usage, None),
    )
    *_, seen = walk([done], state)
    (third,) = seen.of(SpawnChild)
    assert third.budget == Budget(max_total_tokens=401 - spent_tokens - share - 50)
    data = seen.after.data
    assert data.ledger.spent_tokens == spent_tokens + 50
    assert data.usage == TokenUsage(input=31, output=21, cost_usd=0.5)
    assert data.cycle.usage == data.usage


def test_a_call_whose_child_cannot_be_paid_is_answered():
    """The model reads why; nothing is started, and the cycle goes on to where its own request is judged."""
    used_up = Ledger(budget=Budget(max_total_tokens=100), spent_tokens=100)
    state = run(
        [PROMPT], new_session(Toolbox([TASK]), max_output_tokens=40, budget=Budget(max_total_tokens=200))
    )
    *_, seen = walk([completed("r1", read_call("c1", "task", "{}"))], changed(state, ledger=used_up))
    assert not seen.of(SpawnChild)
    (end,) = [event for event in seen.events if isinstance(event, ToolExecutionEnd)]
    assert end.result.text.startswith("nothing of 100 tokens is left for a sub-agent")
    assert isinstance(seen.events[-1], AgentError)


DOLLARS = msgspec.structs.replace(
    config(budget=Budget(max_cost_usd=1.0), max_output_tokens=1000),
    model=ModelFacts(model="scripted:model", price=Price(input=1.0, output=10.0)),
)


REFUSED = ErrorInfo(code="bad_request", message="no")
ABORT = s.AbortCycle(at_ms=2, signal_id=s.SignalId("a1"))


@pytest.mark.parametrize(
    ("end", "spent_nano_usd"),
    [
        (completed("r1", Text(text="Hi.")), 0),  # the shell says that it was free
        (ABORT, None),
        (s.StreamFailed(at_ms=2, effect_id=EffectId("r1"), error=REFUSED), None),
        (
            s.StreamFailed(
                at_ms=2, effect_id=EffectId("r1"), error=REFUSED, usage=TokenUsage(input=5, cost_usd=0.25)
            ),
            250_000_000,
        ),
    ],
)
def test_an_end_that_nobody_reports_counts_as_it_was_reserved(end, spent_nano_usd):
    """A response that breaks off costs all that was promised to it (None); one that the server reports costs what it says."""
    chunks = s.ChunksArrived(at_ms=1, effect_id="r1", chunks=(TextDelta("Hi."),))
    state = run([PROMPT, s.StreamStarted(at_ms=1, effect_id="r1"), chunks], make_session(DOLLARS, TOOLS))
    if spent_nano_usd is None:
        ((_, bound),) = state.data.ledger.open
        spent_nano_usd = bound.nano_usd
    state = run([end], state)
    assert state.data.ledger.open == ()
    assert state.data.ledger.spent_nano_usd == spent_nano_usd
    left = status_of(state.phase, state.data, at_ms=3).budget_left
    assert left.cost_usd == pytest.approx(1.0 - spent_nano_usd / 1e9)


def test_a_journal_of_before_counts_what_was_cut_as_it_did():
    """As an estimate. With another sum its fold could refuse a request that was made."""
    begun = make_session(DOLLARS, TOOLS)
    old = changed(begun, semantics=0)
    script = [PROMPT, s.StreamStarted(at_ms=1, effect_id="r1"), ABORT]
    before, after = run(script, old).data, run(script, begun).data
    assert before.usage == after.usage
    assert before.ledger.spent_nano_usd == round(before.usage.cost_usd * 1e9) < after.ledger.spent_nano_usd
