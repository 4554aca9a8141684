"""Mutants of the step itself: its order, its draft, its table, and what it does not do twice."""

from typing import Final

from tests.mutants.mutant import Mutant

_STEP: Final = "tests/core/test_step.py"
_ORDER: Final = "who asked first is answered first"
_INSIDE: Final = "a draft never leaves its step"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="the next prompt begins in front of what was postponed",
        breaks=_ORDER,
        file="core/machine.py",
        old="        if postponed and phase is not before:\n",
        new="        if postponed and phase is not before and not work.data.queue:\n",
        killed_by=f"{_STEP}::test_time_does_not_run_backwards_after_what_was_postponed",
    ),
    Mutant(
        name="a draft can be written to after its step",
        breaks=_INSIDE,
        file="core/work.py",
        old="        del self.data\n",
        new="",
        killed_by=f"{_STEP}::test_a_draft_is_gone_when_its_step_is_over",
    ),
    Mutant(
        name="plugins are shown the draft",
        breaks=_INSIDE,
        file="core/hooking.py",
        old="        repairs=data.repairs,\n",
        new="        repairs=(data,),\n",
        killed_by=f"{_STEP}::test_no_draft_leaves_its_step",
    ),
    Mutant(
        name="the table forbids a phase that follows",
        breaks="the table decides",
        file="core/legality.py",
        old='    StreamStarted:     _row(D,      "RS",   D,        D),\n',
        new='    StreamStarted:     _row(D,      "R",    D,        D),\n',
        killed_by=f"{_STEP}::test_a_step_ends_where_the_table_says_that_it_may",
    ),
    Mutant(
        name="each turn makes a second request to see whether a compaction is due",
        breaks="a compaction that is not due costs nothing",
        file="core/compacting.py",
        old='    if reason == "due" and not is_due(sent, limits):\n        return False\n',
        new='    request_of(data, EffectId(""), last_turn=False)\n    if reason == "due" and not is_due(sent, limits):\n        return False\n',
        killed_by=f"{_STEP}::test_a_compaction_that_is_not_due_makes_no_request",
    ),
    Mutant(
        name="arguments are hashed for every look",
        breaks="arguments are hashed once",
        file="core/looping.py",
        old="state.arguments_hash or hash_arguments(arguments)",
        new="hash_arguments(arguments)",
        killed_by=f"{_STEP}::test_arguments_are_hashed_once",
    ),
)
