"""What a node gets wrong about its database, row by row of 9.9: the message has the fault and what to do. Nothing is written."""

from contextlib import closing
from types import SimpleNamespace

import psycopg
import pytest

from agentrail.errors import NotAStore, OptionError, StoreTooNew, StoreUnavailable
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import MIN_SERVER, SCHEMA, StoreRoles, facts_of_server, migrate
from tests.stores.postgres_databases import run_sql


def tables_of(url):
    return run_sql(
        url,
        "SELECT schemaname, relname, n_live_tup FROM pg_stat_user_tables ORDER BY 1, 2",
    )


class OldServer(psycopg.Connection):
    """A connection that reports PostgreSQL 14."""

    @property
    def info(self):
        return SimpleNamespace(server_version=140_011, backend_pid=super().info.backend_pid)


@pytest.fixture
def role(postgres_server, postgres_url):
    """A role that may log in, and nothing else, with the URL of the database as this role."""
    name = postgres_url.rpartition("/")[2] + "_reader"
    postgres_server.run_sql(f"CREATE ROLE {name} LOGIN PASSWORD 'kingfisher'")
    host = postgres_url.rpartition("@")[2]
    yield name, f"postgres://{name}:kingfisher@{host}"
    postgres_server.run_sql(f"DROP OWNED BY {name}", postgres_url.rpartition("/")[2])
    postgres_server.run_sql(f"DROP ROLE {name}")


def test_an_older_server_is_refused(postgres_url):
    """PostgreSQL 14 is refused with both versions."""
    with pytest.raises(
        StoreUnavailable, match=f"is PostgreSQL 14, expected {MIN_SERVER} or newer: upgrade it"
    ):
        PostgresStore(postgres_url, connect=OldServer.connect)
    assert tables_of(postgres_url) == []


def test_a_role_without_the_right_to_write_is_refused_with_the_grant(role, postgres_url):
    """Whatever right is missing, the message has the statements that give it, and they are enough."""
    name, url = role
    migrate(postgres_url)
    rights = (
        (),
        (f"GRANT USAGE ON SCHEMA agentrail TO {name}",),
        (f"GRANT SELECT ON ALL TABLES IN SCHEMA agentrail TO {name}",),
        (f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agentrail TO {name}", f"REVOKE UPDATE ON agentrail.session FROM {name}"),
        (f"GRANT UPDATE ON agentrail.session TO {name}", f"REVOKE SELECT ON agentrail.secret FROM {name}"),  # noqa: S608 - a name of ours
    )  # fmt: skip
    for given in rights:
        for sql in given:
            run_sql(postgres_url, sql)
        with pytest.raises(StoreUnavailable, match="must not write to the store") as refused:
            PostgresStore(url)
        assert (
            refused.value.args[0].partition(": as the owner of its tables, run ")[2].startswith("GRANT USAGE")
        )
    for sql in refused.value.args[0].partition(", run ")[2].split("; "):
        run_sql(postgres_url, sql)
    with closing(PostgresStore(url)) as store:
        assert len(store.secret()) == 32


def test_the_rights_of_a_migration_are_enough(role, postgres_url):
    """A role that `store migrate` gave rights to may open the store, but must not migrate it."""
    name, url = role
    with pytest.raises(StoreUnavailable, match="permission denied"):
        migrate(url)
    migrate(postgres_url, StoreRoles(nodes=name))
    PostgresStore(url).close()
    facts = facts_of_server(url)
    assert (facts.role, facts.owns_tables, facts.faults, facts.is_usable) == (name, False, (), True)


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE SCHEMA agentrail; CREATE TABLE agentrail.trains (id int)",
        "CREATE SCHEMA agentrail; CREATE TABLE agentrail.meta (id int)",
        "CREATE SCHEMA agentrail; CREATE TABLE agentrail.meta (name text, value text); INSERT INTO agentrail.meta VALUES ('application', 'trains')",
    ],
    ids=["other tables", "another meta", "another application"],
)
def test_a_database_of_another_application_is_left_alone(postgres_url, schema):
    """Its tables are not touched, and the message names what was found."""
    run_sql(postgres_url, schema)
    before = tables_of(postgres_url)
    for call in (PostgresStore, migrate):
        with pytest.raises(NotAStore, match=r"is not a store of agentrail.*Name another database"):
            call(postgres_url)
    (fault,) = facts_of_server(postgres_url).faults
    assert "is not a store of agentrail" in fault
    assert tables_of(postgres_url) == before


def test_tables_of_another_version_are_named_with_both(postgres_url):
    """Newer tables are `StoreTooNew`. Missing ones are named with the command."""
    with pytest.raises(
        StoreUnavailable, match="has no tables of agentrail: run agentrail store migrate --store"
    ):
        PostgresStore(postgres_url)
    migrate(postgres_url)
    run_sql(postgres_url, "UPDATE agentrail.meta SET value = '99' WHERE name = 'version'")
    for call in (PostgresStore, migrate):
        with pytest.raises(StoreTooNew, match=rf"version 99.*supports up to {SCHEMA.version}") as refused:
            call(postgres_url)
        assert (refused.value.found, refused.value.known) == (99, SCHEMA.version)


@pytest.mark.parametrize("level", ["DATABASE", "ROLE"])
def test_commits_that_do_not_wait_for_the_disk_are_refused(role, postgres_url, level):
    """`synchronous_commit` off: the setting, its risk, and the statement that helps, wherever it was set."""
    name, url = role
    migrate(postgres_url, StoreRoles(nodes=name))
    target = name if level == "ROLE" else postgres_url.rpartition("/")[2]
    run_sql(postgres_url, f"ALTER {level} {target} SET synchronous_commit = off")
    with pytest.raises(
        StoreUnavailable, match="synchronous_commit = off, so a crash of the server loses"
    ) as refused:
        PostgresStore(url)
    run_sql(postgres_url, refused.value.args[0].partition(": run ")[2].partition(", or open it")[0])
    PostgresStore(url).close()
    PostgresStore(url, allow_unsafe=True).close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgres://u:p@h/x\n", "line break"),
        ("postgres://u:p@h/x\npostgres://u:p@g/x", "shards are not built"),
        ("postgres://u:p@h/x,postgres://u:p@g/x", "shards are not built"),
        ("host=h dbname=x password=p", "expected 'memory:'"),
        ("", "expected 'memory:'"),
    ],
)
def test_a_url_that_names_no_single_database_is_refused(url, said):
    """A newline, two URLs, or no URL: nothing is connected to."""

    def connect(**_parts):
        raise AssertionError

    for call in (
        lambda: PostgresStore(url, connect=connect),
        lambda: migrate(url),
        lambda: facts_of_server(url),
    ):
        with pytest.raises(OptionError, match=said):
            call()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda url: url.replace(":kingfisher@", ":heron@"), "password authentication failed"),
        (lambda url: f"{url}x", "does not exist"),
        (lambda url: f"{url}?port=1", "refused"),
        (lambda url: f"{url}?sslmode=verify-full", "certificate|SSL"),
    ],
    ids=["wrong password", "no such database", "no server", "no certificate that fits"],
)
def test_a_database_that_cannot_be_reached_is_named_with_the_reason(role, change, said):
    """The message has libpq's own sentence, and the command that shows it alone."""
    name, url = role
    with pytest.raises(StoreUnavailable, match=said) as refused:
        PostgresStore(change(url))
    assert f"try: psql postgres://{name}@127.0.0.1" in str(refused.value)
    assert [word for word in ("kingfisher", "heron") if word in str(refused.value)] == []
