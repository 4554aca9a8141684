"""Readable assertions on published events: `events_of(session)`, `expect(events).kinds(…)`, `tree(events)`."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Self, TypeVar

import trio

from agentrail.events import (
    TERMINAL,
    AgentStart,
    Event,
    RequestStart,
    ResponseComplete,
    Retry,
    StreamError,
)
from agentrail.runtime.session_handle import Session

E = TypeVar("E")

_INDENT = "  "


async def events_of(session: Session) -> list[Event]:
    """Return all committed events of a session so far, oldest first, also of an ended session.

    If the session keeps fewer events than it has published (`event_buffer_size`), the first one is `EventsLost`.

    Cancellation: Always a checkpoint.
    """
    await trio.lowlevel.checkpoint()
    seen: list[Event] = []
    async with session.subscribe(after=0, deltas=False) as events:
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                seen.append(events.next_nowait())
    return seen


def expect(events: Iterable[Event]) -> "Expectation":
    """Start an expectation about events. Its methods can be chained."""
    return Expectation(tuple(events))


class Expectation:
    """Expectations about events. Each method raises `AssertionError` with the tree of all events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def kinds(self, *wanted: type[Event]) -> Self:
        """Expect these kinds in this order, with any other kinds between them."""
        came = [type(event) for event in self._events if type(event) in wanted]
        self._check(came == list(wanted), f"expected {_names(wanted)}, got {_names(came)}")
        return self

    def exactly(self, *wanted: type[Event]) -> Self:
        """Expect these kinds in this order, and no others."""
        came = [type(event) for event in self._events]
        self._check(came == list(wanted), f"expected {_names(wanted)} and nothing else")
        return self

    def never(self, *unwanted: type[Event]) -> Self:
        """Expect none of these kinds."""
        came = [type(event) for event in self._events if type(event) in unwanted]
        self._check(not came, f"expected no {_names(unwanted)}, got {_names(came)}")
        return self

    def one(self, kind: type[E]) -> E:
        """Expect exactly one event of a kind, and return it."""
        came = [event for event in self._events if isinstance(event, kind)]
        self._check(len(came) == 1, f"expected one {kind.__name__}, got {len(came)}")
        return came[0]

    def _check(self, holds: bool, complaint: str) -> None:  # noqa: FBT001 - the verdict itself
        # Not an assert: pytest rewrites those of its plugins, and would write "assert False" below the tree.
        if not holds:
            drawn = f"{complaint}; what was published:\n{tree(self._events)}"
            raise AssertionError(drawn)


def tree(events: Iterable[Event]) -> str:
    """Format events as a tree, one line each. The events of a cycle or a request are indented below its start."""
    lines: list[str] = []
    depth = 0
    in_request = False
    for event in events:
        if isinstance(event, ResponseComplete | StreamError | Retry) or type(event) in TERMINAL:
            depth, in_request = depth - in_request, False
        if type(event) in TERMINAL:
            depth = 0
        lines.append(f"{_INDENT * depth}{type(event).__name__}{_name_in(event)}")
        if isinstance(event, AgentStart | RequestStart):  # not calls: they run concurrently
            depth += 1
            in_request = isinstance(event, RequestStart)
    return "\n".join(lines)


def _name_in(event: Event) -> str:
    name = getattr(event, "name", None)
    return f" {name}" if isinstance(name, str) else ""


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds) or "nothing"
