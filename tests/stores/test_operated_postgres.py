"""The page for administrators of PostgreSQL: its statements work, with an owner that is no superuser (docs: operate PostgreSQL)."""

from contextlib import closing

import psycopg
import pytest

from agentrail.abc.store import Node
from agentrail.errors import StoreUnavailable
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import SCHEMA, StoreRoles, migrate
from tests.pages import fences_of

PAGE = "docs/how-to/operate-postgresql.md"


def rows_of(url, sql):
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def test_the_statements_of_the_page(postgres_server):
    """Roles and tables come first. The role of people reads views, and each statement that only looks finds something."""
    prepare, *looks = [one.body for one in fences_of(PAGE) if one.kind == "sql"]
    try:
        for statement in prepare.split(";\n"):
            postgres_server.run_sql(statement)
        password = "change me".replace(" ", "%20")

        def url_of(role):
            return f"postgres://{role}:{password}@127.0.0.1:{postgres_server.port}/agents"

        roles = StoreRoles(nodes="agents_nodes", readers="agents_people")
        assert migrate(url_of("agents_owner"), roles) == (0, SCHEMA.version)
        with closing(PostgresStore(url_of("agents_nodes"))) as store:
            store.beat(Node(id="n1"))
            for look in looks:
                for statement in look.strip().split(";\n"):
                    assert rows_of(url_of("agents_nodes"), statement), statement
            used = rows_of(
                url_of("agents_nodes"),
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agentrail'",
            )
            assert 1 <= used[0][0] <= 5
        assert rows_of(url_of("agents_people"), "SELECT node FROM agentrail.nodes") == [("n1",)]
        limits = dict.fromkeys(("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"))
        for name in limits:
            ((limits[name],),) = rows_of(url_of("agents_nodes"), f"SHOW {name}")
        assert list(limits.values()) == ["30s", "10s", "30s"]
        with pytest.raises(StoreUnavailable, match="must not write"):
            PostgresStore(url_of("agents_people"))
    finally:
        postgres_server.drop_database("agents")
        for role in ("agents_owner", "agents_nodes", "agents_people"):
            postgres_server.run_sql(f"DROP ROLE IF EXISTS {role}")
