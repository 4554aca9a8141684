"""Nodes of a world keep nothing on the real machine. On the same simulated computer, a restart knows that its earlier process has ended."""

import importlib
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail import outside
from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.disk_store import SimulatedWitness
from agentrail.testing.simulation.facts import WORLD_LEASE_SECONDS, NodeChange, StoreCall
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.worlds import cluster, protocols
from tests.simulation.audit import opened
from tests.thinned import nightly

SHORT_HOURS = 0.02
TEN_MINUTES = 600 / 3600


def real(work):
    """Return what a function opens outside of this process, without the objects' own addresses."""
    with opened() as seen:
        work()
    return [event if event.startswith("socket") else (event, *more) for event, *more in seen]


def of_an_empty_run():
    return real(lambda: trio.run(trio.lowlevel.checkpoint))


@pytest.mark.simulation("V-006")
@pytest.mark.parametrize(
    ("scenario", "hours"),
    [
        pytest.param(cluster, SHORT_HOURS, id="messages"),
        pytest.param(protocols, SHORT_HOURS, id="bytes"),
        # Ten seconds of a core; the two short lives open what a long one would.
        pytest.param(cluster, TEN_MINUTES, id="ten minutes", marks=[nightly, pytest.mark.check]),
    ],
)
def test_a_life_opens_nothing_real(scenario, hours):
    """V-006: a life of three nodes with people and faults has no thread, file, socket or child process, but the sockets with which Trio wakes itself."""
    reports = []
    assert real(lambda: reports.append(run(scenario, 3, nodes=3, hours=hours))) == of_an_empty_run()
    (report,) = reports
    assert report.virtual_seconds >= 3600 * hours * 0.9
    assert "up" in {line.facts.action for line in report.log.lines if isinstance(line.facts, NodeChange)}


def test_the_audit_sees_each_kind(tmp_path):
    """Files, sockets, threads and child processes are counted, so that an empty list means something. Imports are not."""

    def work():
        (tmp_path / "file").write_text("")
        socket.socket().close()
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        subprocess.run([sys.executable, "-c", ""], check=True)
        with suppress(ImportError):
            importlib.import_module("missing_module_of_this_test")

    kinds = [one if isinstance(one, str) else one[0] for one in real(work)]
    assert {"open", "socket.__new__", "thread", "subprocess.Popen"} <= {*kinds}
    assert "missing_module_of_this_test" not in repr(kinds)


@pytest.mark.parametrize("moves", [0, 1])
def test_a_restart_reports_the_earlier_process_only_on_the_same_computer(moves):
    """A killed node is reported as gone by its next process, before its lease is over. On another computer nobody knows, and the lease runs out."""

    def killed(world):
        world.profile("desk", model=chatty_model())
        world.people(1, "desk")

        async def kill():
            await trio.sleep(20)
            world.kill(0)
            await trio.sleep(1)
            world.restart(0)

        world.inhabit("weather", kill)

    report = run(killed, "gone", nodes=2, hours=SHORT_HOURS, given={"nodes[0].moves#0": moves})
    assert report.broken is None
    calls = [
        (line.at, line.facts)
        for line in report.log.lines
        if isinstance(line.facts, StoreCall) and line.place == "node-0"
    ]
    earlier = next(call.arguments["node"].id for _, call in calls if call.name == "beat")
    in_time = [call for at, call in calls if 20 < at < 20 + WORLD_LEASE_SECONDS and call.name == "gone"]
    assert [call.arguments["node"] for call in in_time] == ([] if moves else [earlier])


def witness(machine, node):
    with outside.installed(machine):
        return SimulatedWitness(Path("/nodes"), node)


def test_the_witness_of_a_stopped_process_stays_locked():
    """Only an ended process is found, by a later one on its computer, until it is forgotten. A clean end leaves nothing."""
    first, second = NodeMachine(1, "node-0"), NodeMachine(1, "node-0", 1)
    second.witnesses = first.witnesses
    before, after = witness(first, "n-1"), witness(second, "n-2")
    before.open()
    first.is_held = True
    assert after.find_ended() == ()
    first.has_ended = True
    before.close(was_reported=True)
    assert after.find_ended() == ("n-1",)
    after.open()
    after.forget(["n-1"])
    assert after.find_ended() == ()
    after.close(was_reported=True)
    assert first.witnesses == {}
