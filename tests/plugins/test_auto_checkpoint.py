"""`AutoCheckpoint`: places to come back to are said, and so is which of them can go."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.errors import PluginError
from agentrail.plugins.auto_checkpoint import AutoCheckpoint
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, result, user


def cycle(plugin, *, turn=1, outcome="finished", **context):
    """The checkpoints that the end of a cycle brings."""
    return marks(plugin.hears(p.AfterTurn(outcome=outcome), turn=turn, **context))


def marks(outcome):
    """What the checkpoints say that were published."""
    assert all(event.name == "checkpoint" for event in outcome.events)
    return [event.payload for event in outcome.events]


def test_every_so_many_turns_there_is_one_at_the_end_of_a_cycle():
    """Turns are counted over cycles, requests and not prompts; the count begins again with each checkpoint (5.8)."""
    plugin = Alone(AutoCheckpoint, every_n_turns=3)
    assert cycle(plugin, turn=2) == []
    (first,) = cycle(plugin, turn=2)
    assert (first["reason"], first["turn"]) == ("4 turns", 2)
    assert cycle(plugin, turn=2) == []
    assert len(cycle(plugin, turn=1)) == 1


def test_it_says_what_a_host_needs():
    """The record names the checkpoint, when it was made and until when it is kept, and how the session stood."""
    plugin = Alone(AutoCheckpoint, every_n_turns=1, ttl_seconds=60)
    (record,) = cycle(
        plugin, now_ms=5_000, messages=(user("hello"),), total_tokens=7, user_data={"tenant": "acme"}
    )
    assert record == {
        "id": "s-1",
        "reason": "1 turns",
        "at_ms": 5_000,
        "expires_at_ms": 65_000,
        "turn": 1,
        "messages": 1,
        "total_tokens": 7,
        "dropped": [],
        "user_data": {"tenant": "acme"},
    }


def test_a_call_that_you_name_is_marked_at_once():
    """`on_tools`: after each such call that went well, and after no other (5.8)."""
    plugin = Alone(AutoCheckpoint, on_tools=["deploy"])
    (record,) = marks(plugin.hears(result("done", name="deploy")))
    assert record["reason"] == "tool deploy"
    assert marks(plugin.hears(result("no", name="deploy", is_error=True))) == []
    assert marks(plugin.hears(result("done"))) == []


def test_the_events_that_you_name_bring_one():
    """`on_events`: the ends of cycles, and calls that fail (5.8)."""
    plugin = Alone(AutoCheckpoint, every_n_turns=0, on_events=["aborted", "tool_failed"])
    assert cycle(plugin, turn=99) == []
    assert [record["reason"] for record in cycle(plugin, outcome="aborted")] == ["aborted"]
    assert [record["reason"] for record in marks(plugin.hears(result("no", is_error=True)))] == ["tool shell"]


def test_the_oldest_go_when_there_are_too_many_or_their_time_is_over():
    """`max_checkpoints` and `ttl_seconds`: each checkpoint names those that can go, once (5.8)."""
    plugin = Alone(AutoCheckpoint, every_n_turns=1, max_checkpoints=2, ttl_seconds=1)
    dropped = [cycle(plugin, now_ms=now_ms)[0]["dropped"] for now_ms in (0, 100, 200, 1_100, 9_000)]
    assert dropped == [[], [], ["s-1"], ["s-2"], ["s-3", "s-4"]]
    plugin = Alone(AutoCheckpoint, every_n_turns=1, ttl_seconds=1)
    assert [cycle(plugin, now_ms=now_ms)[0]["dropped"] for now_ms in (0, 999, 1_000)] == [[], [], ["s-1"]]


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
