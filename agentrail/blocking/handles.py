"""The handles: each call of a session and of a supervisor, once as a future and once blocking.

What each takes, gives and raises is said where it is defined, in `agentrail.runtime`, and follows from there, for type checkers
too. What may not enter: a decision about a session.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

import trio

from agentrail.abc import Embedder, KnowledgeStore, NoteStore, Provider, ProviderProfiles, RecallStore
from agentrail.abc.store import Store
from agentrail.app import Environment, open_supervisor
from agentrail.blocking.reading import CycleStream, SessionReports, Subscription
from agentrail.blocking.thread import SupervisorThread
from agentrail.errors import AlreadyStarted
from agentrail.events import Event
from agentrail.messages import Content, SessionId
from agentrail.runtime.answers import CycleReply
from agentrail.runtime.background_agents import BackgroundAgents as AsyncAgents
from agentrail.runtime.deps import DepsFor
from agentrail.runtime.handle import Session as AsyncSession
from agentrail.runtime.hibernation import Resume, Revive
from agentrail.runtime.keeping import STORE_PATIENCE_SECONDS, OnDrift
from agentrail.runtime.keywords import GivesOptions, SessionKeywords
from agentrail.runtime.monitoring import SessionMonitor as AsyncMonitor
from agentrail.runtime.own_prompts import OwnPrompts
from agentrail.runtime.scopes import NO_SCOPE
from agentrail.runtime.session_facts import SessionFacts
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.sandboxes.fallback import ShellFallback

# The two forms of a call. Their signatures are those of the call.
#
# Written out, sixty methods would have to follow each change of the sixty that they stand for. What may not enter: any of them.

GIVEN_UP: Final = "its caller gave it up"
"""The reason of an abort behind a future that was cancelled."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
_R_co = TypeVar("_R_co", covariant=True)


class Twin(Protocol[P, _R_co]):
    """What type checkers see of a twin; when the program runs it is a plain function, and bound like one."""

    @overload
    def __get__(self, holder: None, owner: Any) -> Callable[Concatenate[Any, P], _R_co]: ...
    @overload
    def __get__(self, holder: object, owner: Any) -> Callable[P, _R_co]: ...


class Far:
    """Stands for something that lives in the thread.

    Attributes:
        noun: What it is called in messages.
    """

    noun = ""

    def __init__(self, thread: SupervisorThread, near: Callable[[], Any]) -> None:
        self._thread = thread
        self._near = near


def later(
    call: Callable[Concatenate[Any, P], Awaitable[R]],
    *,
    within: Callable[[SupervisorThread, Awaitable[R]], Awaitable[R]] | None = None,
) -> Twin[P, Future[R]]:
    """Make the twin of a call that gives a future."""

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        def make() -> Awaitable[R]:
            made = call(self._near(), *args, **kwargs)
            return made if within is None else within(self._thread, made)

        return self._thread.submit(make)

    return cast("Twin[P, Future[R]]", start)


def later_or_aborted(call: Callable[Concatenate[Any, P], Awaitable[R]]) -> Twin[P, Future[R]]:
    """Make the twin of a call that waits for the cycle of a prompt: who cancels its future wants no such cycle any more."""

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        async def ask() -> R:
            own = OwnPrompts(self._near())
            try:
                return await call(own, *args, **kwargs)
            except trio.Cancelled:
                self._thread.start(own.abort_sent, GIVEN_UP)
                raise

        return self._thread.submit(ask)

    what = (call.__doc__ or "").partition("Cancellation:")[0]
    start.__doc__ = (
        f"{what}Cancellation: Of the future, or by Ctrl-C: the cycle of this very prompt is aborted; where it still waits it\n"
        "            leaves the queue. Cycles of other prompts go on.\n        "
    )
    return cast("Twin[P, Future[R]]", start)


def waits(of: Callable[Concatenate[Any, P], Future[R]]) -> Twin[P, R]:
    """Make the twin of a call that blocks, out of the one that gives a future."""
    name: str = cast("Any", of).__name__

    @wraps(of)
    def wait(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        thread: SupervisorThread = self._thread
        thread.refuse_to_hold(f"{self.noun}.{name}")
        return thread.wait(of(self.futures, *args, **kwargs))

    return cast("Twin[P, R]", wait)


def looks(call: Callable[Concatenate[Any, P], T], made: Callable[[SupervisorThread, T], R]) -> Twin[P, R]:
    """Make the twin of a call that does not wait: it is made in the thread, where nothing changes meanwhile."""

    @wraps(call)
    def look(self: Far, *args: P.args, **kwargs: P.kwargs) -> R:
        return made(self._thread, self._thread.look(lambda: call(self._near(), *args, **kwargs)))

    return cast("Twin[P, R]", look)


def as_it_is(_: SupervisorThread, value: T) -> T:
    """Make nothing of what was looked at."""
    return value


# Calls with typed keywords, as type checkers see them.
#
# `ParamSpec` keeps one signature of a call, and these have several. What they say is what `agentrail.runtime.prompting` says; when
# the program runs they are twins like all others.

E = TypeVar("E", bound=Event)
Started_co = TypeVar("Started_co", covariant=True)


class AsksLater(Protocol):
    """`ask`, with a future."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> "Future[str]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[T]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[Any]": ...


class Asks(Protocol):
    """`ask`, waiting."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> str: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> T: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Any: ...


class RunsLater(Protocol):
    """`run`, with a future."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> "Future[CycleReply[str]]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[CycleReply[T]]": ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[CycleReply[Any]]": ...


class Runs(Protocol):
    """`run`, waiting."""

    @overload
    def __call__(
        self, content: Content, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> CycleReply[str]: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: type[T],
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[T]: ...
    @overload
    def __call__(
        self,
        content: Content,
        *,
        output: Any,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> CycleReply[Any]: ...


class WaitsLater(Protocol):
    """`wait_for`, with a future."""

    @overload
    def __call__(
        self, what: type[E], *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> "Future[E]": ...
    @overload
    def __call__(
        self,
        what: Callable[[Event], bool],
        *,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> "Future[Event]": ...


class WaitsFor(Protocol):
    """`wait_for`, waiting."""

    @overload
    def __call__(
        self, what: type[E], *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> E: ...
    @overload
    def __call__(
        self,
        what: Callable[[Event], bool],
        *,
        timeout_seconds: float | None = None,
        wait_for_people: bool = False,
    ) -> Event: ...


class Starts(Protocol[Started_co]):
    """`start_session`, which gives a session, or a future of one."""

    @overload
    def __call__(self, options: SessionOptions, /) -> Started_co: ...
    @overload
    def __call__(self, *, model: str | Provider, **given: Unpack[SessionKeywords]) -> Started_co: ...
    @overload
    def __call__(
        self, blueprint: GivesOptions, /, *, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Started_co: ...
    @overload
    def __call__(
        self, *, blueprint: GivesOptions, model: str | Provider = ..., **given: Unpack[SessionKeywords]
    ) -> Started_co: ...


class Resumes(Protocol[Started_co]):
    """`resume_session`."""

    def __call__(
        self,
        session_id: str,
        options: SessionOptions | None = None,
        /,
        *,
        force: bool = False,
        model: str | Provider | None = None,
        **given: Unpack[SessionKeywords],
    ) -> Started_co:
        """Bring a stored session back; as of `SessionSupervisor.resume_session`."""


class MonitorFutures(Far):
    """The calls of a monitor as futures."""

    wait: Final = later(AsyncMonitor.wait)


class SessionMonitor(Far):
    """Watches one session. There is exactly one `SessionGone` to be told, however often it is asked for."""

    noun = "monitor"

    def __init__(self, thread: SupervisorThread, monitor: AsyncMonitor) -> None:
        """Made by `Session.monitor` and `Supervisor.monitor`."""
        super().__init__(thread, lambda: monitor)

    @property
    def futures(self) -> MonitorFutures:
        """Its calls as futures."""
        return MonitorFutures(self._thread, self._near)

    wait: Final = waits(MonitorFutures.wait)


# --- agents in the background


class AgentsFutures(Far):
    """The calls of `session.agents` as futures."""

    spawn: Final = later(AsyncAgents.spawn)
    send: Final = later(AsyncAgents.send)
    wait: Final = later(AsyncAgents.wait)
    close: Final = later(AsyncAgents.close)
    list: Final = later(AsyncAgents.list)


class BackgroundAgents(Far):
    """The agents in the background of a session, from outside of its supervisor's thread."""

    noun = "agents"

    @property
    def futures(self) -> AgentsFutures:
        """Its calls as futures."""
        return AgentsFutures(self._thread, self._near)

    spawn: Final = waits(AgentsFutures.spawn)
    send: Final = waits(AgentsFutures.send)
    wait: Final = waits(AgentsFutures.wait)
    close: Final = waits(AgentsFutures.close)
    list: Final = waits(AgentsFutures.list)


# --- sessions


def _later_forked(
    call: Callable[Concatenate[AsyncSession, P], Awaitable[AsyncSession]],
) -> Twin[P, "Future[Session]"]:
    """Make the twin of the call that begins a fork; one that is wanted no more when it comes is stopped."""

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[Session]":
        async def begin() -> Session:
            work = call(self._near(), *args, **kwargs)
            return Session(self._thread, await _with_twin(self._thread, work))

        return self._thread.submit(begin, _stop_unread)

    return cast('Twin[P, "Future[Session]"]', start)


class SessionFutures(Far):
    """The calls of a session as futures. Cancelling one ends the wait; that of `ask` and `run` aborts the cycle of its prompt."""

    prompt: Final = later(AsyncSession.prompt)
    go_on: Final = later(AsyncSession.go_on)
    receipt_of: Final = later(AsyncSession.receipt_of)
    ask: Final = cast("AsksLater", later_or_aborted(AsyncSession.ask))
    run: Final = cast("RunsLater", later_or_aborted(AsyncSession.run))
    wait_for: Final = cast("WaitsLater", later(cast("Any", AsyncSession.wait_for)))
    collect_reply: Final = later(AsyncSession.collect_reply)
    abort: Final = later(AsyncSession.abort)
    status: Final = later(AsyncSession.status)
    messages: Final = later(AsyncSession.messages)
    steer: Final = later(AsyncSession.steer)
    abort_tool: Final = later(AsyncSession.abort_tool)
    approve: Final = later(AsyncSession.approve)
    reject: Final = later(AsyncSession.reject)
    respond: Final = later(AsyncSession.respond)
    decline: Final = later(AsyncSession.decline)
    answer: Final = later(AsyncSession.answer)
    compact: Final = later(AsyncSession.compact)
    snapshot: Final = later(AsyncSession.snapshot)
    stop: Final = later(AsyncSession.stop)
    switch_model: Final = later(AsyncSession.switch_model)
    attach_tools: Final = later(AsyncSession.attach_tools)
    detach_tools: Final = later(AsyncSession.detach_tools)
    replace_tools: Final = later(AsyncSession.replace_tools)
    report_tool_source: Final = later(AsyncSession.report_tool_source)
    update_plugin_opts: Final = later(AsyncSession.update_plugin_opts)  # type: ignore[arg-type]  # no option is called `self`
    attach_plugin: Final = later(AsyncSession.attach_plugin)
    detach_plugin: Final = later(AsyncSession.detach_plugin)
    reload_plugin: Final = later(AsyncSession.reload_plugin)
    journal: Final = later(AsyncSession.journal)
    turns: Final = later(AsyncSession.turns)
    state_at: Final = later(AsyncSession.state_at)
    fork: Final = _later_forked(AsyncSession.fork)
    rewind: Final = later(AsyncSession.rewind)
    rules: Final = later(AsyncSession.rules)
    revoke_rule: Final = later(AsyncSession.revoke_rule)


class Session(Far):
    """A session, from outside of its supervisor's thread; any thread may call it. It stays good when the session comes back."""

    noun = "session"

    def __init__(self, thread: SupervisorThread, handle: AsyncSession) -> None:
        """Made by the supervisor; use `start_session` or `supervisor.session(id)`."""
        super().__init__(thread, lambda: handle)
        self._handle = handle

    @property
    def session_id(self) -> SessionId:
        """Which session this is."""
        return self._handle.session_id

    @property
    def scope(self) -> str:
        """The scope in which its id is the only one; empty for a session without one."""
        return self._handle.scope

    @property
    def facts(self) -> SessionFacts:
        """What is known of it without asking it: its own or its root's `user_data`, and which session is its root."""
        return self._handle.facts

    @property
    def futures(self) -> SessionFutures:
        """Its calls as `concurrent.futures.Future`s; in asyncio `await asyncio.wrap_future(session.futures.ask("Hi"))`."""
        return SessionFutures(self._thread, self._near)

    def __repr__(self) -> str:
        """Show id and phase."""
        return f"<blocking {self._handle!r}>"

    @property
    def agents(self) -> BackgroundAgents:
        """Its agents in the background."""
        return BackgroundAgents(self._thread, lambda: self._handle.agents)

    reads_answers: Final = looks(AsyncSession.reads_answers, as_it_is)
    prompt: Final = waits(SessionFutures.prompt)
    go_on: Final = waits(SessionFutures.go_on)
    receipt_of: Final = waits(SessionFutures.receipt_of)
    ask: Final = cast("Asks", waits(cast("Any", SessionFutures.ask)))
    run: Final = cast("Runs", waits(cast("Any", SessionFutures.run)))
    stream: Final = looks(AsyncSession.stream, CycleStream)
    wait_for: Final = cast("WaitsFor", waits(cast("Any", SessionFutures.wait_for)))
    collect_reply: Final = waits(SessionFutures.collect_reply)
    abort: Final = waits(SessionFutures.abort)
    status: Final = waits(SessionFutures.status)
    messages: Final = waits(SessionFutures.messages)
    subscribe: Final = looks(AsyncSession.subscribe, Subscription)
    steer: Final = waits(SessionFutures.steer)
    abort_tool: Final = waits(SessionFutures.abort_tool)
    approve: Final = waits(SessionFutures.approve)
    reject: Final = waits(SessionFutures.reject)
    respond: Final = waits(SessionFutures.respond)
    decline: Final = waits(SessionFutures.decline)
    answer: Final = waits(SessionFutures.answer)
    compact: Final = waits(SessionFutures.compact)
    snapshot: Final = waits(SessionFutures.snapshot)
    stop: Final = waits(SessionFutures.stop)
    monitor: Final = looks(AsyncSession.monitor, SessionMonitor)
    switch_model: Final = waits(SessionFutures.switch_model)
    attach_tools: Final = waits(SessionFutures.attach_tools)
    detach_tools: Final = waits(SessionFutures.detach_tools)
    replace_tools: Final = waits(SessionFutures.replace_tools)
    report_tool_source: Final = waits(SessionFutures.report_tool_source)
    update_plugin_opts: Final = waits(SessionFutures.update_plugin_opts)
    attach_plugin: Final = waits(SessionFutures.attach_plugin)
    detach_plugin: Final = waits(SessionFutures.detach_plugin)
    reload_plugin: Final = waits(SessionFutures.reload_plugin)
    journal: Final = waits(SessionFutures.journal)
    turns: Final = waits(SessionFutures.turns)
    state_at: Final = waits(SessionFutures.state_at)
    fork: Final = waits(SessionFutures.fork)
    rewind: Final = waits(SessionFutures.rewind)
    rules: Final = waits(SessionFutures.rules)
    revoke_rule: Final = waits(SessionFutures.revoke_rule)


def _stop_unread(session: Session) -> None:
    """Stop a session that was started for a caller who had just left; in the thread."""
    session.futures.stop("its caller gave up the start")


def _leave_unread(_: Session) -> None:
    """Leave a session alone that came back for a caller who had just left: to stop it would end it for good."""


def _sessions(thread: SupervisorThread, handles: tuple[AsyncSession, ...]) -> tuple[Session, ...]:
    return tuple(Session(thread, handle) for handle in handles)


# --- the supervisor


async def _with_twin(thread: SupervisorThread, work: Awaitable[R]) -> R:
    """Let the handle in an error be one that can be used where it is raised."""
    try:
        return await work
    except AlreadyStarted as error:
        if isinstance(error.handle, AsyncSession):
            error.handle = Session(thread, error.handle)
        raise


def _later_started(
    call: Callable[Concatenate[Any, P], Awaitable[AsyncSession]],
    unread: Callable[[Session], None] = _stop_unread,
) -> Twin[P, "Future[Session]"]:
    """Make the twin of a call that gives a session; one that is wanted no more when it comes is stopped, unless it was there before."""

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[Session]":
        async def begin() -> Session:
            return Session(self._thread, await _with_twin(self._thread, call(self._near(), *args, **kwargs)))

        return self._thread.submit(begin, unread)

    return cast('Twin[P, "Future[Session]"]', start)


class SupervisorFutures(Far):
    """The calls of a supervisor as futures. Cancelling one cancels the call, as it says."""

    start_session: Final = cast(
        "Starts[Future[Session]]", _later_started(cast("Any", SessionSupervisor.start_session))
    )
    resume_session: Final = cast(
        "Resumes[Future[Session]]",
        _later_started(cast("Any", SessionSupervisor.resume_session), unread=_leave_unread),
    )
    resume_all: Final = later(SessionSupervisor.resume_all)
    find: Final = later(SessionSupervisor.find)
    facts_of: Final = later(SessionSupervisor.facts_of)
    check_store: Final = later(SessionSupervisor.check_store)
    stored_journal: Final = later(SessionSupervisor.stored_journal)
    spendings: Final = later(SessionSupervisor.spendings)
    stored_state: Final = later(SessionSupervisor.stored_state)
    events_page: Final = later(SessionSupervisor.events_page)
    find_records: Final = later(SessionSupervisor.find_records)
    plain_state_at: Final = later(SessionSupervisor.plain_state_at)
    explain_record: Final = later(SessionSupervisor.explain_record)
    call_tool: Final = later(SessionSupervisor.call_tool, within=_with_twin)
    stop_session: Final = later(SessionSupervisor.stop_session)
    rest: Final = later(SessionSupervisor.rest)
    tree: Final = later(SessionSupervisor.tree)
    delete_session: Final = later(SessionSupervisor.delete_session)
    trim_session: Final = later(SessionSupervisor.trim_session)
    forget_user: Final = later(SessionSupervisor.forget_user)
    export_session: Final = later(SessionSupervisor.export_session)
    import_session: Final = later(SessionSupervisor.import_session)


class Supervisor(Far):
    """A supervisor of sessions in a thread of its own, for programs that are no Trio programs. Any thread may call it.

    `with blocking.Supervisor() as supervisor:` opens it; leaving the block ends all its sessions, in order, and the thread.
    """

    noun = "supervisor"

    def __init__(  # noqa: PLR0913 - the keywords of `open_supervisor`
        self,
        *,
        environ: Environment | None = None,
        shell_fallback: ShellFallback = "refuse",
        scripts: Mapping[str, Provider] | None = None,
        deps_for: DepsFor | None = None,
        memories: str | RecallStore | None = None,
        notes: str | NoteStore | None = None,
        knowledge: str | KnowledgeStore | None = None,
        embedder: Embedder | None = None,
        store: str | Store | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        store_patience: float = STORE_PATIENCE_SECONDS,
        resume: Resume = "none",
        revive: Revive | None = None,
        on_drift: OnDrift = "park",
        keep_days: float | None = None,
        keep_bytes: int | None = None,
        hibernate_after: float | None = None,
    ) -> None:
        """Make one that is not open yet.

        Args:
            environ: As of `agentrail.open_supervisor`.
            shell_fallback: As of `agentrail.open_supervisor`.
            scripts: As of `agentrail.open_supervisor`.
            deps_for: As of `agentrail.open_supervisor`; it is called in the thread of the supervisor.
            memories: As of `agentrail.open_supervisor`.
            notes: As of `agentrail.open_supervisor`.
            knowledge: As of `agentrail.open_supervisor`.
            embedder: As of `agentrail.open_supervisor`; it is called in the thread of the supervisor.
            store: As of `agentrail.open_supervisor`.
            data_dir: As of `agentrail.open_supervisor`.
            store_patience: As of `agentrail.open_supervisor`.
            resume: As of `agentrail.open_supervisor`.
            revive: As of `agentrail.open_supervisor`; it is called in the thread of the supervisor.
            on_drift: As of `agentrail.open_supervisor`.
            keep_days: As of `agentrail.open_supervisor`.
            keep_bytes: As of `agentrail.open_supervisor`.
            hibernate_after: As of `agentrail.open_supervisor`.
        """
        thread = SupervisorThread(
            partial(
                open_supervisor,
                environ=environ,
                shell_fallback=shell_fallback,
                scripts=scripts,
                deps_for=deps_for,
                memories=memories,
                notes=notes,
                knowledge=knowledge,
                embedder=embedder,
                store=store,
                data_dir=data_dir,
                store_patience=store_patience,
                resume=resume,
                revive=revive,
                on_drift=on_drift,
                keep_days=keep_days,
                keep_bytes=keep_bytes,
                hibernate_after=hibernate_after,
            )
        )
        super().__init__(thread, thread.near)

    def open(self) -> Self:
        """Open it without a block, as in a notebook; `close` it in the end, or the interpreter does at its exit.

        Raises:
            HoldsLoop: Your move: a Trio runs in this thread; use `agentrail.open_supervisor()`.
            YourMove: It was opened before: make another one.
            OptionError: As of `agentrail.open_supervisor`; the thread is gone again.
        """
        self._thread.open()
        return self

    def close(self) -> None:
        """End all sessions in order, and the thread. Again if you like.

        Waits for that, twelve seconds at most unless a tool cannot be stopped; in asyncio, `await asyncio.to_thread(supervisor.close)`
        before the block is left.

        Raises:
            CallingSelf: Your move: a tool of one of its sessions called it.
            BaseException: What its Trio run ended with, if it crashed; such as the `SystemExit` of a tool. Once.

        Cancellation: A first Ctrl-C waits for the end all the same, and is raised then; a second one leaves at once.
        """
        self._thread.close()

    def __enter__(self) -> Self:
        """Open it; see `open`."""
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; see `close`. An error of the body leaves as it is."""
        self._thread.close(tell=error is None)

    def __repr__(self) -> str:
        """Show whether it is open."""
        return f"<blocking.Supervisor {self._thread.state}>"

    @property
    def futures(self) -> SupervisorFutures:
        """Its calls as `concurrent.futures.Future`s."""
        return SupervisorFutures(self._thread, self._near)

    @property
    def providers(self) -> ProviderProfiles:
        """The named profiles that `registry:<profile>:<model>` stands for."""
        # Each of its calls is one step on a dict, so any thread may make it.
        return self._thread.near().providers

    def twin_of(self, session: AsyncSession) -> Session:
        """Give the handle that blocks for one that is awaited, such as `last_words(…).session`."""
        return Session(self._thread, session)

    def monitor(self, session: Session | str, *, scope: str = NO_SCOPE) -> SessionMonitor:
        """Watch a session; `monitor.wait()` tells its end, once it is gone for good. A restart is no end.

        Args:
            session: A handle, also of a session that has ended; or the id of a live one.
            scope: Of an id: the scope that its session was started in.

        Raises:
            OptionError: Your move: neither a handle nor an id, or a scope that can be none.
            SessionDown: There is no live session of this id in this scope.
        """
        return (session if isinstance(session, Session) else self.session(session, scope=scope)).monitor()

    start_session: Final = cast("Starts[Session]", waits(cast("Any", SupervisorFutures.start_session)))
    resume_session: Final = cast("Resumes[Session]", waits(cast("Any", SupervisorFutures.resume_session)))
    resume_all: Final = waits(SupervisorFutures.resume_all)
    find: Final = waits(SupervisorFutures.find)
    facts_of: Final = waits(SupervisorFutures.facts_of)
    check_store: Final = waits(SupervisorFutures.check_store)
    stored_journal: Final = waits(SupervisorFutures.stored_journal)
    spendings: Final = waits(SupervisorFutures.spendings)
    stored_state: Final = waits(SupervisorFutures.stored_state)
    events_page: Final = waits(SupervisorFutures.events_page)
    find_records: Final = waits(SupervisorFutures.find_records)
    plain_state_at: Final = waits(SupervisorFutures.plain_state_at)
    explain_record: Final = waits(SupervisorFutures.explain_record)
    call_tool: Final = waits(SupervisorFutures.call_tool)
    session: Final = looks(SessionSupervisor.session, Session)
    sessions: Final = looks(SessionSupervisor.sessions, _sessions)
    subscribe_all: Final = looks(SessionSupervisor.subscribe_all, Subscription)
    subscribe_group: Final = looks(SessionSupervisor.subscribe_group, Subscription)
    stop_session: Final = waits(SupervisorFutures.stop_session)
    rest: Final = waits(SupervisorFutures.rest)
    last_words: Final = looks(SessionSupervisor.last_words, as_it_is)
    parked_sessions: Final = looks(SessionSupervisor.parked_sessions, as_it_is)
    plugin_use: Final = looks(SessionSupervisor.plugin_use, as_it_is)
    fault_of_model: Final = looks(SessionSupervisor.fault_of_model, as_it_is)
    budget_use: Final = looks(SessionSupervisor.budget_use, as_it_is)
    reports: Final = looks(SessionSupervisor.reports, SessionReports)
    tree: Final = waits(SupervisorFutures.tree)
    delete_session: Final = waits(SupervisorFutures.delete_session)
    trim_session: Final = waits(SupervisorFutures.trim_session)
    forget_user: Final = waits(SupervisorFutures.forget_user)
    export_session: Final = waits(SupervisorFutures.export_session)
    import_session: Final = waits(SupervisorFutures.import_session)
    statistics: Final = looks(SessionSupervisor.statistics, as_it_is)
