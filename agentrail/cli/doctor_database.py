"""Checks of `agentrail doctor` on a shared store: server, tables, rights, nodes, clock, connections. Changes nothing."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

from agentrail import outside
from agentrail.abc.store import Node, Store
from agentrail.cli.doctor_server import Finding
from agentrail.cli.exit_codes import describe_error
from agentrail.cli.nodes_command import decide_state
from agentrail.core.journal.record import CODEC
from agentrail.errors import AgentrailError
from agentrail.runtime.node_heartbeat import MAX_CLOCK_DIFFERENCE_SECONDS
from agentrail.stores.store_urls import faults_of_url

MAX_CONNECTIONS_OF_NODE: Final = 5
_ORPHANS: Final = 1_000


def look_at_database(url: str) -> Iterator[Finding]:
    """Check a database as a server would at its start, then its nodes."""
    faults = faults_of_url(url)
    if not faults:
        from agentrail.stores.postgres import PostgresStore
        from agentrail.stores.postgres_schema import SCHEMA, facts_of_server

        try:
            server = facts_of_server(url)
            faults = list(server.faults)
            tables = f"tables of version {SCHEMA.version}" if server.is_usable else "no usable tables"
            rights = "owns them" if server.owns_tables else "does not own them"
            standby = (
                "a synchronous standby"
                if server.has_standby
                else "no synchronous standby, so a failover may lose the last records"
            )
            text = f"{server.place}: PostgreSQL {server.version}, {tables}, role {server.role!r} {rights}; {standby}"
            yield Finding("database", "good", text)
            if server.is_usable:
                with closing(PostgresStore(url, allow_unsafe=True)) as store:
                    yield from look_at_nodes(store, server.max_connections)
        except AgentrailError as error:
            faults = [describe_error(error)]
    for fault in faults:
        yield Finding("database", "absent", f"agentrail serve cannot use it: {fault}")


def look_at_nodes(store: Store, max_connections: int) -> Iterator[Finding]:
    """Report the nodes of a shared store, how they differ, and sessions that none of them continues."""
    now_ms, here_ms = store.now_ms(), outside.wall() * 1000
    known = store.nodes()
    nodes = [one for one in known if decide_state(one, now_ms) in ("alive", "late")]
    named = ", ".join(f"{one.id} at {one.address or 'no address'}" for one in nodes)
    yield Finding("nodes", "good", f"{len(nodes)} alive: {named}" if nodes else "none is alive")
    yield from _differences(nodes)
    ahead_seconds = (here_ms - now_ms) / 1000
    if abs(ahead_seconds) <= MAX_CLOCK_DIFFERENCE_SECONDS:
        yield Finding("clock", "good", "agrees with the store")
    else:
        text = f"this machine's clock differs from that of the store by {ahead_seconds:.1f} s"
        remedy = "deadlines follow the store; synchronise the clocks, such as with NTP"
        yield Finding("clock", "absent", text, remedy)
    needed = max(len(nodes), 1) * MAX_CONNECTIONS_OF_NODE
    text = f"{needed} for {max(len(nodes), 1)} nodes, and the server allows {max_connections}"
    advice = None if needed < max_connections else "raise max_connections, or put PgBouncer in front"
    yield Finding("connections", "good" if advice is None else "absent", text, advice)
    yield from _waiting_work(store, nodes)


def _differences(nodes: Iterable[Node]) -> Iterator[Finding]:
    """Report settings that all nodes of a cluster should share, and addresses that they should not."""
    for address, count in Counter(one.address for one in nodes if one.address).items():
        if count > 1:
            text = f"{count} of them advertise the same address, {address}"
            remedy = "give each node an address of its own; one that crashed counts until its lease is over"
            yield Finding("nodes", "absent", text, remedy)
    for name, remedy in (
        ("lease_ms", "give all nodes the same lease"),
        ("digest", "give all nodes the same profiles, or each cluster a database of its own"),
        ("codec", "finish the update: older nodes cannot continue sessions with newer records"),
    ):
        by_value: dict[object, list[str]] = defaultdict(list)
        for one in nodes:
            value = getattr(one, name)
            if value:
                by_value[value].append(one.id)
        if len(by_value) > 1:
            shown = "; ".join(f"{value!s:.16}: {', '.join(ids)}" for value, ids in by_value.items())
            yield Finding("nodes", "absent", f"they differ in {name}: {shown}", remedy)


def _waiting_work(store: Store, nodes: Iterable[Node]) -> Iterator[Finding]:
    codec = max((one.codec for one in nodes), default=CODEC)
    orphans = store.orphans(_ORPHANS)
    newer = [one for one in orphans if one.codec > codec]
    if newer:
        text = f"{len(newer)} sessions wait for a node that reads codec {max(one.codec for one in newer)}, such as {newer[0].session}"
        yield Finding("sessions", "absent", text, "start a node of the newer version")
    if orphans and not [*nodes]:
        text = f"{len(orphans)} sessions have open work, which the first server continues"
        remedy = "was this database restored from a backup? Then run agentrail store restored before the first server: a tool that must not run twice may have run in the lost time, and would run again"
        yield Finding("sessions", "absent", text, remedy)
