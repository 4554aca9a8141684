"""Supervised sessions: start, find, watch, restart and stop them."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, Unpack, overload

import trio
from attrs import evolve, frozen

from agentrail.abc import (
    NO_HOST,
    Capabilities,
    Error,
    HostHooks,
    Ok,
    Provider,
    ProviderProfiles,
    ResolveProvider,
)
from agentrail.abc.event_reader import ConsumerStatistics
from agentrail.abc.store import Node
from agentrail.actors.actor_types import Options, Start
from agentrail.actors.child_run import cleanup_scope
from agentrail.actors.deferred_error import ungrouped
from agentrail.actors.mailbox import Mailbox
from agentrail.actors.supervisor_handle import Supervisor
from agentrail.actors.supervisor_loop import log_report
from agentrail.actors.tree_report import TreeNode, TreePart
from agentrail.actors.trio_check import need_trio
from agentrail.core.journal.erasure import USER_FORGOTTEN
from agentrail.core.policy.budget import Price
from agentrail.core.protocol.request import Chunk, Completed, ModelRequest
from agentrail.core.protocol.signals import Parked
from agentrail.errors import (
    ActorDown,
    AgentrailError,
    AlreadyStarted,
    BadRequest,
    CycleFailed,
    ErrorInfo,
    OptionError,
    SessionDown,
    SessionRefused,
    UnknownTool,
)
from agentrail.events import AgentAbort, AgentEnd, AgentError, Event, ToolExecutionEnd
from agentrail.frozen import frozen_json, not_json
from agentrail.messages import (
    AssistantMessage,
    CallId,
    JsonObject,
    JsonValue,
    SessionId,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from agentrail.otp.child_specs import ChildSpec, Restart, Spec
from agentrail.otp.crash_text import describe_bug, describe_crash
from agentrail.otp.exits import Stuck
from agentrail.otp.guarded_calls import repr_of
from agentrail.otp.supervision_types import Report, Started
from agentrail.otp.unique import Unique
from agentrail.outside import current
from agentrail.runtime.arguments import fault_of, fault_of_whole, faults_of_key, refuse
from agentrail.runtime.assembly import Dependencies, assemble, decide_refusal
from agentrail.runtime.branch import BRANCH, Branch
from agentrail.runtime.child_sessions import ChildSessions
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, TaskGroup, log_crash, what_travels
from agentrail.runtime.cycle_reply import raise_failure
from agentrail.runtime.deps import DepsFor
from agentrail.runtime.embedder_guard import EmbedderEdge
from agentrail.runtime.ended_sessions import EndedSessions, LastWords
from agentrail.runtime.event_subscription import decide_terms
from agentrail.runtime.fan_in import EVERY, EventReader, ManySubscription
from agentrail.runtime.forks import Forks
from agentrail.runtime.health import Health
from agentrail.runtime.hibernation import Hibernation, Revive
from agentrail.runtime.journals import Journals
from agentrail.runtime.keywords import GivesOptions, SessionKeywords
from agentrail.runtime.persistence import STORE_PATIENCE_SECONDS, Keeping
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.session_actor import SessionCell, SessionCrashed
from agentrail.runtime.session_clock import Alarm, now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import NO_SCOPE, fault_of_scope, is_in, key_of
from agentrail.runtime.session_monitor import SessionMonitor
from agentrail.runtime.session_moves import Moves
from agentrail.runtime.session_nodes import SessionNodes
from agentrail.runtime.session_options import SessionOptions, decide_options
from agentrail.runtime.session_reports import DEFAULT_BUFFER, SessionReport, SessionReports
from agentrail.runtime.session_rest import Rested
from agentrail.runtime.session_sandbox import MakeSandbox, Workspace
from agentrail.runtime.session_stores import NO_STORES, SharedStores, StoreDesks
from agentrail.runtime.shared_resources import SessionEntry, Shared, of_part
from agentrail.runtime.shutdown import (
    CHILD_STOP_WITHIN_SECONDS,
    CLOSE_WITHIN_SECONDS,
    LEAVE_WITHIN_SECONDS,
    close_workspace,
    fault_of_within,
    leave_quietly,
    rest_session,
    stop_quietly,
    tree_by_tree,
)
from agentrail.runtime.tool_sources import SessionTools, ToolSources, is_shared
from agentrail.runtime.tool_specs import ToolSpecs
from agentrail.runtime.tool_threads import ToolThreads
from agentrail.runtime.user_erasure import UserErasure
from agentrail.runtime.vector_search import Meanings


@frozen(kw_only=True)
class SupervisorStatistics:
    """Counters of a session supervisor.

    Attributes:
        live: Sessions that have not ended.
        asleep: Live sessions that are hibernated.
        ended: Ended sessions, including parked ones.
        parked: Sessions that crashed too often.
        left_behind: Tools whose threads keep running although their calls were stopped.
        deleted: Stored sessions deleted with their trees because of `keep_days` or `keep_bytes`.
        deleted_bytes: Bytes of the records, snapshots and large values of the deleted sessions.
        malformed_traces: Prompts whose trace context was malformed, and left out.
        consumers: Progress of the readers of events: telemetry, metrics, audit.
    """

    live: int
    asleep: int = 0
    started: int
    ended: int
    parked: int
    restarts: int
    tool_threads: int = 0
    left_behind: tuple[str, ...] = ()
    deleted: int = 0
    deleted_bytes: int = 0
    malformed_traces: int = 0
    consumers: tuple[ConsumerStatistics, ...] = ()


DISMISS_WITHIN_SECONDS: Final = 5.0
"""Seconds that an ended or crashed session waits for its tools. Tools that shield themselves for longer are left behind."""


_OPTIONS: Final = Options(look=SessionEntry.look)


class SessionSupervisor(Unique):
    """Owner of sessions. A crash of one session does not affect the others, and no session outlives its supervisor."""

    providers: ProviderProfiles
    """Named profiles for `registry:<profile>:<model>`, set by `open_supervisor`."""

    def __init__(  # noqa: PLR0913 - the collaborators of a supervisor
        self,
        root: Supervisor,
        nursery: trio.Nursery,
        *,
        resolve_provider: ResolveProvider,
        make_sandbox: MakeSandbox,
        host: HostHooks = NO_HOST,
        deps_for: DepsFor | None = None,
        shared: SharedStores = NO_STORES,
        keeping: Keeping | None = None,
        revive: Revive | None = None,
        hibernate_after: float | None = None,
        reader: EventReader | None = None,
    ) -> None:
        """Created by `open_supervisor`."""
        self._root = root
        # The nursery runs the work of the sessions and outlives each of them.
        self._shared = Shared(nursery=nursery, keeping=keeping, ended=EndedSessions(nursery))
        self._shared.fan_in.reader = reader
        self.journals: Journals = Journals(self._shared, known=self._known, seen=self._seen)
        if keeping is not None and keeping.retention is not None:
            keeping.retention.clearing_notes = self.journals.clearing_notes
        self.nodes: SessionNodes = SessionNodes(self._shared)
        self._children = ChildSessions(self._shared, begin=self._begin)
        embedder = shared.embedder
        meanings = None if embedder is None else Meanings(EmbedderEdge(embedder), nursery.start_soon)
        self._shared.dependencies = Dependencies(
            resolve_provider=resolve_provider,
            make_sandbox=make_sandbox,
            specs=ToolSpecs(),
            threads=ToolThreads(),
            run_child=self._children.run_child,
            host=host,
            run_agent=self._children.run_agent,
            resume_child=self._children.resume_child,
            deps_for=deps_for,
            desks=None if shared is NO_STORES else StoreDesks(shared, current(), meanings),
            instructions=shared.instructions,
        )
        if reader is not None:
            self._shared.dependencies.traces.ratio = reader.sample
            self._shared.dependencies.traces.tells_providers = reader.tells_providers
        self._forks = Forks(self._shared, self.journals, check_free=self._check_free, begin=self._begin)
        self._hibernation = Hibernation(
            self._shared,
            self._forks,
            begin=self._begin,
            note_parked=self._note_parked,
            revive=revive or (lambda _: None),
            after=hibernate_after,
        )
        if keeping is not None and keeping.heartbeat is not None:
            keeping.heartbeat.sessions = lambda: [entry.cell for entry in self._shared.entries.values()]
        self.sources: ToolSources = ToolSources(shared.make_source, shared.servers, root.start_child, nursery)
        self._moves = Moves(self._shared, known=self._known, left_to_others=self._hibernation.left_to_others)
        self._erasure = UserErasure(
            self._shared,
            known=self._known,
            sessions=self.sessions,
            stop=self._stop_forgotten,
            forget_logins=self.sources.forget_logins,
        )
        self._health = Health(self._shared)
        # One bound method each, rather than one per session.
        self._find, self._life = self._find_cell, self._live_on
        self._alarm: Alarm[Mailbox[Any]] = Alarm()
        nursery.start_soon(self._alarm.run, name="alarm of sessions")
        self._started = self._ended = self._parked = self._restarts = 0

    find: Final = of_part("journals", Journals.find)
    newest: Final = of_part("journals", Journals.newest)
    facts_of: Final = of_part("journals", Journals.facts_of)
    stored_journal: Final = of_part("journals", Journals.stored_journal)
    stored_state: Final = of_part("journals", Journals.stored_state)
    find_records: Final = of_part("journals", Journals.find_records)
    plain_state_at: Final = of_part("journals", Journals.plain_state_at)
    explain_record: Final = of_part("journals", Journals.explain_record)
    events_page: Final = of_part("journals", Journals.events_page)
    check_store: Final = of_part("journals", Journals.check_store)
    spendings: Final = of_part("journals", Journals.spendings)
    export_session: Final = of_part("journals", Journals.export_session)
    import_session: Final = of_part("journals", Journals.import_session)
    trim_session: Final = of_part("journals", Journals.trim_session)
    delete_session: Final = of_part("journals", Journals.delete_session)
    resume_session: Final = of_part("_hibernation", Hibernation.resume_session)
    resume_all: Final = of_part("_hibernation", Hibernation.resume_all)
    follow_orphans: Final = of_part("_hibernation", Hibernation.follow_orphans)
    cluster_facts: Final = of_part("_hibernation", Hibernation.cluster_facts)
    check_revive: Final = of_part("_hibernation", Hibernation.check_revive)
    take_moved: Final = of_part("_hibernation", Hibernation.take_moved)
    move_session: Final = of_part("_moves", Moves.move_session)
    drain: Final = of_part("_moves", Moves.drain)
    call_nodes: Final = of_part("_moves", Moves.call_nodes)
    forget_user: Final = of_part("_erasure", UserErasure.forget_user)
    end_forgotten: Final = of_part("_erasure", UserErasure.end_forgotten)
    memories_of: Final = of_part("_erasure", UserErasure.memories_of)
    parked_sessions: Final = of_part("_health", Health.parked_sessions)
    plugin_use: Final = of_part("_health", Health.plugin_use)
    fault_of_model: Final = of_part("_health", Health.fault_of_model)
    budget_use: Final = of_part("_health", Health.budget_use)
    owed: Final = of_part("journals", Journals.owed)
    change_owed: Final = of_part("journals", Journals.change_owed)
    adopt_owed: Final = of_part("journals", Journals.adopt_owed)
    take_allowance: Final = of_part("journals", Journals.take_allowance)
    limit_sessions: Final = of_part("journals", Journals.limit_sessions)
    describe_profiles: Final = of_part("journals", Journals.describe_profiles)
    look_at_nodes: Final = of_part("journals", Journals.look_at_nodes)

    @property
    def keeps_owed(self) -> bool:
        """Whether there is a store that also keeps the outbox of owed deliveries."""
        return self.journals.keeps_owed

    @property
    def shared_node(self) -> str:
        """Id of this node if other nodes may use the same store, otherwise empty."""
        return self.journals.shared_node

    @property
    def is_closing(self) -> bool:
        """Whether the supervisor accepts no more sessions."""
        return self._shared.down is not None

    def ask_host(self, host: HostHooks) -> None:
        """Let a host judge the calls of sessions that start from now on. Called by a host that is opened over this supervisor.

        Raises:
            OptionError: Your move: another host already judges these calls.
        """
        if host is NO_HOST:
            return
        if self._shared.dependencies.host is not NO_HOST:
            fault = "this supervisor already belongs to another host: open a supervisor for each host"
            raise OptionError([fault])
        self._shared.dependencies = evolve(self._shared.dependencies, host=host)

    @overload
    async def start_session(self, options: SessionOptions, /) -> Session: ...

    @overload
    async def start_session(self, *, model: str | Provider, **given: Unpack[SessionKeywords]) -> Session: ...

    @overload
    async def start_session(
        self, blueprint: GivesOptions, /, *, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Session: ...

    @overload
    async def start_session(
        self, *, blueprint: GivesOptions, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Session: ...

    async def start_session(  # type: ignore[misc]  # mypy finds no keyword of a TypedDict in `Any`
        self, options: SessionOptions | GivesOptions | None = None, /, **given: Any
    ) -> Session:
        """Start a session, and return its handle once it accepts prompts.

        Args:
            options: All options as one object, without keywords. Or a blueprint, whose options the keywords override.
            **given: The same options as keywords. See `SessionOptions`. They override those of `blueprint`, an object with
                `.options()`.

        Raises:
            OptionError: Your move: unknown options or wrong values, all faults at once. Nothing was started.
            ToolDefinitionError: Your move: two tools with one name, or an invalid schema.
            ModelNotFound: Your move: unknown provider. The message suggests the nearest name.
            Authentication: Your move: no API key. The message names the variable, and `demo:` as a way to try.
            AlreadyStarted: A live session of this scope has this id. `handle` is its handle.
            PluginError: Your move: a plugin that cannot be loaded, or an invalid stack. All faults at once.
            SessionRefused: No one's move: a plugin refused this session. Nothing was started.
            SessionDown: The supervisor is closing, or the session was stopped before it was ready.
            AlreadyExists: Your move: the store has a session with this id. Resume it, or use another id.
            StoreUnavailable: The store accepts no writes for now. Nothing was started.

        Cancellation: Always a checkpoint. If cancelled here, nothing was started.
        """
        await trio.lowlevel.checkpoint()
        return await self._start(decide_options(options, given))

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        options: SessionOptions | None = None,
        /,
        **given: Unpack[SessionKeywords],
    ) -> Ok | Error:
        """Call a tool as a session would, without a model.

        A session is started for the call and stopped after it. The call passes its gates, plugins, approvals and
        budget, and appears in its events.

        Args:
            name: Name of a tool in the options.
            arguments: Arguments of the call. Arguments that its schema rejects result in an `Error`, as they do for a model. None
                for no arguments.
            options: Same as `start_session`. The model and its options are ignored, and a tool or plugin that
                requests one is refused. A crash of the session ends the call, which is never repeated.
            **given: The same options as keywords.

        Returns:
            The tool's result. A refused, rejected or stopped call returns an `Error` with the reason.

        Raises:
            UnknownTool: Your move: the options have no such tool. Nothing was started.
            OptionError: Your move: an invalid name, arguments or options. All faults at once.
            CycleAborted: A plugin or an operator ended it before the call began.
            CycleFailed: It failed before the call began. `error` has the reason.
            ToolDefinitionError, AlreadyStarted, PluginError, SessionRefused, SessionDown: Same as `start_session`.

        Cancellation: The tool and all its work are stopped before the cancellation propagates, within four seconds.
        """
        await trio.lowlevel.checkpoint()
        session = await self._start(decide_call(name, arguments, options, given), calling=name)
        try:
            return await run_call(session, name)
        finally:
            with trio.move_on_after(CHILD_STOP_WITHIN_SECONDS, shield=True):
                await stop_quietly(session._cell, "the call has ended")  # noqa: SLF001 - internal access to the cell of a handle

    async def _start(self, chosen: SessionOptions, *, calling: str | None = None) -> Session:
        session_id = SessionId(chosen.session_id or f"s-{self._shared.dependencies.outside.ids(6)}")
        self._check_free(chosen.scope, session_id)
        cell, workspace = assemble(session_id, chosen, self._shared.dependencies)
        names = cell.state.data.tools.names
        if calling is not None and calling not in names:
            there = f"expected one of {', '.join(names)}" if names else "give tools in the options"
            message = f"there is no tool {calling!r:.200} to call: {there}"
            raise UnknownTool(message, names=names)
        refused = decide_refusal(cell.state, now_ms())
        if refused is not None:
            raise SessionRefused(session_id, refused)
        if self._shared.keeping is None:
            session = self._begin(cell, workspace, chosen.restart)
        else:
            cell.options = chosen
            async with self._shared.beginnings.hold(cell.ports.key):
                self._check_free(chosen.scope, session_id)
                await self._shared.begin_journal(cell)
                session = self._begin(cell, workspace, chosen.restart)
        if self.sources.running or chosen.mcp:
            await self._wait_required(session)
        return session

    async def wait_for_tools(self, session_id: str, *, scope: str = NO_SCOPE) -> None:
        """Wait until each tool source of a session is ready or was lost, and the session has its tools.

        For a program that gives one prompt and ends: otherwise its model would see only the tools that are there in time.

        Cancellation: Only the wait is cancelled.
        """
        refuse(*faults_of_key(scope, session_id))
        entry = self._shared.entries.get(key_of(scope, session_id))
        if entry is not None and entry.tools is not None:
            with suppress(SessionDown):
                await entry.tools.wait_settled()

    async def _wait_required(self, session: Session) -> None:
        entry = self._shared.entries.get(key_of(session.scope, session.session_id))
        if entry is None or entry.tools is None:
            return
        try:
            await entry.tools.wait_required()
        except SessionDown:
            raise
        except BaseException:
            is_over = trio.Event()
            self._shared.nursery.start_soon(self._withdraw, entry.cell, is_over, name="withdraw a start")
            with cleanup_scope(CLOSE_WITHIN_SECONDS):
                await is_over.wait()  # noqa: ASYNC102 - shielded and bounded
            raise

    async def _withdraw(self, cell: SessionCell, is_over: trio.Event) -> None:
        """Stop a session whose start failed, and free its id unless the session has worked meanwhile."""
        await stop_quietly(cell, "a required server is unavailable")
        if self._shared.keeping is not None and cell.state.ended and cell.state.data.last is None:
            with suppress(AgentrailError):  # then it stays, ended
                await self.journals.delete_session(cell.ports.session_id, scope=cell.ports.scope)
        is_over.set()

    def session(self, session_id: str, *, scope: str = NO_SCOPE) -> Session:
        """Return the handle of a live session. A hibernated session is found too, and wakes with the first call of its handle.

        Args:
            session_id: Its id.
            scope: Scope that it was started in. A session of another scope is not found.

        Raises:
            OptionError: Your move: the id is not a string, or an invalid scope, such as one with a slash.
            SessionDown: There is no such session. `SessionRested` if it was put to rest.
        """
        refuse(*faults_of_key(scope, session_id))
        cell = self._known(key_of(scope, session_id))
        if cell is None:
            raise self._shared.ended.error_for(scope, session_id, self._shared.down)
        return Session(cell)

    def sessions(self, *, scope: str | None = None) -> tuple[Session, ...]:
        """Return the live sessions, oldest first, without hibernated ones (see `session` and `find`).

        Args:
            scope: Only sessions of this scope, `""` for those without one. None for all.

        Raises:
            OptionError: Your move: an invalid scope.
        """
        refuse(None if scope is None else fault_of_scope("scope", scope))
        live = (entry.cell for entry in self._shared.entries.values() if not entry.cell.state.ended)
        return tuple(Session(cell) for cell in live if scope is None or cell.ports.scope == scope)

    def subscribe_all(
        self,
        *,
        after: Mapping[str, int] | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
        scope: str | None = None,
    ) -> ManySubscription:
        """Subscribe to all sessions, current and future.

        Args:
            after: The last event number received from each session, such as `SubscriberTooSlow.positions`. Each session continues
                after its number. Sessions not listed are replayed from their start, and ended ones are not replayed. None for live
                events only. A session with a scope is named `scope/id`. With a store, events no longer in memory are rebuilt from
                the journals before the block is entered: one session after the other, at most 100,000 events in all. Where that
                fails, `EventsLost` is the first event of that session.
            kinds: Same as `Session.subscribe`.
            deltas: Same as `Session.subscribe`.
            buffer: Same as `Session.subscribe`. One buffer for all sessions together.
            scope: Same as `sessions`.

        Returns:
            An async context manager to iterate over. `event.meta` names the session of an event. Each session's events come in
            their order. Iteration ends when the supervisor closes.

        Raises:
            OptionError: Your move: an invalid argument. A number after the last event of its session raises `CursorAhead` when
                the block is entered.
        """
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._shared.fan_in.subscribe_all(terms, after, scope)

    def subscribe_group(  # noqa: PLR0913 - same as `subscribe_all`, by keyword, and the group
        self,
        group_id: str,
        *,
        after: Mapping[str, int] | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
        scope: str | None = None,
    ) -> ManySubscription:
        """Subscribe to the sessions of a group, as `subscribe_all` does to all. The group may still be empty.

        Args:
            group_id: Group that the sessions were started with.
            after: Same as `subscribe_all`.
            kinds: Same as `Session.subscribe`.
            deltas: Same as `Session.subscribe`.
            buffer: Same as `subscribe_all`.
            scope: Same as `subscribe_all`. Two scopes may each have a group of one name.

        Raises:
            OptionError: Same as `subscribe_all`.
        """
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._shared.fan_in.subscribe_group(group_id, terms, after, scope)

    async def stop_session(self, session_id: str, reason: str = "stopped", *, scope: str = NO_SCOPE) -> None:
        """Stop a session and wait until it has ended.

        Raises:
            OptionError: Your move: an id or a reason that is not a string, or an invalid scope.
            SessionDown: No session of this scope has this id.

        Cancellation: The session ends regardless.
        """
        session = self.session(session_id, scope=scope)
        monitor = session.monitor()
        await session.stop(reason)
        await monitor.wait()

    async def _stop_forgotten(self, root: str, scope: str) -> None:
        place = await self.nodes.owner_of(root, scope=scope, is_fresh=True)
        if isinstance(place, Node):
            await self._moves.stop_at(place, scope, SessionId(root))
        else:
            await self.stop_session(root, USER_FORGOTTEN, scope=scope)

    async def rest(self, session_id: str, within: float = 10.0, *, scope: str = NO_SCOPE) -> Rested:
        """Put a session to rest: it stops without ending, and its state is returned as bytes.

        It stops while idle, also if a cycle waits for users, or between two turns. After that, callers get
        `SessionRested`, and subscriptions end with `is_rested`. No `SessionEnd` is published.

        Args:
            session_id: Id of a root session. Children rest with the calls that they work for.
            within: Seconds to wait for such a point. After that the session is cut where it is, and the state lists the open work.
            scope: Scope that it was started in.

        Returns:
            The session's state, once none of its work is running. Two callers get the same.

        Raises:
            OptionError: Your move: an invalid id, scope or time, or the id of a child.
            CallingSelf: Your move: a tool of this session made the call.
            CodecError: Its state holds values that JSON cannot represent. The session continues unchanged.
            SessionDown: There is no live session with this id, or it ended first. `SessionRested`: it is already at rest.

        Cancellation: The session continues. If it had stopped by then, its state is in `last_words(id).rested` for a while.
        """
        refuse(fault_of_within(within))
        session = self.session(session_id, scope=scope)
        return await rest_session(session._cell, within)  # noqa: SLF001 - internal access to the cell of a handle

    def monitor(self, session: Session | str, *, scope: str = NO_SCOPE) -> SessionMonitor:
        """Monitor a session: `await monitor.wait()` returns when it has ended for good. A restart does not count as an end.

        Args:
            session: A handle, also of an ended session; or the id of a live one.
            scope: For an id: the scope that its session was started in.

        Raises:
            OptionError: Your move: neither a handle nor an id, or an invalid scope.
            SessionDown: This scope has no live session with this id.
        """
        return (session if isinstance(session, Session) else self.session(session, scope=scope)).monitor()

    def last_words(self, session_id: str, *, scope: str = NO_SCOPE) -> LastWords | None:
        """Return how a session ended, if it is one of the last 10,000 that did. Works after the supervisor was closed, too.

        Args:
            session_id: Its id. If it is live again, the result is still about the last session of this id that ended.
            scope: Scope that it was started in.

        Returns:
            How it ended, with its handle for five minutes. None: no ended session of this id is known.

        Raises:
            OptionError: Your move: the id is not a string, or an invalid scope.
        """
        refuse(*faults_of_key(scope, session_id))
        return self._shared.ended.find(key_of(scope, session_id))

    def reports(self, *, scope: str | None = None, buffer: int = DEFAULT_BUFFER) -> SessionReports:
        """Stream reports of restarts and parked sessions, as they happen.

        Args:
            scope: Same as `sessions`.
            buffer: Reports that may wait for the reader. When it is full the oldest are dropped, and `dropped` counts
                them.

        Returns:
            An async context manager to iterate over. Iteration ends when the supervisor closes. `last_words` already has a
            session that is reported as parked.

        Raises:
            OptionError: Your move: an invalid scope, or a buffer below 1.
        """
        return self._shared.board.subscribe(scope=scope, buffer=buffer)

    async def tree(
        self, *, scope: str | None = None, after: int | None = None, limit: int | None = None
    ) -> TreeNode:
        """Return the whole tree as data: the supervisor, its sessions, and their children.

        Args:
            scope: Same as `sessions`.
            after: Continue after the session with this number, the last part of its `key`. None to begin.
            limit: Maximum number of sessions, in the order in which they started. None for all.

        Returns:
            The root; for each session its id (`scope/id`, if it has a scope), phase, restarts, uptime and mailbox.
            `render_tree` formats it as text.

        Raises:
            OptionError: Your move: an invalid argument.
            SessionDown: The supervisor was closed.

        Cancellation: Always a checkpoint.
        """
        refuse(
            None if scope is None else fault_of_scope("scope", scope),
            None if after is None else fault_of_whole("after", after, 0),
            None if limit is None else fault_of_whole("limit", limit, 0, sys.maxsize),
        )
        try:
            wanted = TreePart(
                wanted=lambda node: scope is None or is_in(scope, node) or is_shared(node),
                after=after,
                limit=limit,
            )
            return await self._root.tree(wanted)
        except ActorDown:
            raise SessionDown(EVERY, self._shared.down or "the supervisor was closed") from None

    def statistics(self) -> SupervisorStatistics:
        """Return the counters. Cheap at any time, also after the supervisor was closed."""
        threads = self._shared.dependencies.threads.statistics()
        retention = None if self._shared.keeping is None else self._shared.keeping.retention
        reader = self._shared.fan_in.reader
        return SupervisorStatistics(
            live=sum(not entry.cell.state.ended for entry in self._shared.entries.values())
            + len(self._shared.asleep),
            asleep=len(self._shared.asleep),
            started=self._started,
            ended=self._ended,
            parked=self._parked,
            restarts=self._restarts,
            tool_threads=threads.running,
            left_behind=threads.left_behind,
            deleted=0 if retention is None else retention.deleted,
            deleted_bytes=0 if retention is None else retention.deleted_bytes,
            malformed_traces=self._shared.dependencies.traces.malformed,
            consumers=() if reader is None else reader.statistics(),
        )

    async def start_behind(self, session_id: str, spec: Spec, *, scope: str = NO_SCOPE) -> Started:
        """Start a child in the subtree of a session, after its actor, such as a connection that ends with the session.

        Raises:
            SessionDown: This scope has no live session with this id.
            ActorDown: Its actor ended meanwhile.
            Exception: Same as `agentrail.actors.Supervisor.start_child`.

        Cancellation: Always a checkpoint. If cancelled here, neither child nor spec stays.
        """
        # The child starts after the actor, so wait until an incarnation is running.
        await self.session(session_id, scope=scope).status()
        entry = self._shared.entries.get(key_of(scope, session_id))
        if entry is None:
            raise self._shared.ended.error_for(scope, session_id, self._shared.down)
        return await entry.branch.start_child(spec)

    async def stop_all(self, reason: str) -> None:
        """Accept no more sessions, and stop the current ones concurrently, newest first.

        Cancellation: Sessions that have not ended yet are left to the cancelling code.
        """
        self._shared.down = reason
        self._hibernation.close_hollow()
        with ungrouped():
            async with trio.open_nursery() as nursery:
                async for entry in tree_by_tree(self._shared.entries.values()):
                    if entry.cell.is_leaving:  # it stops on its own
                        continue
                    if entry.cell.journal is None:
                        nursery.start_soon(stop_quietly, entry.cell, reason)
                    elif len(entry.cell.state.data.config.path) == 1:  # children stop with their root
                        nursery.start_soon(leave_quietly, entry.cell, LEAVE_WITHIN_SECONDS)

    async def _close_rest(self) -> None:
        for entry in tuple(self._shared.entries.values()):
            await self._retire(entry, "the supervisor had no time left for it")
        await self._hibernation.close()
        self._shared.fan_in.close("the supervisor was closed")
        self._shared.ended.close()
        self._shared.board.close("the supervisor was closed")

    # --- finding

    def _check_free(self, scope: str, session_id: SessionId) -> None:
        if self._shared.down is not None:
            raise SessionDown(session_id, self._shared.down)
        need_trio(self._shared.run)
        known = self._known(key_of(scope, session_id))
        if known is not None:
            within = f" of scope {scope!r}" if scope else ""
            message = f"session {session_id!r}{within} is already alive: use its handle, or another id"
            raise AlreadyStarted(message, handle=Session(known))

    def _known(self, key: str) -> SessionCell | None:
        entry = self._shared.live(key)
        if entry is not None:
            return entry.cell
        return None if self._shared.down is not None else self._hibernation.hollow_of(key)

    def _seen(self, key: str) -> SessionCell | None:
        cell = self._known(key)
        if cell is not None:
            return cell
        words = self._shared.ended.find(key)
        session = None if words is None else words.session
        return None if session is None else session._cell  # noqa: SLF001 - internal access to the cell of a handle

    def _find_cell(self, scope: str, session_id: str) -> SessionCell | None:
        entry = self._shared.live(key_of(scope, session_id))
        return None if entry is None else entry.cell

    def _begin(self, cell: SessionCell, workspace: Workspace, restart: Restart) -> Session:
        key = cell.ports.key
        branch = Branch(key, BRANCH, redact=cell.scrub)
        tools = None
        if len(cell.state.data.config.path) == 1 and (self.sources.running or cell.ports.servers):
            tools = SessionTools(cell, self.sources, branch.start_child)
            tools.join()
        entry = self._shared.entries[key] = SessionEntry(cell, workspace, branch, self._life, tools)
        cell.find = self._find
        if self._shared.keeping is not None:
            cell.branching = self._forks
        self._shared.fan_in.join(cell)
        self._hibernation.watch(cell)
        # Not awaited: a subscriber that enters before the next checkpoint sees every event of the session.
        # A session ends cleanly only on request, so a `permanent` one must not restart either.
        within: Restart = "temporary" if restart == "temporary" else "transient"
        self._root.start_child_soon(ChildSpec(cell.ports.key, Start(entry.live, options=_OPTIONS), within))
        return Session(cell)

    # --- the lifetime of a session

    async def _live_on(self, entry: SessionEntry) -> None:
        cell = entry.cell
        if cell.ending is not None:  # its sandbox failed to close: reported, not retried
            return
        if cell.crash is None:
            self._started += cell.sleep is None or not cell.sleep.was_asleep
        else:
            self._restarts += 1
            self._shared.board.publish("restarted", cell, cell.state.data.incarnation + 1, now_ms())
        watch = cell.state.data.stack.ask
        if isinstance(watch, PluginWatch):
            watch.count_in(self._shared.dependencies.tallies.of(cell.ports.scope))
        scrub = cell.scrub
        task_group = TaskGroup(self._shared.nursery, cell.mailbox, scrub)
        entry.branch.enter(task_group)
        if entry.tools is not None:
            entry.tools.join()
            scope = trio.CancelScope()
            task_group.start_soon(entry.tools.run, scope, scope=scope, name="tools of sources")
        try:
            parked = await cell.run(task_group, self._alarm)
            if parked is not None:
                self._note_parked(cell.ports.scope, cell.ports.session_id, parked)
        except BaseException as error:
            leaving = what_travels(error)
            if leaving is error:
                raise
            if leaving is not None:
                raise leaving from None  # noqa: ASYNC104 - decided by `what_travels`
            cell.crash = scrub(describe_bug(error))[:MAX_CRASH_MESSAGE]
            log_crash(f"session {cell.ports.key} crashed: {cell.crash}", error, scrub)
            # Reports repeat this exception, so it must hold no secret and must not end the supervisor.
            if not isinstance(error, Exception) or scrub(words := describe_crash(error)) != words:
                raise SessionCrashed(cell.crash) from None  # noqa: ASYNC104 - decided by `what_travels`
            raise
        finally:
            entry.branch.leave()
            if entry.tools is not None and cell.is_leaving:
                entry.tools.leave()
            if cell.crash is None and not cell.is_leaving:
                self._close(entry, "the supervisor had no time left for it")
            await self._dismiss(entry, task_group)  # noqa: ASYNC102 - shielded and bounded inside
            if cell.is_leaving:
                self._hibernation.suspend(entry)
            elif cell.crash is None:
                await self._retire(entry, "ended")  # noqa: ASYNC102 - shielded and bounded inside

    async def _dismiss(self, entry: SessionEntry, task_group: TaskGroup) -> None:
        with cleanup_scope(DISMISS_WITHIN_SECONDS):
            await task_group.dismiss()
        key, incarnation = entry.cell.ports.key, entry.cell.state.data.incarnation
        for name in task_group.working:
            log_report(
                Report(
                    kind="stuck",
                    supervisor=key,
                    child_id=name,
                    incarnation=incarnation,
                    reason=Stuck(DISMISS_WITHIN_SECONDS),
                    at_seconds=trio.current_time(),
                )
            )
        if task_group.working and entry.cell.crash is not None:
            entry.cell.crash += f"; left behind, still running: {', '.join(task_group.working)}"

    def _hear(self, report: Report) -> None:
        ended = self._shared.entries.get(str(report.child_id)) if report.kind == "child_terminated" else None
        if ended is None or ended.cell.crash is None:  # otherwise it was logged already, without its secrets
            log_report(report)
        is_given_up = report.kind == "shutdown" or (
            report.kind == "child_terminated" and report.restart == "temporary"
        )
        entry = self._shared.entries.get(str(report.child_id)) if is_given_up else None
        if entry is not None and entry.cell.crash is not None:  # else: an older session with this id
            self._park(entry, entry.cell.crash)

    def _park(self, entry: SessionEntry, crash: str) -> None:
        self._parked += 1
        entry.cell.say_last_words(Parked(at_ms=now_ms(), reason=crash, spent=entry.cell.take_spent_below()))
        if entry.cell.journal is not None:
            self._shared.nursery.start_soon(self._park_kept, entry, crash, name="park")
            return
        self._close(entry, f"parked: {crash}")
        self._shared.board.publish("parked", entry.cell, entry.cell.state.data.incarnation, now_ms())
        self._shared.nursery.start_soon(self._retire, entry, f"parked: {crash}", name="park")

    def _note_parked(self, scope: str, session_id: SessionId, reason: str) -> None:
        self._parked += 1
        self._shared.board.note_parked(
            SessionReport(
                kind="parked",
                session_id=session_id,
                scope=scope,
                reason=reason,
                incarnation=0,
                at_ms=now_ms(),
            )
        )

    async def _park_kept(self, entry: SessionEntry, crash: str) -> None:
        """Park a session with a journal: its last record is written before anyone is notified."""
        with cleanup_scope(CLOSE_WITHIN_SECONDS + STORE_PATIENCE_SECONDS):
            await entry.cell.drain()
        self._close(entry, f"parked: {crash}")
        self._shared.board.publish("parked", entry.cell, entry.cell.state.data.incarnation, now_ms())
        await self._retire(entry, f"parked: {crash}")

    def _close(self, entry: SessionEntry, reason: str) -> None:
        key = entry.cell.ports.key
        entry.cell.close(reason)
        # Otherwise it is recorded already, and the next session with this id may exist.
        if self._shared.entries.get(key) is entry:
            del self._shared.entries[key]
            if entry.tools is not None:
                entry.tools.leave()
            self._hibernation.unwatch(key)
            self._shared.ended.add(entry.cell)
            if entry.cell.journal is not None:
                self._shared.retiring[key] = entry.cell

    async def _retire(self, entry: SessionEntry, reason: str) -> None:
        self._close(entry, reason)
        self._ended += 1
        if self._shared.keeping is not None and entry.cell.journal is not None:
            self._shared.keeping.leave(entry.cell)
            if self._shared.retiring.get(entry.cell.ports.key) is entry.cell:
                del self._shared.retiring[entry.cell.ports.key]
        leaves = entry.cell.journal is not None and entry.cell.rested is not None
        if entry.cell.state.data.agents.states and not leaves:
            self._children.stop_agents(entry.cell)
        try:
            await close_workspace(entry.workspace, entry.cell.ports)
        finally:
            entry.cell.finish(reason)


# --- A session for one tool call without a model. The call passes the same gates as any other.

CALL_ID: Final = CallId("call")
"""Id of the only call."""

_FREE: Final = Price(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)


class OneCallModel:
    name = "one-call"

    def __init__(self, tool: str, arguments: JsonObject) -> None:
        self._tool = tool
        self._arguments = arguments
        self._has_asked = False

    def capabilities(self, model: str) -> Capabilities:
        """Return a price of 0 and an output of 1 token, so that a budget reserves nothing."""
        return Capabilities(price=_FREE, max_output_tokens=1)

    def encode(self, request: ModelRequest) -> bytes:
        return b""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        await trio.lowlevel.checkpoint()
        if self._has_asked or self._tool not in request.tools.names:
            message = f"this session has no model: it was started for a single call of {self._tool!r}"
            raise BadRequest(message)
        self._has_asked = True
        call = ToolCall(call_id=CALL_ID, name=self._tool, arguments=self._arguments)
        said = AssistantMessage(content=(call,), model=request.model, stop_reason="tool_use")
        async with aclosing(_only(Completed("tool_use", said, TokenUsage()))) as chunks:
            yield chunks


async def _only(chunk: Chunk) -> AsyncGenerator[Chunk, None]:
    await trio.lowlevel.checkpoint()
    yield chunk


def decide_call(name: object, arguments: object, options: object, given: Mapping[str, Any]) -> SessionOptions:
    faults = [
        fault for fault in (fault_of("name", name, str), _fault_of_arguments(arguments)) if fault is not None
    ]
    OptionError.raise_for(faults)
    said: Any = {} if arguments is None else arguments
    model = OneCallModel(str(name), frozen_json(said))
    chosen = decide_options(options, given if options is not None else {**given, "model": model})
    return evolve(
        chosen,
        model=model,
        provider_opts={},  # options of the model that is not used
        fallback_models=(),
        response_format=None,
        max_turns=1,
        on_max_turns="stop",
        restart="temporary",  # a call is made only once
    )


def _fault_of_arguments(arguments: object) -> str | None:
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        return f"arguments is {repr_of(arguments):.200}: expected a mapping, such as {{'path': 'a.txt'}}"
    fault = not_json(dict(arguments), "arguments")
    return None if fault is None else f"{fault}: expected JSON values"


async def run_call(session: Session, name: str) -> Ok | Error:
    result: ToolResult | None = None
    async with session.subscribe(kinds=[ToolExecutionEnd, AgentEnd, AgentAbort, AgentError]) as events:
        await session.prompt(f"Call the tool {name}.")
        async for event in events:
            if isinstance(event, ToolExecutionEnd):
                result = event.result if event.call_id == CALL_ID else result
            else:
                return decide_call_outcome(event, result, name)
    raise SessionDown(session.session_id, "it ended before the call did")


def decide_call_outcome(end: Event, result: ToolResult | None, name: str) -> Ok | Error:
    if result is not None:  # also for a stopped call, whose result has the reason
        if result.is_error:
            return Error(text=result.text, details=result.details)
        return Ok(text=result.text, details=result.details, images=result.images)
    raise_failure(end)
    message = f"{name!r} was never called: a plugin switched the model, or answered instead"
    raise CycleFailed(ErrorInfo(code="not_called", message=message))
