"""`ModelRouter`: the first rule that fits chooses the model."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.messages import Image, Text, UserMessage
from agentrail.plugins.model_router import ModelRouter
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.rig import Alone

NOON = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 12 * 3_600_000


def asked(text):
    """A request whose last user message says this."""
    image = Image(media_type="image/png", data="")
    return p.BeforeRequest(messages=(UserMessage(content=(image, Text(text=text))),))


def chosen(when, event=None, **context):
    """Whether a rule with these conditions fits."""
    router = Alone(ModelRouter, rules=[{"model": "demo:rule", "when": when}], default_model="demo:default")
    switch = router.hears(event or p.BeforeRequest(), model="demo:old", **context).switch
    return switch.model == "demo:rule"


@pytest.mark.parametrize(
    ("when", "fits", "fits_not"),
    [
        ({"min_turn": 3}, {"turn": 3}, {"turn": 2}),
        ({"max_turn": 3}, {"turn": 3}, {"turn": 4}),
        ({"min_cost_usd": 0.5}, {"cost_usd": 0.5}, {"cost_usd": 0.4}),
        ({"max_cost_usd": 0.5}, {"cost_usd": 0.5}, {"cost_usd": None}),
        ({"min_tokens": 10}, {"total_tokens": 10}, {"total_tokens": 9}),
        ({"max_tokens": 10}, {"total_tokens": 10}, {"total_tokens": 11}),
        ({"max_budget_left_usd": 1}, {"budget_left": 1.0}, {"budget_left": None}),
        ({"min_budget_left_usd": 1}, {"budget_left": 1.0}, {"budget_left": 0.5}),
        ({"min_words": 2}, {"event": asked("two words")}, {"event": asked("one")}),
        ({"max_words": 2}, {}, {"event": asked("one two three")}),
        ({"hours_utc": [9, 17]}, {"now_ms": NOON}, {"now_ms": NOON + 5 * 3_600_000}),
        ({"hours_utc": [22, 6]}, {"now_ms": NOON + 11 * 3_600_000}, {"now_ms": NOON}),
        ({"hours_utc": [22, 6]}, {"now_ms": NOON - 7 * 3_600_000}, {"now_ms": NOON - 6 * 3_600_000}),
        ({"user_tier": "free"}, {"user_data": {"tier": "free"}}, {"user_data": {}}),
        ({"user_data": {"lang": "de"}}, {"user_data": {"lang": "de", "x": 1}}, {"user_data": {"lang": "en"}}),
        ({"min_turn": 1, "user_tier": "pro"}, {"turn": 1, "user_data": {"tier": "pro"}}, {"turn": 1}),
        ({}, {}, None),
    ],
)
def test_each_condition_holds_or_not(when, fits, fits_not):
    """Turn, cost, tokens, budget, complexity, time of day, tier and user data; all of a rule must hold (5.8)."""
    assert chosen(when, **fits)
    assert fits_not is None or not chosen(when, **fits_not)


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`, and rules that cannot be are refused."""
    check_plugin(
        ModelRouter,
        options=[{}, {"default_model": "demo:a", "rules": [{"model": "demo:b", "hours_utc": [0, 24]}]}],
    )
    with pytest.raises(PluginError, match="a rule needs a model"):
        load_stack([(ModelRouter, {"rules": [{"min_turn": 1}]})])
    with pytest.raises(
        PluginError, match="the rule for 'x' asks for min_mood; there are hours_utc, max_budget_left_usd"
    ):
        load_stack([(ModelRouter, {"rules": [{"model": "x", "min_mood": 1}]})])


@given(bounds=st.lists(st.integers(0, 9), max_size=4), turn=st.integers(0, 9))
def test_routing_is_the_first_bound_that_holds(bounds, turn):
    """The router agrees with a plain search through its rules."""
    rules = [{"model": f"demo:{position}", "min_turn": bound} for position, bound in enumerate(bounds)]
    wanted = next((f"demo:{position}" for position, bound in enumerate(bounds) if turn >= bound), None)
    switch = Alone(ModelRouter, rules=rules).hears(p.BeforeRequest(), turn=turn).switch
    assert (switch and switch.model) == wanted


def test_new_rules_replace_the_old_ones():
    """An option update replaces what it names, and is judged like the first options."""
    router = Alone(ModelRouter, rules=[{"model": "demo:a", "max_words": 9}], default_model="demo:d")
    assert router.update(default_model="demo:e") is None
    assert router.hears(p.BeforeRequest()).switch.model == "demo:a"
    assert router.update(rules=[]) is None
    assert router.hears(p.BeforeRequest()).switch.model == "demo:e"
    assert "asks for mood" in router.update(rules=[{"model": "x", "mood": 1}])
