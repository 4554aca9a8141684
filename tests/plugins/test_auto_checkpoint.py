"""`AutoCheckpoint`: places to come back to are said, and so is which of them can go."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.plugins.auto_checkpoint import AutoCheckpoint
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, result


def cycle(plugin, *, turn=1, outcome="finished", **context):
    """The checkpoints that the end of a cycle brings."""
    return marks(plugin.hears(p.AfterTurn(outcome=outcome), turn=turn, **context))


def marks(outcome):
    """What the checkpoints say that were published."""
    assert all(event.name == "checkpoint" for event in outcome.events)
    return [event.payload for event in outcome.events]


def test_the_events_that_you_name_bring_one():
    """`on_events`: the ends of cycles, and calls that fail (5.8)."""
    plugin = Alone(AutoCheckpoint, every_n_turns=0, on_events=["aborted", "tool_failed"])
    assert cycle(plugin, turn=99) == []
    assert [record["reason"] for record in cycle(plugin, outcome="aborted")] == ["aborted"]
    assert [record["reason"] for record in marks(plugin.hears(result("no", is_error=True)))] == ["tool shell"]


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; options that mean nothing refuse the start, and say what they may be."""
    check_plugin(
        AutoCheckpoint, options=[{}, {"every_n_turns": 1, "on_tools": ["shell"], "on_events": ["aborted"]}]
    )
    with pytest.raises(PluginError, match="on_events takes finished, aborted, tool_failed; got restarted"):
        load_stack([(AutoCheckpoint, {"on_events": ["aborted", "restarted"]})])
    for wrong in ({"every_n_turns": -1}, {"max_checkpoints": 0}, {"ttl_seconds": 0}):
        with pytest.raises(PluginError, match="max_checkpoints 1 or more"):
            load_stack([(AutoCheckpoint, wrong)])


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
