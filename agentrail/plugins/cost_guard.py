"""`CostGuard`: stops a session at its limit of tokens or cost, and warns before."""

from collections.abc import Iterator
from typing import Literal

import attrs

from agentrail.core.protocol.actions import Abort, Action, Continue
from agentrail.core.protocol.hooks import AfterResponse, BeforeRequest
from agentrail.core.stack.plugin import Context, OnError
from agentrail.events import BudgetWarning
from agentrail.events.values import Amount
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin, on

Unit = Literal["tokens", "usd"]


@attrs.frozen
class CostLimits:
    """The limits, and the warnings already published.

    Attributes:
        max_tokens: Limit for the session. None: unlimited.
        max_cost_usd: Limit for the session, in US dollars. None: unlimited.
        warn_threshold: Fraction of a limit at which a warning is published, once.
    """

    max_tokens: int | None = None
    max_cost_usd: float | None = None
    warn_threshold: float = 0.8
    warned: frozenset[Unit] = frozenset()


class CostGuard(Plugin[CostLimits]):
    """Stops a session that has used up its tokens or its money."""

    priority = 120
    on_error: OnError | None = "closed"  # a limit that cannot be checked is not enforced

    def init(
        self,
        *,
        max_tokens: int | None = None,
        max_cost_usd: float | None = None,
        warn_threshold: float = 0.8,
    ) -> CostLimits:
        """Set the limits, at least one.

        Raises:
            ValueError: Your move: no limit, a limit that is not positive, or a threshold that is not a fraction.
        """
        given = [limit for limit in (max_tokens, max_cost_usd) if limit is not None]
        if not given or min(given) <= 0:
            message = (
                f"give max_tokens, max_cost_usd or both, more than 0; got {max_tokens!r} and {max_cost_usd!r}"
            )
            raise ValueError(message)
        if not 0 < warn_threshold <= 1:
            message = f"warn_threshold must be a fraction of the limit, more than 0 and at most 1; got {warn_threshold!r}"
            raise ValueError(message)
        return CostLimits(max_tokens=max_tokens, max_cost_usd=max_cost_usd, warn_threshold=warn_threshold)

    def on_config_update(self, options: JsonObject, state: CostLimits) -> CostLimits:
        """Change the limits. New limits are warned of again."""
        changed = attrs.evolve(state, **options, warned=frozenset())  # type: ignore[arg-type]  # `init` judges them
        self.init(
            max_tokens=changed.max_tokens,
            max_cost_usd=changed.max_cost_usd,
            warn_threshold=changed.warn_threshold,
        )
        return changed

    @on(BeforeRequest)
    def before(self, event: BeforeRequest, limits: CostLimits, ctx: Context) -> Action[CostLimits]:
        """Refuse a request over a limit."""
        return _checked(limits, ctx, goes_on=True)

    @on(AfterResponse)
    def after(self, event: AfterResponse, limits: CostLimits, ctx: Context) -> Action[CostLimits]:
        """Refuse calls over a limit. An answer without calls is already paid for and passes."""
        return _checked(limits, ctx, goes_on=bool(event.message.calls))


def _checked(limits: CostLimits, ctx: Context, *, goes_on: bool) -> Action[CostLimits]:
    if limits.max_cost_usd is not None and ctx.cost_usd is None and goes_on:
        why = f"no price is known for {ctx.model}, so max_cost_usd cannot be enforced: set max_tokens instead"
        return Abort(why, limits)
    used = list(_used(limits, ctx))
    warnings = {
        spent.unit: BudgetWarning(spent=spent, limit=limit)
        for spent, limit in used
        if spent.unit not in limits.warned and spent.value >= limit.value * limits.warn_threshold
    }
    state = attrs.evolve(limits, warned=limits.warned | frozenset(warnings)) if warnings else limits
    emits = tuple(warnings.values())
    over = next(
        (f"{_said(spent)} of {_said(limit)} are used" for spent, limit in used if spent.value >= limit.value),
        None,
    )
    return Continue(state, emits=emits) if over is None or not goes_on else Abort(over, state, emits=emits)


def _used(limits: CostLimits, ctx: Context) -> Iterator[tuple[Amount, Amount]]:
    if limits.max_tokens is not None:
        yield Amount(value=ctx.total_tokens, unit="tokens"), Amount(value=limits.max_tokens, unit="tokens")
    if limits.max_cost_usd is not None and ctx.cost_usd is not None:
        yield Amount(value=ctx.cost_usd, unit="usd"), Amount(value=limits.max_cost_usd, unit="usd")


def _said(amount: Amount) -> str:
    return f"{amount.value:g} {'US dollars' if amount.unit == 'usd' else amount.unit}"
