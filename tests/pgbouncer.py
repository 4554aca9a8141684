"""PgBouncer in transaction mode before the PostgreSQL server of tests.

With so few clients it would lend the same session of the server again. So each session is reset after each transaction.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Final

import psycopg

from agentrail.stores.postgres_private import free_ports
from tests.postgres import PostgresServer, postgres_environ

_START_SECONDS: Final = 30.0
_CONFIGURATION: Final = """\
[databases]
* = host=127.0.0.1 port={server} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_reset_query_always = 1
server_idle_timeout = 10
server_login_retry = 1
query_wait_timeout = 5
"""


class Pooler:
    """A running PgBouncer.

    Attributes:
        port: Its loopback port, the same over restarts. Any password is right.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._cluster = server.cluster
        self._log = server.cluster.directory / "pgbouncer.log"
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it as the cluster's user, and wait until it accepts connections. It ends with this process."""
        parts = psycopg.conninfo.conninfo_to_dict(self._cluster.port_url_of())
        values = {"server": self._cluster.port, "port": self.port}
        file = self._cluster.directory / "pgbouncer.ini"
        file.write_text(_CONFIGURATION.format(user=parts["user"], password=parts["password"], **values))
        owner = self._cluster.directory.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
        environ = postgres_environ()
        program = shutil.which("pgbouncer", path=environ["PATH"])
        assert program, "pgbouncer is not installed"
        command = ["setpriv", "--pdeathsig=KILL"]
        if os.geteuid() == 0:
            command += [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, program, file], stdout=log, stderr=log, env=environ, cwd="/"
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._accepts():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def _accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def ensure_running(self) -> None:
        """Start it unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self.start()


@contextlib.contextmanager
def open_pooler(server: PostgresServer) -> Iterator[Pooler]:
    """Run PgBouncer for a block."""
    pooler = Pooler(server)
    try:
        pooler.start()
        yield pooler
    finally:
        pooler.kill()
