"""What is remembered: the values of the port, both adapters under `check_memory`, and that no owner finds what another has."""

import os
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given, strategies as st

from agentrail.abc.recall import MAX_MEMORY_BYTES, MemoryEntry, MemoryOwner, TagFilter
from agentrail.errors import NotAStore, OptionError, StoreTooNew, StoreUnavailable
from agentrail.stores import tenant_files
from agentrail.stores.memory_store_names import (
    MEMORY_NAMES,
    directory_of_memories,
    faults_of_memories,
    opened_recall,
)
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.stores.tenant_files import file_name
from agentrail.testing.check_memory import HOSTILE_QUERIES, MEMORY_RULES, check_memory, memory_rule_name

ROOT = Path(__file__).parents[2]
ADA = MemoryOwner(tenant="acme", user="ada")
BOB = MemoryOwner(tenant="acme", user="bob")

CANARY = "kingfisher4711"


def entry(entry_id="m1", text="green tea", *tags, **rest):
    return MemoryEntry(id=entry_id, text=text, tags=tags, **({"at_ms": 1} | rest))


@pytest.fixture
def store(tmp_path):
    with closing(SqliteRecall(tmp_path / "memories")) as opened:
        yield opened


@pytest.mark.parametrize("rule", MEMORY_RULES, ids=memory_rule_name)
def test_both_keep_to_the_port(rule, tmp_path):
    """`SqliteRecall`, also opened again, and `InMemoryRecall`, which closed has nothing more."""

    def reopen(store):
        store.close()
        return SqliteRecall(tmp_path)

    check_memory(lambda: SqliteRecall(tmp_path), reopen=reopen, rules=[rule])
    check_memory(InMemoryRecall, rules=[rule])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"text": ""}, "text is empty"),
        ({"text": " \n\t"}, "text is empty"),
        ({"text": "x" * (MAX_MEMORY_BYTES + 1)}, "text has 8,193 bytes, at most 8,192 are allowed"),
        ({"text": "é" * (MAX_MEMORY_BYTES // 2 + 1)}, "text has 8,194 bytes"),
        ({"text": "tea \ud800"}, "text has a lone surrogate"),
        ({"text": 7}, "text is of type int"),
        ({"id": ""}, "id is invalid"),
        ({"id": "a b"}, "id is invalid"),
        ({"id": "m1\n"}, "id is invalid"),
        ({"id": "x" * 129}, "id is invalid"),
        ({"id": 1}, "id is invalid"),
        ({"tags": "food"}, "tags is of type str: expected a list"),
        ({"tags": [f"t{n}" for n in range(17)]}, "tags has 17 tags, at most 16"),
        ({"tags": ["food", ""]}, r"tags\[1\] is not a tag"),
        ({"tags": ["a\nb"]}, r"tags\[0\] is not a tag"),
        ({"tags": [" a"]}, r"tags\[0\] is not a tag"),
        ({"tags": ["x" * 65]}, r"tags\[0\] is not a tag"),
        ({"tags": ["\ud800"]}, r"tags\[0\] is not a tag"),
        ({"tags": [7]}, r"tags\[0\] is not a tag"),
        ({"tags": ["a", "a"]}, "tags repeats a tag"),
        ({"session": None}, "session is None"),
        ({"session": "\ud800"}, "session is"),
        ({"at_ms": -1}, "at_ms is -1"),
        ({"at_ms": 1.5}, "at_ms is 1.5"),
        ({"at_ms": True}, "at_ms is True"),
        ({"version": 0}, "version is 0"),
    ],
)
def test_what_cannot_be_remembered_is_refused_where_it_is_made(wrong, said):
    """No store meets an entry that is none; the text is not repeated."""
    with pytest.raises(OptionError, match=said) as caught:
        MemoryEntry(**({"id": "m1", "text": "tea", "at_ms": 1} | wrong))
    assert "xxx" not in str(caught.value)


WORDS = st.sampled_from(["tea", "coffee", "Müller", "咖啡", "not", "near", "x1", "own", "body"])
SYNTAX = st.sampled_from([*"\"'(){}*^:-+\0\\,", " OR ", " AND ", " NOT ", "NEAR(", "own:", "body :", ";--"])
QUERIES = st.lists(WORDS | SYNTAX | st.text(max_size=4), max_size=8).map("".join) | st.sampled_from(
    HOSTILE_QUERIES
)
TEXTS = st.lists(WORDS | SYNTAX, min_size=1, max_size=5).map(" ".join)
USERS = st.sampled_from(["", "a", "b", "A", 'a" OR "b', "tea"])
OWNERS = st.builds(MemoryOwner, tenant=st.sampled_from(["", "t"]), user=USERS)
TAGS = st.lists(st.sampled_from(["food", "Food", "c++", "c"]), max_size=2, unique=True)
PUTS = st.lists(st.tuples(OWNERS, TEXTS, TAGS), min_size=1, max_size=10)


def fill(store, puts, has):
    """Put those of owners that are wanted, each with an id that says which it is."""
    for number, (owner, text, tags) in enumerate(puts):
        if not has(owner):
            continue
        store.put(owner, MemoryEntry(id=f"m{number}", text=f"{text} .", tags=tags, at_ms=number))


@example(
    puts=[(MemoryOwner(), "tea", []), (MemoryOwner(user="a"), '"', [])],
    asking=MemoryOwner(user="a"),
    query="",
    tags=[],
)
@given(puts=PUTS, asking=OWNERS, query=QUERIES, tags=TAGS)
def test_no_owner_finds_what_another_has(tmp_path_factory, puts, asking, query, tags):
    """Whatever is asked, what is found is one's own, and what one would find if nobody else had anything (G-013)."""
    own = {f"m{number}" for number, (owner, _, _) in enumerate(puts) if owner == asking}
    wanted = TagFilter(any_of=tags)
    found = []
    with closing(SqliteRecall(tmp_path_factory.mktemp("memories"))) as on_disk:
        for store, has in (
            (on_disk, lambda _: True),
            (InMemoryRecall(), lambda _: True),
            (InMemoryRecall(), asking.__eq__),
        ):
            fill(store, puts, has)
            ids = {one.id for one in store.search(asking, query, wanted, limit=100)}
            assert ids <= own
            assert {one.id for one in store.list(asking, limit=100)} == own
            for other in {f"m{number}" for number in range(len(puts))} - own:
                assert store.get(asking, other) is None
                assert store.delete(asking, other) is False
            found.append(ids)
    assert found[0] == found[1] == found[2]


def test_files_are_made_when_something_is_kept_and_so_many_are_held_open(tmp_path, monkeypatch):
    """A look makes no file; the files that were used longest ago are closed, and opened again on demand."""
    monkeypatch.setattr(tenant_files, "MAX_OPEN_TENANTS", 3)
    with closing(SqliteRecall(tmp_path / "memories")) as store:
        assert store.search(ADA, "tea") == store.list(ADA) == ()
        assert store.get(ADA, "m1") is None
        assert store.delete(ADA, "m1") is False
        assert store.forget(ADA).entries == 0
        assert not store.path_of("acme").parent.exists()
        for number in range(5):
            store.put(MemoryOwner(tenant=f"t{number}"), entry(text=f"tea {number}"))
        assert len(store._files._files) == 3  # noqa: SLF001 - what is held open
        assert [one.text for one in store.search(MemoryOwner(tenant="t0"), "tea")] == ["tea 0"]


def bytes_of(store, tenant="acme"):
    """All that stands in the files of a tenant, the log among them."""
    path = store.path_of(tenant)
    return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


@pytest.mark.parametrize("how", ["forget", "delete", "put"])
def test_what_is_removed_stands_nowhere_any_more(store, how):
    """Neither in rows, nor in the index, nor in the log, while a reader is connected; text and words of the others stay (G-014, the file)."""
    store.put(ADA, entry("m0", f"{CANARY} one", CANARY))
    for number in range(40):
        store.put(BOB, entry(f"b{number}", f"kingfisher and word{number}"))
        store.put(ADA, entry(f"m{number + 1}", f"{CANARY} and more {number}" if how == "forget" else "more"))
    assert store.search(ADA, CANARY)
    assert CANARY.encode() in bytes_of(store)
    if how == "forget":
        forgotten = store.forget(ADA)
        assert (forgotten.entries, forgotten.is_erased) == (41, True)
    elif how == "delete":
        assert store.delete(ADA, "m0")
    else:
        store.put(ADA, entry("m0", "nothing"))
        store.delete(ADA, "m0")
    assert CANARY.encode() not in bytes_of(store)
    assert len(store.search(BOB, "kingfisher", limit=100)) == 40


def test_other_files_are_left_alone(store):
    """What is no file of memories, and what a newer version made, is refused and not touched."""
    store.path_of("").parent.mkdir()
    for tenant, statement, error, said in (
        ("other", "CREATE TABLE t (a)", NotAStore, "is not a file of memories"),
        (
            "newer",
            "PRAGMA application_id = 0x6167746D; PRAGMA user_version = 99; CREATE TABLE t (a)",
            StoreTooNew,
            "tables of version 99",
        ),
    ):
        owner, path = MemoryOwner(tenant=tenant), store.path_of(tenant)
        with closing(apsw.Connection(str(path))) as other:
            other.execute(statement)
        before = path.read_bytes()
        for call in (
            lambda o=owner: store.put(o, entry()),
            lambda o=owner: store.search(o, "tea"),
            lambda o=owner: store.forget(o),
        ):
            with pytest.raises(error, match=said):
                call()
        assert path.read_bytes() == before


def test_a_damaged_file_and_a_place_that_is_none_are_told(store, tmp_path):
    """With the reason, the path and what to do. Nobody's rows are guessed."""
    path = store.path_of("acme")
    path.parent.mkdir()
    path.write_bytes(b"no database at all, and long enough to be one" * 100)
    said = r"is damaged .*: move it away, or replace it with a backup"
    for call in (lambda: store.put(ADA, entry()), lambda: store.search(ADA, "tea")):
        with pytest.raises(StoreUnavailable, match=said):
            call()
    with (
        closing(SqliteRecall(path / "memories")) as nowhere,
        pytest.raises(StoreUnavailable, match="no memories can be kept in"),
    ):
        nowhere.put(ADA, entry())
    with closing(SqliteRecall(tmp_path / "other")) as other:
        other.path_of("acme").mkdir(parents=True)
        with pytest.raises(StoreUnavailable, match="it is a directory"):
            other.put(ADA, entry())


@pytest.mark.parametrize(
    "change",
    [
        "at_ms = -1",
        "version = 0",
        "text = ''",
        "id = 'a b'",
        "session = char(27)",
        "tags = '[1]'",
        "tags = '\"ab\"'",
    ],
)
def test_a_row_that_no_entry_has_is_damage(store, change):
    """The caller, who has to mend no argument, was told "Your move", or a bug was reported."""
    store.put(ADA, entry("m1", "green tea", "a"))
    store.put_vectors("acme", "k", [(1, bytes(4))])
    with closing(apsw.Connection(str(store.path_of("acme")))) as other:
        other.execute(f"UPDATE memory SET {change}")  # noqa: S608 - of the test
    for call in (partial(store.list, ADA), partial(store.search, ADA, "tea")):
        with pytest.raises(
            StoreUnavailable, match=r"is damaged .*: move it away, or replace it with a backup"
        ):
            call()


@pytest.mark.parametrize("tags", ['["a"', None])
def test_damage_in_a_value_is_reported(store, tags):
    """A list that was cut, and another type of value, which a flipped bit can leave in a row of sound pages."""
    store.put(ADA, entry("m1", "green tea", "a"))
    store.put_vectors("acme", "k", [(1, bytes(4))])
    with closing(apsw.Connection(str(store.path_of("acme")))) as other:
        other.pragma("writable_schema", "on")
        other.execute("UPDATE sqlite_schema SET sql = replace(sql, 'tags TEXT NOT NULL', 'tags TEXT')")
        other.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'stamp INTEGER NOT NULL', 'stamp INTEGER')"
        )
    with closing(apsw.Connection(str(store.path_of("acme")))) as other:
        other.execute("UPDATE memory SET tags = ?", (tags,))
        other.execute("DELETE FROM vector_change")
    for call in (
        lambda: store.get(ADA, "m1"),
        lambda: store.search(ADA, "tea"),
        lambda: store.list(ADA),
        lambda: store.nearest(ADA, bytes(4), "k", limit=1),
        lambda: store.without_vectors("acme", "other", limit=1),
    ):
        with pytest.raises(
            StoreUnavailable, match=r"is damaged .*: move it away, or replace it with a backup"
        ):
            call()


def test_a_pipe_in_place_of_a_file_is_reported(store):
    """Opened, it would wait for its writer, and the caller with it. The writer here keeps a failed test from waiting."""
    pipe = store.path_of("acme")
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        for call in (partial(store.list, ADA), partial(store.put, ADA, entry())):
            with pytest.raises(StoreUnavailable, match="it is not a regular file"):
                call()
    finally:
        os.close(writer)


def test_a_failed_write_changes_nothing_and_the_next_one_goes_on(store, monkeypatch):
    """Whatever is raised inside of a transaction, a cancellation's like too."""
    store.put(ADA, entry())

    def crash(_connection):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentrail.stores.recall_sqlite._overwrite_words", crash)
    with pytest.raises(KeyboardInterrupt):
        store.forget(ADA)
    monkeypatch.undo()
    assert [one.id for one in store.search(ADA, "tea")] == ["m1"]
    store.put(ADA, entry("m2"))
    assert [one.id for one in store.search(ADA, "tea")] == ["m2", "m1"]


WRITES = """
import sys
from agentrail.abc.recall import MemoryEntry, MemoryOwner
from agentrail.stores.recall_sqlite import SqliteRecall
store = SqliteRecall(sys.argv[1])
for number in range(10):
    store.put(MemoryOwner(tenant="acme", user="ada"), MemoryEntry(id=f"{sys.argv[2]}{number}", text="tea", at_ms=number))
"""


@pytest.mark.check  # two processes
def test_two_processes_write_one_file(tmp_path):
    """Each transaction waits for the one before it; both make the file at once, and nothing is lost."""
    running = [
        subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path / "m"), name], cwd=ROOT) for name in "ab"
    ]
    assert [process.wait(30) for process in running] == [0, 0]
    with closing(SqliteRecall(tmp_path / "m")) as store:
        assert len(store.list(ADA)) == 20


def test_a_hundred_rows_and_a_frequent_word(store, monkeypatch):
    """A word that most rows have is left out where a rarer one is there, and asked for where there is none."""
    monkeypatch.setattr("agentrail.stores.words.FEW_ROWS", 5)
    for number in range(30):
        store.put(ADA, entry(f"m{number}", f"the week {number}"))
    store.put(ADA, entry("rare", "a kingfisher"))
    assert [one.id for one in store.search(ADA, "the kingfisher", limit=100)] == ["rare"]
    assert [one.id for one in store.search(ADA, "the nowhere", limit=3)] == ["m29", "m28", "m27"]
    assert store.search(ADA, "nowhere") == ()


def test_names_stand_for_directories(tmp_path):
    """Of the data directory unless they say another. One that stands for nothing is refused, with those that stand for something."""
    assert directory_of_memories("sqlite:", tmp_path, {}) == tmp_path / "memories"
    assert directory_of_memories("sqlite:", None, {"AGENTRAIL_DATA_DIR": "/d"}) == Path("/d/memories")
    assert directory_of_memories("sqlite:/elsewhere", tmp_path, {}) == Path("/elsewhere")
    assert directory_of_memories("memory:", None, {}) is None
    assert faults_of_memories(InMemoryRecall()) == faults_of_memories(None) == []
    known = f"expected {MEMORY_NAMES}"
    assert faults_of_memories(7) == [f"memories is 7: {known}, or a RecallStore"]
    for name in ("", "sqlite", "memory:x", "files:/tmp"):
        assert faults_of_memories(name) == [f"memories is {name!r}: {known}"]
        with pytest.raises(OptionError):
            directory_of_memories(name, None, {})
    assert faults_of_memories("postgres:") == []
    for name in ("postgresql:", "postgre://ada:4711@db/agents", "postgres://ada:47@11@db/agents"):
        (fault,) = faults_of_memories(name)
        assert fault.startswith("memories is 'postgre")
        assert "11" not in fault


async def test_a_store_that_was_given_stays_open(tmp_path):
    """One that was opened by its name is closed behind the block. A call that came too late is told, and none hangs."""
    given_one = InMemoryRecall()
    async with opened_recall(given_one, None, {}) as opened:
        assert opened is given_one
    given_one.put(ADA, entry())
    async with opened_recall(None, None, {}) as opened:
        assert opened is None
    async with opened_recall("memory:", None, {}) as opened:
        assert repr(opened) == "InMemoryRecall(entries=0)"
    async with opened_recall("sqlite:", tmp_path, {}) as opened:
        assert "SqliteRecall(" in repr(opened)
        opened.put(ADA, entry())
    assert (tmp_path / "memories" / file_name("acme")).exists()
    given_one.close()
    for store in (given_one, opened):
        for call in (
            lambda s=store: s.put(ADA, entry()),
            lambda s=store: s.search(ADA, "tea"),
            lambda s=store: s.list(ADA),
        ):
            with pytest.raises(StoreUnavailable, match="closed"):
                call()
