"""The census: which situations lives have met. A situation that no life meets is a blind spot of the world.

A cell is a text such as `phase × signal: STREAMING × AbortCycle`. `census.toml` lists the cells that may stay empty, with reasons.
"""

import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args

from attrs import define, field, frozen

from agentrail.core.protocol.effects import Effect
from agentrail.core.session.state import Phase
from agentrail.core.session.transitions import LEGALITY
from agentrail.events import SessionRecovered
from agentrail.testing.faulty_store import WRITING_CALLS
from agentrail.testing.simulation.facts import Closed, FaultChange, SessionStep, StoreCall
from agentrail.testing.simulation.faults import FaultFamily
from agentrail.testing.simulation.log import LogLine

_AFTERMATH_SECONDS: Final = 5.0
"""How long a fault without a duration, such as a kill, counts for the effects of others."""

_DECISIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "request": "sent_again",
        "timer": "kept",
        "plugin_request": "run_again given_up",
        "context": "sent_again",
        "tool": "begun run_again asked unknown given_up",
        "child": "resumed given_up",
        "host": "sent_again given_up",
        "teardown": "given_up",
        "question": "kept expired given_up",
        "approval": "kept expired",
        "client_call": "kept expired",
        "prompt": "kept",
        "steer": "kept",
    }
)
"""The decisions of `agentrail.core.session.recovery`, by what was open."""

_READING_CALLS: Final = ("read", "get", "find", "owned", "nodes", "snapshots")
_WRITTEN_BY_NODES: Final = (
    *("create", "take", "take_many", "claim", "release"),
    *("append", "put_snapshot", "beat", "gone"),
)
_CLOSINGS: Final = ("ended", "rested", "moved", "parked")


@cache
def all_cells() -> tuple[str, ...]:
    """Return every cell, sorted."""
    return tuple(sorted(_cells()))


def _cells() -> Iterator[str]:
    for phase in Phase:
        yield from (f"phase × signal: {phase.name} × {signal.__name__}" for signal in LEGALITY)
    for effect in get_args(Effect):
        yield from (f"effect × fault: {effect.__name__} × {family}" for family in get_args(FaultFamily))
    for what, decisions in _DECISIONS.items():
        yield from (f"recovery decision: {what} × {decision}" for decision in decisions.split())
    for name in (*_READING_CALLS, *_WRITTEN_BY_NODES):
        troubles = (
            "away",
            "lost before",
            "lost after",
            "slow",
            *(("full",) if name in WRITING_CALLS else ()),
        )
        yield from (f"store trouble: {name} × {trouble}" for trouble in troubles)
    yield from (f"store trouble: {name}" for name in ("restarted", "failed over"))
    yield from (f"close reason: {reason}" for reason in _CLOSINGS)


@frozen
class MayBeEmpty:
    """A reason for which cells may stay empty.

    Attributes:
        cells: Cells or shell patterns.
        reason: Why no life meets them.
    """

    cells: tuple[str, ...]
    reason: str


@cache
def reasons() -> tuple[MayBeEmpty, ...]:
    """Return the list of `census.toml`."""
    read: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(MayBeEmpty(tuple(row["cells"]), row["reason"]) for row in read["may_be_empty"])


@define(eq=False)
class Census:
    """The cells that one or several lives met.

    Attributes:
        met: How often each cell was met.
    """

    met: dict[str, int] = field(factory=dict)
    _active: dict[str, float] = field(factory=dict, init=False)

    def see(self, line: LogLine) -> None:
        """Count what a line meets."""
        facts = line.facts
        if isinstance(facts, SessionStep):
            self._count(f"phase × signal: {facts.before.phase.name} × {type(facts.signal).__name__}")
        elif isinstance(facts, FaultChange):
            is_short = facts.is_over or facts.family == "node"
            self._active[facts.family] = line.at + _AFTERMATH_SECONDS if is_short else float("inf")
        elif isinstance(facts, StoreCall):
            if facts.trouble in {"restarted", "failed over"}:
                self._count(f"store trouble: {facts.trouble}")
            elif facts.trouble:
                self._count(f"store trouble: {facts.name} × {facts.trouble}")
        elif isinstance(facts, Closed):
            self._count(f"close reason: {_closing_of(facts)}")
        elif isinstance(facts, SessionRecovered):
            for one in facts.decisions:
                self._count(f"recovery decision: {one.open} × {one.decision}")
        if line.kind in {"effect", "event"}:
            effect = "Publish" if line.kind == "event" else type(facts).__name__
            for family, until in self._active.items():
                if line.at <= until:
                    self._count(f"effect × fault: {effect} × {family}")

    def merge(self, other: "Census") -> None:
        """Add the counts of another census."""
        for cell, count in other.met.items():
            self.met[cell] = self.met.get(cell, 0) + count

    def empty(self) -> tuple[str, ...]:
        """Return the cells that were never met and have no reason for that, sorted."""
        patterns = [pattern for one in reasons() for pattern in one.cells]
        return tuple(
            cell
            for cell in all_cells()
            if cell not in self.met and not any(fnmatchcase(cell, pattern) for pattern in patterns)
        )

    def _count(self, cell: str) -> None:
        self.met[cell] = self.met.get(cell, 0) + 1


def _closing_of(closed: Closed) -> str:
    if closed.is_moved:
        return "moved"
    if closed.is_rested:
        return "rested"
    return "parked" if closed.reason.startswith("parked") else "ended"
