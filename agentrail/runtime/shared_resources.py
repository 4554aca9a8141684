"""State shared by the parts of a supervisor, and delegation of its methods to them."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import trio
from attrs import define, field

from agentrail.actors.actor_types import ActorView
from agentrail.actors.keyed_locks import KeyedLocks
from agentrail.errors import OptionError, SessionDown
from agentrail.messages import SessionId
from agentrail.outside import current_run
from agentrail.runtime.assembly import Dependencies
from agentrail.runtime.branch import Branch
from agentrail.runtime.ended_sessions import EndedSessions
from agentrail.runtime.fan_in import FanIn
from agentrail.runtime.persistence import Keeping
from agentrail.runtime.session_actor import SessionCell, SleepingSession
from agentrail.runtime.session_reports import ReportBoard
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.tool_sources import SessionTools

P = ParamSpec("P")
R = TypeVar("R")


def of_part(part: str, call: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Create a method that calls one of the object in this attribute, with the same name, signature and docstring."""

    @wraps(call)
    def method(self: object, *args: P.args, **kwargs: P.kwargs) -> R:
        return call(getattr(self, part), *args, **kwargs)

    return cast("Callable[Concatenate[Any, P], R]", method)


@define(eq=False)
class SessionEntry:
    cell: SessionCell
    workspace: Workspace
    branch: Branch
    life: Callable[["SessionEntry"], Awaitable[None]]
    tools: SessionTools | None = None

    def live(self) -> Awaitable[None]:
        return self.life(self)

    def look(self) -> ActorView:
        cell = self.cell
        phase = "asleep" if cell.is_asleep else "ended" if cell.state.ended else cell.state.phase.value
        return ActorView(phase, cell.mailbox.statistics().waiting, self.branch.supervisor)


@define(eq=False, kw_only=True)
class Shared:
    nursery: trio.Nursery
    run: trio.lowlevel.TrioToken = field(factory=current_run)
    keeping: Keeping | None
    dependencies: Dependencies = field(init=False)  # they refer to parts, which hold this object
    ended: EndedSessions
    entries: dict[str, SessionEntry] = field(factory=dict)
    asleep: dict[str, SleepingSession] = field(factory=dict)
    # Ended here, but their journals are not released yet.
    retiring: dict[str, SessionCell] = field(factory=dict)
    # Held while a session starts, returns or is removed. Its key is looked up inside.
    beginnings: KeyedLocks = field(factory=KeyedLocks)
    fan_in: FanIn = field(factory=FanIn)
    board: ReportBoard = field(factory=ReportBoard)
    down: str | None = None
    is_draining: bool = False

    def live(self, key: str) -> SessionEntry | None:
        entry = self.entries.get(key)
        # An ended session may still wait for a tool that does not stop, but its id is free.
        return None if entry is None or entry.cell.state.ended else entry

    def store_of(self, call: str) -> Keeping:
        if self.keeping is None:
            message = f"{call} needs a store: open_supervisor(store='sqlite:'), or 'memory:' for tests"
            raise OptionError([message])
        return self.keeping

    async def begin_journal(
        self, cell: SessionCell, *, forked_from: tuple[SessionId, int] | None = None
    ) -> None:
        if self.keeping is None:
            return
        await self.keeping.begin(cell, forked_from=forked_from)
        if self.down is not None:
            raise SessionDown(cell.ports.session_id, self.down)
