"""Mutants of the collector policy: what a program's collector is left with."""

from typing import Final

from tests.mutants.mutant import Mutant

_POLICY: Final = "the collector is the program's (docs/explanation/decisions.md)"
_TESTS: Final = "tests/test_tuning.py"

MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a second call freezes more",
        breaks=_POLICY,
        file="tuning.py",
        old="    if not _is_frozen(before):\n",
        new="    if True:\n",
        killed_by=f"{_TESTS}::test_a_second_call_changes_nothing_and_undoes_nothing",
    ),
    Mutant(
        name="thresholds are lowered",
        breaks=_POLICY,
        file="tuning.py",
        old="max(youngest, THRESHOLDS[0])",
        new="THRESHOLDS[0]",
        killed_by=f"{_TESTS}::test_thresholds_only_rise_and_a_collector_that_is_off_stays_off",
    ),
    Mutant(
        name="every supervisor tunes the process",
        breaks=_POLICY,
        file="app.py",
        old="    async with HttpClients() as http, stores as shared, opened_store(store, data_dir, environment) as kept:\n        resolve, profiles",
        new="    __import__('gc').set_threshold(50_000, 20, 50)\n    async with HttpClients() as http, stores as shared, opened_store(store, data_dir, environment) as kept:\n        resolve, profiles",
        killed_by=f"{_TESTS}::test_a_program_that_did_not_ask_keeps_its_collector",
    ),
)
