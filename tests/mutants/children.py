"""Mutants of children: what is lent to the sessions of calls and tools, who waits for a share, and what comes back."""

from typing import Final

from tests.mutants.mutant import Mutant

_ONCE: Final = "what a child used is counted once, and the rest comes back (3.2)"
_CORE: Final = "tests/core/test_children_of_tools.py"
_SHELL: Final = "tests/runtime/test_sessions_of_tools.py"
_TREE: Final = "property_tests/core/test_trees_of_sessions.py::TestTree"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="the first who waited is given all that came back",
        breaks=_ONCE,
        file="core/session/children.py",
        old="    return step.data.batch.waiting_children + len(step.data.wishes)\n",
        new="    return 1\n",
        killed_by=f"{_CORE}::test_who_finds_nothing_left_waits_and_shares_what_comes_back",
    ),
    Mutant(
        name="a tool is refused although something may come back",
        breaks=_ONCE,
        file="core/session/children.py",
        old="        if refused is not None and ledger is not None and ledger.open:\n            return\n",
        new="",
        killed_by=f"{_SHELL}::test_sessions_side_by_side_wait_for_their_shares",
    ),
    Mutant(
        name="who waits for a share outlives the call",
        breaks="every caller is answered",
        file="core/session/children.py",
        old='            step.refuse(wish.signal_id, CycleAborted("the call that asks was stopped"))\n',
        new="            pass\n",
        killed_by=f"{_CORE}::test_whatever_ends_the_call_refuses_who_waits_and_takes_back_the_rest[finished]",
    ),
    Mutant(
        name="a child is settled for ever",
        breaks=_ONCE,
        file="core/session/budget.py",
        old="for loan in step.data.loans if loan != effect_id)\n",
        new="for loan in step.data.loans)\n",
        killed_by=_TREE,
    ),
    Mutant(
        name="a child gives nothing back",
        breaks=_ONCE,
        file="core/session/budget.py",
        old="take_back(ledger, _reservation_of(step.data, effect_id), spent)\n",
        new="take_back(ledger, _reservation_of(step.data, effect_id), None)\n",
        killed_by=f"{_SHELL}::test_a_session_of_a_tool_works_under_a_budget",
    ),
    Mutant(
        name="a share that nobody waits for is kept",
        breaks=_ONCE,
        file="runtime/tool_calls.py",
        old="        if not self.pending_calls.answer(effect.wish.signal_id, effect):\n            self.give_back(effect)\n",
        new="        self.pending_calls.answer(effect.wish.signal_id, effect)\n",
        killed_by=f"{_SHELL}::test_a_tool_that_waits_no_longer_has_no_session",
    ),
    Mutant(
        name="a share comes back behind the outcome of its tool",
        breaks=_ONCE,
        file="runtime/tool_calls.py",
        old="        self.task_group.deliver_first(",
        new="        self.deliver(",
        killed_by=f"{_SHELL}::test_whatever_ends_a_tool_ends_its_sessions_and_gives_the_rest_back[timeout]",
    ),
    Mutant(
        name="what another task lets work outlives the call",
        breaks="after an abort nothing is left",
        file="runtime/tool_calls.py",
        old='            scope.cancel(reason="the call has ended")\n',
        new="            pass\n",
        killed_by=f"{_SHELL}::test_a_session_that_somebody_else_runs_ends_with_the_call_too[None]",
    ),
    Mutant(
        name="calls are answered by sessions without end",
        breaks="sessions do not stand on one another without end",
        file="core/session/batch.py",
        old="    if fault is not None:\n",
        new="    if fault is not None and False:\n",
        killed_by=f"{_CORE}::test_no_session_stands_too_deep[8]",
    ),
)
