"""The usage of a session over time, from its journal, request by request. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec.structs import replace

from agentrail.core.journal.fold import Walked
from agentrail.core.session.views import model_of
from agentrail.messages import TokenUsage
from agentrail.structs import Value

ATTO: Final = 10**18
"""Parts of a dollar."""

SLOT_MS: Final = 15 * 60 * 1000
"""Amounts of one model are summed per quarter of an hour, because days of all time zones begin at one."""

_NOTHING: Final = TokenUsage()


class SpentAmount(Value, frozen=True, kw_only=True):
    """An amount of usage. Amounts are added with `+`.

    Attributes:
        requests: Number of model requests with usage.
        tokens_in: Input tokens, including those from a cache.
        tokens_out: Output tokens.
        cached: The part of `tokens_in` from a cache.
        atto_usd: Cost, if prices are known, in 10⁻¹⁸ dollars.
        estimated_atto_usd: The estimated part of the cost, for usage that no server reported.
        unpriced: Number of requests without a known price.
    """

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    atto_usd: int = 0
    estimated_atto_usd: int = 0
    unpriced: int = 0

    def __add__(self, other: "SpentAmount") -> "SpentAmount":
        return SpentAmount(
            requests=self.requests + other.requests,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
            cached=self.cached + other.cached,
            atto_usd=self.atto_usd + other.atto_usd,
            estimated_atto_usd=self.estimated_atto_usd + other.estimated_atto_usd,
            unpriced=self.unpriced + other.unpriced,
        )


class Spending(Value, frozen=True, kw_only=True):
    """The usage of one model by one session within a slot of time.

    Attributes:
        slot_ms: Start of the slot, in milliseconds since 1970: a multiple of `SLOT_MS`.
        model: The model string.
        amount: The usage.
    """

    slot_ms: int
    model: str
    amount: SpentAmount


def add_up(amounts: Iterable[SpentAmount]) -> SpentAmount:
    return sum(amounts, SpentAmount())


def spendings_in(steps: Iterable[Walked]) -> tuple[Spending, ...]:
    """Return the usage of a session in these steps, in the order of time."""
    return join_spendings(filter(None, map(_used_in, steps)))


def spendings_of_usage(usage: TokenUsage, model: str, at_ms: int) -> tuple[Spending, ...]:
    """Return the usage before the kept records as spending at that time, for a journal whose beginning was dropped."""
    if usage == _NOTHING:
        return ()
    amount = _amount_of(usage, is_estimated=usage.estimated)
    return (Spending(slot_ms=at_ms // SLOT_MS * SLOT_MS, model=model, amount=amount),)


def join_spendings(one: Iterable[Spending], other: Iterable[Spending] = ()) -> tuple[Spending, ...]:
    found: dict[tuple[int, str], SpentAmount] = {}
    for spending in chain(one, other):
        key = (spending.slot_ms, spending.model)
        found[key] = found.get(key, SpentAmount()) + spending.amount
    return tuple(_in_order(found))


def _in_order(found: Mapping[tuple[int, str], SpentAmount]) -> Iterator[Spending]:
    for (slot_ms, model), amount in sorted(found.items(), key=lambda pair: pair[0]):
        yield Spending(slot_ms=slot_ms, model=model, amount=amount)


def _used_in(walked: Walked) -> Spending | None:
    """Return what a step booked for the session itself, or None."""
    before, after = walked.before.data.usage, walked.after.data.usage
    if after is before or after == before:
        return None
    signal = walked.signal
    # The end of a child session, which has its own journal.
    if hasattr(signal, "spent"):
        return None
    # A plugin's own request reports its usage in the result.
    found = getattr(signal, "usage", None) or getattr(getattr(signal, "result", None), "usage", None)
    told = found if isinstance(found, TokenUsage) else None
    used = TokenUsage(
        input=after.input - before.input,
        output=after.output - before.output,
        cache_read=after.cache_read - before.cache_read,
        cost_usd=_difference(before.cost_usd, after.cost_usd),
    )
    is_told = told is not None and (told.input, told.output) == (used.input, used.output)
    if told is not None and is_told:
        # The server's report is exact, even if the sum has no price because of another request.
        used = replace(used, cost_usd=told.cost_usd)
    is_estimated = told.estimated if told is not None and is_told else True
    amount = _amount_of(used, is_estimated=is_estimated)
    return Spending(slot_ms=walked.record.at_ms // SLOT_MS * SLOT_MS, model=_model_in(walked), amount=amount)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(after - before, 0.0)


def _amount_of(usage: TokenUsage, *, is_estimated: bool) -> SpentAmount:
    cost = usage.cost_usd
    atto = 0 if cost is None else atto_of(cost)
    return SpentAmount(
        requests=1,
        tokens_in=usage.input,
        tokens_out=usage.output,
        cached=usage.cache_read,
        atto_usd=atto,
        estimated_atto_usd=atto if is_estimated else 0,
        unpriced=int(cost is None),
    )


def atto_of(cost_usd: float) -> int:
    """Return a price in whole parts of a dollar: the exact value of the number, rounded to 10⁻¹⁸."""
    over, under = cost_usd.as_integer_ratio()
    return (over * ATTO + under // 2) // under


def usd_of(atto_usd: int) -> float:
    return atto_usd / ATTO


def _model_in(walked: Walked) -> str:
    message = getattr(walked.signal, "message", None)
    model = getattr(message, "model", None)
    return model if isinstance(model, str) and model else model_of(walked.before.data).model
