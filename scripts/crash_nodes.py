"""`make crash-nodes`: three nodes over one PostgreSQL, behind nginx without stickiness, with a fault every five seconds, and clients that are not ours.

    python -m scripts.crash_nodes --seconds 600 --seed 1

Nodes are killed, stopped, drained and cut off from the store or from each other, their connections are ended and their rows locked, and sessions are moved.
Then all comes to rest, and the history is compared: acknowledged messages are stored once, `once` tools ran once (ledger outside), no reader has a gap, numbers
are dense, epochs never fall and have one owner, no tool ran after another node took its session, and no process, claim or owed message is left behind. Otherwise
the exit status is 1.
"""

import argparse
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import msgspec
import psycopg
import trio
from attrs import define, field, frozen

from scripts.crash_nodes_clients import ClientSession, Crowd
from scripts.crash_nodes_cluster import Cluster, NodeProcess, open_cluster
from scripts.crash_nodes_history import TENANT, LedgerLine, StoredRecord, history_faults, takeover_times
from tests.cutting_proxy import Way
from tests.host.receivers import Receiver
from tests.postgres import PostgresServer, open_server

NO_LIMITS: Final = httpx.Limits(max_connections=None)
REST_SECONDS: Final = 120.0
END_SECONDS: Final = 45.0
_OF_CLI: Final = [sys.executable, "-m", "agentrail", "nodes"]

_NAME: Final = re.compile(r"\S*\d\S*")
"""What differs from message to message of a command."""

_RECORDS: Final = """
SELECT convert_from(session, 'UTF8'), seq, epoch, at_ms, convert_from(kind, 'UTF8'), CASE WHEN kind = 'taken' THEN body ELSE '' END
FROM agentrail.record ORDER BY scope, session, seq
"""
_OWNED: Final = "SELECT convert_from(session, 'UTF8') FROM agentrail.session WHERE is_working AND node <> '' ORDER BY session"
_EVENTS: Final = "SELECT convert_from(session, 'UTF8'), events FROM agentrail.session"
_WORKING: Final = "SELECT convert_from(session, 'UTF8') FROM agentrail.session WHERE node = convert_to(%s, 'UTF8') AND is_working AND NOT has_ended"
_LEFT: Final = {
    "claims": "SELECT count(*) FROM agentrail.session WHERE claimed_by <> ''",
    "owed messages": "SELECT count(*) FROM agentrail.owed",
    "nodes that are not gone": "SELECT count(*) FROM agentrail.node WHERE seen_at_ms > 0 AND gone_at_ms = 0",
}


@frozen(kw_only=True)
class FaultMade:
    """One fault.

    Attributes:
        kind: Its name.
        began_ms: Its begin.
        ended_ms: Its end.
        sessions: The working sessions that its node owned.
    """

    kind: str
    began_ms: int
    ended_ms: int
    sessions: tuple[str, ...]


@define(eq=False)
class FaultMaker:
    """Makes faults, at most one per node at a time, and leaves one node alone.

    Attributes:
        cluster: The nodes.
        crowd: Their clients.
        rng: Source of faults.
        lease: Lease of the nodes in seconds.
        longest: Longest fault, in leases.
        made: What was made.
    """

    cluster: Cluster
    crowd: Crowd
    rng: random.Random
    lease: float
    made: list[FaultMade] = field(factory=list)

    def seconds(self, longest: float) -> float:
        """Return a duration: half of them are short."""
        return self.rng.uniform(0.1, self.rng.choice([longest / 5, longest]))

    async def make(self, name: str, node: NodeProcess) -> None:
        """Make one fault and mend it."""
        node.is_busy = name != "move"
        try:
            owner = (await trio.to_thread.run_sync(self.cluster.ids)).get(node.name, "")
            rows = await trio.to_thread.run_sync(self.cluster.query, _WORKING, owner)
            began = now_ms()
            print(f"    {name} on {node.name}", flush=True)
            await FAULTS[name](self, node, owner)
            self.made.append(
                FaultMade(
                    kind=name, began_ms=began, ended_ms=now_ms(), sessions=tuple([one for (one,) in rows])
                )
            )
            if name != "move":
                await self._wait_served(node)
        finally:
            node.is_busy = node.is_busy and name == "move"

    async def _wait_served(self, node: NodeProcess) -> None:
        """Wait until it serves. One that ends because it cannot reach the store in time is started again, as by systemd."""
        while True:
            try:
                await node.wait_ready()
            except RuntimeError as error:
                if node.pid:
                    self.crowd.faults.add(f"{error}")
                    return
                self.crowd.counts["starts that failed"] += 1
                self.cluster.launch(node)
            else:
                return

    async def kill(self, node: NodeProcess, _owner: str) -> None:
        """Kill it; start it again at once, or later than a lease."""
        node.kill()
        await trio.sleep(self.rng.choice([0, 0, self.seconds(1.5 * self.lease)]))
        self.cluster.launch(node)

    async def stop(self, node: NodeProcess, _owner: str) -> None:
        """Stop and continue it."""
        node.send(signal.SIGSTOP)
        await trio.sleep(self.seconds(min(20.0, 2.5 * self.lease)))
        node.send(signal.SIGCONT)

    async def cut_store(self, node: NodeProcess, _owner: str) -> None:
        """Cut it off from the store."""
        node.to_store.cut()
        await trio.sleep(self.seconds(1.7 * self.lease))
        node.to_store.mend()

    async def stall_store(self, node: NodeProcess, _owner: str) -> None:
        """Hold the bytes between it and the store, one way or both."""
        node.to_store.stall(*self.rng.choice([(Way.TO_SERVER,), (Way.TO_CLIENT,), ()]))
        await trio.sleep(self.seconds(1.7 * self.lease))
        node.to_store.mend()

    async def cut_nodes(self, node: NodeProcess, _owner: str) -> None:
        """Cut it off from the other nodes."""
        node.to_node.cut()
        await trio.sleep(self.seconds(1.7 * self.lease))
        node.to_node.mend()

    async def stall_nodes(self, node: NodeProcess, _owner: str) -> None:
        """Hold the bytes between it and the other nodes, one way."""
        node.to_node.stall(self.rng.choice([*Way]))
        await trio.sleep(self.seconds(1.7 * self.lease))
        node.to_node.mend()

    async def drain(self, node: NodeProcess, owner: str) -> None:
        """Drain it, by command or by SIGTERM, and start it again."""
        if self.rng.random() < 0.5:  # noqa: PLR2004 - half of them
            await self._command("drain", owner)
        node.send(signal.SIGTERM)
        status = await node.wait_end(END_SECONDS)
        if status != 0:
            self.crowd.faults.add(f"{node.name} was drained and ended with {status}")
            node.kill()
        self.cluster.launch(node)

    async def move(self, _node: NodeProcess, _owner: str) -> None:
        """Move a session, whatever it does."""
        rows = await trio.to_thread.run_sync(self.cluster.query, _OWNED)
        if rows:
            await self._command("move", self.rng.choice(rows)[0], "--scope", TENANT)

    async def terminate(self, node: NodeProcess, _owner: str) -> None:
        """End its connections to the store, half of the time while it stands still."""
        pause = self.rng.choice([0.0, self.rng.uniform(0.2, min(5.0, 0.6 * self.lease))])
        if pause:
            node.send(signal.SIGSTOP)
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        await trio.to_thread.run_sync(self.cluster.query, ended, node.name)
        await trio.sleep(pause)
        node.send(signal.SIGCONT)

    async def lock(self, _node: NodeProcess, owner: str) -> None:
        """Lock its row, so that beats wait and appends go through."""
        await trio.to_thread.run_sync(self._lock, owner, self.seconds(2.6 * self.lease))

    def _lock(self, owner: str, seconds: float) -> None:
        with psycopg.connect(self.cluster.url) as connection:
            connection.execute(
                "SELECT 1 FROM agentrail.node WHERE id = convert_to(%s, 'UTF8') FOR UPDATE", (owner,)
            )
            time.sleep(seconds)

    async def _command(self, *words: str) -> None:
        command = [*_OF_CLI, *words, "--store", self.cluster.plain_url]
        done = await trio.run_process(
            command, env=self.cluster.environ, capture_stdout=True, capture_stderr=True, check=False
        )
        why = done.stderr.decode(errors="replace").strip()
        said = _NAME.sub("…", why.rpartition("\n")[2])[:80] if done.returncode else "done"
        self.crowd.counts[f"nodes {words[0]}: {said}"] += 1
        if "please report" in why or "Traceback" in why:
            self.crowd.faults.add(f"nodes {' '.join(words)}: {why[-500:]}")


MakeFault: TypeAlias = Callable[[FaultMaker, NodeProcess, str], Awaitable[None]]

FAULTS: Final[dict[str, MakeFault]] = {
    "kill": FaultMaker.kill,
    "stop": FaultMaker.stop,
    "cut_store": FaultMaker.cut_store,
    "stall_store": FaultMaker.stall_store,
    "cut_nodes": FaultMaker.cut_nodes,
    "stall_nodes": FaultMaker.stall_nodes,
    "drain": FaultMaker.drain,
    "move": FaultMaker.move,
    "terminate": FaultMaker.terminate,
    "lock": FaultMaker.lock,
}
_OF_OWNERSHIP: Final = frozenset({"kill", "stop", "cut_store", "stall_store", "lock"})


def now_ms() -> int:
    """Return this machine's clock, which is also the store's."""
    return int(time.time() * 1000)


async def make_faults(maker: FaultMaker, seconds: float, every: float) -> None:
    """Make a fault at each interval, and return when all are mended."""
    ends_at = trio.current_time() + seconds
    kinds: list[str] = []
    async with trio.open_nursery() as nursery:
        while trio.current_time() < ends_at:
            await trio.sleep(every)
            if not kinds:  # each once, in a new order
                kinds = maker.rng.sample([*FAULTS], len(FAULTS))
            free = [one for one in maker.cluster.nodes if not one.is_busy]
            kind = kinds.pop() if len(free) > 1 else "move"  # which needs no node of its own
            nursery.start_soon(maker.make, kind, maker.rng.choice(free))


async def wait_rest(crowd: Crowd) -> None:
    """Wait until all sessions have nothing to do, and compare each with its account."""
    async with trio.open_nursery() as nursery:
        for session in crowd.sessions:
            nursery.start_soon(_wait_rest, crowd, session)


async def _wait_rest(crowd: Crowd, session: ClientSession) -> None:
    with trio.move_on_after(REST_SECONDS) as limit:
        await _compare(crowd, session)
    if limit.cancelled_caught:
        crowd.faults.add(f"session {session.id} did not come to rest, or its reader did not come to its end")


async def _compare(crowd: Crowd, session: ClientSession) -> None:
    path = f"/sessions/{session.id}"
    seq = -1
    while not 0 <= seq <= session.place.last:
        await trio.sleep(0.1)
        status, body = await crowd.get(session, path)
        if status == 404:  # noqa: PLR2004 - of HTTP
            crowd.faults.add(f"session {session.id} is lost: {body}")
            return
        about = body.get("status", {})
        is_at_rest = about.get("phase") == "idle" and not about["queued"] and not about["steers"]
        seq = body["seq"] if is_at_rest else -1
    page: dict[str, Any] = {}
    status = 0
    while status != 200:  # noqa: PLR2004 - of HTTP
        await trio.sleep(0.1)
        status, page = await crowd.get(session, f"{path}/messages?limit=1000")
    read = (
        session.place.last
    )  # an owner may have added an event meanwhile; `check_history` compares with what is stored
    for fault in session.account.faults(page["messages"], read, read):
        crowd.faults.add(fault)
    crowd.counts["compared"] += session.account.acknowledged


async def wait_delivered(cluster: Cluster) -> None:
    """Wait until no webhook is owed."""
    with trio.move_on_after(REST_SECONDS):
        while (await trio.to_thread.run_sync(cluster.query, _LEFT["owed messages"]))[0][0]:  # noqa: ASYNC110 - rows of a store
            await trio.sleep(0.2)


async def end_nodes(cluster: Cluster, crowd: Crowd) -> None:
    """Stop all nodes, and look for what is left behind."""
    for node in cluster.nodes:
        node.send(signal.SIGTERM)
    for node in cluster.nodes:
        status = await node.wait_end(END_SECONDS)
        if status != 0:
            crowd.faults.add(
                f"{node.name} ended with {status}: {node.log.read_text(errors='replace')[-1_000:]}"
            )
    left = cluster.left_processes()
    if left:
        crowd.faults.add(f"processes {left} are left behind")
    for what, query in _LEFT.items():
        ((count,),) = cluster.query(query)
        if count:
            crowd.faults.add(f"{count} {what} are left behind")


def check_history(
    cluster: Cluster, crowd: Crowd, made: Sequence[FaultMade], lease: float
) -> dict[str, list[float]]:
    """Compare records and ledger, look for bugs in the logs, and return the times of takeovers by the kind of their fault."""
    records = [
        StoredRecord(session=session, seq=seq, epoch=epoch, at_ms=at_ms, kind=kind, body=body)
        for session, seq, epoch, at_ms, kind, body in cluster.query(_RECORDS)
    ]
    ledger = [msgspec.json.decode(line, type=LedgerLine) for line in cluster.ledger.read_bytes().splitlines()]
    for fault in history_faults(records, ledger):
        crowd.faults.add(fault)
    crowd.counts |= {"records": len(records), "runs of tools": len(ledger)}
    crowd.counts["takes"] = sum(one.taken is not None for one in records)
    events = dict(cluster.query(_EVENTS))
    for session in crowd.sessions:
        stored, seen = events.get(session.id, 0), session.place.last
        if seen > stored:
            crowd.faults.add(f"session {session.id}: a reader has {seen} events, {stored} are stored")
    for node in cluster.nodes:
        for line in node.log.read_text(errors="replace").splitlines():
            if "please report" in line or "Traceback" in line:
                crowd.faults.add(f"{node.name}'s log: {line}")
    times: dict[str, list[float]] = {}
    for one in made:
        if one.kind in _OF_OWNERSHIP:
            until = one.ended_ms + int(lease * 1000)
            times.setdefault(one.kind, []).extend(
                takeover_times(records, one.sessions, one.began_ms, until).values()
            )
    return times


@frozen(kw_only=True)
class CrashReport:
    """The outcome of a run.

    Attributes:
        faults: Broken promises: the first ones in words.
        count: How many there are.
        made: Faults made, by kind.
        counts: What happened.
        takeovers: Seconds until each takeover, by the kind of fault.
    """

    faults: tuple[str, ...]
    count: int
    made: Counter[str]
    counts: Counter[str]
    takeovers: dict[str, list[float]]

    def __str__(self) -> str:
        """As lines."""
        lines = [
            f"faults made: {dict(sorted(self.made.items()))}",
            f"counts: {dict(sorted(self.counts.items()))}",
        ]
        for kind, times in sorted(self.takeovers.items()):
            if len(times) > 1:
                p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
                lines.append(
                    f"takeovers after {kind}: {len(times)}, p50 {p50:.2f} s, p99 {p99:.2f} s, longest {max(times):.2f} s"
                )
        return "\n".join([*lines, f"broken: {self.count}" if self.count else "kept"])


async def crash_nodes(  # noqa: PLR0913 - the options of the command, by keyword
    folder: Path,
    server: PostgresServer,
    database: str,
    *,
    seconds: float,
    seed: int,
    lease: float,
    clients: int,
    every: float,
    pause: float,
) -> CrashReport:
    """Run the clients and the faults for some seconds, let all come to rest, and compare.

    Args:
        folder: Directory for logs, ledger and data.
        server: A running PostgreSQL.
        database: An empty database in it.
        seconds: Time in which faults are made.
        seed: Seed of faults and messages.
        lease: Lease of the nodes in seconds.
        clients: Number of clients, each with a session and a reader.
        every: Seconds between two faults.
        pause: Seconds between two messages of a client, on average.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    receiver = Receiver()  # type: ignore[no-untyped-call]
    async with trio.open_nursery() as outside:
        (hooks,) = await outside.start(partial(trio.serve_tcp, receiver.serve, 0, host="127.0.0.1"))
        webhook = f"http://127.0.0.1:{hooks.socket.getsockname()[1]}"
        async with (
            open_cluster(folder, server, database, lease=lease, webhook=webhook) as cluster,
            httpx.AsyncClient(limits=NO_LIMITS) as client,
        ):
            crowd = Crowd(cluster.base, rng, client)
            maker = FaultMaker(cluster, crowd, random.Random(seed + 1), lease)  # noqa: S311 - as above
            async with trio.open_nursery() as readers:
                async with trio.open_nursery() as senders:
                    for number in range(clients):
                        senders.start_soon(crowd.live, crowd.begin(number), pause)
                    for one in crowd.sessions[::2]:
                        readers.start_soon(crowd.read_by_httpx, one)
                    readers.start_soon(crowd.read_by_event_source, crowd.sessions[1::2])
                    await make_faults(maker, seconds, every)
                    crowd.is_ending = True
                await wait_rest(crowd)
                readers.cancel_scope.cancel()
            await wait_delivered(cluster)
            await end_nodes(cluster, crowd)
            times = check_history(cluster, crowd, maker.made, lease)
            _check_webhooks(receiver, crowd)
        outside.cancel_scope.cancel()
    return CrashReport(
        faults=tuple(crowd.faults.told),
        count=crowd.faults.count,
        made=Counter(one.kind for one in maker.made),
        counts=crowd.counts,
        takeovers=times,
    )


def _check_webhooks(receiver: Receiver, crowd: Crowd) -> None:
    ids = Counter(dict(head.headers)[b"webhook-id"] for head in receiver.heads)
    crowd.counts |= {"webhooks": len(ids), "webhooks repeated": sum(count > 1 for count in ids.values())}
    if not ids:
        crowd.faults.add("no webhook was delivered")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.crash_nodes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long faults are made")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--lease", type=float, default=15.0, help="lease of the nodes in seconds")
    parser.add_argument("--clients", type=int, default=60)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two faults")
    parser.add_argument(
        "--pause", type=float, default=4.0, help="seconds between two messages of a client, on average"
    )
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="agentrail-crash-nodes-"))
    print(f"seed {given.seed}, logs and ledger in {folder}", flush=True)
    with open_server(folder) as server:
        database = server.create_database()
        report = trio.run(partial(crash_nodes, folder, server, database, **vars(given)))
    print(report, flush=True)
    if report.count:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
