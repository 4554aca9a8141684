"""The server of the soak as a process: started, killed, started again; and what it holds, counted from outside."""

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import trio
from attrs import frozen

from benchmarks.gateway_soak.client import OK, Lost, SoakClient
from benchmarks.idle import ROOT

PATIENCE_SECONDS: Final = 60.0
"""How long a start, or an end, may take."""

WARM_UP: Final = 0.5
"""The part of each life of the server that is left out: readers come back, sessions wake, caches fill."""

LEAST_SAMPLES: Final = 12
MAX_GROWTH: Final = {"rss_kb": 8_192, "descriptors": 8, "threads": 2}
"""How much more the last third of a life may show than the first one, behind the warm-up: the median over all lives."""

RSS_PERCENT: Final = 5.0


@frozen(kw_only=True)
class DeskFigures:
    """What the server holds, counted from outside.

    Attributes:
        rss_kb: Resident memory.
        descriptors: Open files, less the connections that this process has with it.
        threads: Of the process.
    """

    rss_kb: int
    descriptors: int
    threads: int


def decide_drift(lives: Sequence[Sequence[DeskFigures]]) -> dict[str, float]:
    """Say how much each figure grew in a life of the server: the median over all lives that were long enough to say.

    Args:
        lives: The samples of each, in order.
    """
    grown: dict[str, list[float]] = {}
    for samples in lives:
        kept = [attrs.asdict(one) for one in samples[int(len(samples) * WARM_UP) :]]
        if len(samples) < LEAST_SAMPLES:
            continue
        third = max(1, len(kept) // 3)
        for name in kept[0]:
            last = statistics.median(one[name] for one in kept[-third:])
            grown.setdefault(name, []).append(last - statistics.median(one[name] for one in kept[:third]))
    return {name: statistics.median(values) for name, values in grown.items()}


def decide_drift_faults(lives: Sequence[Sequence[DeskFigures]]) -> list[str]:
    """Say what is not flat."""
    if not lives:
        return []
    allowed = dict(MAX_GROWTH)
    largest = max((one.rss_kb for samples in lives for one in samples), default=0)
    allowed["rss_kb"] = max(allowed["rss_kb"], round(largest * RSS_PERCENT / 100))
    return [
        f"{name} grew by {grew:,.0f} in a life of the server, allowed are {allowed[name]:,}"
        for name, grew in decide_drift(lives).items()
        if grew > allowed[name]
    ]


class DeskProcess:
    """`agentrail serve` with an application of the benchmarks, which is killed and started again.

    Attributes:
        port: Where, in each life.
        life: Number of the current run of the server.
        is_up: Whether it should answer: it was started, and not killed.
        lives: The samples of each.
    """

    def __init__(
        self,
        folder: Path,
        *,
        app: str = "benchmarks.gateway_soak.desk:app",
        metrics: int | None = None,
        is_calm: bool = False,
    ) -> None:
        """Find a port; `start` starts it.

        Args:
            folder: For its journals and its log.
            app: What is served.
            metrics: Port of its metrics. None for no metrics.
            is_calm: Whether nothing in it fails on purpose.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.life = 0
        self.is_up = False
        self.lives: list[list[DeskFigures]] = []
        self.log = folder / "server.log"
        self._folder, self._app = folder, app
        self._process: subprocess.Popen[bytes] | None = None
        self._more = [] if metrics is None else ["--metrics", f"127.0.0.1:{metrics}"]
        self._told = {
            name: "1"
            for name, is_on in (("SOAK_CALM", is_calm), ("SOAK_METRICS", metrics is not None))
            if is_on
        }

    async def start(self, client: SoakClient) -> float:
        """Start it, and wait until it is ready; gives how many seconds that took.

        Raises:
            RuntimeError: It does not start.
        """
        began_at = time.monotonic()
        command = [sys.executable, "-m", "agentrail", "serve", self._app]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - ourselves, and it does not wait
                [*command, "--port", str(self.port), *self._more],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "SOAK_FOLDER": str(self._folder), **self._told},
            )
        while time.monotonic() - began_at < PATIENCE_SECONDS:
            await trio.sleep(0.05)
            with suppress(Lost):
                if (await client.call("GET", "/ready", "", seconds=5)).status == OK:
                    self.life += 1
                    self.lives.append([])
                    self.is_up = True
                    return time.monotonic() - began_at
            if self._process.poll() is not None:
                break
        message = (
            f"the server does not start (exit status {self._process.poll()}): {self.log.read_text()[-2_000:]}"
        )
        raise RuntimeError(message)

    def kill(self) -> None:
        """Kill it, at once; again if you like."""
        self.is_up = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def end(self) -> int | None:
        """Ask it to stop, and give its exit status; None where it does not."""
        assert self._process is not None  # noqa: S101 - it was started
        self.is_up = False
        self._process.terminate()
        with trio.move_on_after(PATIENCE_SECONDS):
            while self._process.poll() is None:  # noqa: ASYNC110 - a process has no event
                await trio.sleep(0.05)
        return self._process.poll()

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the process so far."""
        assert self._process is not None  # noqa: S101 - it was started
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def sample(self, connections: int) -> DeskFigures | None:
        """Count; None where it is not there."""
        if self._process is None or not self.is_up:
            return None
        home = Path(f"/proc/{self._process.pid}")
        try:
            pages = int((home / "statm").read_text().split()[1])
            descriptors = sum(1 for _ in (home / "fd").iterdir())
            threads = sum(1 for _ in (home / "task").iterdir())
        except OSError:
            return None
        figures = DeskFigures(
            rss_kb=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
            descriptors=descriptors - connections,
            threads=threads,
        )
        self.lives[-1].append(figures)
        return figures


@asynccontextmanager
async def open_desk(
    kept: Path | None = None, **options: Any
) -> AsyncIterator[tuple[DeskProcess, SoakClient]]:
    """Start the server in a folder of its own, or one that is kept; it is gone behind the block, however that is left."""
    with TemporaryDirectory() if kept is None else nullcontext(kept) as folder:
        desk = DeskProcess(Path(folder), **options)
        client = SoakClient(desk.port)
        try:
            await desk.start(client)
            yield desk, client
        finally:
            desk.kill()
