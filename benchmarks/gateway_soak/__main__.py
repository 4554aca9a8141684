"""`make soak-gateway`: a server with a thousand sessions is used badly, and killed every minute; nothing that it said is taken back.

Users send messages, leave in the middle, abort, and send again what got no answer; readers leave, fall asleep, and come back with their
numbers. Plugins, tools and models of the server fail as often as not (`desk`), and it is killed with SIGKILL, its journals being all that
is left. All is looked at from outside, over HTTP, SSE and WebSocket: each message that was acknowledged stands in its conversation once, each
reader is given each event once, in order, and the same after a restart as before; memory and descriptors do not grow. Else the exit status is 1.
"""

import argparse
import random
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Final

import attrs
import trio

from benchmarks.gateway_soak.alerts import AlertWatch, faults_of_alerts
from benchmarks.gateway_soak.process import decide_drift, decide_drift_faults, open_desk
from benchmarks.gateway_soak.readers import SoakReaders
from benchmarks.gateway_soak.run import SoakRun
from benchmarks.gateway_soak.senders import CALM_WORDS, WORDS, SoakSenders
from benchmarks.gateway_soak.settling import Settling

SAMPLE_SECONDS: Final = 2.0
TELL_EVERY: Final = 5
"""How many samples make a line."""

SHAPES: Final = 12
"""How many kinds of lines of the server's log are shown."""

_BUG: Final = re.compile(r"please report|Traceback")
_ID: Final = re.compile(r"\S*\d\S*")
"""What differs from line to line of the server's log."""


async def live(run: SoakRun, settling: Settling, user: str, sessions: int, nursery: trio.Nursery) -> None:
    """Be a user: send messages, one after another, to one's own sessions; those that had enough are held against the account."""
    readers = SoakReaders(run)
    senders = SoakSenders(run, readers)
    lines = []
    for _ in range(sessions):
        lines.append(run.begin(user, young=True))
        nursery.start_soon(readers.read, lines[-1])
    await trio.sleep(run.rng.random() * run.pause)
    while not run.is_ending:
        place = run.rng.randrange(len(lines))
        line = lines[place]
        if line.left > 0:
            line.left -= 1
            await senders.act(line, nursery)
        elif not line.at_work:
            lines[place] = run.begin(user)
            nursery.start_soon(readers.read, lines[place])
            nursery.start_soon(settling.settle, line)
        await trio.sleep(run.rng.expovariate(1 / run.pause))


async def kill_again_and_again(run: SoakRun, every_seconds: float) -> None:
    """Kill the server, and start it again."""
    while True:
        await trio.sleep(every_seconds * (0.9 + 0.2 * run.rng.random()))
        run.desk.kill()
        run.counts["kills"] += 1
        took = await run.desk.start(run.client)
        print(f"    kill {run.counts['kills']}: ready again within {took:.1f} s", flush=True)


async def count(run: SoakRun) -> None:
    """Count, again and again, and print it now and then."""
    began, samples = time.monotonic(), 0
    while True:
        await trio.sleep(SAMPLE_SECONDS)
        figures = run.desk.sample(run.client.is_open)
        samples += 1
        if figures is not None and samples % TELL_EVERY == 0:
            shown = "  ".join(f"{name} {value:>8,}" for name, value in attrs.asdict(figures).items())
            counts = run.counts
            print(
                f"{time.monotonic() - began:7.1f} s  {counts['acknowledged']:>7,} acknowledged  {counts['checked']:>7,} checked  "
                f"{counts['events']:>9,} events  {shown}  faults {run.faults.count}",
                flush=True,
            )


async def soak(given: argparse.Namespace) -> int:
    """Play for so long; print each figure; give the exit status."""
    print(
        f"seed {given.seed}, {given.seconds:g} s, {given.users} users, {given.sessions} sessions, "
        f"killed every {given.kill_every:g} s"
    )
    rng = random.Random(given.seed)  # noqa: S311 - no secret
    watch = AlertWatch() if given.alerts else None
    metrics = None if watch is None else watch.target
    async with open_desk(given.keep, metrics=metrics, is_calm=given.calm) as (desk, client):
        run = SoakRun(desk, client, rng, pause=given.pause, words=CALM_WORDS if given.calm else WORDS)
        async with nullcontext() if watch is None else watch.open(desk.log.parent):
            async with trio.open_nursery() as counting:
                counting.start_soon(count, run)
                await _play(run, given)
                counting.cancel_scope.cancel()
            if watch is not None:
                fired = await watch.fired()
                print(f"alerts that fired: {fired}")
                for fault in faults_of_alerts([one["alertname"] for one in fired], is_calm=given.calm):
                    run.faults.add(fault)
        status = await desk.end()
        if status != 0:
            run.faults.add(f"the server ended with {status}")
        _read_log(run)
    return _tell(run)


def copy_journals(folder: Path) -> None:
    """Copy the store of the running server, as of now."""
    with (
        closing(sqlite3.connect(folder / "soak.db")) as live,
        closing(sqlite3.connect(folder / "journals.db")) as copy,
    ):
        live.backup(copy)


async def _play(run: SoakRun, given: argparse.Namespace) -> None:
    """Let all users live for so long, then let all sessions come to rest."""
    settling = Settling(run, SoakReaders(run))
    async with trio.open_nursery() as users:
        for number in range(given.users):
            own = given.sessions * (number + 1) // given.users - given.sessions * number // given.users
            users.start_soon(live, run, settling, f"user-{number}", max(own, 1), users)
        with trio.move_on_after(given.seconds):
            await kill_again_and_again(run, given.kill_every)
        if not run.desk.is_up:  # the time was over in the middle of a start
            run.desk.kill()
            await run.desk.start(run.client)
        run.is_ending = True
        if given.keep is not None:  # those that are settled are deleted
            await trio.to_thread.run_sync(copy_journals, given.keep)
        for line in tuple(run.lines):
            users.start_soon(settling.settle, line)


def _read_log(run: SoakRun) -> None:
    """Look for bugs in the server's log, and show what else it has."""
    shapes: Counter[str] = Counter()
    for line in run.desk.log.read_text(errors="replace").splitlines():
        if _BUG.search(line):
            run.faults.add(f"the server's log: {line}")
        shapes[_ID.sub("…", line[20:160])] += 1
    for shape, times in shapes.most_common(SHAPES):
        print(f"{times:>7} × {shape}")


def _tell(run: SoakRun) -> int:
    print(f"counts: {dict(sorted(run.counts.items()))}")
    print(f"growth in a life of the server: {decide_drift(run.desk.lives)}")
    for fault in decide_drift_faults(run.desk.lives):
        run.faults.add(fault)
    print("kept" if not run.faults.count else f"broken: {run.faults.count} faults")
    return 1 if run.faults.count else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway_soak", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kill-every", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument(
        "--pause", type=float, default=4.0, help="seconds between two messages of a user, on average"
    )
    parser.add_argument(
        "--alerts",
        action="store_true",
        help="watch the server by Prometheus: the alerts of the docs that fire must be those of its faults",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="an existing directory: sessions that live when the time is over are copied to journals.db in it",
    )
    parser.add_argument("--calm", action="store_true", help="nothing fails on purpose, so no alert may fire")
    return trio.run(soak, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
