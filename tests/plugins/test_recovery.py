"""`Recovery`: failing calls are retried with growing pauses, and a tool that goes on failing is noticed."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.errors import ErrorInfo, PluginError
from agentrail.messages import CallId
from agentrail.plugins.recovery import Recovery
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, result


def raised(attempt):
    """A tool that raised, before its retry."""
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


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; a number below 0 refuses the start."""
    check_plugin(Recovery, options=[{}, {"max_retries": 0, "fallback_model": "demo:small"}])
    for wrong in ({"max_retries": -1}, {"backoff_base_ms": -1}):
        with pytest.raises(PluginError, match="are 0 or more"):
            load_stack([(Recovery, wrong)])
