"""`check_knowledge`: tests the rules of every knowledge store through the port alone, for our stores and yours.

    def test_mine(tmp_path):
        numbers = itertools.count()
        check_knowledge(lambda: MyKnowledge(tmp_path / str(next(numbers))))

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
    def test_mine(rule):
        check_knowledge(MyKnowledge, rules=[rule])
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from attrs import define

from agentrail.abc.knowledge import (
    MAX_AROUND,
    MAX_DOCUMENT_SUMMARY_CHARACTERS,
    MAX_FOLDER_CHARACTERS,
    MAX_FOUND_PASSAGES,
    DocumentFilter,
    KnowledgeDocument,
    KnowledgeStore,
)
from agentrail.abc.recall import MemoryOwner
from agentrail.errors import OptionError
from agentrail.testing.check_memory import HOSTILE_QUERIES
from agentrail.testing.rule_failures import expect_error, expect_same, rules_on, under_rule, while_others_read

# The rules.

TENANT: Final = "acme"
READER_ADA: Final = MemoryOwner(tenant=TENANT, user="ada")
READER_BOB: Final = MemoryOwner(tenant=TENANT, user="bob")
UNNAMED: Final = MemoryOwner(tenant=TENANT)
STRANGER: Final = MemoryOwner(tenant="zeta", user="ada")

_TRAVEL: Final = "# Travel\n\n## Trains\n\nFirst class from four hours on.\n"


@define
class KnowledgeTrial:
    """A store under test.

    Attributes:
        store: The store, new and empty.
        reopen: Closes a store and opens its stored data again. None if it stores nothing.
    """

    store: KnowledgeStore
    reopen: Callable[[KnowledgeStore], KnowledgeStore] | None = None

    def add(self, path: str, text: str, base: str = "hers", *readers: str) -> KnowledgeDocument:
        """Add a document to a base, which is Ada's unless readers are named."""
        self.store.open_base(TENANT, base, readers or ("ada",))
        return self.store.add(TENANT, base, path, text.encode())

    def found(
        self, query: str, base: str = "", *, reader: MemoryOwner = READER_ADA, limit: int = 50
    ) -> list[str]:
        """Return the paths that a search finds, in order."""
        return [one.path for one in self.store.search(reader, query, base, limit=limit)]

    def states(self, base: str = "hers") -> dict[str, str]:
        """Return the states of the documents of a base."""
        return {one.path: one.state for one in self.store.documents(TENANT, base)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def passages_come_with_their_source(trial: KnowledgeTrial) -> None:
    """A passage has its base, path, headings and lines, and a source that names path and lines."""
    trial.add("travel.md", _TRAVEL)
    (passage,) = trial.store.search(READER_ADA, "class")
    expect_same((passage.base, passage.path), ("hers", "travel.md"), "base and path")
    expect_same(passage.trail, ("Travel", "Trains"), "the headings")
    expect_same(passage.source, f"travel.md#L{passage.first_line}-L{passage.last_line}", "the source")
    lines = _TRAVEL.split("\n")[passage.first_line - 1 : passage.last_line]
    expect_same("First class from four hours on." in lines, expected=True, what="the lines of the source")
    expect_same("First class from four hours on." in passage.text, expected=True, what="the text")


def any_word_finds_passages(trial: KnowledgeTrial) -> None:
    """A passage with any of the words is found. More or rarer words rank higher. Headings and path count as words too."""
    for number in range(10):
        trial.add(f"{number}.md", "About the weather.")
    trial.add("both.md", "A kingfisher at the harbour.")
    trial.add("one.md", "A kingfisher.")
    expect_same(trial.found("kingfisher harbour"), ["both.md", "one.md"], "two words")
    expect_same(trial.found("KINGFISHER harbour")[:1], ["both.md"], "small letters and capitals")
    trial.add("headed.md", "# Otters\n\nThey swim.")
    expect_same(trial.found("otters"), ["headed.md"], "a heading")
    expect_same(len(trial.found("weather", limit=3)), 3, "a limit")
    expect_same(trial.found("zebra"), [], "an unknown word")


def what_is_asked_is_words(trial: KnowledgeTrial) -> None:
    """No query is an error, and none finds a passage that its reader must not read."""
    trial.add("a.md", "coffee and tea")
    trial.add("b.md", "coffee and tea", "his", "bob")
    for query in HOSTILE_QUERIES:
        for base in ("", "hers"):
            others = [one.path for one in trial.store.search(READER_ADA, query, base) if one.base != "hers"]
            expect_same(others, [], f"results of other readers for {query[:40]!r}")


def a_base_is_open_to_its_readers_alone(trial: KnowledgeTrial) -> None:
    """Other readers see no base, no passage and no document. Without readers, everybody may read."""
    trial.add("hers.md", "trains", "hers", "ada")
    trial.add("all.md", "trains", "all", "*")
    trial.store.open_base(TENANT, "none")
    trial.store.add(TENANT, "none", "none.md", b"trains")
    (hers,) = trial.store.search(READER_ADA, "trains", "hers")
    for reader, wanted in (
        (READER_ADA, ["all", "hers"]),
        (READER_BOB, ["all"]),
        (UNNAMED, ["all"]),
        (STRANGER, []),
    ):
        expect_same([one.name for one in trial.store.bases(reader)], wanted, f"the bases of {reader!r}")
        expect_same(
            sorted(trial.found("trains", reader=reader)),
            [f"{one}.md" for one in wanted],
            f"results for {reader!r}",
        )
        if "hers" not in wanted:
            expect_same(trial.store.read(reader, hers.id), (), f"the passage read by {reader!r}")
            search = partial(trial.store.search, reader, "trains", "hers")
            expect_error(OptionError, search, f"a search of {reader!r} in a base they may not read")


def readers_are_changed(trial: KnowledgeTrial) -> None:
    """Named users may read from then on, and no other user. If none are named, the readers stay."""
    trial.add("a.md", "trains")
    trial.store.open_base(TENANT, "hers")
    expect_same(trial.found("trains"), ["a.md"], "without a base")
    trial.store.open_base(TENANT, "hers", ["bob"])
    expect_same([one.name for one in trial.store.bases(READER_ADA)], [], "a former reader")
    expect_same(trial.found("trains", reader=READER_BOB), ["a.md"], "a current reader")


def what_has_changed_takes_the_place(trial: KnowledgeTrial) -> None:
    """A document that is added again replaces the one at its path, with passages of other ids."""
    trial.add("a.md", "old trains")
    (old,) = trial.store.search(READER_ADA, "trains")
    trial.add("a.md", "new planes")
    expect_same(trial.found("trains"), [], "the old words")
    expect_same(trial.store.read(READER_ADA, old.id), (), "the old id")
    expect_same(trial.found("planes"), ["a.md"], "the new words")


def what_waits_is_announced(trial: KnowledgeTrial) -> None:
    """New or changed documents are pending, unchanged ones are not. A document still pending is listed again."""
    trial.add("same.md", "same")
    trial.add("other.md", "old")
    listed = [("same.md", _digest("same")), ("other.md", _digest("new")), ("more.md", _digest("x"))]
    expect_same(trial.store.announce(TENANT, "hers", listed), ("other.md", "more.md"), "documents to add")
    expect_same(
        trial.states(), {"more.md": "pending", "other.md": "pending", "same.md": "indexed"}, "the states"
    )
    expect_same(
        trial.store.announce(TENANT, "hers", listed), ("other.md", "more.md"), "documents to add still"
    )


def what_cannot_be_read_is_failed(trial: KnowledgeTrial) -> None:
    """A document that is not text, or could not be fetched, has a reason and no passages, even if it had some before."""
    trial.add("a.md", "trains")
    failed = trial.store.add(TENANT, "hers", "a.md", b"trains \xff")
    expect_same((failed.state, failed.passages, bool(failed.reason)), ("failed", 0, True), "the state")
    trial.add("b.md", "trains")
    expect_same(trial.found("trains"), ["b.md"], "search results")
    trial.store.fail(TENANT, "hers", "b.md", "it vanished")
    expect_same(trial.found("trains"), [], "search results then")
    expect_same(trial.states(), {"a.md": "failed", "b.md": "failed"}, "the states")
    expect_same(
        trial.store.announce(TENANT, "hers", [("a.md", failed.digest)]), ("a.md",), "the pending document"
    )


def a_line_stays_until_its_document_changes(trial: KnowledgeTrial) -> None:
    """A summary belongs to the version that was read, is shown only to readers, and is removed with its document."""
    store = trial.store
    added = trial.add("a.md", "trains\n\nplanes")
    expect_same(store.beginning(TENANT, "hers", "a.md", most=6), "trains", "the beginning of a document")
    expect_same(store.beginning(TENANT, "hers", "b.md"), "", "the beginning of an unknown document")
    told = [
        store.summarize(TENANT, "hers", "a.md", digest, "About trains.")
        for digest in ("0" * 64, added.digest)
    ]
    expect_same(told, [False, True], "another digest, and its own")
    expect_same(
        [one.summary for one in store.readable(READER_ADA, "hers")],
        ["About trains."],
        "the list for a reader",
    )
    expect_same(
        [one.summary for one in store.documents(TENANT, "hers")],
        ["About trains."],
        "the list for an operator",
    )
    expect_error(OptionError, lambda: store.readable(STRANGER, "hers"), "a stranger")
    for line in ("", "x" * (MAX_DOCUMENT_SUMMARY_CHARACTERS + 1), "a\nb"):
        expect_error(
            OptionError, partial(store.summarize, TENANT, "hers", "a.md", added.digest, line), "no line"
        )
    trial.add("a.md", "boats")
    expect_same(
        [one.summary for one in store.readable(READER_ADA, "hers")], [""], "tags of a changed document"
    )


def tags_stay_until_others_are_given(trial: KnowledgeTrial) -> None:
    """Tags belong to a path, whatever happens to its document, until others are set or the document is removed."""
    store = trial.store
    trial.add("a.md", "trains")
    trial.add("b.md", "trains")
    listed = [("c.md", _digest("x"))]
    store.announce(TENANT, "hers", listed)

    def tags() -> dict[str, tuple[str, ...]]:
        return {one.path: one.tags for one in store.documents(TENANT, "hers")}

    expect_same(store.tag(TENANT, "hers", ["a.md", "c.md", "none.md"], ["travel", "eu"]), 2, "how many")
    both = ("travel", "eu")
    expect_same(tags(), {"a.md": both, "b.md": (), "c.md": both}, "documents with these tags")
    expect_same(trial.add("c.md", "boats").tags, both, "tags of an added document")
    trial.add("a.md", "new trains")
    expect_same(tags()["a.md"], both, "tags of a changed document")
    expect_same(store.fail(TENANT, "hers", "a.md", "it vanished").tags, both, "tags of a failed document")
    store.tag(TENANT, "hers", ["a.md"], ["new"])
    store.tag(TENANT, "hers", ["c.md"], [])
    expect_same(tags(), {"a.md": ("new",), "b.md": (), "c.md": ()}, "with other tags, and without tags")
    refused: tuple[list[Any], ...] = (
        ["a", "a"],
        [""],
        [" a"],
        ["a\n"],
        ["x" * 65],
        [f"t{number}" for number in range(17)],
        [7],
    )
    for wrong in refused:
        expect_error(
            OptionError, partial(store.tag, TENANT, "hers", ["a.md"], wrong), f"the tags {wrong!r:.40}"
        )
    expect_error(OptionError, lambda: store.tag(TENANT, "nothing", ["a.md"], ["new"]), "tags in no base")
    expect_same(tags()["a.md"], ("new",), "state after a refusal")
    store.remove(TENANT, "hers", "a.md")
    expect_same(trial.add("a.md", "trains").tags, (), "tags of a re-added document")


def folders_and_tags_narrow(trial: KnowledgeTrial) -> None:
    """A folder contains only paths below it, not similar names. All tags must match. Other readers still see nothing."""
    store = trial.store
    paths = (
        "docs/travel/eu.md",
        "docs/travel/asia/rail.md",
        "docs/traveling.md",
        "travel/eu.md",
        "/docs/travel/x.md",
    )
    for path in paths:
        trial.add(path, "trains")
    trial.add("docs/travel/his.md", "trains", "his", "bob")
    store.tag(TENANT, "hers", [paths[0], paths[2]], ["travel", "eu"])
    store.tag(TENANT, "hers", [paths[1]], ["travel"])
    inside = {paths[0], paths[1], paths[4]}
    for folder, tags, wanted in (
        ("docs/travel", (), inside),
        ("docs/travel/", (), inside),
        ("docs", (), {*inside, paths[2]}),
        ("docs/travel", ("travel",), {paths[0], paths[1]}),
        (None, ("eu", "travel"), {paths[0], paths[2]}),
        ("docs/travel/asia", ("eu",), set[str]()),
        ("docs/trave_", (), set[str]()),
        ("docs/travel/eu.md", (), set[str]()),
        ("Docs", (), set[str]()),
        (None, ("EU",), set[str]()),
    ):
        within = DocumentFilter(folder=folder, tags=tags)
        for base in ("", "hers"):
            found = {one.path for one in store.search(READER_ADA, "trains", base, within)}
            expect_same(found, wanted, f"search results in {within!r}")
        listed = [one.path for one in store.readable(READER_ADA, "hers", within)]
        expect_same(listed, sorted(wanted), f"the list in {within!r}")
        looked = [one.path for one in store.documents(TENANT, "hers", within)]
        expect_same(looked, sorted(wanted), f"the list for an operator in {within!r}")
        expect_same(store.search(STRANGER, "trains", "", within), (), "search results for a stranger")
        expect_error(OptionError, partial(store.readable, STRANGER, "hers", within), "a list for a stranger")
    one = store.search(READER_ADA, "trains", "", DocumentFilter(folder="docs"), limit=1)
    expect_same(len(one), 1, "the number of results with a limit")
    for wrong in (
        "",
        "/",
        "/docs",
        "..",
        "docs/../travel",
        "./docs",
        "docs//travel",
        "a\0",
        "x" * (MAX_FOLDER_CHARACTERS + 1),
        7,
    ):
        expect_error(OptionError, partial[object](DocumentFilter, folder=wrong), f"the folder {wrong!r:.40}")


def a_passage_is_read_with_its_neighbours(trial: KnowledgeTrial) -> None:
    """A passage comes with the requested number of passages before and after it, in order, from the same document."""
    trial.add("long.md", "\n\n".join(f"# Part {number}\n\n{f'word{number} ' * 150}" for number in range(5)))
    trial.add("other.md", "word9")
    (middle,) = trial.store.search(READER_ADA, "word2")
    near = [one.trail[-1] for one in trial.store.read(READER_ADA, middle.id, around=1)]
    expect_same(near, ["Part 1", "Part 2", "Part 3"], "one on each side")
    expect_same(trial.store.read(READER_ADA, middle.id), (middle,), "it alone")
    expect_same(len(trial.store.read(READER_ADA, middle.id, around=MAX_AROUND)), 5, "all passages")
    for unknown in ("p-0", "", "\ud800", "' OR 1"):
        expect_same(trial.store.read(READER_ADA, unknown), (), f"the id {unknown!r}")


def removing_twice_is_fine(trial: KnowledgeTrial) -> None:
    """A document is removed with its passages. Removing it again does nothing."""
    trial.add("a.md", "trains")
    trial.add("b.md", "trains")
    expect_same(trial.store.remove(TENANT, "hers", "a.md"), expected=True, what="the first time")
    expect_same(trial.store.remove(TENANT, "hers", "a.md"), expected=False, what="the second time")
    expect_same(trial.found("trains"), ["b.md"], "search results")
    expect_same(trial.states(), {"b.md": "indexed"}, "the documents")


def passages_are_limited(trial: KnowledgeTrial) -> None:
    """Invalid limits, names, bases and paths are refused as the caller's mistake."""
    trial.add("a.md", "trains")
    store: Any = trial.store  # wrong for type checkers too
    for limit in (0, -1, True, 2.0, "3", None, MAX_FOUND_PASSAGES + 1):
        expect_error(
            OptionError, partial(store.search, READER_ADA, "x", limit=limit), f"a search with limit={limit!r}"
        )
    for around in (-1, True, 1.0, MAX_AROUND + 1):
        expect_error(
            OptionError,
            partial(store.read, READER_ADA, "p", around=around),
            f"reading with around={around!r}",
        )
    for name in ("", "a b", "../x", "x" * 65, None):
        expect_error(OptionError, partial(store.open_base, TENANT, name), f"a base named {name!r:.20}")
    expect_error(OptionError, partial(store.open_base, TENANT, "hers", [7]), "a reader that is not text")
    expect_error(
        OptionError, lambda: trial.store.add(TENANT, "nothing", "a.md", b"x"), "a document for no base"
    )
    expect_error(OptionError, lambda: trial.store.search(READER_ADA, "x", "nothing"), "a search in no base")


def readers_see_whole_documents_while_one_is_written(trial: KnowledgeTrial) -> None:
    """Other threads read while one writes: each sees a document before or after the change."""
    trial.add("a.md", "trains 0\n\n" * 50)

    def look() -> Iterator[str]:
        found = trial.store.search(READER_ADA, "trains")
        numbers = {word for one in found for word in one.text.split() if word.isdecimal()}
        if len(numbers) != 1:
            yield f"{sorted(numbers)}"

    with while_others_read(look):
        for number in range(1, 10):
            trial.store.add(TENANT, "hers", "a.md", (f"trains {number}\n\n" * 50).encode())


def knowledge_is_closed_twice(trial: KnowledgeTrial) -> None:
    """Closing is idempotent."""
    trial.add("a.md", "trains")
    trial.store.close()
    trial.store.close()


def what_was_added_is_there_again(trial: KnowledgeTrial) -> None:
    """A persistent store has its data again when it is reopened: passages, readers, tags, and pending documents."""
    if trial.reopen is None:
        return
    trial.add("a.md", "trains")
    trial.store.announce(TENANT, "hers", [("b.md", _digest("x"))])
    trial.store.tag(TENANT, "hers", ["b.md"], ["eu"])
    trial.store = trial.reopen(trial.store)
    expect_same(trial.found("trains"), ["a.md"], "the search")
    expect_same(trial.found("trains", reader=READER_BOB), [], "search results of another reader")
    expect_same(trial.states(), {"a.md": "indexed", "b.md": "pending"}, "the states")
    tags = [one.tags for one in trial.store.documents(TENANT, "hers")]
    expect_same(tags, [(), ("eu",)], "the tags")


KnowledgeRule: TypeAlias = Callable[[KnowledgeTrial], None]

KNOWLEDGE_RULES: Final[tuple[KnowledgeRule, ...]] = rules_on(KnowledgeTrial, sys.modules[__name__])
"""The rules, each tested on its own store."""


def knowledge_rule_name(rule: KnowledgeRule) -> str:
    """Return the name of a rule, for a report."""
    return rule.__name__


def check_knowledge(
    make: Callable[[], KnowledgeStore],
    *,
    reopen: Callable[[KnowledgeStore], KnowledgeStore] | None = None,
    rules: Sequence[KnowledgeRule] = KNOWLEDGE_RULES,
) -> None:
    """Test a knowledge store against the port.

    Args:
        make: Returns a new, empty store on each call. It is closed here.
        reopen: Closes a store and opens its stored data again. It is closed here. None if it stores nothing.
        rules: The rules to test.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result. Other errors of a store propagate, with
            the rule as a note.
    """
    for rule in rules:
        trial = KnowledgeTrial(make(), reopen)
        try:
            with under_rule(rule, trial.store):
                rule(trial)
        finally:
            trial.store.close()
