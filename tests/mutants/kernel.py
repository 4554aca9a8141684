"""Mutants of the step itself: its order, its draft, its table, and what it does not do twice."""

from typing import Final

from tests.mutants.mutant import Mutant

_STEP: Final = "tests/core/test_step.py"
_ORDER: Final = "who asked first is answered first"
_INSIDE: Final = "a draft never leaves its step"
_OWNERS: Final = "who owns an open effect is data"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="the next prompt begins in front of what was postponed",
        breaks=_ORDER,
        file="core/session/machine.py",
        old="        if postponed and phase is not before:\n",
        new="        if postponed and phase is not before and not step.data.queue:\n",
        killed_by=f"{_STEP}::test_time_does_not_run_backwards_after_what_was_postponed",
    ),
    Mutant(
        name="a draft can be written to after its step",
        breaks=_INSIDE,
        file="core/session/step_context.py",
        old="        del self.data\n",
        new="",
        killed_by=f"{_STEP}::test_a_draft_is_gone_when_its_step_is_over",
    ),
    Mutant(
        name="plugins are shown the draft",
        breaks=_INSIDE,
        file="core/session/hooking.py",
        old="        repairs=data.repairs,\n",
        new="        repairs=(data,),\n",
        killed_by=f"{_STEP}::test_no_draft_leaves_its_step",
    ),
    Mutant(
        name="the table forbids a phase that follows",
        breaks="the table decides",
        file="core/session/legality.py",
        old='    signals.StreamStarted:         _row(D,      "RS",   D,        D),\n',
        new='    signals.StreamStarted:         _row(D,      "R",    D,        D),\n',
        killed_by=f"{_STEP}::test_a_step_ends_where_the_table_says_that_it_may",
    ),
    Mutant(
        name="each turn makes a second request to see whether a compaction is due",
        breaks="a compaction that is not due costs nothing",
        file="core/session/compaction.py",
        old='    if reason == "due" and not is_due(sent + added, limits):\n        return False\n',
        new='    request_of(data, EffectId(""), last_turn=False)\n    if reason == "due" and not is_due(sent + added, limits):\n        return False\n',
        killed_by=f"{_STEP}::test_a_compaction_that_is_not_due_makes_no_request",
    ),
    Mutant(
        name="arguments are hashed for every look",
        breaks="arguments are hashed once",
        file="core/session/loops.py",
        old="state.arguments_hash or hash_arguments(arguments)",
        new="hash_arguments(arguments)",
        killed_by=f"{_STEP}::test_arguments_are_hashed_once",
    ),
    Mutant(
        name="an owner is not taken out when its effect has ended",
        breaks=_OWNERS,
        file="core/session/step_context.py",
        old="        owner = opened.pop(effect_id, None)\n",
        new="        owner = opened.get(effect_id)\n",
        killed_by="tests/core/test_owners.py::test_exactly_the_open_ids_have_an_owner",
    ),
    Mutant(
        name="the timer of a stream outlives it",
        breaks=_OWNERS,
        file="core/session/step_context.py",
        old="_HAVE_TIMERS: Final = frozenset({OfStream, OfSummary})\n",
        new="_HAVE_TIMERS: Final = frozenset({OfSummary})\n",
        killed_by="property_tests/core/test_open_effects.py::test_exactly_the_open_ids_have_an_owner",
    ),
    Mutant(
        name="a compaction that is broken off goes on waiting for its file",
        breaks=_OWNERS,
        file="core/session/compaction.py",
        old="        step.give_up(compaction.effect_id)  # the file may be written all the same\n",
        new="        pass\n",
        killed_by="tests/core/test_owners.py::test_a_compaction_that_is_broken_off_waits_for_no_file",
    ),
    Mutant(
        name="an id alone opens the door",
        breaks=_OWNERS,
        file="core/session/legality.py",
        old="    return type(data.open.get(outcome.effect_id)) in AWAITED_BY[type(outcome)]\n",
        new="    return data.open.get(outcome.effect_id) is not None\n",
        killed_by="tests/core/test_owners.py::test_an_outcome_of_another_kind_is_late",
    ),
    Mutant(
        name="the last abort of a step counts",
        breaks="a wish to abort is returned",
        file="core/session/batch.py",
        old="    abort = also if abort is None else abort  # the first counts\n",
        new="    abort = also or abort\n",
        killed_by="tests/core/test_hooking.py::test_of_two_aborts_in_one_step_the_first_counts",
    ),
)
