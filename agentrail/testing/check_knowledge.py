"""`check_knowledge`: tests the rules of every knowledge store through the port alone, for our stores and yours.

    def test_mine(tmp_path):
        numbers = itertools.count()
        check_knowledge(lambda: MyKnowledge(tmp_path / str(next(numbers))))

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", KNOWLEDGE_RULES, ids=knowledge_rule_name)
    def test_mine(rule):
        check_knowledge(MyKnowledge, rules=[rule])

It needs no event loop. The docstring of each rule is a promise of the store. The port is `agentrail.abc.knowledge`.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
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
from agentrail.testing.rule_failures import under_rule

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


def _expect(what: str, came: object, wanted: object) -> None:
    """Raise if the result differs from the expected one."""
    if came != wanted:
        message = f"{what}: expected {wanted!r:.300}, and there came {came!r:.300}"
        raise AssertionError(message)


def _refuses(what: str, call: Callable[[], object]) -> None:
    try:
        came = call()
    except OptionError:
        return
    message = f"{what}: expected OptionError, and there came {came!r:.300}"
    raise AssertionError(message)


def passages_come_with_their_source(trial: KnowledgeTrial) -> None:
    """A passage has its base, path, headings and lines, and a source that names path and lines."""
    trial.add("travel.md", _TRAVEL)
    (passage,) = trial.store.search(READER_ADA, "class")
    _expect("base and path", (passage.base, passage.path), ("hers", "travel.md"))
    _expect("the headings", passage.trail, ("Travel", "Trains"))
    _expect("the source", passage.source, f"travel.md#L{passage.first_line}-L{passage.last_line}")
    lines = _TRAVEL.split("\n")[passage.first_line - 1 : passage.last_line]
    _expect("the lines of the source", "First class from four hours on." in lines, wanted=True)
    _expect("the text", "First class from four hours on." in passage.text, wanted=True)


def any_word_finds_passages(trial: KnowledgeTrial) -> None:
    """A passage with any of the words is found. More or rarer words rank higher. Headings and path count as words too."""
    for number in range(10):
        trial.add(f"{number}.md", "About the weather.")
    trial.add("both.md", "A kingfisher at the harbour.")
    trial.add("one.md", "A kingfisher.")
    _expect("two words", trial.found("kingfisher harbour"), ["both.md", "one.md"])
    _expect("small letters and capitals", trial.found("KINGFISHER harbour")[:1], ["both.md"])
    trial.add("headed.md", "# Otters\n\nThey swim.")
    _expect("a heading", trial.found("otters"), ["headed.md"])
    _expect("a limit", len(trial.found("weather", limit=3)), 3)
    _expect("a word that there is not", trial.found("zebra"), [])


def what_is_asked_is_words(trial: KnowledgeTrial) -> None:
    """No query is an error, and none finds a passage that its reader must not read."""
    trial.add("a.md", "coffee and tea")
    trial.add("b.md", "coffee and tea", "his", "bob")
    for query in HOSTILE_QUERIES:
        for base in ("", "hers"):
            others = [one.path for one in trial.store.search(READER_ADA, query, base) if one.base != "hers"]
            _expect(f"what is not hers under {query[:40]!r}", others, [])


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
        _expect(f"the bases of {reader!r}", [one.name for one in trial.store.bases(reader)], wanted)
        _expect(
            f"what {reader!r} finds",
            sorted(trial.found("trains", reader=reader)),
            [f"{one}.md" for one in wanted],
        )
        if "hers" not in wanted:
            _expect(f"what {reader!r} reads", trial.store.read(reader, hers.id), ())
            search = partial(trial.store.search, reader, "trains", "hers")
            _refuses(f"a search of {reader!r} in a base that is not theirs", search)


def readers_are_changed(trial: KnowledgeTrial) -> None:
    """Named users may read from then on, and no other user. If none are named, the readers stay."""
    trial.add("a.md", "trains")
    trial.store.open_base(TENANT, "hers")
    _expect("with none named", trial.found("trains"), ["a.md"])
    trial.store.open_base(TENANT, "hers", ["bob"])
    _expect("who was a reader", [one.name for one in trial.store.bases(READER_ADA)], [])
    _expect("who is one", trial.found("trains", reader=READER_BOB), ["a.md"])


def what_has_changed_takes_the_place(trial: KnowledgeTrial) -> None:
    """A document that is added again replaces the one at its path, with passages of other ids."""
    trial.add("a.md", "old trains")
    (old,) = trial.store.search(READER_ADA, "trains")
    trial.add("a.md", "new planes")
    _expect("the old words", trial.found("trains"), [])
    _expect("the old id", trial.store.read(READER_ADA, old.id), ())
    _expect("the new words", trial.found("planes"), ["a.md"])


def what_waits_is_announced(trial: KnowledgeTrial) -> None:
    """New or changed documents are pending, unchanged ones are not. A document still pending is listed again."""
    trial.add("same.md", "same")
    trial.add("other.md", "old")
    listed = [("same.md", _digest("same")), ("other.md", _digest("new")), ("more.md", _digest("x"))]
    _expect("what is to be added", trial.store.announce(TENANT, "hers", listed), ("other.md", "more.md"))
    _expect("the states", trial.states(), {"more.md": "pending", "other.md": "pending", "same.md": "indexed"})
    _expect(
        "what is to be added still", trial.store.announce(TENANT, "hers", listed), ("other.md", "more.md")
    )


def what_cannot_be_read_is_failed(trial: KnowledgeTrial) -> None:
    """A document that is not text, or could not be fetched, has a reason and no passages, even if it had some before."""
    trial.add("a.md", "trains")
    failed = trial.store.add(TENANT, "hers", "a.md", b"trains \xff")
    _expect("the state", (failed.state, failed.passages, bool(failed.reason)), ("failed", 0, True))
    trial.add("b.md", "trains")
    _expect("what is found", trial.found("trains"), ["b.md"])
    trial.store.fail(TENANT, "hers", "b.md", "it vanished")
    _expect("what is found then", trial.found("trains"), [])
    _expect("the states", trial.states(), {"a.md": "failed", "b.md": "failed"})
    _expect("it waits again", trial.store.announce(TENANT, "hers", [("a.md", failed.digest)]), ("a.md",))


def a_line_stays_until_its_document_changes(trial: KnowledgeTrial) -> None:
    """A summary belongs to the version that was read, is shown only to readers, and is removed with its document."""
    store = trial.store
    added = trial.add("a.md", "trains\n\nplanes")
    _expect("how it begins", store.beginning(TENANT, "hers", "a.md", most=6), "trains")
    _expect("how none begins", store.beginning(TENANT, "hers", "b.md"), "")
    told = [
        store.summarize(TENANT, "hers", "a.md", digest, "About trains.")
        for digest in ("0" * 64, added.digest)
    ]
    _expect("another digest, and its own", told, [False, True])
    _expect(
        "what a reader sees", [one.summary for one in store.readable(READER_ADA, "hers")], ["About trains."]
    )
    _expect("who looks after it", [one.summary for one in store.documents(TENANT, "hers")], ["About trains."])
    _refuses("a stranger", lambda: store.readable(STRANGER, "hers"))
    for line in ("", "x" * (MAX_DOCUMENT_SUMMARY_CHARACTERS + 1), "a\nb"):
        _refuses("no line", partial(store.summarize, TENANT, "hers", "a.md", added.digest, line))
    trial.add("a.md", "boats")
    _expect("of what has changed", [one.summary for one in store.readable(READER_ADA, "hers")], [""])


def tags_stay_until_others_are_given(trial: KnowledgeTrial) -> None:
    """Tags belong to a path, whatever happens to its document, until others are set or the document is removed."""
    store = trial.store
    trial.add("a.md", "trains")
    trial.add("b.md", "trains")
    listed = [("c.md", _digest("x"))]
    store.announce(TENANT, "hers", listed)

    def tags() -> dict[str, tuple[str, ...]]:
        return {one.path: one.tags for one in store.documents(TENANT, "hers")}

    _expect("how many", store.tag(TENANT, "hers", ["a.md", "c.md", "none.md"], ["travel", "eu"]), 2)
    both = ("travel", "eu")
    _expect("who has them", tags(), {"a.md": both, "b.md": (), "c.md": both})
    _expect("of one that is added", trial.add("c.md", "boats").tags, both)
    trial.add("a.md", "new trains")
    _expect("of one that has changed", tags()["a.md"], both)
    _expect("of one that failed", store.fail(TENANT, "hers", "a.md", "it vanished").tags, both)
    store.tag(TENANT, "hers", ["a.md"], ["new"])
    store.tag(TENANT, "hers", ["c.md"], [])
    _expect("with others, and with none", tags(), {"a.md": ("new",), "b.md": (), "c.md": ()})
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
        _refuses(f"the tags {wrong!r:.40}", partial(store.tag, TENANT, "hers", ["a.md"], wrong))
    _refuses("tags in no base", lambda: store.tag(TENANT, "nothing", ["a.md"], ["new"]))
    _expect("what was refused", tags()["a.md"], ("new",))
    store.remove(TENANT, "hers", "a.md")
    _expect("of one that is new again", trial.add("a.md", "trains").tags, ())


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
            _expect(f"what is found in {within!r}", found, wanted)
        listed = [one.path for one in store.readable(READER_ADA, "hers", within)]
        _expect(f"what is listed in {within!r}", listed, sorted(wanted))
        looked = [one.path for one in store.documents(TENANT, "hers", within)]
        _expect(f"what who looks after it sees in {within!r}", looked, sorted(wanted))
        _expect("what a stranger finds", store.search(STRANGER, "trains", "", within), ())
        _refuses("a list for a stranger", partial(store.readable, STRANGER, "hers", within))
    one = store.search(READER_ADA, "trains", "", DocumentFilter(folder="docs"), limit=1)
    _expect("how many with a limit", len(one), 1)
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
        _refuses(f"the folder {wrong!r:.40}", partial[object](DocumentFilter, folder=wrong))


def a_passage_is_read_with_its_neighbours(trial: KnowledgeTrial) -> None:
    """A passage comes with the requested number of passages before and after it, in order, from the same document."""
    trial.add("long.md", "\n\n".join(f"# Part {number}\n\n{f'word{number} ' * 150}" for number in range(5)))
    trial.add("other.md", "word9")
    (middle,) = trial.store.search(READER_ADA, "word2")
    near = [one.trail[-1] for one in trial.store.read(READER_ADA, middle.id, around=1)]
    _expect("one on each side", near, ["Part 1", "Part 2", "Part 3"])
    _expect("it alone", trial.store.read(READER_ADA, middle.id), (middle,))
    _expect("all there are", len(trial.store.read(READER_ADA, middle.id, around=MAX_AROUND)), 5)
    for unknown in ("p-0", "", "\ud800", "' OR 1"):
        _expect(f"the id {unknown!r}", trial.store.read(READER_ADA, unknown), ())


def removing_twice_is_fine(trial: KnowledgeTrial) -> None:
    """A document is removed with its passages. Removing it again does nothing."""
    trial.add("a.md", "trains")
    trial.add("b.md", "trains")
    _expect("the first time", trial.store.remove(TENANT, "hers", "a.md"), wanted=True)
    _expect("the second time", trial.store.remove(TENANT, "hers", "a.md"), wanted=False)
    _expect("what is found", trial.found("trains"), ["b.md"])
    _expect("the documents", trial.states(), {"b.md": "indexed"})


def passages_are_limited(trial: KnowledgeTrial) -> None:
    """Invalid limits, names, bases and paths are refused as the caller's mistake."""
    trial.add("a.md", "trains")
    store: Any = trial.store  # wrong for type checkers too
    for limit in (0, -1, True, 2.0, "3", None, MAX_FOUND_PASSAGES + 1):
        _refuses(f"a search with limit={limit!r}", partial(store.search, READER_ADA, "x", limit=limit))
    for around in (-1, True, 1.0, MAX_AROUND + 1):
        _refuses(f"reading with around={around!r}", partial(store.read, READER_ADA, "p", around=around))
    for name in ("", "a b", "../x", "x" * 65, None):
        _refuses(f"a base named {name!r:.20}", partial(store.open_base, TENANT, name))
    _refuses("a reader that is no text", partial(store.open_base, TENANT, "hers", [7]))
    _refuses("a document for no base", lambda: trial.store.add(TENANT, "nothing", "a.md", b"x"))
    _refuses("a search in no base", lambda: trial.store.search(READER_ADA, "x", "nothing"))


def readers_see_whole_documents_while_one_is_written(trial: KnowledgeTrial) -> None:
    """Other threads read while one writes: each sees a document before or after the change."""
    trial.add("a.md", "trains 0\n\n" * 50)
    wrong: list[str] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            found = trial.store.search(READER_ADA, "trains")
            numbers = {word for one in found for word in one.text.split() if word.isdecimal()}
            if len(numbers) != 1:
                wrong.append(f"{numbers}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 10):
            trial.store.add(TENANT, "hers", "a.md", (f"trains {number}\n\n" * 50).encode())
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
    _expect("what was read in between", wrong, [])


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
    _expect("the search", trial.found("trains"), ["a.md"])
    _expect("what another finds", trial.found("trains", reader=READER_BOB), [])
    _expect("the states", trial.states(), {"a.md": "indexed", "b.md": "pending"})
    tags = [one.tags for one in trial.store.documents(TENANT, "hers")]
    _expect("the tags", tags, [(), ("eu",)])


KnowledgeRule: TypeAlias = Callable[[KnowledgeTrial], None]

KNOWLEDGE_RULES: Final[tuple[KnowledgeRule, ...]] = (
    passages_come_with_their_source,
    any_word_finds_passages,
    what_is_asked_is_words,
    a_base_is_open_to_its_readers_alone,
    readers_are_changed,
    what_has_changed_takes_the_place,
    what_waits_is_announced,
    what_cannot_be_read_is_failed,
    a_line_stays_until_its_document_changes,
    tags_stay_until_others_are_given,
    folders_and_tags_narrow,
    a_passage_is_read_with_its_neighbours,
    removing_twice_is_fine,
    passages_are_limited,
    readers_see_whole_documents_while_one_is_written,
    knowledge_is_closed_twice,
    what_was_added_is_there_again,
)
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
            with under_rule(rule, trial):
                rule(trial)
        finally:
            trial.store.close()
