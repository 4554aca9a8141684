"""`ModelRouter`: chooses the model of each request by rules. The first matching rule wins."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from agentrail.core.protocol.actions import Action, Continue, SwitchModel
from agentrail.core.protocol.hooks import BeforeRequest
from agentrail.core.stack.plugin import Context
from agentrail.frozen import frozen_json
from agentrail.messages import JsonObject, Message, Text, UserMessage
from agentrail.plugins.base import Plugin, on

_NUMBERS: Final = ("turn", "cost_usd", "tokens", "budget_left_usd", "words")
_BOUNDS: Final = frozenset(f"{bound}_{number}" for number in _NUMBERS for bound in ("min", "max"))
CONDITIONS: Final = _BOUNDS | {"hours_utc", "user_tier", "user_data"}
"""Conditions of a rule: bounds of turn, cost, tokens, budget and complexity (the words of the last user message), the
hour, and the application's data about its user.
"""


@attrs.frozen
class RoutingRule:
    """A model and its conditions."""

    model: str
    when: Mapping[str, Any]


@attrs.frozen
class Routes:
    """The routing rules.

    Attributes:
        default_model: Used if no rule matches. None keeps the current model.
    """

    rules: tuple[RoutingRule, ...]
    default_model: str | None


class ModelRouter(Plugin[Routes]):
    """Chooses the model of each request by rules."""

    priority = 310

    def init(self, *, default_model: str | None = None, rules: Sequence[Mapping[str, Any]] = ()) -> Routes:
        """Set the rules: `{"model": …, "when": {…}}`, or the conditions next to the model.

        Raises:
            ValueError: Your move: a rule without a model, or with an unknown condition.
        """
        return Routes(rules=tuple(map(_rule, rules)), default_model=default_model)

    def on_config_update(self, options: JsonObject, state: Routes) -> Routes:
        """Replace the rules, the default, or both."""
        now: dict[str, Any] = {
            "default_model": state.default_model,
            "rules": [{"model": rule.model, "when": rule.when} for rule in state.rules],
        }
        return self.init(**{**now, **options})

    @on(BeforeRequest)
    def choose(self, event: BeforeRequest, routes: Routes, ctx: Context) -> Action[Routes]:
        """Switch the model if another one is selected. No event if the right one is already in use."""
        words = _words_of(event.messages)
        fits = (rule.model for rule in routes.rules if _fits(rule.when, ctx, words))
        model = next(fits, routes.default_model)
        return Continue(routes) if model is None or model == ctx.model else SwitchModel(model, routes)


def _rule(given: Mapping[str, Any]) -> RoutingRule:
    model, when = given.get("model"), {**given, **given.get("when", {})}
    when.pop("model", None)
    when.pop("when", None)
    if not isinstance(model, str) or not model:
        message = (
            f"a rule needs a model, such as {{'model': 'anthropic:…', 'max_words': 20}}; got {dict(given)!r}"
        )
        raise ValueError(message)
    unknown = sorted(when.keys() - CONDITIONS)
    if unknown:
        message = f"the rule for {model!r} has unknown conditions {', '.join(unknown)}; expected some of {', '.join(sorted(CONDITIONS))}"
        raise ValueError(message)
    return RoutingRule(model=model, when=frozen_json(when))


def _fits(when: JsonObject, ctx: Context, words: int) -> bool:
    numbers: dict[str, float | None] = {
        "turn": ctx.turn,
        "cost_usd": ctx.cost_usd,
        "tokens": ctx.total_tokens,
        "budget_left_usd": ctx.budget_left,
        "words": words,
    }
    return all(_holds(condition, wanted, numbers, ctx) for condition, wanted in when.items())


def _holds(condition: str, wanted: Any, numbers: Mapping[str, float | None], ctx: Context) -> bool:
    match condition:
        case "hours_utc":
            first, end = wanted
            hour = datetime.datetime.fromtimestamp(ctx.now_ms / 1000, datetime.UTC).hour
            return bool(first <= hour < end if first <= end else hour >= first or hour < end)
        case "user_tier":
            return bool(ctx.user_data.get("tier") == wanted)
        case "user_data":
            return all(ctx.user_data.get(key) == value for key, value in wanted.items())
        case _:
            bound, _, number = condition.partition("_")
            value = numbers[number]  # an unknown number satisfies no bound
            return value is not None and bool(value >= wanted if bound == "min" else value <= wanted)


def _words_of(messages: Sequence[Message]) -> int:
    said = next((one for one in reversed(messages) if isinstance(one, UserMessage)), None)
    blocks = () if said is None else said.content
    return sum(len(block.text.split()) for block in blocks if isinstance(block, Text))
