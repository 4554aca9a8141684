"""`agentrail doctor` about a database and its nodes: how nodes differ, whose clock is wrong, and what a start would continue."""

from contextlib import closing

import pytest

from agentrail import outside
from agentrail.abc.store import Node, Standing
from agentrail.cli.doctor_database import look_at_nodes
from agentrail.core.journal.record import CODEC
from agentrail.stores.memory import MemoryStore
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import SCHEMA, migrate
from tests.cli.rig import run_beside
from tests.cli.test_store import without_password
from tests.stores.rig import opening


def shown(store, max_connections=100):
    return [f"{one.verdict} {one.name}: {one.text}" for one in look_at_nodes(store, max_connections)]


def store_with(*nodes, ahead_ms=0):
    store = MemoryStore(now_ms=lambda: int(outside.wall() * 1000) + ahead_ms, is_shared=True)
    for node in nodes:
        store.beat(node)
    return store


def test_equal_nodes_have_no_fault():
    """Equal nodes have no fault."""
    nodes = [
        Node(id=name, address=f"http://{name}", lease_ms=15_000, digest="a", codec=CODEC) for name in "ab"
    ]
    assert shown(store_with(*nodes)) == [
        "good nodes: 2 alive: a at http://a, b at http://b",
        "good clock: agrees with the store",
        "good connections: 10 for 2 nodes, and the server allows 100",
    ]


def test_what_nodes_should_share_is_named_with_the_nodes():
    """Different leases, profiles and codecs are named with the nodes."""
    store = store_with(
        Node(id="n-1", lease_ms=15_000, digest="aaaa", codec=3),
        Node(id="n-2", lease_ms=3_000, digest="bbbb", codec=4),
    )
    found = shown(store)
    assert "absent nodes: they differ in lease_ms: 15000: n-1; 3000: n-2" in found
    assert "absent nodes: they differ in digest: aaaa: n-1; bbbb: n-2" in found
    assert "absent nodes: they differ in codec: 3: n-1; 4: n-2" in found


@pytest.mark.machine(28)
@pytest.mark.parametrize("ahead_ms", [-86_400_000, 86_400_000, 5_000])
def test_the_difference_of_clocks_is_named(ahead_ms):
    """The difference between the clock of this machine and that of the store is named."""
    (text,) = [one for one in shown(store_with(ahead_ms=ahead_ms)) if "clock:" in one]
    assert text.startswith(
        f"absent clock: this machine's clock differs from that of the store by {-ahead_ms / 1000:.1f}"[:-2]
    )


def test_a_server_with_too_few_connections_is_reported():
    """Each node may use five connections."""
    found = shown(store_with(Node(id="n-1"), Node(id="n-2")), max_connections=10)
    assert "absent connections: 10 for 2 nodes, and the server allows 10" in found


def test_nodes_with_the_same_address_are_reported():
    """Calls to one of them reach another, such as after a file with `advertise` was copied. Nodes without an address differ."""
    address = "http://10.0.0.7:8700"
    found = shown(store_with(Node(id="n-1", address=address), Node(id="n-2", address=address)))
    assert f"absent nodes: 2 of them advertise the same address, {address}" in found
    assert "same address" not in shown(store_with(Node(id="n-1"), Node(id="n-2")))


def test_work_that_no_living_node_reads_is_named():
    """Work that no living node reads is named with the codec that it needs."""
    store = store_with(Node(id="n-1", codec=3))
    store.create(opening("s-9", node="dead", codec=9, standing=Standing(is_working=True)))
    assert "absent sessions: 1 sessions wait for a node that reads codec 9, such as s-9" in shown(store)


@pytest.mark.machine(29)
def test_open_work_without_a_node_is_reported_with_what_a_restored_backup_needs():
    """Without a living node, doctor says what can happen after a restored backup."""
    store = store_with()
    store.create(opening("s", node="dead", standing=Standing(is_working=True)))
    *_, last = look_at_nodes(store, 100)
    assert last.text == "1 sessions have open work, which the first server continues"
    assert "agentrail store restored before the first server" in last.remedy


async def test_a_database_is_reported_without_its_password(postgres_url, postgres_server, tmp_path):
    """Each fault of a database is reported with its remedy, and no run fails by it."""
    url, password = without_password(postgres_url)
    variables = {"PGPASSWORD": password, "AGENTRAIL_DATA_DIR": str(tmp_path), "AGENTRAIL_STORE": url}

    async def ask():
        ran = await run_beside("doctor", "--model", "demo:", variables=variables)
        assert (ran.code, password in ran.out + ran.err) == (0, False)
        return ran.out

    found = await ask()
    assert "PostgreSQL 15, no usable tables, role 'agentrail'" in found
    assert f"agentrail store migrate --store {url}" in found
    migrate(postgres_url)
    with closing(PostgresStore(postgres_url)) as store:
        store.beat(Node(id="n-1", address="http://10.0.0.7:8700", lease_ms=15_000))
        database = url.rpartition("/")[2]
        postgres_server.run_sql(f"ALTER DATABASE {database} SET synchronous_commit = off")
        found = await ask()
    assert f"tables of version {SCHEMA.version}, role 'agentrail' owns them; no synchronous standby" in found
    assert "1 alive: n-1 at http://10.0.0.7:8700" in found
    assert (
        "synchronous_commit = off, so a crash of the server loses records that were acknowledged: run ALTER"
        in found
    )
    variables["AGENTRAIL_STORE"] = "postgres://nobody@127.0.0.1:1/x"
    assert "try: psql postgres://nobody@127.0.0.1:1/x" in await ask()
