"""Budgets: an upper bound is reserved before a request and settled after it (7-providers, "Usage and cost")."""

import pytest
from msgspec.structs import replace

from agentrail.core.policy import budget as b
from agentrail.errors import OptionError
from agentrail.messages import TokenUsage

PRICE = b.Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
R1, R2 = b.ReservationId("s1/r1"), b.ReservationId("s1/r2")


def opened(ledger: b.Ledger, reservation_id: b.ReservationId, bound: b.Bound) -> b.Ledger:
    after = b.reserve(ledger, reservation_id, bound)
    assert isinstance(after, b.Ledger)
    return after


def test_a_budget_or_a_price_that_cannot_be_is_refused():
    """With the option, what it got and what it takes; a model of one's own may cost nothing, but not less."""
    for given, fault in (
        ({}, "budget limits nothing: give max_cost_usd, max_total_tokens, or both"),
        ({"max_cost_usd": 0}, "max_cost_usd is 0: expected a finite number of dollars above 0, or None"),
        ({"max_cost_usd": float("inf")}, "budget.max_cost_usd is inf"),
        ({"max_cost_usd": 10**400}, "budget.max_cost_usd is 1000"),
        ({"max_cost_usd": "1"}, "budget.max_cost_usd is '1'"),
        ({"max_cost_usd": True}, "budget.max_cost_usd is True"),
        ({"max_total_tokens": 0}, "budget.max_total_tokens is 0: expected a whole number >= 1, or None"),
        ({"max_total_tokens": 1.5}, "budget.max_total_tokens is 1.5"),
        ({"max_total_tokens": True}, "budget.max_total_tokens is True"),
        ({"max_total_tokens": 1, "allow_unknown_prices": 1}, "prices is 1: expected True or False"),
    ):
        with pytest.raises(OptionError) as caught:
            b.Budget(**given)
        assert fault in str(caught.value), given
    for price in ({"input": -1, "output": 0}, {"input": 1, "output": 1, "cache_read": "x"}):
        with pytest.raises(OptionError, match="a finite number of dollars per million tokens, >= 0"):
            b.Price(**price)
    assert b.Price(input=0, output=0).cost_usd(TokenUsage(input=10**9, output=10**9)) == 0


def test_a_limit_is_met_to_the_last_billionth_and_the_last_token():
    """A bound rounds up, and what is as large as what is left is taken; tokens need no price."""
    least = b.bound_of(1, 0, b.Price(input=0.0001, output=0))
    assert least.nano_usd == 1
    ledger = opened(b.Ledger(budget=b.Budget(max_cost_usd=1e-9)), R1, least)
    assert isinstance(b.reserve(ledger, R2, least), b.BudgetRefusal)

    ledger = opened(b.Ledger(budget=b.Budget(max_total_tokens=100)), R1, b.bound_of(60, 40, None))
    assert b.budget_left(ledger) == b.BudgetLeft(cost_usd=None, tokens=0)
    refusal = b.reserve(ledger, R2, b.bound_of(1, 0, None))
    assert isinstance(refusal, b.BudgetRefusal)
    assert refusal.reason == "tokens"
    assert refusal.message.startswith(
        "the request may use up to 1 tokens, and 0 of 100 are left: raise the budget"
    )


def test_a_cost_of_any_size_is_counted():
    """A price and a reported cost may be as large as a number can be, and in billionths of a dollar they are infinite."""
    bound = b.bound_of(60, 40, b.Price(input=1e308, output=1e308))
    refusal = b.reserve(b.Ledger(budget=b.Budget(max_cost_usd=1.0)), R1, bound)
    assert isinstance(refusal, b.BudgetRefusal)
    assert refusal.reason == "cost"

    ledger = opened(b.Ledger(budget=b.Budget(max_cost_usd=1.0)), R1, b.Bound(tokens=1, nano_usd=1))
    ledger = b.settle(ledger, R1, TokenUsage(input=1, cost_usd=1e308))
    assert b.budget_left(ledger).cost_usd == 0
    assert b.spent_of(TokenUsage(cost_usd=1e308), None).nano_usd == ledger.spent_nano_usd > 10**307


@pytest.mark.at(124)
def test_what_is_promised_counts_before_it_is_spent():
    """Two requests that start together do not pass a limit together: the second finds what the first left over."""
    ledger = opened(b.Ledger(budget=b.Budget(max_cost_usd=0.01)), R1, b.bound_of(0, 400, PRICE))
    refusal = b.reserve(ledger, R2, b.bound_of(0, 400, PRICE))
    assert refusal == b.BudgetRefusal(
        reason="cost",
        message="the request may cost up to $0.006000, and $0.004000 of $0.010000 are left: raise the budget, or lower "
        "max_output_tokens",
    )
    assert refusal.error.code == "budget_exceeded"
    assert b.budget_left(ledger) == b.BudgetLeft(cost_usd=0.004, tokens=None)


def test_what_nobody_knows_is_refused_unless_allowed():
    """An unknown price is no free request."""
    unknown = b.bound_of(10, None, None)
    for limits, reason, advice in (
        (
            {"max_cost_usd": 1},
            "unknown_price",
            ", but the maximum cost of this request is unknown: give price= and an output limit for the model, or allow it with",
        ),
        ({"max_total_tokens": 100}, "unknown_output", "give max_output_tokens"),
    ):
        refusal = b.reserve(b.Ledger(budget=b.Budget(**limits)), R1, unknown)
        assert isinstance(refusal, b.BudgetRefusal)
        assert refusal.reason == reason
        assert advice in refusal.message
        allowing = b.Ledger(budget=b.Budget(**limits, allow_unknown_prices=True))
        assert len(opened(allowing, R1, unknown).open) == 1


def test_a_cost_is_booked_as_it_was_reserved_or_as_it_came():
    """Without a price as it was reserved, and when that was not known the sum is not known; a vendor that uses more than it may leaves nothing."""
    unpriced = TokenUsage(input=100, output=1, cost_usd=None)
    ledger = opened(b.Ledger(budget=b.Budget(max_cost_usd=1)), R1, b.bound_of(100, 10, PRICE))
    settled = b.settle(ledger, R1, unpriced)
    assert (settled.spent_tokens, settled.spent_nano_usd, settled.is_cost_known) == (101, 525_000, True)
    lax = b.Ledger(budget=b.Budget(max_cost_usd=1, allow_unknown_prices=True))
    settled = b.settle(opened(lax, R1, b.bound_of(100, 10, None)), R1, unpriced)
    assert (settled.spent_tokens, settled.spent_nano_usd, settled.is_cost_known) == (101, 0, False)
    again = b.settle(opened(settled, R2, b.bound_of(1, 1, PRICE)), R2, TokenUsage())
    assert not again.is_cost_known

    ledger = opened(
        b.Ledger(budget=b.Budget(max_cost_usd=0.001, max_total_tokens=20)), R1, b.bound_of(10, 10, PRICE)
    )
    settled = b.settle(ledger, R1, TokenUsage(input=50, output=10, cost_usd=0.002))
    assert b.budget_left(settled) == b.BudgetLeft(cost_usd=0.0, tokens=0)
    assert isinstance(b.reserve(settled, R2, b.bound_of(1, 0, b.Price(input=0, output=0))), b.BudgetRefusal)


def test_a_reservation_counts_once_and_is_given_back_whole():
    """A child may not know whether its question arrived; what never went out costs nothing; the cost of several children is known when each is."""
    ledger = opened(b.Ledger(budget=b.Budget(max_total_tokens=10)), R1, b.bound_of(5, 5, None))
    assert b.reserve(ledger, R1, b.bound_of(5, 5, None)) is ledger

    ledger = b.Ledger(budget=b.Budget(max_total_tokens=10))
    assert b.release(opened(ledger, R1, b.bound_of(5, 5, None)), R1) == ledger
    assert b.release(ledger, R1) == ledger

    known, unknown = TokenUsage(input=1, output=2, cost_usd=0.5), TokenUsage(input=4, output=0, cost_usd=None)
    one = b.Spent(usage=known, tokens=3, nano_usd=5)
    other = b.Spent(usage=unknown, tokens=4, nano_usd=7, is_cost_known=False)
    both = TokenUsage(input=5, output=2, cost_usd=None)
    assert one + other == b.Spent(usage=both, tokens=7, nano_usd=12, is_cost_known=False)


def test_a_limit_beyond_any_bill_is_a_limit():
    """It has no value in billionths of a dollar that is finite, and holds for a cycle all the same."""
    ledger = b.limit_cycle(b.Ledger(budget=b.Budget(max_cost_usd=9.0)), 1e308, None)
    assert isinstance(b.reserve(ledger, R1, b.Bound(tokens=1, nano_usd=10**30)), b.Ledger)


def test_children_get_equal_shares_of_what_is_left():
    """Each share is promised until it is taken back; what the child did not use is free again, and what is used up is not lent."""
    ledger = b.Ledger(budget=b.Budget(max_cost_usd=0.3, max_total_tokens=100), spent_tokens=10)
    ledger, first = b.lend(ledger, R1, 2)
    ledger, second = b.lend(ledger, R2, 1)
    assert first == second == b.Budget(max_cost_usd=0.15, max_total_tokens=45)
    assert b.budget_left(ledger) == b.BudgetLeft(cost_usd=0.0, tokens=0)
    usage = TokenUsage(input=4, output=1, cost_usd=0.1)
    back = b.take_back(ledger, R1, b.spent_of(usage, None))
    assert (back.spent_tokens, back.spent_nano_usd) == (15, 100_000_000)
    assert b.budget_left(back) == b.BudgetLeft(cost_usd=0.05, tokens=40)
    assert b.take_back(back, R1, b.spent_of(usage, None)) is back
    lost = b.take_back(back, R2, None)
    assert (lost.spent_tokens, lost.open) == (60, ())

    # A child without a budget of its own would be one without a limit.
    for budget, spent, what in (
        ({"max_total_tokens": 100}, {"spent_tokens": 99}, "100 tokens"),
        ({"max_cost_usd": 1}, {"spent_nano_usd": 1_000_000_000}, "$1.000000"),
    ):
        refusal = b.lend(b.Ledger(budget=b.Budget(**budget), **spent), R1, 2)
        assert isinstance(refusal, b.BudgetRefusal)
        said = f"nothing of {what} is left for a sub-agent: raise the budget, or continue without a sub-agent"
        assert refusal.message == said


@pytest.mark.parametrize(
    ("own", "cost", "tokens", "allows"),
    [
        (None, 0.75, None, False),
        (b.Budget(max_cost_usd=0.6), 0.6, None, False),
        (b.Budget(max_cost_usd=5.0, max_total_tokens=9), 0.75, 9, False),
        (b.Budget(max_total_tokens=9, allow_unknown_prices=True), 0.75, 9, True),
    ],
)
def test_a_cycle_is_lent_its_limit_beside_what_is_booked_and_reserved(own, cost, tokens, allows):
    """Within the session's own budget, however much earlier cycles have left over or lack."""
    ledger = b.Ledger(budget=own or b.Budget(max_cost_usd=9.0), spent_nano_usd=200_000_000)
    held = replace(ledger, open=((R1, b.Bound(tokens=1, nano_usd=50_000_000)),))
    lent = b.limit_cycle(held, 0.5, own)
    assert lent.budget == b.Budget(max_cost_usd=cost, max_total_tokens=tokens, allow_unknown_prices=allows)
    assert (lent.spent_nano_usd, lent.open) == (held.spent_nano_usd, held.open)
