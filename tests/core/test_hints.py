"""Hints: what the session heeds on one hook and nowhere else."""

import pytest

from agentrail import plugins as p
from agentrail.core.protocol.actions import HINTED_ON
from agentrail.core.protocol.hooks import HOOKS
from agentrail.events import ActionIgnored, PluginFailed
from tests.core.plugin_rig import Says, ask

POINTS = p.Hints(cache_points=("system", 3))
PAUSE = p.Hints(pause_ms=500)


def hinting(name, hints, action=p.Continue, **members):
    """A plugin that gives these hints with each answer."""
    return Says(name, lambda event, state, ctx: action(state, hints=hints), **members)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("hints", [POINTS, PAUSE], ids=["cache_points", "pause_ms"])
def test_a_hint_counts_on_its_hook_and_is_ignored_on_the_others(hook, hints):
    """Each hint has one hook; elsewhere `ActionIgnored` says so, and nothing is raised."""
    outcome = ask([hinting("one", hints)], hook)
    (name,) = [name for name in HINTED_ON if getattr(hints, name) is not None]
    if HINTED_ON[name] is hook:
        assert (outcome.hints, outcome.events) == (hints, ())
    else:
        ignored = ActionIgnored(plugin="one", hook=hook.__name__, action="hints")
        assert (outcome.hints, outcome.events) == (p.Hints(), (ignored,))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"pause_ms": -1}, "hints.pause_ms is a number of milliseconds, 0 or more; got -1"),
        ({"pause_ms": True}, "0 or more; got True"),
        ({"pause_ms": 0.5}, "0 or more; got 0.5"),
        ({"cache_points": ["system"]}, "a tuple of positions of messages, and 'system'; got ['system']"),
        ({"cache_points": ("tools",)}, "a tuple of positions of messages, and 'system'"),
        ({"cache_points": (-1,)}, "a tuple of positions of messages, and 'system'"),
    ],
)
def test_a_hint_that_cannot_be_is_a_failure_of_its_plugin(said, why):
    """It is named, and nothing of the answer counts."""
    outcome = ask([hinting("one", p.Hints(**said))], p.BeforeRequest)
    (event,) = outcome.events
    assert isinstance(event, PluginFailed)
    assert why in event.error.message
    assert outcome.hints == p.Hints()


def test_hints_are_a_value_of_their_own():
    """A mapping in their place is a failure that says what is expected."""
    (event,) = ask([hinting("one", {"pause_ms": 1})], p.OnToolError).events
    assert "hints is a p.Hints(…); got {'pause_ms': 1}" in event.error.message
