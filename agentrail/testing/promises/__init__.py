"""Promises about every step of a session, each as a function of one `Seen`.

Most of them are conservation laws: everything owed before, or added by the signal, is still owed afterwards or was delivered.
So one step shows a duplicate reply, a lost prompt, or a forgotten tool, whenever it happens.
"""

from collections.abc import Callable
from typing import Final

from agentrail.testing.promises.callers import (
    a_cycle_without_words_answers_what_is_there,
    callers_are_answered_once,
    prompts_are_never_lost,
    steers_are_never_lost,
    what_a_prompt_came_with_goes_with_it,
)
from agentrail.testing.promises.conversation import (
    a_budget_is_never_passed_by_a_promise,
    answers_have_the_shape_that_was_asked_for,
    cycles_have_one_terminal_event,
    event_numbers_are_dense,
    history_is_valid,
    history_only_grows,
    late_values_are_read,
    loops_are_told_or_ended,
    people_see_what_is_said_without_tags,
    requests_are_of_a_closed_history,
    requests_speak_every_dialect,
    suspensions_are_said,
    tool_events_come_in_pairs,
    what_was_cut_off_is_booked_whole,
)
from agentrail.testing.promises.effect_promises import (
    a_recovery_decides_all_that_is_open,
    a_recovery_runs_nothing_twice_that_may_not_be,
    an_abort_leaves_nothing_open,
    effect_ids_are_new,
    late_outcomes_change_nothing,
    nothing_passes_a_breakpoint,
    nothing_runs_that_the_host_has_not_let_run,
    nothing_started_is_forgotten,
    requests_have_the_context_of_their_turn,
    the_host_hears_of_what_ran,
    tools_run_once_and_only_from_waiting,
    what_is_not_recorded_leaves_no_trace,
)
from agentrail.testing.promises.observed_step import Seen as Seen, comparable as comparable
from agentrail.testing.promises.state_promises import (
    agents_are_as_written,
    calls_are_as_written,
    cycle_is_as_written,
    hold_is_as_written,
    owners_are_as_written,
    state_is_as_written,
    steps_follow_the_table,
    the_end_is_the_end,
    the_same_again_gives_the_same,
)

PROMISES: Final[tuple[Callable[[Seen], None], ...]] = (
    state_is_as_written,
    calls_are_as_written,
    agents_are_as_written,
    cycle_is_as_written,
    hold_is_as_written,
    owners_are_as_written,
    loops_are_told_or_ended,
    a_budget_is_never_passed_by_a_promise,
    what_was_cut_off_is_booked_whole,
    answers_have_the_shape_that_was_asked_for,
    history_is_valid,
    history_only_grows,
    late_values_are_read,
    requests_are_of_a_closed_history,
    requests_speak_every_dialect,
    people_see_what_is_said_without_tags,
    cycles_have_one_terminal_event,
    suspensions_are_said,
    tool_events_come_in_pairs,
    event_numbers_are_dense,
    tools_run_once_and_only_from_waiting,
    nothing_passes_a_breakpoint,
    nothing_runs_that_the_host_has_not_let_run,
    the_host_hears_of_what_ran,
    effect_ids_are_new,
    nothing_started_is_forgotten,
    requests_have_the_context_of_their_turn,
    late_outcomes_change_nothing,
    what_is_not_recorded_leaves_no_trace,
    an_abort_leaves_nothing_open,
    a_recovery_decides_all_that_is_open,
    a_recovery_runs_nothing_twice_that_may_not_be,
    prompts_are_never_lost,
    steers_are_never_lost,
    what_a_prompt_came_with_goes_with_it,
    a_cycle_without_words_answers_what_is_there,
    callers_are_answered_once,
    the_same_again_gives_the_same,
    steps_follow_the_table,
    the_end_is_the_end,
)
