"""Nodes over PostgreSQL, on the real clock: locks and lost connections of one node (docs: run on many machines)."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import trio

from agentrail import ToolContext, tool
from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import migrate
from agentrail.testing.models import FunctionModel, calls, says
from tests.runtime.rig import eventually, on_bounded_time, open_over

LEASE = 3
LONG_LEASE = 10
STALL_SECONDS = 1.0
"""Time in which a tool that is stopped on a busy machine may have another effect."""
TERMINATIONS = int(os.environ.get("AGENTRAIL_TERMINATIONS", "4"))
"""How often all connections of a node are ended: 50 times in the long form."""

NODE = "import trio; from tests.runtime.test_nodes_over_postgres import work_on; trio.run(work_on, *__import__('sys').argv[1:])"


def ledger_tool(path):
    """A `once` tool with a ledger of its effects in a file: ten a second, each with the fence of its call and the time."""

    @tool(effect_class="once")
    async def work(ctx: ToolContext, seconds: float) -> str:
        """Work."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            line = json.dumps([*ctx.fence, ctx.operation_id, time.time()])
            with path.open("a") as ledger:
                ledger.write(f"{line}\n")
            await trio.sleep(0.1)
        return "worked"

    return work


def entries(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def options_with(path, seconds):
    def answer(request):
        said = str(request.messages[-1])
        is_done = "worked" in said or "Outcome unknown" in said
        return says("done") if is_done else calls(("work", {"seconds": seconds}))

    return {"model": FunctionModel(answer), "tools": [ledger_tool(path)]}


@contextlib.asynccontextmanager
async def node_over(url, path, seconds=60.0, lease=LEASE):
    def revive(_opening):
        return options_with(path, seconds)

    with contextlib.closing(PostgresStore(url, lease_ms=lease * 1000)) as store:
        async with open_over(store, lease=lease, resume="working", revive=revive) as supervisor:
            yield supervisor


def run_sql(url, sql):
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


def takes(url):
    """Return session, epoch and time of each take."""
    rows = run_sql(
        url, "SELECT agentrail.text_of(session), epoch, at_ms, kind FROM agentrail.record ORDER BY at_ms"
    )
    return [row[:3] for row in rows if row[3] == b"taken"]


@pytest.mark.machine(26)
@on_bounded_time
async def test_a_lock_on_the_row_of_a_node_delays_no_append_and_it_is_taken_once(postgres_url, tmp_path):
    """A lock on the row of a node delays no append and it is taken once."""
    migrate(postgres_url)
    ledger = tmp_path / "ledger"
    async with node_over(postgres_url, ledger) as one, node_over(postgres_url, ledger):
        session = await one.start_session(session_id="s", **options_with(ledger, 60))
        await session.prompt("Hi")
        await eventually(lambda: entries(ledger))
        with psycopg.connect(postgres_url) as locking:
            locked = "UPDATE agentrail.node SET load = load WHERE id = %s"
            assert locking.execute(locked, (one.shared_node.encode(),)).rowcount == 1
            begun = time.time()
            await trio.sleep(LEASE / 3)  # a heartbeat waits for the lock
            with trio.fail_after(20):  # the lock is held for longer
                other = await one.start_session(session_id="other", **options_with(ledger, 60))
                await other.prompt("Hi")  # durable when it returns
            await eventually(lambda: len(takes(postgres_url)) == 2, 20)
            await trio.sleep(LEASE)
        await trio.sleep(LEASE)
    taken = {name: (epoch, at_ms / 1000) for name, epoch, at_ms in takes(postgres_url)}
    assert len(takes(postgres_url)) == 2
    assert {name: epoch for name, (epoch, _) in taken.items()} == {"s": 2, "other": 2}
    assert min(at for _, at in taken.values()) - begun >= LEASE * 2 / 3
    late = [entry for entry in entries(ledger) if entry[3] > taken[entry[0]][1] + STALL_SECONDS]
    assert late == []  # the tool was stopped, and ran nowhere else


async def work_on(url, ledger, prompts):
    """Run a node that sends itself prompts, and print each that is answered."""
    path = Path(ledger)
    async with node_over(url, path, 0.3, LONG_LEASE) as supervisor:
        session = await supervisor.start_session(session_id="s", **options_with(path, 0.3))
        for number in range(int(prompts)):
            await session.ask(f"prompt {number}", client_id=f"c{number}")
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


def end_connections(server, name):
    of_node = f"FROM pg_stat_activity WHERE application_name = '{name}'"
    server.run_sql(f"SELECT pg_terminate_backend(pid) {of_node}")


@pytest.mark.machine(26)
@pytest.mark.parametrize("is_stopped", [False, True], ids=["at work", "stopped"])
@pytest.mark.trio
async def test_a_node_whose_connections_are_ended_keeps_its_session(
    is_stopped, postgres_server, postgres_url, tmp_path
):
    """Half of the times it stands still meanwhile. Nothing moves, no call is repeated, and no prompt is lost."""
    migrate(postgres_url)
    ledger, prompts, chance = tmp_path / "ledger", TERMINATIONS * 3, random.Random(26)  # noqa: S311 - times
    url = f"{postgres_url}?application_name=ended"
    async with node_over(postgres_url, ledger, 0.3, LONG_LEASE):
        command = [sys.executable, "-c", NODE, url, f"{ledger}", f"{prompts}"]
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        try:
            with trio.fail_after(90 + 10 * TERMINATIONS):
                told = await process.stdout.receive_some()
                for _ in range(TERMINATIONS):
                    if is_stopped:
                        process.send_signal(signal.SIGSTOP)
                    await trio.to_thread.run_sync(end_connections, postgres_server, "ended")
                    await trio.sleep(chance.uniform(0.2, LONG_LEASE / 5))
                    process.send_signal(signal.SIGCONT)
                    await trio.sleep(chance.uniform(0, 0.5))
                await process.wait()
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
    assert takes(postgres_url) == []
    assert process.returncode == 0
    told += await process.stdout.receive_some(100_000)
    assert [int(one) for one in told.split()] == list(range(prompts))
    assert len({operation for _, _, operation, _ in entries(ledger)}) == prompts


@pytest.mark.machine(18)
@on_bounded_time
async def test_a_long_deletion_delays_no_other_session(postgres_url, tmp_path):
    """A tree of 500,000 records takes a minute to erase. Here, another transaction holds it up."""
    migrate(postgres_url)
    async with node_over(postgres_url, tmp_path / "ledger", lease=LONG_LEASE) as node:
        for name in ("s", "other"):
            await node.start_session(session_id=name, model=FunctionModel(lambda _: says("Hello.")))
        await node.stop_session("s")
        is_released = "SELECT 1 FROM agentrail.session WHERE session = 's' AND node = ''"
        await eventually(lambda: run_sql(postgres_url, is_released), 30)
        deleted = []

        async def delete():
            deleted.append(await node.delete_session("s", purge=True))

        with psycopg.connect(postgres_url) as locking:
            locking.execute("SELECT 1 FROM agentrail.session WHERE session = 's' FOR UPDATE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(delete)
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                await eventually(lambda: run_sql(postgres_url, waiting), 30)
                with trio.fail_after(20):
                    await node.session("other").ask("Hi")
                assert deleted == []
                locking.rollback()
    assert len(deleted) == 1
