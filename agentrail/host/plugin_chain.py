"""Host plugin hooks: the order of a chain, the time limit of each hook, and the effect of a failure."""

import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import trio
from attrs import define, field, frozen

from agentrail.abc import NO_HOST, HostCall, HostCallEnd, HostHooks, HostVerdict
from agentrail.actors.deferred_error import Kept
from agentrail.errors import HookTimeout, RequestRefused
from agentrail.frozen import thawed, too_large
from agentrail.host.hook_payloads import (
    AfterToolCall,
    Allow,
    AttachmentFile,
    AttachmentText,
    BeforeToolCall,
    ChatRequestContext,
    DayBudgetWarning,
    Deny,
    HandledResponse,
    RequestContext,
    SessionReader,
    ToolCallContext,
)
from agentrail.host.host_plugin import HOST_HOOKS, HostPlugin, overrides
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import Redact, keep
from agentrail.otp.guarded_calls import FOR_THE_PROCESS
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.hook_times import PluginTally
from agentrail.runtime.session_clock import now_ms
from agentrail.structs import picked_fields

Q = TypeVar("Q")

REFUSAL_STATUSES: Final = frozenset({401, 402, 403, 409, 422, 429, 503})
"""Valid status codes for a plugin's refusal."""


class WrongAnswer(TypeError):
    """A hook returned an invalid value, which counts as a bug of its plugin."""


@frozen
class PluginOrder:
    """The plugins of a host in order, and by hook."""

    all: tuple[HostPlugin, ...]
    having: Mapping[str, tuple[HostPlugin, ...]]

    @classmethod
    def of(cls, plugins: Sequence[HostPlugin]) -> "PluginOrder":
        """Build the index of hooks. `plugins` are already validated and sorted."""
        having = {hook: tuple([one for one in plugins if overrides(one, hook)]) for hook in HOST_HOOKS}
        return cls(tuple(plugins), MappingProxyType(having))

    def of_call(self, hook: str, call: BeforeToolCall | AfterToolCall) -> tuple[HostPlugin, ...]:
        """Return the plugins that hear of a call: none if its arguments are not a JSON object."""
        given: Any = call.input
        return self.having[hook] if isinstance(given, Mapping) else ()


class Chain(Generic[Q]):
    """A sequence of plugins called by one hook."""

    is_waited_out: bool = False

    def __init__(self, hook: str, plugins: Sequence[HostPlugin], *asked: Q) -> None:
        """Start before the first plugin. `asked` are the arguments of the hook, unless `question` returns others."""
        self.hook: str = hook
        self._plugins = plugins
        self._asked = asked
        self._next = 0

    def next(self) -> HostPlugin | None:
        if self._next == len(self._plugins):
            return None
        self._next += 1
        return self._plugins[self._next - 1]

    def end(self) -> None:
        self._next = len(self._plugins)

    def function(self, plugin: HostPlugin) -> Callable[..., Awaitable[Any]]:
        found: Callable[..., Awaitable[Any]] = getattr(plugin, self.hook)
        return found

    def question(self, plugin: HostPlugin) -> tuple[Q, ...]:
        """Return the arguments of a plugin's hook. Mutable ones are copies."""
        return self._asked

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Process the result of a hook, which is None for most."""
        if value is not None:
            raise self.wrong(value, "None")

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Process a failed hook: it raised, timed out, or returned an invalid value."""

    def cut(self) -> None:
        """Process a chain cut short because the host closes. Guarded actions must not pass unchecked."""

    def scrub(self, text: str) -> str:
        return text

    def wrong(self, value: Any, expected: str) -> WrongAnswer:
        return WrongAnswer(f"{self.hook} returned {type(value).__name__}, expected {expected}")


class Blaming(Chain[Any]):
    """A failure outside of any chain. No plugin is called."""

    def __init__(self, hook: str, scrub: Callable[[str], str] = keep) -> None:
        super().__init__(hook, ())
        self._scrub = scrub

    def scrub(self, text: str) -> str:
        return self._scrub(text)


class Hearing(Chain[RequestContext | DayBudgetWarning]):
    def __init__(self, hook: str, order: PluginOrder, context: RequestContext | DayBudgetWarning) -> None:
        super().__init__(hook, order.having[hook], context)


class Intercepting(Chain[ChatRequestContext]):
    """Plugins that may answer a message instead of a session. The first answer counts.

    Attributes:
        response: The answer. None to let the message pass.
    """

    def __init__(self, order: PluginOrder, context: ChatRequestContext) -> None:
        super().__init__("intercept_chat_request", order.having["intercept_chat_request"], context)
        self.response: HandledResponse | None = None
        self.refusal: RequestRefused | None = None

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, HandledResponse):
            raise self.wrong(value, "HandledResponse, or None to let the message pass")
        self.response = value
        self.end()

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        if plugin.critical:
            self.refusal = decide_request_refusal(plugin, error)
            self.end()

    def cut(self) -> None:
        """Refuse the request, because a plugin that would have refused it may not have been called."""
        self.refusal = RequestRefused(503, "draining", "this host is closing: try again later")


def decide_request_refusal(plugin: HostPlugin, error: BaseException) -> RequestRefused:
    """Return a critical plugin's own refusal, or one without details of its error."""
    if isinstance(error, RequestRefused) and error.status in REFUSAL_STATUSES:
        return error
    message = f"the plugin {plugin.name!r} could not judge this request: try again later"
    return RequestRefused(503, "plugin_failed", message)


class Attaching(Chain[tuple[AttachmentFile, ...]]):
    """Plugins that describe the files of a message.

    Attributes:
        texts: Their texts, stripped, without empty ones.
    """

    def __init__(self, order: PluginOrder, files: tuple[AttachmentFile, ...]) -> None:
        """Start before the first plugin. Without files, no plugin is called."""
        super().__init__("attachment_handler", order.having["attachment_handler"] if files else (), files)
        self.texts: tuple[str, ...] = ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        if value is None:
            return
        if not isinstance(value, AttachmentText):
            raise self.wrong(value, "AttachmentText, or None")
        text = (value.context_text or "").strip()
        if text:
            self.texts = (*self.texts, text)

    def message(self, said: str) -> str:
        if not self.texts:
            return said
        return "\n\n".join(self.texts) + f"\n\n---\n\n{said}"


class Judging(Chain[BeforeToolCall]):
    """Plugins that judge a call. The first denial counts, and the next plugin sees rewritten arguments.

    A `fail_closed` plugin judges again if a later one rewrote the arguments. Then only its denial counts.
    """

    # The receipt of an abort states that the hook's task has ended, or names it. An abandoned hook would
    # break that.
    is_waited_out = True

    def __init__(self, order: PluginOrder, call: BeforeToolCall) -> None:
        super().__init__("on_before_tool_call", order.of_call("on_before_tool_call", call))
        self._call = call
        self._input: Mapping[str, Any] = call.input
        self._rewrote: tuple[str, ...] = ()
        self._again: tuple[HostPlugin, ...] = ()  # plugins that have not seen the current arguments
        self._seen: tuple[HostPlugin, ...] = ()
        self._is_second_round = False
        self._deny: tuple[str, str] | None = None

    def next(self) -> HostPlugin | None:
        """Return the next plugin, and after the last one those that must judge again."""
        found = super().next()
        if found is None and self._again and self._deny is None:
            self._plugins, self._next, self._again = self._again, 0, ()
            self._is_second_round = True
            found = super().next()
        return found

    def question(self, plugin: HostPlugin) -> tuple[BeforeToolCall, ...]:
        return (attrs.evolve(self._call, input=thawed(self._input)),)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        if not isinstance(value, Allow | Deny):
            raise self.wrong(value, "Allow() or Deny(reason)")
        if (
            isinstance(value, Allow)
            and value.input is not None
            and (size := too_large(value.input)) is not None
        ):
            message = f"{self.hook} returned an input of {size}: write it to a file, and give its path"
            raise WrongAnswer(message)
        self._note_seen(plugin)
        if isinstance(value, Deny):
            self._refuse(plugin, value.reason)
        elif value.input is not None and not self._is_second_round:
            # Copied, because the plugin may keep changing its own object.
            self._input = thawed(value.input)
            self._rewrote = (*self._rewrote, plugin.name)
            self._again = tuple([one for one in self._seen if one.fail_closed and one is not plugin])

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        self._note_seen(plugin)
        if plugin.fail_closed:
            reason = f"the plugin {plugin.name!r} could not judge this call, so the call does not run"
            self._refuse(plugin, reason)

    def cut(self) -> None:
        self._deny = ("host", "Not run: the host is closing, and its plugins can no longer judge this call")

    @property
    def verdict(self) -> HostVerdict:
        if self._deny is not None:
            by, reason = self._deny
            return HostVerdict(deny=reason, by=by)
        if self._rewrote:
            return HostVerdict(input=self._input, by=", ".join(dict.fromkeys(self._rewrote)))
        return HostVerdict()

    def _note_seen(self, plugin: HostPlugin) -> None:
        if not self._is_second_round:
            self._seen = (*self._seen, plugin)

    def _refuse(self, plugin: HostPlugin, reason: str) -> None:
        self._deny = (plugin.name, reason)
        self.end()


class Reporting(Chain[AfterToolCall]):
    """Notification of plugins about the outcome of a call."""

    def __init__(self, order: PluginOrder, call: AfterToolCall) -> None:
        super().__init__("on_after_tool_call", order.of_call("on_after_tool_call", call))
        self._call = call

    def question(self, plugin: HostPlugin) -> tuple[AfterToolCall, ...]:
        return (attrs.evolve(self._call, input=thawed(self._call.input)),)


class Beginning(Chain[Any]):
    """Start of all plugins, all or nothing."""

    def __init__(self, order: PluginOrder) -> None:
        super().__init__("start", order.all)
        self.started: tuple[HostPlugin, ...] = ()
        self.error: BaseException | None = None

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        super().answered(plugin, value)
        self.started = (*self.started, plugin)

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        self.error = error
        self.end()

    def cut(self) -> None:
        """End the chain with an error: plugins that did not start do not count as started."""
        message = "the host was closed before all of its plugins had started"
        self.error = self.error or RuntimeError(message)


class Stopping(Chain[Any]):
    """Stop of plugins in reverse order. A failure does not prevent the others from stopping."""

    def __init__(self, started: Sequence[HostPlugin]) -> None:
        super().__init__("stop", [one for one in reversed(started) if overrides(one, "stop")])


# The runner: calls each hook within its time limit and reports failures to the chain.
#
# The hooks of a chain run in one task of the host's nursery, not in the caller's: a hook that shields itself
# from cancellation delays its caller by its timeout and one second, and is then abandoned. Its plugin is not
# called again until it returns.

LOGGER: Final = Logger("agentrail.host")

HOOK_SECONDS: Final = 10.0
"""Time limit of a hook without its own timeout, in seconds."""

HOOK_GRACE_SECONDS: Final = 1.0
"""Grace period of a cancelled hook before it is abandoned, in seconds."""

OnPluginError: TypeAlias = Callable[[str, str, BaseException], Awaitable[None] | None]
"""Callback with the plugin's name, the hook's name and the exception. Sync or async. The host waits for it as for a hook."""


@define(eq=False)
class _Walk:
    chain: Chain[Any]
    plugin: HostPlugin
    """The plugin whose hook runs."""
    blame: BaseException | None = None
    """Failure to report first: if the walk continues after an abandoned one, that its hook is overdue."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    done: trio.Event = field(factory=trio.Event)
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    """How long the caller waits before it checks `overdue_at`."""
    overdue_at: float = math.inf
    """When the running hook is abandoned. Changes with each hook."""
    is_telling: bool = False
    """Whether a failure is being reported to the application. That is not a hook of the plugin."""
    is_left_behind: bool = False
    left_at: float = math.inf
    """When it was abandoned."""
    is_over: bool = False
    """Whether it reached the end of the chain."""

    def be_patient_until(self, at_seconds: float) -> None:
        """Set the time when the running hook is abandoned, only to an earlier one."""
        self.overdue_at = at_seconds
        if at_seconds < self.patience.deadline:  # noqa: PLR1730 - to set it is what costs
            self.patience.deadline = at_seconds


@define(eq=False, repr=False)
class HookRunner:
    """Runner of plugin hooks, in a nursery that outlives their callers."""

    _nursery: trio.Nursery
    hook_seconds: float = field(default=HOOK_SECONDS, kw_only=True)
    _on_plugin_error: OnPluginError | None = field(default=None, kw_only=True)
    _on_interrupt: Callable[[BaseException], None] | None = field(default=None, kw_only=True)
    _stuck: dict[_Walk, None] = field(init=False, factory=dict)
    _failures: dict[str, int] = field(init=False, factory=dict)
    tally: PluginTally = field(init=False, factory=PluginTally)
    on_hook: Callable[[str, str, float | None], None] = field(init=False, default=lambda *_: None)
    """Called with a plugin, its hook, and the hook's duration in seconds, or None for a failure."""

    @property
    def stuck(self) -> Mapping[str, str]:
        return {walk.plugin.name: walk.chain.hook for walk in self._stuck}

    @property
    def stuck_since(self) -> Mapping[str, float]:
        """Time at which the first hook of each plugin was abandoned, on Trio's clock."""
        since: dict[str, float] = {}
        for walk in self._stuck:
            since[walk.plugin.name] = min(walk.left_at, since.get(walk.plugin.name, math.inf))
        return since

    @property
    def failures(self) -> Mapping[str, int]:
        return dict(self._failures)

    async def run(self, chain: Chain[Any]) -> None:
        """Run a chain to its end.

        Cancellation: The running hook is cancelled and no later one is called. Returns when it has ended, or
            after one second.
        """
        await self._go(chain, chain.next(), None)

    async def report(
        self, plugin: HostPlugin, hook: str, error: BaseException, *, scrub: Redact = keep
    ) -> None:
        await self._go(Blaming(hook, scrub), plugin, error)

    def report_soon(self, plugin: HostPlugin, hook: str, error: BaseException) -> None:
        self._nursery.start_soon(self.report, plugin, hook, error, name=f"a failure of {hook}")

    async def _go(self, chain: Chain[Any], plugin: HostPlugin | None, blame: BaseException | None) -> None:
        while plugin is not None:
            walk = _Walk(chain, plugin, blame)
            self._nursery.start_soon(self._walk, walk, name=f"{chain.hook} of plugins")
            await self._wait(walk)
            if not walk.is_left_behind:
                if not walk.is_over:  # its nursery was cancelled, not its caller
                    chain.cut()
                return
            if walk.is_telling:
                plugin, blame = chain.next(), None
            else:
                plugin, blame = walk.plugin, self._overdue(walk.plugin, chain.hook)

    # --- the caller's side

    async def _wait(self, walk: _Walk) -> None:
        try:
            while not walk.done.is_set():
                with walk.patience:
                    await walk.done.wait()
                if trio.current_time() >= walk.overdue_at:
                    break
                if walk.patience.cancelled_caught:  # the hook of this deadline has ended, another one runs
                    walk.patience = trio.CancelScope(deadline=walk.overdue_at)
        finally:
            if not walk.done.is_set():
                walk.scope.cancel()
                with trio.CancelScope(shield=True, deadline=self._leaves_at(walk)):
                    await walk.done.wait()  # noqa: ASYNC102 - shielded and bounded
                if not walk.done.is_set():
                    walk.is_left_behind, walk.left_at = True, trio.current_time()
                    if walk.is_telling:
                        LOGGER.error(
                            "on_plugin_error did not return; it was called for %s", named(walk.plugin)
                        )
                    else:
                        self._stuck[walk] = None

    @staticmethod
    def _leaves_at(walk: _Walk) -> float:
        now = trio.current_time()
        if walk.patience.cancelled_caught:  # its grace period is over
            return now
        return walk.overdue_at if walk.chain.is_waited_out else now + HOOK_GRACE_SECONDS

    # --- the task's side

    async def _walk(self, walk: _Walk) -> None:
        try:
            with walk.scope:
                plugin: HostPlugin | None = walk.plugin
                if walk.blame is not None:
                    await self._fail(walk, walk.blame)
                    plugin = walk.chain.next()
                while plugin is not None:
                    walk.plugin = plugin
                    await self._call(walk)
                    # A hook may swallow its cancellation, but its caller has left.
                    if walk.is_left_behind or walk.scope.cancel_called:
                        return
                    plugin = walk.chain.next()
                walk.is_over = True
        except FOR_THE_PROCESS as error:
            if self._on_interrupt is None:
                raise
            self._on_interrupt(error)
        finally:
            self._stuck.pop(walk, None)
            walk.done.set()

    async def _call(self, walk: _Walk) -> None:
        plugin, chain = walk.plugin, walk.chain
        earlier = next((one.chain.hook for one in self._stuck if one.plugin is plugin), None)
        if earlier is not None:
            await self._fail(walk, self._not_called(plugin, chain.hook, earlier))
            return
        now, seconds = trio.current_time(), self._seconds(plugin, chain.hook)
        walk.be_patient_until(now + seconds + HOOK_GRACE_SECONDS)
        error: BaseException | None = None
        try:
            with trio.CancelScope(deadline=now + seconds) as scope:
                value = await chain.function(plugin)(*chain.question(plugin))
            if walk.is_left_behind or (scope.cancel_called and walk.scope.cancel_called):
                return
            if scope.cancel_called:  # also for a hook that shielded itself and is late
                error = self._overdue(plugin, chain.hook)
            else:  # also if the caller has left: a started plugin must be stopped
                chain.answered(plugin, value)
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of a hook: its plugin is blamed, and its chain goes on
            raise_what_travels(raised)
            error = raised
        finally:
            took = trio.current_time() - now
            self.tally.note(plugin.name, chain.hook, took)
            self.on_hook(plugin.name, chain.hook, took)
        # The result of a cancelled hook counts if it is valid. If not, that is not a failure.
        is_cut = walk.scope.cancel_called and isinstance(error, WrongAnswer)
        if error is not None and not walk.is_left_behind and not is_cut:
            await self._fail(walk, error)

    async def _fail(self, walk: _Walk, error: BaseException) -> None:
        plugin, chain = walk.plugin, walk.chain
        self._failures[plugin.name] = self._failures.get(plugin.name, 0) + 1
        self.tally.note_failure(plugin.name, chain.hook, chain.scrub(describe_bug(error)), now_ms())
        self.on_hook(plugin.name, chain.hook, None)
        chain.failed(plugin, error)
        walk.be_patient_until(trio.current_time() + self.hook_seconds + HOOK_GRACE_SECONDS)
        walk.is_telling = True
        await self._tell(plugin, chain, error)
        walk.is_telling = False

    async def _tell(self, plugin: HostPlugin, chain: Chain[Any], error: BaseException) -> None:
        told, hook = self._on_plugin_error, chain.hook
        words = chain.scrub(describe_bug(error))
        if told is None:
            LOGGER.warning("host plugin %s failed in %s: %s", named(plugin), hook, words)
            return
        failure: str | None = None
        try:
            with trio.CancelScope(deadline=trio.current_time() + self.hook_seconds) as scope:
                answer = told(plugin.name, hook, error)
                if inspect.isawaitable(answer):
                    await answer
            if scope.cancelled_caught:
                failure = f"it took longer than {self.hook_seconds:g} s"
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of the application's own function
            raise_what_travels(raised)
            failure = chain.scrub(describe_bug(raised))
        if failure is not None:
            LOGGER.warning("host plugin %s failed in %s: %s", named(plugin), hook, words)
            LOGGER.error("on_plugin_error itself failed: %s", failure)

    def _seconds(self, plugin: HostPlugin, hook: str) -> float:
        return plugin.timeouts.get(hook, self.hook_seconds)

    def _overdue(self, plugin: HostPlugin, hook: str) -> HookTimeout:
        seconds = self._seconds(plugin, hook)
        message = f"{hook} of the plugin {named(plugin)} did not end within {seconds:g} s"
        return HookTimeout(message, plugin=plugin.name, hook=hook, seconds=seconds)

    def _not_called(self, plugin: HostPlugin, hook: str, earlier: str) -> HookTimeout:
        message = (
            f"{hook} of the plugin {named(plugin)} is not called, because its {earlier} has not returned"
        )
        return HookTimeout(message, plugin=plugin.name, hook=hook, seconds=0.0)


@define(eq=False)
class _Home:
    """Task that hosts the hooks' nursery, so that a cancelled body can still run due hooks."""

    body: trio.CancelScope = field(factory=trio.CancelScope)
    up: trio.Event = field(factory=trio.Event)
    leave: trio.Event = field(factory=trio.Event)
    hooks: trio.Nursery | None = None
    interrupt: BaseException | None = None

    async def hold(self) -> None:
        """Hold a nursery open until `leave` is set, then cancel its tasks. Shielded."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as self.hooks:
                self.up.set()
                await self.leave.wait()
                self.hooks.cancel_scope.cancel(reason="the host was closed")

    def take(self, error: BaseException) -> None:
        """Cancel the body after a hook raised an error meant for the process, which is raised afterwards."""
        self.interrupt = self.interrupt or error
        self.body.cancel(reason="a plugin hook ended the program")


@asynccontextmanager
async def open_hook_runner(
    *, hook_seconds: float = HOOK_SECONDS, on_plugin_error: OnPluginError | None = None
) -> AsyncIterator[HookRunner]:
    """Open a hook runner. All use by sessions and plugins must end before the block does."""
    home, failure = _Home(), Kept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(home.hold, name="keeper of hooks")
        try:
            with failure:
                await home.up.wait()
                assert home.hooks is not None  # noqa: S101 - it is up
                runner = HookRunner(
                    home.hooks,
                    hook_seconds=hook_seconds,
                    on_plugin_error=on_plugin_error,
                    on_interrupt=home.take,
                )
                with home.body:
                    yield runner
        finally:  # in every case: the keeper is shielded, and only this ends it
            home.leave.set()
    if home.interrupt is not None:
        raise home.interrupt
    failure.release()


def named(plugin: HostPlugin) -> str:
    return f"{plugin.name!r} {plugin.version}".rstrip()


# Plugin hooks around the calls of sessions: each session request becomes a chain of plugins, and their
# verdicts become one. Without a plugin for a hook, sessions skip it. The session applies and validates
# verdicts. This module does not know gates.


ReaderOf: TypeAlias = Callable[[str, SessionId], SessionReader | None]
"""Returns a reader for a session of a tenant. None if it no longer exists."""


def tool_hooks(order: PluginOrder, runner: HookRunner, reader_of: ReaderOf = lambda *_: None) -> HostHooks:
    hooks = _ToolHooks(order, runner, reader_of)
    before = hooks.before_tool if order.having["on_before_tool_call"] else None
    after = hooks.after_tool if order.having["on_after_tool_call"] else None
    if before is None and after is None:
        return NO_HOST
    return HostHooks(before_tool=before, after_tool=after)


@frozen(eq=False)
class _ToolHooks:
    _order: PluginOrder
    _runner: HookRunner
    _reader_of: ReaderOf

    async def before_tool(self, call: HostCall) -> HostVerdict:
        event = BeforeToolCall(
            tool_name=call.tool_name, call_id=call.call_id, input=call.input, context=self._around(call)
        )
        chain = Judging(self._order, event)
        await self._runner.run(chain)
        return chain.verdict

    async def after_tool(self, call: HostCallEnd) -> None:
        names = ("tool_name", "call_id", "input", "result", "is_error", "duration_ms")
        event = AfterToolCall(**picked_fields(call, *names), context=self._around(call))
        await self._runner.run(Reporting(self._order, event))

    def _around(self, call: HostCall) -> ToolCallContext:
        tenant_id = _said_of(call, "tenant_id")
        return ToolCallContext(
            tenant_id=tenant_id,
            user_id=_said_of(call, "user_id"),
            session_id=call.session_id,
            root_session_id=call.root_session_id,
            agent_id=_said_of(call, "agent_id"),
            request_id=call.request_id,
            reader=self._reader_of(tenant_id, call.session_id),
        )


def _said_of(call: HostCall, key: str) -> str:
    # The host sets them in each session that it starts. Other sessions lack them.
    found = call.user_data.get(key)
    return found if isinstance(found, str) else ""
