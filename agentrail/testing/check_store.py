"""`check_store`: tests the rules of every session store through the port alone, for our stores and yours.

    def test_mine(tmp_path):
        numbers = itertools.count()
        clock = Clock()
        check_store(
            lambda: MyStore(tmp_path / f"{next(numbers)}.db", now_ms=clock, lease_ms=1_000),
            pass_lease=lambda: clock.move(1_001),
            reopen=lambda store: reopened(store),
        )

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
    def test_mine(rule):
        check_store(MyStore, pass_lease=wait, rules=[rule])
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

from agentrail.abc.store import Store
from agentrail.testing.rule_failures import under_rule
from agentrail.testing.store_rules import (
    claims,
    durability,
    journal_rules,
    ownership,
    queries,
)
from agentrail.testing.store_rules.trial import LOCAL_CUT, OpenCut, StoreTrial

StoreRule: TypeAlias = Callable[[StoreTrial], None]

STORE_RULES: Final[tuple[StoreRule, ...]] = (
    journal_rules.records_come_back_as_they_were_written,
    journal_rules.any_text_is_kept,
    journal_rules.bytes_of_a_body_are_not_read,
    journal_rules.journals_are_read_in_pages,
    journal_rules.numbers_have_no_gaps,
    journal_rules.a_number_is_given_once,
    journal_rules.the_same_append_again_is_fine,
    journal_rules.a_repeated_append_may_go_on,
    journal_rules.the_same_opening_again_is_fine,
    journal_rules.an_append_goes_in_whole_or_not_at_all,
    journal_rules.sessions_of_a_batch_do_not_depend_on_each_other,
    journal_rules.appends_of_one_session_go_in_order,
    journal_rules.readers_see_whole_journals_while_one_is_written,
    ownership.an_old_owner_is_refused,
    ownership.a_repeated_append_of_an_old_owner_is_refused,
    ownership.what_an_old_owner_has_queued_is_refused,
    ownership.an_epoch_that_was_never_given_is_refused,
    ownership.a_takeover_is_written_down,
    ownership.a_tree_is_taken_together,
    ownership.an_ended_root_is_given_as_it_stands,
    ownership.a_living_owner_keeps_its_tree,
    ownership.a_beat_begins_the_lease_anew,
    ownership.force_takes_from_the_living,
    ownership.a_tree_is_released_by_its_owner,
    ownership.only_roots_are_taken,
    ownership.many_trees_are_taken_each_by_itself,
    ownership.an_old_owner_begins_no_child,
    ownership.one_of_many_takes,
    claims.no_tree_is_claimed_by_two_nodes,
    claims.a_reservation_ends,
    claims.a_reservation_gives_nothing_while_the_owner_lives,
    claims.a_released_reservation_leaves_the_owner,
    claims.a_claim_again_ends_old_reservations,
    claims.deaths_are_counted,
    claims.no_newer_tree_is_claimed,
    claims.an_expired_lease_needs_a_silent_owner,
    claims.a_tree_is_taken_as_it_was_read,
    claims.a_node_is_reported_gone,
    claims.owned_sessions_are_listed,
    claims.an_allowance_is_shared,
    claims.a_user_has_so_many_sessions,
    claims.owed_rows_have_one_owner,
    queries.it_is_said_how_a_session_stands,
    queries.sessions_are_found_by_filters,
    queries.sessions_are_found_in_pages,
    queries.sessions_are_listed_by_their_opening,
    queries.orphans_are_found,
    queries.due_timers_are_found,
    queries.nodes_are_known,
    durability.large_values_are_kept,
    durability.the_last_two_snapshots_are_kept,
    durability.whole_trees_are_deleted,
    durability.what_is_needed_is_not_deleted,
    durability.what_was_written_since_is_not_deleted,
    durability.sizes_are_told,
    durability.only_roots_are_deleted,
    durability.journals_are_trimmed,
    durability.nothing_is_trimmed_without_a_snapshot,
    durability.what_is_unknown_is_said_to_be,
    durability.what_is_given_stays_what_is_kept,
    durability.a_store_is_closed_twice,
    durability.what_was_kept_is_there_again,
    durability.what_was_said_is_erased,
    durability.erasing_again_changes_nothing,
    durability.nothing_comes_to_what_was_erased,
    durability.what_is_at_work_is_not_erased,
    durability.what_was_erased_is_so_again,
    queries.what_is_owed_is_kept_by_kind_and_id,
    queries.what_is_owed_changes_as_a_whole,
    queries.what_is_owed_outlives_its_session,
    queries.what_is_owed_is_there_again,
    journal_rules.a_call_that_was_cut_can_be_repeated,
    journal_rules.a_life_with_many_cuts_comes_to_the_same,
)
"""The rules, each tested on its own store."""


def store_rule_name(rule: StoreRule) -> str:
    """Return the name of a rule, for a report."""
    return rule.__name__


def check_store(
    make: Callable[[], Store],
    *,
    pass_lease: Callable[[], None],
    reopen: Callable[[Store], Store] | None = None,
    cut: OpenCut = LOCAL_CUT,
    rules: Sequence[StoreRule] = STORE_RULES,
) -> None:
    """Test a store against the port.

    Args:
        make: Returns a new, empty store on each call, several at the same time. It is closed here.
        pass_lease: Lets the leases of all stores expire, plus some milliseconds: advances their clock, or waits.
        reopen: Closes a store and opens its stored data again. It is closed here. None if it stores nothing.
        cut: Wraps a store so that its connection can be cut on request: for a store on a network, a real connection. By
            default, calls and answers are lost within this process.
        rules: The rules to test.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result. Other errors of a store propagate, with
            the rule as a note.
    """
    for rule in rules:
        with ExitStack() as opened:

            def make_closed(opened: ExitStack = opened) -> Store:
                store = make()
                opened.callback(store.close)
                return store

            store = make_closed()
            trial = StoreTrial(store, make_closed, pass_lease, reopen, cut)
            with under_rule(rule, store):
                rule(trial)
