"""`check_knowledge`: what every store of knowledge keeps to, ours and yours, tried through the port alone.

    def test_mine(tmp_path):
        numbers = itertools.count()
        check_knowledge(lambda: MyKnowledge(tmp_path / str(next(numbers))))

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
    def test_mine(rule):
        check_knowledge(MyKnowledge, rules=[rule])

It needs no loop. A rule says in its docstring what a store promises; the port says it in `agentrail.abc.knowledge`.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from agentrail.abc.knowledge import KnowledgeStore
from agentrail.testing import knowledge_rules
from agentrail.testing.knowledge_rules import KnowledgeTrial
from agentrail.testing.under_rule import under_rule

KnowledgeRule: TypeAlias = Callable[[KnowledgeTrial], None]

KNOWLEDGE_RULES: Final[tuple[KnowledgeRule, ...]] = (
    knowledge_rules.passages_come_with_their_source,
    knowledge_rules.any_word_finds_passages,
    knowledge_rules.what_is_asked_is_words,
    knowledge_rules.a_base_is_open_to_its_readers_alone,
    knowledge_rules.readers_are_changed,
    knowledge_rules.what_has_changed_takes_the_place,
    knowledge_rules.what_waits_is_announced,
    knowledge_rules.what_cannot_be_read_is_failed,
    knowledge_rules.a_line_stays_until_its_document_changes,
    knowledge_rules.tags_stay_until_others_are_given,
    knowledge_rules.folders_and_tags_narrow,
    knowledge_rules.a_passage_is_read_with_its_neighbours,
    knowledge_rules.removing_twice_is_fine,
    knowledge_rules.passages_are_limited,
    knowledge_rules.readers_see_whole_documents_while_one_is_written,
    knowledge_rules.knowledge_is_closed_twice,
    knowledge_rules.what_was_added_is_there_again,
)
"""What is tried, each on a store of its own."""


def knowledge_rule_name(rule: KnowledgeRule) -> str:
    """Give the name of a rule, for a report."""
    return rule.__name__


def check_knowledge(
    make: Callable[[], KnowledgeStore],
    *,
    reopen: Callable[[KnowledgeStore], KnowledgeStore] | None = None,
    rules: Sequence[KnowledgeRule] = KNOWLEDGE_RULES,
) -> None:
    """Hold a store of knowledge against the port.

    Args:
        make: Gives a new, empty store each time; it is closed here.
        reopen: Closes a store and opens again what it kept; it is closed here. None for one that keeps nothing.
        rules: Which of them are tried.

    Raises:
        AssertionError: A rule is broken; the message is the rule, and what came instead. What else a store raises travels, with
            the rule as a note.
    """
    for rule in rules:
        trial = KnowledgeTrial(make(), reopen)
        try:
            with under_rule(rule, trial):
                rule(trial)
        finally:
            trial.store.close()
