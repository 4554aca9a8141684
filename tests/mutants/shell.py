"""Mutants of the shell: who has a turn and when, and what sessions share."""

from typing import Final

from tests.mutants.mutant import Mutant

_TURNS: Final = "no session holds the loop"
_AT_ONCE: Final = "the first piece of a response arrives at once"
_CHECKED: Final = "a tool is judged by what it says itself"
_CONTEXT: Final = "a context says the same whenever it is asked"
_APART: Final = "what one session has at work is no other one's"
_TIMED: Final = "a call has the time that its tool names"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a full mailbox holds the loop",
        breaks=_TURNS,
        file="runtime/clock.py",
        old="                if in_a_row == MAX_IN_A_ROW:\n",
        new="                if in_a_row == 1000 * MAX_IN_A_ROW:\n",
        killed_by="tests/runtime/test_clock.py::test_a_full_mailbox_does_not_hold_the_loop",
    ),
    Mutant(
        name="a burst is read to its end first",
        breaks=_AT_ONCE,
        file="runtime/chunk_buffer.py",
        old="        return len(self._chunks) >= self._run\n",
        new="        return False\n",
        killed_by="tests/runtime/test_streams.py::test_the_first_piece_of_a_burst_comes_before_the_last_one_is_read[0]",
    ),
    Mutant(
        name="a burst behind a pause is read to its end first",
        breaks=_AT_ONCE,
        file="runtime/chunk_buffer.py",
        old="            self._run = _FIRST_RUN\n        self._chunks",
        new="            pass\n        self._chunks",
        killed_by="tests/runtime/test_streams.py::test_the_first_piece_of_a_burst_comes_before_the_last_one_is_read[500]",
    ),
    Mutant(
        name="tools whose values are equal share a spec",
        breaks=_CHECKED,
        file="runtime/tool_specs.py",
        old="(schema, kinds, *members)",
        new="(schema, *members)",
        killed_by="tests/runtime/test_tool_specs.py::test_tools_that_say_something_else_share_nothing",
    ),
    Mutant(
        name="a context forgets a member",
        breaks=_CONTEXT,
        file="runtime/tool_calls.py",
        old='        "memory": lambda call: frozen_value(call.effect.memory),\n',
        new="",
        killed_by="tests/runtime/test_tool_context.py::test_a_context_knows_where_each_of_its_members_is",
    ),
    Mutant(
        name="sessions share their timers",
        breaks=_APART,
        file="runtime/clock.py",
        old="        if not self._deadlines:\n            self._deadlines = {}\n",
        new="",
        killed_by="tests/runtime/test_clock.py::test_the_timers_of_one_session_are_no_other_ones",
    ),
    Mutant(
        name="sessions share their callers",
        breaks=_APART,
        file="runtime/pending_calls.py",
        old="        if not self._waiting:\n            self._waiting = {}\n",
        new="",
        killed_by="tests/runtime/test_task_group.py::test_what_one_session_has_at_work_is_no_other_ones[False]",
    ),
    Mutant(
        name="sessions share their tasks",
        breaks=_APART,
        file="runtime/task_group.py",
        old="            if not self._working:\n                self._working = {}\n",
        new="",
        killed_by="tests/runtime/test_task_group.py::test_what_one_session_has_at_work_is_no_other_ones[False]",
    ),
    Mutant(
        name="a call has no deadline",
        breaks=_TIMED,
        file="runtime/tool_calls.py",
        old="            scope.relative_deadline = max(timeout_seconds, 0.0)\n",
        new="",
        killed_by="tests/runtime/test_tool_port.py::test_the_time_of_a_call_begins_with_its_work[2]",
    ),
    Mutant(
        name="a call without any time crashes its session",
        breaks=_TIMED,
        file="runtime/tool_calls.py",
        old="max(timeout_seconds, 0.0)",
        new="timeout_seconds",
        killed_by="tests/runtime/test_tool_port.py::test_the_time_of_a_call_begins_with_its_work[-1]",
    ),
)
