"""What happened in a simulated life, in one order. Checkers, the census and the story read it, and nothing else."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import trio
from attrs import frozen

from agentrail import outside

LineKind: TypeAlias = Literal[
    "fault",  # a fault began or ended; `said` is its sentence, `facts` is a `FaultChange`
    "node",  # a node started, stopped, continued, left, was killed: `facts` is a `NodeChange`
    "store",  # a call that the store executed: `facts` is a `StoreCall`
    "step",  # a session made a step: `facts` is a `Step`
    "effect",  # an effect was carried out, or a caller answered: `facts` is the effect
    "event",  # a committed event was published: `facts` is the event
    "tool",  # a tool changed the outside world: `facts` is a `LedgerEntry`
    "person",  # a person asked or was answered: `facts` is an `Asked` or an `Answered`
    "read",  # a reader connected or received an event: `facts` is a `Subscribed` or a `Read`
    "log",  # the product logged a warning or an error: `facts` is a `Logged`
    "note",  # a line of the program, `Calm` and `Closed`
]

WORLD: Final = "world"
"""Place of what belongs to no node and no client: the store, the network, the faults."""


@frozen
class LogLine:
    """One line of the log.

    Attributes:
        at: Seconds of virtual time since the beginning of the life.
        place: Node, client or `WORLD`.
        session: Id of the session, or empty.
        said: The line as people read it.
        facts: A value for checkers. See `LineKind`.
    """

    at: float
    place: str
    kind: LineKind
    session: str
    said: str
    facts: Any = None


def place_of_caller() -> str:
    """Return the node or client of the current task."""
    place: str = getattr(outside.current(), "place", WORLD)
    return place


class LifeLog:
    """All lines of a life.

    Attributes:
        lines: The lines, in order.
        watchers: Called with each new line at once.
    """

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.watchers: list[Callable[[LogLine], None]] = []

    def note(
        self, kind: LineKind, said: str, *, session: str = "", place: str | None = None, facts: Any = None
    ) -> None:
        """Add a line about the current place, or about another one."""
        at = trio.current_time() if trio.lowlevel.in_trio_run() else 0.0
        line = LogLine(at, place_of_caller() if place is None else place, kind, session, said, facts)
        self.lines.append(line)
        for watch in self.watchers:
            watch(line)
