"""What a session and its children may spend: a ledger that promises before it pays.

Before a request its upper bound is reserved, after it what it used is booked. Since a reservation is refused as soon as
all that is spent and all that is promised could pass the limit, no order of starts and ends can pass it, and it does
not matter how many requests are out.

A ledger belongs to the session that was given the `Budget`, as part of its state, so that it is journaled and replayed
with it. A child has no copy: it asks its parent, by a message with its reservation and its bound, and waits for the
answer before it asks the model. A session with a ledger of its own reserves there first and then asks further up; a
refusal anywhere releases what was reserved below. Not one ledger object that all share: then the state of a session
would change outside of `step`.

Sums are whole billionths of a dollar: a limit that floats are added up to is passed by the rounding.
"""

import math
from typing import Final, Literal, NewType

import msgspec
from attrs import frozen

from agentrail.errors import ErrorInfo, OptionError
from agentrail.messages import TokenUsage

ReservationId = NewType("ReservationId", str)
"""Session and request: unique in the tree, and the same on a replay."""

_NANO: Final = 1_000_000_000


@frozen(kw_only=True)
class Budget:
    """What a session and its children may spend together.

    Attributes:
        max_cost_usd: US dollars, or None for no such limit.
        max_total_tokens: Input and output, or None for no such limit.
        allow_unknown_prices: Whether requests go out whose bound nobody knows; what they use is booked afterwards.

    Raises:
        OptionError: Your move: no limit at all, or one that is no number above 0.
    """

    max_cost_usd: float | None = None
    max_total_tokens: int | None = None
    allow_unknown_prices: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse a budget that limits nothing, or that cannot be met."""
        faults = []
        cost, tokens = self.max_cost_usd, self.max_total_tokens
        if cost is not None and not (_is_amount(cost) and cost > 0):
            faults.append(
                f"budget.max_cost_usd is {cost!r}: expected a finite number of dollars above 0, or None"
            )
        if tokens is not None and not _is_count(tokens):
            faults.append(f"budget.max_total_tokens is {tokens!r}: expected a whole number from 1, or None")
        if not _is_switch(self.allow_unknown_prices):
            faults.append(
                f"budget.allow_unknown_prices is {self.allow_unknown_prices!r}: expected True or False"
            )
        if cost is None and tokens is None:
            faults.append("budget limits nothing: give max_cost_usd, max_total_tokens, or both")
        if faults:
            raise OptionError(faults)


@frozen(kw_only=True)
class Price:
    """What a model costs, in US dollars per million tokens.

    Attributes:
        input: Tokens read that no cache has.
        output: Tokens written, reasoning included.
        cache_read: Tokens read from the vendor's cache; as `input` when None.
        cache_write: Tokens written into it; as `input` when None.

    Raises:
        OptionError: Your move: a price that is no finite number from 0.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what is no price."""
        named = {"input": self.input, "output": self.output}
        optional = {"cache_read": self.cache_read, "cache_write": self.cache_write}
        named |= {name: price for name, price in optional.items() if price is not None}
        faults = [
            f"price.{name} is {price!r}: expected a finite number of dollars per million tokens, from 0"
            for name, price in named.items()
            if not _is_amount(price)
        ]
        if faults:
            raise OptionError(faults)

    def cost_usd(self, usage: TokenUsage) -> float:
        """Price what was used; cache reads and writes are parts of its `input`."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        plain_tokens = usage.input - usage.cache_read - usage.cache_write
        cost = plain_tokens * self.input + usage.cache_read * read + usage.cache_write * written
        return (cost + usage.output * self.output) / 1_000_000

    @property
    def highest_input(self) -> float:
        """The most that a token of input can cost: nobody knows beforehand what the cache has, or will be given."""
        return max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)


class Bound(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The most that a request may use.

    Attributes:
        tokens: Of input and output, as far as they are known.
        nano_usd: What they cost, as far as that is known.
        knows_tokens: Whether `tokens` is all of it.
        knows_cost: Whether `nano_usd` is all of it.
    """

    tokens: int
    nano_usd: int
    knows_tokens: bool = True
    knows_cost: bool = True


class Ledger(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was spent of a budget, and what is promised.

    Attributes:
        budget: The limits.
        spent_tokens: Booked; never falls.
        spent_nano_usd: Booked, as far as its price was known; never falls.
        is_cost_known: Whether all that is booked had a price.
        open: The reservations that are out.
    """

    budget: Budget
    spent_tokens: int = 0
    spent_nano_usd: int = 0
    is_cost_known: bool = True
    open: tuple[tuple[ReservationId, Bound], ...] = ()


class Refusal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that may not go out.

    Attributes:
        reason: Which limit it could pass, or that its bound is not known.
        message: For people: what was asked for, what is left, what to do.
    """

    reason: Literal["cost", "tokens", "unknown_price", "unknown_output"]
    message: str

    @property
    def error(self) -> ErrorInfo:
        """What `AgentError` carries."""
        return ErrorInfo(code="budget_exceeded", message=self.message)


class BudgetLeft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is neither spent nor promised.

    Attributes:
        cost_usd: US dollars; None where the budget has no such limit.
        tokens: None where the budget has no such limit.
    """

    cost_usd: float | None
    tokens: int | None


def bound_of(input_tokens: int, max_output_tokens: int | None, price: Price | None) -> Bound:
    """Say what a request may use at most.

    Args:
        input_tokens: The estimate of what it sends.
        max_output_tokens: Its output limit, or the model's; None when nobody knows.
        price: Of the model; None when nobody knows.
    """
    tokens = input_tokens + (max_output_tokens or 0)
    knows_tokens = max_output_tokens is not None
    if price is None:
        return Bound(tokens=tokens, nano_usd=0, knows_tokens=knows_tokens, knows_cost=False)
    per_token = (input_tokens * price.highest_input, (max_output_tokens or 0) * price.output)
    return Bound(
        tokens=tokens,
        nano_usd=sum(math.ceil(millionths * 1000) for millionths in per_token),
        knows_tokens=knows_tokens,
        knows_cost=knows_tokens
        or price.output == 0,  # however long the answer of a local model is, it is free
    )


def reserve(ledger: Ledger, reservation_id: ReservationId, bound: Bound) -> Ledger | Refusal:
    """Promise a request what it may use, or refuse it.

    Args:
        ledger: As it stands.
        reservation_id: Of the request; one that is open already is asked for again and changes nothing.
        bound: The most that the request may use.
    """
    if any(reservation_id == held for held, _ in ledger.open):
        return ledger
    refusal = _cost_refusal(ledger, bound) or _tokens_refusal(ledger, bound)
    if refusal is not None:
        return refusal
    return msgspec.structs.replace(ledger, open=(*ledger.open, (reservation_id, bound)))


def settle(ledger: Ledger, reservation_id: ReservationId, usage: TokenUsage | None) -> Ledger:
    """Book what a request used, and take its promise back. A reservation is settled once; a second time does nothing.

    Args:
        ledger: As it stands.
        reservation_id: Of the request.
        usage: What it used. Where nobody knows (a crash took the session away while it was out), or where the cost has
            no known price, what was reserved is booked: too much rather than too little.
    """
    bound = next((bound for held, bound in ledger.open if held == reservation_id), None)
    if bound is None:
        return ledger
    tokens, nano_usd, is_cost_known = bound.tokens, bound.nano_usd, bound.knows_cost
    if usage is not None:
        tokens = usage.total
        if usage.cost_usd is not None:
            # Rounded first, because the cost is a float: its error alone is no billionth that somebody spent.
            nano_usd, is_cost_known = math.ceil(round(usage.cost_usd * _NANO, 3)), True
    return msgspec.structs.replace(
        ledger,
        spent_tokens=ledger.spent_tokens + tokens,
        spent_nano_usd=ledger.spent_nano_usd + nano_usd,
        is_cost_known=ledger.is_cost_known and is_cost_known,
        open=_without(ledger, reservation_id),
    )


def release(ledger: Ledger, reservation_id: ReservationId) -> Ledger:
    """Take back the promise of a request that never went out. One that is not open changes nothing."""
    return msgspec.structs.replace(ledger, open=_without(ledger, reservation_id))


def budget_left(ledger: Ledger) -> BudgetLeft:
    """Say what a request could reserve at this moment; never less than nothing."""
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
    nano_usd = round((budget.max_cost_usd or 0) * _NANO) - ledger.spent_nano_usd - promised_nano_usd
    return nano_usd, (budget.max_total_tokens or 0) - ledger.spent_tokens - promised_tokens


def _cost_refusal(ledger: Ledger, bound: Bound) -> Refusal | None:
    budget = ledger.budget
    if budget.max_cost_usd is None:
        return None
    if not bound.knows_cost and not budget.allow_unknown_prices:
        return Refusal(
            reason="unknown_price",
            message="the budget limits the cost, and nobody knows what this request may cost: state price= and an output "
            "limit for the model, or allow it with Budget(allow_unknown_prices=True)",
        )
    left, _ = _left(ledger)
    if bound.nano_usd <= left:
        return None
    return Refusal(
        reason="cost",
        message=f"the request may cost up to ${bound.nano_usd / _NANO:.6f}, and ${max(0, left) / _NANO:.6f} of "
        f"${budget.max_cost_usd:.6f} are left: raise the budget, or lower max_output_tokens",
    )


def _tokens_refusal(ledger: Ledger, bound: Bound) -> Refusal | None:
    budget = ledger.budget
    if budget.max_total_tokens is None:
        return None
    if not bound.knows_tokens and not budget.allow_unknown_prices:
        return Refusal(
            reason="unknown_output",
            message="the budget limits the tokens, and nobody knows how long the answer may be: give max_output_tokens, "
            "or allow it with Budget(allow_unknown_prices=True)",
        )
    _, left = _left(ledger)
    if bound.tokens <= left:
        return None
    return Refusal(
        reason="tokens",
        message=f"the request may use up to {bound.tokens} tokens, and {max(0, left)} of {budget.max_total_tokens} are "
        "left: raise the budget, or lower max_output_tokens",
    )


def _without(ledger: Ledger, reservation_id: ReservationId) -> tuple[tuple[ReservationId, Bound], ...]:
    return tuple(entry for entry in ledger.open if entry[0] != reservation_id)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)
