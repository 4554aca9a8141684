"""`PostgresStore`: it keeps to the port, under every rule that there is for stores, on a clock that the test moves."""

import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import psycopg
import pytest

from agentrail.abc.store import Node, Standing
from agentrail.errors import HeldBy, NotAStore, OptionError, StoreTooNew, StoreUnavailable
from agentrail.stores import postgres_connections, postgres_rows, postgres_writes
from agentrail.stores.append_rules import check_take
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_rows import run_statement
from agentrail.stores.postgres_schema import SCHEMA, PostgresSchema, StoreRoles, migrate, schema_sql
from agentrail.testing.check_store import STORE_RULES, store_rule_name
from tests.stores.postgres_databases import check_rule, run_sql
from tests.stores.rig import following, opening


@pytest.fixture
def url(databases):
    return databases()


@pytest.fixture
def store(url):
    with closing(PostgresStore(url)) as store:
        yield store


@pytest.mark.machine(18)
@pytest.mark.parametrize("rule", STORE_RULES, ids=store_rule_name)
def test_postgres_keeps_to_the_port(rule, databases):
    """Opened again it has all that it had."""
    check_rule(rule, databases)


def test_a_batch_of_many_sessions_is_one_statement(store, url):
    """Whatever the number of sessions."""
    tails = {}
    for number in range(40):
        store.create(opening(f"s{number}"))
        tails[number] = store.get("", f"s{number}").tail
    before = run_sql(url, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")[0][0]
    batch = [following(tail, "a", "b", session=f"s{number}")[0] for number, tail in tails.items()]
    assert store.append(batch) == (None,) * 40
    records = run_sql(url, "SELECT count(*), count(DISTINCT xmin::text) FROM agentrail.record WHERE seq > 1")
    assert records == [(80, 1)]  # all in one transaction
    assert before >= 0


def test_a_connection_whose_server_is_silent_is_replaced(url, postgres_server, monkeypatch):
    """TCP notices nothing: a stopped process, or a proxy, still holds it open."""
    monkeypatch.setattr(postgres_connections, "_SILENT_SECONDS", 0.5)
    with closing(PostgresStore(url)) as store:
        store.create(opening("s1"))
        assert store.get("", "s1") is not None
        with postgres_server.stalled():
            for call in (lambda: store.get("", "s1"), lambda: store.create(opening("s2"))):
                with pytest.raises(StoreUnavailable, match=r"has not answered for 0\.5 s"):
                    call()
        assert store.get("", "s1") is not None
        store.create(opening("s3"))


def test_many_sessions_are_read_with_one_query(store, monkeypatch):
    """In the order in which they are asked for, with None for each that there is not."""
    names = [f"s{number}" for number in range(25)]
    for name in names:
        store.create(opening(name))
    statements = []

    def counted(connection, statement, *values):
        statements.append(statement)
        return run_statement(connection, statement, *values)

    monkeypatch.setattr(postgres_rows, "run_statement", counted)
    found = store.get_many([("", name) for name in [*names, "unknown"]])
    assert [one and one.session for one in found] == [*names, None]
    assert len(statements) == 1


def test_a_claim_passes_over_a_locked_tree(store, url):
    """Another node holds the lock on one root's row, as in its own claim: the others are answered meanwhile, without a wait for it."""
    for name in "abc":
        store.create(opening(name, standing=Standing(is_working=True)))
    store.beat(Node(id="n2"))
    locked = "SELECT 1 FROM agentrail.session WHERE session = 'b' FOR UPDATE"
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(locked)
        claimed = pool.submit(store.claim, "n2")
        while not claimed.done():
            blocked = run_sql(url, waiting)
            if blocked:
                other.rollback()  # the thread ends
            assert not blocked, "the claim waits for the lock"
        assert [one.session for one in claimed.result()] == ["a", "c"]
    assert [one.session for one in store.claim("n2")] == ["b"]


def test_a_node_that_returns_waits_for_a_take_that_found_it_silent(store, url, monkeypatch):
    """Its heartbeat and its look at its sessions come between the read of the nodes and the commit of the take: it is not told that it owns the tree."""
    store.beat(Node(id="n1"))
    store.create(opening("a", node="n1", standing=Standing(is_working=True)))
    store.beat(Node(id="n2"))
    run_sql(url, "UPDATE agentrail.node SET gone_at_ms = 1 WHERE id = 'n1'")
    looked = []

    def check(*given, **more):
        store_of_n1.beat(Node(id="n1"))
        looked.append(pool.submit(store_of_n1.owned, "n1"))
        wait(looked, timeout=0.5)
        return check_take(*given, **more)

    monkeypatch.setattr(postgres_writes, "check_take", check)
    with closing(PostgresStore(url)) as store_of_n1, ThreadPoolExecutor(1) as pool:
        store.take("", "a", "n2", "gone")
        assert looked[0].result() == {}
    assert store.owned("n2") == {("", "a"): 2}


def test_a_heartbeat_in_the_future_counts_only_for_those_who_did_not_watch(store, url):
    """The clock was set back since. Who has watched the node for a lease may take its sessions, and nobody else."""
    store.beat(Node(id="n1"))
    store.create(opening("a", node="n1", standing=Standing(is_working=True)))
    run_sql(url, "UPDATE agentrail.node SET seen_at_ms = seen_at_ms + 3600000 WHERE id = 'n1'")
    (owner,) = store.nodes()
    for silent in (None, {}, {"n3": owner.seen_at_ms}, {"n1": owner.seen_at_ms - 1}):
        assert store.claim("n2", silent) == ()
        with pytest.raises(HeldBy):
            store.take("", "a", "n2", "lease_over", silent=silent)
    assert [one.session for one in store.claim("n2", {"n1": owner.seen_at_ms})] == ["a"]
    assert store.take("", "a", "n2", "lease_over", silent={"n1": owner.seen_at_ms}).sessions[0].node == "n2"


def test_a_claim_reads_no_sessions_of_living_nodes(url):
    """It reads indexes that begin with the node: with many sessions, and none of a dead node, it reads hardly any row."""
    run_sql(
        url,
        """INSERT INTO agentrail.node (id, seen_at_ms) SELECT ('n' || n)::bytea, agentrail.now_ms() FROM generate_series(1, 100) AS n;
        INSERT INTO agentrail.session (scope, session, root, parent, node, opened_at_ms, written_at_ms, first_seq, last_seq, epoch, hash, events,
            is_working, has_ended, waits_for, due_at_ms, title, codec, deaths, owner)
        SELECT '', n::text::bytea, n::text::bytea, '', CASE n % 2 WHEN 0 THEN '' ELSE ('n' || (n % 100 + 1)) END::bytea, 1, 1, 1, 1, 1, '', 1,
            n % 50 = 1, false, 0, CASE n % 40 WHEN 0 THEN 4000000000000 END, '', 0, 0, '' FROM generate_series(1, 10000) AS n""",
    )
    run_sql(url, "ANALYZE")
    read = "SELECT seq_scan + idx_scan, seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'session'"
    ((scans, rows),) = run_sql(url, read)
    with closing(PostgresStore(url)) as store:
        assert store.claim("n7", {}) == ()
    after = (scans, rows)
    while after[0] == scans:  # the server counts when the connection has ended
        (after,) = run_sql(url, read)
    assert after[1] - rows < 100


def test_a_step_of_the_clock_makes_no_living_node_unknown(store, url):
    """A node without sessions sent its heartbeat before the step. It is forgotten only if another node has sent two after that."""
    for name in ("n1", "n2", "gone"):
        before = store.beat(Node(id=name))
    run_sql(url, "UPDATE public.clock SET ms = ms + 3600000")
    store.beat(Node(id="n1"))
    assert store.beat(Node(id="n2")).before_ms == before.at_ms
    store.beat(Node(id="n1"))
    assert store.beat(Node(id="gone")).before_ms == 0


def test_a_step_back_of_the_clock_makes_no_living_node_unknown(store, url):
    """The last heartbeat of the one that looks is in the future then, more than an hour after that of a node that has sent one since."""
    for name in ("n1", "n2"):
        store.beat(Node(id=name))
    run_sql(url, "UPDATE public.clock SET ms = ms - 3700000")
    second = store.beat(Node(id="n2"))
    store.beat(Node(id="n1"))
    assert store.beat(Node(id="n2")).before_ms == second.at_ms


def test_ended_connections_are_opened_again(store, postgres_server, url):
    """The call that meets the end is unavailable, the next one succeeds, and nothing is twice."""
    store.create(opening())
    one, _ = following(store.get("", "s").tail, "a")
    postgres_server.terminate_connections(url.rpartition("/")[2].partition("?")[0])
    with pytest.raises(StoreUnavailable, match="sessions continue when it can"):
        store.append([one])
    assert store.append([one]) == (None,)
    assert store.append([one]) == (None,)
    with pytest.raises(StoreUnavailable):  # the connection that reads has been ended too
        store.get("", "s")
    assert store.get("", "s").tail.seq == 2


def test_a_killed_server_loses_nothing_that_it_acknowledged(store, postgres_server):
    """All processes of the server end as in a power failure."""
    store.create(opening())
    tail = store.get("", "s").tail
    for text in "abc":
        one, tail = following(tail, text)
        assert store.append([one]) == (None,)
    postgres_server.kill()
    late, _ = following(tail, "d")
    with pytest.raises(StoreUnavailable):
        store.append([late])
    postgres_server.start()
    assert store.append([late]) == (None,)
    with pytest.raises(StoreUnavailable):  # the connection that reads has ended too
        store.get("", "s")
    assert [record.body for record in store.read("", "s", after=1)] == [b"a", b"b", b"c", b"d"]


def test_an_empty_database_is_named_with_the_command(postgres_url):
    """The message has no password."""
    with pytest.raises(StoreUnavailable, match="agentrail store migrate --store postgres://") as caught:
        PostgresStore(postgres_url)
    password = psycopg.conninfo.conninfo_to_dict(postgres_url)["password"]
    assert password not in str(caught.value)


def test_migration_is_repeated_and_newer_tables_are_left(postgres_url):
    """Migration is repeated and newer tables are left."""
    assert migrate(postgres_url) == (0, 2)
    assert migrate(postgres_url) == (2, 2)
    step = "ALTER TABLE agentrail.session ADD COLUMN IF NOT EXISTS extra bigint NOT NULL DEFAULT 0"
    later = PostgresSchema(version=3, tables=SCHEMA.tables, steps={2: [step]})
    with pytest.raises(StoreUnavailable, match="tables of version 2, expected 3"):
        PostgresStore(postgres_url, schema=later)
    with closing(PostgresStore(postgres_url)) as old:
        assert migrate(postgres_url, schema=later) == (2, 3)
        old.create(opening())  # nodes of the earlier version go on
        old_tail = old.get("", "s").tail
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        run_sql(postgres_url, end)
        with pytest.raises(StoreUnavailable):
            old.append([following(old_tail, "a")[0]])
        assert old.append([following(old_tail, "a")[0]]) == (None,)
    with pytest.raises(StoreTooNew):
        PostgresStore(postgres_url)
    with closing(PostgresStore(postgres_url, schema=later)) as new:
        assert new.get("", "s").tail.seq == 2


def test_two_processes_migrate_at_once(postgres_url):
    """The later one waits for the other, and finds its tables."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    look = psycopg.connect(postgres_url, autocommit=True)
    with ThreadPoolExecutor() as threads, closing(look), psycopg.connect(postgres_url) as other:
        other.execute(schema_sql().removeprefix("BEGIN;").removesuffix("COMMIT;\n"))
        later = threads.submit(migrate, postgres_url)
        while not later.done() and look.execute(waits).fetchone() is None:
            pass
        other.commit()
        assert later.result() == (2, 2)


def test_a_database_of_another_application_is_left_alone(postgres_url):
    """A database of another application is left alone."""
    run_sql(postgres_url, "CREATE SCHEMA agentrail; CREATE TABLE agentrail.meta (id int)")
    for call in (PostgresStore, migrate):
        with pytest.raises(NotAStore, match="not a store of agentrail"):
            call(postgres_url)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_a_server_that_may_lose_records_is_refused(url, postgres_server, setting):
    """With what it risks and the statement, unless that is accepted."""
    reload = "SELECT pg_reload_conf()"
    system = setting != "synchronous_commit"
    change = (
        f"ALTER SYSTEM SET {setting} = off"
        if system
        else "ALTER ROLE CURRENT_USER SET synchronous_commit = off"
    )
    back = f"ALTER SYSTEM RESET {setting}" if system else "ALTER ROLE CURRENT_USER RESET synchronous_commit"
    run_sql(url, change)
    try:
        run_sql(url, reload)
        with pytest.raises(StoreUnavailable, match=f"{setting} = off, so a crash"):
            wait_until_refused(url)
        with closing(PostgresStore(url, allow_unsafe=True)) as store:
            store.beat(Node(id="n1"))
    finally:
        run_sql(url, back)
        run_sql(url, reload)


def wait_until_refused(url):
    for _ in range(50):  # the server reads its configuration some time after it was told to
        PostgresStore(url).close()


@pytest.mark.machine(31)
def test_roles_have_no_more_rights_than_they_need(postgres_server, postgres_url):
    """Readers see views and no secret; nodes write rows and change no table. The printed script gives the same rights."""
    name = postgres_url.rpartition("/")[2].partition("?")[0]
    nodes, readers = f"{name}_nodes", f"{name}_readers"
    for role in (nodes, readers):
        postgres_server.run_sql(f"CREATE ROLE {role} LOGIN")
    try:
        migrate(postgres_url, StoreRoles(nodes=nodes, readers=readers))
        other = postgres_server.create_database()
        postgres_server.run_sql(schema_sql(StoreRoles(nodes=nodes, readers=readers)), other)
        dumps = {one: dump_of(postgres_server, one) for one in (name, other)}
        assert dumps[name] == dumps[other]
        postgres_server.drop_database(other)

        def as_role(role, sql):
            return postgres_server.run_sql(f"SET ROLE {role}; {sql}", name)

        assert as_role(readers, "SELECT count(*) FROM agentrail.sessions") == "0"
        columns = "tenant, own, id, at_ms, session, version, text, tags, words, size"
        remember = f"INSERT INTO agentrail.memory ({columns}) VALUES ('', '', '', 1, '', 1, '', '', '', 0)"  # noqa: S608 - constants
        assert as_role(nodes, f"{remember} RETURNING number") == "1"
        assert as_role(nodes, "SELECT length(value) FROM agentrail.secret") == "32"
        for role, sql in (
            (readers, "SELECT value FROM agentrail.secret"),
            (readers, "SELECT body FROM agentrail.record"),
            (readers, "SELECT text FROM agentrail.memory"),
            (readers, "SELECT text FROM agentrail.note"),
            (nodes, "ALTER TABLE agentrail.session ADD COLUMN mine int"),
            (nodes, "UPDATE agentrail.secret SET value = ''"),
            (nodes, "UPDATE agentrail.meta SET value = '9'"),
            (nodes, "DROP TABLE agentrail.record"),
        ):
            with pytest.raises(AssertionError, match=r"permission denied|must be owner"):
                as_role(role, sql)
    finally:
        for role in (nodes, readers):
            postgres_server.run_sql(f"DROP OWNED BY {role}; DROP ROLE {role}", name)


def dump_of(server, database):
    command = [server.program("pg_dump"), "--schema-only", "-d", server.cluster.url_of(database)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line for line in said.splitlines() if not line.startswith(("--", "\\"))]


def test_what_is_no_url_is_refused_without_repeating_it():
    """What is no url is refused without repeating it."""
    with pytest.raises(OptionError, match="% codes") as caught:
        PostgresStore("postgres://u:p%a@ss/x?y")
    assert "p%a" not in str(caught.value)
