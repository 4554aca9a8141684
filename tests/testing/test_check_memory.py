"""`check_memory` passes for our stores (tests/stores/test_recall.py), and names the rule that a broken one breaks."""

# ruff: noqa: D101, D102 - the name of a broken store says what is wrong; the methods are those of the port

import time
from typing import Any, Final

import pytest
from attrs import evolve

from agentrail.abc.recall import MAX_FOUND, MAX_LISTED, Forgotten, MemoryOwner, TagFilter
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.testing import check_memory as rules
from agentrail.testing.check_memory import MEMORY_RULES, check_memory

ANY = TagFilter()


class StripsTexts(InMemoryRecall):
    def put(self, owner, entry):
        super().put(owner, evolve(entry, text=entry.text.strip()))


class ForgetsVersions(InMemoryRecall):
    def put(self, owner, entry):
        super().put(owner, evolve(entry, version=1))


class KeepsTheFirst(InMemoryRecall):
    def put(self, owner, entry):
        if self.get(owner, entry.id) is None:
            super().put(owner, entry)


class OldestFirst(InMemoryRecall):
    def list(self, owner, tags=ANY, *, limit=100, after=None):
        return super().list(owner, tags, limit=limit, after=after)[::-1]


class RepeatsTheLastOne(InMemoryRecall):
    def list(self, owner, tags=ANY, *, limit=100, after=None):
        return super().list(owner, tags, limit=limit, after=after and (after[0], after[1] + "z"))


class LooksForThePlace(InMemoryRecall):
    def list(self, owner, tags=ANY, *, limit=100, after=None):
        there = after is None or self.get(owner, after[1]) is not None
        return super().list(owner, tags, limit=limit, after=after) if there else ()


class RanksByTime(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        found = super().search(owner, query, tags, limit=MAX_FOUND)
        return tuple(sorted(found, key=lambda one: one.at_ms, reverse=True)[:limit])


class FirstPutFirst(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return super().search(owner, query, tags, limit=limit)[::-1]


class WantsAllWords(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        found = super().search(owner, query, tags, limit=limit)
        return tuple(one for one in found if all(word in one.text.lower() for word in query.lower().split()))


class FindsPartsOfWords(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return super().search(owner, query, tags, limit=limit) or tuple(
            one for one in self.list(owner) if query in one.text
        )


class SearchesTextsAlone(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        found = super().search(owner, query, tags, limit=limit)
        return tuple(one for one in found if any(word in one.text for word in query.split()))


class IgnoresTagsOfSearches(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return super().search(owner, query, limit=limit)


class TakesAnyForAll(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return super().search(owner, query, TagFilter(any_of={*tags.any_of, *tags.all_of}), limit=limit)


class TellsNoCaseApart(InMemoryRecall):
    def list(self, owner, tags=ANY, *, limit=100, after=None):
        wanted = {one.lower() for one in tags.any_of}
        found = super().list(owner, limit=limit, after=after)
        return tuple(one for one in found if not wanted or wanted & {tag.lower() for tag in one.tags})


class ReadsNot(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return () if query.startswith("NOT ") else super().search(owner, query, tags, limit=limit)


class EndsAtNul(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return super().search(owner, query.split("\0")[0], tags, limit=limit)


class FindsForAll(InMemoryRecall):
    """Filters by the owner behind the search, and only where the query says nothing of it."""

    def search(self, owner, query, tags=ANY, *, limit=5):
        owners = [*self._rows] if " OR " in query else [owner]
        return tuple(
            one for each in owners for one in super(FindsForAll, self).search(each, query, tags, limit=limit)
        )


class KeyedById(InMemoryRecall):
    def get(self, owner, entry_id):
        return next((rows[entry_id].entry for rows in self._rows.values() if entry_id in rows), None)


class DeletesForAll(InMemoryRecall):
    def delete(self, owner, entry_id):
        return sum(super(DeletesForAll, self).delete(each, entry_id) for each in [*self._rows]) > 0


class JoinsNames(InMemoryRecall):
    """Makes one text of tenant and user."""

    def put(self, owner, entry):
        super().put(MemoryOwner(user=owner.tenant + owner.user), entry)

    def list(self, owner, tags=ANY, *, limit=100, after=None):
        return super().list(MemoryOwner(user=owner.tenant + owner.user), tags, limit=limit, after=after)


class SaysItWasThere(InMemoryRecall):
    def delete(self, owner, entry_id):
        super().delete(owner, entry_id)
        return True


class ForgetsATenant(InMemoryRecall):
    def forget(self, owner):
        return Forgotten(
            entries=sum(
                super(ForgetsATenant, self).forget(each).entries
                for each in [*self._rows]
                if each.tenant == owner.tenant
            ),
            is_erased=True,
        )


class GivesOneMore(InMemoryRecall):
    def search(self, owner, query, tags=ANY, *, limit=5):
        return super().search(
            owner, query, tags, limit=limit + 1 if type(limit) is int and 0 < limit < MAX_FOUND else limit
        )


class TakesAnyLimit(InMemoryRecall):
    def list(self, owner, tags=ANY, *, limit=100, after=None):
        return super().list(owner, tags, limit=MAX_LISTED if limit != 3 else 3, after=after)


class WritesInTwoSteps(InMemoryRecall):
    def put(self, owner, entry):
        super().put(owner, evolve(entry, tags=()))
        time.sleep(0.002)  # long enough for a reader
        super().put(owner, entry)


class ClosesOnce(InMemoryRecall):
    def close(self):
        if self._is_closed:
            message = "closed twice"
            raise AssertionError(message)
        super().close()


class LosesWhatItHad(InMemoryRecall):
    pass


BROKEN: Final[dict[Any, list[Any]]] = {
    rules.entries_come_back_as_they_were_put: [StripsTexts, ForgetsVersions],
    rules.what_is_put_again_takes_the_place: [KeepsTheFirst],
    rules.lists_begin_with_the_newest: [OldestFirst],
    rules.lists_are_read_in_pages: [RepeatsTheLastOne, LooksForThePlace],
    rules.what_fits_best_comes_first: [RanksByTime],
    rules.of_equals_the_last_one_comes_first: [FirstPutFirst],
    rules.any_word_of_a_query_finds: [WantsAllWords, FindsPartsOfWords],
    rules.tags_are_searched_too: [SearchesTextsAlone],
    rules.tags_and_query_are_both_kept_to: [IgnoresTagsOfSearches, TakesAnyForAll],
    rules.tags_are_compared_exactly: [TellsNoCaseApart],
    rules.queries_are_words_and_no_syntax: [ReadsNot, EndsAtNul, FindsForAll],
    rules.an_id_of_another_owner_is_none: [KeyedById, DeletesForAll],
    rules.owners_are_told_apart_by_all_of_their_names: [JoinsNames],
    rules.deleting_twice_is_fine: [SaysItWasThere],
    rules.an_owner_is_forgotten_and_no_other: [ForgetsATenant],
    rules.limits_are_kept_to: [GivesOneMore, TakesAnyLimit],
    rules.readers_see_whole_entries_while_one_is_written: [WritesInTwoSteps],
    rules.memories_are_closed_twice: [ClosesOnce],
    rules.what_is_remembered_is_there_again: [LosesWhatItHad],
}
"""Under each rule what has to fail it."""


def test_each_rule_has_a_store_that_breaks_it():
    """A rule that no broken store fails says nothing."""
    assert set(BROKEN) == set(MEMORY_RULES)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        pytest.param(rule, one, id=f"{rule.__name__}-{one.__name__}")
        for rule, stores in BROKEN.items()
        for one in stores
    ],
)
def test_a_broken_store_is_noticed(rule, broken):
    """By the very rule that it breaks, and the rule is named."""
    with pytest.raises(AssertionError) as caught:
        check_memory(broken, reopen=lambda store: broken(), rules=[rule])
    said = "\n".join((str(caught.value), *getattr(caught.value, "__notes__", ())))
    assert " ".join(rule.__doc__.split()) in said or broken is ClosesOnce


def test_the_message_says_what_came_instead():
    """With the store and the rule."""
    expected = (
        r"InMemoryRecall\(entries=4\) breaks a rule: A list is .*: expected \['a', 'd', 'b', 'c'\], got"
    )
    with pytest.raises(AssertionError, match=expected):
        check_memory(OldestFirst, rules=[rules.lists_begin_with_the_newest])
