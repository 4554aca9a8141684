"""The children after a session's actor in its subtree: later its sub-sessions and connections."""

from typing import Final

import trio
from attrs import define, field, frozen

from agentrail.actors.actor_handle import ActorHandle
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.supervisor_scope import open_supervisor, specs_of
from agentrail.errors import ActorDown
from agentrail.otp.child_specs import Backoff, ChildSpec, Spec, SupervisorFlags
from agentrail.otp.exits import NoProcess, Redact, keep
from agentrail.otp.supervision_types import Started
from agentrail.runtime.crashes import TaskGroup

# --- Restart limits and delays of a session, before it is parked.

MAX_RESTARTS: Final = 2
"""Maximum restarts within `PERIOD_SECONDS`: the third crash parks the session."""

PERIOD_SECONDS: Final = 5.0

BACKOFF: Final = Backoff(initial_seconds=0.05, maximum_seconds=5.0)
"""Shorter than an actor's: a user is waiting, and at most two delays follow each other closely."""

SESSIONS: Final = SupervisorFlags(
    "dynamic",
    intensity=MAX_RESTARTS,
    period_seconds=PERIOD_SECONDS,
    backoff=BACKOFF,
    intensity_per="child",
)
BRANCH: Final = SupervisorFlags(
    "rest_for_one",
    intensity=MAX_RESTARTS,
    period_seconds=PERIOD_SECONDS,
    backoff=BACKOFF,
    stop_within_seconds=4.0,
)


@frozen
class SupervisorLabel:
    key: str

    def register(self, handle: ActorHandle) -> None:
        """Do nothing: it is never looked up by name."""


@define(eq=False, repr=False, weakref_slot=False)
class Branch:
    _name: str
    _flags: SupervisorFlags
    _redact: Redact = field(default=keep, kw_only=True)
    _specs: tuple[ChildSpec, ...] = field(init=False, default=())
    _task_group: TaskGroup | None = field(init=False, default=None)
    _opening: trio.Event | None = field(init=False, default=None)
    supervisor: Supervisor | None = field(init=False, default=None)

    def enter(self, task_group: TaskGroup) -> None:
        self._task_group = task_group
        if self._specs:
            self._open(task_group)

    def leave(self) -> None:
        """End an incarnation. Its task group, now dismissed, owns the children."""
        self._task_group = None
        if self._opening is not None:
            # Its task may be dismissed before its first step, and would never open it.
            self._opening.set()
            self._opening = None

    async def start_child(self, spec: Spec) -> Started:
        if self.supervisor is None and self._task_group is not None:
            opening = self._open(self._task_group) if self._opening is None else self._opening
            await opening.wait()
        if self.supervisor is None:
            await trio.lowlevel.checkpoint()
            message = "the session is not running: start its children while it runs"
            raise ActorDown(message, handle=None, reason=NoProcess())
        return await self.supervisor.start_child(spec)

    def _open(self, task_group: TaskGroup) -> trio.Event:
        opened = self._opening = trio.Event()
        scope = trio.CancelScope()
        task_group.start_soon(self._run, opened, scope, scope=scope, name="children")
        return opened

    async def _run(self, opened: trio.Event, scope: trio.CancelScope) -> None:
        label = SupervisorLabel(self._name)
        try:
            with scope:
                async with open_supervisor(
                    self._flags, self._specs, name=label, redact=self._redact
                ) as supervisor:
                    self.supervisor = supervisor
                    opened.set()
                    await supervisor.wait()
        finally:
            if self.supervisor is not None:
                self._specs = specs_of(self.supervisor)
            self.supervisor = self._opening = None
            opened.set()
