"""The alerts of `docs/operations/alerts.yml` in a soak: a Prometheus scrapes its server each second, over all kills."""

import os
import shutil
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import trio
import yaml

from benchmarks.idle import ROOT

_UNPACKED: Final = ROOT / ".peers/prometheus/usr/bin/prometheus"
"""Where `scripts/install_prometheus.sh` unpacks it."""

_START_SECONDS: Final = 30.0

_FIRED_BY_FAULTS: Final = frozenset({"AgentrailPluginFailing"})

_NEAR: Final = frozenset({"AgentrailCyclesFailing"})
"""A ninth of the messages fails on purpose, and the bound is a tenth: it may fire, or not."""


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def faults_of_alerts(fired: Collection[str], *, is_calm: bool) -> list[str]:
    """Return the alerts that fired although the faults of the soak do not cause them, and the missing ones.

    Args:
        fired: Their names.
        is_calm: Whether nothing failed on purpose, so that none may fire.
    """
    expected = frozenset[str]() if is_calm else _FIRED_BY_FAULTS
    wrong = {*fired} - (expected if is_calm else _FIRED_BY_FAULTS | _NEAR)
    return [
        *(f"{one} fired, and nothing that failed on purpose causes it" for one in sorted(wrong)),
        *(f"{one} did not fire" for one in sorted(expected - {*fired})),
    ]


class AlertWatch:
    """A Prometheus that watches one server.

    Attributes:
        target: Port of the server's metrics.
    """

    def __init__(self) -> None:
        """Find free ports."""
        self.target = free_port()
        self._base = f"http://127.0.0.1:{free_port()}"

    async def fired(self) -> list[dict[str, str]]:
        """Return the labels of the alerts that have fired so far, `alertname` among them.

        Raises:
            RuntimeError: It has not scraped the server even once, so that it could not know.
        """
        if not await self._ask("sum_over_time(up[1d]) > 0"):
            message = "Prometheus has not scraped the server"
            raise RuntimeError(message)
        found = await self._ask('max_over_time(ALERTS{alertstate="firing"}[1d])')
        return [one["metric"] for one in found]

    @asynccontextmanager
    async def open(self, folder: Path) -> AsyncIterator[None]:
        """Run it, with its files in a folder.

        Raises:
            RuntimeError: Prometheus is missing, or it does not start.
        """
        program = str(_UNPACKED) if _UNPACKED.exists() else shutil.which("prometheus")
        if program is None:
            message = "Prometheus is missing: run scripts/install_prometheus.sh"
            raise RuntimeError(message)
        config: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [os.fspath(ROOT / "docs/operations/alerts.yml")],
            "scrape_configs": [
                {"job_name": "agentrail", "static_configs": [{"targets": [f"127.0.0.1:{self.target}"]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={self._base.removeprefix('http://')}",
            "--log.level=error",
        ]
        async with trio.open_nursery() as nursery:
            process = await nursery.start(partial(trio.run_process, command))
            with trio.fail_after(_START_SECONDS):
                while not await self._is_up():  # noqa: ASYNC110 - another process
                    await trio.sleep(0.2)
            yield
            process.terminate()

    async def _is_up(self) -> bool:
        try:
            await self._ask("1")
        except (httpx.TransportError, httpx.HTTPStatusError):
            return False
        return True

    async def _ask(self, expression: str) -> list[Any]:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self._base}/api/v1/query", params={"query": expression})
        answer.raise_for_status()
        result = answer.json()["data"]["result"]
        return result if isinstance(result, list) else []
