"""Hints: what the session heeds on one hook and nowhere else."""

import itertools

from agentrail import plugins as p
from agentrail.core.protocol.actions import HINTED_ON
from agentrail.core.protocol.hooks import HOOKS
from agentrail.events import ActionIgnored, PluginFailed
from tests.core.plugin_rig import Says, ask
from tests.thinned import each

POINTS = p.Hints(cache_points=("system", 3))
PAUSE = p.Hints(pause_ms=500)


def hinting(name, hints, action=p.Continue, **members):
    """A plugin that gives these hints with each answer."""
    return Says(name, lambda event, state, ctx: action(state, hints=hints), **members)


@each(("hook", "hints"), itertools.product(HOOKS, [POINTS, PAUSE]))
def test_a_hint_counts_on_its_hook_and_is_ignored_on_the_others(hook, hints):
    """Each hint has one hook; elsewhere `ActionIgnored` says so, and nothing is raised."""
    outcome = ask([hinting("one", hints)], hook)
    (name,) = [name for name in HINTED_ON if getattr(hints, name) is not None]
    if HINTED_ON[name] is hook:
        assert (outcome.hints, outcome.events) == (hints, ())
    else:
        ignored = ActionIgnored(plugin="one", hook=hook.__name__, action="hints")
        assert (outcome.hints, outcome.events) == (p.Hints(), (ignored,))


def test_a_hint_that_cannot_be_is_a_failure_of_its_plugin():
    """It is named, and nothing of the answer counts; hints are a value of their own, and no mapping."""
    points = "hints.cache_points must be a tuple of message positions and 'system'"
    for said, why in (
        ({"pause_ms": -1}, "hints.pause_ms must be a number of milliseconds >= 0; got -1"),
        ({"pause_ms": True}, ">= 0; got True"),
        ({"pause_ms": 0.5}, ">= 0; got 0.5"),
        ({"cache_points": ["system"]}, f"{points}; got ['system']"),
        ({"cache_points": ("tools",)}, points),
        ({"cache_points": (-1,)}, points),
    ):
        outcome = ask([hinting("one", p.Hints(**said))], p.BeforeRequest)
        (event,) = outcome.events
        assert isinstance(event, PluginFailed)
        assert why in event.error.message
        assert outcome.hints == p.Hints()
    (event,) = ask([hinting("one", {"pause_ms": 1})], p.OnToolError).events
    assert "hints must be p.Hints(…); got {'pause_ms': 1}" in event.error.message
