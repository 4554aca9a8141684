"""`story(report)`: a broken life as one page: what an outside observer could have seen, in order."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentrail.testing.simulation.facts import CallAsked, FaultChange
from agentrail.testing.simulation.log import WORLD, LogLine
from agentrail.testing.simulation.shrinking import count_faults, count_prompts
from agentrail.testing.simulation.sim_files import name_of_scenario

if TYPE_CHECKING:
    from agentrail.testing.simulation.life import Report

STORY_LINES: Final = 60
"""Longest story, with head and foot."""

FEW_LINES: Final = 24
"""Length of a story up to which less important lines are in it."""

_HEAD_AND_FOOT: Final = 3
_RANKS: Final = {"fault": 1, "node": 1, "tool": 2, "person": 4, "note": 5}
_MAIN_RANK: Final = 2
_STORE_RANK: Final = 3
_ASIDE: Final = frozenset({"other", "status", "receipt"})
"""Requests that change nothing."""

_OWNERSHIP: Final = frozenset({"create", "take", "claim", "append", "release", "delete", "erase", "trim"})
"""Calls of the store that change the owner or the content of a session."""


def story(
    report: "Report", *, shows_all: bool = False, saved: Path | None = None, test: Path | None = None
) -> str:
    """Return the story of a life, without a newline at its end.

    Args:
        report: The life.
        shows_all: Whether to show each line of the log.
        saved: Its `.sim` file, if there is one.
        test: The test that was written for it, if there is one.
    """
    lines = report.log.lines
    shown = list(range(len(lines))) if shows_all else _chosen(report)
    left_out = len(lines) - len(shown)
    return "\n".join(
        (
            _head(report),
            *(_told(report, index) for index in shown),
            *([f"   {left_out} more lines with --all"] if left_out else []),
            _foot(report, saved, test),
        )
    )


def _chosen(report: "Report") -> list[int]:
    lines = report.log.lines
    end = len(lines) - 1 if report.broken is None else report.broken.line
    ranks = {index: _rank(line) for index, line in enumerate(lines[: end + 1])}
    if report.broken is not None and lines:
        ranks[end] = 0
    # Lines near the end explain more.
    order = sorted(
        (index for index, rank in ranks.items() if rank is not None), key=lambda index: abs(end - index)
    )
    order.sort(key=lambda index: ranks[index] or 0)
    chosen: list[int] = []
    for index in order[: STORY_LINES - _HEAD_AND_FOOT]:
        if (ranks[index] or 0) <= _MAIN_RANK or len(chosen) < FEW_LINES - _HEAD_AND_FOOT:
            chosen.append(index)
    return sorted(chosen)


def _rank(line: LogLine) -> int | None:
    """How important a line is, from 0. None: an outside observer cannot see it."""
    if line.kind == "store":
        return _STORE_RANK if getattr(line.facts, "name", "") in _OWNERSHIP else None
    if isinstance(line.facts, CallAsked) and line.facts.request not in _ASIDE:
        return _MAIN_RANK
    if isinstance(line.facts, FaultChange) and line.facts.is_over:
        return _STORE_RANK
    return _RANKS.get(line.kind)


def _told(report: "Report", index: int) -> str:
    line = report.log.lines[index]
    who = "FAULT" if line.kind == "fault" else "" if line.place == WORLD else line.place
    broken = report.broken
    told = f"{line.at:10.3f}  {who:<8} {line.said}"
    if broken is None or broken.line != index:
        return told
    first, *_ = broken.said.splitlines() or [""]  # pytest adds lines to what an assertion says
    return f"{told}   ← BROKEN: {first}"


def _head(report: "Report") -> str:
    what = f'breaks "{report.broken.checker}"' if report.broken is not None else "holds"
    about = [f"scenario={getattr(report.scenario, '__qualname__', report.scenario)}, nodes={report.nodes}"]
    before = report.shrunk
    if before is not None:
        about.append(
            f"shrunk from {_counted(before.faults, 'fault')}, {_counted(before.prompts, 'prompt')} "
            f"to {count_faults(report.log)}, {count_prompts(report.log)}"
        )
        about.append(f"{_counted(before.lives, 'life', 'lives')}, {before.seconds:.0f} s")
    return f"seed {report.seed} {what} ({'; '.join(about)})"


def _foot(report: "Report", saved: Path | None, test: Path | None) -> str:
    again = f"play again: agentrail simulate {saved or _options(report)}"
    return again if test is None else f"{again}   ·   as a test: {test} (written)"


def _options(report: "Report") -> str:
    size = f"--nodes {report.nodes} --hours {report.seconds / 3600:g}"
    return f"--scenario {name_of_scenario(report.scenario)} --seed {report.seed} {size}"


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
