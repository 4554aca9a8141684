"""`check_memory` passes for our stores (tests/stores/test_recall.py), and names the rule that a broken one breaks."""

# ruff: noqa: SLF001 - a broken store reaches into ours

import threading
import time
from functools import partial
from typing import Any, Final

import pytest
from attrs import evolve

from agentrail.abc.recall import MAX_FOUND, MAX_LISTED, Forgotten, MemoryOwner, TagFilter
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing import check_memory as rules
from agentrail.testing.check_memory import MEMORY_RULES, check_memory
from tests.testing.broken_stores import overriding

ANY = TagFilter()


broken = partial(overriding, InMemoryRecall)


def filtered(keep):
    """A memory whose searches leave out what a function of the query and the entry does not keep."""
    return broken(
        search=lambda own, _, owner, query, tags=ANY, limit=5: tuple(
            one for one in own(owner, query, tags, limit=limit) if keep(query, one)
        )
    )


def _keeps_the_first(own, memory, owner, entry):
    if memory.get(owner, entry.id) is None:
        own(owner, entry)


def _ranks_by_time(own, _memory, owner, query, tags=ANY, limit=5):
    found = own(owner, query, tags, limit=MAX_FOUND)
    return tuple(sorted(found, key=lambda one: one.at_ms, reverse=True)[:limit])


def _tells_no_case_apart(own, _memory, owner, tags=ANY, **page):
    wanted = {one.lower() for one in tags.any_of}
    found = own(owner, **page)
    return tuple(one for one in found if not wanted or wanted & {tag.lower() for tag in one.tags})


def _finds_for_all(own, memory, owner, query, *tags, **page):
    owners = [*memory._rows] if " OR " in query else [owner]
    return tuple(one for each in owners for one in own(each, query, *tags, **page))


def _keyed_by_id(_own, memory, _owner, entry_id):
    return next((rows[entry_id].entry for rows in memory._rows.values() if entry_id in rows), None)


def _joined(own, _memory, owner, *given, **page):
    return own(MemoryOwner(user=owner.tenant + owner.user), *given, **page)


def _forgets_a_tenant(own, memory, owner):
    owners = [each for each in memory._rows if each.tenant == owner.tenant]
    return Forgotten(entries=sum(own(each).entries for each in owners), is_erased=True)


def _gives_one_more(own, _memory, owner, query, tags=ANY, limit=5):
    return own(owner, query, tags, limit=limit + (type(limit) is int and 0 < limit < MAX_FOUND))


def _writes_in_two_steps(own, _memory, owner, entry):
    own(owner, evolve(entry, tags=()))
    time.sleep(0.002)  # long enough for a reader
    own(owner, entry)


StripsTexts = broken(put=lambda own, _, owner, entry: own(owner, evolve(entry, text=entry.text.strip())))
ForgetsVersions = broken(put=lambda own, _, owner, entry: own(owner, evolve(entry, version=1)))
OldestFirst = broken(list=lambda own, _, *given, **page: own(*given, **page)[::-1])
RepeatsTheLastOne = broken(
    list=lambda own, _, *given, after=None, **page: own(
        *given, after=after and (after[0], after[1] + "z"), **page
    )
)
LooksForThePlace = broken(
    list=lambda own, memory, owner, *given, after=None, **page: (
        own(owner, *given, after=after, **page) if after is None or memory.get(owner, after[1]) else ()
    )
)
FirstPutFirst = broken(search=lambda own, _, *given, **page: own(*given, **page)[::-1])
FindsPartsOfWords = broken(
    search=lambda own, memory, owner, query, *given, **page: (
        own(owner, query, *given, **page) or tuple(one for one in memory.list(owner) if query in one.text)
    )
)
IgnoresTagsOfSearches = broken(
    search=lambda own, _, owner, query, tags=ANY, **page: own(owner, query, **page)
)
TakesAnyForAll = broken(
    search=lambda own, _, owner, query, tags=ANY, **page: own(
        owner, query, TagFilter(any_of={*tags.any_of, *tags.all_of}), **page
    )
)
EndsAtNul = broken(
    search=lambda own, _, owner, query, *given, **page: own(owner, query.split("\0")[0], *given, **page)
)
DeletesForAll = broken(
    delete=lambda own, memory, owner, entry_id: sum(own(each, entry_id) for each in [*memory._rows]) > 0
)
SaysItWasThere = broken(delete=lambda own, _, *given: own(*given) or True)
TakesAnyLimit = broken(
    list=lambda own, _, *given, limit=100, **page: own(*given, limit=3 if limit == 3 else MAX_LISTED, **page)
)


class FailsInOtherThreads(InMemoryRecall):
    def search(self, *given, **page):
        assert threading.current_thread() is threading.main_thread()
        return super().search(*given, **page)


class ClosesOnce(InMemoryRecall):
    def close(self):
        assert not self._is_closed, "closed twice"
        super().close()


BROKEN: Final[dict[Any, list[Any]]] = {
    rules.entries_come_back_as_they_were_put: [StripsTexts, ForgetsVersions],
    rules.what_is_put_again_takes_the_place: [broken(put=_keeps_the_first)],
    rules.lists_begin_with_the_newest: [OldestFirst],
    rules.lists_are_read_in_pages: [RepeatsTheLastOne, LooksForThePlace],
    rules.what_fits_best_comes_first: [broken(search=_ranks_by_time)],
    rules.of_equals_the_last_one_comes_first: [FirstPutFirst],
    rules.any_word_of_a_query_finds: [
        filtered(lambda query, one: all(word in one.text.lower() for word in query.lower().split())),
        FindsPartsOfWords,
    ],
    rules.tags_are_searched_too: [
        filtered(lambda query, one: any(word in one.text for word in query.split()))
    ],
    rules.tags_and_query_are_both_kept_to: [IgnoresTagsOfSearches, TakesAnyForAll],
    rules.tags_are_compared_exactly: [broken(list=_tells_no_case_apart)],
    rules.queries_are_words_and_no_syntax: [
        filtered(lambda query, _: not query.startswith("NOT ")),
        EndsAtNul,
        broken(search=_finds_for_all),
    ],
    rules.an_id_of_another_owner_is_none: [broken(get=_keyed_by_id), DeletesForAll],
    rules.owners_are_told_apart_by_all_of_their_names: [broken(put=_joined, list=_joined)],
    rules.deleting_twice_is_fine: [SaysItWasThere],
    rules.an_owner_is_forgotten_and_no_other: [broken(forget=_forgets_a_tenant)],
    rules.limits_are_kept_to: [broken(search=_gives_one_more), TakesAnyLimit],
    rules.readers_see_whole_entries_while_one_is_written: [
        broken(put=_writes_in_two_steps),
        FailsInOtherThreads,
    ],
    rules.memories_are_closed_twice: [ClosesOnce],
    rules.what_is_remembered_is_there_again: [InMemoryRecall],  # which loses what it had
}
"""Under each rule what has to fail it."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("rule", MEMORY_RULES, ids=lambda rule: rule.__name__)
def test_a_broken_store_is_noticed(rule):
    """By the very rule that it breaks, and the rule is named."""
    for number, broken in enumerate(BROKEN[rule]):
        with pytest.raises(AssertionError) as caught:
            check_memory(broken, reopen=lambda store, broken=broken: broken(), rules=[rule])
        said = "\n".join((str(caught.value), *getattr(caught.value, "__notes__", ())))
        assert " ".join(rule.__doc__.split()) in said or broken is ClosesOnce, number


def test_the_message_says_what_came_instead():
    """With the store and the rule."""
    expected = (
        r"InMemoryRecall\(entries=4\) breaks a rule: A list is .*: expected \['a', 'd', 'b', 'c'\], got"
    )
    with pytest.raises(AssertionError, match=expected):
        check_memory(OldestFirst, rules=[rules.lists_begin_with_the_newest])
