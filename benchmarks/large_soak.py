"""`make soak-large`: a server with 100,000 stored sessions, 10,000 in memory and 1,000 readers, and whether its figures stay as they are.

Writers ask each session in memory in turn. After a few cycles a session is deleted and another one begins, so that journals have a steady length. Readers
follow sessions, leave and come back with their number. Others page through the list, read stored sessions and ask them, which wakes them. Memory, descriptors,
threads, CPU per cycle and the time of an answer are sampled. If one of the first three grows, a call fails or a reader has a gap, the exit status is 1.

    python -m benchmarks.large_soak --seconds 3600
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from agentrail.host.identity import SessionOwner, user_data_of
from benchmarks.bare import ANSWER
from benchmarks.gateway_soak.client import OK, Answer, Lost, SoakClient
from benchmarks.gateway_soak.process import DeskProcess, decide_drift, decide_drift_faults
from benchmarks.large_desk import STORE, USER
from benchmarks.measure import percentile
from benchmarks.ours import expect
from benchmarks.returns import fill

_NO_CONTENT: Final = 204  # of HTTP

PROMPT: Final = "please add 2 and 3"
CYCLES_OF_A_LIFE: Final = 4
STAY_SECONDS: Final = 120.0
SAMPLE_SECONDS: Final = 5.0
ROWS: Final = 10
"""Rows of the table. Each stands for a tenth of the run."""


class LargeSoak:
    """One run.

    Attributes:
        counts: What was done.
        faults: What must not happen, in words.
    """

    def __init__(self, desk: DeskProcess, client: SoakClient, options: argparse.Namespace) -> None:
        """Begin with nothing asked."""
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._desk, self._client, self._options = desk, client, options
        self._rng = random.Random(options.seed)  # noqa: S311 - no secret
        self._lives = [0] * options.live
        self._cycles = [0] * options.live
        self._next = 0
        self._took: list[float] = []

    async def run(self) -> list[dict[str, float]]:
        """Play for the time that was asked for, and return the rows of the table."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._options.writers):
                nursery.start_soon(self._write)
            while self._next < self._options.live:  # each session in memory has begun  # noqa: ASYNC110 - as seen from outside
                await trio.sleep(0.1)
            for _ in range(self._options.readers):
                nursery.start_soon(self._read)
            nursery.start_soon(self._look)
            rows = [await self._measure(self._options.seconds / ROWS) for _ in range(ROWS)]
            nursery.cancel_scope.cancel(reason="the time is over")
        return rows

    async def _measure(self, seconds: float) -> dict[str, float]:
        began, cpu, before = time.monotonic(), self._desk.cpu_seconds, self.counts.copy()
        self._took.clear()
        figures = None
        while time.monotonic() - began < seconds or figures is None:
            await trio.sleep(min(SAMPLE_SECONDS, seconds))
            figures = self._desk.sample(self._client.is_open)
        done, took = self.counts - before, self._took
        row = {
            "rss_mib": figures.rss_kb / 1024,
            "descriptors": figures.descriptors,
            "threads": figures.threads,
            "cycles_per_second": done["asked"] / (time.monotonic() - began),
            "events_per_second": done["events"] / (time.monotonic() - began),
            "cpu_ms_per_cycle": 1e3 * (self._desk.cpu_seconds - cpu) / max(1, done["asked"]),
            "p50_ms": 1e3 * percentile(took, 50),
            "p99_ms": 1e3 * percentile(took, 99),
        }
        print("  ".join(f"{name} {value:,.1f}" for name, value in row.items()), flush=True)
        return row

    def _name(self, place: int) -> str:
        return f"live-{place}-{self._lives[place]}"

    async def _call(self, method: str, path: str, body: Any = None) -> Answer | None:
        with suppress(Lost):
            answer = await self._client.call(method, path, "", body)
            if answer.status in {OK, _NO_CONTENT}:
                return answer
            self.faults.append(f"{method} {path} was answered {answer.status} {answer.body}")
            return None
        self.faults.append(f"{method} {path} was not answered")
        return None

    async def _ask(self, session_id: str) -> None:
        began = time.monotonic()
        answer = await self._call("POST", "/chat", {"message": PROMPT, "session_id": session_id})
        if answer is not None:
            expect("the answer", answer.body["text"], ANSWER)
        self._took.append(time.monotonic() - began)
        self.counts["asked"] += 1

    async def _write(self) -> None:
        while True:
            place = self._next % self._options.live
            self._next += 1
            if self._cycles[place] == CYCLES_OF_A_LIFE:
                await self._call("DELETE", f"/sessions/{self._name(place)}")
                self._lives[place] += 1
                self._cycles[place] = 0
            # In the first round the sessions get different ages, so that later ones end at an even pace.
            again = 1 + place % CYCLES_OF_A_LIFE if self._next <= self._options.live else 1
            for _ in range(again):
                await self._ask(self._name(place))
            self._cycles[place] += again
            if self._next > self._options.live:
                await trio.sleep(self._options.pause * self._options.writers)

    async def _read(self) -> None:
        """Follow one session after another until it is deleted. Leave and come back now and then."""
        while True:
            name = self._name(self._rng.randrange(self._options.live))
            last, is_over = 0, False
            while not is_over:
                with trio.move_on_after(self._rng.expovariate(1 / STAY_SECONDS)), suppress(Lost):
                    path = f"/sessions/{name}/events?after={last}"
                    async with self._client.stream("GET", path, "") as (answer, frames):
                        is_over = answer.status != OK
                        async for frame in frames:
                            is_over = is_over or frame.event == "done"
                            if frame.number is None:
                                continue
                            if frame.number != last + 1:
                                self.faults.append(f"{name}: event {frame.number} came behind {last}")
                            last = frame.number
                            self.counts["events"] += 1
                self.counts["returns"] += not is_over
                await trio.sleep(0.1)

    async def _look(self) -> None:
        """Page through the list, and read and ask sessions that only the store has."""
        while True:
            page, number = "/sessions?limit=100", self._rng.randrange(self._options.stored)
            for _ in range(5):
                answer = await self._call("GET", page)
                after = None if answer is None else answer.body["next_cursor"]
                if after is None:
                    break
                page = f"/sessions?limit=100&cursor={after}"
                self.counts["pages"] += 1
            await self._call("GET", f"/sessions/s-{number:06}/messages")
            await self._ask(f"s-{number:06}")
            self.counts["woken"] += 1
            await trio.sleep(2)


async def soak(folder: Path, options: argparse.Namespace) -> int:
    """Serve the store of a folder, play, and return the exit status."""
    desk = DeskProcess(folder, app="benchmarks.large_desk:app")
    client = SoakClient(desk.port)
    try:
        print(f"it starts in {await desk.start(client):.2f} s", flush=True)
        run = LargeSoak(desk, client, options)
        await run.run()
    finally:
        desk.kill()
    print(f"done: {dict(run.counts)}; growth: {decide_drift(desk.lives)}")
    faults = [*run.faults, *decide_drift_faults(desk.lives)]
    for fault in faults[:20]:
        print(f"FAULT: {fault}")
    print("flat" if not faults else f"not flat: {len(faults)} faults")
    return 1 if faults else 0


def main(arguments: Sequence[str]) -> int:
    """Run the soak that the arguments describe."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_soak", description=__doc__)
    for name, value in (
        ("seconds", 3_600),
        ("stored", 100_000),
        ("live", 10_000),
        ("readers", 1_000),
        ("writers", 8),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two cycles")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        user_data = user_data_of(SessionOwner.of(USER), "desk")
        fill(Path(folder) / STORE, options.stored, scope=USER.tenant_id, user_data=user_data)
        return trio.run(soak, Path(folder), options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
