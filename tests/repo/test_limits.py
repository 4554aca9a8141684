"""Every limit has a test that trips it, on each path that could spend it; whoever adds a limit adds its line here."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest

from agentrail.core.policy.budget import Budget
from agentrail.runtime.session_options import SessionOptions
from tests.thinned import each

ROOT: Final = Path(__file__).parents[2]

Paths = Mapping[str, str]

REQUESTS: Final[Paths] = {
    "a turn": "scenario budget",
    "a retry, and what failed attempts used": "scenario usage_of_failed_attempts",
    "a request that is out when the session crashes": "scenario budget_after_a_crash",
    "a summary": "scenario compaction_cannot_be_paid",
    "a question of a plugin": "tests/core/test_spending.py::test_what_a_plugin_asks_is_refused_when_it_cannot_be_paid",
    "a child": "tests/runtime/test_children.py::test_children_share_a_budget",
    "children side by side": "tests/core/test_spending.py::test_children_are_lent_equal_shares_of_what_is_left",
    "whatever comes": "property_tests/core/test_budgets_hold.py",
}
"""Whatever asks a model."""

LIMITS: Final[Mapping[str, Paths]] = {
    "budget.max_cost_usd": {
        **REQUESTS,
        "a cent": "tests/core/test_budget.py::test_a_limit_is_met_to_the_last_billionth_and_the_last_token",
        "a model without a price": "tests/core/test_budget.py::test_what_nobody_knows_is_refused_unless_allowed",
    },
    "budget.max_total_tokens": {
        **REQUESTS,
        "a token": "tests/core/test_budget.py::test_a_limit_is_met_to_the_last_billionth_and_the_last_token",
        "an answer without a limit": "scenario budget_unknown_output",
    },
    "max_turns": {
        "calls of tools": "scenario max_turns",
        "calls on the last turn": "scenario max_turns_calls_all_the_same",
        "another turn than the last": "scenario max_turns_abort",
        "a steer": "scenario steer_on_the_last_turn",
        "an answer that must be put right": "scenario response_format_rejected",
        "a pause of the vendor": "scenario pause_turn",
    },
    "max_prompt_queue": {
        "a prompt": "scenario queue_full",
        "a steer that becomes one": "scenario steer_while_tearing_down",
        "the handle": "tests/runtime/test_handle.py::test_a_full_queue_refuses",
        "ten thousand at once": "tests/runtime/test_crowds.py::test_ten_thousand_prompts_at_once",
    },
    "max_agents": {"spawn_agent": "scenario agents_bad_input"},
    "max_agents_total": {"spawn_agent": "scenario agents_bad_input"},
    "max_agent_depth": {
        "the tools of an agent": "tests/runtime/test_background_agents.py::test_agents_do_not_start_agents_unless_that_is_allowed",
    },
    "max_steering_queue": {
        "a steer": "scenario steer_queue_full",
        "the handle": "tests/runtime/test_people.py::test_steers_beyond_the_limit_are_refused",
    },
    "max_parallel_tools": {
        "calls of a batch": "scenario tool_slots",
        "survivors of an abort": "scenario survivors_take_slots",
        "a survivor that is being stopped": "scenario abort_tool_survivor_slot",
        "a call that is made again": "scenario tool_retry_leaves_its_slot",
        "tasks": "tests/runtime/test_tools_at_work.py::test_at_most_so_many_calls_run_at_a_time",
    },
    "max_retries": {
        "a request": "scenario request_given_up",
        "a fallback": "tests/core/test_retries.py::test_the_next_model_has_retries_of_its_own",
        "a broken format": "tests/core/test_retries.py::test_a_broken_format_is_retried_once",
    },
    "tool_max_retries": {
        "a tool that raises": "scenario tool_retries_end",
        "its own number": "tests/core/test_retries.py::test_only_what_may_be_repeated_is_retried",
    },
    "tool_timeout_seconds": {
        "a tool": "tests/runtime/test_tools_at_work.py::test_a_tool_without_a_timeout_gets_that_of_its_session",
        "a child": "tests/runtime/test_children.py::test_a_child_that_fails_or_takes_too_long_is_an_error_of_the_call",
        "a question": "scenario question_times_out",
    },
    "approval_timeout_seconds": {"an approval": "scenario approval_times_out"},
    "max_output_tokens": {"a response": "scenario output_limit"},
    "compact_at_tokens": {"a conversation": "scenario compaction_is_due"},
    "event_buffer_size": {
        "one who comes back": "tests/runtime/test_resuming.py",
        "one who comes back to many": "tests/runtime/test_fan_in.py::test_what_is_lost_is_told_for_each_session",
    },
}

NAMES_OF_A_LIMIT: Final = ("max_", "_max_", "_timeout_seconds", "_buffer_size", "compact_at_")


@pytest.mark.at(126)
def test_every_limit_stands_in_the_table():
    """Whatever of the options of a session, and of its budget, is a limit; and nothing that is none any more."""
    options = {field.name for field in attrs.fields(SessionOptions)}
    limits = {name for name in options if any(part in name for part in NAMES_OF_A_LIMIT)} - {"on_max_turns"}
    limits |= {f"budget.{field.name}" for field in attrs.fields(Budget) if field.name.startswith("max_")}
    assert limits == LIMITS.keys()


@pytest.mark.at(126)
@each("reference", sorted({reference for paths in LIMITS.values() for reference in paths.values()}))
def test_what_trips_a_limit_is_there(reference):
    """A scenario, a test or a module of tests; who renames one meets this table."""
    kind, _, scenario = reference.partition(" ")
    file, _, name = reference.partition("::")
    if kind == "scenario":
        assert (ROOT / "tests" / "scenarios" / f"{scenario}.txt").is_file()
    else:
        assert re.search(rf"^(async )?def {name}\b", (ROOT / file).read_text(), re.MULTILINE) or not name
