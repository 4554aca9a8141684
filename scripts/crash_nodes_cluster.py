"""The cluster of `make crash-nodes`: nodes as processes over one PostgreSQL, behind nginx without stickiness, with a cutting proxy on each line."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import trio

from agentrail.stores.postgres_private import free_ports
from agentrail.stores.postgres_schema import migrate
from benchmarks.idle import ROOT
from scripts.crash_nodes_history import RUN
from tests.cutting_proxy import CuttingProxy
from tests.postgres import PostgresServer

START_SECONDS: Final = 180.0
"""Limit of a start. A busy machine may take most of it."""


_NO_CACHE: Final = (
    "PYTHONDONTWRITEBYTECODE"  # images of containers set it, and then each start compiles the whole package
)

_NGINX: Final = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
    upstream nodes {{
{servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        # A browser's EventSource sends no header of its own: its user is in the path, as of a proxy that authenticates.
        location ~ ^/as/(?<user>user-[0-9a-z-]+)/ {{
            rewrite ^/as/[^/]+(/.*)$ $1 break;
            proxy_pass http://nodes;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Authorization "Bearer $user";
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_connect_timeout 2s;
            proxy_read_timeout 30s;
            proxy_next_upstream off;
        }}
    }}
}}
"""


def find_nginx() -> str | None:
    """Return the path of nginx, which Debian keeps out of the path of ordinary users."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


class NodeProcess:
    """One `agentrail serve`, which is killed, stopped, drained and started again.

    Attributes:
        name: Name in the ledger, and of its connections to the store.
        port: Port for nginx.
        to_store: Proxy between it and the store.
        to_node: Proxy between the other nodes and it.
        starts: How often it was started.
        busy_until: Time on the monotonic clock until which a fault holds it.
    """

    def __init__(self, name: str, folder: Path, environ: dict[str, str], postgres: int) -> None:
        self.name = name
        (self.port,) = free_ports(1)
        self.to_store = CuttingProxy(postgres)
        self.to_node = CuttingProxy(self.port)
        self.log = folder / f"{name}.log"
        self.starts = 0
        self.is_busy = False
        self._environ = environ | {"CRASH_NODE": name, "CRASH_DATA": os.fspath(folder / name)}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id, 0 unless it runs."""
        return 0 if self._process is None or self._process.poll() is not None else self._process.pid

    def launch(self, store: str) -> None:
        """Start the process. It serves some time later."""
        self.starts += 1
        told = {"CRASH_STORE": store, "CRASH_ADVERTISE": f"http://127.0.0.1:{self.to_node.port}"}
        command = [sys.executable, "-m", "agentrail", "serve", "scripts.crash_nodes_app:app"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [*command, "--port", f"{self.port}"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=self._environ | told,
            )

    async def wait_ready(self) -> None:
        """Wait until it serves, and its store too.

        Raises:
            RuntimeError: It has ended, or takes too long.
        """
        answer, began = "nothing", time.monotonic()
        async with httpx.AsyncClient() as client:
            while time.monotonic() - began < START_SECONDS and self.pid:
                with suppress(httpx.TransportError):
                    told = await client.get(f"http://127.0.0.1:{self.port}/ready", timeout=2)
                    if told.status_code == 200:  # noqa: PLR2004 - of HTTP
                        return
                    answer = f"{told.status_code} {told.text}"
                await trio.sleep(0.05)
        how = f"answers {answer}" if self.pid else "has ended"
        message = f"{self.name} does not serve, it {how}: {self.log.read_text(errors='replace')[-2_000:]}"
        raise RuntimeError(message)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.pid:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and collect it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def wait_end(self, seconds: float) -> int | None:
        """Wait for its end, and return its exit status. None if it takes longer."""
        with trio.move_on_after(seconds):
            while self.pid:  # noqa: ASYNC110 - a process has no event
                await trio.sleep(0.05)
        return None if self._process is None else self._process.poll()


class Cluster:
    """Nodes over one database, and nginx before them.

    Attributes:
        nodes: The nodes.
        ledger: File of the tools' runs.
        url: URL of the database, past all proxies. `plain_url` is the same without the password.
        environ: Environment of commands, with the password.
        base: URL of nginx.
    """

    def __init__(  # noqa: PLR0913 - only from `open_cluster`
        self,
        folder: Path,
        server: PostgresServer,
        database: str,
        *,
        lease: float,
        nodes: int,
        webhook: str | None,
    ) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"
        self.ledger.touch()
        (folder / "files").mkdir()
        self.server = server
        self.database = database
        self.url = server.cluster.port_url_of(database)
        scheme, _, rest = self.url.partition("://")
        user, _, place = rest.partition("@")
        user, _, password = user.partition(":")
        self.plain_url = f"{scheme}://{user}@{place}"
        self.run = f"crash-{os.getpid()}-{time.monotonic_ns()}"
        environ = {name: value for name, value in os.environ.items() if name != _NO_CACHE} | {
            RUN: self.run,
            "PGPASSWORD": password,
            "CRASH_LEASE": f"{lease:g}",
            "CRASH_LEDGER": os.fspath(self.ledger),
            "CRASH_FILES": os.fspath(folder / "files"),
            "CRASH_WEBHOOK": webhook or "",
        }
        self.environ = environ
        self.nodes = [NodeProcess(f"node-{number}", folder, environ, server.port) for number in range(nodes)]
        (self._port,) = free_ports(1)
        self.base = f"http://127.0.0.1:{self._port}"
        self._nginx: subprocess.Popen[bytes] | None = None

    def launch(self, node: NodeProcess) -> None:
        """Start a node behind its proxies."""
        through = self.plain_url.replace(f":{self.server.port}/", f":{node.to_store.port}/")
        node.launch(f"{through}?application_name={node.name}")

    def ids(self) -> dict[str, str]:
        """Return the living node id of each node's name, by the address that it advertises."""
        names = {f"http://127.0.0.1:{node.to_node.port}": node.name for node in self.nodes}
        rows = self.query(
            "SELECT convert_from(address, 'UTF8'), convert_from(id, 'UTF8') FROM agentrail.node"
            " WHERE seen_at_ms > 0 AND gone_at_ms = 0 ORDER BY seen_at_ms"
        )
        return {names[address]: one for address, one in rows if address in names}

    def query(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a query, past all proxies."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(sql, values).fetchall()

    def left_processes(self) -> list[int]:
        """Return the processes of this run that still exist: those with its name in their environment, and orphans of bubblewrap."""
        return [*_processes_of(self.run)]

    def start_nginx(self) -> None:
        """Start nginx over all nodes, in turn."""
        program = find_nginx()
        if program is None:
            message = "nginx is not installed: scripts/install_nginx.sh does it"
            raise RuntimeError(message)
        servers = "\n".join(f"        server 127.0.0.1:{node.port} max_fails=0;" for node in self.nodes)
        (self.folder / "nginx.conf").write_text(
            _NGINX.format(folder=self.folder, servers=servers, port=self._port)
        )
        command = [
            program,
            "-p",
            os.fspath(self.folder),
            "-e",
            f"{self.folder}/nginx.log",
            "-c",
            f"{self.folder}/nginx.conf",
        ]
        self._nginx = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - ours

    def close(self) -> None:
        """End all processes of the run."""
        for node in self.nodes:
            node.kill()
        if self._nginx is not None:
            self._nginx.terminate()
            self._nginx.wait()
        for pid in self.left_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes_of(run: str) -> Iterator[int]:
    mark = f"{RUN}={run}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            variables = environ.read_bytes()
            parent = environ.with_name("stat").read_text(errors="replace").rpartition(")")[2].split()[1]
            # Bubblewrap itself does not have the name of the run.
            if mark in variables or (parent == "1" and variables.endswith(b"-bubblewrap\0")):
                yield int(environ.parent.name)


@asynccontextmanager
async def open_cluster(  # noqa: PLR0913 - by keyword
    folder: Path,
    server: PostgresServer,
    database: str,
    *,
    lease: float,
    nodes: int = 3,
    webhook: str | None = None,
) -> AsyncIterator[Cluster]:
    """Create the tables and start all nodes and nginx. All processes have ended after the block."""
    migrate(server.cluster.port_url_of(database))
    cluster = Cluster(folder, server, database, lease=lease, nodes=nodes, webhook=webhook)
    with ExitStack() as stack:
        for node in cluster.nodes:
            stack.enter_context(node.to_store)
            stack.enter_context(node.to_node)
        stack.callback(cluster.close)
        for node in cluster.nodes:
            cluster.launch(node)
        cluster.start_nginx()
        for node in cluster.nodes:
            await node.wait_ready()
        yield cluster
