"""The budget of a session and its children: a ledger that reserves before it books.

Before a request its upper bound is reserved, and afterwards its actual usage is booked.
"""

import math
import sys
from typing import Final, Literal, NewType

import msgspec
from attrs import evolve, frozen
from msgspec.structs import replace

from agentrail.errors import ErrorInfo, OptionError
from agentrail.messages import TokenUsage
from agentrail.otp.child_specs import is_amount
from agentrail.otp.field_rules import Count, Dollars, faults_of_fields
from agentrail.otp.guarded_calls import repr_of
from agentrail.structs import Value

ReservationId = NewType("ReservationId", str)
"""Session and request: unique in the tree, and the same on a replay."""

_NANO: Final = 1_000_000_000
_MOST_USD: Final = 1e100
"""A larger limit counts as this one: in billionths of a dollar, it would not be finite."""


@frozen(kw_only=True)
class Budget:
    """Spending limit of a session and its children together.

    Attributes:
        max_cost_usd: US dollars, or None for no such limit.
        max_total_tokens: Input and output tokens, or None for no such limit.
        allow_unknown_prices: Whether requests with an unknown upper bound are sent. Their usage is booked
            afterwards.

    Raises:
        OptionError: Your move: no limit at all, or one that is not a number above 0.
    """

    max_cost_usd: Dollars | None = None
    max_total_tokens: Count | None = None
    allow_unknown_prices: bool = False

    def __attrs_post_init__(self) -> None:
        faults = [f"budget.{fault}" for fault in faults_of_fields(self, Budget)]
        if self.max_cost_usd is None and self.max_total_tokens is None:
            faults.append("budget limits nothing: give max_cost_usd, max_total_tokens, or both")
        OptionError.raise_for(faults)


class Price(Value, frozen=True, kw_only=True):
    """The price of a model, in US dollars per million tokens.

    Attributes:
        input: Input tokens that are not in a cache.
        output: Output tokens, including reasoning.
        cache_read: Tokens read from the vendor's cache. None for the price of `input`.
        cache_write: Tokens written into it. None for the price of `input`.

    Raises:
        OptionError: Your move: a price that is not a finite number from 0.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        faults = []
        for name in ("input", "output", "cache_read", "cache_write"):
            price = getattr(self, name)
            is_left_out = price is None and name.startswith("cache")
            # The fast path is a plain number: a provider makes a price each time it is asked.
            if not is_left_out and not (
                (type(price) in {int, float} and 0 <= price <= sys.float_info.max) or is_amount(price)
            ):
                faults.append(
                    f"price.{name} is {repr_of(price):.200}: expected a finite number of dollars per million tokens, >= 0"
                )
        if faults:
            raise OptionError(faults)

    def cost_usd(self, usage: TokenUsage) -> float:
        """Return the cost of a usage, in US dollars. Cache reads and writes are parts of its `input`."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        plain_tokens = usage.input - usage.cache_read - usage.cache_write
        cost = plain_tokens * self.input + usage.cache_read * read + usage.cache_write * written
        return (cost + usage.output * self.output) / 1_000_000

    @property
    def highest_input(self) -> float:
        """The highest price of an input token. It is not known beforehand how much of the input is cached."""
        return max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)


class Bound(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The upper bound of a request's usage.

    Attributes:
        tokens: Input and output tokens, if known.
        nano_usd: Their cost in billionths of a dollar, if known.
        knows_tokens: Whether `tokens` is complete.
        knows_cost: Whether `nano_usd` is complete.
    """

    tokens: int
    nano_usd: int
    knows_tokens: bool = True
    knows_cost: bool = True


class Ledger(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Booked and reserved amounts of a budget.

    Attributes:
        spent_tokens: Booked tokens. Never falls.
        spent_nano_usd: Booked cost in billionths of a dollar, if the price was known. Never falls.
        is_cost_known: Whether everything that is booked had a price.
    """

    budget: Budget
    spent_tokens: int = 0
    spent_nano_usd: int = 0
    is_cost_known: bool = True
    open: tuple[tuple[ReservationId, Bound], ...] = ()


class Spent(Value, frozen=True, kw_only=True):
    """Usage of a session, including its own children.

    Attributes:
        tokens: Tokens that count against the limit: those of `usage`, and the reservations of requests that were
            lost.
        nano_usd: Their cost in billionths of a dollar, if known.
        is_cost_known: Whether `nano_usd` is complete.
    """

    usage: TokenUsage
    tokens: int
    nano_usd: int
    is_cost_known: bool = True

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            usage=self.usage + other.usage,
            tokens=self.tokens + other.tokens,
            nano_usd=self.nano_usd + other.nano_usd,
            is_cost_known=self.is_cost_known and other.is_cost_known,
        )


NOTHING_SPENT: Final = Spent(usage=TokenUsage(), tokens=0, nano_usd=0)


class BudgetRefusal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The refusal of a request."""

    reason: Literal["cost", "tokens", "unknown_price", "unknown_output"]
    message: str

    @property
    def error(self) -> ErrorInfo:
        return ErrorInfo(code="budget_exceeded", message=self.message)


class BudgetLeft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a budget that is neither booked nor reserved.

    Attributes:
        cost_usd: US dollars. None if the budget has no such limit.
        tokens: None if the budget has no such limit.
    """

    cost_usd: float | None
    tokens: int | None


def bound_of(input_tokens: int, max_output_tokens: int | None, price: Price | None) -> Bound:
    tokens = input_tokens + (max_output_tokens or 0)
    knows_tokens = max_output_tokens is not None
    if price is None:
        return Bound(tokens=tokens, nano_usd=0, knows_tokens=knows_tokens, knows_cost=False)
    per_token = (input_tokens * price.highest_input, (max_output_tokens or 0) * price.output)
    return Bound(
        tokens=tokens,
        nano_usd=sum(math.ceil(min(millionths * 1000, sys.float_info.max)) for millionths in per_token),
        knows_tokens=knows_tokens,
        knows_cost=knows_tokens or price.output == 0,  # a local model is free, however long its answer is
    )


def reserve(ledger: Ledger, reservation_id: ReservationId, bound: Bound) -> Ledger | BudgetRefusal:
    if any(reservation_id == held for held, _ in ledger.open):
        return ledger
    refusal = _cost_refusal(ledger, bound) or _tokens_refusal(ledger, bound)
    if refusal is not None:
        return refusal
    return replace(ledger, open=(*ledger.open, (reservation_id, bound)))


def settle(ledger: Ledger, reservation_id: ReservationId, usage: TokenUsage | None) -> Ledger:
    """Book the usage of a request and release its reservation. A reservation that is already settled is ignored."""
    bound = _held(ledger, reservation_id)
    if bound is None:
        return ledger
    tokens, nano_usd, is_cost_known = bound.tokens, bound.nano_usd, bound.knows_cost
    if usage is not None:
        tokens = usage.total
        if usage.cost_usd is not None:
            nano_usd, is_cost_known = _nano_of(usage.cost_usd), True
    return _booked(ledger, reservation_id, tokens, nano_usd, is_cost_known=is_cost_known)


def lend(ledger: Ledger, reservation_id: ReservationId, shares: int) -> tuple[Ledger, Budget] | BudgetRefusal:
    """Reserve an equal share of the rest for a child, and return its budget."""
    budget = ledger.budget
    nano_usd, tokens = (max(0, left) // shares for left in _left(ledger))
    if budget.max_cost_usd is not None and not nano_usd:
        return _nothing_to_lend("cost", f"of ${budget.max_cost_usd:.6f}")
    if budget.max_total_tokens is not None and not tokens:
        return _nothing_to_lend("tokens", f"of {budget.max_total_tokens} tokens")
    share = Budget(
        max_cost_usd=None if budget.max_cost_usd is None else nano_usd / _NANO,
        max_total_tokens=None if budget.max_total_tokens is None else tokens,
        allow_unknown_prices=budget.allow_unknown_prices,
    )
    bound = Bound(tokens=tokens, nano_usd=nano_usd)
    return replace(ledger, open=(*ledger.open, (reservation_id, bound))), share


def lend_at_most(
    ledger: Ledger, reservation_id: ReservationId, most: Budget
) -> tuple[Ledger, Budget] | BudgetRefusal:
    """Reserve up to this amount for a child, same as `lend`. If less is left, reserve the rest."""
    decided = lend(ledger, reservation_id, 1)
    if isinstance(decided, BudgetRefusal):
        return decided
    _, share = decided
    cost, tokens = share.max_cost_usd, share.max_total_tokens
    if most.max_cost_usd is not None and cost is not None:
        cost = min(cost, most.max_cost_usd)
    if most.max_total_tokens is not None and tokens is not None:
        tokens = min(tokens, most.max_total_tokens)
    bound = Bound(tokens=tokens or 0, nano_usd=round((cost or 0) * _NANO))
    kept = Budget(
        max_cost_usd=cost if cost is not None else most.max_cost_usd,
        max_total_tokens=tokens if tokens is not None else most.max_total_tokens,
        allow_unknown_prices=share.allow_unknown_prices,
    )
    return replace(ledger, open=(*ledger.open, (reservation_id, bound))), kept


def raised(ledger: Ledger, more: Budget) -> Ledger:
    """Raise the limits by this amount, in addition to everything booked and reserved already."""
    nano_usd = ledger.spent_nano_usd + sum(bound.nano_usd for _, bound in ledger.open)
    tokens = ledger.spent_tokens + sum(bound.tokens for _, bound in ledger.open)
    budget = Budget(
        max_cost_usd=None if more.max_cost_usd is None else nano_usd / _NANO + more.max_cost_usd,
        max_total_tokens=None if more.max_total_tokens is None else tokens + more.max_total_tokens,
        allow_unknown_prices=more.allow_unknown_prices,
    )
    return replace(ledger, budget=budget)


def limit_cycle(ledger: Ledger, max_cost_usd: float, own: Budget | None) -> Ledger:
    """Lend a cycle this amount, in addition to everything booked and reserved already, within the session's own budget."""
    lent = raised(ledger, Budget(max_cost_usd=max_cost_usd))
    return lent if own is None else replace(lent, budget=_within(own, lent.budget))


def without_cycle_limit(ledger: Ledger, own: Budget) -> Ledger:
    """Remove the limit of the last cycle. A budget that was raised since stays."""
    is_limited = ledger.budget == _within(own, ledger.budget)
    return replace(ledger, budget=own) if is_limited else ledger


def _within(own: Budget, limit: Budget) -> Budget:
    most = [one for one in (limit.max_cost_usd, own.max_cost_usd) if one is not None]
    return evolve(own, max_cost_usd=min(most, default=None))


def spent_since(now: Spent, before: Spent) -> Spent:
    """Return the usage between two totals. A total that fell, because the session was replaced, counts as nothing."""
    usage, was = now.usage, before.usage
    cost = None
    if usage.cost_usd is not None and was.cost_usd is not None:
        cost = max(usage.cost_usd - was.cost_usd, 0.0)
    return Spent(
        usage=TokenUsage(
            input=usage.input - was.input,
            output=usage.output - was.output,
            cache_read=usage.cache_read - was.cache_read,
            cache_write=usage.cache_write - was.cache_write,
            reasoning=usage.reasoning - was.reasoning,
            cost_usd=cost,
            estimated=usage.estimated,
        ),
        tokens=max(now.tokens - before.tokens, 0),
        nano_usd=max(now.nano_usd - before.nano_usd, 0),
        is_cost_known=now.is_cost_known,
    )


def take_back(ledger: Ledger, reservation_id: ReservationId, spent: Spent | None) -> Ledger:
    """Book the usage of a child and release the rest of its share. A share that was already returned is ignored."""
    if spent is None:
        return settle(ledger, reservation_id, None)
    if _held(ledger, reservation_id) is None:
        return ledger
    return _booked(ledger, reservation_id, spent.tokens, spent.nano_usd, is_cost_known=spent.is_cost_known)


def spent_of(usage: TokenUsage, ledger: Ledger | None) -> Spent:
    if ledger is None:
        is_known = usage.cost_usd is not None
        nano_usd = _nano_of(usage.cost_usd) if usage.cost_usd is not None else 0
        return Spent(usage=usage, tokens=usage.total, nano_usd=nano_usd, is_cost_known=is_known)
    bounds = [bound for _, bound in ledger.open]
    return Spent(
        usage=usage,
        tokens=ledger.spent_tokens + sum(bound.tokens for bound in bounds),
        nano_usd=ledger.spent_nano_usd + sum(bound.nano_usd for bound in bounds),
        is_cost_known=ledger.is_cost_known and all(bound.knows_cost for bound in bounds),
    )


def _held(ledger: Ledger, reservation_id: ReservationId) -> Bound | None:
    return next((bound for held, bound in ledger.open if held == reservation_id), None)


def _nano_of(cost_usd: float) -> int:
    # Rounded first, because the cost is a float: its error alone must not count as a billionth.
    return math.ceil(min(round(cost_usd * _NANO, 3), sys.float_info.max))  # the product may be infinite


def _booked(
    ledger: Ledger, reservation_id: ReservationId, tokens: int, nano_usd: int, *, is_cost_known: bool
) -> Ledger:
    return replace(
        ledger,
        spent_tokens=ledger.spent_tokens + tokens,
        spent_nano_usd=ledger.spent_nano_usd + nano_usd,
        is_cost_known=ledger.is_cost_known and is_cost_known,
        open=_without(ledger, reservation_id),
    )


def release(ledger: Ledger, reservation_id: ReservationId) -> Ledger:
    """Release the reservation of a request that was never sent. Ignored if it is not open."""
    return replace(ledger, open=_without(ledger, reservation_id))


def budget_left(ledger: Ledger) -> BudgetLeft:
    """Return the amount that a request could reserve now, at least 0."""
    budget = ledger.budget
    nano_usd, tokens = _left(ledger)
    return BudgetLeft(
        cost_usd=None if budget.max_cost_usd is None else max(0, nano_usd) / _NANO,
        tokens=None if budget.max_total_tokens is None else max(0, tokens),
    )


def _left(ledger: Ledger) -> tuple[int, int]:
    budget = ledger.budget
    promised_nano_usd = sum(bound.nano_usd for _, bound in ledger.open)
    promised_tokens = sum(bound.tokens for _, bound in ledger.open)
    most_usd = min(budget.max_cost_usd or 0, _MOST_USD)
    nano_usd = round(most_usd * _NANO) - ledger.spent_nano_usd - promised_nano_usd
    return nano_usd, (budget.max_total_tokens or 0) - ledger.spent_tokens - promised_tokens


def _nothing_to_lend(reason: Literal["cost", "tokens"], limit: str) -> BudgetRefusal:
    message = f"nothing {limit} is left for a sub-agent: raise the budget, or continue without a sub-agent"
    return BudgetRefusal(reason=reason, message=message)


def _cost_refusal(ledger: Ledger, bound: Bound) -> BudgetRefusal | None:
    budget = ledger.budget
    if budget.max_cost_usd is None:
        return None
    if not bound.knows_cost and not budget.allow_unknown_prices:
        return BudgetRefusal(
            reason="unknown_price",
            message="the budget limits the cost, but the maximum cost of this request is unknown: give price= and an output limit for the model, or allow it with Budget(allow_unknown_prices=True)",
        )
    left, _ = _left(ledger)
    if bound.nano_usd <= left:
        return None
    return BudgetRefusal(
        reason="cost",
        message=f"the request may cost up to ${bound.nano_usd / _NANO:.6f}, and ${max(0, left) / _NANO:.6f} of "
        f"${budget.max_cost_usd:.6f} are left: raise the budget, or lower max_output_tokens",
    )


def _tokens_refusal(ledger: Ledger, bound: Bound) -> BudgetRefusal | None:
    budget = ledger.budget
    if budget.max_total_tokens is None:
        return None
    if not bound.knows_tokens and not budget.allow_unknown_prices:
        return BudgetRefusal(
            reason="unknown_output",
            message="the budget limits the tokens, but the maximum length of the answer is unknown: give max_output_tokens, "
            "or allow it with Budget(allow_unknown_prices=True)",
        )
    _, left = _left(ledger)
    if bound.tokens <= left:
        return None
    return BudgetRefusal(
        reason="tokens",
        message=f"the request may use up to {bound.tokens} tokens, and {max(0, left)} of {budget.max_total_tokens} are "
        "left: raise the budget, or lower max_output_tokens",
    )


def _without(ledger: Ledger, reservation_id: ReservationId) -> tuple[tuple[ReservationId, Bound], ...]:
    return tuple(entry for entry in ledger.open if entry[0] != reservation_id)
