"""What the parts of a supervisor share, and how their calls become calls of the supervisor."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

import trio
from attrs import define, field

from agentrail.actors.start import ActorView
from agentrail.errors import OptionError, SessionDown
from agentrail.messages import SessionId
from agentrail.runtime.assembly import Dependencies
from agentrail.runtime.branch import Branch
from agentrail.runtime.fan_in import FanIn
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.last_words import EndedSessions
from agentrail.runtime.session import SessionCell, SleepingSession
from agentrail.runtime.session_reports import ReportBoard
from agentrail.runtime.workspace import Workspace


class Beginnings:
    """The keys that a task of this supervisor has to itself for now."""

    def __init__(self) -> None:
        self._under_way: dict[str, trio.Event] = {}

    @asynccontextmanager
    async def reserve(self, key: str) -> AsyncIterator[None]:
        """Wait until no other task has a key, and have it until the block ends. What is known of the key must be asked inside.

        Cancellation: At once while it waits; the key is free again whatever ends the block.
        """
        while key in self._under_way:  # not `if`: of several that waited, one is faster
            await self._under_way[key].wait()
        is_over = self._under_way[key] = trio.Event()
        try:
            yield
        finally:
            del self._under_way[key]
            is_over.set()


P = ParamSpec("P")
R = TypeVar("R")
PartT = TypeVar("PartT")
WholeT = TypeVar("WholeT")


def of_part(
    part_of: Callable[[WholeT], PartT], call: Callable[Concatenate[PartT, P], R]
) -> Callable[Concatenate[WholeT, P], R]:
    """Make a method of a whole that calls a method of its part, with that one's name, signature and docstring."""

    @wraps(call)
    def method(self: WholeT, *args: P.args, **kwargs: P.kwargs) -> R:
        return call(part_of(self), *args, **kwargs)

    return cast("Callable[Concatenate[WholeT, P], R]", method)


@define(eq=False)
class SessionEntry:
    """A session under supervision."""

    cell: SessionCell
    workspace: Workspace
    branch: Branch

    def look(self) -> ActorView:
        """Say how it looks in a tree."""
        cell = self.cell
        phase = "asleep" if cell.is_asleep else "ended" if cell.state.ended else cell.state.phase.value
        return ActorView(phase, cell.mailbox.statistics().waiting, self.branch.supervisor)


@define(eq=False, kw_only=True)
class Shared:
    """State that more than one part of a supervisor reads.

    A part holds this object and never a copy of a field: `ask_host` replaces `dependencies`, and closing sets `down`.

    Attributes:
        nursery: Runs the tasks of sessions; it outlives each of them.
        keeping: The store with its writer; None without a store.
        down: Why no more sessions are taken; None while they are.
    """

    nursery: trio.Nursery
    keeping: Keeping | None
    dependencies: Dependencies = field(init=False)  # they name parts, which hold this object
    ended: EndedSessions
    entries: dict[str, SessionEntry] = field(factory=dict)
    asleep: dict[str, SleepingSession] = field(factory=dict)
    beginnings: Beginnings = field(factory=Beginnings)
    fan_in: FanIn = field(factory=FanIn)
    board: ReportBoard = field(factory=ReportBoard)
    down: str | None = None

    def live(self, key: str) -> SessionEntry | None:
        """Return the entry of a session that has not ended."""
        entry = self.entries.get(key)
        # One that has ended may still wait for a tool that will not stop; its id is free all the same.
        return None if entry is None or entry.cell.state.ended else entry

    def store_of(self, call: str) -> Keeping:
        """Return the store."""
        if self.keeping is None:
            message = f"{call} needs a store: open_supervisor(store='sqlite:'), or 'memory:' for tests"
            raise OptionError([message])
        return self.keeping

    async def begin_journal(
        self, cell: SessionCell, *, forked_from: tuple[SessionId, int] | None = None
    ) -> None:
        """Begin the journal of a new session, where there is a store."""
        if self.keeping is None:
            return
        await self.keeping.begin(cell, forked_from=forked_from)
        if self.down is not None:
            raise SessionDown(cell.ports.session_id, self.down)
