"""`make crash`: a process that writes journals is killed at any moment, ten thousand times, and nothing it was told is lost.

    python -m scripts.crash --rounds 10000 --seed 1
    python -m scripts.crash --sessions --rounds 1000 --delay 0.3
    python -m scripts.crash --sessions --rounds 500 --delay 0.3 --slow --changed --busy 4

A child says on a pipe what it is about to write and what it was told to be durable; this process kills it with SIGKILL, and the
next child says what it finds. Then what was acknowledged is there, what is there was attempted, each append whole or not at
all, numbers are dense, epochs never fall, a tool ran only with a durable record of its call, and one that is `once` at most
once. Ends with 1 where one of these is broken, and leaves the directory with the store where it says.

With `--sessions` the child is a supervisor whose sessions answer prompts and run tools: then each prompt that has a receipt is in
the conversation of its session once, when that has come back and rests, and each call has one result.

With `--slow` their plugin sometimes takes longer than it may, with `--changed` each life has another one, and with `--busy 4` four
processes compute beside them all; `--durability strict` is the supervisor's option.

A killed process leaves what the operating system has taken; what a power cut leaves is another matter, of `fsync`.
"""

import argparse
import importlib
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec
from attrs import mutable

from agentrail.stores.sqlite import SqliteStore
from scripts.crash_account import Account, Found, Frame, Looked, Lost, Ready
from scripts.crash_sessions import work_sessions
from scripts.crash_worker import LENGTH, OpenStore, work as work_on_records

ROUNDS_OF_A_STORE: Final = 25
"""After so many kills a new store is begun, or each round would read what all before it wrote."""

EARLY_RATE: Final = 0.25
"""How many of the kills come while the store is opened, read or taken."""

PATIENCE_SECONDS: Final = 180.0
Work: TypeAlias = Callable[[int, OpenStore, Path, str], None]

_CHUNK_BYTES: Final = 1 << 16
_FRAME: Final[msgspec.msgpack.Decoder[Frame]] = msgspec.msgpack.Decoder(Frame)


@mutable
class Totals:
    """What happened so far.

    Attributes:
        rounds: How often a process was killed.
        early: How many of them before it had taken all sessions.
        attempted: How many groups of records were to be written.
        acknowledged: How many of them were said to be durable.
        recovered: How many records were found, after all kills.
        ran: How often a tool acted.
    """

    rounds: int = 0
    early: int = 0
    attempted: int = 0
    acknowledged: int = 0
    recovered: int = 0
    ran: int = 0

    def close(self, account: Account) -> None:
        """Add what is known of a store, when it was killed often enough."""
        self.attempted += len(account.attempted) + len(account.asked)
        self.acknowledged += len(account.durable) + len(account.receipts)
        self.recovered += account.recovered
        self.ran += account.ran.total()

    def __str__(self) -> str:
        """As one line."""
        return (
            f"{self.rounds} kills, {self.early} of them early: {self.attempted} appends attempted, {self.acknowledged} "
            f"acknowledged, {self.recovered} records recovered, tools ran {self.ran} times"
        )


class Victim:
    """A process that works, and what it says."""

    def __init__(self, work: Work, open_store: OpenStore, path: Path, seed: str) -> None:
        """Start it."""
        self._pipe, its_end = os.pipe()
        # Forked, and not started anew: of a fresh interpreter's second nothing could be killed that is worth it. There is
        # one thread here, and no store was ever opened.
        self._pid = os.fork()
        if not self._pid:
            os.close(self._pipe)
            try:
                work(its_end, open_store, path, seed)
            finally:
                os._exit(1)
        os.close(its_end)
        self._buffer = bytearray()
        self._is_over = False

    def frames(self, until: float) -> Iterator[Frame]:
        """Give what it says up to a moment, on the clock of `time.monotonic`, or to its end."""
        while not self._is_over:
            yield from self._whole()
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._pipe], [], [], left)[0]:
                return
            chunk = os.read(self._pipe, _CHUNK_BYTES)
            self._buffer += chunk
            self._is_over = not chunk

    def _whole(self) -> Iterator[Frame]:
        """Give the frames that are whole; of the last one a part may have come, and then what it says was never done."""
        while len(self._buffer) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            frame = _FRAME.decode(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            yield frame

    def kill(self) -> Iterator[Frame]:
        """Kill it, and give what it had said and was not read yet."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
            yield from self.frames(time.monotonic() + PATIENCE_SECONDS)
            os.close(self._pipe)


def run_round(victim: Victim, account: Account, early: float | None, late: float) -> bool:
    """Let a process work, kill it, and hold what it found against what those before it were told.

    Args:
        victim: It.
        account: What is known of its store.
        early: After how many seconds it is killed, counted from its start; None for later.
        late: After how many seconds it is killed, counted from when it begins to write.

    Returns:
        Whether it was killed before it began to write.

    Raises:
        Lost: What it found is not what it should have found.
    """
    found: list[Found] = []
    is_ready = False

    def hear(frame: Frame) -> bool:
        if isinstance(frame, Found):
            found.append(frame)
        elif isinstance(frame, Looked):
            account.check(found)
            account.check_conversations()
        else:
            account.hear(frame)
        return isinstance(frame, Ready)

    try:
        until = time.monotonic() + (PATIENCE_SECONDS if early is None else early)
        is_ready = any(hear(frame) for frame in victim.frames(until))
        if is_ready:
            for frame in victim.frames(time.monotonic() + late):
                hear(frame)
        elif early is None:
            message = f"the process did not begin to write within {PATIENCE_SECONDS} s"
            raise Lost(message)
    finally:
        said = list(victim.kill())
    return not any([hear(frame) for frame in said] + [is_ready])


def run_rounds(options: argparse.Namespace, folder: Path, totals: Totals) -> None:
    """Kill one process after another, until there were enough.

    Raises:
        Lost: A promise was broken; `totals` has the round.
    """
    ends_at = time.monotonic() + options.seconds
    open_store = opener(options.store)
    work: Work = work_on_records
    if options.sessions:
        work = partial(
            work_sessions, is_slow=options.slow, is_changed=options.changed, durability=options.durability
        )
    account = Account()
    path = folder / "0"
    while totals.rounds < options.rounds and time.monotonic() < ends_at:
        if totals.rounds % ROUNDS_OF_A_STORE == 0:
            totals.close(account)
            account = Account()
            shutil.rmtree(path, ignore_errors=True)
            path = folder / str(totals.rounds)
            path.mkdir(mode=0o700)
        seed = f"{options.seed}-{totals.rounds}"
        chance = random.Random(seed)  # noqa: S311 - the same moments again, as far as a machine has the same moments
        early = chance.uniform(0, options.delay) if chance.random() < EARLY_RATE else None
        was_early = run_round(
            Victim(work, open_store, path, seed), account, early, chance.uniform(0, options.delay)
        )
        totals.rounds += 1
        totals.early += was_early
        if totals.rounds % options.every == 0:
            print(f"{totals}", flush=True)
    # What the last kill left is looked at, too.
    run_round(Victim(work, open_store, path, f"{options.seed}-last"), account, None, 0)
    totals.close(account)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Let so many processes compute as long as the block runs."""
    pids: list[int] = []
    try:
        for _ in range(count):
            pid = os.fork()
            if not pid:
                while os.getppid() == _PID:  # it ends with its parent, however that ends
                    sum(range(100_000))
                os._exit(0)
            pids.append(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


_PID: Final = os.getpid()


def opener(name: str | None) -> OpenStore:
    """Give what opens stores: that of a name `module:function`, or the SQLite store."""
    if name is None:
        return lambda path: SqliteStore(path / "sessions.db")
    module, _, function = name.partition(":")
    return cast("OpenStore", getattr(importlib.import_module(module), function))


def main(arguments: list[str] | None = None) -> int:
    """Run as many rounds as are asked for; say how it went."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument(
        "--sessions", action="store_true", help="kill whole sessions, not only what writes records"
    )
    parser.add_argument("--slow", action="store_true", help="with --sessions: their plugin is sometimes slow")
    parser.add_argument(
        "--changed", action="store_true", help="with --sessions: each life has another plugin"
    )
    parser.add_argument(
        "--durability",
        choices=("grouped", "strict"),
        default="grouped",
        help="with --sessions: what waits for a record",
    )
    parser.add_argument("--busy", type=int, default=0, help="so many processes compute meanwhile")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end after so long, whatever was asked for"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--delay", type=float, default=0.06, help="the longest time in seconds before a kill")
    parser.add_argument("--every", type=int, default=100, help="say how it goes after so many rounds")
    parser.add_argument(
        "--store", help="module:function that opens a store in a directory; SQLite unless given"
    )
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="agentrail-crash-"))
    totals = Totals()
    print(f"seed {options.seed}, stores in {folder}", flush=True)
    try:
        with busy_processes(options.busy):
            run_rounds(options, folder, totals)
    except Lost as lost:
        print(
            f"{totals}\nround {totals.rounds} of seed {options.seed}: {lost}\nthe store is in {folder}",
            flush=True,
        )
        return 1
    shutil.rmtree(folder)
    print(f"{totals}: nothing was lost", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
