"""A PostgreSQL server for tests, one for each worker, and a fresh database for each test.

The cluster is created once in a run and copied for each worker: that takes seconds of processor time. Without PostgreSQL these tests are skipped with the
reason, and fail where AGENTRAIL_REQUIRE_SERVICES is set.
"""

import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

from agentrail import outside
from agentrail.errors import OptionError
from agentrail.stores.postgres_private import POSTGRES_START_SECONDS, PrivatePostgres, find_binaries

PEERS: Final = Path(__file__).parent.parent / ".peers" / "postgres"
"""Where `scripts/install_postgres.sh` unpacks PostgreSQL and PgBouncer."""

_PREFIX: Final = "agentrail-postgres-"
_SETTINGS: Final = {"shared_buffers": "32MB", "max_wal_size": "256MB", "log_checkpoints": "off"}


def postgres_environ() -> dict[str, str]:
    """Return this environment, in which the unpacked programs are found after installed ones."""
    programs = sorted(PEERS.glob("usr/lib/postgresql/*/bin"))
    libraries = sorted(PEERS.glob("usr/lib/*-linux-*"))
    unpacked = [*map(str, programs), f"{PEERS}/usr/sbin", "/usr/sbin", f"{PEERS}/usr/bin"]
    environ = dict(os.environ, PATH=os.pathsep.join([os.environ.get("PATH", os.defpath), *unpacked]))
    if libraries:
        environ["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))
    return environ


class PostgresServer:
    """A running server, which tests may stop, kill and start again. It runs again when the test ends.

    Attributes:
        cluster: Its cluster, with the directory, the port and the process id.
    """

    def __init__(self, cluster: PrivatePostgres) -> None:
        self.cluster = cluster

    @property
    def port(self) -> int:
        """Loopback port, which stays the same over restarts."""
        return self.cluster.port

    def create_database(self) -> str:
        """Create an empty database and return its name."""
        name = f"t_{outside.ids(8)}"
        self._execute(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, with the connections that it has."""
        self.ensure_running()
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _execute(self, sql: str) -> None:
        with psycopg.connect(self.cluster.url_of(), autocommit=True) as connection:
            connection.execute(sql.encode())  # a process of `psql` takes longer than the statement

    def run_sql(self, sql: str, database: str = "postgres") -> str:
        """Run SQL as the owner of the cluster, with `psql`, and return its output: a row per line, with `|` between columns."""
        command = [
            self.program("psql"),
            "-XqAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            self.cluster.url_of(database),
        ]
        done = subprocess.run(
            [*command, "-c", sql], check=False, capture_output=True, text=True, env=postgres_environ()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def program(self, name: str) -> str:
        """Return the path of one of PostgreSQL's programs, such as `pg_dump`."""
        environ = postgres_environ()
        found = find_binaries(environ).directory / name
        return os.fspath(found) if found.exists() else shutil.which(name, path=environ["PATH"]) or name

    def stall(self) -> None:
        """Stop all of its processes with SIGSTOP: connections stay open, and nothing answers."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it after `stall`."""
        for pid in self._pids():
            with suppress(ProcessLookupError):  # a server process of a connection that has just ended
                os.kill(pid, signal.SIGCONT)

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Stall it for a block."""
        self.stall()
        try:
            yield
        finally:
            self.resume()

    def kill(self) -> None:
        """Kill all of its processes with SIGKILL, as a power failure would. Connections are cut."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while self.cluster.pid or self.cluster.has_old_server:
            time.sleep(0.01)

    def terminate_connections(self, database: str) -> None:
        """End all connections to a database, as an administrator or a firewall would."""
        self.run_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")  # noqa: S608 - a name of ours

    def start(self) -> None:
        """Start it again after `kill`, and wait until it accepts connections."""
        self.cluster.start()
        deadline = time.monotonic() + POSTGRES_START_SECONDS
        while not self.cluster.is_ready():
            assert time.monotonic() < deadline, "PostgreSQL is not ready"
            time.sleep(0.02)

    def ensure_running(self) -> None:
        """Continue or start it, if a test left it otherwise."""
        if self.cluster.pid:
            self.resume()
        else:
            self.start()

    def _pids(self) -> list[int]:
        """Return the server and its children, which are in sessions of their own."""
        first = self.cluster.pid
        parent = re.compile(rf"^PPid:\s+{first}$", re.MULTILINE)
        found = [first] if first else []
        for status in Path("/proc").glob("[0-9]*/status") if first else ():
            with suppress(OSError):
                found += [int(status.parent.name)] if parent.search(status.read_text()) else []
        return found


@pytest.fixture(scope="session")
def postgres_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The server of this worker. Tests use `postgres_server` or `postgres_url`."""
    try:
        find_binaries(postgres_environ())
    except OptionError as error:
        reason = (
            f"PostgreSQL is not installed: scripts/install_postgres.sh does it, which needs apt-get ({error})"
        )
        if os.environ.get("AGENTRAIL_REQUIRE_SERVICES"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
    with open_server(shared) as server:
        yield server


@contextmanager
def open_server(shared: Path) -> Iterator[PostgresServer]:
    """Run a server for a block. Its cluster is copied from one in a shared directory, where the first creates it."""
    memory = Path("/dev/shm")  # noqa: S108 - its directories are made with mkdtemp
    _remove_left(memory)
    place = memory if os.access(memory, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    nobody = pwd.getpwnam("nobody")
    run_as = (nobody.pw_uid, nobody.pw_gid) if os.geteuid() == 0 else None
    server = PostgresServer(PrivatePostgres(directory, postgres_environ(), run_as=run_as, settings=_SETTINGS))
    try:
        with (shared / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _prepare(server.cluster, shared / "postgres", run_as)
        server.start()
        yield server
    finally:
        server.resume()
        server.cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _prepare(cluster: PrivatePostgres, template: Path, run_as: tuple[int, int] | None) -> None:
    if not template.exists():
        cluster.prepare()
        shutil.copytree(cluster.directory, template, ignore=shutil.ignore_patterns("*.lock"))
        return
    shutil.copytree(template, cluster.directory, dirs_exist_ok=True)
    if run_as is not None:
        for path in (cluster.directory, *cluster.directory.rglob("*")):
            os.chown(path, *run_as)
    cluster.prepare()


def _remove_left(place: Path) -> None:
    """Remove the directories of workers that were killed."""
    for left in place.glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


@pytest.fixture
def postgres_server(postgres_session: PostgresServer) -> Iterator[PostgresServer]:
    """A running server, which the test may stop, kill and start. No other test uses it meanwhile."""
    postgres_session.ensure_running()
    yield postgres_session
    postgres_session.ensure_running()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a fresh, empty database, over the loopback port. It contains a password."""
    name = postgres_server.create_database()
    yield postgres_server.cluster.port_url_of(name)
    postgres_server.drop_database(name)
