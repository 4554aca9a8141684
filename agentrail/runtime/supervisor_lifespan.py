"""The task that holds a session supervisor open: shielded from cancellation of the body, and always closed in order."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio
from attrs import define, field, frozen

from agentrail.abc import NO_HOST, HostHooks, ResolveProvider
from agentrail.abc.store import Store
from agentrail.actors.actor_types import worker
from agentrail.actors.deferred_error import Kept
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.supervisor_scope import open_supervisor
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.supervision_types import Report
from agentrail.runtime.branch import SESSIONS, SupervisorLabel
from agentrail.runtime.deps import DepsFor
from agentrail.runtime.fan_in import EventReader
from agentrail.runtime.hibernation import Resume, Revive
from agentrail.runtime.persistence import DurabilityOptions, Keeping
from agentrail.runtime.session_sandbox import MakeSandbox
from agentrail.runtime.session_stores import NO_STORES, SharedStores
from agentrail.runtime.supervisor import SessionSupervisor


@frozen(kw_only=True)
class StoreOptions(DurabilityOptions):
    """Persistence of sessions.

    Attributes:
        resume: Stored sessions to resume before the body begins: those with unfinished work, all, or none.
        revive: Returns the code that each of them needs.
        hibernate_after: Idle seconds before a session hibernates. None for never, and without a store.
    """

    resume: Resume = "none"
    revive: Revive | None = None
    hibernate_after: float | None = None


USUAL_OPTIONS = StoreOptions()
"""Defaults of a supervisor."""


STOP_WITHIN_SECONDS: Final = 10.0
"""Seconds that closing a supervisor waits for its sessions before the rest is cancelled."""


@define(eq=False)
class _Keeper:
    """The task that holds the sessions' supervisor open. Cancellation of the body does not reach it, so it closes in order."""

    _make: Callable[[Supervisor, trio.Nursery], SessionSupervisor]
    _keeping: Keeping | None
    _reader: EventReader | None
    up: trio.Event = field(init=False, factory=trio.Event)
    leave: trio.Event = field(init=False, factory=trio.Event)
    opening: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    body: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    supervisor: SessionSupervisor | None = field(init=False, default=None)
    failure: Kept = field(init=False, factory=Kept)

    async def run(self) -> None:
        """Hold it open until `leave` is set. A `SystemExit` of a session, or a similar exception, ends it sooner."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                with self.failure:
                    if self._keeping is not None:
                        with self.opening:
                            await self._keeping.open(nursery)
                    async with open_supervisor(
                        SESSIONS, [_TEMPLATE], name=SupervisorLabel("sessions"), observer=self._hear
                    ) as root:
                        self.supervisor = self._make(root, nursery)
                        self.supervisor.journals.settle_left_notes()
                        if self._reader is not None:
                            self._reader.open(self.supervisor)
                            nursery.start_soon(self._reader.run, name="reader of events")
                        self.up.set()
                        await self.leave.wait()
                if self.failure.error is not None:  # it ends the body first, and is raised after it
                    self.up.set()
                    self.body.cancel(reason="the supervisor was ended")
                if self.supervisor is not None:
                    await self.supervisor._close_rest()  # noqa: SLF001 - part of the supervisor
                    if self._reader is not None:
                        await self._reader.aclose()
                if self._keeping is not None:
                    if not self.opening.cancelled_caught:  # otherwise nothing was written
                        with trio.move_on_after(self._keeping.writer.patience_seconds):
                            await self._keeping.close()
                    self._keeping.forget_processes()
                nursery.cancel_scope.cancel(reason="the supervisor was closed")

    def _hear(self, report: Report) -> None:
        if self.supervisor is not None:
            self.supervisor._hear(report)  # noqa: SLF001 - part of the supervisor


@asynccontextmanager
async def open_sessions(  # noqa: PLR0913 - the settings of a supervisor
    resolve_provider: ResolveProvider,
    make_sandbox: MakeSandbox,
    *,
    host: HostHooks = NO_HOST,
    deps_for: DepsFor | None = None,
    shared: SharedStores = NO_STORES,
    store: Store | None = None,
    options: StoreOptions = USUAL_OPTIONS,
    reader: EventReader | None = None,
) -> AsyncIterator[SessionSupervisor]:
    keeping = None if store is None else Keeping(store, options)
    retention = None if keeping is None else keeping.retention
    make = partial(
        SessionSupervisor,
        resolve_provider=resolve_provider,
        make_sandbox=make_sandbox,
        host=host,
        deps_for=deps_for,
        shared=shared,
        keeping=keeping,
        revive=options.revive,
        hibernate_after=None if store is None else options.hibernate_after,
        reader=reader,
    )
    keeper = _Keeper(make, keeping, reader)
    failure = Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run, name="keeper of sessions")
        try:
            with failure:
                await keeper.up.wait()
                keeper.failure.release()  # a store that cannot be opened
                assert keeper.supervisor is not None  # noqa: S101 - it is running
                if options.resume != "none" and not keeper.supervisor.follow_orphans():
                    await keeper.supervisor.resume_all(options.resume)
                    await keeper.supervisor._hibernation.watch_stored_timers()  # noqa: SLF001 - opened by its keeper
                # Only now: automatically resumed sessions are owned by this node, so old ones may be deleted.
                if retention is not None:
                    nursery.start_soon(retention.run, name="sweeps of the store")
                with keeper.body:
                    yield keeper.supervisor
            if retention is not None:  # otherwise a sweep deletes old sessions as soon as they are released
                retention.stop()
            if keeper.supervisor is not None:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_WITHIN_SECONDS):
                    await keeper.supervisor.stop_all("the supervisor was closed")
        finally:  # whatever failed in the stop: the keeper is shielded, and no other code could ever end it
            keeper.leave.set()
            keeper.opening.cancel()  # a store that does not answer
    keeper.failure.release()
    failure.release()


async def _no_session() -> None:
    """Placeholder of the template. Never started: each session has a spec of its own."""


_TEMPLATE: Final = ChildSpec("session", worker(_no_session), "temporary")
