"""The handles: each call of a session and of a supervisor, as a future and as a blocking call."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import trio

from agentrail.abc import Provider, ProviderProfiles
from agentrail.app import open_supervisor
from agentrail.blocking.iterators import CycleStream, SessionReports, Subscription
from agentrail.blocking.supervisor_thread import SupervisorThread
from agentrail.errors import AlreadyStarted
from agentrail.events import Event
from agentrail.messages import Content, SessionId
from agentrail.runtime.background_agents import BackgroundAgents as AsyncAgents
from agentrail.runtime.cancellable_prompts import OwnPrompts
from agentrail.runtime.cycle_reply import CycleReply
from agentrail.runtime.keywords import GivesOptions, SessionKeywords
from agentrail.runtime.session_facts import SessionFacts
from agentrail.runtime.session_handle import Session as AsyncSession
from agentrail.runtime.session_keys import NO_SCOPE
from agentrail.runtime.session_monitor import SessionMonitor as AsyncMonitor
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.supervisor import SessionSupervisor

# The two forms of a call, with the signature of the call.
#
# Derived rather than written out: otherwise sixty methods would have to follow each change of the sixty originals.

GIVEN_UP: Final = "its caller gave up waiting"
"""Abort reason for a future that was cancelled."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
_R_co = TypeVar("_R_co", covariant=True)


class Twin(Protocol[P, _R_co]):
    """The type of a twin for type checkers. At run time it is a plain function, bound like one."""

    @overload
    def __get__(self, holder: None, owner: Any) -> Callable[Concatenate[Any, P], _R_co]: ...
    @overload
    def __get__(self, holder: object, owner: Any) -> Callable[P, _R_co]: ...


class Far:
    """A handle for an object in the supervisor's thread.

    Attributes:
        noun: Its name in messages.
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
    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        def make() -> Awaitable[R]:
            made = call(self._near(), *args, **kwargs)
            return made if within is None else within(self._thread, made)

        return self._thread.submit(make)

    return cast("Twin[P, Future[R]]", start)


def later_or_aborted(call: Callable[Concatenate[Any, P], Awaitable[R]]) -> Twin[P, Future[R]]:
    """Return the twin of a call that waits for a prompt's cycle. Cancelling its future aborts that cycle."""

    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        async def ask() -> R:
            own = OwnPrompts(self._near())
            try:
                return await call(own, *args, **kwargs)
            except trio.Cancelled:
                self._thread.submit(partial(own.abort_sent, GIVEN_UP))
                raise

        return self._thread.submit(ask)

    what = (call.__doc__ or "").partition("Cancellation:")[0]
    start.__doc__ = (
        f"{what}Cancellation: Of the future, or by Ctrl-C: the cycle of this very prompt is aborted; where it still waits it\n"
        "            leaves the queue. Cycles of other prompts go on.\n        "
    )
    return cast("Twin[P, Future[R]]", start)


def waits(of: Callable[Concatenate[Any, P], Future[R]]) -> Twin[P, R]:
    name: str = cast("Any", of).__name__

    @wraps(of)
    def wait(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        thread: SupervisorThread = self._thread
        thread.refuse_to_hold(f"{self.noun}.{name}")
        return thread.wait(of(self.futures, *args, **kwargs))

    return cast("Twin[P, R]", wait)


def looks(call: Callable[Concatenate[Any, P], T], made: Callable[[SupervisorThread, T], R]) -> Twin[P, R]:
    """Return the twin of a call that does not wait. It runs in the thread, where no state changes meanwhile."""

    @wraps(call)
    def look(self: Far, *args: P.args, **kwargs: P.kwargs) -> R:
        return made(self._thread, self._thread.look(lambda: call(self._near(), *args, **kwargs)))

    return cast("Twin[P, R]", look)


def as_it_is(_: SupervisorThread, value: T) -> T:
    return value


# Calls with typed keywords, for type checkers.
#
# `ParamSpec` keeps one signature of a call, and these have several, as in `agentrail.runtime.prompt_calls`. At run time they
# are ordinary twins.

E = TypeVar("E", bound=Event)
Started_co = TypeVar("Started_co", covariant=True)


class Bounds(TypedDict, total=False):
    """How long a call waits."""

    timeout_seconds: float | None
    wait_for_people: bool


class AsksLater(Protocol):
    @overload
    def __call__(self, content: Content, **bounds: Unpack[Bounds]) -> "Future[str]": ...
    @overload
    def __call__(self, content: Content, *, output: type[T], **bounds: Unpack[Bounds]) -> "Future[T]": ...
    @overload
    def __call__(self, content: Content, *, output: Any, **bounds: Unpack[Bounds]) -> "Future[Any]": ...


class Asks(Protocol):
    @overload
    def __call__(self, content: Content, **bounds: Unpack[Bounds]) -> str: ...
    @overload
    def __call__(self, content: Content, *, output: type[T], **bounds: Unpack[Bounds]) -> T: ...
    @overload
    def __call__(self, content: Content, *, output: Any, **bounds: Unpack[Bounds]) -> Any: ...


class RunsLater(Protocol):
    @overload
    def __call__(self, content: Content, **bounds: Unpack[Bounds]) -> "Future[CycleReply[str]]": ...
    @overload
    def __call__(
        self, content: Content, *, output: type[T], **bounds: Unpack[Bounds]
    ) -> "Future[CycleReply[T]]": ...
    @overload
    def __call__(
        self, content: Content, *, output: Any, **bounds: Unpack[Bounds]
    ) -> "Future[CycleReply[Any]]": ...


class Runs(Protocol):
    @overload
    def __call__(self, content: Content, **bounds: Unpack[Bounds]) -> CycleReply[str]: ...
    @overload
    def __call__(self, content: Content, *, output: type[T], **bounds: Unpack[Bounds]) -> CycleReply[T]: ...
    @overload
    def __call__(self, content: Content, *, output: Any, **bounds: Unpack[Bounds]) -> CycleReply[Any]: ...


class WaitsLater(Protocol):
    @overload
    def __call__(self, what: type[E], **bounds: Unpack[Bounds]) -> "Future[E]": ...
    @overload
    def __call__(self, what: Callable[[Event], bool], **bounds: Unpack[Bounds]) -> "Future[Event]": ...


class WaitsFor(Protocol):
    @overload
    def __call__(self, what: type[E], **bounds: Unpack[Bounds]) -> E: ...
    @overload
    def __call__(self, what: Callable[[Event], bool], **bounds: Unpack[Bounds]) -> Event: ...


class Starts(Protocol[Started_co]):
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
        """Resume a stored session, like `SessionSupervisor.resume_session`."""


class MonitorFutures(Far):
    """The calls of a monitor as futures."""

    wait: Final = later(AsyncMonitor.wait)


class SessionMonitor(Far):
    """Monitors one session. It delivers exactly one `SessionGone`, however often it is called."""

    noun = "monitor"

    def __init__(self, thread: SupervisorThread, monitor: AsyncMonitor) -> None:
        """Created by `Session.monitor` and `Supervisor.monitor`."""
        super().__init__(thread, lambda: monitor)

    @property
    def futures(self) -> MonitorFutures:
        """Its calls as futures."""
        return MonitorFutures(self._thread, self._near)

    wait: Final = waits(MonitorFutures.wait)


# --- background agents


class AgentsFutures(Far):
    spawn: Final = later(AsyncAgents.spawn)
    send: Final = later(AsyncAgents.send)
    wait: Final = later(AsyncAgents.wait)
    close: Final = later(AsyncAgents.close)
    list: Final = later(AsyncAgents.list)


class BackgroundAgents(Far):
    """The background agents of a session, for use outside of its supervisor's thread."""

    noun = "agents"

    @property
    def futures(self) -> AgentsFutures:
        return AgentsFutures(self._thread, self._near)

    spawn: Final = waits(AgentsFutures.spawn)
    send: Final = waits(AgentsFutures.send)
    wait: Final = waits(AgentsFutures.wait)
    close: Final = waits(AgentsFutures.close)
    list: Final = waits(AgentsFutures.list)


# --- sessions


def _stop_unread(session: "Session") -> None:
    session.futures.stop("its caller gave up waiting for the start")


def _later_started(
    call: Callable[Concatenate[Any, P], Awaitable[AsyncSession]],
    unread: "Callable[[Session], None] | None" = _stop_unread,
) -> Twin[P, "Future[Session]"]:
    @wraps(call)
    def start(self: Far, *args: P.args, **kwargs: P.kwargs) -> "Future[Session]":
        async def begin() -> Session:
            return Session(self._thread, await _with_twin(self._thread, call(self._near(), *args, **kwargs)))

        return self._thread.submit(begin, unread)

    return cast('Twin[P, "Future[Session]"]', start)


class SessionFutures(Far):
    """The calls of a session as futures. Cancelling one ends the wait. For `ask` and `run` it also aborts the prompt's cycle."""

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
    fork: Final = _later_started(AsyncSession.fork)
    rewind: Final = later(AsyncSession.rewind)
    rules: Final = later(AsyncSession.rules)
    revoke_rule: Final = later(AsyncSession.revoke_rule)
    break_on: Final = later(AsyncSession.break_on)
    unbreak: Final = later(AsyncSession.unbreak)


class Session(Far):
    """A session, for use from any thread outside of its supervisor's thread. It stays valid when the session is resumed."""

    noun = "session"

    def __init__(self, thread: SupervisorThread, handle: AsyncSession) -> None:
        """Created by the supervisor. Use `start_session` or `supervisor.session(id)`."""
        super().__init__(thread, lambda: handle)
        self._handle = handle

    @property
    def session_id(self) -> SessionId:
        """Id of this session."""
        return self._handle.session_id

    @property
    def scope(self) -> str:
        """The scope in which its id is unique. Empty for a session without one."""
        return self._handle.scope

    @property
    def facts(self) -> SessionFacts:
        """Session facts that need no call: the `user_data` of the session or its root, and its root session."""
        return self._handle.facts

    @property
    def futures(self) -> SessionFutures:
        """Its calls as `concurrent.futures.Future`s; in asyncio `await asyncio.wrap_future(session.futures.ask("Hi"))`."""
        return SessionFutures(self._thread, self._near)

    def __repr__(self) -> str:
        return f"<blocking {self._handle!r}>"

    @property
    def agents(self) -> BackgroundAgents:
        """Its background agents."""
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
    break_on: Final = waits(SessionFutures.break_on)
    unbreak: Final = waits(SessionFutures.unbreak)


def _sessions(thread: SupervisorThread, handles: tuple[AsyncSession, ...]) -> tuple[Session, ...]:
    return tuple(Session(thread, handle) for handle in handles)


# --- the supervisor


async def _with_twin(thread: SupervisorThread, work: Awaitable[R]) -> R:
    try:
        return await work
    except AlreadyStarted as error:
        if isinstance(error.handle, AsyncSession):
            error.handle = Session(thread, error.handle)
        raise


class SupervisorFutures(Far):
    """The calls of a supervisor as futures. Cancelling one cancels the call, as described there."""

    start_session: Final = cast(
        "Starts[Future[Session]]", _later_started(cast("Any", SessionSupervisor.start_session))
    )
    resume_session: Final = cast(  # left alone if its caller has given up: stopping it would end it for good
        "Resumes[Future[Session]]", _later_started(cast("Any", SessionSupervisor.resume_session), unread=None)
    )
    resume_all: Final = later(SessionSupervisor.resume_all)
    find: Final = later(SessionSupervisor.find)
    newest: Final = later(SessionSupervisor.newest)
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
    wait_for_tools: Final = later(SessionSupervisor.wait_for_tools)
    stop_session: Final = later(SessionSupervisor.stop_session)
    rest: Final = later(SessionSupervisor.rest)
    tree: Final = later(SessionSupervisor.tree)
    delete_session: Final = later(SessionSupervisor.delete_session)
    trim_session: Final = later(SessionSupervisor.trim_session)
    forget_user: Final = later(SessionSupervisor.forget_user)
    export_session: Final = later(SessionSupervisor.export_session)
    import_session: Final = later(SessionSupervisor.import_session)


def _with_options_of(
    call: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    def decorate(init: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(init)
        def method(self: Any, *args: P.args, **kwargs: P.kwargs) -> None:
            init(self, *args, **kwargs)

        own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        method.__dict__["__signature__"] = Signature(
            [own, *signature(call).parameters.values()], return_annotation=None
        )
        return cast("Callable[Concatenate[Any, P], None]", method)

    return decorate


class Supervisor(Far):
    """A supervisor of sessions in its own thread, for programs that do not use Trio. Any thread may call it.

    `with blocking.Supervisor() as supervisor:` opens it. Leaving the block ends all its sessions, in order, and the thread.
    """

    noun = "supervisor"

    @_with_options_of(open_supervisor)
    def __init__(self, **options: Any) -> None:
        """Create a supervisor that is not open yet.

        Args:
            **options: Same as `agentrail.open_supervisor`, which runs in the supervisor's thread, as do `deps_for`, `embedder`
                and `revive`.
        """
        opened = open_supervisor(**options)  # reports an unknown option here, and not in the thread
        thread = SupervisorThread(lambda: opened)
        super().__init__(thread, thread.near)

    def open(self) -> Self:
        """Open it without a block, for example in a notebook. Call `close` in the end, or the interpreter does so at exit.

        Raises:
            HoldsLoop: Your move: Trio is running in this thread. Use `agentrail.open_supervisor()`.
            YourMove: It was opened before. Create another one.
            OptionError: The same as in `agentrail.open_supervisor`. The thread has ended.
            SupervisorClosed: Another thread closed it meanwhile.

        Cancellation: Ctrl-C cancels the opening, waits for its end, and is raised. A second one leaves at once.
        """
        self._thread.open()
        return self

    def close(self) -> None:
        """End all sessions in order, and the thread. Idempotent.

        Waits for the end, at most twelve seconds unless a tool cannot be stopped. In asyncio, call
        `await asyncio.to_thread(supervisor.close)` before leaving the block.

        Raises:
            CallingSelf: Your move: called by a tool of one of its sessions.
            BaseException: The exception of a crashed Trio run, such as the `KeyboardInterrupt` of a tool. Raised once.

        Cancellation: After a first Ctrl-C it still waits for the end, and then raises. A second one leaves at once.
        """
        self._thread.close()

    def __enter__(self) -> Self:
        """Open it; see `open`."""
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; see `close`. An error of the body passes unchanged."""
        self._thread.close(tell=error is None)

    def __repr__(self) -> str:
        return f"<blocking.Supervisor {self._thread.state}>"

    @property
    def futures(self) -> SupervisorFutures:
        """Its calls as `concurrent.futures.Future`s."""
        return SupervisorFutures(self._thread, self._near)

    @property
    def providers(self) -> ProviderProfiles:
        """The named profiles for `registry:<profile>:<model>`."""
        # Each call is a single step on a dict, so any thread may make it.
        return self._thread.near().providers

    def twin_of(self, session: AsyncSession) -> Session:
        """Return the blocking handle for an async one, such as `last_words(…).session`."""
        return Session(self._thread, session)

    def monitor(self, session: Session | str, *, scope: str = NO_SCOPE) -> SessionMonitor:
        """Monitor a session. `monitor.wait()` returns its end, once it is gone for good. A restart is not an end.

        Args:
            session: A handle, also of a session that has ended, or the id of a live session.
            scope: For an id: the scope in which its session was started.

        Raises:
            OptionError: Your move: neither a handle nor an id, or an invalid scope.
            SessionDown: No live session has this id in this scope.
        """
        return (session if isinstance(session, Session) else self.session(session, scope=scope)).monitor()

    start_session: Final = cast("Starts[Session]", waits(cast("Any", SupervisorFutures.start_session)))
    resume_session: Final = cast("Resumes[Session]", waits(cast("Any", SupervisorFutures.resume_session)))
    resume_all: Final = waits(SupervisorFutures.resume_all)
    find: Final = waits(SupervisorFutures.find)
    newest: Final = waits(SupervisorFutures.newest)
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
    wait_for_tools: Final = waits(SupervisorFutures.wait_for_tools)
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
