"""`check_memory`: tests the rules of every memory store through the port alone, for our stores and yours.

    def test_mine(tmp_path):
        numbers = itertools.count()
        check_memory(lambda: MyRecall(tmp_path / str(next(numbers))))

or one rule at a time, for a report with a line for each:

    @pytest.mark.parametrize("rule", MEMORY_RULES, ids=memory_rule_name)
    def test_mine(rule):
        check_memory(MyRecall, rules=[rule])
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from attrs import define

from agentrail.abc.recall import MAX_FOUND, MAX_LISTED, MemoryEntry, MemoryOwner, RecallStore, TagFilter
from agentrail.errors import OptionError
from agentrail.testing.rule_failures import expect_error, expect_same, rules_on, under_rule, while_others_read

# The rules.

ADA: Final = MemoryOwner(tenant="acme", user="ada")
BOB: Final = MemoryOwner(tenant="acme", user="bob")

HOSTILE_QUERIES: Final = (
    *(
        '"',
        '""',
        '"""',
        "'",
        'tea"',
        '"tea',
        '") OR ("bob',
        "tea OR coffee",
        "tea AND NOT coffee",
        "NOT tea",
        "NEAR(tea coffee, 2)",
    ),
    *(
        "own:x OR tea",
        "body:coffee",
        "tags : coffee",
        "{body tags}: coffee",
        "-body:coffee",
        "^coffee",
        "coffee*",
        "* *",
        "+",
        "a + b",
    ),
    *(
        "(",
        ")",
        "(((",
        ") OR (coffee",
        "\0",
        "tea\0coffee",
        "\0coffee",
        "\ud800 coffee",
        "%",
        "_",
        "coffee;--",
        "coffee' OR '1'='1",
    ),
    *(
        "\\",
        "\n\t",
        "AND",
        "OR",
        "NOT",
        "\U0001d554offee",
        "CÓFFEE",
        "ﬀ",
        "İ",
        "٣",
        "咖啡",
        "c" * 100_000,
        "coffee " * 20_000,
    ),
)
"""Queries with special meaning for an index."""


@define
class MemoryTrial:
    """A store under test.

    Attributes:
        store: The store, new and empty.
        reopen: Closes a store and opens its stored data again. None if it stores nothing.
    """

    store: RecallStore
    reopen: Callable[[RecallStore], RecallStore] | None = None

    def put(self, entry_id: str, text: str, *tags: str, owner: MemoryOwner = ADA, **rest: Any) -> MemoryEntry:
        """Put an entry, and return it."""
        entry = MemoryEntry(id=entry_id, text=text, tags=tags, **({"at_ms": 1} | rest))
        self.store.put(owner, entry)
        return entry

    def found(
        self,
        query: str,
        *,
        any_of: Iterable[str] = (),
        all_of: Iterable[str] = (),
        owner: MemoryOwner = ADA,
        limit: int = 100,
    ) -> list[str]:
        """Return the ids that a search finds, in order."""
        tags = TagFilter(any_of=tuple(any_of), all_of=tuple(all_of))
        return [one.id for one in self.store.search(owner, query, tags, limit=limit)]

    def listed(self, owner: MemoryOwner = ADA, **rest: Any) -> list[str]:
        """Return the ids of a list, in order."""
        return [one.id for one in self.store.list(owner, **rest)]


def entries_come_back_as_they_were_put(trial: MemoryTrial) -> None:
    """An entry is returned exactly as it was put, in all of its fields, whatever its text."""
    texts = (
        "tea",
        "a\0b",
        "line\r\nline\n",
        "  spaces  ",
        "\ufeff\u202e",
        "\U0001d54c é e\u0301 咖啡",
        '{"json": "\\"}',
        "x" * 8192,
    )
    for number, text in enumerate(texts):
        entry = trial.put(
            f"m{number}", text, "Tag one", "c++", session="s:1.t2", at_ms=1_790_000_000_123, version=7
        )
        expect_same(trial.store.get(ADA, entry.id), entry, "get")
    expect_same({one.text for one in trial.store.list(ADA)}, set(texts), "the list")
    expect_same(trial.store.get(ADA, "m99"), None, "an unknown id")
    expect_same(trial.store.get(ADA, "\ud800"), None, "an invalid id")


def what_is_put_again_takes_the_place(trial: MemoryTrial) -> None:
    """An entry with an existing id replaces the other: the old one is no longer found."""
    trial.put("m1", "green tea", "drink")
    second = trial.put("m1", "black coffee", "morning", at_ms=5)
    expect_same(trial.store.get(ADA, "m1"), second, "get")
    expect_same(trial.found("green tea drink"), [], "the old words")
    expect_same(trial.listed(tags=TagFilter(any_of=("drink",))), [], "the old tags")
    expect_same(trial.found("coffee"), ["m1"], "the new words")
    expect_same(trial.listed(), ["m1"], "the list")


def lists_begin_with_the_newest(trial: MemoryTrial) -> None:
    """A list is ordered by time, newest first. Within one millisecond, by descending id."""
    for entry_id, at_ms in (("b", 20), ("a", 30), ("c", 10), ("d", 20)):
        trial.put(entry_id, "tea", at_ms=at_ms)
    expect_same(trial.listed(), ["a", "d", "b", "c"], "the list")


def lists_are_read_in_pages(trial: MemoryTrial) -> None:
    """Pages follow each other without gaps or repeats, even if an entry of the previous page was deleted."""
    for number in range(7):
        trial.put(f"m{number}", "tea", *(["even"] if number % 2 == 0 else []), at_ms=number // 2)
    whole = trial.listed()
    for tags, wanted in ((TagFilter(), whole), (TagFilter(any_of=("even",)), ["m6", "m4", "m2", "m0"])):
        seen: list[str] = []
        after: tuple[int, str] | None = None
        for _ in wanted:  # a store that returns the same page again would loop indefinitely
            page = trial.store.list(ADA, tags, limit=2, after=after)
            if not page:
                break
            seen += [one.id for one in page]
            after = page[-1].at_ms, page[-1].id
        expect_same(seen, wanted, "all pages")
    trial.store.delete(ADA, "m5")
    expect_same(trial.listed(after=(2, "m5")), ["m4", "m3", "m2", "m1", "m0"], "after a deleted memory")


def what_fits_best_comes_first(trial: MemoryTrial) -> None:
    """Rare words weigh more than common ones, and two words more than one."""
    trial.put("both", "the kingfisher of the harbour", at_ms=2)
    trial.put("rare", "the kingfisher", at_ms=1)
    for number in range(20):
        trial.put(f"m{number}", "the report of the week", at_ms=100 + number)
    expect_same(trial.found("kingfisher harbour")[:2], ["both", "rare"], "two words")
    expect_same(set(trial.found("the kingfisher")[:2]), {"rare", "both"}, "a rare one")


def of_equals_the_last_one_comes_first(trial: MemoryTrial) -> None:
    """Of entries that match a query equally, the most recently put one comes first."""
    for entry_id in ("m2", "m1", "m3"):
        trial.put(entry_id, "tea")
    trial.put("m1", "tea")
    expect_same(trial.found("tea"), ["m1", "m3", "m2"], "the search")
    expect_same(trial.found("tea", limit=1), ["m1"], "the first of them")


def any_word_of_a_query_finds(trial: MemoryTrial) -> None:
    """One word is enough. Case, accents and separators between words make no difference."""
    trial.put("m1", "Müller prefers green-tea, e\u0301tage 7")
    trial.put("m2", "我喜欢绿茶")
    for query in (
        "muller",
        "MÜLLER and nothing else",
        "tea!",
        "GREEN",
        "étage",
        "etage",
        "7",
        "mu\u0308ller",
    ):
        expect_same(trial.found(query), ["m1"], f"the query {query!r}")
    expect_same(trial.found("绿茶"), ["m2"], "without spaces")
    for query in ("mull", "ülle", "nothing", "", "?!", "茶"):
        expect_same(trial.found(query), [], f"the query {query!r}")


def tags_are_searched_too(trial: MemoryTrial) -> None:
    """A query finds the words of tags."""
    trial.put("m1", "every morning", "Green tea")
    expect_same(trial.found("tea"), ["m1"], "a word of a tag")


def tags_and_query_are_both_kept_to(trial: MemoryTrial) -> None:
    """`any_of`, `all_of` and the query must all match."""
    trial.put("m1", "green tea", "drink", "hot")
    trial.put("m2", "iced tea", "drink", "cold")
    trial.put("m3", "hot stove", "hot", "kitchen")
    expect_same(trial.found("tea stove", all_of=["drink", "hot"]), ["m1"], "all tags")
    expect_same(sorted(trial.found("tea stove", any_of=["cold", "kitchen"])), ["m2", "m3"], "any tag")
    expect_same(trial.found("tea stove", any_of=["cold", "kitchen"], all_of=["drink"]), ["m2"], "both")
    expect_same(trial.found("stove", any_of=["drink"]), [], "tags without the query")
    expect_same(
        trial.listed(tags=TagFilter(any_of=("cold", "hot"), all_of=("drink",))), ["m2", "m1"], "a list"
    )


def tags_are_compared_exactly(trial: MemoryTrial) -> None:
    """A tag is compared exactly, character by character."""
    tags = ("c", "c++", "C", "c c", "ç", '"c"', "c*", "c OR d")
    for number, tag in enumerate(tags):
        trial.put(f"m{number}", "text", tag)
    for number, tag in enumerate(tags):
        expect_same(trial.listed(tags=TagFilter(any_of=(tag,))), [f"m{number}"], f"the tag {tag!r}")
        expect_same(trial.found("text", all_of=[tag]), [f"m{number}"], f"all of {tag!r}")


def queries_are_words_and_no_syntax(trial: MemoryTrial) -> None:
    """No query raises, none means more than its words, and none finds another owner's entries."""
    trial.put("m1", "green tea")
    trial.put("b1", "black coffee, NOT tea", "coffee", owner=BOB)
    for query in HOSTILE_QUERIES:
        expect_same(set(trial.found(query)) - {"m1"}, set(), f"the query {query!r:.60}")
        expect_same(
            set(trial.found(query, owner=BOB)) - {"b1"}, set(), f"the query {query!r:.60} of another owner"
        )
    expect_same(trial.found("NOT green"), ["m1"], "NOT is a word")
    expect_same(trial.found("\0 tea"), ["m1"], "words after a NUL")


def an_id_of_another_owner_is_none(trial: MemoryTrial) -> None:
    """Another owner can neither read nor delete nor replace an entry."""
    mine = trial.put("m1", "green tea")
    expect_same(trial.store.get(BOB, "m1"), None, "get")
    expect_same(trial.store.delete(BOB, "m1"), expected=False, what="delete")
    his = trial.put("m1", "black coffee", owner=BOB)
    expect_same(trial.store.get(ADA, "m1"), mine, "mine")
    expect_same(trial.store.get(BOB, "m1"), his, "his")
    expect_same((trial.found("tea coffee"), trial.found("tea", owner=BOB)), (["m1"], []), "search results")


def owners_are_told_apart_by_all_of_their_names(trial: MemoryTrial) -> None:
    """Tenant and user are two names, and each may be any text: no two pairs are the same owner."""
    names = ("", "a", "A", "a/b", "b", "../a", 'a","b', "\0", "é", "e\u0301", "\ud800", "x" * 5000)
    owners = [MemoryOwner(tenant=tenant, user=user) for tenant in names[:4] for user in names]
    for number, owner in enumerate(owners):
        trial.put(f"m{number}", "tea", owner=owner)
    for number, owner in enumerate(owners):
        expect_same(trial.listed(owner), [f"m{number}"], f"the list of {owner!r:.80}")


def deleting_twice_is_fine(trial: MemoryTrial) -> None:
    """Deleting returns whether there was an entry, which is then no longer found."""
    trial.put("m1", "green tea", "drink")
    trial.put("m2", "green tea", "drink")
    expect_same(trial.store.delete(ADA, "m1"), expected=True, what="the first time")
    expect_same(trial.store.delete(ADA, "m1"), expected=False, what="the second time")
    expect_same(
        (trial.store.delete(ADA, "m9"), trial.store.delete(BOB, "m2")), (False, False), "an unknown memory"
    )
    expect_same(
        (trial.found("tea"), trial.listed(), trial.store.get(ADA, "m1")),
        (["m2"], ["m2"], None),
        "remaining memories",
    )


def an_owner_is_forgotten_and_no_other(trial: MemoryTrial) -> None:
    """All entries of the owner are removed, those of others stay, and the owner may start again."""
    for number in range(3):
        trial.put(f"m{number}", "green tea", "drink")
    trial.put("m1", "black tea", "drink", owner=BOB)
    first = trial.store.forget(ADA)
    expect_same((first.entries, type(first.is_erased)), (3, bool), "the first time")
    expect_same(trial.store.forget(ADA).entries, 0, "the second time")
    expect_same(
        (trial.found("tea"), trial.listed(), trial.found("tea", owner=BOB)),
        ([], [], ["m1"]),
        "remaining memories",
    )
    trial.put("m1", "white tea")
    expect_same(trial.found("tea"), ["m1"], "anew")


def limits_are_kept_to(trial: MemoryTrial) -> None:
    """At most the limit is returned, and an invalid limit is refused."""
    for number in range(8):
        trial.put(f"m{number}", "tea")
    expect_same(len(trial.found("tea", limit=3)), 3, "a search")
    expect_same(len(trial.listed(limit=3)), 3, "a list")
    expect_same(
        (len(trial.found("tea", limit=MAX_FOUND)), len(trial.listed(limit=MAX_LISTED))),
        (8, 8),
        "all memories",
    )
    wrong: tuple[Any, ...] = (0, -1, True, 2.0, "3", None)
    for limit in wrong:
        expect_error(
            OptionError,
            partial(trial.store.search, ADA, "tea", limit=limit),
            f"a search with limit={limit!r}",
        )
        expect_error(OptionError, partial(trial.store.list, ADA, limit=limit), f"a list with limit={limit!r}")
    expect_error(
        OptionError, lambda: trial.store.search(ADA, "tea", limit=MAX_FOUND + 1), "a search for too many"
    )
    expect_error(OptionError, lambda: trial.store.list(ADA, limit=MAX_LISTED + 1), "a list of too many")


def readers_see_whole_entries_while_one_is_written(trial: MemoryTrial) -> None:
    """Other threads read while one writes: each sees an entry before or after the change."""
    trial.put("m1", "tea 0", "n0", at_ms=0)

    def look() -> list[str]:
        found = (*trial.store.search(ADA, "tea"), *trial.store.list(ADA))
        return [f"{x!r}" for x in found if (x.text, *x.tags) != (f"tea {x.at_ms}", f"n{x.at_ms}")]

    with while_others_read(look):
        for number in range(1, 20):
            trial.put("m1", f"tea {number}", f"n{number}", at_ms=number)


def memories_are_closed_twice(trial: MemoryTrial) -> None:
    """Closing is idempotent."""
    trial.put("m1", "tea")
    trial.store.close()
    trial.store.close()


def what_is_remembered_is_there_again(trial: MemoryTrial) -> None:
    """A persistent store has its data again when it is reopened."""
    if trial.reopen is None:
        return
    entry = trial.put("m1", "green tea", "drink")
    trial.put("m2", "black tea")
    trial.store.delete(ADA, "m2")
    trial.store = trial.reopen(trial.store)
    expect_same(trial.store.get(ADA, "m1"), entry, "get")
    expect_same(trial.found("tea"), ["m1"], "the search")
    expect_same(trial.listed(tags=TagFilter(all_of=("drink",))), ["m1"], "the tags")


MemoryRule: TypeAlias = Callable[[MemoryTrial], None]

MEMORY_RULES: Final[tuple[MemoryRule, ...]] = rules_on(MemoryTrial, sys.modules[__name__])
"""The rules, each tested on its own store."""


def memory_rule_name(rule: MemoryRule) -> str:
    """Return the name of a rule, for a report."""
    return rule.__name__


def check_memory(
    make: Callable[[], RecallStore],
    *,
    reopen: Callable[[RecallStore], RecallStore] | None = None,
    rules: Sequence[MemoryRule] = MEMORY_RULES,
) -> None:
    """Test a memory store against the port.

    Args:
        make: Returns a new, empty store on each call. It is closed here.
        reopen: Closes a store and opens its stored data again. It is closed here. None if it stores nothing.
        rules: The rules to test.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result. Other errors of a store propagate, with
            the rule as a note.
    """
    for rule in rules:
        trial = MemoryTrial(make(), reopen)
        try:
            with under_rule(rule, trial.store):
                rule(trial)
        finally:
            trial.store.close()
