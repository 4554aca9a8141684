"""Memories and notes in PostgreSQL: the rules of their ports, and the same answers as the other stores."""

import threading
from contextlib import closing
from functools import partial

import psycopg
import pytest
import trio
from hypothesis import HealthCheck, given, settings, strategies as st
from psycopg.conninfo import conninfo_to_dict

import agentrail
from agentrail.abc.recall import MemoryEntry, MemoryOwner, TagFilter
from agentrail.core.values.ranking import pack_vector
from agentrail.errors import OptionError, StoreUnavailable
from agentrail.runtime.erasure_report import DATABASE_COPIES
from agentrail.stores.notes_postgres import PostgresNotes
from agentrail.stores.postgres_schema import SCHEMA, PostgresSchema, migrate, open_connections, schema_sql
from agentrail.stores.recall_memory import InMemoryRecall
from agentrail.stores.recall_postgres import PostgresRecall
from agentrail.stores.recall_sqlite import SqliteRecall
from agentrail.testing.check_memory import MEMORY_RULES, check_memory, memory_rule_name
from agentrail.testing.check_notes import NOTE_RULES, check_notes, note_rule_name
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin
from tests.stores.test_postgres import dump_of
from tests.stores.test_recall import ADA, BOB, OWNERS, PUTS, QUERIES, TAGS, fill


@pytest.fixture(scope="module")
def module_url(postgres_session):
    name = postgres_session.create_database()
    url = postgres_session.cluster.port_url_of(name)
    migrate(url)
    yield url
    postgres_session.drop_database(name)


@pytest.fixture(scope="module")
def pool(module_url):
    with closing(open_connections(module_url)) as pool:
        yield pool


@pytest.fixture
def emptied(pool):
    with pool.borrowed() as connection:
        connection.execute(
            "TRUNCATE agentrail.memory, agentrail.note, agentrail.session, agentrail.record, agentrail.snapshot"
        )
    return pool


@pytest.mark.parametrize("rule", MEMORY_RULES, ids=memory_rule_name)
def test_memories_keep_to_the_port(rule, emptied, module_url):
    """Also with connections of their own, opened again."""

    def reopen(store):
        store.close()
        return PostgresRecall(open_connections(module_url), is_lent=False)

    check_memory(lambda: PostgresRecall(emptied), reopen=reopen, rules=[rule])


@pytest.mark.parametrize("rule", NOTE_RULES, ids=note_rule_name)
def test_notes_keep_to_the_port(rule, emptied):
    """Whatever threads do."""
    check_notes(lambda: PostgresNotes(emptied), rules=[rule])


def test_a_change_of_another_node_waits(emptied):
    """Also where there were no notes, and where a change removes them."""
    first, second = PostgresNotes(emptied), PostgresNotes(emptied)
    for old in ("", "one "):
        other = threading.Thread(target=second.change, args=(ADA, "s1", lambda text: f"{text}two "))

        def edit(text, old=old, other=other):
            assert text == old
            other.start()
            other.join(0.5)  # without the lock it is soon done
            return f"{text}one " if not text else ""

        first.change(ADA, "s1", edit)
        other.join()
        assert first.read(ADA, "s1") == ("one two " if not old else "two ")
        first.change(ADA, "s1", lambda _: "one ")


def test_a_stopped_store_refuses_calls_and_lends_its_connections_no_more(emptied):
    """The connections of another store stay open."""
    for store in (PostgresRecall(emptied), PostgresNotes(emptied)):
        store.close()
        with pytest.raises(StoreUnavailable, match="were closed"):
            store.forget(ADA)
    assert PostgresNotes(emptied).read(ADA, "s1") == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(puts=PUTS, asking=OWNERS, query=QUERIES, tags=TAGS, removed=st.sampled_from(["", "m0", "all"]))
def test_answers_are_those_of_the_other_stores(emptied, tmp_path_factory, puts, asking, **asked):
    """Of a search, a list, a look, a deletion and forgetting a user, whoever asks whatever."""
    query, tags, removed = asked["query"], asked["tags"], asked["removed"]
    with emptied.borrowed() as connection:
        connection.execute("TRUNCATE agentrail.memory")
    with closing(SqliteRecall(tmp_path_factory.mktemp("memories"))) as on_disk:
        answers = []
        for store in (on_disk, InMemoryRecall(), PostgresRecall(emptied)):
            fill(store, puts, lambda _: True)
            gone = store.forget(asking).entries if removed == "all" else store.delete(asking, removed)
            wanted = TagFilter(any_of=tags[:1], all_of=tags[1:])
            found = store.search(asking, query, wanted, limit=100)
            pages = [store.list(asking, wanted, limit=2, after=after) for after in (None, (3, "m3"))]
            answers.append((gone, {one.id for one in found}, pages, store.get(asking, "m1")))
    assert answers[0] == answers[1] == answers[2]


def test_the_best_match_is_that_of_the_store_in_memory(emptied):
    """More of a word is better, less text around it too, and of equals the last one."""
    texts = [
        "tea",
        "tea tea coffee",
        "coffee and a long walk by the river",
        "tea and more",
        "tea",
        "river tea",
    ]
    stores = (InMemoryRecall(), PostgresRecall(emptied))
    for store in stores:
        fill(store, [(ADA, f"{text} {number}", []) for number, text in enumerate(texts)], lambda _: True)
    for query in ("tea", "coffee", "tea coffee", "river", "tea and coffee", "walk tea"):
        first, second = ([one.id for one in store.search(ADA, query)] for store in stores)
        assert first == second, query


def test_frequent_words_are_left_out_where_there_are_many(emptied):
    """As in the other stores: above 500 rows a word in most of them tells nothing."""
    store = PostgresRecall(emptied)
    with emptied.borrowed() as connection, connection.transaction():
        for number in range(700):
            text = "the kingfisher" if number == 3 else "the walk"
            store.put(ADA, MemoryEntry(id=f"m{number}", text=text, at_ms=number))
    assert [one.id for one in store.search(ADA, "the kingfisher")] == ["m3"]
    assert len(store.search(ADA, "the", limit=7)) == 7


def test_tags_that_are_no_list_are_told_as_damage(emptied):
    """As in a file of SQLite: no bare error of a parser reaches a caller."""
    store = PostgresRecall(emptied)
    store.put(ADA, MemoryEntry(id="m1", text="tea", tags=["drink"], at_ms=1))
    with emptied.borrowed() as connection:
        connection.execute("UPDATE agentrail.memory SET tags = 'drink'")
    for read in (partial(store.list, ADA), partial(store.search, ADA, "tea")):
        with pytest.raises(
            StoreUnavailable,
            match=r"agentrail.memory is damaged \(not a JSON list of texts: .*: restore a backup",
        ):
            read()
    with pytest.raises(StoreUnavailable, match="restore a backup"):
        store.without_vectors("acme", "toy 3", limit=9)


def test_vectors_follow_their_texts(emptied):
    """A changed text has none, and what another node wrote is compared too."""
    pytest.importorskip("numpy", reason="no extra `embeddings`")
    store, other = PostgresRecall(emptied), PostgresRecall(emptied)
    for number, words in enumerate(("tea", "train", "dog")):
        store.put(ADA, MemoryEntry(id=f"m{number}", text=words, tags=[words], at_ms=1))
    store.put(BOB, MemoryEntry(id="b", text="tea", at_ms=1))
    kind, axes = "toy 3", {"tea": [1.0, 0.1, 0.0], "train": [0.0, 1.0, 0.0], "dog": [0.6, 0.0, 1.0]}

    def compute(tenant):
        left = store.without_vectors(tenant, kind, limit=9)
        store.put_vectors(
            tenant, kind, [(number, pack_vector(axes[text.split()[0]], 3)) for number, text in left]
        )
        return [text for _, text in left]

    assert sorted(compute("acme")) == ["dog dog", "tea", "tea tea", "train train"]
    assert compute("acme") == compute("other") == []
    tea = pack_vector([1.0, 0.0, 0.0], 3)
    for one in (store, other):
        assert [near.id for near in one.nearest(ADA, tea, kind, limit=9)] == ["m0", "m2"]
        assert [near.id for near in one.nearest(ADA, tea, kind, TagFilter(any_of=["dog"]), limit=9)] == ["m2"]
        assert one.nearest(ADA, tea, "other 3", limit=9) == ()
    store.put(ADA, MemoryEntry(id="m0", text="train", at_ms=1))
    assert [near.id for near in other.nearest(ADA, tea, kind, limit=9)] == ["m2"]
    compute("acme")
    store.delete(ADA, "m2")
    train = pack_vector([0.0, 1.0, 0.0], 3)
    assert [near.id for near in other.nearest(ADA, train, kind, limit=9)] == ["m1", "m0"]


def test_tables_of_the_first_version_are_upgraded(postgres_server, postgres_url):
    """They are then those of a new database."""
    older = PostgresSchema(
        version=1, tables=SCHEMA.tables.partition("CREATE TABLE IF NOT EXISTS agentrail.memory")[0]
    )
    assert migrate(postgres_url, schema=older) == (0, 1)
    with pytest.raises(
        StoreUnavailable, match="tables of version 1, expected 2: run agentrail store migrate"
    ) as caught:
        open_connections(postgres_url)
    assert conninfo_to_dict(postgres_url)["password"] not in str(caught.value)
    assert migrate(postgres_url) == (1, 2)
    new = postgres_server.create_database()
    postgres_server.run_sql(schema_sql(), new)
    name = postgres_url.rpartition("/")[2].partition("?")[0]
    assert dump_of(postgres_server, name) == dump_of(postgres_server, new)
    postgres_server.drop_database(new)


async def remembered(supervisor, user, *texts):
    """Store memories of a user, and a note in one of their sessions."""
    memories = supervisor.memories_of(user, tenant_id="acme")
    async with trio.open_nursery() as nursery:
        for text in texts:
            nursery.start_soon(memories.put, text)
            nursery.start_soon(memories.search, text)
    model = ScriptedModel(
        [calls(("remember", {"text": "On Fridays.", "topic": "deployment"})), says("Done.")]
    )
    given = {
        "user_data": {"tenant_id": "acme", "user_id": user},
        "scope": "acme",
        "tools": builtin("remember"),
    }
    session = await supervisor.start_session(model=model, session_id=f"s-{user}", **given)
    await session.ask("Note it.")
    return memories


@pytest.mark.parametrize("named", ["postgres:", "the same", "another store"])
async def test_a_node_has_five_connections_and_forgets_a_user(named, module_url, emptied, tmp_path):
    """Memories and notes use those of the store. Forgetting reaches them, and names what only the operator can remove."""
    store = f"sqlite:{tmp_path / 's.db'}" if named == "another store" else module_url
    given = {"store": store, "memories": module_url if named != "postgres:" else named, "data_dir": tmp_path}
    emptied._drop()  # noqa: SLF001 - connections of the tests are not those of the node
    with trio.fail_after(60):
        async with agentrail.open_supervisor(**given) as supervisor:
            ada = await remembered(supervisor, "ada", *["Drinks tea."] * 9)
            bob = await remembered(supervisor, "bob", "Drinks coffee.")
            statement = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            with psycopg.connect(module_url) as connection:
                assert connection.execute(statement).fetchone()[0] <= (3 if named == "another store" else 5)
            forgotten = await supervisor.forget_user("ada", tenant_id="acme")
            assert (forgotten.memories, forgotten.notes, forgotten.sessions) == (9, 1, 1)
            assert forgotten.is_done
            assert not forgotten.is_overwritten
            assert forgotten.not_reached[-1] == DATABASE_COPIES
            assert await ada.search("tea") == ()
            assert [one.text for one in await bob.search("coffee")] == ["Drinks coffee."]
    notes = PostgresNotes(emptied)
    assert notes.read(MemoryOwner(tenant="acme", user="ada"), "s-ada") == ""
    assert "On Fridays." in notes.read(MemoryOwner(tenant="acme", user="bob"), "s-bob")


async def test_notes_may_be_alone_in_a_database(module_url, emptied):
    """Without memories, and next to a store of one process."""
    async with agentrail.open_supervisor(store="memory:", notes=module_url) as supervisor:
        assert supervisor.memories_of("ada") is None
        await remembered_note(supervisor)
    assert "On Fridays." in PostgresNotes(emptied).read(MemoryOwner(user="ada"), "s-1")


async def remembered_note(supervisor):
    model = ScriptedModel(
        [calls(("remember", {"text": "On Fridays.", "topic": "deployment"})), says("Done.")]
    )
    given = {"user_data": {"user_id": "ada"}, "tools": builtin("remember"), "session_id": "s-1"}
    await (await supervisor.start_session(model=model, **given)).ask("Note it.")


@pytest.mark.machine(22)
async def test_a_database_that_cannot_be_used_is_named_without_its_password(postgres_url):
    """At start, whether it is not there or has no tables."""
    password = conninfo_to_dict(postgres_url)["password"]
    for url in (
        postgres_url,
        postgres_url.replace("127.0.0.1", "127.0.0.1:1").replace("localhost", "127.0.0.1"),
    ):
        for option in ("memories", "notes"):
            with pytest.raises((StoreUnavailable, OptionError)) as caught:
                async with agentrail.open_supervisor(**{option: url}):
                    pass  # not reached
            assert password not in str(caught.value)
