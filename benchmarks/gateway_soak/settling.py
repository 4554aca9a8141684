"""Sessions that had enough: when they rest, they are held against the account, read once more from the beginning, and deleted."""

from contextlib import suppress
from typing import Final

import trio

from benchmarks.gateway_soak.account import ReaderPlace
from benchmarks.gateway_soak.client import OK, Lost
from benchmarks.gateway_soak.process import PATIENCE_SECONDS
from benchmarks.gateway_soak.readers import AGAIN, SoakReaders
from benchmarks.gateway_soak.run import Line, SoakRun

SETTLERS: Final = 20
"""How many are held against the account at one time."""

_GONE: Final = frozenset({204, 404})
_UNKNOWN: Final = 404


class Settling:
    """All sessions of a run that had enough."""

    def __init__(self, run: SoakRun, readers: SoakReaders) -> None:
        """Look at none yet."""
        self._run = run
        self._readers = readers
        self._places = trio.CapacityLimiter(SETTLERS)

    async def settle(self, line: Line) -> None:
        """Wait until a session rests, hold it against the account, and delete it."""
        del self._run.lines[line]
        while line.at_work:  # noqa: ASYNC110 - few are
            await trio.sleep(0.1)
        async with self._places:
            if line.is_created:
                with trio.move_on_after(2 * PATIENCE_SECONDS) as limit:
                    await self._settle(line)
                if limit.cancelled_caught:
                    self._run.fault(line, "did not come to rest")
            line.is_over = True

    async def _settle(self, line: Line) -> None:
        while True:
            with suppress(Lost):
                last_seq = await self._rest(line)
                read = await self._read_all(line, last_seq)
                answer = await self._run.client.call("GET", f"{line.path}/messages?limit=1000", line.user)
                if answer.status == OK:
                    break
            await self._run.wait_up()
        for fault in line.account.faults(answer.body["messages"], last_seq, read):
            self._run.faults.add(fault)
        self._run.counts["checked"] += line.account.acknowledged
        self._run.counts["sessions checked"] += 1
        line.is_over = True
        while True:
            with suppress(Lost):
                answer = await self._run.client.call("DELETE", f"{line.path}?purge=true", line.user)
                if answer.status not in _GONE | AGAIN:
                    self._run.fault(line, f"DELETE was answered {answer.status} {answer.body}")
                if answer.status not in AGAIN:
                    return
            await self._run.wait_up()

    async def _rest(self, line: Line) -> int:
        """Wait until a session has nothing to do; gives the number of its last event."""
        while True:
            answer = await self._run.client.call("GET", line.path, line.user)
            if answer.status == _UNKNOWN:
                self._run.fault(line, "is lost: it was created, and is unknown")
            status = answer.body.get("status", {})
            if (
                answer.status == OK
                and status["phase"] == "idle"
                and not status["queued"]
                and not status["steers"]
            ):
                seq: int = answer.body["seq"]
                return seq
            await trio.sleep(0.1)

    async def _read_all(self, line: Line, last_seq: int) -> int:
        """Read a session from its first event to its last, as one who comes late."""
        place = ReaderPlace()
        async with self._run.client.stream("GET", f"{line.path}/events?after=0", line.user) as (
            answer,
            frames,
        ):
            if answer.status != OK:
                raise Lost
            with trio.move_on_after(PATIENCE_SECONDS):
                async for frame in frames:
                    if frame.number is not None:
                        self._readers.see(line, frame)
                        self._readers.take(line, place, frame.number)
                    if place.last >= last_seq:
                        break
        return place.last
