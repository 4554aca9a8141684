"""`check_memory`: what every store of memories keeps to, ours and yours, tried through the port alone.

    def test_mine(tmp_path):
        numbers = itertools.count()
        check_memory(lambda: MyRecall(tmp_path / str(next(numbers))))

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", MEMORY_RULES, ids=memory_rule_name)
    def test_mine(rule):
        check_memory(MyRecall, rules=[rule])

It needs no loop. A rule says in its docstring what a store promises; the port says it in `agentrail.abc.recall`.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from agentrail.abc.recall import RecallStore
from agentrail.testing import memory_rules
from agentrail.testing.memory_rules import MemoryTrial
from agentrail.testing.under_rule import under_rule

MemoryRule: TypeAlias = Callable[[MemoryTrial], None]

MEMORY_RULES: Final[tuple[MemoryRule, ...]] = (
    memory_rules.entries_come_back_as_they_were_put,
    memory_rules.what_is_put_again_takes_the_place,
    memory_rules.lists_begin_with_the_newest,
    memory_rules.lists_are_read_in_pages,
    memory_rules.what_fits_best_comes_first,
    memory_rules.of_equals_the_last_one_comes_first,
    memory_rules.any_word_of_a_query_finds,
    memory_rules.tags_are_searched_too,
    memory_rules.tags_and_query_are_both_kept_to,
    memory_rules.tags_are_compared_exactly,
    memory_rules.queries_are_words_and_no_syntax,
    memory_rules.an_id_of_another_owner_is_none,
    memory_rules.owners_are_told_apart_by_all_of_their_names,
    memory_rules.deleting_twice_is_fine,
    memory_rules.an_owner_is_forgotten_and_no_other,
    memory_rules.limits_are_kept_to,
    memory_rules.readers_see_whole_entries_while_one_is_written,
    memory_rules.memories_are_closed_twice,
    memory_rules.what_is_remembered_is_there_again,
)
"""What is tried, each on a store of its own."""


def memory_rule_name(rule: MemoryRule) -> str:
    """Give the name of a rule, for a report."""
    return rule.__name__


def check_memory(
    make: Callable[[], RecallStore],
    *,
    reopen: Callable[[RecallStore], RecallStore] | None = None,
    rules: Sequence[MemoryRule] = MEMORY_RULES,
) -> None:
    """Hold a store of memories against the port.

    Args:
        make: Gives a new, empty store each time; it is closed here.
        reopen: Closes a store and opens again what it kept; it is closed here. None for one that keeps nothing.
        rules: Which of them are tried.

    Raises:
        AssertionError: A rule is broken; the message is the rule, and what came instead. What else a store raises travels, with
            the rule as a note.
    """
    for rule in rules:
        trial = MemoryTrial(make(), reopen)
        try:
            with under_rule(rule, trial):
                rule(trial)
        finally:
            trial.store.close()
