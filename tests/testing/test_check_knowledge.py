"""`check_knowledge` passes for our store, and names the rule that a broken one breaks."""

import itertools
import time

import pytest
from attrs import evolve

from agentrail.abc.knowledge import ALL_DOCUMENTS, DocumentFilter
from agentrail.errors import OptionError
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.testing import check_knowledge as rules
from agentrail.testing.check_knowledge import KNOWLEDGE_RULES, check_knowledge, knowledge_rule_name


@pytest.fixture
def makes(tmp_path):
    """Makes stores of a class, each with a directory of its own."""
    numbers = itertools.count()
    return lambda kind: lambda: kind(tmp_path / str(next(numbers)))


def reopen(store):
    """Open what it kept."""
    store.close()
    return type(store)(store.directory)


class Sqlite(SqliteKnowledge):
    """Ours, which says where it is."""

    def __init__(self, directory):
        """In a directory."""
        super().__init__(directory)
        self.directory = directory


@pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
def test_ours_keeps_to_all_of_them(makes, rule):
    """12.6: the conformance suite of stores of knowledge."""
    check_knowledge(makes(Sqlite), reopen=reopen, rules=[rule])


class WrongLines(Sqlite):
    """Cites other lines."""

    def search(self, reader, query, base="", *, limit=8):
        """Off by ten."""
        return tuple(
            evolve(one, first_line=10, last_line=10)
            for one in super().search(reader, query, base, limit=limit)
        )


class WorstFirst(Sqlite):
    """Gives what fits least first."""

    def search(self, reader, query, base="", *, limit=8):
        """Backwards."""
        return super().search(reader, query, base, limit=limit)[::-1]


class Syntax(Sqlite):
    """Reads queries."""

    def search(self, reader, query, base="", *, limit=8):
        """A quotation mark is an error."""
        if '"' in query:
            message = "fts5: syntax error"
            raise AssertionError(message)
        return super().search(reader, query, base, limit=limit)


class OpenToAll(Sqlite):
    """Forgets who may read."""

    def open_base(self, tenant, base, readers=None):
        """Everybody."""
        super().open_base(tenant, base, ["*"])


class FirstReaders(Sqlite):
    """Never changes who may read."""

    def open_base(self, tenant, base, readers=None):
        """As the first time."""
        known = base in {one.name for one in self.bases(rules.READER_ADA)}
        super().open_base(tenant, base, None if known else readers)


class KeepsOld(Sqlite):
    """Puts what has changed beside what was there."""

    def add(self, tenant, base, path, content):
        """Under another path."""
        known = {one.path for one in self.documents(tenant, base)}
        return super().add(
            tenant, base, f"{path}2" if path in known and content == b"new planes" else path, content
        )


class NamesAll(Sqlite):
    """Has everything added again."""

    def announce(self, tenant, base, documents):
        """All of it."""
        super().announce(tenant, base, documents)
        return tuple(path for path, _ in documents)


class FailsAndKeeps(Sqlite):
    """Leaves the passages of what failed."""

    def fail(self, tenant, base, path, reason):
        """Does nothing."""


class SummarizesAny(Sqlite):
    """Writes a line about a document that has changed since it was read."""

    def summarize(self, tenant, base, path, digest, summary):
        """Whatever it is now."""
        (now,) = self.documents(tenant, base)
        return super().summarize(tenant, base, path, now.digest, summary)


class ForgetsTags(Sqlite):
    """Takes the tags of what is added again away."""

    def add(self, tenant, base, path, content):
        """As if it were new."""
        added = super().add(tenant, base, path, content)
        self.tag(tenant, base, [path], [])
        return added


class BeginsAlike(Sqlite):
    """Takes whatever begins like a folder for a part of it."""

    def search(self, reader, query, base="", within=ALL_DOCUMENTS, *, limit=8):
        """By the letters of the path."""
        found = super().search(reader, query, base, DocumentFilter(tags=within.tags), limit=limit)
        return tuple(one for one in found if one.path.startswith(within.folder or ""))


class Greedy(Sqlite):
    """Reads more than is wanted."""

    def read(self, reader, passage_id, *, around=0):
        """Always some more."""
        return super().read(reader, passage_id, around=around + (0 < around < 10))


class RemovesAgain(Sqlite):
    """Has always removed something."""

    def remove(self, tenant, base, path):
        """So it says."""
        super().remove(tenant, base, path)
        return True


class Unlimited(Sqlite):
    """Takes any limit."""

    def search(self, reader, query, base="", *, limit=8):
        """Eight."""
        return super().search(
            reader, query, base, limit=limit if isinstance(limit, int) and 0 < limit <= 50 else 8
        )


class HalfWritten(Sqlite):
    """Takes a document away before the new one is there."""

    def add(self, tenant, base, path, content):
        """In two steps."""
        self.remove(tenant, base, path)
        time.sleep(0.01)
        return super().add(tenant, base, path, content)


class ClosedOnce(Sqlite):
    """Cannot be closed again."""

    is_closed = False

    def close(self):
        """Once."""
        if self.is_closed:
            self.is_closed = False
            raise OptionError(["it is closed"])
        self.is_closed = True
        super().close()


class Forgetful(Sqlite):
    """Has nothing when it is opened again."""

    def __init__(self, directory):
        """In a new directory each time."""
        super().__init__(directory / "new" if directory.exists() else directory)


BROKEN = {
    rules.passages_come_with_their_source: WrongLines, rules.any_word_finds_passages: WorstFirst, rules.what_is_asked_is_words: Syntax,
    rules.a_base_is_open_to_its_readers_alone: OpenToAll, rules.readers_are_changed: FirstReaders,
    rules.what_has_changed_takes_the_place: KeepsOld, rules.what_waits_is_announced: NamesAll, rules.what_cannot_be_read_is_failed: FailsAndKeeps,
    rules.a_line_stays_until_its_document_changes: SummarizesAny,
    rules.tags_stay_until_others_are_given: ForgetsTags, rules.folders_and_tags_narrow: BeginsAlike,
    rules.a_passage_is_read_with_its_neighbours: Greedy, rules.removing_twice_is_fine: RemovesAgain, rules.passages_are_limited: Unlimited,
    rules.readers_see_whole_documents_while_one_is_written: HalfWritten, rules.knowledge_is_closed_twice: ClosedOnce,
    rules.what_was_added_is_there_again: Forgetful,
}  # fmt: skip


def test_each_rule_has_a_store_that_breaks_it():
    """So that none holds for everything."""
    assert [*BROKEN] == [*KNOWLEDGE_RULES]


@pytest.mark.check
@pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
def test_a_broken_store_is_told_which_rule_it_breaks(makes, rule):
    """By the rule's own sentence, in the message or as a note."""
    with pytest.raises((AssertionError, OptionError)) as raised:
        check_knowledge(makes(BROKEN[rule]), reopen=reopen, rules=[rule])
    sentence = " ".join(rule.__doc__.split())
    assert sentence in str(raised.value) + " ".join(getattr(raised.value, "__notes__", ()))
