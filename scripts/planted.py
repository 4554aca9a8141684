"""Plant distributed bugs in copies of this checkout, and measure how soon the lives of a world show each of them.

    python -m scripts.planted [--strategies portfolio,pct] [--seconds 60] [--seeds 1] [PART OF A NAME ...]

Prints a row for each bug and strategy: seconds of a core until a checker broke in a life that holds without the bug, or "not found".
Ends with 1 if a bug was not found, or no longer applies. The seed of the first life is `--first`, by default the date.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any, Final

from agentrail.testing.simulation.checkers import standard_checkers
from agentrail.testing.simulation.gods_eye import Checker
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.schedule import Schedule
from agentrail.testing.simulation.worlds import WORLDS

ROOT: Final = Path(__file__).parent.parent
LIVES_PER_SEED: Final = 1_000_000
GRACE_SECONDS: Final = 60  # for imports and the last life


def main(arguments: Sequence[str]) -> int:
    """Measure the bugs whose names contain one of the parts, or all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.planted", description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--strategies", default="portfolio")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=int(time.strftime("%Y%m%d")))
    parser.add_argument("--hours", type=float, default=0.02, help="longest life, without its calm end")
    parser.add_argument("--rate", type=float, default=0.0, help="faults per hour; 0: as usual")
    parser.add_argument("--without", default="", help="a checker to switch off")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.live:
        world, strategy, first = options.parts
        print(json.dumps(live_until_broken(world, strategy, int(first), options)))
        return 0
    return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    from tests.simulation.planted_bugs import PLANTED  # noqa: PLC0415 - a copy has no tests

    rows: list[dict[str, Any]] = []
    print("| bug | strategy | seconds | lives | checker |\n|---|---|---|---|---|")
    for bug in PLANTED:
        if options.parts and not any(part in bug.file for part in options.parts):
            continue
        with tempfile.TemporaryDirectory(prefix="agentrail-planted-") as directory:
            fault = plant(bug, Path(directory))
            for strategy, seed in product(options.strategies.split(","), range(options.seeds)):
                first = options.first + seed * LIVES_PER_SEED
                row = {"bug": bug.file, "world": bug.world, "strategy": strategy, "first": first}
                row |= {"outcome": fault} if fault else _try(Path(directory), row, options)
                rows.append(row)
                said = f"{row['seconds']:.1f}" if row["outcome"] == "found" else row["outcome"]
                last = f"{row.get('lives', '')} | {row.get('checker', '')}"
                print(f"| {bug.file.replace('-', ' ')} | {strategy} | {said} | {last} |", flush=True)
        if options.json:
            options.json.parent.mkdir(exist_ok=True)
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(not rows or any(row["outcome"] != "found" for row in rows))


def plant(bug: Any, tree: Path) -> str | None:
    """Copy the library and this script into a folder, with a bug; return why it cannot be lived, or None."""
    if bug.world not in WORLDS:
        return f"no world {bug.world} yet"
    for folder in ("agentrail", "scripts"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    mutant = bug.read()
    file = tree / "agentrail" / mutant.file
    mutated: str | None = mutant.apply(file.read_text(encoding="utf-8"))
    file.write_text(mutated or "", encoding="utf-8")
    return "the patch no longer applies" if mutated is None else None


def _try(tree: Path, row: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Live until a life breaks that holds without the bug."""
    first, left, lives = row["first"], options.seconds, 0
    while True:
        found = _live(tree, row, first, left, options)
        lives, left = lives + found["lives"], left - found["seconds"]
        if found["outcome"] != "found" or _live(ROOT, row, found["seed"], 0.0, options)["outcome"] != "found":
            return {**found, "seconds": options.seconds - left, "lives": lives}
        first = found["seed"] + 1


def _live(tree: Path, row: Any, first: int, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "scripts.planted", "--live", f"--seconds={seconds:.1f}"]
    command += [
        f"--hours={options.hours}",
        f"--rate={options.rate}",
        f"--without={options.without}",
        "--",
        row["world"],
    ]
    command += [row["strategy"], str(first)]
    limit = int(seconds) + GRACE_SECONDS
    limited = partial(resource.setrlimit, resource.RLIMIT_CPU, (limit, limit))
    ended = subprocess.run(  # noqa: S603 - this script, in a copy
        command, cwd=tree, capture_output=True, text=True, check=False, preexec_fn=limited
    )
    if ended.returncode == 0:
        return dict(json.loads(ended.stdout.splitlines()[-1]))
    outcome = "a life has no end" if ended.returncode < 0 else "the process failed"
    return {"outcome": outcome, "seconds": limit, "lives": 0, "said": ended.stderr[-200:]}


def live_until_broken(world: str, strategy: str, first: int, options: argparse.Namespace) -> dict[str, Any]:
    """Live lives of a world until one breaks a promise or raises an error, or the processor time has passed."""
    kind = WORLDS[world]

    def dense(world: Any) -> None:
        kind.scenario(world)
        if options.rate:
            world.faults(world.allowed_faults, rate=options.rate)

    def checkers(world: Any) -> tuple[Checker, ...]:
        return tuple(one for one in standard_checkers(world) if one.name != options.without)

    schedule = Schedule(strategy)  # type: ignore[arg-type] # the first life refuses another one
    ways: dict[str, Any] = {
        "nodes": kind.nodes,
        "hours": min(kind.hours, options.hours),
        "schedule": schedule,
    }
    began = time.process_time()
    for seed in count(first):
        checker = said = ""
        try:
            broken = run(dense, seed, checkers=checkers, **ways).broken
            if broken is not None:
                checker, said = broken.checker, broken.said
        except Exception as raised:  # noqa: BLE001 - a node that crashes shows its bug, too
            checker, said = "an error ends the life", repr(raised)
        found = {"seconds": time.process_time() - began, "lives": seed - first + 1, "seed": seed}
        if checker:
            return {"outcome": "found", "checker": checker, "said": said, **found}
        if found["seconds"] >= options.seconds:
            return {"outcome": "not found", **found}
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
