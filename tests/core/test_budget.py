"""Budgets: an upper bound is reserved before a request and settled after it (7-providers, "Usage and cost")."""

import pytest

from agentrail.core.policy.budget import (
    Bound,
    Budget,
    BudgetLeft,
    BudgetRefusal,
    Ledger,
    Price,
    ReservationId,
    Spent,
    bound_of,
    budget_left,
    lend,
    release,
    reserve,
    settle,
    spent_of,
    take_back,
)
from agentrail.errors import OptionError
from agentrail.messages import TokenUsage

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
R1, R2 = ReservationId("s1/r1"), ReservationId("s1/r2")


def opened(ledger: Ledger, reservation_id: ReservationId, bound: Bound) -> Ledger:
    """Reserve what must be there."""
    after = reserve(ledger, reservation_id, bound)
    assert isinstance(after, Ledger)
    return after


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "budget limits nothing: give max_cost_usd, max_total_tokens, or both"),
        (
            {"max_cost_usd": 0},
            "budget.max_cost_usd is 0: expected a finite number of dollars above 0, or None",
        ),
        ({"max_cost_usd": float("inf")}, "budget.max_cost_usd is inf"),
        ({"max_cost_usd": "1"}, "budget.max_cost_usd is '1'"),
        ({"max_cost_usd": True}, "budget.max_cost_usd is True"),
        ({"max_total_tokens": 0}, "budget.max_total_tokens is 0: expected a whole number from 1, or None"),
        ({"max_total_tokens": 1.5}, "budget.max_total_tokens is 1.5"),
        ({"max_total_tokens": True}, "budget.max_total_tokens is True"),
        (
            {"max_total_tokens": 1, "allow_unknown_prices": 1},
            "allow_unknown_prices is 1: expected True or False",
        ),
    ],
)
def test_a_budget_that_cannot_be_is_refused(given, fault):
    """With the option, what it got and what it takes."""
    with pytest.raises(OptionError) as caught:
        Budget(**given)
    assert fault in str(caught.value)


@pytest.mark.parametrize("given", [{"input": -1, "output": 0}, {"input": 1, "output": 1, "cache_read": "x"}])
def test_a_price_that_cannot_be_is_refused(given):
    """A model of one's own may cost nothing, but not less."""
    with pytest.raises(OptionError, match="expected a finite number of dollars per million tokens, from 0"):
        Price(**given)
    assert Price(input=0, output=0).cost_usd(TokenUsage(input=10**9, output=10**9)) == 0


def test_a_limit_is_met_to_the_last_billionth():
    """A bound rounds up, and what is as large as what is left is taken."""
    least = bound_of(1, 0, Price(input=0.0001, output=0))
    assert least.nano_usd == 1
    ledger = opened(Ledger(budget=Budget(max_cost_usd=1e-9)), R1, least)
    assert isinstance(reserve(ledger, R2, least), BudgetRefusal)


@pytest.mark.at(124)
def test_what_is_promised_counts_before_it_is_spent():
    """Two requests that start together do not pass a limit together: the second finds what the first left over."""
    ledger = opened(Ledger(budget=Budget(max_cost_usd=0.01)), R1, bound_of(0, 400, PRICE))
    refusal = reserve(ledger, R2, bound_of(0, 400, PRICE))
    assert refusal == BudgetRefusal(
        reason="cost",
        message="the request may cost up to $0.006000, and $0.004000 of $0.010000 are left: raise the budget, or lower "
        "max_output_tokens",
    )
    assert refusal.error.code == "budget_exceeded"
    assert budget_left(ledger) == BudgetLeft(cost_usd=0.004, tokens=None)


def test_a_budget_of_tokens_needs_no_price():
    """And is used up to its last token."""
    ledger = opened(Ledger(budget=Budget(max_total_tokens=100)), R1, bound_of(60, 40, None))
    assert budget_left(ledger) == BudgetLeft(cost_usd=None, tokens=0)
    refusal = reserve(ledger, R2, bound_of(1, 0, None))
    assert isinstance(refusal, BudgetRefusal)
    assert refusal.reason == "tokens"
    assert refusal.message.startswith(
        "the request may use up to 1 tokens, and 0 of 100 are left: raise the budget"
    )


@pytest.mark.parametrize(
    ("limits", "reason", "advice"),
    [
        ({"max_cost_usd": 1}, "unknown_price", "state price= and an output limit for the model"),
        ({"max_total_tokens": 100}, "unknown_output", "give max_output_tokens"),
    ],
)
def test_what_nobody_knows_is_refused_unless_allowed(limits, reason, advice):
    """An unknown price is no free request."""
    unknown = bound_of(10, None, None)
    refusal = reserve(Ledger(budget=Budget(**limits)), R1, unknown)
    assert isinstance(refusal, BudgetRefusal)
    assert refusal.reason == reason
    assert advice in refusal.message
    ledger = opened(Ledger(budget=Budget(**limits, allow_unknown_prices=True)), R1, unknown)
    assert len(ledger.open) == 1


def test_a_cost_without_a_price_is_booked_as_it_was_reserved():
    """And when that was not known either, the sum is no longer known."""
    unpriced = TokenUsage(input=100, output=1, cost_usd=None)
    ledger = opened(Ledger(budget=Budget(max_cost_usd=1)), R1, bound_of(100, 10, PRICE))
    settled = settle(ledger, R1, unpriced)
    assert (settled.spent_tokens, settled.spent_nano_usd, settled.is_cost_known) == (101, 525_000, True)
    lax = Ledger(budget=Budget(max_cost_usd=1, allow_unknown_prices=True))
    settled = settle(opened(lax, R1, bound_of(100, 10, None)), R1, unpriced)
    assert (settled.spent_tokens, settled.spent_nano_usd, settled.is_cost_known) == (101, 0, False)
    again = settle(opened(settled, R2, bound_of(1, 1, PRICE)), R2, TokenUsage())
    assert not again.is_cost_known


def test_a_reservation_that_is_asked_for_again_counts_once():
    """A child that was restarted may not know whether its question arrived."""
    ledger = opened(Ledger(budget=Budget(max_total_tokens=10)), R1, bound_of(5, 5, None))
    assert reserve(ledger, R1, bound_of(5, 5, None)) is ledger


def test_a_vendor_that_uses_more_than_it_may_leaves_nothing():
    """The estimate of an input is no promise of the vendor's; then everything after is refused."""
    ledger = opened(
        Ledger(budget=Budget(max_cost_usd=0.001, max_total_tokens=20)), R1, bound_of(10, 10, PRICE)
    )
    settled = settle(ledger, R1, TokenUsage(input=50, output=10, cost_usd=0.002))
    assert budget_left(settled) == BudgetLeft(cost_usd=0.0, tokens=0)
    assert isinstance(reserve(settled, R2, bound_of(1, 0, Price(input=0, output=0))), BudgetRefusal)


def lent(ledger: Ledger, reservation_id: ReservationId, shares: int) -> tuple[Ledger, Budget]:
    """Lend what must be there."""
    decided = lend(ledger, reservation_id, shares)
    assert not isinstance(decided, BudgetRefusal)
    return decided


def test_children_get_equal_shares_of_what_is_left():
    """Each share is promised until it is taken back; what the child did not use is free again."""
    ledger = Ledger(budget=Budget(max_cost_usd=0.3, max_total_tokens=100), spent_tokens=10)
    ledger, first = lent(ledger, R1, 2)
    ledger, second = lent(ledger, R2, 1)
    assert first == second == Budget(max_cost_usd=0.15, max_total_tokens=45)
    assert budget_left(ledger) == BudgetLeft(cost_usd=0.0, tokens=0)
    usage = TokenUsage(input=4, output=1, cost_usd=0.1)
    back = take_back(ledger, R1, spent_of(usage, None))
    assert (back.spent_tokens, back.spent_nano_usd) == (15, 100_000_000)
    assert budget_left(back) == BudgetLeft(cost_usd=0.05, tokens=40)
    assert take_back(back, R1, spent_of(usage, None)) is back
    lost = take_back(back, R2, None)
    assert (lost.spent_tokens, lost.open) == (60, ())


@pytest.mark.parametrize(
    ("budget", "spent", "message"),
    [
        ({"max_total_tokens": 100}, {"spent_tokens": 99},
         "nothing of 100 tokens is left to lend to a sub-agent: raise the budget, or do without one"),
        ({"max_cost_usd": 1}, {"spent_nano_usd": 1_000_000_000},
         "nothing of $1.000000 is left to lend to a sub-agent: raise the budget, or do without one"),
    ],
)  # fmt: skip
def test_what_is_used_up_is_not_lent(budget, spent, message):
    """A child without a budget of its own would be one without a limit."""
    refusal = lend(Ledger(budget=Budget(**budget), **spent), R1, 2)
    assert isinstance(refusal, BudgetRefusal)
    assert refusal.message == message


def test_releasing_gives_everything_back():
    """The request never went out."""
    ledger = Ledger(budget=Budget(max_total_tokens=10))
    assert release(opened(ledger, R1, bound_of(5, 5, None)), R1) == ledger
    assert release(ledger, R1) == ledger


def test_what_several_children_have_used_is_a_sum():
    """Its cost is known when that of all of them is."""
    one = Spent(usage=TokenUsage(input=1, output=2, cost_usd=0.5), tokens=3, nano_usd=5)
    other = Spent(
        usage=TokenUsage(input=4, output=0, cost_usd=None), tokens=4, nano_usd=7, is_cost_known=False
    )
    assert one + other == Spent(
        usage=TokenUsage(input=5, output=2, cost_usd=None), tokens=7, nano_usd=12, is_cost_known=False
    )
