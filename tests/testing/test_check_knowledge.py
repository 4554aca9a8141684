"""`check_knowledge` passes for our store, and names the rule that a broken one breaks."""

# ruff: noqa: PLR0913, PLR0917 - as the methods of the port have it

import itertools
import time
from functools import partial

import pytest
from attrs import evolve

from agentrail.abc.knowledge import ALL_DOCUMENTS, DocumentFilter
from agentrail.errors import OptionError
from agentrail.stores.knowledge_sqlite import SqliteKnowledge
from agentrail.testing import check_knowledge as rules
from agentrail.testing.check_knowledge import KNOWLEDGE_RULES, check_knowledge, knowledge_rule_name
from tests.testing.broken_stores import overriding


@pytest.fixture
def makes(tmp_path):
    """Makes stores of a class, each with a directory of its own."""
    numbers = itertools.count()
    return lambda kind: lambda: kind(tmp_path / str(next(numbers)))


def reopen(store):
    store.close()
    return type(store)(store.directory)


class Sqlite(SqliteKnowledge):
    """Ours, which says where it is."""

    def __init__(self, directory):
        super().__init__(directory)
        self.directory = directory


@pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
def test_ours_keeps_to_all_of_them(makes, rule):
    """12.6: the conformance suite of stores of knowledge."""
    check_knowledge(makes(Sqlite), reopen=reopen, rules=[rule])


def _syntax(own, _knowledge, reader, query, *given, **page):
    assert '"' not in query, "fts5: syntax error"
    return own(reader, query, *given, **page)


def _first_readers(own, knowledge, tenant, base, readers=None):
    known = base in {one.name for one in knowledge.bases(rules.READER_ADA)}
    own(tenant, base, None if known else readers)


def _keeps_old(own, knowledge, tenant, base, path, content):
    known = {one.path for one in knowledge.documents(tenant, base)}
    return own(tenant, base, f"{path}2" if path in known and content == b"new planes" else path, content)


def _names_all(own, _knowledge, tenant, base, documents):
    own(tenant, base, documents)
    return tuple(path for path, _ in documents)


def _summarizes_any(own, knowledge, tenant, base, path, digest, summary):
    (now,) = knowledge.documents(tenant, base)
    return own(tenant, base, path, now.digest, summary)


def _forgets_tags(own, knowledge, tenant, base, path, content):
    added = own(tenant, base, path, content)
    knowledge.tag(tenant, base, [path], [])
    return added


def _begins_alike(own, _knowledge, reader, query, base="", within=ALL_DOCUMENTS, **page):
    found = own(reader, query, base, DocumentFilter(tags=within.tags), **page)
    return tuple(one for one in found if one.path.startswith(within.folder or ""))


def _unlimited(own, _knowledge, *given, limit=8):
    return own(*given, limit=limit if isinstance(limit, int) and 0 < limit <= 50 else 8)


def _half_written(own, knowledge, tenant, base, path, content):
    knowledge.remove(tenant, base, path)
    time.sleep(0.01)
    return own(tenant, base, path, content)


def _wrong_lines(own, _knowledge, *given, **page):
    return tuple(evolve(one, first_line=10, last_line=10) for one in own(*given, **page))


class ClosedOnce(Sqlite):
    is_closed = False

    def close(self):
        if self.is_closed:
            self.is_closed = False
            raise OptionError(["it is closed"])
        self.is_closed = True
        super().close()


class Forgetful(Sqlite):
    """Has nothing when it is opened again."""

    def __init__(self, directory):
        super().__init__(directory / "new" if directory.exists() else directory)


broken = partial(overriding, Sqlite)
BROKEN = {
    rules.passages_come_with_their_source: broken(search=_wrong_lines),
    rules.any_word_finds_passages: broken(search=lambda own, _, *given, **page: own(*given, **page)[::-1]),
    rules.what_is_asked_is_words: broken(search=_syntax),
    rules.a_base_is_open_to_its_readers_alone: broken(
        open_base=lambda own, _, tenant, base, readers=None: own(tenant, base, ["*"])
    ),
    rules.readers_are_changed: broken(open_base=_first_readers),
    rules.what_has_changed_takes_the_place: broken(add=_keeps_old),
    rules.what_waits_is_announced: broken(announce=_names_all),
    rules.what_cannot_be_read_is_failed: broken(fail=lambda _own, _, *given: None),
    rules.a_line_stays_until_its_document_changes: broken(summarize=_summarizes_any),
    rules.tags_stay_until_others_are_given: broken(add=_forgets_tags),
    rules.folders_and_tags_narrow: broken(search=_begins_alike),
    rules.a_passage_is_read_with_its_neighbours: broken(
        read=lambda own, _, *given, around=0: own(*given, around=around + (0 < around < 10))
    ),
    rules.removing_twice_is_fine: broken(remove=lambda own, _, *given: own(*given) or True),
    rules.passages_are_limited: broken(search=_unlimited),
    rules.readers_see_whole_documents_while_one_is_written: broken(add=_half_written),
    rules.knowledge_is_closed_twice: ClosedOnce,
    rules.what_was_added_is_there_again: Forgetful,
}


@pytest.mark.check
@pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
def test_a_broken_store_is_told_which_rule_it_breaks(makes, rule):
    """By the rule's own sentence, in the message or as a note."""
    with pytest.raises((AssertionError, OptionError)) as raised:
        check_knowledge(makes(BROKEN[rule]), reopen=reopen, rules=[rule])
    sentence = " ".join(rule.__doc__.split())
    assert sentence in str(raised.value) + " ".join(getattr(raised.value, "__notes__", ()))
