"""`CostGuard`: a session stops at its limits, and is warned before."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.events import BudgetWarning
from agentrail.events.values import Amount
from agentrail.plugins.cost_guard import CostGuard
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone, says

ASK = p.BeforeRequest()


def reason(outcome):
    """Why the cycle stops; None when it goes on."""
    return None if outcome.decision is None else outcome.decision.action.reason


def test_no_request_goes_over_a_limit():
    """At the limit the next request is not sent (5.8)."""
    guard = Alone(CostGuard, max_tokens=100, max_cost_usd=1.5)
    assert reason(guard.hears(ASK, total_tokens=99, cost_usd=1.0)) is None
    assert reason(guard.hears(ASK, total_tokens=100, cost_usd=1.0)) == "100 tokens of 100 tokens are used"
    assert reason(guard.hears(ASK, cost_usd=2.0)) == "2 US dollars of 1.5 US dollars are used"


def test_each_limit_warns_once():
    """At `warn_threshold` of a limit `BudgetWarning` is published, once for each (5.8)."""
    guard = Alone(CostGuard, max_tokens=100, max_cost_usd=1.0)
    assert guard.hears(ASK, total_tokens=79).events == ()
    tokens = BudgetWarning(spent=Amount(value=80, unit="tokens"), limit=Amount(value=100, unit="tokens"))
    assert guard.hears(ASK, total_tokens=80).events == (tokens,)
    assert guard.hears(ASK, total_tokens=90).events == ()
    (money,) = guard.hears(ASK, total_tokens=90, cost_usd=0.9).events
    assert money.spent.unit == "usd"


def test_an_unknown_price_cannot_be_held():
    """Where a price is unknown, a limit in dollars refuses, and says what to use instead."""
    guard = Alone(CostGuard, max_cost_usd=1.0)
    why = reason(guard.hears(ASK, cost_usd=None, model="local:x"))
    assert why == "no price is known for local:x, so max_cost_usd cannot be held: set max_tokens instead"
    assert reason(guard.hears(says("done"), cost_usd=None)) is None
    assert reason(Alone(CostGuard, max_tokens=9).hears(ASK, cost_usd=None)) is None


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and options that cannot be are refused; a failing guard is closed."""
    check_plugin(CostGuard, options=[{"max_tokens": 1_500}, {"max_cost_usd": 0.02, "warn_threshold": 0.1}])
    assert Alone(CostGuard, max_tokens=1).stack.members[0].on_error == "closed"
    for options in ({}, {"max_tokens": 0}, {"max_cost_usd": -1.0}):
        with pytest.raises(PluginError, match="give max_tokens, max_cost_usd or both, more than 0"):
            load_stack([(CostGuard, options)])
    with pytest.raises(PluginError, match="warn_threshold is a part of the limit"):
        load_stack([(CostGuard, {"max_tokens": 1, "warn_threshold": 2})])


@given(used=st.lists(st.integers(0, 60), max_size=12), limit=st.integers(1, 200))
def test_nothing_is_asked_once_a_limit_is_reached(used, limit):
    """However the tokens come in, the guard goes on exactly below the limit, and warns at most once."""
    guard, total, warned = Alone(CostGuard, max_tokens=limit), 0, 0
    for tokens in used:
        total += tokens
        outcome = guard.hears(ASK, total_tokens=total)
        assert (outcome.decision is None) == (total < limit)
        warned += len(outcome.events)
    assert warned == (total >= 0.8 * limit and bool(used))
