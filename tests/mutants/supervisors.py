"""Mutants of supervisors: what is restarted, how a tree stops, and what no child, caller or error may do to it."""

from typing import Final

from tests.mutants.mutant import Mutant

_BUDGET: Final = "restarts are bounded (2.3)"
_STOP: Final = "a stop has an order and an end (2.3, 2.9)"
_STARTS: Final = "a cancelled start leaves neither child nor spec (2.8)"
_STANDS: Final = "a tree does not fall over a child or a caller (2.11)"
_EDGE: Final = "what an actor raises is its exit reason (2.1, 2.9)"
_SERVED: Final = "callers are served meanwhile (2.8)"
_TOLD: Final = "whoever asks is told the truth (2.5, 2.8)"

_RESTART_TYPES: Final = "tests/actors/test_restart_types.py"
_STOPPING: Final = "tests/actors/test_stopping.py"
_CANCELLED: Final = "tests/actors/test_cancelled_starts.py"
_ONE_STEP: Final = "tests/actors/test_starts_in_one_step.py"
_TREES: Final = "tests/actors/test_trees_that_stand.py"
_BASE: Final = "tests/actors/test_base_exceptions.py"
_REPORTS: Final = "tests/actors/test_reports.py"
_CALLS: Final = "tests/otp/test_supervision_calls.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # --- restarts
    Mutant(
        name="the edge of the window is outside",
        breaks=_BUDGET,
        file="otp/restarts.py",
        old="key=lambda then: now - then <= period",
        new="key=lambda then: now - then < period",
        killed_by=f"{_RESTART_TYPES}::test_edge_of_the_window_is_inside",
    ),
    Mutant(
        name="one restart too many",
        breaks=_BUDGET,
        file="otp/restarts.py",
        old="len(kept) <= intensity",
        new="len(kept) <= intensity + 1",
        killed_by=f"{_RESTART_TYPES}::test_intensity_0",
    ),
    Mutant(
        name="no checkpoint before a child's first step",
        breaks=_STARTS,
        file="actors/running.py",
        old="                await trio.lowlevel.checkpoint_if_cancelled()\n",
        new="",
        killed_by=f"{_TREES}::test_a_start_that_is_cancelled_before_its_first_step_runs_nothing",
    ),
    Mutant(
        name="children talk before callers",
        breaks=_SERVED,
        file="actors/supervising.py",
        old="        self.mailbox.put_notice(self._make(kind, **fields))",
        new="        self.mailbox.put_control(self._make(kind, **fields))",
        killed_by=f"{_TREES}::test_a_restart_storm_starves_nobody",
    ),
    # --- starts
    Mutant(
        name="an answer that nobody takes is forgotten",
        breaks=_STARTS,
        file="actors/supervising.py",
        old="                self._untaken.append(answer)\n",
        new="                pass\n",
        killed_by=f"{_CANCELLED}::test_start_child",
    ),
    Mutant(
        name="only who has left is gone",
        breaks=_STARTS,
        file="actors/supervising.py",
        old="if to is None or not to.is_open:",
        new="if to is None:",
        killed_by=f"{_CANCELLED}::test_start_child",
    ),
    Mutant(
        name="the spec of an undone start stays",
        breaks=_STARTS,
        file="otp/supervision_requests.py",
        old="    child = structs.replace(child, fresh=is_new)\n",
        new="",
        killed_by=f"{_CALLS}::test_a_start_whose_answer_nobody_takes_leaves_neither_child_nor_spec",
    ),
    Mutant(
        name="an undone start runs on",
        breaks=_STARTS,
        file="otp/supervision_requests.py",
        old="    if not step.is_stopping:  # else it goes with all others, in its turn\n        stop_child(step, child)\n",
        new="",
        killed_by=f"{_CALLS}::test_an_instance_whose_answer_nobody_takes_is_no_orphan",
    ),
    Mutant(
        name="an undone start is stopped out of turn",
        breaks=_STOP,
        file="otp/supervision_requests.py",
        old="    if not step.is_stopping:  # else it goes",
        new="    if True:  # else it goes",
        killed_by=f"{_CALLS}::test_a_start_is_not_undone_twice",
    ),
    Mutant(
        name="the answer to a start does not wait for the first step",
        breaks=_SERVED,
        file="actors/supervising.py",
        old="        if run is not None and not run.has_begun:\n",
        new="        if False:\n",
        killed_by=f"{_ONE_STEP}::test_who_starts_a_worker_finds_what_its_first_step_did",
    ),
    Mutant(
        name="an answer that is held is taken",
        breaks=_STARTS,
        file="actors/supervising.py",
        old="item if held is None else self._untaken_of(held)",
        new="item",
        killed_by=f"{_ONE_STEP}::test_a_caller_that_goes_before_the_first_step_gets_no_child",
    ),
    # --- stops
    Mutant(
        name="a kill does not hurry a start",
        breaks=_STOP,
        file="otp/supervision_stops.py",
        old="            if kill or not child.doomed:",
        new="            if not child.doomed:",
        killed_by="tests/otp/test_supervision_stop.py::test_a_kill_hurries_a_start_that_takes_its_time_to_end",
    ),
    Mutant(
        name="children without their shield",
        breaks=_STOP,
        file="actors/blocks.py",
        old="        with trio.CancelScope(shield=True):\n            self.reason",
        new="        with trio.CancelScope():\n            self.reason",
        killed_by=f"{_STOPPING}::test_forced_stop_has_a_limit",
    ),
    Mutant(
        name="terminate without an end",
        breaks=_STOP,
        file="actors/machine_loop.py",
        old="        limit = math.inf if cell.is_laddered else min(seconds, UNASKED_SECONDS)",
        new="        limit = math.inf",
        killed_by=f"{_TREES}::test_a_terminate_that_nobody_asked_for_has_five_seconds",
    ),
    Mutant(
        name="stop answers before the end",
        breaks=_TOLD,
        file="actors/supervising.py",
        old="        if isinstance(outcome, StopSummary) and not outcome.stuck:",
        new="        if False:",
        killed_by=f"{_TREES}::test_a_supervisor_is_down_when_stop_returns",
    ),
    Mutant(
        name="a subtree in its init is never stuck",
        breaks=_STOP,
        file="actors/supervising.py",
        old="        if not isinstance(run.cell, SupervisorCell) or run.cell.core is None:\n            due",
        new="        if not isinstance(run.cell, SupervisorCell):\n            due",
        killed_by=f"{_TREES}::test_a_subtree_that_does_not_obey_in_its_init_is_stuck",
    ),
    # --- what an actor raises
    Mutant(
        name="an exit hides the error beside it",
        breaks=_EDGE,
        file="actors/raised.py",
        old="all(isinstance(part, ActorExit) for part in parts)",
        new="any(isinstance(part, ActorExit) for part in parts)",
        killed_by=f"{_TREES}::test_an_exit_beside_an_error_is_the_error",
    ),
    Mutant(
        name="a foreign BaseException leaves its machine",
        breaks=_EDGE,
        file="otp/edges.py",
        old="    return what_leaves(error) is not None or any(map(is_cancellation, leaves(error)))",
        new="    return any(not isinstance(leaf, Exception) for leaf in leaves(error))",
        killed_by=f"{_BASE}::test_of_a_machine",
        rows=(147,),
    ),
    Mutant(
        name="an interrupt ends in its actor",
        breaks=_EDGE,
        file="actors/raised.py",
        old="            interrupt(part)\n",
        new="            pass\n",
        killed_by=f"{_STOPPING}::test_an_interrupt_in_a_child_leaves_the_block",
    ),
    Mutant(
        name="a kept cancellation ends the tree",
        breaks=_EDGE,
        file="actors/running.py",
        old="        if trio.current_effective_deadline() == -math.inf:",
        new="        if trio.current_effective_deadline() <= math.inf:",
        killed_by=f"{_BASE}::test_a_cancellation_that_somebody_kept_is_a_crash",
    ),
    Mutant(
        name="a long chain is printed whole",
        breaks=_STANDS,
        file="otp/tracebacks.py",
        old="        chain = [*chain[:half], *chain[-half:]]",
        new="        pass",
        killed_by="tests/otp/test_tracebacks.py::test_of_a_long_chain_the_first_and_the_last_are_printed",
    ),
    Mutant(
        name="causes of a failed start without an end",
        breaks=_STANDS,
        file="otp/exits.py",
        old="        if depth >= CAUSES_LIMIT:",
        new="        if depth >= 1_000_000:",
        killed_by="tests/otp/test_exits.py::test_causes_are_bounded",
    ),
    # --- what is given
    Mutant(
        name="any reason will do",
        breaks=_STANDS,
        file="actors/handle.py",
        old='        check_reason(reason)\n        refuse_self(self._cell, "stop")',
        new='        refuse_self(self._cell, "stop")',
        killed_by=f"{_TREES}::test_what_is_no_reason_is_refused_at_every_door",
    ),
    Mutant(
        name="any flags will do",
        breaks=_STANDS,
        file="otp/supervision_requests.py",
        old="    check_flags(call.flags)\n",
        new="",
        killed_by=f"{_CALLS}::test_flags_that_are_none_are_refused",
    ),
    Mutant(
        name="options of a worker are swallowed",
        breaks=_TOLD,
        file="actors/start.py",
        old='        if self.form != "machine":',
        new="        if False:",
        killed_by=f"{_TREES}::test_options_that_mean_nothing_are_refused",
    ),
    Mutant(
        name="a call to a supervisor waits",
        breaks=_TOLD,
        file="actors/supervising.py",
        old="                item.to.fail(self.cell.refuse_messages())",
        new="                pass",
        killed_by=f"{_TREES}::test_a_call_to_a_supervisor_is_refused_at_once",
    ),
    Mutant(
        name="a bug over a call ends the tree",
        breaks=_STANDS,
        file="actors/supervising.py",
        old="        if not isinstance(signal, SupervisorRequest):\n            raise error",
        new="        raise error",
        killed_by=f"{_REPORTS}::test_a_bug_of_the_reducer_costs_one_call",
    ),
    Mutant(
        name="giving up names nobody",
        breaks=_TOLD,
        file="otp/supervision_sweeps.py",
        old="begin_ending(step, GAVE_UP, culprit=Culprit(child.spec.id, reason, child.handle))",
        new="begin_ending(step, GAVE_UP)",
        killed_by=f"{_REPORTS}::test_giving_up_names_whoever_it_began_with",
    ),
)
