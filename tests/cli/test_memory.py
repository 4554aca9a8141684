"""`agentrail memory`: what is shown, what is forgotten, and wrong input first."""

import json

import pytest

from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.cli import memory
from agentrail.cli.exits import Exit
from agentrail.cli.memory import MemoryPlace, forget_memories, list_memories, search_memories
from agentrail.stores.recall_sqlite import SqliteRecall
from tests.cli.rig import run_agentrail

ADA = MemoryOwner(tenant="acme", user="ada")


@pytest.fixture
def place(tmp_path):
    """Where Ada's memories are: two of hers, and one of nobody's."""
    store = SqliteRecall(tmp_path / "m")
    store.put(
        ADA,
        MemoryEntry(
            id="m1", text="Likes \x1b[31mgreen\ntea", tags=["food", "drink"], at_ms=86_400_000, session="s1"
        ),
    )
    store.put(ADA, MemoryEntry(id="m2", text="Has a dog", at_ms=1 << 52))
    store.put(MemoryOwner(), MemoryEntry(id="m1", text="Nobody's tea", at_ms=1))
    store.close()
    return MemoryPlace(user="ada", tenant="acme", memories=f"sqlite:{tmp_path / 'm'}")


def left(place):
    """The ids of what is still remembered of the owner."""
    store = SqliteRecall(place.memories.removeprefix("sqlite:"))
    try:
        return [one.id for one in store.list(place.owner)]
    finally:
        store.close()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: forget_memories(place=p), "name the memories to forget, or say --all: one of the two."),
        (
            lambda p: forget_memories("m1", every=True, place=p),
            "name the memories to forget, or say --all: one of the two.",
        ),
        (lambda p: forget_memories("m1", "m9", place=p), "there is no memory 'm9' of user 'ada'."),
        (lambda p: forget_memories("\ud800", place=p), "there is no memory"),
        (lambda p: list_memories(limit=0, place=p), "limit is 0: expected a whole number from 1 to 1,000."),
        (
            lambda p: search_memories("tea", limit=101, place=p),
            "limit is 101: expected a whole number from 1 to 100.",
        ),
        (lambda p: list_memories(tag=("",), place=p), "tags_any[0] is no tag"),
        (
            lambda p: list_memories(place=MemoryPlace(memories="memory:")),
            "memories is 'memory:', which is gone with its process",
        ),
        (lambda p: list_memories(place=MemoryPlace(memories="files:")), "memories is 'files:': expected"),
    ],
)
def test_wrong_input_is_told_and_changes_nothing(place, capfd, call, said):
    """On stderr, with exit code 2; where one id is wrong nothing is forgotten."""
    assert call(place) is Exit.USAGE
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"agentrail: {said}")
    assert left(place) == ["m2", "m1"]


def test_what_is_remembered_is_listed(place, capfd):
    """The newest first, a line each, and nothing in it acts on a terminal."""
    assert list_memories(place=place) is Exit.DONE
    assert capfd.readouterr().out.splitlines() == [
        "m2  9999-12-31  Has a dog",
        r"m1  1970-01-02 [food, drink]  Likes \x1b[31mgreen\ntea",
    ]
    assert list_memories(tag=("drink",), as_json=True, place=place) is Exit.DONE
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line) == {
        "id": "m1",
        "text": "Likes \x1b[31mgreen\ntea",
        "tags": ["food", "drink"],
        "session_id": "s1",
        "at_ms": 86_400_000,
        "version": 1,
    }


def test_a_search_finds_words(place, capfd):
    """Of this user alone; where nothing fits that is said."""
    assert search_memories('"tea" OR', limit=5, place=place) is Exit.DONE
    assert capfd.readouterr().out.startswith("m1  ")
    assert search_memories("nobody", place=place) is Exit.DONE
    assert capfd.readouterr() == ("", "agentrail: nothing is remembered of user 'ada' that fits.\n")
    assert search_memories("cat", place=MemoryPlace(memories=place.memories)) is Exit.DONE
    assert (
        capfd.readouterr().err
        == "agentrail: nothing is remembered of no user in particular (say --user) that fits.\n"
    )


def test_one_is_forgotten_or_all(place, capfd):
    """Those of others stay; what is not reached is said."""
    assert forget_memories("m1", "m1", place=place) is Exit.DONE
    assert capfd.readouterr().out == "1 forgotten.\n"
    assert left(place) == ["m2"]
    assert forget_memories(every=True, place=place) is Exit.DONE
    out, err = capfd.readouterr()
    assert out == "1 forgotten.\n"
    assert err.startswith("agentrail: not reached: journals of sessions")
    assert left(place) == []
    assert left(MemoryPlace(memories=place.memories)) == ["m1"]


def test_a_reader_in_the_way_is_said(place, capfd, monkeypatch):
    """It is forgotten, and not yet overwritten: exit code 1."""
    monkeypatch.setattr("agentrail.stores.tenant_files.TenantFile.empty_log", lambda self: False)
    assert forget_memories(every=True, place=place) is Exit.FAILED
    assert "run the same command again" in capfd.readouterr().err
    assert left(place) == []


async def test_it_is_a_command(place, tmp_path):
    """Of the program, with the data directory of the environment."""
    ran = await run_agentrail(
        "memory", "list", "--user", "ada", "--tenant", "acme", "--memories", place.memories, "--limit", "1"
    )
    assert (ran.code, ran.out, ran.err) == (0, "m2  9999-12-31  Has a dog\n", "")
    assert memory.app.name == ("memory",)
