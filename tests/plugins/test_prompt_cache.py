"""`PromptCache`: where the vendor's prompt cache should end."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.policy.request_context import tokens_of
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.import_history import import_messages
from agentrail.errors import PluginError
from agentrail.messages import AssistantMessage, ToolMessage
from agentrail.plugins.prompt_cache import PromptCache
from agentrail.testing import strategies
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone


def points(*messages, **options):
    """Where the cache ends of a request with these messages."""
    return Alone(PromptCache, **options).hears(p.BeforeRequest(messages=messages)).hints.cache_points


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; numbers that mean nothing refuse the start."""
    check_plugin(PromptCache, options=[{}, {"max_cache_points": 1, "min_tokens": 0}])
    for wrong in ({"max_cache_points": 0}, {"min_tokens": -1}):
        with pytest.raises(PluginError, match="max_cache_points is 1 or more"):
            load_stack([(PromptCache, wrong)])


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
