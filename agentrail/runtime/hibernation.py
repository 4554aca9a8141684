"""Hibernation: idle sessions leave memory and come back, and stored sessions resume, with one way back for all of them.

A session that is idle for long enough suspends: its actor ends, and a small row with its timer takes its place. A message, a reader or
the timer restores it from its journal, into the cell that its handles, subscribers and callers hold, where there are any. Sessions of an
earlier process come back the same way: on request, when a supervisor opens, and when a timer in the store is due.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, Unpack
from weakref import WeakValueDictionary

import trio
from attrs import frozen

from agentrail.abc import Provider
from agentrail.abc.store import Cause, Filters
from agentrail.actors.deadlines import Deadlines
from agentrail.core.session.state import SessionState
from agentrail.errors import (
    AgentrailError,
    AlreadyStarted,
    ErrorInfo,
    InternalError,
    JournalDrifted,
    OptionError,
    SessionDown,
    SessionNotFound,
    StoreUnavailable,
)
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.child_specs import Restart
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.arguments import fault_of_choice, fault_of_flag, fault_of_text, refuse
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import PortCrashed, crash_edge
from agentrail.runtime.forks import Forks
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import Keeping, OnDrift
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.ports import Ports
from agentrail.runtime.resting import RESTED
from agentrail.runtime.resuming import ReadySession, Resumption, WantedSession
from agentrail.runtime.reviving import StoredOpening
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope, key_of
from agentrail.runtime.session import FallAsleep, SessionCell, Sleep, SleepingCell, left_of
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.shared import SessionEntry, Shared
from agentrail.runtime.shutdown import close_workspace
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

Revive: TypeAlias = Callable[[StoredOpening], SessionOptions | Mapping[str, Any] | None]
"""Gives what a stored session needs of its code: all options, or some by name; None for a session that needs none."""

Resume: TypeAlias = Literal["none", "working", "all"]
"""Which stored sessions come back when a supervisor is opened: none, those that had work, or all that have not ended."""

_AT_ONCE: Final = 100

_ROOTS: Final = Filters(only_roots=True, has_ended=False)

RESUMED_AT_ONCE: Final = 8
"""How many sessions are brought back side by side when a supervisor is opened."""

TIMERS_EVERY_SECONDS: Final = 60.0

SOON_MS: Final = 600_000
"""How long before its timer is due a session is brought back: far longer than the pause between two looks, so that none is late."""


@frozen(kw_only=True)
class NotResumed:
    """A stored session that did not come back by itself, and is as it was.

    Attributes:
        session_id: Which one.
        scope: Of which scope.
        error: Why.
    """

    session_id: SessionId
    scope: str
    error: AgentrailError


class Hibernation:
    """The part of a supervisor that suspends and restores sessions."""

    def __init__(  # noqa: PLR0913 - what it calls back
        self,
        shared: Shared,
        forks: Forks,
        *,
        begin: Callable[[SessionCell, Workspace, Restart], Session],
        note_parked: Callable[[str, SessionId, str], None],
        revive: Revive | None,
        after: float | None,
    ) -> None:
        """Start the task that suspends and wakes sessions, where any hibernates."""
        self._shared = shared
        self._forks = forks
        self._begin, self._note_parked = begin, note_parked
        self._revive = revive
        self._after = after
        self._stuck: set[tuple[str, str]] = set()
        # A cell without a state, for as long as a handle, a subscriber or a caller holds it.
        self._hollow: WeakValueDictionary[str, SessionCell] = WeakValueDictionary()
        self._deadlines: Deadlines[tuple[What, str]] = Deadlines()
        self._waits_until = float("inf")
        self._is_sooner = trio.Event()
        self._turns = trio.CapacityLimiter(COMING_BACK_AT_ONCE)
        if after is not None:
            shared.nursery.start_soon(self._run_timers, name="sleep of sessions")

    # --- falling asleep

    def watch(self, cell: SessionCell) -> None:
        """Suspend a session that begins, or was restored, when it has been idle for long enough."""
        if self._after is None or cell.journal is None or len(cell.bus.path) > 1:
            return
        key = cell.ports.key
        row = self._shared.asleep.pop(key, None)
        self._hollow.pop(key, None)
        self._deadlines.disarm(("due", key))
        self._arm("idle", key, trio.current_time() + self._after)
        if cell.sleep is None:
            cell.sleep = Sleep(self._start_wake)
            cell.sleep.was_asleep = row is not None
        else:
            cell.sleep.mark_awake()

    def _arm(self, what: What, key: str, at_seconds: float) -> None:
        self._deadlines.arm((what, key), at_seconds)
        if at_seconds < self._waits_until:
            self._is_sooner.set()

    async def _run_timers(self) -> None:
        """Suspend sessions that are idle, and wake those whose timer is due.

        Cancellation: With the supervisor.
        """
        while True:
            self._is_sooner = trio.Event()
            self._waits_until = self._deadlines.next_seconds()
            with trio.CancelScope(deadline=self._waits_until):
                await self._is_sooner.wait()
            in_one_go = 0
            while (due := self._deadlines.take_due(trio.current_time())) is not None:
                self._handle_timer(*due)
                in_one_go += 1
                if in_one_go == _IN_ONE_GO:
                    in_one_go = 0
                    await trio.lowlevel.checkpoint()

    def _handle_timer(self, what: What, key: str) -> None:
        if what == "due":
            cell = self.hollow_of(key)
            if cell is not None:
                cell.request_wake()
            return
        entry, after = self._shared.entries.get(key), self._after
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

    def suspend(self, entry: SessionEntry) -> None:
        """Suspend a session whose actor has left: from here on a row stands for it."""
        cell = entry.cell
        keeping = self._shared.store_of("hibernation")
        key = cell.ports.key
        row = self._shared.asleep[key] = left_of(cell, entry.workspace)
        keeping.leave(cell)
        del self._shared.entries[key]
        self._deadlines.disarm(("idle", key))
        self._shared.fan_in.suspend(cell)
        cell.suspend(row)
        self._hollow[key] = cell
        if row.due_at_ms is not None:
            self._arm("due", key, trio.current_time() + max(row.due_at_ms - now_ms(), 0) / 1000)
        if self._shared.down is not None:
            self._close_hollow(cell, RESTED)
        elif cell.sleep is not None and cell.sleep.waking is not None:  # a message came while it left
            self._start_wake(cell)

    # --- waking

    def hollow_of(self, key: str) -> SessionCell | None:
        """Return the cell of a suspended session; None for any other."""
        row = self._shared.asleep.get(key)
        if row is None:
            return None
        cell = self._hollow.get(key)
        if cell is None:
            cell = self._hollow[key] = SessionCell(None, row.ports, sleep=Sleep(self._start_wake, row))
            cell.branching = self._forks
        return cell

    def _start_wake(self, cell: SleepingCell) -> None:
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
                    await self._restore(wanted, lambda resumption: resumption.wake(row))
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
            self._shared.nursery.start_soon(close_workspace, row.workspace, row.ports, name="close sandbox")

    def _close_hollow(self, cell: SessionCell, reason: str) -> None:
        """Tell who holds a session that sleeps that it does not wake here any more."""
        cell.finish(reason)
        if cell.sleep is not None:
            cell.sleep.settle(None)  # who waits looks again, and finds the end

    def close_hollow(self) -> None:
        """End the cells of suspended sessions that someone holds."""
        for cell in tuple(self._hollow.values()):
            self._close_hollow(cell, RESTED)

    async def close(self) -> None:
        """Free what sessions hold that sleep when their supervisor closes.

        Cancellation: What is open is left.
        """
        self.close_hollow()
        rows, self._shared.asleep = tuple(self._shared.asleep.values()), {}
        async with trio.open_nursery() as nursery:
            for row in rows:
                if row.workspace.is_open:
                    nursery.start_soon(close_workspace, row.workspace, row.ports)

    # --- coming back, by whatever way

    async def _restore_stored(self, wanted: WantedSession, give: Callable[[StoredOpening], Any]) -> Session:
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
            return await self._restore(wanted, lambda resumption: resumption.run(give))

    async def _restore(
        self, wanted: WantedSession, go: Callable[[Resumption], Awaitable[tuple[ReadySession, ...]]]
    ) -> Session:
        """Bring a session back whose key is reserved, and let it begin."""
        keeping = self._shared.store_of("resume_session")
        key = key_of(wanted.scope, wanted.session_id)
        asleep = self._shared.asleep.get(key)
        resumption = Resumption(keeping, self._shared.dependencies, wanted, partial(self._cell_for, key))
        async with self._turns:
            try:
                ready = await go(resumption)
                self._check_open(keeping, ready[-1].cell)
            except BaseException:
                self._suspend_again(key)
                raise
        for one in ready[:-1]:
            self._begin(one.cell, one.workspace, "temporary")
        root = ready[-1]
        root.cell.options = root.options
        session = self._begin(root.cell, root.workspace, root.options.restart)
        if asleep is not None and asleep.workspace is not root.workspace:
            self._shared.nursery.start_soon(
                close_workspace, asleep.workspace, asleep.ports, name="close sandbox"
            )
        return session

    def _check_open(self, keeping: Keeping, cell: SessionCell) -> None:
        """Let go of a session that is taken, and that comes too late."""
        if self._shared.down is not None:
            keeping.leave(cell)
            raise SessionDown(cell.ports.session_id, self._shared.down)

    def _cell_for(self, key: str, state: SessionState, ports: Ports, events: Sequence[Event]) -> SessionCell:
        """Make the cell of a root that comes back; where it slept, and is held, that is filled."""
        cell = self._hollow.get(key)
        if cell is None:
            return SessionCell(state, ports, events)
        cell.restore(state, ports, events)
        return cell

    def _suspend_again(self, key: str) -> None:
        """Empty the cell of a session that was made ready, and does not begin."""
        cell, row = self._hollow.get(key), self._shared.asleep.get(key)
        if cell is not None and row is not None:
            cell.suspend(row)

    def _is_away(self, scope: str, session_id: str) -> bool:
        """Whether a session is neither alive here nor asleep here, with a timer of its own."""
        key = key_of(scope, session_id)
        return self._shared.live(key) is None and key not in self._shared.asleep

    # --- sessions of earlier processes

    async def resume_session(
        self,
        session_id: str,
        options: SessionOptions | None = None,
        /,
        *,
        force: bool = False,
        on_drift: OnDrift | None = None,
        model: str | Provider | None = None,
        **given: Unpack[SessionKeywords],
    ) -> Session:
        """Bring a stored session back, with the sessions that work for it, and return its handle.

        What it knows comes from its journal. Its code does not: tools, plugins, and a model that is an object are given here, else by the
        `revive` of `open_supervisor`; a model string is looked up again, and a plugin is found where its class was defined. What was at
        work when its process stopped is decided by the core, effect for effect, and told by `SessionRecovered`.

        Args:
            session_id: Its id; of a root.
            options: All options in one value; what the journal knows, it knows better.
            force: Whether it is taken from an owner that is alive, as far as the store knows; that one ends it then.
            on_drift: What happens where the code here folds it to other operations than it began: `park` leaves it as it is and raises
                `JournalDrifted`; `go_on` continues it with the state of the code here. Then each `once` or `reconcilable` call that
                had begun and whose end that state does not know is answered as unknown, and so is an equal call until the next
                prompt begins; `pure` and `idempotent` ones run again. None for what the supervisor was opened with.
            model: As of `start_session`; None for the model string that it was started with.
            **given: Other options of `start_session`, such as `tools`; and `scope`, the one that it was started in.

        Raises:
            OptionError: Your move: there is no store, a child is meant, or options that cannot be.
            SessionNotFound: Your move: the store has none of this id; `nearest` are like it.
            AlreadyStarted: It is alive here; `handle` is its handle.
            HeldBy: Another node owns it.
            SessionDown: It has ended, or the supervisor is closing.
            Unrevivable: Your move: each tool, plugin, agent or model that it had and that was not given. It is untouched.
            JournalDrifted: Your move: the code here folds it to other operations, and `on_drift` is `park`. It is untouched.
            JournalCorrupt: A record is damaged.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: Until it is taken over nothing was done; then it is given back, and has no owner.
        """
        chosen: dict[str, Any] = dict(given)
        scope = chosen.pop("scope", NO_SCOPE if options is None else options.scope)
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_flag("force", force),
            None if on_drift is None else fault_of_choice("on_drift", on_drift, ("park", "go_on")),
        )
        if model is not None:
            chosen["model"] = model
        if options is not None and chosen:
            raise OptionError(["options came in one value and as keywords: give them in one way"])
        wanted = WantedSession(session_id=SessionId(session_id), scope=scope, force=force, on_drift=on_drift)
        return await self._restore_stored(wanted, partial(self._give, options, chosen))

    async def resume_all(self, which: Resume) -> tuple[NotResumed, ...]:
        """Bring stored sessions back that have no owner any more. One that cannot come back keeps no other from it.

        Args:
            which: Those that had work, or all that have not ended.

        Returns:
            What did not come back, and why.

        Raises:
            OptionError: Your move: there is no store, or `which` is none of the three.
            StoreUnavailable: It cannot be read now.

        Cancellation: Those that are back stay.
        """
        if which not in ("none", "working", "all"):
            raise OptionError([f"resume is {which!r:.80}: expected 'none', 'working' or 'all'"])
        keeping = self._shared.store_of("resume")
        look = keeping.store.orphans if which == "working" else partial(keeping.store.find, _ROOTS)
        failed: list[NotResumed] = []
        after: tuple[str, str] | None = None
        while which != "none":
            page = await keeping.read(partial(look, after=after, limit=_AT_ONCE))
            if not page:
                break
            after = (page[-1].scope, page[-1].session)
            failed += await self._resume_each(
                [(one.scope, one.session, "gone" if one.node else "start") for one in page]
            )
        _log_drifts(failed)
        return tuple(failed)

    async def _resume_each(
        self, wanted: Iterable[tuple[str, SessionId, Cause]], *, is_asked: bool = False
    ) -> list[NotResumed]:
        """Bring some sessions back, a few at a time."""
        failed: list[NotResumed] = []
        limiter = trio.CapacityLimiter(RESUMED_AT_ONCE)

        async def resume(scope: str, session_id: SessionId, cause: Cause) -> None:
            async with limiter:
                error = await self._resume_unasked(scope, session_id, cause, is_asked=is_asked)
            if error is not None:
                failed.append(NotResumed(session_id=session_id, scope=scope, error=error))

        try:
            async with trio.open_nursery() as nursery:
                for one in wanted:
                    nursery.start_soon(resume, *one, name="resume")
        except BaseExceptionGroup as group:  # a bug of `revive`, say: as it was raised, and not in a group
            raise _first_of(group) from None
        return failed

    async def _resume_unasked(
        self, scope: str, session_id: SessionId, cause: Cause, *, is_asked: bool = False
    ) -> AgentrailError | None:
        """Bring a session back that no caller asks for, and return why that cannot be."""
        wanted = WantedSession(session_id=session_id, scope=scope, cause=cause, is_asked=is_asked)
        try:
            await self._restore_stored(wanted, partial(self._give, None, {}))
        except JournalDrifted as error:
            self._note_parked(scope, session_id, str(error))
            return error
        except AgentrailError as error:
            LOGGER.warning("session %s was not resumed: %s", session_id, error)
            return error
        return None

    async def _resume_due(self) -> None:
        """Bring back the sessions without an owner whose timer is due, or soon will be: the time of an approval, a question, or a sleep."""
        keeping = self._shared.store_of("resume")
        while True:
            limit = len(self._stuck) + _AT_ONCE
            found = await keeping.read(partial(keeping.store.due, SOON_MS, limit))
            fresh = [
                key
                for one in found
                if (key := (one.scope, one.root)) not in self._stuck and self._is_away(*key)
            ]
            # The timer asks for it. It counts as no attempt at a cycle that takes its process along.
            roots: list[tuple[str, SessionId, Cause]] = [(*key, "start") for key in dict.fromkeys(fresh)]
            failed = await self._resume_each(roots, is_asked=True)
            self._stuck.update(
                (one.scope, one.session_id) for one in failed if not isinstance(one.error, StoreUnavailable)
            )
            if not fresh or len(found) < limit:
                return

    async def watch_stored_timers(self) -> None:
        """Look for timers that are due, now and as long as this supervisor is open; for the keeper, as it opens."""
        await self._resume_due()
        self._shared.nursery.start_soon(self._keep_resuming_due, name="timers of stored sessions")

    async def _keep_resuming_due(self) -> None:
        """Look again and again, so that each timer finds its session awake.

        Cancellation: At once.
        """
        while True:
            await trio.sleep(TIMERS_EVERY_SECONDS)
            try:
                await self._resume_due()
            except StoreUnavailable as error:
                LOGGER.warning("timers of stored sessions cannot be looked for now: %s", error)

    def _give(
        self, options: SessionOptions | None, given: Mapping[str, Any], opening: StoredOpening
    ) -> SessionOptions | Mapping[str, Any]:
        if options is not None:
            return options
        revived = None if self._revive is None else self._revive(opening)
        if isinstance(revived, SessionOptions):
            return revived
        return {**(revived or {}), **given}


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def _log_drifts(failed: Sequence[NotResumed]) -> None:
    """Log the sessions that are parked because the code has changed: one line for each plugin."""
    by_plugin: dict[str, list[JournalDrifted]] = {}
    for one in failed:
        if isinstance(one.error, JournalDrifted):
            by_plugin.setdefault(one.error.plugin, []).append(one.error)
    for plugin, errors in by_plugin.items():
        cause = f"plugin {plugin!r}" if plugin else "agentrail"
        first = errors[0]
        LOGGER.warning(
            "%d sessions are parked because of %s; the first is %s: record %d, %s. Restore the versions that they had, or continue "
            "each with on_drift='go_on'",
            len(errors),
            cause,
            first.session_id,
            first.seq,
            first.operation,
        )


def _decide_wake_crash(error: BaseException) -> ErrorInfo:
    """Say what went wrong when a session was to wake."""
    return ErrorInfo(
        code="internal_error",
        message=f"the session could not be woken ({describe_bug(error)}); please report it",
    )
