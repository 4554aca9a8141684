"""Hibernation and resumption: idle sessions leave memory and return, and stored sessions resume. Both return the same way."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Literal, TypeAlias, Unpack
from weakref import WeakValueDictionary

import trio
from attrs import define, field, frozen

from agentrail.abc import Provider
from agentrail.abc.store import Cause, Filters, StoredSession, get_all
from agentrail.actors.deferred_error import ungrouped
from agentrail.core.session.state import SessionState
from agentrail.errors import (
    AgentrailError,
    AlreadyStarted,
    ErrorInfo,
    HeldBy,
    InternalError,
    JournalBehind,
    JournalDrifted,
    OptionError,
    SessionDown,
    SessionNotFound,
    SessionRested,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.events import Event
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.child_specs import Restart
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.arguments import fault_of, faults_of_key, refuse
from agentrail.runtime.crashes import PortCrashed, crash_edge
from agentrail.runtime.forks import Forks
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.orphans import ClusterFacts, Orphans, cluster_facts
from agentrail.runtime.persistence import Keeping, OnDrift
from agentrail.runtime.ports import Ports
from agentrail.runtime.session_actor import FallAsleep, SessionCell, Sleep, SleepingCell, left_of
from agentrail.runtime.session_clock import Alarm, now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import NO_SCOPE, key_of
from agentrail.runtime.session_loader import StoredOpening
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.session_rest import RESTED
from agentrail.runtime.session_resume import CanRevive, ReadySession, SessionResumption, WantedSession
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.shared_resources import SessionEntry, Shared
from agentrail.runtime.shutdown import close_workspace

LOGGER: Final = Logger("agentrail.runtime")

AGAIN_SECONDS: Final = 30.0
"""Seconds before the next attempt to wake a session whose timer is due, after one that failed."""

COMING_BACK_AT_ONCE: Final = 16
"""How many sessions are read and folded at a time. The others queue, and a caller that stops waiting costs nothing.

If all returned concurrently, all would be ready only at the end. After a restart, a thousand clients would time out and reconnect
at once. In turn, the first are ready after a moment.
"""

What: TypeAlias = Literal["idle", "due"]

_FALL_ASLEEP: Final = FallAsleep()

Revive: TypeAlias = Callable[[StoredOpening], SessionOptions | Mapping[str, Any] | None]
"""Returns the code that a stored session needs: all options, or some by name. None for a session that needs none."""

OpenClaimed: TypeAlias = Callable[[str, SessionId], Awaitable[object]]
"""Resumes a session by its scope and id."""

Resume: TypeAlias = Literal["none", "working", "all"]
"""Stored sessions to resume when a supervisor opens: none, those with unfinished work, or all that have not ended."""

_AT_ONCE: Final = 100

_CHECKED: Final[ContextVar[tuple[str, str] | None]] = ContextVar("checked_session", default=None)
"""The session that this task only checks. Others may resume it meanwhile."""

_ROOTS: Final = Filters(only_roots=True, has_ended=False)

RESUMED_AT_ONCE: Final = 8
"""How many sessions resume concurrently when a supervisor opens."""

TIMERS_EVERY_SECONDS: Final = 60.0

SOON_MS: Final = 600_000
"""Milliseconds before its timer that a session is resumed. Far longer than the interval between checks, so that none is late."""


@frozen(kw_only=True)
class NotResumed:
    """A stored session that could not be resumed automatically. It is unchanged."""

    session_id: SessionId
    scope: str
    error: AgentrailError


@define(eq=False)
class Hibernation:
    _shared: Shared
    _forks: Forks
    _begin: Callable[[SessionCell, Workspace, Restart], Session] = field(kw_only=True)
    _note_parked: Callable[[str, SessionId, str], None] = field(kw_only=True)
    _revive: Revive = field(kw_only=True)
    _after: float | None = field(kw_only=True)
    _stuck: set[tuple[str, str]] = field(init=False, factory=set)
    # A cell without a state, kept while a handle, a subscriber or a caller holds it.
    _hollow: WeakValueDictionary[str, SessionCell] = field(init=False, factory=WeakValueDictionary)
    _alarm: Alarm[tuple[What, str]] = field(init=False)
    _turns: trio.CapacityLimiter = field(
        init=False, factory=partial(trio.CapacityLimiter, COMING_BACK_AT_ONCE)
    )
    _claimed: dict[tuple[str, str], tuple[Cause, bool]] = field(init=False, factory=dict)
    _open_claimed: OpenClaimed = field(init=False)
    orphans: Orphans | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._open_claimed = self._open_unasked
        self._alarm = Alarm(self._handle_timer)
        if self._after is not None:
            self._shared.nursery.start_soon(self._alarm.run, name="sleep of sessions")

    # --- suspending

    def watch(self, cell: SessionCell) -> None:
        if self._after is None or cell.journal is None or len(cell.bus.path) > 1:
            return
        key = cell.ports.key
        row = self._shared.asleep.pop(key, None)
        self._hollow.pop(key, None)
        self._alarm.wake_at(("due", key), math.inf)
        self._alarm.wake_at(("idle", key), trio.current_time() + self._after)
        if cell.sleep is None:
            cell.sleep = Sleep(self._start_wake)
            cell.sleep.was_asleep = row is not None
        else:
            cell.sleep.mark_awake()

    def unwatch(self, key: str) -> None:
        self._alarm.wake_at(("idle", key), math.inf)

    def _handle_timer(self, due: tuple[What, str]) -> None:
        what, key = due
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
            self._alarm.wake_at(("idle", key), idle_until)
            return
        self._alarm.wake_at(("idle", key), now + after)
        # A session whose actor has a sibling child is busy, whatever the session does.
        if self._shared.down is None and entry.branch.supervisor is None and cell.may_sleep():
            cell.mailbox.put_control(_FALL_ASLEEP)

    def suspend(self, entry: SessionEntry) -> None:
        cell = entry.cell
        keeping = self._shared.store_of("hibernation")
        key = cell.ports.key
        row = self._shared.asleep[key] = left_of(cell, entry.workspace)
        keeping.leave(cell)
        del self._shared.entries[key]
        self.unwatch(key)
        self._shared.fan_in.suspend(cell)
        cell.suspend(row)
        self._hollow[key] = cell
        if row.due_at_ms is not None:
            self._alarm.wake_at(("due", key), trio.current_time() + max(row.due_at_ms - now_ms(), 0) / 1000)
        if self._shared.down is not None:
            self._close_hollow(cell, RESTED)
        elif cell.sleep is not None and cell.sleep.waking is not None:  # a message arrived while it stopped
            self._start_wake(cell)

    # --- waking

    def hollow_of(self, key: str) -> SessionCell | None:
        row = self._shared.asleep.get(key)
        if row is None:
            return None
        cell = self._hollow.get(key)
        if cell is None:
            cell = self._hollow[key] = SessionCell(None, row.ports, sleep=Sleep(self._start_wake, row))
            cell.branching = self._forks
        return cell

    def _start_wake(self, cell: SleepingCell) -> None:
        assert isinstance(cell, SessionCell)  # noqa: S101 - its only class
        self._shared.nursery.start_soon(self._wake, cell, name="wake")

    async def _wake(self, cell: SessionCell) -> None:
        key = cell.ports.key
        try:
            async with self._shared.beginnings.hold(key):
                row = self._shared.asleep.get(key)
                if row is None:  # it returned in another way
                    return
                wanted = WantedSession(session_id=cell.ports.session_id, scope=cell.ports.scope)
                with crash_edge(_decide_wake_crash, AgentrailError, scrub=cell.scrub):
                    await self._restore(wanted, lambda it: it.wake(row))
        except HeldBy as error:
            if self._shared.store_of("hibernation").heartbeat is None:
                self._stay_asleep(cell, error)
            else:  # another node was faster, and continues it
                self._forget_moved(cell, str(error))
        except (SessionDown, SessionNotFound) as error:
            # It ended elsewhere, was deleted, or the supervisor closes.
            self._forget_sleeping(cell, str(error) if self._shared.down is None else RESTED)
        except AgentrailError as error:
            self._stay_asleep(cell, error)
        except PortCrashed as crashed:
            self._stay_asleep(cell, InternalError(crashed.error.message))

    def _stay_asleep(self, cell: SessionCell, error: AgentrailError) -> None:
        LOGGER.warning("session %s could not be woken: %s", cell.ports.session_id, error)
        key, sleep = cell.ports.key, cell.sleep
        cell.mailbox.drain()  # none of these messages was acknowledged
        cell.pending_calls.refuse_all(error)
        if sleep is not None:
            sleep.settle(error)
        row = self._shared.asleep.get(key)  # None if its supervisor has closed meanwhile
        if row is not None and row.due_at_ms is not None:
            self._alarm.wake_at(("due", key), trio.current_time() + AGAIN_SECONDS)

    def _forget_sleeping(self, cell: SessionCell, reason: str) -> None:
        key = cell.ports.key
        row = self._shared.asleep.pop(key, None)
        self._shared.fan_in.forget_sleeping(key)
        self._alarm.wake_at(("due", key), math.inf)
        self._hollow.pop(key, None)
        self._close_hollow(cell, reason)
        if row is not None:
            self._shared.nursery.start_soon(close_workspace, row.workspace, row.ports, name="close sandbox")

    def _forget_moved(self, cell: SessionCell, reason: str) -> None:
        cell.has_moved = True
        self._forget_sleeping(cell, reason)

    def _close_hollow(self, cell: SessionCell, reason: str) -> None:
        cell.finish(reason)
        if cell.sleep is not None:
            cell.sleep.settle(None)  # waiters check again, and find the end

    def close_hollow(self) -> None:
        for cell in tuple(self._hollow.values()):
            self._close_hollow(cell, RESTED)

    async def close(self) -> None:
        self.close_hollow()
        rows, self._shared.asleep = tuple(self._shared.asleep.values()), {}
        async with trio.open_nursery() as nursery:
            for row in rows:
                if row.workspace.is_open:
                    nursery.start_soon(close_workspace, row.workspace, row.ports)

    # --- restoring, for every cause

    async def _restore_stored(self, wanted: WantedSession, give: Callable[[StoredOpening], Any]) -> Session:
        node = self._shared.store_of("resume_session").node
        await trio.lowlevel.checkpoint()
        key = key_of(wanted.scope, wanted.session_id)
        async with self._shared.beginnings.hold(key):
            if self._shared.down is not None:
                raise SessionDown(wanted.session_id, self._shared.down)
            if self._shared.is_draining:
                raise SessionRested(wanted.session_id, f"node {node.id} is draining, and others continue it")
            live = self._shared.live(key)  # a hibernated session returns with these options
            if live is not None:
                message = f"session {wanted.session_id!r} is already alive: use its handle"
                raise AlreadyStarted(message, handle=Session(live.cell))
            before = self._shared.retiring.get(key)
            if before is not None:  # it would release what this takes
                await before.wait_down()
            return await self._restore(wanted, lambda resumption: resumption.run(give))

    async def _restore(
        self, wanted: WantedSession, go: Callable[[SessionResumption], Awaitable[tuple[ReadySession, ...]]]
    ) -> Session:
        keeping = self._shared.store_of("resume_session")
        key = key_of(wanted.scope, wanted.session_id)
        if self.orphans is not None:
            await self.orphans.wait_moved(wanted.scope, wanted.session_id)
        asleep, hollow = self._shared.asleep.get(key), self._hollow.get(key)
        seen = asleep.place.seq if asleep and hollow and hollow.bus.is_listened_to else None
        resumption = SessionResumption(
            keeping, self._shared.dependencies, wanted, partial(self._cell_for, key), seen=seen
        )
        async with self._turns:
            try:
                ready = await go(resumption)
                self._check_open(keeping, ready[-1].cell)
            except BaseException:
                cell, row = self._hollow.get(key), self._shared.asleep.get(key)
                if cell is not None and row is not None:
                    cell.suspend(row)
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
        if self._shared.down is not None:
            keeping.leave(cell)
            raise SessionDown(cell.ports.session_id, self._shared.down)

    def _cell_for(self, key: str, state: SessionState, ports: Ports, events: Sequence[Event]) -> SessionCell:
        """Return the cell of a root that returns. If it hibernated and its cell is held, fill that one."""
        cell = self._hollow.get(key)
        if cell is None:
            return SessionCell(state, ports, events)
        cell.restore(state, ports, events)
        return cell

    def _is_away(self, scope: str, session_id: str) -> bool:
        """Whether a session is neither live here nor hibernated here with a timer of its own."""
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
        """Resume a stored session and its children, and return its handle.

        Its state comes from its journal. Tools, plugins and a model object are given here, or by the `revive`
        callback of `open_supervisor`. A model string is looked up again, and a plugin is imported from where its
        class was defined. `SessionRecovered` reports the effects that were open.

        Args:
            session_id: Id of a root session.
            options: All options as one object. Values in the journal take precedence.
            force: Whether to take it from an owner that the store considers alive. That owner then ends it.
            on_drift: What happens if the code here folds its journal to different operations. `park` leaves it
                unchanged and raises `JournalDrifted`. `go_on` continues it with the state of the code here. In that
                case, `once` and `reconcilable` calls that had begun are answered as unknown, and so are equal calls
                until the next prompt. `pure` and `idempotent` calls run again. None for the setting of the
                supervisor.
            model: Same as `start_session`. None for the model string that it was started with.
            **given: Other options of `start_session`, such as `tools`, and `scope`, the scope that it was started in.

        Raises:
            OptionError: Your move: there is no store, the id of a child, or invalid options.
            SessionNotFound: Your move: the store has no session with this id. `nearest` has similar ids.
            AlreadyStarted: It is live here. `handle` is its handle.
            HeldBy: Another node owns it.
            SessionDown: It has ended, or the supervisor is closing.
            Unrevivable: Your move: lists each tool, plugin, agent or model that it had and that is missing. It is unchanged.
            JournalDrifted: Your move: the code here folds it to different operations, and `on_drift` is `park`. It is unchanged.
            JournalBehind: Your move: the store lost acknowledged records of it, or was restored from a backup while it had open work, and
                `on_drift` is not `go_on`. It is unchanged.
            JournalCorrupt: A record is damaged.
            StoreUnavailable: The store accepts no writes for now.

        Cancellation: Nothing was done, or it was released and has no owner.
        """
        chosen: dict[str, Any] = dict(given)
        refuse(fault_of("options", options, SessionOptions | None))
        scope = chosen.pop("scope", NO_SCOPE if options is None else options.scope)
        refuse(
            *faults_of_key(scope, session_id),
            fault_of("force", force, bool),
            fault_of("on_drift", on_drift, Literal["park", "go_on"] | None),
        )
        if model is not None:
            chosen["model"] = model
        if options is not None and chosen:
            raise OptionError(["options were given both as one value and as keywords: use one of the two"])
        wanted = self._wanted(scope, SessionId(session_id), force=force, on_drift=on_drift)
        return await self._restore_stored(wanted, partial(self._give, options, chosen))

    async def resume_all(self, which: Resume) -> tuple[NotResumed, ...]:
        """Resume stored sessions that have no owner. A failure of one does not affect the others.

        Args:
            which: Sessions with unfinished work, or all that have not ended.

        Returns:
            The sessions that could not be resumed, with the reasons.

        Raises:
            OptionError: Your move: there is no store, or `which` is not one of the three values.
            StoreUnavailable: It cannot be read now.

        Cancellation: Sessions already resumed stay.
        """
        if which not in ("none", "working", "all"):
            raise OptionError([f"resume is {repr_of(which):.80}: expected 'none', 'working' or 'all'"])
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
        failed: list[NotResumed] = []
        limiter = trio.CapacityLimiter(RESUMED_AT_ONCE)

        async def resume(scope: str, session_id: SessionId, cause: Cause) -> None:
            async with limiter:
                error = await self._resume_unasked(scope, session_id, cause, is_asked=is_asked)
            if error is not None:
                failed.append(NotResumed(session_id=session_id, scope=scope, error=error))

        with ungrouped():
            async with trio.open_nursery() as nursery:
                for one in wanted:
                    nursery.start_soon(resume, *one, name="resume")
        return failed

    async def _resume_unasked(
        self, scope: str, session_id: SessionId, cause: Cause, *, is_asked: bool = False
    ) -> AgentrailError | None:
        wanted = WantedSession(session_id=session_id, scope=scope, cause=cause, is_asked=is_asked)
        try:
            await self._restore_stored(wanted, partial(self._give, None, {}))
        except AgentrailError as error:
            return self._note_failed(scope, session_id, error)
        return None

    def _note_failed(self, scope: str, session_id: SessionId, error: AgentrailError) -> AgentrailError:
        if isinstance(error, JournalDrifted | JournalBehind):
            self._note_parked(scope, session_id, str(error))
        else:
            LOGGER.warning("session %s was not resumed: %s", session_id, error)
        return error

    # --- sessions of dead nodes

    def follow_orphans(self, open_claimed: "OpenClaimed | None" = None) -> bool:
        """Resume sessions of dead nodes and sessions with due timers from now on, if the store is shared by several nodes.

        Args:
            open_claimed: Resumes a session that this node has reserved, with `resume_session`. None: with the `revive` callback.

        Returns:
            Whether the store is shared. Otherwise nothing happens.
        """
        keeping = self._shared.keeping
        if keeping is None or keeping.heartbeat is None:
            return False
        self._open_claimed = open_claimed or self._open_unasked
        if self.orphans is None:
            self.orphans = Orphans(keeping, keeping.heartbeat, self)
            self._shared.nursery.start_soon(self.orphans.run, name="look for sessions of dead nodes")
        return True

    def left_to_others(self, scope: str, session_id: SessionId) -> AbstractContextManager[None]:
        return nullcontext() if self.orphans is None else self.orphans.left_to_others(scope, session_id)

    async def cluster_facts(self) -> ClusterFacts:
        """Return facts about the nodes of a shared store. Empty for a store of one process.

        Raises:
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        keeping = self._shared.keeping
        if keeping is None or keeping.heartbeat is None:
            return ClusterFacts()
        return await cluster_facts(keeping, keeping.heartbeat)

    def _wanted(
        self, scope: str, session_id: SessionId, *, force: bool = False, on_drift: OnDrift | None = None
    ) -> WantedSession:
        cause, is_asked = self._claimed.get((scope, session_id), ("start", True))
        return WantedSession(
            session_id=session_id,
            scope=scope,
            cause=cause,
            force=force,
            is_asked=is_asked,
            is_claimed=(scope, session_id) in self._claimed,
            only_checks=_CHECKED.get() == (scope, session_id),
            on_drift=on_drift,
        )

    async def _open_unasked(self, scope: str, session_id: SessionId) -> None:
        await self._restore_stored(self._wanted(scope, session_id), partial(self._give, None, {}))

    async def resume_claimed(self, row: StoredSession, cause: Cause) -> AgentrailError | None:
        """Resume a tree that this node has reserved. Return why it could not be resumed, or None."""
        key = row.scope, row.session
        # A due timer triggers it, so it does not count as an attempt at a cycle that kills its process.
        self._claimed[key] = cause, not row.standing.is_working
        try:
            await self._open_claimed(*key)
        except AlreadyStarted:
            return None
        except HeldBy as error:  # its owner lives, or wrote more
            LOGGER.info("session %s stays with its owner: %s", row.session, error)
            return error
        except AgentrailError as error:
            return self._note_failed(*key, error)
        finally:
            self._claimed.pop(key, None)
        return Unrevivable(row.session, missing=["its agent"]) if self._is_away(*key) else None

    @property
    def takes_more(self) -> bool:
        """Whether this node takes sessions of other nodes."""
        return self._shared.down is None and not self._shared.is_draining

    async def check_revive(self, scope: str, session_id: SessionId) -> None:
        """Fold a session of another node and check that its code is here. Changes nothing.

        Raises:
            Unrevivable, JournalDrifted, OptionError, SessionDown, StoreUnavailable: Same as `resume_session`.
        """
        before = _CHECKED.set((scope, session_id))
        try:
            await self._open_claimed(scope, session_id)
        except CanRevive:
            return
        finally:
            _CHECKED.reset(before)
        raise Unrevivable(session_id, missing=["its agent"])

    async def take_moved(self, scope: str, session_id: SessionId) -> None:
        """Continue a session that its node has released for this one.

        Raises:
            Exception: Same as `resume_session`.
        """
        key = (scope, session_id)
        self._claimed[key] = "drain", True
        try:
            await self._open_claimed(*key)
        except AlreadyStarted:
            return
        finally:
            self._claimed.pop(key, None)

    def park_claimed(self, row: StoredSession, reason: str) -> None:
        self._note_parked(row.scope, row.session, reason)

    async def give_back_claimed(self, row: StoredSession) -> None:
        """End the reservation of a tree, unless a caller has resumed it here meanwhile and so owns it."""
        key = key_of(row.scope, row.session)
        async with self._shared.beginnings.hold(key):
            if self._shared.live(key) is None:
                self._shared.store_of("resume").give_back(row.scope, row.session)

    async def drop_moved(self) -> None:
        """Forget hibernated sessions that another node has woken, and end their readers, who return there."""
        keeping = self._shared.store_of("hibernation")
        asleep = self._shared.asleep
        held = [(cell, asleep[key]) for key, cell in [*self._hollow.items()] if key in asleep]
        if not held:
            return
        places = [(cell.ports.scope, cell.ports.session_id) for cell, _ in held]
        rows = await keeping.read(partial(get_all, keeping.store, places))
        for (cell, slept), row in zip(held, rows, strict=True):
            # One that wakes meanwhile finds out for itself, and may use its sandbox already. One that has hibernated again has another row.
            is_asleep = cell.sleep is not None and cell.sleep.row is slept and cell.sleep.waking is None
            if is_asleep and row is not None and row.node not in ("", keeping.node.id):
                self._forget_moved(cell, "another node has woken it")

    async def _resume_due(self) -> None:
        """Resume sessions without an owner whose timer is due or soon will be: an approval, a question, or a sleep."""
        keeping = self._shared.store_of("resume")
        while True:
            limit = len(self._stuck) + _AT_ONCE
            found = await keeping.read(partial(keeping.store.due, SOON_MS, limit))
            fresh = [
                key
                for one in found
                if (key := (one.scope, one.root)) not in self._stuck and self._is_away(*key)
            ]
            # The timer triggers it, so it does not count as an attempt at a cycle that kills its process.
            roots: list[tuple[str, SessionId, Cause]] = [(*key, "start") for key in dict.fromkeys(fresh)]
            failed = await self._resume_each(roots, is_asked=True)
            self._stuck.update(
                (one.scope, one.session_id) for one in failed if not isinstance(one.error, StoreUnavailable)
            )
            if not fresh or len(found) < limit:
                return

    async def watch_stored_timers(self) -> None:
        await self._resume_due()
        self._shared.nursery.start_soon(self._keep_resuming_due, name="timers of stored sessions")

    async def _keep_resuming_due(self) -> None:
        while True:
            await trio.sleep(TIMERS_EVERY_SECONDS)
            try:
                await self._resume_due()
            except StoreUnavailable as error:
                LOGGER.warning("timers of stored sessions cannot be read now: %s", error)

    def _give(
        self, options: SessionOptions | None, given: Mapping[str, Any], opening: StoredOpening
    ) -> SessionOptions | Mapping[str, Any]:
        if options is not None:
            return options
        revived = self._revive(opening)
        return revived if isinstance(revived, SessionOptions) else {**(revived or {}), **given}


def _log_drifts(failed: Sequence[NotResumed]) -> None:
    by_plugin: dict[str, list[JournalDrifted]] = {}
    for one in failed:
        if isinstance(one.error, JournalDrifted):
            by_plugin.setdefault(one.error.plugin, []).append(one.error)
    for plugin, errors in by_plugin.items():
        cause = f"plugin {plugin!r}" if plugin else "agentrail"
        first = errors[0]
        told = "%d sessions are parked because of %s; the first is %s: record %d, %s. Restore their earlier versions, or continue each with on_drift='go_on'"
        LOGGER.warning(told, len(errors), cause, first.session_id, first.seq, first.operation)


def _decide_wake_crash(error: BaseException) -> ErrorInfo:
    return ErrorInfo(
        code="internal_error",
        message=f"the session could not be woken ({describe_bug(error)}); please report it",
    )
