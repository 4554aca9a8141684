"""`make soak-gateway`: a server with a thousand sessions is used badly, and killed every minute; nothing that it said is taken back.

Users send messages, leave in the middle, abort, and send again what got no answer; readers leave, fall asleep, and come back with their
numbers. Plugins, tools and models of the server fail as often as not (`soak_desk`), and it is killed with SIGKILL, its journals being all that
is left. All is looked at from outside, over HTTP, SSE and WebSocket: each message that was acknowledged stands in its conversation once, each
reader is given each event once, in order, and the same after a restart as before; memory and descriptors do not grow. Else the exit status is 1.

    python -m benchmarks.soak_gateway --seconds 600 --kill-every 60 --seed 1
"""

import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from attrs import define, frozen

from benchmarks.idle import ROOT
from benchmarks.soak_account import Faults, ReaderPlace, SentMessage, SessionAccount
from benchmarks.soak_client import Answer, Lost, SoakClient, SseFrame, SseFrames

PATIENCE_SECONDS: Final = 60.0
"""How long anything may take that has to happen: a start, a session that comes to rest, a stream that has to end."""

SETTLERS: Final = 20
SAMPLE_SECONDS: Final = 2.0
WARM_UP: Final = 0.5
"""The part of each life of the server that is left out: sessions wake, caches fill."""

LEAST_SAMPLES: Final = 12
MAX_GROWTH: Final = {"rss_kb": 8_192, "descriptors": 8, "threads": 2}
"""How much more the last third of a life may show than the first one, behind the warm-up: the median over all lives."""

RSS_PERCENT: Final = 5.0
WORDS: Final = ("", "", "", "tool", "tool", "broken", "long", "fail", "fault")
_BUG: Final = re.compile(r"please report|Traceback")
_ID: Final = re.compile(r"\S*\d\S*")
"""What differs from line to line of the server's log."""


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


# --- the server


class DeskProcess:
    """`agentrail serve benchmarks.soak_desk:app`, which is killed and started again.

    Attributes:
        port: Where, in each life.
        life: The how manieth this is.
        is_up: Whether it should answer: it was started, and not killed.
        lives: The samples of each.
    """

    def __init__(self, folder: Path) -> None:
        """Find a port; `start` starts it."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.life = 0
        self.is_up = False
        self.lives: list[list[DeskFigures]] = []
        self.log = folder / "server.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, client: SoakClient) -> float:
        """Start it, and wait until it is ready; gives how many seconds that took.

        Raises:
            RuntimeError: It does not start.
        """
        began_at = time.monotonic()
        command = [sys.executable, "-m", "agentrail", "serve", "benchmarks.soak_desk:app"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - ourselves, and it does not wait
                [*command, "--port", str(self.port)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "SOAK_FOLDER": str(self._folder)},
            )
        while time.monotonic() - began_at < PATIENCE_SECONDS:
            await trio.sleep(0.05)
            with suppress(Lost):
                if (await client.call("GET", "/ready", "", seconds=5)).status == 200:  # noqa: PLR2004 - a status
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


# --- one session


@define(eq=False)
class Line:
    """A session of one user, from its first message to its end.

    Attributes:
        account: What is known of it.
        user: Whose.
        left: How many messages it is sent still.
        is_created: Whether the server said that it is there.
        at_work: Calls that are out.
        is_over: Whether it was deleted.
        by_socket: Whether its reader reads over a WebSocket.
    """

    account: SessionAccount
    user: str
    left: int
    by_socket: bool
    is_created: bool = False
    at_work: int = 0
    is_over: bool = False

    @property
    def path(self) -> str:
        """Of its routes."""
        return f"/sessions/{self.account.session_id}"


class GatewaySoak:
    """One run."""

    def __init__(self, desk: DeskProcess, client: SoakClient, rng: random.Random, *, pause: float) -> None:
        """Begin without sessions.

        Args:
            desk: The server.
            client: Calls it.
            rng: Says what is done when.
            pause: How many seconds a user waits between two messages, on average.
        """
        self.desk = desk
        self.client = client
        self.faults = Faults()
        self.counts: Counter[str] = Counter()
        self.is_ending = False
        self.lines: dict[Line, None] = {}
        self._rng = rng
        self._pause = pause
        self._settling = trio.CapacityLimiter(SETTLERS)

    async def live(self, user: str, sessions: int, nursery: trio.Nursery) -> None:
        """Be a user: send messages, one after another, to one's own sessions; those that had enough are held against the account."""
        lines = [self._begin(user, nursery, young=True) for _ in range(sessions)]
        await trio.sleep(self._rng.random() * self._pause)
        while not self.is_ending:
            place = self._rng.randrange(len(lines))
            line = lines[place]
            if line.left > 0:
                line.left -= 1
                await self._act(line, nursery)
            elif not line.at_work:
                lines[place] = self._begin(user, nursery)
                nursery.start_soon(self.settle, line)
            await trio.sleep(self._rng.expovariate(1 / self._pause))

    def _begin(self, user: str, nursery: trio.Nursery, *, young: bool = False) -> Line:
        self.counts["sessions"] += 1
        session_id = f"{user}-{self.counts['sessions']}"
        line = Line(
            SessionAccount(session_id),
            user,
            left=self._rng.randint(1 if young else 5, 9),
            by_socket=self._rng.random() < 0.15,  # noqa: PLR2004 - about every seventh
        )
        self.lines[line] = None
        nursery.start_soon(self._read, line)
        return line

    def fault(self, line: Line, what: str) -> None:
        """Note that something is wrong."""
        self.faults.add(f"{time.strftime('%H:%M:%S')} session {line.account.session_id}: {what}")

    # --- messages

    async def _act(self, line: Line, nursery: trio.Nursery) -> None:
        """Do one thing with a session; some of it goes on beside what comes next."""
        self.counts["messages"] += 1
        name = f"m-{line.account.session_id}-{self.counts['messages']}"
        how = self._rng.choices(
            [self._prompt, self._chat, self._stream, self._steer], [5, 3, 2, 1] if line.is_created else [0, 1, 1, 0]
        )[0]  # fmt: skip
        text = f"{name} {self._rng.choice(WORDS)}"
        line.at_work += 1
        if line.is_created and self._rng.random() < 0.5:  # noqa: PLR2004 - every second
            nursery.start_soon(self._work, line, how, name, text)
        else:
            await self._work(line, how, name, text)
        if line.is_created and self._rng.random() < 0.15:  # noqa: PLR2004 - about every seventh
            line.at_work += 1
            nursery.start_soon(self._work, line, self._abort, "", "")

    async def _work(self, line: Line, how: Callable[..., Any], name: str, text: str) -> None:
        try:
            await how(line, name, text)
        finally:
            line.at_work -= 1

    async def _prompt(self, line: Line, name: str, text: str) -> None:
        message = line.account.send(name)
        said = {"message": text, "client_id": name}
        answer = await self._sent(line, f"{line.path}/prompt", said)
        if self._acknowledge(line, message, answer):
            message.seq = answer.body["seq"]
            if self._rng.random() < 0.1:  # noqa: PLR2004 - every tenth
                again = await self._sent(line, f"{line.path}/prompt", said)
                if (again.status, again.body.get("ref")) != (202, answer.body["ref"]):
                    self.fault(line, f"{name} sent again is {again.status} {again.body}, was {answer.body}")

    async def _chat(self, line: Line, name: str, text: str) -> None:
        message = line.account.send(name)
        said = {"message": text, "client_id": name, "session_id": line.account.session_id}
        answer = await self._sent(line, "/chat", said)
        self._acknowledge(line, message, answer)
        if answer.status == 200 and not answer.body["text"].startswith("re m-"):  # noqa: PLR2004 - a status
            self.fault(line, f"{name} was answered with {answer.body['text']!r:.100}")

    async def _steer(self, line: Line, name: str, text: str) -> None:
        message = line.account.send(
            name, may_drop=True
        )  # an abort takes back what the model has not read yet
        answer = await self._sent(line, f"{line.path}/steer", {"message": text, "client_id": name})
        if self._acknowledge(line, message, answer):
            message.seq = answer.body["seq"]

    async def _abort(self, line: Line, _name: str, _text: str) -> None:
        query = "?wait=true" if self._rng.random() < 0.5 else ""  # noqa: PLR2004 - every second
        await self._sent(line, f"{line.path}/abort{query}", {"reason": "the soak changed its mind"})
        self.counts["aborts"] += 1

    async def _stream(self, line: Line, name: str, text: str) -> None:
        """Send a message and read its answer as it comes, or leave in the middle."""
        leaves = self._rng.random() < 0.5  # noqa: PLR2004 - every second
        then = self._rng.choice(["continue", "abort"]) if leaves else "continue"
        message = line.account.send(name, may_drop=then == "abort")
        said = {
            "message": text,
            "client_id": name,
            "session_id": line.account.session_id,
            "on_disconnect": then,
        }
        patience = self._rng.random() * 0.5 if leaves else PATIENCE_SECONDS
        while True:
            place = ReaderPlace(-1)  # sent again it begins anew
            with suppress(Lost):
                async with self.client.stream("POST", "/stream", line.user, said) as (answer, frames):
                    if answer.status in {200, 202}:
                        self._note_acknowledged(line, message)
                        with trio.move_on_after(patience):
                            await self._watch(line, frames, place)
                        return
                if not self._is_again(line, "/stream", answer):
                    self._acknowledge(line, message, answer)
                    return
            await self._wait_up()

    async def _watch(self, line: Line, frames: SseFrames, place: ReaderPlace) -> None:
        """Read the stream of a request, to its end."""
        async for frame in frames:
            if frame.number is not None:
                self._see(line, frame)
                if place.last < 0:
                    place.last = frame.number - 1
                self._take(line, place, frame.number)

    async def _sent(self, line: Line, path: str, said: dict[str, Any]) -> Answer:
        """Send until there is an answer: what got none is sent again, under the same name."""
        while True:
            with suppress(Lost):
                answer = await self.client.call("POST", path, line.user, said)
                if not self._is_again(line, path, answer):
                    return answer
            self.counts["sent again"] += 1
            await self._wait_up()

    def _is_again(self, line: Line, path: str, answer: Answer) -> bool:
        """Say whether an answer asks for another try; what may never come is a fault."""
        if answer.status in {500, 401, 404} or answer.code in {"client_id_reused", "session_ended"}:
            self.fault(line, f"{path} was answered {answer.status} {answer.body}")
        return answer.status in {429, 503}

    async def _wait_up(self) -> None:
        await trio.sleep(0.05 + self._rng.random() * 0.2)
        while not self.desk.is_up:  # noqa: ASYNC110 - it is told of by nothing else
            await trio.sleep(0.1)

    def _acknowledge(self, line: Line, message: SentMessage, answer: Answer) -> bool:
        """Note what an answer says of a message; whether it says that there is a receipt."""
        is_accepted = answer.status in {200, 202}
        if is_accepted or "request_id" in answer.body.get("error", {}):
            self._note_acknowledged(line, message)
        else:
            self.counts[f"refused {answer.status} {answer.code}"] += 1
        return is_accepted

    def _note_acknowledged(self, line: Line, message: SentMessage) -> None:
        if not message.is_acknowledged:
            self.counts["acknowledged"] += 1
        message.is_acknowledged = line.is_created = True

    # --- readers

    async def _read(self, line: Line) -> None:
        """Be the reader of a session: leave, fall asleep, and come back, until it ends."""
        place = ReaderPlace()
        while not line.is_over:
            if line.is_created and self.desk.is_up:
                with suppress(Lost):
                    await (self._read_socket if line.by_socket else self._read_stream)(line, place)
                self.counts["readers came"] += 1
            absent = 8.0 if self._rng.random() < 0.05 else 0.2  # noqa: PLR2004 - now and then its session falls asleep
            await trio.sleep(absent * self._rng.random() + 0.05)

    async def _read_stream(self, line: Line, place: ReaderPlace) -> None:
        life = self.desk.life
        headers, query = (), f"?after={place.last}"
        if self._rng.random() < 0.5:  # noqa: PLR2004 - every second
            headers, query = (f"last-event-id: {place.last}",), ""
        async with self.client.stream(
            "GET", f"{line.path}/events{query}", line.user, headers=headers
        ) as opened:
            answer, frames = opened
            if answer.status != 200:  # noqa: PLR2004 - a status
                if not line.is_over and answer.status not in {429, 503}:
                    self.fault(
                        line, f"a reader that has {place.last} was answered {answer.status} {answer.body}"
                    )
                return
            with trio.move_on_after(self._rng.expovariate(1 / 20.0)):
                try:
                    async for frame in frames:
                        await self._take_frame(line, place, frame)
                        if frame.event == "done":
                            return
                except Lost:
                    pass
                await trio.sleep(0.2)
                if self.desk.is_up and self.desk.life == life and not line.is_over:
                    self.fault(line, "a stream ended without its done")

    async def _take_frame(self, line: Line, place: ReaderPlace, frame: SseFrame) -> None:
        if frame.number is not None:
            self._see(line, frame)
            self._take(line, place, frame.number)
            if self._rng.random() < 0.002:  # noqa: PLR2004 - seldom: it is long
                self.counts["slow readers"] += 1
                await trio.sleep(3 + 5 * self._rng.random())
        elif frame.event == "done":
            done = json.loads(frame.data)
            if done["seq"] != place.last:
                self.fault(line, f"done says {done['seq']}, the reader has {place.last}")
            if done["reason"] not in {"session_ended", "shutdown", "slow_reader"}:
                self.fault(line, f"its stream ended as {done['reason']}")
        elif frame.event in {"events_lost", "snapshot"}:
            self.fault(line, f"a reader that has {place.last} was given {frame.event}: {frame.data!r:.200}")

    async def _read_socket(self, line: Line, place: ReaderPlace) -> None:
        session_id = line.account.session_id
        async with self.client.socket(line.user) as connection:
            with trio.move_on_after(self._rng.expovariate(1 / 20.0)):
                asked = {"type": "subscribe", "id": 1, "session_id": session_id, "after": place.last}
                await connection.send_message(json.dumps(asked))
                while True:
                    frame = json.loads(await connection.get_message())
                    if frame["type"] == "event":
                        self._take_event(line, place, frame["event"])
                    elif frame["type"] == "reply":
                        if (
                            not frame["ok"]
                            and not line.is_over
                            and frame["error"]["status"] not in {429, 503}
                        ):
                            self.fault(line, f"a socket that has {place.last} was told {frame['error']}")
                        return

    def _take_event(self, line: Line, place: ReaderPlace, event: Mapping[str, Any]) -> None:
        if event.get("seq") is None or event.get("ephemeral"):
            return
        # As a stream has it: what differs there is only where it is written.
        data = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        self._see(line, SseFrame(event["kind"], data, event["seq"]))
        self._take(line, place, event["seq"])

    def _see(self, line: Line, frame: SseFrame) -> None:
        assert frame.number is not None  # noqa: S101 - it is committed
        self.counts["events"] += 1
        fault = line.account.events.see(frame.number, frame.event, _same_in_all(frame.data))
        if fault is not None:
            self.fault(line, fault)

    def _take(self, line: Line, place: ReaderPlace, number: int) -> None:
        fault = place.take(number)
        if fault is not None:
            self.fault(line, fault)

    # --- the account

    async def settle(self, line: Line) -> None:
        """Wait until a session rests, hold it against the account, and delete it."""
        del self.lines[line]
        while line.at_work:  # noqa: ASYNC110 - few are
            await trio.sleep(0.1)
        async with self._settling:
            if line.is_created:
                with trio.move_on_after(2 * PATIENCE_SECONDS) as limit:
                    await self._settle(line)
                if limit.cancelled_caught:
                    self.fault(line, "did not come to rest")
            line.is_over = True

    async def _settle(self, line: Line) -> None:
        while True:
            try:
                last_seq = await self._rest(line)
                read = await self._read_all(line, last_seq)
                answer = await self.client.call("GET", f"{line.path}/messages?limit=1000", line.user)
                if answer.status != 200:  # noqa: PLR2004 - a status
                    raise Lost
                break
            except Lost:
                await self._wait_up()
        for fault in line.account.faults(answer.body["messages"], last_seq, read):
            self.faults.add(fault)
        self.counts["checked"] += line.account.acknowledged
        self.counts["sessions checked"] += 1
        line.is_over = True
        while True:
            with suppress(Lost):
                answer = await self.client.call("DELETE", f"{line.path}?purge=true", line.user)
                if answer.status not in {204, 404, 429, 503}:
                    self.fault(line, f"DELETE was answered {answer.status} {answer.body}")
                if answer.status not in {429, 503}:
                    return
            await self._wait_up()

    async def _rest(self, line: Line) -> int:
        """Wait until a session has nothing to do; gives the number of its last event."""
        while True:
            answer = await self.client.call("GET", line.path, line.user)
            if answer.status == 404:  # noqa: PLR2004 - a status
                self.fault(line, "is lost: it was created, and is unknown")
            status = answer.body.get("status", {})
            if (
                answer.status == 200
                and status["phase"] == "idle"
                and not status["queued"]
                and not status["steers"]
            ):  # noqa: PLR2004 - a status
                seq: int = answer.body["seq"]
                return seq
            await trio.sleep(0.1)

    async def _read_all(self, line: Line, last_seq: int) -> int:
        """Read a session from its first event to its last, as one who comes late."""
        place = ReaderPlace()
        async with self.client.stream("GET", f"{line.path}/events?after=0", line.user) as (answer, frames):
            if answer.status != 200:  # noqa: PLR2004 - a status
                raise Lost
            with trio.move_on_after(PATIENCE_SECONDS):
                async for frame in frames:
                    if frame.number is not None:
                        self._see(line, frame)
                        self._take(line, place, frame.number)
                    if place.last >= last_seq:
                        break
        return place.last

    # --- time

    async def kill_again_and_again(self, every_seconds: float) -> None:
        """Kill the server, and start it again."""
        while True:
            await trio.sleep(every_seconds * (0.9 + 0.2 * self._rng.random()))
            self.desk.kill()
            self.counts["kills"] += 1
            took = await self.desk.start(self.client)
            print(
                f"    killed for the {self.counts['kills']}. time, ready again within {took:.1f} s",
                flush=True,
            )

    async def recover(self) -> None:
        """Start the server, where the time was over in the middle of that."""
        if not self.desk.is_up:
            self.desk.kill()
            await self.desk.start(self.client)

    async def count(self) -> None:
        """Count, again and again, and print it now and then."""
        began, told = time.monotonic(), 0
        while True:
            await trio.sleep(SAMPLE_SECONDS)
            figures = self.desk.sample(self.client.is_open)
            told += 1
            if figures is not None and told % 5 == 0:
                shown = "  ".join(f"{name} {value:>8,}" for name, value in attrs.asdict(figures).items())
                counts = self.counts
                print(
                    f"{time.monotonic() - began:7.1f} s  {counts['acknowledged']:>7,} acknowledged  {counts['checked']:>7,} checked  "
                    f"{counts['events']:>9,} events  {shown}  faults {self.faults.count}",
                    flush=True,
                )


def _same_in_all(data: bytes) -> bytes:
    """Write an event in one way: escapes of the framing mean the same."""
    return json.dumps(json.loads(data), sort_keys=True).encode()


# --- the run


@asynccontextmanager
async def open_desk() -> AsyncIterator[tuple[DeskProcess, SoakClient]]:
    """Start the server in a folder of its own; it is gone behind the block, however that is left."""
    with tempfile.TemporaryDirectory() as folder:
        desk = DeskProcess(Path(folder))
        client = SoakClient(desk.port)
        try:
            await desk.start(client)
            yield desk, client
        finally:
            desk.kill()


async def soak(given: argparse.Namespace) -> int:
    """Play for so long; print each figure; give the exit status."""
    print(
        f"seed {given.seed}, {given.seconds:g} s, {given.users} users, {given.sessions} sessions, killed every {given.kill_every:g} s"
    )
    rng = random.Random(given.seed)  # noqa: S311 - no secret
    async with open_desk() as (desk, client):
        run = GatewaySoak(desk, client, rng, pause=given.pause)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.count)
            async with trio.open_nursery() as users:
                for number in range(given.users):
                    own = (
                        given.sessions * (number + 1) // given.users - given.sessions * number // given.users
                    )
                    users.start_soon(run.live, f"user-{number}", max(own, 1), users)
                with trio.move_on_after(given.seconds):
                    await run.kill_again_and_again(given.kill_every)
                await run.recover()
                run.is_ending = True
                async with trio.open_nursery() as settling:
                    for line in tuple(run.lines):
                        settling.start_soon(run.settle, line)
            nursery.cancel_scope.cancel()
        await _end(run)
    return _tell(run)


async def _end(run: GatewaySoak) -> None:
    status = await run.desk.end()
    if status != 0:
        run.faults.add(f"the server ended with {status}")
    shapes: Counter[str] = Counter()
    for line in run.desk.log.read_text(errors="replace").splitlines():
        if _BUG.search(line):
            run.faults.add(f"the server's log: {line}")
        shapes[_ID.sub("…", line[20:160])] += 1
    for shape, count in shapes.most_common(12):
        print(f"{count:>7} × {shape}")


def _tell(run: GatewaySoak) -> int:
    print(f"counts: {dict(sorted(run.counts.items()))}")
    print(f"growth in a life of the server: {decide_drift(run.desk.lives)}")
    for fault in decide_drift_faults(run.desk.lives):
        run.faults.add(fault)
    print("kept" if not run.faults.count else f"broken: {run.faults.count} faults")
    return 1 if run.faults.count else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak_gateway", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kill-every", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument(
        "--pause", type=float, default=4.0, help="seconds between two messages of a user, on average"
    )
    return trio.run(soak, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
