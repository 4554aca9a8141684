"""`make bench-peers`: install the peers, run each workload once or a few times beside the bare loop, print one table.

Within a round every peer, and agentrail, stands between two runs of the bare loop, each in a process of its own, so a ratio is to the
speed that the machine had at that moment. A peer that cannot be installed, or fails, is left out with the reason.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import attrs
from attrs import frozen

from benchmarks.idle import ROOT
from benchmarks.measure import Sample
from benchmarks.peers.install import HOME, PEERS, CannotInstall, install, python_of, requirements_of
from benchmarks.peers.table import BARE, OURS, Results, Taken, render, verdict
from benchmarks.report import describe_run, machine
from benchmarks.sse_server import serve_streams

_HERE: Final = Path(__file__).parent
_QUIET: Final = {
    "OTEL_SDK_DISABLED": "true",
    "AGNO_TELEMETRY": "false",
    "ENABLE_INSTRUMENTATION": "false",
    "OPENAI_API_KEY": "stub",
}
"""No tracing, no exporters: what is left of that is a peer's own cost."""


@frozen(kw_only=True)
class Work:
    """A workload of `drive.py`.

    Attributes:
        name: There.
        count: How much of it.
        rounds: How often, at most.
        without: Who would take minutes.
    """

    name: str
    count: int
    rounds: int = 3
    without: frozenset[str] = frozenset()


WORK: Final[Mapping[str, Work]] = {
    "fresh": Work(name="fresh", count=600),
    "turns": Work(name="turns", count=100),
    "growth": Work(name="growth", count=200),
    "batch": Work(name="batch", count=100),
    "starts": Work(name="starts", count=300),
    "crowd": Work(name="crowd", count=1_000),
    "crowd-10k": Work(name="crowd", count=10_000, rounds=1, without=frozenset({"pydantic-ai"})),
    "tuned-10k": Work(name="tuned-crowd", count=10_000, rounds=1, without=frozenset({"pydantic-ai"})),
    "burst": Work(name="burst", count=1_000),
}
_QUICK_SCALE: Final = 0.05
_QUICK_LEAST: Final = 20  # of turns: those around the tenth are looked at


class Failed(Exception):
    """A run did not do its work; the text is the end of what it said."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    asked = _parser().parse_args(arguments)
    names = [BARE, OURS]
    for peer in asked.peer or PEERS:
        try:
            install(peer, asked.home)
        except CannotInstall as error:
            print(f"left out: {error}", file=sys.stderr, flush=True)
        else:
            names.append(peer)
    results: dict[str, dict[str, list[Taken]]] = {}
    with serve_streams() as address:
        for title in asked.only or WORK:
            began_at = perf_counter()
            results[title] = _take(title, names, address, asked)
            print(f"{title}: {perf_counter() - began_at:.0f} s", file=sys.stderr, flush=True)
    print(render(results, names, {peer: f"{peer} {_version_of(peer)}" for peer in names if peer in PEERS}))
    print(f"\n{describe_run()}")
    print("\n".join(line for line in (verdict(results), _versions(names)) if line))
    _write(asked.json, results, names)
    return 0


def _take(
    title: str, names: Sequence[str], address: str, asked: argparse.Namespace
) -> dict[str, list[Taken]]:
    work = WORK[title]
    count = max(round(work.count * _QUICK_SCALE), _QUICK_LEAST) if asked.quick else work.count
    taken: dict[str, list[Taken]] = {}
    for round_number in range(1 if asked.quick else min(work.rounds, asked.rounds)):
        # Turned a little further each round, so that nobody always runs behind the same one.
        order = [name for name in names if name != BARE and name not in work.without]
        turned = round_number % len(order)
        run = partial(_run, home=asked.home, workload=work.name, count=count, address=address)
        before = run(BARE)
        for name in order[turned:] + order[:turned]:
            try:
                sample = run(name)
            except Failed as error:
                print(f"{title} of {name} failed: {error}", file=sys.stderr, flush=True)
                continue
            after = run(BARE)
            taken.setdefault(name, []).append(Taken(sample=sample, before=before, after=after))
            before = after
    return taken


def _run(name: str, *, home: Path, workload: str, count: int, address: str) -> Sample:
    if name in {BARE, OURS}:
        command = [sys.executable, "-m", "benchmarks.peers.here", name]
    else:
        command = [str(python_of(name, home)), str(_HERE / "drive.py"), name]
    environment = {**os.environ, **_QUIET, "BENCH_SERVER": address}
    try:
        ran = subprocess.run(  # noqa: S603 - ourselves, and what was just installed
            [*command, workload, str(count)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    except subprocess.TimeoutExpired as error:
        message = "it took more than ten minutes"
        raise Failed(message) from error
    if ran.returncode:
        message = "\n".join(ran.stderr.strip().splitlines()[-3:])
        raise Failed(message)
    sample: Sample = json.loads(ran.stdout.strip().splitlines()[-1])
    return sample


def _version_of(peer: str) -> str:
    return requirements_of(peer)[0].partition("==")[2]


def _versions(names: Sequence[str]) -> str:
    return "\n".join(f"{peer}: {', '.join(requirements_of(peer))}" for peer in names if peer in PEERS)


def _write(path: Path, results: Results, names: Sequence[str]) -> None:
    document = {
        "machine": machine(),
        "versions": {peer: requirements_of(peer) for peer in names if peer in PEERS},
        "results": {
            title: {name: [attrs.asdict(run) for run in runs] for name, runs in taken.items()}
            for title, taken in results.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--quick", action="store_true", help="whether it still works; its figures mean nothing"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is taken, at most 3")
    parser.add_argument("--only", action="append", choices=WORK, metavar="NAME", help=", ".join(WORK))
    parser.add_argument("--peer", action="append", choices=PEERS, metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--home", type=Path, default=HOME, metavar="PATH", help="where environments are made")
    parser.add_argument("--json", type=Path, default=ROOT / "bench-results" / "peers.json", metavar="PATH")
    return parser


if __name__ == "__main__":
    sys.exit(main())
