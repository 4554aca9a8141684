"""`agentrail memory`: what is shown, what is forgotten, and wrong input first."""

import json
import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio

import agentrail
from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.blueprints.config_discovery import USER_FOLDER
from agentrail.cli.exit_codes import Exit
from agentrail.cli.kb_command import KnowledgePlace, add_documents, list_documents, remove_documents
from agentrail.cli.memory_command import MemoryPlace, forget_memories, list_memories, search_memories
from agentrail.cli.sessions_command import check, list_sessions, replay_journal, show_session, trace
from agentrail.cli.store_access import StorePlace
from agentrail.stores.memory_store_names import make_recall
from agentrail.stores.notes_files import NoteFiles
from agentrail.stores.postgres_schema import migrate
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, says

ADA = MemoryOwner(tenant="acme", user="ada")


@pytest.fixture
def place(tmp_path):
    """Where Ada's memories are: two of hers, and one of nobody's."""
    store = SqliteRecall(tmp_path / "m")
    tea = {"text": "Likes \x1b[31mgreen\ntea", "tags": ["food", "drink"]}
    store.put(ADA, MemoryEntry(id="m1", at_ms=86_400_000, session="s1", **tea))
    store.put(ADA, MemoryEntry(id="m2", text="Has a dog", at_ms=1 << 52))
    store.put(MemoryOwner(), MemoryEntry(id="m1", text="Nobody's tea", at_ms=1))
    store.close()
    return MemoryPlace(
        user="ada", tenant="acme", memories=f"sqlite:{tmp_path / 'm'}", data_dir=tmp_path / "data"
    )


def left(place):
    store = SqliteRecall(place.memories.removeprefix("sqlite:"))
    try:
        return [one.id for one in store.list(place.owner)]
    finally:
        store.close()


def test_wrong_input_is_told_and_changes_nothing(place, capfd):
    """On stderr, with exit code 2; where one id is wrong nothing is forgotten."""
    one_of_two = "name the memories to forget, or say --all: one of the two."
    ends, unknown = MemoryPlace(memories="memory:"), MemoryPlace(memories="files:")
    for call, said in (
        (lambda: forget_memories(place=place), one_of_two),
        (lambda: forget_memories("m1", every=True, place=place), one_of_two),
        (lambda: forget_memories("m1", "m9", place=place), "user 'ada' has no memory 'm9'."),
        (lambda: forget_memories("\ud800", place=place), "user 'ada' has no memory"),
        (
            lambda: forget_memories("nope", place=MemoryPlace(memories=place.memories)),
            "without --user, there is no memory 'nope'.",
        ),
        (lambda: list_memories(limit=0, place=place), "limit is 0: expected a whole number from 1 to 1,000."),
        (
            lambda: search_memories("tea", limit=101, place=place),
            "limit is 101: expected a whole number from 1 to 100.",
        ),
        (lambda: list_memories(tag=("",), place=place), "tags_any[0] is not a tag"),
        (lambda: list_memories(place=ends), "memories is 'memory:', which ends with its process"),
        (lambda: list_memories(place=unknown), "memories is 'files:': expected"),
    ):
        assert call() is Exit.USAGE, said
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith(f"agentrail: {said}")
    assert left(place) == ["m2", "m1"]


def test_a_data_directory_that_is_a_file_is_refused(tmp_path, capfd):
    """It is not a directory without memories. `sqlite:FILE` is refused the same way."""
    (tmp_path / "file").touch()
    wrong = {"data_dir": tmp_path / "file"}
    for call in (
        lambda: list_memories(place=MemoryPlace(**wrong)),
        lambda: list_memories(place=MemoryPlace(memories=f"sqlite:{tmp_path / 'file'}")),
        lambda: forget_memories(every=True, place=MemoryPlace(**wrong)),
        lambda: list_documents(place=KnowledgePlace(**wrong)),
        lambda: remove_documents("base", "x", place=KnowledgePlace(**wrong)),
    ):
        assert call() is Exit.USAGE
        out, err = capfd.readouterr()
        assert out == ""
        assert "Not a directory; name another directory" in err


def test_what_is_remembered_is_listed_and_searched(place, capfd):
    """The newest first, a line each, and nothing in it acts on a terminal; of this user alone; where nothing fits that is said."""
    assert list_memories(place=place) is Exit.DONE
    assert capfd.readouterr().out.splitlines() == [
        "m2  9999-12-31  Has a dog",
        r"m1  1970-01-02 [food, drink]  Likes \x1b[31mgreen\ntea",
    ]
    assert list_memories(tag=("drink",), as_json=True, place=place) is Exit.DONE
    (line,) = capfd.readouterr().out.splitlines()
    tea = {"text": "Likes \x1b[31mgreen\ntea", "tags": ["food", "drink"]}
    assert json.loads(line) == {"id": "m1", **tea, "session_id": "s1", "at_ms": 86_400_000, "version": 1}

    assert search_memories('"tea" OR', limit=5, place=place) is Exit.DONE
    assert capfd.readouterr().out.startswith("m1  ")
    assert search_memories("nobody", place=place) is Exit.DONE
    assert capfd.readouterr() == ("", "agentrail: user 'ada' has no matching memories.\n")
    assert search_memories("cat", place=MemoryPlace(memories=place.memories)) is Exit.DONE
    assert capfd.readouterr().err == "agentrail: without --user, there are no matching memories.\n"


def test_one_is_forgotten_or_all(place, capfd):
    """Those of others stay; what is not reached is said."""
    assert forget_memories("m1", "m1", place=place) is Exit.DONE
    assert capfd.readouterr().out == "1 forgotten.\n"
    assert left(place) == ["m2"]
    directory = Path(place.memories.removeprefix("sqlite:")) / "notes"
    for user in ("ada", "bob"):
        NoteFiles(directory).change(
            MemoryOwner(tenant="acme", user=user), "trip", lambda _: "## tea\n\n- green\n"
        )
    assert forget_memories(every=True, place=place) is Exit.DONE
    out, err = capfd.readouterr()
    assert [one.parts[-3] for one in directory.rglob("NOTES.md")] == ["bob"]
    assert out == (
        "1 memories forgotten.\nWorking notes of 1 sessions removed.\n0 sessions erased: 0 records, 0 snapshots, 0 large values.\n"
    )
    assert err.startswith("agentrail: not erased: exports, backups")
    assert "the audit log and backends of telemetry" in err
    assert left(place) == []
    assert left(MemoryPlace(memories=place.memories)) == ["m1"]
    assert not place.data_dir.exists(), "a store was made to find that there is none"


@pytest.fixture
def journals(place):
    """The store of the data directory, with a session of Ada and one of Bob."""
    place.data_dir.mkdir()
    store = SqliteStore(place.data_dir / "sessions.db")

    async def live():
        async with agentrail.open_supervisor(store=store) as supervisor:
            for session, user in (("a1", "ada"), ("b1", "bob")):
                options = {"user_data": {"tenant_id": "acme", "user_id": user}, "scope": "acme"}
                model = ScriptedModel([says("A kingfisher!")])
                started = await supervisor.start_session(session_id=session, model=model, **options)
                await started.ask(f"What did {user} see?")

    trio.run(live)
    store.close()
    return place.data_dir / "sessions.db"


def test_a_user_is_forgotten_with_what_was_said(place, journals, capfd):
    """The journals of their sessions are erased, are sound, and say so where they are looked at; again is fine."""
    where = StorePlace(data_dir=place.data_dir, scope="acme")
    assert forget_memories(every=True, place=place) is Exit.DONE
    out, err = capfd.readouterr()
    assert re.fullmatch(
        r"2 memories forgotten\.\n1 sessions erased: \d+ records, \d snapshots, 0 large values\.\n", out
    )
    assert "backups" in err
    for one in journals.parent.iterdir():
        assert b"What did ada see?" not in one.read_bytes(), one
    assert check(place=where) is Exit.DONE
    assert trace("a1", place=where) is Exit.DONE
    shown = capfd.readouterr().out
    assert "2 sessions are intact" in shown
    assert re.search(r"erased  events 0\n +was opened, [\d,]+ bytes: user forgotten", shown)
    assert list_sessions(every=True, place=where) is Exit.DONE
    for look in (show_session, replay_journal):
        assert look("a1", place=where) is Exit.FAILED
        assert "the content of record 1 was removed" in capfd.readouterr().err
    assert replay_journal("b1", place=where) is Exit.DONE
    assert forget_memories(every=True, place=place) is Exit.DONE
    assert "0 sessions erased" in capfd.readouterr().out


def test_journals_of_others_are_not_erased(place, journals, capfd):
    """Sessions without a user may be anybody's, which is said; beside a server they are the server's to erase: how to go on is said, and the exit code is 1."""
    nobody = MemoryPlace(memories=place.memories, data_dir=place.data_dir)
    before = journals.read_bytes()
    assert forget_memories(every=True, place=nobody) is Exit.DONE
    out, err = capfd.readouterr()
    assert out == "1 memories forgotten.\n"
    assert "journals were not erased: that needs a user (--user)" in err
    assert journals.read_bytes() == before

    server = SqliteStore(journals)
    try:
        assert forget_memories(every=True, place=place) is Exit.FAILED
        out, err = capfd.readouterr()
        assert out == "2 memories forgotten.\n"
        assert "journals were not erased: the store" in err
        assert "Or ask that process: DELETE /users/ada/memory" in err
        assert left(place) == []
        assert {one.kind for one in server.read("acme", "a1")} > {"opened", "prompt"}
    finally:
        server.close()


def test_what_is_left_is_said(place, journals, capfd, monkeypatch):
    """A session of which cannot be said whose it is, and a reader in the way of its file: exit code 1."""
    with closing(apsw.Connection(str(journals))) as connection:
        connection.execute(
            "UPDATE record SET body = ? WHERE session = 'b1' AND seq = 1", (b'{"version":99}',)
        )
    monkeypatch.setattr("agentrail.cli.store_access._PAUSE_SECONDS", 0)
    monkeypatch.setattr(SqliteStore, "overwrite_removed", lambda self: False)
    assert forget_memories(every=True, place=place) is Exit.FAILED
    out, err = capfd.readouterr()
    assert "1 sessions erased" in out
    assert "left: session 'b1': its owner cannot be determined" in err
    assert "run the same command again" in err


def configure(home, monkeypatch, host):
    """Write the user's own file, which needs no trust."""
    folder = home / USER_FOLDER
    folder.mkdir(parents=True)
    (folder / "agentrail.toml").write_text(f"version = 1\n[host]\n{host}")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("AGENTRAIL_CONFIG", raising=False)
    monkeypatch.chdir(home)


@pytest.fixture
def database(postgres_url, place, journals):
    """A database with the memories of Ada, and a session of hers and one of Bob."""
    migrate(postgres_url)
    with (
        closing(make_recall(postgres_url, None, {})) as store,
        closing(SqliteRecall(place.memories[7:])) as files,
    ):
        for one in files.list(ADA):
            store.put(ADA, one)

    async def live():
        async with agentrail.open_supervisor(
            store=postgres_url, memories="postgres:", data_dir=place.data_dir
        ) as supervisor:
            for user in ("ada", "bob"):
                options = {"user_data": {"tenant_id": "acme", "user_id": user}, "scope": "acme"}
                started = await supervisor.start_session(
                    session_id=user, model=ScriptedModel([says("A kingfisher!")]), **options
                )
                await started.ask(f"What did {user} see?")

    trio.run(live)
    return postgres_url


def test_the_memories_of_a_database_are_listed_searched_and_forgotten(
    database, place, capfd, tmp_path, monkeypatch
):
    """By its URL, and by `postgres:` in `[host]`: the database of its store."""
    configure(tmp_path, monkeypatch, f'store = "{database}"\nmemories = "postgres:"\n')
    for one in (
        MemoryPlace(user="ada", tenant="acme", memories=database),
        MemoryPlace(user="ada", tenant="acme"),
    ):
        assert list_memories(place=one) is Exit.DONE
        assert capfd.readouterr().out.startswith("m2  9999-12-31  Has a dog\nm1  ")
        assert search_memories("tea", place=one) is Exit.DONE
        assert capfd.readouterr().out.startswith("m1  ")
    assert forget_memories("m2", place=one) is Exit.DONE
    assert forget_memories(every=True, place=one) is Exit.DONE
    out, err = capfd.readouterr()
    assert re.fullmatch(r"1 forgotten\.\n1 memories forgotten\.\n1 sessions erased: \d+ records, .*\n", out)
    assert "write-ahead log and backups of the database" in err
    assert "run the same command again" not in err
    where = StorePlace(store=database, scope="acme")
    assert show_session("ada", place=where) is Exit.FAILED
    assert show_session("bob", place=where) is Exit.DONE
    capfd.readouterr()
    assert list_memories(place=MemoryPlace(memories="postgres:")) is Exit.USAGE
    assert "memories is 'postgres:', the database of a server's store: name it" in capfd.readouterr().err


@pytest.mark.machine(24)
def test_knowledge_of_several_nodes_is_not_written_to_on_one_of_them(tmp_path, capfd, monkeypatch):
    """Each has a copy. A directory that is named is changed as ever."""
    configure(tmp_path, monkeypatch, 'store = "postgres://db.example/agents"\nknowledge = "sqlite:kb"\n')
    (tmp_path / "tea.md").write_text("# Tea\n\nGreen.\n")
    for call in (lambda: add_documents("docs", "tea.md"), lambda: remove_documents("docs", "tea.md")):
        assert call() is Exit.USAGE
        assert "--knowledge sqlite:DIRECTORY, and copy it to all nodes" in capfd.readouterr().err
    assert not [*tmp_path.rglob("kb")]
    assert list_documents() is Exit.DONE
    assert (
        add_documents("docs", "tea.md", place=KnowledgePlace(knowledge=f"sqlite:{tmp_path / 'kb'}"))
        is Exit.DONE
    )
