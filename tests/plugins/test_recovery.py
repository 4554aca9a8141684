"""`Recovery`: failing calls are retried with growing pauses, and a tool that goes on failing is noticed."""

import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loading import load_stack
from agentrail.errors import ErrorInfo, PluginError
from agentrail.messages import CallId
from agentrail.plugins.recovery import MAX_ERROR_CHARACTERS, MAX_RECOVERY_PAUSE_MS, Recovery
from agentrail.testing.check_plugin import check_plugin
from tests.plugins.plugin_request_rig import Alone, result


def raised(attempt):
    """A tool that raised, before its retry."""
    error = ErrorInfo(code="tool_crashed", message="it broke")
    return p.OnToolError(name="shell", call_id=CallId("c1"), error=error, attempt=attempt)


def fails(plugin, text="no", **fields):
    """One more call that ends in an error; what is said of it, and the model that comes of it."""
    outcome = plugin.hears(result(text, is_error=True, **fields), model="x:one")
    return [event.payload for event in outcome.events], outcome.switch and outcome.switch.model


def test_each_pause_is_longer_than_the_one_before():
    """From half of `backoff_base_ms` to all of it, doubled with each retry, at most a minute (5.8)."""
    for attempt, longest in (
        (1, 1_000),
        (2, 2_000),
        (3, 4_000),
        (7, MAX_RECOVERY_PAUSE_MS),
        (10_000, MAX_RECOVERY_PAUSE_MS),
    ):
        for seed in range(20):
            plugin = Alone(Recovery, max_retries=10_000)
            outcome = plugin.hears(raised(attempt), random=p.SeededRandom(seed))
            assert outcome.decision is None
            assert longest / 2 <= outcome.hints.pause_ms <= longest


def test_after_so_many_retries_there_is_no_other():
    """`max_retries` ends the retries of this call, and of no other (5.8)."""
    plugin = Alone(Recovery, max_retries=2)
    assert plugin.hears(raised(2)).decision is None
    assert isinstance(plugin.hears(raised(3)).decision.action, p.Skip)
    assert plugin.hears(raised(1)).decision is None


def test_a_tool_that_goes_on_failing_is_escalated():
    """The first error after `max_retries` in a row is published, and the model is switched; then the count begins again (5.8)."""
    plugin = Alone(Recovery, max_retries=1, fallback_model="x:two")
    assert fails(plugin) == ([], None)
    events, model = fails(plugin, "x" * 1_000, call_id="c2")
    assert model == "x:two"
    (said,) = events
    assert (said["tool"], said["call_id"], said["failures"], said["fallback_model"]) == (
        "shell",
        "c2",
        2,
        "x:two",
    )
    assert said["error"] == "x" * MAX_ERROR_CHARACTERS
    assert fails(plugin) == ([], None)


def test_a_success_and_another_tool_start_over():
    """Only errors in a row count, and each tool for itself."""
    plugin = Alone(Recovery, max_retries=1)
    fails(plugin)
    fails(plugin, name="grep")
    plugin.hears(result("well"))
    assert fails(plugin) == ([], None)
    assert [said["tool"] for said in fails(plugin, name="grep")[0]] == ["grep"]


def test_without_a_fallback_and_without_events_nothing_is_done():
    """`fallback_model=None` switches nothing, nor does one that is asked already; `escalation_event=False` is silent (5.8)."""
    assert fails(Alone(Recovery, max_retries=0))[1] is None
    assert fails(Alone(Recovery, max_retries=0, fallback_model="x:one"))[1] is None
    assert fails(Alone(Recovery, max_retries=0, escalation_event=False)) == ([], None)


def test_it_keeps_the_contract_of_plugins():
    """`check_plugin`; a number below 0 refuses the start."""
    check_plugin(Recovery, options=[{}, {"max_retries": 0, "fallback_model": "demo:small"}])
    for wrong in ({"max_retries": -1}, {"backoff_base_ms": -1}):
        with pytest.raises(PluginError, match="are 0 or more"):
            load_stack([(Recovery, wrong)])


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
