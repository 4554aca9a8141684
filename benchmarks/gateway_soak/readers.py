"""What readers do: they leave, fall asleep, and come back with their numbers; each event is held against what others saw."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from benchmarks.gateway_soak.account import ReaderPlace
from benchmarks.gateway_soak.client import OK, Lost, SseFrame
from benchmarks.gateway_soak.run import Line, SoakRun

STAY_SECONDS: Final = 20.0
"""How long a reader stays, on average."""

AGAIN: Final = frozenset({429, 503})
"""The answers that ask for another try."""


class SoakReaders:
    """All readers of a run."""

    def __init__(self, run: SoakRun) -> None:
        """Read nothing yet."""
        self._run = run

    async def read(self, line: Line) -> None:
        """Be the reader of a session: leave, fall asleep, and come back, until it ends."""
        place = ReaderPlace()
        while not line.is_over:
            if line.is_created and self._run.desk.is_up:
                with suppress(Lost):
                    await (self._read_socket if line.by_socket else self._read_stream)(line, place)
                self._run.counts["readers came"] += 1
            absent = 8.0 if self._run.chance(0.05) else 0.2
            await trio.sleep(absent * self._run.rng.random() + 0.05)

    async def _read_stream(self, line: Line, place: ReaderPlace) -> None:
        life = self._run.desk.life
        headers, query = (), f"?after={place.last}"
        if self._run.chance(0.5):
            headers, query = (f"last-event-id: {place.last}",), ""
        async with self._run.client.stream(
            "GET", f"{line.path}/events{query}", line.user, headers=headers
        ) as opened:
            answer, frames = opened
            if answer.status != OK:
                if not line.is_over and answer.status not in AGAIN:
                    self._run.fault(
                        line, f"a reader that has {place.last} was answered {answer.status} {answer.body}"
                    )
                return
            with trio.move_on_after(self._run.rng.expovariate(1 / STAY_SECONDS)):
                try:
                    async for frame in frames:
                        await self._take_frame(line, place, frame)
                        if frame.event == "done":
                            return
                except Lost:
                    pass
                await trio.sleep(0.2)
                if self._run.desk.is_up and self._run.desk.life == life and not line.is_over:
                    self._run.fault(line, "a stream ended without its done")

    async def _take_frame(self, line: Line, place: ReaderPlace, frame: SseFrame) -> None:
        if frame.number is not None:
            self.see(line, frame)
            self.take(line, place, frame.number)
            if self._run.chance(0.002):
                self._run.counts["slow readers"] += 1
                await trio.sleep(3 + 5 * self._run.rng.random())
        elif frame.event == "done":
            done = json.loads(frame.data)
            if done["seq"] != place.last:
                self._run.fault(line, f"done says {done['seq']}, the reader has {place.last}")
            if done["reason"] not in {"session_ended", "shutdown", "slow_reader"}:
                self._run.fault(line, f"its stream ended as {done['reason']}")
        elif frame.event in {"events_lost", "snapshot"}:
            self._run.fault(
                line, f"a reader that has {place.last} was given {frame.event}: {frame.data!r:.200}"
            )

    async def _read_socket(self, line: Line, place: ReaderPlace) -> None:
        session_id = line.account.session_id
        async with self._run.client.socket(line.user) as connection:
            with trio.move_on_after(self._run.rng.expovariate(1 / STAY_SECONDS)):
                asked = {"type": "subscribe", "id": 1, "session_id": session_id, "after": place.last}
                await connection.send_message(json.dumps(asked))
                while True:
                    frame = json.loads(await connection.get_message())
                    if frame["type"] == "event":
                        self._take_event(line, place, frame["event"])
                    elif frame["type"] == "reply":
                        if not frame["ok"] and not line.is_over and frame["error"]["status"] not in AGAIN:
                            self._run.fault(line, f"a socket that has {place.last} was told {frame['error']}")
                        return

    def _take_event(self, line: Line, place: ReaderPlace, event: Mapping[str, Any]) -> None:
        if event.get("seq") is None or event.get("ephemeral"):
            return
        # As a stream has it: what differs there is only where it is written.
        data = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        self.see(line, SseFrame(event["kind"], data, event["seq"]))
        self.take(line, place, event["seq"])

    def see(self, line: Line, frame: SseFrame) -> None:
        """Hold an event against what other readers saw under its number."""
        assert frame.number is not None  # noqa: S101 - it is committed
        self._run.counts["events"] += 1
        fault = line.account.events.see(frame.number, frame.event, _same_in_all(frame.data))
        if fault is not None:
            self._run.fault(line, fault)

    def take(self, line: Line, place: ReaderPlace, number: int) -> None:
        """Hold an event against the one before."""
        fault = place.take(number)
        if fault is not None:
            self._run.fault(line, fault)


def _same_in_all(data: bytes) -> bytes:
    """Write an event in one way: escapes of the framing mean the same."""
    return json.dumps(json.loads(data), sort_keys=True).encode()
