"""How a supervisor lets its idle sessions sleep, and wakes them: for a message, for who asks what they know, or when a timer is due.

One task looks after all of them, with one deadline each. To wake is to come back from the journal, as any stored session does, into the
cell that its handles, subscribers and callers hold, where there are any.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakValueDictionary

import trio

from agentrail.actors.deadlines import Deadlines
from agentrail.core.session.state import SessionState
from agentrail.errors import (
    AgentrailError,
    AlreadyStarted,
    ErrorInfo,
    InternalError,
    SessionDown,
    SessionNotFound,
)
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.otp.child_specs import Restart
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import PortCrashed, crash_edge
from agentrail.runtime.forks import Forks
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.ports import Ports
from agentrail.runtime.resting import RESTED
from agentrail.runtime.resuming import ReadySession, Resumption, WantedSession
from agentrail.runtime.resuming_door import ResumingDoor
from agentrail.runtime.reviving import StoredOpening
from agentrail.runtime.scopes import key_of
from agentrail.runtime.session import FallAsleep, SessionCell, Sleep, SleepingCell, left_of
from agentrail.runtime.shared import SessionEntry, Shared
from agentrail.runtime.workspace import Workspace

LOGGER: Final = Logger("agentrail.runtime")

AGAIN_SECONDS: Final = 30.0
"""How long a session whose timer is due sleeps on that could not be woken."""

COMING_BACK_AT_ONCE: Final = 16
"""How many sessions are read and folded at one time; the others wait their turn, and who stops waiting costs nothing.

If all that were asked for came back side by side, all would be ready at the end: a thousand readers that come back to a server which was
restarted would have given up by then, each at once, and would come again. In turn, the first are there after a moment.
"""

_IN_ONE_GO: Final = 64

What: TypeAlias = Literal["idle", "due"]

_FALL_ASLEEP: Final = FallAsleep()


class SleepingDoor(ResumingDoor):
    """What a supervisor does for sessions that sleep."""

    _shared: Shared
    _forks: Forks

    def _begin_sleeping(self, hibernate_after: float | None) -> None:
        """Begin to look after idle sessions; a task of the supervisor does, where any is to sleep.

        Args:
            hibernate_after: How many seconds a session is idle before it sleeps; None for never.
        """
        self._hibernate_after = hibernate_after
        self._stuck = set()
        # A cell without a state, for as long as a handle, a subscriber or a caller holds it.
        self._hollow: WeakValueDictionary[str, SessionCell] = WeakValueDictionary()
        self._deadlines: Deadlines[tuple[What, str]] = Deadlines()
        self._waits_until = float("inf")
        self._is_sooner = trio.Event()
        self._turns = trio.CapacityLimiter(COMING_BACK_AT_ONCE)
        if hibernate_after is not None:
            self._shared.nursery.start_soon(self._look_after_sleep, name="sleep of sessions")

    # --- falling asleep

    def _watch_sleep(self, cell: SessionCell) -> None:
        """Let a session that begins, or wakes, sleep when it was idle for long enough."""
        if self._hibernate_after is None or cell.journal is None or len(cell.bus.path) > 1:
            return
        key = cell.ports.key
        row = self._shared.asleep.pop(key, None)
        self._hollow.pop(key, None)
        self._deadlines.disarm(("due", key))
        self._arm("idle", key, trio.current_time() + self._hibernate_after)
        if cell.sleep is None:
            cell.sleep = Sleep(self._wake_soon)
            cell.sleep.was_asleep = row is not None
        else:
            cell.sleep.rise()

    def _arm(self, what: What, key: str, at_seconds: float) -> None:
        self._deadlines.arm((what, key), at_seconds)
        if at_seconds < self._waits_until:
            self._is_sooner.set()

    async def _look_after_sleep(self) -> None:
        """Let sessions sleep that are idle, and wake those whose timer is due.

        Cancellation: With the supervisor.
        """
        while True:
            self._is_sooner = trio.Event()
            self._waits_until = self._deadlines.next_seconds()
            with trio.CancelScope(deadline=self._waits_until):
                await self._is_sooner.wait()
            in_one_go = 0
            while (due := self._deadlines.take_due(trio.current_time())) is not None:
                self._look_at_one(*due)
                in_one_go += 1
                if in_one_go == _IN_ONE_GO:
                    in_one_go = 0
                    await trio.lowlevel.checkpoint()

    def _look_at_one(self, what: What, key: str) -> None:
        if what == "due":
            cell = self._hollow_of(key)
            if cell is not None:
                cell.stir()
            return
        entry, after = self._shared.entries.get(key), self._hibernate_after
        if entry is None or entry.cell.journal is None or after is None:
            return
        now, cell = trio.current_time(), entry.cell
        idle_until = cell.journal.recorded_at + after  # type: ignore[union-attr]  # looked at above
        if idle_until > now:
            self._arm("idle", key, idle_until)
            return
        self._arm("idle", key, now + after)
        # A child behind its actor is at work, whatever the session does.
        if self._shared.down is None and entry.branch.supervisor is None and cell.may_sleep():
            cell.mailbox.put_control(_FALL_ASLEEP)

    def _lie_down(self, entry: SessionEntry) -> None:
        """Let a session sleep whose actor has left: from here on a row stands for it."""
        cell, keeping = entry.cell, self._shared.keeping
        assert keeping is not None  # noqa: S101 - no other sleeps
        key = cell.ports.key
        row = self._shared.asleep[key] = left_of(cell, entry.workspace)
        keeping.leave(cell)
        del self._shared.entries[key]
        self._deadlines.disarm(("idle", key))
        self._shared.fan_in.lie_down(cell)
        cell.lie_down(row)
        self._hollow[key] = cell
        if row.due_at_ms is not None:
            self._arm("due", key, trio.current_time() + max(row.due_at_ms - now_ms(), 0) / 1000)
        if self._shared.down is not None:
            self._close_hollow(cell, RESTED)
        elif cell.sleep is not None and cell.sleep.waking is not None:  # a message came while it left
            self._wake_soon(cell)

    # --- waking

    def _hollow_of(self, key: str) -> SessionCell | None:
        """Give the cell of a session that sleeps; None of one that does not."""
        row = self._shared.asleep.get(key)
        if row is None:
            return None
        cell = self._hollow.get(key)
        if cell is None:
            cell = self._hollow[key] = SessionCell(None, row.ports, sleep=Sleep(self._wake_soon, row))
            cell.branching = self._forks
        return cell

    def _wake_soon(self, cell: SleepingCell) -> None:
        assert isinstance(cell, SessionCell)  # noqa: S101 - the one class of it
        self._shared.nursery.start_soon(self._wake, cell, name="wake")

    async def _wake(self, cell: SessionCell) -> None:
        """Wake a session, and tell who waits for it what became of that. What it was sent lies in its mailbox.

        Cancellation: With the supervisor, which has told who waits by then.
        """
        key = cell.ports.key
        try:
            async with self._shared.beginnings.reserve(key):
                row = self._shared.asleep.get(key)
                if row is None:  # it came back by another way
                    return
                wanted = WantedSession(session_id=cell.ports.session_id, scope=cell.ports.scope)
                with crash_edge(_decide_wake_crash, AgentrailError, scrub=cell.scrub):
                    await self._come_back(wanted, lambda resumption: resumption.wake(row))
        except (
            SessionDown,
            SessionNotFound,
        ) as error:  # it ended elsewhere, was deleted, or the supervisor closes
            self._forget_sleeping(cell, str(error) if self._shared.down is None else RESTED)
        except AgentrailError as error:
            self._stay_asleep(cell, error)
        except PortCrashed as crashed:
            self._stay_asleep(cell, InternalError(crashed.error.message))

    def _stay_asleep(self, cell: SessionCell, error: AgentrailError) -> None:
        """Leave a session in the store that could not be woken: who waits gets the error, and the next message tries again."""
        LOGGER.warning("session %s could not be woken: %s", cell.ports.session_id, error)
        key, sleep = cell.ports.key, cell.sleep
        cell.mailbox.drain()  # nothing of it was acknowledged
        cell.pending_calls.refuse_all(error)
        if sleep is not None:
            sleep.settle(error)
        row = self._shared.asleep.get(key)  # none where its supervisor has closed meanwhile
        if row is not None and row.due_at_ms is not None:
            self._arm("due", key, trio.current_time() + AGAIN_SECONDS)

    def _forget_sleeping(self, cell: SessionCell, reason: str) -> None:
        key = cell.ports.key
        row = self._shared.asleep.pop(key, None)
        self._shared.fan_in.forget_sleeping(key)
        self._deadlines.disarm(("due", key))
        self._hollow.pop(key, None)
        self._close_hollow(cell, reason)
        if row is not None:
            self._shared.nursery.start_soon(
                self._close_workspace, row.workspace, row.ports, name="close sandbox"
            )

    def _close_hollow(self, cell: SessionCell, reason: str) -> None:
        """Tell who holds a session that sleeps that it does not wake here any more."""
        cell.finish(reason)
        if cell.sleep is not None:
            cell.sleep.settle(None)  # who waits looks again, and finds the end

    def _close_hollows(self) -> None:
        for cell in tuple(self._hollow.values()):
            self._close_hollow(cell, RESTED)

    async def _close_sleeping(self) -> None:
        """Free what sessions hold that sleep when their supervisor closes.

        Cancellation: What is open is left.
        """
        self._close_hollows()
        rows, self._shared.asleep = tuple(self._shared.asleep.values()), {}
        async with trio.open_nursery() as nursery:
            for row in rows:
                if row.workspace.is_open:
                    nursery.start_soon(self._close_workspace, row.workspace, row.ports)

    # --- coming back, by whatever way

    async def _bring_back(self, wanted: WantedSession, give: Callable[[StoredOpening], Any]) -> Session:
        self._shared.store_of("resume_session")
        await trio.lowlevel.checkpoint()
        key = key_of(wanted.scope, wanted.session_id)
        async with self._shared.beginnings.reserve(key):
            if self._shared.down is not None:
                raise SessionDown(wanted.session_id, self._shared.down)
            live = self._shared.live(key)  # one that sleeps comes back with what is given now
            if live is not None:
                message = f"session {wanted.session_id!r} is alive already: use its handle"
                raise AlreadyStarted(message, handle=Session(live.cell))
            return await self._come_back(wanted, lambda resumption: resumption.run(give))

    async def _come_back(
        self, wanted: WantedSession, go: Callable[[Resumption], Awaitable[tuple[ReadySession, ...]]]
    ) -> Session:
        """Bring a session back whose key is reserved, and let it begin.

        Raises:
            SessionDown: The supervisor closed meanwhile.
            AgentrailError: As of `Resumption.run`.
        """
        keeping = self._shared.store_of("resume_session")
        key = key_of(wanted.scope, wanted.session_id)
        asleep = self._shared.asleep.get(key)
        resumption = Resumption(keeping, self._shared.dependencies, wanted, partial(self._cell_for, key))
        async with self._turns:
            try:
                ready = await go(resumption)
                self._check_open(keeping, ready[-1].cell)
            except BaseException:
                self._lie_down_again(key)
                raise
        for one in ready[:-1]:
            self._begin(one.cell, one.workspace, "temporary")
        root = ready[-1]
        root.cell.options = root.options
        session = self._begin(root.cell, root.workspace, root.options.restart)
        if asleep is not None and asleep.workspace is not root.workspace:
            self._shared.nursery.start_soon(
                self._close_workspace, asleep.workspace, asleep.ports, name="close sandbox"
            )
        return session

    def _check_open(self, keeping: Keeping, cell: SessionCell) -> None:
        """Let go of a session that is taken, and that comes too late.

        Raises:
            SessionDown: The supervisor has closed meanwhile.
        """
        if self._shared.down is not None:
            keeping.leave(cell)
            raise SessionDown(cell.ports.session_id, self._shared.down)

    def _cell_for(self, key: str, state: SessionState, ports: Ports, events: Sequence[Event]) -> SessionCell:
        """Make the cell of a root that comes back; where it slept, and is held, that is filled."""
        cell = self._hollow.get(key)
        if cell is None:
            return SessionCell(state, ports, events)
        cell.get_up(state, ports, events)
        return cell

    def _lie_down_again(self, key: str) -> None:
        """Empty the cell of a session that was made ready, and does not begin."""
        cell, row = self._hollow.get(key), self._shared.asleep.get(key)
        if cell is not None and row is not None:
            cell.lie_down(row)

    def _is_away(self, scope: str, session_id: str) -> bool:
        """Whether a session is neither alive here nor asleep here, with a timer of its own."""
        key = key_of(scope, session_id)
        return self._shared.live(key) is None and key not in self._shared.asleep

    @abstractmethod
    def _begin(self, cell: SessionCell, workspace: Workspace, restart: Restart) -> Session: ...

    @abstractmethod
    async def _close_workspace(self, workspace: Workspace, ports: Ports) -> None: ...


def _decide_wake_crash(error: BaseException) -> ErrorInfo:
    """Say what went wrong when a session was to wake."""
    return ErrorInfo(
        code="internal_error",
        message=f"the session could not be woken ({describe_bug(error)}); please report it",
    )
