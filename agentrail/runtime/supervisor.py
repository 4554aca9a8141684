"""Sessions under supervision: start them, find them, watch them, bring them back when they crash, end them in order.

Each is a child of one dynamic supervisor of `agentrail.actors`, which restarts it with back-off and counts its restarts
apart from those of the others. What a session knew survives its actor, so its handle, its subscribers and the messages it
had not read yet go on with the next incarnation; and what crashes too often is parked, alone.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import trio
from attrs import define, frozen

from agentrail.abc import ProviderProfiles, ResolveProvider, ToolOutcome, timeout_seconds_of
from agentrail.actors.blocks import open_supervisor
from agentrail.actors.kept import Kept
from agentrail.actors.running import cleanup_scope
from agentrail.actors.start import ActorView, Options, Start, worker
from agentrail.actors.supervising import log_report
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.tree import TreeNode
from agentrail.core.policy.budget import spent_of
from agentrail.core.protocol.signals import Parked, Signal, StopSession
from agentrail.errors import ActorDown, AlreadyStarted, SessionDown, SessionRefused
from agentrail.events import AbortReceipt, AbortSettled, Event
from agentrail.messages import SessionId
from agentrail.otp.child_specs import (
    NO_ARGUMENTS,
    Arguments,
    Backoff,
    ChildSpec,
    Restart,
    Spec,
    SupervisorFlags,
)
from agentrail.otp.exits import Killed, Stuck
from agentrail.otp.leaving import describe_bug, describe_crash
from agentrail.otp.supervision_types import Report, Started
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.runtime.assembly import Dependencies, assemble, decide_refusal
from agentrail.runtime.branch import Branch, SupervisorLabel
from agentrail.runtime.children import assemble_child, run_for_call, run_for_tool
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import (
    MAX_CRASH_MESSAGE,
    PortCrashed,
    crash_edge,
    decide_close_crash,
    log_crash,
    what_travels,
)
from agentrail.runtime.fan_in import EVERY, FanIn, ManySubscription
from agentrail.runtime.handle import Session
from agentrail.runtime.monitoring import SessionMonitor
from agentrail.runtime.options import SessionOptions, decide_options
from agentrail.runtime.ports import ChildUsage, ChildWork, Ports
from agentrail.runtime.session import SessionCell, SessionCrashed
from agentrail.runtime.subscription import decide_terms
from agentrail.runtime.task_group import TaskGroup
from agentrail.runtime.tool_specs import ToolSpecs
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.workspace import MakeSandbox, Workspace

MAX_RESTARTS: Final = 2
"""How often a session comes back within `PERIOD_SECONDS`: the third crash parks it."""

PERIOD_SECONDS: Final = 5.0

BACKOFF: Final = Backoff(initial_seconds=0.05, maximum_seconds=5.0)
"""Shorter than an actor's: a person sits before a session, and no more than two waits ever follow each other closely."""

STOP_WITHIN_SECONDS: Final = 10.0
"""How long leaving a supervisor waits for its sessions before it cuts what is left."""

DISMISS_WITHIN_SECONDS: Final = 5.0
"""How long a session that ended or crashed waits for its tools; those that shield themselves for longer are left behind."""

_CLOSE_WITHIN_SECONDS: Final = 2.0

CHILD_STOP_WITHIN_SECONDS: Final = 4.0
"""How long a call waits for the end of the session that worked for it: less than an abort waits for the call."""

CHILD_STOP_STEP_SECONDS: Final = 0.25
"""How much less for each level further down."""

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


@define(eq=False)
class _Entry:
    cell: SessionCell
    workspace: Workspace
    branch: Branch


@frozen(kw_only=True)
class SupervisorStatistics:
    """What a supervisor of sessions has seen.

    Attributes:
        live: Sessions that have not ended.
        started: All that were ever started.
        ended: Those that have ended, the parked ones among them.
        parked: Those that crashed too often.
        restarts: How often one was brought back.
        tool_threads: How many worker threads are at work for tools.
        left_behind: The tools of those that work on although their calls were stopped.
    """

    live: int
    started: int
    ended: int
    parked: int
    restarts: int
    tool_threads: int = 0
    left_behind: tuple[str, ...] = ()


class SessionSupervisor:
    """Owns sessions: a crash of one touches no other, and none outlives its supervisor."""

    providers: ProviderProfiles
    """The named profiles that `registry:<profile>:<model>` stands for; put here by `open_supervisor`."""

    def __init__(
        self,
        root: Supervisor,
        nursery: trio.Nursery,
        resolve_provider: ResolveProvider,
        make_sandbox: MakeSandbox,
    ) -> None:
        """Made by `open_supervisor`."""
        self._root = root
        self._nursery = nursery  # for what the sessions have at work: it outlives each of them
        self._dependencies = Dependencies(
            resolve_provider=resolve_provider,
            make_sandbox=make_sandbox,
            specs=ToolSpecs(),
            threads=ToolThreads(),
            run_child=self._run_child,
        )
        self._entries: dict[str, _Entry] = {}
        self._fan_in = FanIn()
        self._down: str | None = None
        # One object of each, and not one for each session.
        self._find, self._life = self._find_cell, self._live_on
        self._started = self._ended = self._parked = self._restarts = 0

    async def start_session(self, options: SessionOptions | None = None, /, **given: Any) -> Session:
        """Start a session, and return its handle when it can be prompted.

        Args:
            options: All options in one value; then no keyword may be given.
            **given: The same options as keywords; see `SessionOptions`.

        Raises:
            OptionError: Your move: unknown options or wrong values, all faults at once; nothing was started.
            ToolDefinitionError: Your move: two tools of one name, or a schema that is none.
            ModelNotFound: Your move: no such provider; the message has the nearest name.
            Authentication: Your move: no key; the message names the variable, and `demo:` as a way to try.
            AlreadyStarted: A live session has this id; `handle` is its handle.
            PluginError: Your move: a plugin that cannot be loaded, or a stack that cannot be; all faults at once.
            SessionRefused: No one's move: a plugin does not want this session; nothing was started.
            SessionDown: The supervisor is closing.

        Cancellation: Always a checkpoint; cancelled here, nothing was started.
        """
        await trio.lowlevel.checkpoint()
        chosen = decide_options(options, given)
        session_id = SessionId(chosen.session_id or f"s-{secrets.token_hex(6)}")
        if self._down is not None:
            raise SessionDown(session_id, self._down)
        live = self._live(session_id)
        if live is not None:
            message = f"session {session_id!r} is alive already: use its handle, or another id"
            raise AlreadyStarted(message, handle=Session(live.cell))
        cell, workspace = assemble(session_id, chosen, self._dependencies)
        refused = decide_refusal(cell.state, now_ms())
        if refused is not None:
            raise SessionRefused(session_id, refused)
        return self._begin(cell, workspace, chosen.restart)

    def session(self, session_id: str) -> Session:
        """Find a live session by its id.

        Raises:
            OptionError: Your move: an id that is no text.
            SessionDown: There is none.
        """
        refuse(fault_of_text("session_id", session_id))
        entry = self._live(session_id)
        if entry is None:
            raise SessionDown(session_id, self._down or "there is no live session of this id")
        return Session(entry.cell)

    def sessions(self) -> tuple[Session, ...]:
        """Give all live sessions, oldest first."""
        return tuple(Session(entry.cell) for entry in self._entries.values() if not entry.cell.state.ended)

    def subscribe_all(
        self,
        *,
        after: Mapping[str, int] | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> ManySubscription:
        """Subscribe to all sessions, those that are alive and those that will be started.

        Args:
            after: A number for each session that was followed before, such as `SubscriberTooSlow.positions`; each goes on
                after its own, sessions that are not named come from their start, and those that have ended are not
                replayed. None for live events only.
            kinds: As of `Session.subscribe`.
            deltas: As of `Session.subscribe`.
            buffer: As of `Session.subscribe`; there is one for all sessions together.

        Returns:
            An async context manager to iterate over; `event.meta` says whose an event is. Each session's events come in
            their order. Iteration ends when the supervisor closes.

        Raises:
            OptionError: Your move: an argument that cannot be. A number beyond the last event of its session is refused
                when the block is entered.
        """
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._fan_in.subscribe_all(terms, after)

    def subscribe_group(
        self,
        group_id: str,
        *,
        after: Mapping[str, int] | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> ManySubscription:
        """Subscribe to the sessions of a group, as `subscribe_all` does to all; there need not be one yet.

        Args:
            group_id: What the sessions were started with.
            after: As of `subscribe_all`.
            kinds: As of `Session.subscribe`.
            deltas: As of `Session.subscribe`.
            buffer: As of `subscribe_all`.

        Raises:
            OptionError: As of `subscribe_all`.
        """
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._fan_in.subscribe_group(group_id, terms, after)

    async def stop_session(self, session_id: str, reason: str = "stopped") -> None:
        """Stop a session and wait until it is gone.

        Raises:
            OptionError: Your move: an id or a reason that is no text.
            SessionDown: There is none of this id.

        Cancellation: The session ends all the same.
        """
        session = self.session(session_id)
        monitor = session.monitor()
        await session.stop(reason)
        await monitor.wait()

    def monitor(self, session: Session | str) -> SessionMonitor:
        """Watch a session; `await monitor.wait()` tells its end, once it is gone for good. A restart is no end.

        Args:
            session: A handle, also of a session that has ended; or the id of a live one.

        Raises:
            OptionError: Your move: neither a handle nor an id.
            SessionDown: There is no live session of this id.
        """
        return (session if isinstance(session, Session) else self.session(session)).monitor()

    async def tree(self) -> TreeNode:
        """Return the whole tree as data: the supervisor, its sessions, and what runs behind them.

        Returns:
            The root; of each session its id, phase, restarts, uptime and mailbox. `render_tree` makes text of it.

        Raises:
            SessionDown: The supervisor was closed.

        Cancellation: Always a checkpoint.
        """
        try:
            return await self._root.tree()
        except ActorDown:
            raise SessionDown(EVERY, self._down or "the supervisor was closed") from None

    def statistics(self) -> SupervisorStatistics:
        """Count; cheap, at any time, also after the supervisor was closed."""
        threads = self._dependencies.threads.statistics()
        return SupervisorStatistics(
            live=sum(not entry.cell.state.ended for entry in self._entries.values()),
            started=self._started,
            ended=self._ended,
            parked=self._parked,
            restarts=self._restarts,
            tool_threads=threads.running,
            left_behind=threads.left_behind,
        )

    async def start_behind(self, session_id: str, spec: Spec) -> Started:
        """Start a child in the subtree of a session, behind its actor. For this library's own use.

        Raises:
            SessionDown: There is no live session of this id.
            ActorDown: Its actor ended meanwhile.
            Exception: As of `agentrail.actors.supervisor.Supervisor.start_child`.

        Cancellation: Always a checkpoint; cancelled here neither child nor spec stays.
        """
        # Behind an actor that is up, so not before its next instance is.
        await self.session(session_id).status()
        return await self._entries[session_id].branch.start_child(spec)

    async def stop_all(self, reason: str) -> None:
        """Take no more sessions, and stop those there are, newest first and side by side.

        Cancellation: What has not ended yet is left to the code that cancels.
        """
        self._down = reason
        async with trio.open_nursery() as nursery:
            for entry in reversed(self._entries.values()):
                nursery.start_soon(_stop_quietly, entry.cell, reason)

    async def close_rest(self) -> None:
        """Free what sessions hold that could not end in order, once their actors are gone."""
        for entry in tuple(self._entries.values()):
            await self._retire(entry, "the supervisor had no more time for it")
        self._fan_in.close("the supervisor was closed")

    def _find_cell(self, session_id: str) -> SessionCell | None:
        entry = self._live(session_id)
        return None if entry is None else entry.cell

    def _live(self, session_id: str) -> _Entry | None:
        entry = self._entries.get(session_id)
        # One that has ended may still wait for a tool that will not stop; its id is free all the same.
        return None if entry is None or entry.cell.state.ended else entry

    def _begin(self, cell: SessionCell, workspace: Workspace, restart: Restart) -> Session:
        session_id = cell.ports.session_id
        entry = self._entries[session_id] = _Entry(
            cell, workspace, Branch(session_id, BRANCH, redact=cell.scrub)
        )
        cell.find = self._find
        self._fan_in.join(cell)
        # Not waited for: a subscriber that comes before the next checkpoint sees all that the session ever publishes.
        self._root.start_child_soon(self._child_spec(entry, restart))
        return Session(cell)

    # --- children of sessions

    async def _run_child(
        self, task: ChildWork, ports: Ports, deliver: Callable[[Signal], None], usage: ChildUsage
    ) -> ToolOutcome:
        parent = self._entries[ports.session_id].cell
        open_child = partial(self._open_child, parent, usage)
        if task.effect.wish is not None:
            return await run_for_tool(task, open_child, deliver)
        seconds = timeout_seconds_of(parent.tool_of(task.effect.call_id)) or ports.tool_timeout_seconds
        return await run_for_call(task, open_child, deliver, seconds)

    @asynccontextmanager
    async def _open_child(
        self, parent: SessionCell, usage: ChildUsage, task: ChildWork
    ) -> AsyncIterator[Session]:
        cell = assemble_child(parent, task, fresh_id=f"s-{secrets.token_hex(6)}")
        await trio.lowlevel.checkpoint()
        if self._down is not None or self._live(cell.ports.session_id) is not None:
            raise SessionDown(cell.ports.session_id, self._down or "a session of this id is alive already")
        # The sandbox is its parent's, who closes it: this workspace is never opened.
        workspace = Workspace(self._dependencies.make_sandbox, "local", cell.ports.working_dir)
        child = self._begin(cell, workspace, "temporary")
        try:
            yield child
        finally:
            with trio.move_on_after(_child_stop_seconds(cell), shield=True) as grace:
                await _stop_child(child, usage)
            if grace.cancelled_caught and cell.interpreter is not None:
                usage.add(AbortReceipt(stuck=cell.interpreter.left_behind()))
            usage.spent = spent_of(cell.state.data.usage, cell.state.data.ledger)

    def _child_spec(self, entry: _Entry, given: Restart) -> ChildSpec:
        start = Start(self._life, Arguments((entry,), NO_ARGUMENTS.keyword), options=_OPTIONS)
        # A session ends cleanly only when it is told to, so that a `permanent` one is not to come back either.
        restart: Restart = "temporary" if given == "temporary" else "transient"
        return ChildSpec(entry.cell.ports.session_id, start, restart)

    # --- the life of a session

    async def _live_on(self, entry: _Entry) -> None:
        """Be the actor of one incarnation; what leaves is its crash, of which its supervisor makes what it will."""
        cell = entry.cell
        if cell.ending is not None:  # its sandbox could not be closed, which is reported and not tried again
            return
        if cell.crash is None:
            self._started += 1
        else:
            self._restarts += 1
        scrub = cell.scrub
        task_group = TaskGroup(self._nursery, cell.mailbox, scrub)
        entry.branch.enter(task_group)
        try:
            await cell.run(task_group)
        except BaseException as error:
            leaving = what_travels(error)
            if leaving is error:
                raise
            if leaving is not None:
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
            cell.crash = scrub(describe_bug(error))[:MAX_CRASH_MESSAGE]
            log_crash(f"session {cell.ports.session_id} crashed: {cell.crash}", error, scrub)
            # Reports repeat what leaves here. So it may hold no secret, and be nothing that would end the supervisor.
            if not isinstance(error, Exception) or scrub(words := describe_crash(error)) != words:
                raise SessionCrashed(cell.crash) from None  # noqa: ASYNC104 - what travels was asked
            raise
        finally:
            entry.branch.leave()
            if cell.crash is None:
                self._close(entry, "the supervisor had no more time for it")
            await self._dismiss(entry, task_group)  # noqa: ASYNC102 - shielded and bounded inside
            if cell.crash is None:
                await self._retire(entry, "ended")  # noqa: ASYNC102 - shielded and bounded inside

    async def _dismiss(self, entry: _Entry, task_group: TaskGroup) -> None:
        """Wait until all that an incarnation had at work is gone, but not for ever; name what is left behind."""
        with cleanup_scope(DISMISS_WITHIN_SECONDS):
            await task_group.dismiss()
        session_id, incarnation = entry.cell.ports.session_id, entry.cell.state.data.incarnation
        for name in task_group.working:
            log_report(
                Report(
                    kind="stuck",
                    supervisor=session_id,
                    child_id=name,
                    incarnation=incarnation,
                    reason=Stuck(DISMISS_WITHIN_SECONDS),
                    at_seconds=trio.current_time(),
                )
            )
        if task_group.working and entry.cell.crash is not None:
            entry.cell.crash += f"; left behind, still at work: {', '.join(task_group.working)}"

    def hear(self, report: Report) -> None:
        """Take a report of the supervisors below: it goes to the log, and a session that was given up is parked."""
        ended = self._entries.get(str(report.child_id)) if report.kind == "child_terminated" else None
        if ended is None or ended.cell.crash is None:  # else it told the log itself, and none of its secrets
            log_report(report)
        is_given_up = report.kind == "shutdown" or (
            report.kind == "child_terminated" and report.restart == "temporary"
        )
        entry = self._entries.get(str(report.child_id)) if is_given_up else None
        if entry is not None and entry.cell.crash is not None:  # else it is about an older session of this id
            self._park(entry, entry.cell.crash)

    def _park(self, entry: _Entry, crash: str) -> None:
        self._parked += 1
        entry.cell.say_last_words(Parked(at_ms=now_ms(), reason=crash))
        self._close(entry, f"parked: {crash}")
        self._nursery.start_soon(self._retire, entry, f"parked: {crash}", name="park")

    def _close(self, entry: _Entry, reason: str) -> None:
        """Let no caller wait for a session any more, and give its id free."""
        session_id = entry.cell.ports.session_id
        entry.cell.close(reason)
        if self._entries.get(session_id) is entry:  # else the next of this id is there already
            del self._entries[session_id]

    async def _retire(self, entry: _Entry, reason: str) -> None:
        """Free all that a session held, and note that it is gone.

        Cancellation: Shielded, for as long as it takes to close a sandbox, two seconds at most; what was cut is reported.
        """
        self._close(entry, reason)
        self._ended += 1
        try:
            scrub = entry.cell.scrub
            # What it raises is told to the log: the session has ended, and no other is concerned.
            with (
                cleanup_scope(_CLOSE_WITHIN_SECONDS) as grace,
                suppress(PortCrashed),
                crash_edge(decide_close_crash, scrub=scrub),
            ):
                await entry.workspace.aclose()
            if grace.cancelled_caught:
                log_report(
                    Report(
                        kind="shutdown_error",
                        supervisor=entry.cell.ports.session_id,
                        child_id="sandbox",
                        incarnation=entry.cell.state.data.incarnation,
                        reason=Killed(),
                        at_seconds=trio.current_time(),
                    )
                )
        finally:
            entry.cell.finish(reason)


class _Keeper:
    """The task that holds the sessions' supervisor open, out of reach for who cancels the body: it is left in order."""

    def __init__(self, resolve_provider: ResolveProvider, make_sandbox: MakeSandbox) -> None:
        self._ports = (resolve_provider, make_sandbox)
        self.up = trio.Event()
        self.leave = trio.Event()
        self.body = trio.CancelScope()
        self.supervisor: SessionSupervisor | None = None
        self.failure = Kept()

    async def run(self) -> None:
        """Hold it open until `leave` is set; a `SystemExit` of a session, or its like, ends it sooner.

        Cancellation: Shielded; `open_sessions` sets `leave` whatever happens, and then the stop has its own bounds.
        """
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                with self.failure:
                    async with open_supervisor(
                        SESSIONS, [_TEMPLATE], name=SupervisorLabel("sessions"), observer=self._hear
                    ) as root:
                        self.supervisor = SessionSupervisor(root, nursery, *self._ports)
                        self.up.set()
                        await self.leave.wait()
                if self.failure.error is not None:  # it ends the body first, and is raised behind it
                    self.up.set()
                    self.body.cancel(reason="the supervisor was ended")
                if self.supervisor is not None:
                    await self.supervisor.close_rest()
                nursery.cancel_scope.cancel(reason="the supervisor was closed")

    def _hear(self, report: Report) -> None:
        if self.supervisor is not None:
            self.supervisor.hear(report)


@asynccontextmanager
async def open_sessions(
    resolve_provider: ResolveProvider, make_sandbox: MakeSandbox
) -> AsyncIterator[SessionSupervisor]:
    """Open a supervisor over the given adapters; leaving the block ends all its sessions, whatever happened inside.

    An exception of the body leaves as itself, not in a group, after the ordered stop; so does a `SystemExit` or
    `KeyboardInterrupt` of a session.

    Cancellation: The stop is shielded and bounded: ten seconds, then what is left is cancelled.
    """
    keeper = _Keeper(resolve_provider, make_sandbox)
    failure = Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run, name="keeper of sessions")
        try:
            with failure:
                await keeper.up.wait()
                assert keeper.supervisor is not None  # noqa: S101 - it is up
                with keeper.body:
                    yield keeper.supervisor
            if keeper.supervisor is not None:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_WITHIN_SECONDS):
                    await keeper.supervisor.stop_all("the supervisor was closed")
        finally:  # whatever the stop ran into: the keeper is shielded, and no other code could ever end it
            keeper.leave.set()
    keeper.failure.release()
    failure.release()


async def _stop_quietly(cell: SessionCell, reason: str) -> None:
    with suppress(SessionDown):  # it was faster
        # As a notice, which no bound keeps out: its callers are many, and the end may not depend on who comes first.
        stop = StopSession(at_ms=now_ms(), signal_id=cell.pending_calls.mint(), reason=reason)
        await cell.pending_calls.ask(stop, cell.mailbox.put_notice)
        await cell.wait_down()


def _child_stop_seconds(cell: SessionCell) -> float:
    """Say how long to wait for the end of a child: the deeper the shorter, so that who waits above hears what would not end."""
    depth = len(cell.state.data.config.path) - 1
    return CHILD_STOP_WITHIN_SECONDS - CHILD_STOP_STEP_SECONDS * (depth - 1)


async def _stop_child(child: Session, usage: ChildUsage) -> None:
    """Stop the session that works for a call with all that it has at work, and count that."""
    with suppress(SessionDown):
        async with child.subscribe(kinds=[AbortSettled]) as settled:
            try:
                await child.abort("its parent's call is over", kill_tools="all", clear_queue=True, wait=False)
                await child.stop("its parent's call is over")
            finally:
                with suppress(trio.WouldBlock, trio.EndOfChannel):
                    while True:
                        event = settled.next_nowait()
                        assert isinstance(event, AbortSettled)  # noqa: S101 - no other was asked for
                        usage.add(event.receipt)


def _look_at(entry: _Entry) -> ActorView:
    cell = entry.cell
    phase = "ended" if cell.state.ended else cell.state.phase.value
    return ActorView(phase, cell.mailbox.statistics().waiting, entry.branch.supervisor)


_OPTIONS: Final = Options(look=_look_at)


async def _no_session() -> None:
    """Stand in the template, which is never started: each session comes with a spec of its own."""


_TEMPLATE: Final = ChildSpec("session", worker(_no_session), "temporary")
