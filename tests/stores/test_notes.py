"""Working notes: what `NOTES.md` says, and where it is."""

import os
import stat

import pytest
from hypothesis import given, strategies as st

from agentrail.abc import MemoryOwner
from agentrail.core.values.notes_markdown import (
    MAX_NOTES_BYTES,
    NoteTopic,
    facts_in,
    fault_of_topic,
    notes_about,
    topics_of,
    with_notes,
    without_topic,
)
from agentrail.errors import NotAStore, OptionError, StoreUnavailable
from agentrail.stores.notes_files import NoteFiles, directory_name
from agentrail.stores.recall_memory import InMemoryNotes
from agentrail.testing.check_notes import NOTE_RULES, check_notes, note_rule_name

ADA = MemoryOwner(tenant="acme", user="ada")
AT_MS = 1_795_387_205_000  # 2026-11-22T22:40:05Z
each_rule = pytest.mark.parametrize("rule", NOTE_RULES, ids=note_rule_name)


@each_rule
@pytest.mark.parametrize("kind", ["memory", "files"])
def test_notes_keep_to_the_port(rule, kind, tmp_path):
    """`InMemoryNotes` and `NoteFiles`; no call behind `close` does anything."""
    check_notes(InMemoryNotes if kind == "memory" else lambda: NoteFiles(tmp_path), rules=[rule])
    store = InMemoryNotes() if kind == "memory" else NoteFiles(tmp_path)
    store.close()
    with pytest.raises(StoreUnavailable, match="were closed"):
        store.read(ADA, "s1")


class Forgetful(InMemoryNotes):
    def change(self, owner, session, edit):
        return super().change(owner, session, lambda _: edit(""))


class Shared(InMemoryNotes):
    def read(self, owner, session):
        return super().read(owner, "")

    def change(self, owner, session, edit):
        return super().change(owner, "", edit)


@pytest.mark.parametrize(
    ("broken", "said"), [(Forgetful, "the input of edit"), (Shared, "no two of them share a file")]
)
def test_a_store_that_breaks_a_rule_is_told_which(broken, said):
    """`check_notes` is able to fail."""
    with pytest.raises(AssertionError, match=said):
        check_notes(broken)


def test_a_file_is_for_its_owner_alone_and_reads_well(tmp_path):
    """The path has the names; nobody else may read it; and what a person sees is Markdown (12.5)."""
    store = NoteFiles(tmp_path / "notes")
    store.change(ADA, "s1", lambda old: with_notes(old, "deployment", ["We deploy on Fridays."], AT_MS))
    path = tmp_path / "notes" / "acme" / "ada" / "s1" / "NOTES.md"
    assert path.read_text() == "## deployment <!-- 2026-11-22T22:40:05Z -->\n\n- We deploy on Fridays.\n"
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, *list(path.parents)[:4])]
    assert modes == [0o600, 0o700, 0o700, 0o700, 0o700]
    assert os.listdir(path.parent) == ["NOTES.md"]  # noqa: PTH208 - the hidden ones too
    path.write_text("## deployment\n\nEdited by hand.\n")
    assert notes_about(store.read(ADA, "s1"), "deployment") == "Edited by hand."


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"\xff"), "it is not UTF-8"),
        (lambda path: path.write_bytes(b"x" * (5 * MAX_NOTES_BYTES)), "it has more than 262,144 bytes"),
        (lambda path: path.symlink_to("/etc/hostname"), "it is a link"),
        (os.mkfifo, "it is not a file"),
    ],
)
def test_what_can_be_no_notes_is_left_alone(tmp_path, spoil, said):
    """It is neither read nor written over: a person put it there, and is told what to do. It goes with its session."""
    store = NoteFiles(tmp_path)
    path = store.path_of(ADA, "s1")
    path.parent.mkdir(parents=True)
    spoil(path)
    before = path.lstat()
    with pytest.raises(NotAStore, match=f"{said}; it was not modified"):
        store.read(ADA, "s1")
    with pytest.raises(NotAStore, match=said):
        store.change(ADA, "s1", lambda _: "mine")
    assert (path.lstat().st_ino, path.lstat().st_mtime) == (before.st_ino, before.st_mtime)
    assert store.change(ADA, "s1", lambda _: "") == ""  # of a deleted session
    assert not os.path.lexists(path)


@given(st.sets(st.text(max_size=5) | st.text("aA.-_/", max_size=3), max_size=8))
def test_no_two_names_have_one_directory(names):
    """Whatever they are; and none leads out of the directory, nor differs from another in case alone."""
    made = {directory_name(name).casefold() for name in names}
    assert len(made) == len(names)
    assert not made & {".", "..", ""}
    assert not any("/" in one or "\0" in one for one in made)


TOPICS = st.text(st.sampled_from("ab#- <!>"), min_size=1, max_size=6).filter(
    lambda topic: fault_of_topic(topic) is None
)
NOTES = (
    st.lists(st.sampled_from(["a", "b", "\n## ", "\n", "\r\n", " ", "- ", "<!--", "#"]), min_size=1)
    .map("".join)
    .filter(str.strip)
)


@given(
    before=st.text(st.sampled_from("a\n# <!->")),
    written=st.lists(st.tuples(TOPICS, NOTES), min_size=1, max_size=5),
)
def test_what_is_noted_stands_under_its_topic_and_nothing_else_moves(before, written):
    """Whatever a person wrote and whatever notes say: each is found under its topic, again changes nothing, and the rest stays."""
    text = before
    for topic, note in written:
        lines = [line for line in text.split("\n") if line.strip() and not line.startswith("## ")]
        text = with_notes(text, topic, [note], AT_MS)
        items = [" ".join(one.split()) for one in note.split("\n")]
        shown = " ".join(notes_about(text, topic).split())
        assert " ".join(" ".join(items).split()) in shown
        assert with_notes(text, topic, [note], AT_MS + 9_000) == text
        left = iter(text.split("\n"))
        assert all(line in left for line in lines)  # in their order
    for topic in {topic.casefold() for topic, _ in written}:
        text = without_topic(text, topic)
        assert notes_about(text, topic) is None
        assert without_topic(text, topic) is None


def test_the_index_has_a_line_for_each_topic():
    """Two headings of one topic are one, a wrong time is left out, and notes that would be too long are refused whole (12.11)."""
    text = (
        "Hello.\n## Tea <!-- 2026-11-22T22:40:05Z -->\n\n- green\n\n## b <!-- yesterday -->\nx\n## tea\né\n"
    )
    assert topics_of(text) == (
        NoteTopic(name="general", size_bytes=6),
        NoteTopic(name="Tea", size_bytes=9, at_ms=AT_MS),
        NoteTopic(name="b", size_bytes=1),
    )
    assert topics_of("\n## c <!-- 2026-11-22T22:40:05 -->\n")[0].at_ms == AT_MS
    assert topics_of("") == ()
    assert notes_about(text, "TEA") == "- green\n\né"
    assert notes_about("\n\n", "general") is None
    assert without_topic("## a\nx\n", "A") == ""
    text = with_notes("", "a", ["x" * (MAX_NOTES_BYTES - 60)], AT_MS)
    with pytest.raises(
        OptionError, match=r"would have 65,\d+ bytes, at most 65,536 are kept: forget a topic"
    ):
        with_notes(text, "b", ["y" * 60], AT_MS)


def test_a_write_that_fails_leaves_nothing_and_a_removal_takes_what_a_crash_left(tmp_path, monkeypatch):
    """On a full disk, and after a kill in the middle of a write: deleted notes are in no file."""
    store = NoteFiles(tmp_path)
    store.change(ADA, "s1", lambda _: "old")
    folder = store.path_of(ADA, "s1").parent

    def fill(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fill)
        with pytest.raises(StoreUnavailable, match="No space left"):
            store.change(ADA, "s1", lambda _: "new")
    assert [one.name for one in folder.iterdir()] == ["NOTES.md"]
    assert store.read(ADA, "s1") == "old"
    (folder / ".NOTES.md.new").write_text("ne")
    store.change(ADA, "s1", lambda _: "")
    assert [*folder.iterdir()] == []


def test_an_item_without_content_is_no_fact_and_takes_as_long_as_it_is():
    """It took the square of its length, in the core, where all sessions wait."""
    assert facts_in(f"- {' ' * 200_000}\n- Prefers tea.{' ' * 200_000}", 5) == ("Prefers tea.",)
