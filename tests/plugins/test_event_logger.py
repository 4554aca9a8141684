"""`EventLogger`: one record for each hook."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.stack.loading import load_stack
from agentrail.errors import PluginError
from agentrail.events import PluginEvent
from agentrail.messages import CallId, ToolResult
from agentrail.plugins.event_logger import EventLogger
from agentrail.testing.check_plugin import check_plugin
from tests.core.plugin_rig import EVENTS
from tests.plugins.rig import Alone, call, says


def record(event, **options):
    """The record of an event."""
    (published,) = Alone(EventLogger, **options).hears(event, now_ms=5, turn=2, total_tokens=9).events
    assert published.name == "log"
    return published.payload


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_each_hook_leaves_a_record(hook):
    """It names the hook, the time and the turn (5.8)."""
    made = record(EVENTS[hook])
    assert (made["hook"], made["at_ms"], made["turn"], made["total_tokens"]) == (hook.__name__, 5, 2, 9)


def test_records_tell_what_happened():
    """A call with its arguments, a response with its calls, an end with its reason."""
    assert record(call("shell", command="ls"))["arguments"] == {"command": "ls"}
    assert record(says("Looking.", "shell", "shell"))["calls"] == ["shell", "shell"]
    assert record(EVENTS[p.BeforePrompt])["text"] == "hello"
    assert record(EVENTS[p.BeforePluginOptsUpdate])["options"] == {"a": 1}


def test_arguments_can_be_left_out():
    """With `include_arguments=False` neither arguments nor options are told (5.8)."""
    assert record(call("shell", command="ls"), include_arguments=False)["arguments"] == {}
    assert record(EVENTS[p.BeforePluginOptsUpdate], include_arguments=False)["options"] == {}


def test_failures_are_warnings_at_least():
    """What went wrong stands out, whatever the level."""
    failed = ToolResult(call_id=CallId("c"), name="t", text="no", is_error=True)
    for event in (
        EVENTS[p.OnToolError],
        p.AfterTurn(outcome="aborted", abort_reason="enough"),
        p.AfterTool(name="t", call_id=CallId("c"), result=failed),
    ):
        assert record(event, level="debug")["level"] == "warning"
        assert record(event, level="error")["level"] == "error"
    assert record(EVENTS[p.AfterTool], level="debug")["level"] == "debug"


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; an unknown level is refused; a logger that fails stops nobody."""
    check_plugin(EventLogger, options=[{}, {"include_arguments": False}])
    with pytest.raises(PluginError, match="level is one of 'debug', 'info', 'warning', 'error', got 'loud'"):
        load_stack([(EventLogger, {"level": "loud"})])
    assert Alone(EventLogger).stack.members[0].on_error == "open"


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
