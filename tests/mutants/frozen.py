"""Mutants of what is frozen, of what an approval binds, and of batches."""

from typing import Final

from tests.mutants.mutant import Mutant

_APPROVED: Final = "what you approve is what runs"
_PAST: Final = "nobody edits the past"

_RUNS: Final = "tests/runtime/test_what_is_approved_runs.py"
_BY_TYPE: Final = "tests/core/test_frozen_by_type.py"
_FORCED: Final = f"{_RUNS}::test_a_call_whose_arguments_changed_after_they_were_shown_never_runs"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="an approval is bound by what is there when it is given",
        breaks=_APPROVED,
        file="core/session/interactions.py",
        old='stage="waiting", bound_to=asked.arguments_hash)',
        new='stage="waiting", bound_to=hash_arguments(state.arguments))',
        killed_by=f"{_FORCED}[once]",
    ),
    Mutant(
        name="a call is not held against its approval",
        breaks=_APPROVED,
        file="core/session/batch.py",
        old="    if state.bound_to not in (None, arguments_hash):\n",
        new="    if state.bound_to == 1:\n",
        killed_by=f"{_FORCED}[always]",
    ),
    Mutant(
        name="what a guard makes of an edit runs unseen",
        breaks=_APPROVED,
        file="core/session/call_gates.py",
        old="    return _show_again(step, state, wanted, changed_by) if changed_by else state, None\n",
        new="    return msgspec.structs.replace(state, bound_to=hash_arguments(state.arguments)), None\n",
        killed_by="property_tests/core/test_what_is_shown_runs.py::test_nothing_runs_that_nobody_was_shown",
    ),
    Mutant(
        name="arguments of calls are not frozen",
        breaks=_PAST,
        file="messages.py",
        old='        force_setattr(self, "arguments", frozen_or_none(self.arguments))\n',
        new="",
        killed_by=f"{_BY_TYPE}::test_what_is_made_of_an_object_has_its_own[call]",
    ),
    Mutant(
        name="only the first level is frozen",
        breaks=_PAST,
        file="frozen.py",
        old="                _key(name): item if type(item) in _FROZEN else _frozen(item, levels - 1)\n",
        new="                _key(name): item\n",
        killed_by="property_tests/runtime/test_nothing_handed_out_can_be_edited.py::"
        "test_a_session_whose_values_are_edited_by_everybody_is_the_same_session",
    ),
    Mutant(
        name="user data is handed out as it is",
        breaks=_PAST,
        file="core/session/state.py",
        old='        force_setattr(self, "user_data", frozen_json(self.user_data))\n',
        new="",
        killed_by=f"{_BY_TYPE}::test_what_is_made_of_an_object_has_its_own[config]",
    ),
    Mutant(
        name="a batch is searched from its beginning",
        breaks="a batch costs the same per call at 4,000 as at 250",
        file="core/session/open_calls.py",
        old="        found = self._waiting.first()\n        return None if found is None else found[1]\n",
        new='        return next((state for state in self if state.stage == "waiting"), None)\n',
        killed_by="tests/core/test_open_calls.py::test_a_call_among_four_thousand_costs_what_one_among_few_costs",
    ),
)
