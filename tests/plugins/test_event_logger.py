"""`EventLogger`: one record for each hook."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.protocol.hooks import HOOKS
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import PluginError
from agentrail.events import PluginEvent
from agentrail.plugins.event_logger import EventLogger
from agentrail.testing.check_plugin import check_plugin
from tests.core.plugin_rig import EVENTS
from tests.plugins.rig import Alone


def record(event, **options):
    """The record of an event."""
    (published,) = Alone(EventLogger, **options).hears(event, now_ms=5, turn=2, total_tokens=9).events
    assert published.name == "log"
    return published.payload


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; an unknown level is refused; a logger that fails stops nobody."""
    check_plugin(EventLogger, options=[{}, {"include_arguments": False}])
    with pytest.raises(
        PluginError, match="level must be one of 'debug', 'info', 'warning', 'error', got 'loud'"
    ):
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
