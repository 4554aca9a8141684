"""Where a session goes on in a branch: what was open there has ended, the conversation is whole, and the next prompt works."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentrail.core.journal.fold import rewound_state
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol import signals as s
from agentrail.core.session.batch import NOT_IN_A_BRANCH
from agentrail.core.session.fork import (
    NOT_IN_THIS_BRANCH,
    config_of_fork,
    forked_state,
    without_what_was_open,
)
from agentrail.core.session.machine import new_session as make_session, step
from agentrail.core.session.state import SEMANTICS, Phase, SessionState
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import read_call
from agentrail.messages import SessionId, ToolMessage
from agentrail.plugins import AfterTurn, CallModel, Request
from agentrail.testing.promises import PROMISES
from agentrail.testing.promises.observed_step import Seen
from tests.core.journal.recorded import Told, call
from tests.core.plugin_rig import Says
from tests.core.test_agents import SAID, lives
from tests.core.worlds import (
    TOOLS,
    agents_session,
    changed,
    completed,
    config,
    new_session,
    prompt,
    run,
    small_world,
)
from tests.thinned import sample

STILL = s.StatusQuery(at_ms=9, signal_id=s.SignalId("q"))
NEXT = prompt("next", "And now?", at_ms=10)


def holds(branch: SessionState) -> None:
    """Hold a branch against all that is promised of a session, as it is and with its next prompt."""
    assert branch.phase is Phase.IDLE
    assert not branch.ended
    assert not branch.data.open
    assert not branch.data.interactions
    for signal in (STILL, NEXT):
        after, effects = step(branch, signal)
        for promise in PROMISES:
            promise(Seen(branch, signal, after, effects))
        branch = after
    assert branch.phase is not Phase.IDLE


@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.check), 41])
def test_a_branch_begins_at_every_state_of_a_small_world(each):
    """Whatever was open: a stream, a batch, a question, a survivor, a teardown. Each time the next prompt begins at once."""
    states = [seen.before for seen in small_world()]
    begun = [state for last, state in pairwise((None, *states)) if state is not last]
    assert len(begun) > 1_000
    for state in sample(begun[::each], len(begun) // 20):
        holds(without_what_was_open(state, 8))


def test_what_goes_on_in_the_background_stays_behind():
    """The model reads in front of its next turn that it is gone."""
    gone = 0
    for seen in small_world():
        going_on = [one for one in seen.before.data.survivors if one.detached and one.stage == "running"]
        branch = without_what_was_open(seen.before, 8) if going_on and not gone else None
        if branch is not None:
            gone += len(going_on)
            assert sum(NOT_IN_A_BRANCH[1:-1] in note for note in branch.data.agents.notes) == len(going_on)
    assert gone


def test_a_branch_tells_of_the_call_in_the_background_alone():
    """Not of one that only outlived an abort: the model never saw that it runs."""
    calls = completed("r1", *(read_call(f"c{n}", "watch", "{}") for n in (1, 2)))
    abort = s.AbortCycle(at_ms=5, signal_id=s.SignalId("a"))
    state = run([prompt("p"), calls, abort], new_session(max_parallel_tools=2))
    first, second = state.data.survivors
    state = changed(state, survivors=(first, msgspec.structs.replace(second, detached=True)))
    (note,) = without_what_was_open(state, 8).data.agents.notes
    assert "call c2, is over in the background" in note
    assert NOT_IN_A_BRANCH[1:-1] in note


@pytest.mark.check
@given(drawn=st.lists(SAID, min_size=20, max_size=60), budget=st.sampled_from((None, 100_000)))
def test_a_branch_begins_where_agents_work(drawn, budget):
    """Those in the background are gone in it, what waited for them does not wait, and what was lent is free again."""
    options = {} if budget is None else {"budget": Budget(max_total_tokens=budget), "max_output_tokens": 20}
    for seen in lives(agents_session(**options), drawn):
        branch = without_what_was_open(seen.after, 8)
        assert not branch.data.agents.alive
        assert branch.data.ledger is None or not branch.data.ledger.open
        holds(branch)


@pytest.mark.at(57)
def test_open_calls_end_as_not_in_this_branch():
    """What had ended keeps its result; the others are answered, once, and no prompt that waited is there."""
    session = Told(new_session(TOOLS, max_parallel_tools=4, max_steering_queue=2))
    session.prompt("Go.")
    session.hear("I")
    session.complete("I", call("read", "c1"), call("read", "c2"), call("ask", "c3", question="Now?"))
    running = next(iter(session.life.state.data.batch))
    session.finish(str(running.effect_id), "A fox.")
    session.prompt("And then?")
    state = session.life.state
    assert state.data.interactions
    assert state.data.queue
    branch = without_what_was_open(state, 20)
    last = branch.data.history.messages[-1]
    assert isinstance(last, ToolMessage)
    texts = [result.text for result in last.results]
    assert texts == ["A fox.", NOT_IN_THIS_BRANCH, NOT_IN_THIS_BRANCH]
    assert branch.data.queue == ()
    assert branch.data.seq == state.data.seq
    assert branch.data.last is not None
    assert branch.data.last.outcome == "aborted"
    holds(branch)


def test_a_fork_begins_with_what_is_spent():
    """Whatever its limits are; what was promised to what is not in it is free again."""
    session = Told(new_session(TOOLS, budget=Budget(max_total_tokens=500_000), max_output_tokens=20))
    session.prompt()
    session.complete("It is a fox.")
    session.prompt()
    data = session.life.state.data
    assert data.ledger.open
    for budget in (None, Budget(max_total_tokens=900), Budget(max_total_tokens=500_000)):
        wanted = msgspec.structs.replace(config_of_fork(data.config, SessionId("f")), budget=budget)
        ledger = forked_state(session.life.state, wanted, 20).data.ledger
        assert ledger == (budget and msgspec.structs.replace(data.ledger, budget=budget, open=()))


def test_a_branch_does_not_share_the_limit_of_a_cycle():
    """Otherwise a session without a budget would refuse requests without a known price in its forks for ever."""
    state = run([prompt(settings=PromptSettings(max_cost_usd=0.5))], new_session())
    assert state.data.ledger is not None
    branch = without_what_was_open(state, 8)
    assert branch.data.ledger is None
    holds(branch)


OWN = Budget(max_cost_usd=5.0, max_total_tokens=900_000, allow_unknown_prices=True)


def limited(own: Budget, **changes: Any) -> SessionState:
    """A session with a budget, in a cycle with a limit of its own, that a plugin asks about when it ends."""
    wants = lambda event, state, ctx: Request(CallModel(prompt="Fine?", max_output_tokens=3), "judge", state)  # noqa: E731
    stack, states = load_stack([Says("asks", wants, hooks=(AfterTurn,))])
    start = make_session(config(budget=own, max_output_tokens=20), TOOLS, stack, states)
    state = run([prompt(settings=PromptSettings(max_cost_usd=0.5))], start)
    assert state.data.ledger is not None
    assert state.data.ledger.budget == evolve(own, max_cost_usd=0.5)
    return changed(state, **changes)


@pytest.mark.parametrize("own", [OWN, evolve(OWN, max_cost_usd=None)])
def test_a_branch_of_a_session_with_a_budget_has_no_other_limit(own):
    """And nothing is reserved in it for requests of plugins that never start."""
    state = limited(own)
    fork = forked_state(state, config_of_fork(state.data.config, SessionId("f")), 8)
    for branch in (fork, rewound_state(state, state, 8)):
        assert branch.data.ledger == msgspec.structs.replace(state.data.ledger, budget=own, open=())
        holds(branch)


def test_a_branch_keeps_a_budget_that_was_raised():
    """A parent session lends more than at first, and a fork of its child can spend it."""
    state = limited(OWN)
    more = Budget(max_cost_usd=7.0, max_total_tokens=1_000, allow_unknown_prices=True)
    state, _ = step(state, s.BudgetLent(at_ms=7, budget=more))
    raised = state.data.ledger.budget
    assert raised.max_cost_usd >= 7.0
    assert rewound_state(state, state, 8).data.ledger.budget == raised
    fork = forked_state(state, config_of_fork(state.data.config, SessionId("f")), 8)
    assert fork.data.ledger.budget == raised


def test_a_rewind_of_an_earlier_version_keeps_the_limit_of_the_last_cycle():
    """Its journal folds as it was written. The version that counts is that of the session now, which may be newer."""
    old = limited(OWN, semantics=3)
    ledger = rewound_state(old, old, 8).data.ledger
    assert ledger.budget == old.data.ledger.budget
    assert len(ledger.open) == 1  # of the plugin's request
    now = changed(old, semantics=SEMANTICS)
    assert rewound_state(now, old, 8).data.ledger == msgspec.structs.replace(ledger, budget=OWN, open=())
    fork = forked_state(old, config_of_fork(old.data.config, SessionId("f")), 8)
    assert (fork.data.semantics, fork.data.ledger.budget) == (SEMANTICS, OWN)
