"""`agentrail serve --nodes`: processes over one store, with a PostgreSQL of their own. Real processes, as an ordinary user also when root runs the tests."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
import trio
from attrs import define

from agentrail.cli.config_setup import ConfigFiles
from agentrail.cli.exit_codes import Exit
from agentrail.cli.node_processes import (
    MAX_PROCESS_RESTARTS,
    MAX_PROCESSES,
    PROCESS_BACKOFF,
    RESTART_PERIOD_SECONDS,
    ProcessHistory,
    check_nodes,
    decide_restart,
    describe_end,
    plan_processes,
)
from agentrail.cli.serve_options import ServeFlags, ServeOptions, node_options
from agentrail.errors import OptionError
from agentrail.stores.postgres_private import find_binaries
from tests.cli.rig import run_line, wait_until
from tests.forked import environment
from tests.postgres import postgres_environ

URL: Final = "postgres://agentrail@db/agentrail"
IS_ROOT: Final = os.geteuid() == 0

# Root's files stay readable, since its interpreter may be in a directory that others cannot enter.
AS_USER: Final = (
    (
        "setpriv",
        "--reuid=nobody",
        "--regid=nogroup",
        "--clear-groups",
        *[f"--{one}-caps=+dac_read_search" for one in ("inh", "ambient")],
    )
    if IS_ROOT
    else ()
)
COMMAND: Final = ("-P", "-m", "agentrail")
PATCHED: Final = "import {module} as m; m.{name} = {value}; from agentrail.cli import main; main()"


# --- what is started, and what an end means: plain functions


@pytest.mark.machine(16)
def test_each_node_has_the_options_of_the_command_and_a_port_of_its_own():
    """Each process gets the options of the command, and a port of its own."""
    flags = ServeFlags(nodes=2, store="postgres:", port=9000, lease=3.0, allowed_host=("a", "b"), debug=True)
    one, two = plan_processes(flags, ConfigFiles(config=Path("/c"), trust_project=True), (9000, 9001))
    given = {"--store=postgres:", "--lease=3.0", "--allowed-host=a", "--allowed-host=b", "--debug"}
    assert {*one.arguments} == {"serve", *given, "--config=/c", "--trust-project", "--port=9000"}
    assert {*two.arguments} - {*one.arguments} == {"--port=9001"}
    assert (one.name, two.name) == ("node 1", "node 2")


@pytest.mark.machine(16)
def test_a_node_of_a_private_server_uses_it_and_shares_the_files_of_this_machine():
    """A node of a private PostgreSQL uses its URL, and shares the files of this machine. Its address is the one that it listens on."""
    served = ServeOptions(store="postgres:", port=8701, node_of="postgresql://x")
    shared = {"store": "postgresql://x", "files_are_shared": True, "advertise": "http://127.0.0.1:8701"}
    assert node_options(served, {}) == shared
    for host, address in (("10.0.0.5", "10.0.0.5"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")):  # noqa: S104
        assert node_options(ServeOptions(store=URL, host=host), {})["advertise"] == f"http://{address}:8700"


@pytest.mark.machine(16)
def test_what_contradicts_several_nodes_is_refused():
    """What contradicts several nodes is refused with the option's name, all at once."""
    for options, store, application, said in (
        (ServeOptions(nodes=0), URL, None, f"--nodes is 0: expected 1 to {MAX_PROCESSES}"),
        (ServeOptions(nodes=65), URL, None, "--nodes is 65"),
        (ServeOptions(nodes=3, port=65_534), URL, None, "3 nodes need as many ports"),
        (ServeOptions(nodes=2), None, None, "--store postgres: starts a PostgreSQL here"),
        (ServeOptions(nodes=2), "sqlite:x", None, "store is 'sqlite:x'"),
        (ServeOptions(nodes=2), None, "my:app", "start yours once for each node"),
        (ServeOptions(nodes=2, demo=True), None, None, "leave out --nodes"),
        (ServeOptions(nodes=2, advertise="http://x:1"), URL, None, "leave out --advertise"),
        (ServeOptions(nodes=2, metrics="9464"), URL, None, "read /metrics of each node"),
    ):
        with pytest.raises(OptionError) as caught:
            check_nodes(options, store, application=application, advertise=options.advertise)
        assert [fault for fault in caught.value.faults if said in fault], caught.value.faults
        assert len(caught.value.faults) == 1
    check_nodes(ServeOptions(nodes=MAX_PROCESSES), URL, application=None, advertise=False)
    check_nodes(ServeOptions(nodes=1, port=0), "postgres:", application=None, advertise=False)


def ends(*, count: int, every: float, ran: float = 1.0, code: int = -9, has_served: bool = True):
    """Let a process end again and again, and return the decisions."""
    history, decisions = ProcessHistory(), []
    for number in range(count):
        history, decision = decide_restart(
            history, code=code, has_served=has_served, ran_seconds=ran, now=number * every, draw=0.0
        )
        decisions.append(decision)
    return decisions


@pytest.mark.machine(16)
def test_a_node_that_dies_is_started_again_later_each_time_and_not_for_ever():
    """A node that dies is started again, later each time, and not for ever. One that ran for long starts soon, any number of times."""
    first, second, third, *_, sixth = ends(count=MAX_PROCESS_RESTARTS + 1, every=1)
    assert (first, second, third, sixth) == (0.2, 0.4, 0.8, Exit.FAILED)
    assert ends(count=50, every=RESTART_PERIOD_SECONDS / 4, ran=PROCESS_BACKOFF.maximum_seconds) == [0.2] * 50
    assert ends(count=1, every=1, code=Exit.DONE) == [0.2]


@pytest.mark.machine(16)
def test_wrong_usage_is_not_repeated_before_a_node_has_served():
    """Wrong usage is not repeated before a node has served. Later it may be a store that is away."""
    assert ends(count=1, every=1, code=Exit.USAGE, has_served=False) == [Exit.USAGE]
    assert ends(count=1, every=1, code=Exit.USAGE) == [0.2]
    assert ends(count=1, every=1, code=Exit.FAILED, has_served=False) == [0.2]


def test_an_end_is_described_with_what_follows():
    """An end is described with what follows."""
    assert describe_end("node 2", -9, 0.2) == "node 2 was ended by SIGKILL: it starts again in 0.2 s"
    assert "code 2 before it answered: stopping all" in describe_end("node 2", 2, Exit.USAGE)
    assert "code 1, more than 5 times within 60 s: stopping all" in describe_end("node 2", 1, Exit.FAILED)


async def test_the_command_refuses_before_anything_is_started(tmp_path):
    """The command refuses before anything is started, and makes no directory."""
    for line, said in (
        ("serve --nodes 2", "--nodes needs a store that they share, but none is named"),
        ("serve --store postgres:", "only agentrail serve --nodes starts a PostgreSQL of its own"),
    ):
        ran = await run_line(line, variables={"HOME": str(tmp_path), "AGENTRAIL_MODEL": "demo:fast"})
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err
    assert not [*tmp_path.iterdir()]


# --- real processes


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of the user that runs the command, with a short path because of the socket. No process works in it at the end."""
    try:
        find_binaries(postgres_environ())
    except OptionError as error:
        if os.environ.get("AGENTRAIL_REQUIRE_SERVICES"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    memory = Path("/dev/shm")  # noqa: S108 - made with mkdtemp
    made = Path(
        tempfile.mkdtemp(prefix="agentrail-nodes-", dir=memory if os.access(memory, os.W_OK) else None)
    )
    if IS_ROOT:
        nobody = pwd.getpwnam("nobody")
        os.chown(made, nobody.pw_uid, nobody.pw_gid)
    try:
        yield made
        left = processes_in(made)
        assert not left, left
    finally:
        # A server that is killed leaves its shared memory. One that is asked first, and waited for, leaves nothing.
        for end in (psutil.Process.terminate, psutil.Process.kill):
            left = processes_in(made)
            for one in left:
                with suppress(psutil.NoSuchProcess):
                    end(one)
            psutil.wait_procs(left, timeout=5)
        shutil.rmtree(made)


def processes_in(place: Path) -> list[psutil.Process]:
    """All processes whose working directory is there, which each of the command's has."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            if one.cwd().startswith(os.fspath(place)) and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def command_of(one: psutil.Process) -> list[str]:
    """The command line of a process, empty if it has ended meanwhile."""
    with suppress(psutil.Error):
        return list(one.cmdline())
    return []


@define
class Running:
    """The command, with its output so far."""

    process: trio.Process
    out: str = ""
    err: str = ""

    async def read(self, name: str, stream: trio.abc.ReceiveStream) -> None:
        async for piece in stream:
            setattr(self, name, getattr(self, name) + piece.decode())

    async def said(self, pattern: str, times: int = 1) -> list[str]:
        while len(found := re.findall(pattern, self.out + self.err)) < times:
            assert self.process.returncode is None or found, self.err
            await trio.sleep(0.02)
        return found


@asynccontextmanager
async def serving(place: Path, count: int, *command: str, prefix=AS_USER, **variables: str):
    """Run the command in a directory for a block. It is killed at the end if it still runs."""
    given = {"PATH": postgres_environ()["PATH"], "HOME": str(place), "AGENTRAIL_MODEL": "demo:fast"}
    given |= {"LD_LIBRARY_PATH": postgres_environ().get("LD_LIBRARY_PATH", "")}
    words = ("serve", "--nodes", str(count), "--store", "postgres:", "--port", "0", "--lease", "10")
    program = shutil.which("setpriv") if prefix else None
    process = await trio.lowlevel.open_process(
        [*((program, *prefix[1:]) if program else ()), sys.executable, *(command or COMMAND), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place,
        env=environment(**{**given, **variables}),
    )
    running = Running(process)
    with trio.fail_after(180):
        async with trio.open_nursery() as nursery:
            for name in ("out", "err"):
                nursery.start_soon(running.read, name, getattr(process, f"std{name}"))
            try:
                yield running
                await process.wait()
            finally:
                process.kill()


async def prompt(address: str, text: str) -> None:
    """Send a message to the session of the test, again while its owner is being replaced."""
    said = {"message": text, "session_id": "main", "agent_id": "default", "client_id": text}
    async with httpx.AsyncClient(verify=False, timeout=30) as client:  # noqa: S501 - no TLS
        while True:
            with suppress(httpx.TransportError):
                answer = await client.post(f"{address}/chat", json=said)
                if answer.status_code != 503:
                    assert answer.status_code == 200, answer.text
                    return
            await trio.sleep(0.1)


@pytest.mark.machine(16)
@pytest.mark.check
async def test_three_nodes_serve_one_session_and_survive_what_dies(place):
    """Three nodes answer for one session, a second command in the directory is refused with the pid, what is killed comes back, and Ctrl-C leaves no process."""
    # Nothing of the directory runs in a node either.
    (place / "importlib.py").write_text("raise SystemExit(3)")
    async with serving(place, 3) as running:
        pids = [int(one) for one in await running.said(r"node \d answers at \S+, process (\d+)", 3)]
        addresses = (await running.said(r"(?m)^(http://\S+)\n", 3))[:3]
        assert running.out.splitlines() == addresses
        for number, address in enumerate(addresses):
            await prompt(address, f"message-{number}")
        async with serving(place, 1) as second:
            await second.process.wait()
        assert (second.process.returncode, second.out) == (2, "")
        assert f"is run by process {running.process.pid}" in second.err
        (server,) = [one for one in processes_in(place) if command_of(one)[1:2] == ["-D"]]
        os.kill(pids[0], signal.SIGKILL)
        server.kill()
        await running.said(r"node \d was ended by SIGKILL: it starts again in 0.2 s")
        await running.said("PostgreSQL was ended by SIGKILL: it starts again in 0.2 s")
        for number, address in enumerate(addresses):
            await prompt(address, f"later-{number}")
        async with httpx.AsyncClient(verify=False) as client:  # noqa: S501 - no TLS
            told = (await client.get(f"{addresses[2]}/sessions/main/messages")).text
        assert [told.count(f'"message-{one}"') for one in range(3)] == [1, 1, 1]
        running.process.send_signal(signal.SIGINT)
    assert running.process.returncode == 0, running.err
    assert "SIGINT: stopping all nodes" in running.err
    assert running.err.endswith("agentrail: stopped.\n")


@pytest.mark.machine(16)
@pytest.mark.check
async def test_ctrl_c_in_the_middle_of_the_start_and_a_killed_parent_leave_no_process(place):
    """Ctrl-C twice while the cluster is created, SIGTERM or the SIGHUP of a closed terminal while nodes start, and SIGKILL of the parent: no process stays, and the next start works."""
    made = place / ".local/share/agentrail/postgres"
    async with serving(place, 2) as running:
        await wait_until((made / "password").exists)
        for _ in range(2):
            running.process.send_signal(signal.SIGINT)
    assert running.process.returncode == 0, running.err
    assert (running.out, "answers" in running.err) == ("", False)
    assert not processes_in(place)
    for sent in (signal.SIGTERM, signal.SIGHUP):
        async with serving(place, 1) as running:
            await running.said("PostgreSQL runs in")
            running.process.send_signal(sent)
        assert running.process.returncode == 0, running.err
        assert not processes_in(place)
    async with serving(place, 1) as running:
        await running.said("node 1 answers")
        running.process.kill()
    with trio.fail_after(60):
        await wait_until(lambda: not processes_in(place))


@pytest.mark.machine(16)
async def test_root_is_refused_with_what_to_do(place):
    """Root is refused with what to do, and nothing is made."""
    patched = PATCHED.format(module="os", name="geteuid", value="lambda: 0")
    async with serving(place, 3, "-c", patched, prefix=()) as running:
        pass
    assert (running.process.returncode, running.out) == (2, "")
    assert "PostgreSQL refuses to run as root: start this as an ordinary user" in running.err
    assert not [*place.iterdir()]


@pytest.mark.machine(16)
async def test_without_binaries_it_says_what_to_install(place):
    """Without PostgreSQL's programs it says what to install."""
    module = "agentrail.stores.postgres_private"
    patched = PATCHED.format(module=module, name="_INSTALLED", value="m.Path('/nowhere')")
    async with serving(place, 3, "-c", patched, PATH="/nowhere") as running:
        pass
    assert (running.process.returncode, running.out) == (2, "")
    assert "found no initdb and pg_ctl: install it with your package manager" in running.err
