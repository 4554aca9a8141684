"""`PostgresStore` through PgBouncer in transaction mode, which may give each transaction another session of the server."""

import os
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from agentrail.errors import StoreUnavailable
from agentrail.stores.notes_postgres import PostgresNotes
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import open_connections
from agentrail.stores.recall_postgres import PostgresRecall
from agentrail.testing.check_memory import check_memory
from agentrail.testing.check_notes import check_notes
from agentrail.testing.check_store import STORE_RULES, store_rule_name
from tests.pgbouncer import open_pooler
from tests.stores.postgres_databases import check_rule, through
from tests.stores.rig import following, opening
from tests.thinned import nightly

pytestmark = pytest.mark.services("pgbouncer")

ROOT = Path(__file__).parents[2]
URL_VARIABLE = "AGENTRAIL_TEST_POOLED_URL"


def open_pooled(folder):
    """Open the store of the loop that kills processes: one for all of its rounds."""
    assert folder.name == "0"
    return PostgresStore(os.environ[URL_VARIABLE])


@pytest.fixture(scope="module")
def module_pooler(postgres_session):
    with open_pooler(postgres_session) as pooler:
        yield pooler


@pytest.fixture
def pooler(module_pooler, postgres_server):
    yield module_pooler
    module_pooler.ensure_running()


@pytest.mark.machine(18)
@pytest.mark.parametrize(
    "rule",
    [pytest.param(one, marks=nightly if "_cut" in one.__name__ else ()) for one in STORE_RULES],
    ids=store_rule_name,
)
def test_a_pooled_store_keeps_to_the_port(rule, databases, pooler):
    """No rule depends on the session of the server."""
    check_rule(rule, databases, port=pooler.port)


def test_each_transaction_has_a_fresh_session(databases, pooler):
    """Otherwise these tests would prove nothing."""
    with psycopg.connect(through(pooler.port, databases()), autocommit=True, prepare_threshold=None) as one:
        one.execute("SET search_path = agentrail")
        one.execute("PREPARE mine AS SELECT 1")
        assert one.execute("SHOW search_path").fetchone() != ("agentrail",)
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            one.execute("EXECUTE mine")


@pytest.mark.machine(18)
def test_a_killed_process_loses_nothing_through_a_pooler(databases, pooler):
    """What it was told to be durable is there when the next one looks, and the killed one's transactions are there whole or not at all."""
    options = ["--seed", "7", "--rounds", "10", "--delay", "0.4"]
    environ = {**os.environ, URL_VARIABLE: through(pooler.port, databases())}
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.crash", *options, "--store", f"{__name__}:open_pooled"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert "nothing was lost" in said
    assert " 0 acknowledged" not in said.splitlines()[-1]


@pytest.mark.machine(18)
@pytest.mark.parametrize("killed", ["server", "pooler"])
def test_a_killed_server_or_pooler_loses_nothing(databases, pooler, postgres_server, killed):
    """The calls that meet it are unavailable; repeated, they are there once."""
    with closing(PostgresStore(through(pooler.port, databases()))) as store:
        store.create(opening())
        tail = store.get("", "s").tail
        one, tail = following(tail, "a")
        late, _ = following(tail, "b")
        assert store.append([one]) == (None,)
        victim = postgres_server if killed == "server" else pooler
        victim.kill()
        with pytest.raises(StoreUnavailable):
            store.append([late])
        victim.start()
        deadline = (
            time.monotonic() + 30
        )  # the pooler has dead sessions of the server, and waits before it opens others
        assert again(lambda: store.append([late]), deadline) == (None,)
        assert again(lambda: store.append([late]), deadline) == (None,)
        assert [one.body for one in again(lambda: store.read("", "s", after=1), deadline)] == [b"a", b"b"]


def again(call, deadline):
    while True:
        try:
            return call()
        except StoreUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.machine(18)
def test_memories_and_notes_keep_to_their_ports_through_a_pooler(databases, pooler):
    """Neither needs a session of the server."""
    with closing(open_connections(through(pooler.port, databases()))) as pool:

        def emptied(store):
            with pool.borrowed() as connection:
                connection.execute("TRUNCATE agentrail.memory, agentrail.note")
            return store(pool)

        check_memory(partial(emptied, PostgresRecall), reopen=lambda _: PostgresRecall(pool))
        check_notes(partial(emptied, PostgresNotes))
