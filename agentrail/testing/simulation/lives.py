"""A process of `agentrail simulate`: lives many lives of one world, and prints a line of JSON for each.

python -m agentrail.testing.simulation.lives '{"name": "cluster", "first": 0, "step": 1, "count": 200}'
"""

import os
import sys
from contextlib import redirect_stdout
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agentrail import outside
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import what_leaves
from agentrail.structs import Value, decoder_of
from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation import determinism, shrinking, sim_files, stories, worlds
from agentrail.testing.simulation.facts import INTERRUPTED
from agentrail.testing.simulation.life import LifeInterrupted, Report, run

CHECKED_EVERY: Final = 50
"""One seed of so many is played in two processes."""


class SeedRange(Value, frozen=True, kw_only=True):
    """The seeds of one process, and how it lives them.

    Attributes:
        name: A world, or a scenario: see `find_scenario`.
        folder: Directory whose modules can be named.
        first: First seed.
        step: Difference between two seeds, so that several processes share them.
        count: Number of seeds. None: until `until`.
        until: Time at which no further life begins, in seconds since 1970. None: never.
        save: Directory for the files of broken lives.
        max_lives: Number of lives to shrink a broken one. 0: it is not shrunk.
        max_seconds: Time of a processor for that.
        shows_all: Whether a story tells each step. The only seed is also told if its life held.
    """

    name: str
    folder: str = "."
    nodes: int | None = None
    hours: float | None = None
    first: int = 0
    step: int = 1
    count: int | None = None
    until: float | None = None
    save: str = "."
    max_lives: int = shrinking.MAX_LIVES
    max_seconds: float = shrinking.MAX_SHRINKING_SECONDS
    shows_all: bool = False


_DECODER: Final = decoder_of(SeedRange)


class Lived(Value, frozen=True, kw_only=True):
    """What became of one life.

    Attributes:
        outcome: `held`, `broken`, `not repeatable`, `error` of the program, or `interrupted` by Ctrl-C.
        node_hours: Virtual time, by nodes.
        seconds: Real time.
        told: The story of a broken promise, how two lives of the seed differ, or the error.
        file: The `.sim` file of a broken or interrupted life. Empty if it could not be written.
        census: How often each situation was met.
    """

    seed: int
    outcome: str
    steps: int = 0
    node_hours: float = 0.0
    seconds: float = 0.0
    told: str = ""
    file: str = ""
    census: dict[str, int] = msgspec.field(default_factory=dict)


LIVED_DECODER: Final = decoder_of(Lived)


class LifeFailed(Exception):
    """The scenario or a node raised an exception."""


def live_one(work: SeedRange, seed: int) -> Lived:
    """Live one life. A broken one is shrunk and saved."""
    began = outside.stopwatch()
    outcome = "held"
    try:
        kind = worlds.named_world(work.name, work.folder)
        options: dict[str, Any] = {
            "nodes": kind.nodes if work.nodes is None else work.nodes,
            "hours": kind.hours if work.hours is None else work.hours,
        }
        report = run(kind.scenario, seed, **options)
        is_checked = seed % CHECKED_EVERY == 0
        if is_checked and (found := determinism.compare_lives(work.name, seed, options, work.folder)):
            return Lived(seed=seed, outcome="not repeatable", told=str(found))
    except NotRepeatable as error:
        return Lived(seed=seed, outcome="not repeatable", told=f"seed {seed} is not repeatable: {error}")
    except LifeInterrupted as error:
        report, outcome = error.report, INTERRUPTED
    except (Exception, SystemExit, BaseExceptionGroup) as error:  # sys.exit(0) would look like a success
        if what_leaves(error, (KeyboardInterrupt,)):
            raise
        message = f"seed {seed} ends with an error of the scenario or of a node: {describe_bug(error)}"
        raise LifeFailed(message) from error
    lived = Lived(
        seed=seed,
        outcome=outcome,
        steps=report.steps,
        node_hours=report.virtual_seconds * report.nodes / 3600,
        seconds=outside.stopwatch() - began,
        census=report.census.met,
    )
    if report.broken is None:
        told = stories.story(report, shows_all=True) if work.shows_all and work.count == 1 else ""
        return replace(lived, told=told)
    told, file = tell_broken(
        report, Path(work.save), work.max_lives, work.max_seconds, shows_all=work.shows_all
    )
    outcome = "broken" if outcome == "held" else outcome
    return replace(lived, outcome=outcome, told=told, file="" if file is None else str(file))


def tell_broken(
    report: Report, folder: Path | None, max_lives: int, max_seconds: float, *, shows_all: bool = False
) -> tuple[str, Path | None]:
    """Shrink a broken life, save it with its test if there is a folder, and return its story and its file. One that Ctrl-C ended is only saved."""
    assert report.broken is not None
    is_whole = report.broken.checker != INTERRUPTED
    file = test = None
    why = ""
    try:
        if max_lives and is_whole:
            report = shrinking.shrink(report, max_lives=max_lives, max_seconds=max_seconds)
    except (NotRepeatable, ImportError) as error:  # hidden state of a plugin, or no Hypothesis
        why = f"\nnot shrunk: {error}"
    try:
        if folder is not None:
            file = sim_files.save(report, sim_files.free_place_for(report, folder))
            test = sim_files.write_test(report, file, folder) if is_whole else None
    except (OSError, ValueError) as error:  # nothing can be written, or nothing would find the scenario
        why += f"\nnot saved: {error}"
    return f"{stories.story(report, shows_all=shows_all, saved=file, test=test)}{why}", file


def main(given: str) -> None:
    """Live the lives of a range of seeds, and print each."""
    work = _DECODER.decode(given)
    for seed in islice(count(work.first, work.step), work.count):
        if work.until is not None and outside.wall() >= work.until:
            break
        with redirect_stdout(sys.stderr):  # stdout is for the lives
            try:
                lived = live_one(work, seed)
            except LifeFailed as error:
                lived = Lived(seed=seed, outcome="error", told=str(error))
        sys.stdout.buffer.write(msgspec.json.encode(lived) + b"\n")
        sys.stdout.buffer.flush()
        if lived.outcome == INTERRUPTED:
            break


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:  # between two lives
        pass
    except BrokenPipeError:  # the command has ended, for example with the broken life of another process
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the buffered rest, which is flushed at the exit
