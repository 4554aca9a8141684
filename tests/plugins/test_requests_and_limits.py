"""Plugins that route, limit, mark, retry and log requests."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.policy.request_context import tokens_of
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.values.import_history import import_messages
from agentrail.errors import ErrorInfo
from agentrail.events import BudgetWarning, PluginEvent
from agentrail.events.values import Amount
from agentrail.messages import AssistantMessage, CallId, Image, Text, ToolMessage, UserMessage
from agentrail.plugins.auto_checkpoint import AutoCheckpoint
from agentrail.plugins.cost_guard import CostGuard
from agentrail.plugins.event_logger import EventLogger
from agentrail.plugins.model_router import ModelRouter
from agentrail.plugins.prompt_cache import PromptCache
from agentrail.plugins.recovery import Recovery
from agentrail.testing import strategies
from tests.core.plugin_rig import EVENTS
from tests.plugins.rig import Alone, result, says

# --- `CostGuard`: a session stops at its limits, and is warned before


ASK = p.BeforeRequest()


def reason(outcome):
    """Why the cycle stops; None when it goes on."""
    return None if outcome.decision is None else outcome.decision.action.reason


def test_no_request_goes_over_a_limit_and_each_limit_warns_once():
    """At the limit the next request is not sent; at `warn_threshold` of it `BudgetWarning` is published; an unknown price refuses (5.8)."""
    guard = Alone(CostGuard, max_tokens=100, max_cost_usd=1.5)
    assert reason(guard.hears(ASK, total_tokens=99, cost_usd=1.0)) is None
    assert reason(guard.hears(ASK, total_tokens=100, cost_usd=1.0)) == "100 tokens of 100 tokens are used"
    assert reason(guard.hears(ASK, cost_usd=2.0)) == "2 US dollars of 1.5 US dollars are used"

    guard = Alone(CostGuard, max_tokens=100, max_cost_usd=1.0)
    assert guard.hears(ASK, total_tokens=79).events == ()
    tokens = BudgetWarning(spent=Amount(value=80, unit="tokens"), limit=Amount(value=100, unit="tokens"))
    assert guard.hears(ASK, total_tokens=80).events == (tokens,)
    assert guard.hears(ASK, total_tokens=90).events == ()
    (money,) = guard.hears(ASK, total_tokens=90, cost_usd=0.9).events
    assert money.spent.unit == "usd"

    guard = Alone(CostGuard, max_cost_usd=1.0)
    why = reason(guard.hears(ASK, cost_usd=None, model="local:x"))
    assert why == "no price is known for local:x, so max_cost_usd cannot be enforced: set max_tokens instead"
    assert reason(guard.hears(says("done"), cost_usd=None)) is None
    assert reason(Alone(CostGuard, max_tokens=9).hears(ASK, cost_usd=None)) is None


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


# --- `ModelRouter`: the first rule that fits chooses the model


NOON = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000 + 12 * 3_600_000


def asked(text):
    image = Image(media_type="image/png", data="")
    return p.BeforeRequest(messages=(UserMessage(content=(image, Text(text=text))),))


def chosen(when, event=None, **context):
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
    assert "has unknown conditions mood" in router.update(rules=[{"model": "x", "mood": 1}])


# --- `PromptCache`: where the vendor's prompt cache should end


def points(*messages, **options):
    return Alone(PromptCache, **options).hears(p.BeforeRequest(messages=messages)).hints.cache_points


@given(
    messages=st.lists(strategies.messages(), max_size=8),
    more=st.lists(strategies.messages(), max_size=3),
    max_cache_points=st.integers(1, 4),
    min_tokens=st.integers(0, 60),
)
def test_points_are_few_in_order_worth_it_and_stay(messages, more, max_cache_points, min_tokens):
    """Any conversation: never too many, in the order of the prefix, none too early, and the anchor does not move."""
    history, _ = import_messages(messages)
    before = tuple(history.messages)
    found = points(*before, max_cache_points=max_cache_points, min_tokens=min_tokens)
    places = [place for place in found if place != "system"]
    assert found[0] == "system"
    assert len(found) <= max_cache_points
    assert places == sorted(set(places))
    for place in places:
        assert not isinstance(before[place], AssistantMessage)
        assert sum(tokens_of((message,)) for message in before[: place + 1]) >= min_tokens
    anchors = [n for n, message in enumerate(before) if isinstance(message, ToolMessage)][:1]
    grown, _ = import_messages([*before, *more])
    if max_cache_points > 2 and anchors and anchors[0] in places:
        assert anchors[0] in points(*grown.messages, max_cache_points=max_cache_points, min_tokens=min_tokens)


# --- `Recovery`: failing calls are retried with growing pauses, and a tool that goes on failing is noticed


def raised(attempt):
    error = ErrorInfo(code="tool_crashed", message="it broke")
    return p.OnToolError(name="shell", call_id=CallId("c1"), error=error, attempt=attempt)


def test_after_so_many_retries_there_is_no_other():
    """`max_retries` ends the retries of this call, and of no other (5.8)."""
    plugin = Alone(Recovery, max_retries=2)
    assert plugin.hears(raised(2)).decision is None
    assert isinstance(plugin.hears(raised(3)).decision.action, p.Skip)
    assert plugin.hears(raised(1)).decision is None


@given(
    calls=st.lists(st.tuples(st.sampled_from(["shell", "grep"]), st.booleans())),
    max_retries=st.integers(0, 3),
)
def test_it_escalates_once_for_each_full_row_of_errors(calls, max_retries):
    """Beside a plain count: after every `max_retries` + 1 errors in a row of one tool, and at no other time."""
    plugin, rows = Alone(Recovery, max_retries=max_retries), {}
    for name, is_error in calls:
        rows[name] = rows.get(name, 0) + 1 if is_error else 0
        events = plugin.hears(result("said", name=name, is_error=is_error)).events
        assert len(events) == (rows[name] > 0 and rows[name] % (max_retries + 1) == 0)
    assert {one.tool: one.failures for one in plugin.state.failing} == {
        name: row % (max_retries + 1) for name, row in rows.items() if row % (max_retries + 1)
    }


# --- `AutoCheckpoint`: places to come back to are said, and so is which of them can go


def cycle(plugin, *, turn=1, outcome="finished", **context):
    """The checkpoints that the end of a cycle brings."""
    return marks(plugin.hears(p.AfterTurn(outcome=outcome), turn=turn, **context))


def marks(outcome):
    assert all(event.name == "checkpoint" for event in outcome.events)
    return [event.payload for event in outcome.events]


def test_the_events_that_you_name_bring_one():
    """`on_events`: the ends of cycles, and calls that fail (5.8)."""
    plugin = Alone(AutoCheckpoint, every_n_turns=0, on_events=["aborted", "tool_failed"])
    assert cycle(plugin, turn=99) == []
    assert [record["reason"] for record in cycle(plugin, outcome="aborted")] == ["aborted"]
    assert [record["reason"] for record in marks(plugin.hears(result("no", is_error=True)))] == ["tool shell"]


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 900))),
    every_n_turns=st.integers(1, 4),
    max_checkpoints=st.integers(1, 4),
)
def test_what_a_host_keeps_is_never_too_much_too_old_or_dropped_twice(steps, every_n_turns, max_checkpoints):
    """A host that does as it is told holds, after each checkpoint, at most `max_checkpoints`, none of them expired."""
    plugin = Alone(
        AutoCheckpoint, every_n_turns=every_n_turns, max_checkpoints=max_checkpoints, ttl_seconds=1
    )
    held, turns, now_ms = {}, 0, 0
    for turn, later_ms in steps:
        now_ms += later_ms
        turns += turn
        records = cycle(plugin, turn=turn, now_ms=now_ms)
        assert len(records) == (turns >= every_n_turns)
        for record in records:
            turns = 0
            for gone in record["dropped"]:
                del held[gone]
            assert record["id"] not in held
            held[record["id"]] = record["expires_at_ms"]
            assert len(held) <= max_checkpoints
            assert min(held.values()) > now_ms


# --- `EventLogger`: one record for each hook


@given(hooks=st.lists(st.sampled_from(HOOKS), max_size=15))
def test_records_are_numbered_and_none_is_missing(hooks):
    """One record per hook event, in order, numbered from 1; nothing else is done."""
    logger = Alone(EventLogger)
    outcomes = [logger.hears(EVENTS[hook]) for hook in hooks]
    records = [
        event.payload for outcome in outcomes for event in outcome.events if isinstance(event, PluginEvent)
    ]
    assert [(made["hook"], made["record"]) for made in records] == [
        (hook.__name__, number) for number, hook in enumerate(hooks, start=1)
    ]
    assert all(outcome.decision is None for outcome in outcomes)
