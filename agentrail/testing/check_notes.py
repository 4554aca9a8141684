"""`check_notes`: tests the rules of every store of working notes through the port alone, for our stores and yours.

def test_mine(tmp_path):
    numbers = itertools.count()
    check_notes(lambda: MyNotes(tmp_path / str(next(numbers))))
"""

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, NoReturn, TypeAlias

from agentrail.abc.notes import NoteStore
from agentrail.abc.recall import MemoryOwner
from agentrail.errors import OptionError
from agentrail.testing.rule_failures import expect_same, rules_on, under_rule

_ADA: Final = MemoryOwner(tenant="acme", user="ada")
_BOB: Final = MemoryOwner(tenant="acme", user="bob")

NoteRule: TypeAlias = Callable[[NoteStore], None]


def notes_come_back_as_they_were_written(store: NoteStore) -> None:
    """Reading returns the last written text, byte for byte. Without any written text it is empty."""
    expect_same(store.read(_ADA, "s1"), "", "before any write")
    for text in ("one\n", "line\r\n\r\nline", "\ufeff\u2028\0 é 咖啡", "x" * (64 << 10)):
        seen: list[str] = []

        def edit(old: str, new: str = text, seen: list[str] = seen) -> str:
            seen.append(old)
            return new

        before = store.read(_ADA, "s1")
        expect_same(store.change(_ADA, "s1", edit), text, "the result of change")
        expect_same(seen, [before], "the input of edit")
        expect_same(store.read(_ADA, "s1"), text, "the notes read")


def an_empty_text_removes_them(store: NoteStore) -> None:
    """Empty notes are as if they had never existed. Removing them again does nothing."""
    store.change(_ADA, "s1", lambda _: "one")
    for _ in range(2):
        expect_same(store.change(_ADA, "s1", lambda _: ""), "", "the result of change")
        expect_same(store.read(_ADA, "s1"), "", "the notes read")
    expect_same(store.forget(_ADA), 0, "forgotten topics")


def an_edit_that_raises_changes_nothing(store: NoteStore) -> None:
    """An error from `edit` propagates, and the notes stay unchanged."""

    def refuse(_: str) -> NoReturn:
        raise OptionError(["no room"])

    store.change(_ADA, "s1", lambda _: "one")
    try:
        came: object = store.change(_ADA, "s1", refuse)
    except OptionError as error:
        came = str(error)
    expect_same(came, "no room", "what travels")
    expect_same(store.read(_ADA, "s1"), "one", "the notes read")


def no_two_sessions_share_notes(store: NoteStore) -> None:
    """Owner and session are names, and each may be any text: no two of them share a file."""
    names = ("", "a", "A", "_", "a/b", "..", "../a", "a.", "\0", "é", "e\u0301", "\ud800", "x" * 1000)
    places = [(MemoryOwner(tenant=names[n % 4], user=name), "s") for n, name in enumerate(names)]
    places += [(_ADA, name) for name in names[1:]]
    for number, (owner, session) in enumerate(places):
        store.change(owner, session, lambda old, number=number: f"{old}{number}")  # type: ignore[misc]  # a default binds it
    for number, (owner, session) in enumerate(places):
        expect_same(store.read(owner, session), str(number), f"the notes of {owner!r:.80}, {session!r:.40}")


def notes_of_an_owner_are_forgotten(store: NoteStore) -> None:
    """The notes of all sessions of the owner are removed, those of others stay, and the owner may start again."""
    for session in ("s1", "S/2"):
        store.change(_ADA, session, lambda _: "one")
    store.change(_BOB, "s1", lambda _: "his")
    expect_same(store.forget(_ADA), 2, "the first time")
    expect_same(store.forget(_ADA), 0, "the second time")
    expect_same(
        [store.read(_ADA, "s1"), store.read(_ADA, "S/2"), store.read(_BOB, "s1")],
        ["", "", "his"],
        "remaining notes",
    )
    expect_same(store.change(_ADA, "s1", lambda old: f"{old}two"), "two", "anew")


def changes_come_one_after_the_other(store: NoteStore) -> None:
    """Several threads change the same notes, and no change is lost. Concurrent readers see whole texts."""
    wrong: list[str] = []

    def add(sign: str) -> None:
        for _ in range(5):
            store.change(_ADA, "s1", lambda old: f"{old}{sign}\n")
            text = store.read(_ADA, "s1")
            wrong.extend([text] if text and not text.endswith("\n") else [])

    threads = [threading.Thread(target=add, args=(sign,)) for sign in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect_same(wrong, [], "results during concurrent writes")
    expect_same(sorted(store.read(_ADA, "s1").split()), sorted("abc" * 5), "all of it")


def notes_are_closed_twice(store: NoteStore) -> None:
    """Closing is idempotent."""
    store.change(_ADA, "s1", lambda _: "one")
    store.close()
    store.close()


NOTE_RULES: Final[tuple[NoteRule, ...]] = rules_on(NoteStore, sys.modules[__name__])
"""The rules, each tested on its own store."""


def note_rule_name(rule: NoteRule) -> str:
    """Return the name of a rule, for a report."""
    return rule.__name__


def check_notes(make: Callable[[], NoteStore], *, rules: Sequence[NoteRule] = NOTE_RULES) -> None:
    """Test a store of working notes against the port.

    Args:
        make: Returns a new, empty store on each call. It is closed here.
        rules: The rules to test.

    Raises:
        AssertionError: A rule is broken. The message contains the rule and the result. Other errors of a store propagate, with
            the rule as a note.
    """
    for rule in rules:
        with closing(make()) as store, under_rule(rule, store):
            rule(store)
