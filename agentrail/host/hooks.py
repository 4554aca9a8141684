"""Host plugin hooks: the order of a chain, the time limit of each hook, and the effect of a failure.

The pure part is told what happened and returns what to do; the table of failures is 8.4 of the specification, and each `failed` is one of
its rows. The runner calls the hooks and reports those that fail.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import trio
from attrs import define, field, frozen

from agentrail.abc import NO_HOST, HostCall, HostCallEnd, HostHooks, HostVerdict
from agentrail.actors.kept import Kept
from agentrail.errors import HookTimeout, RequestRefused
from agentrail.frozen import thawed, too_large
from agentrail.host.payloads import (
    AfterToolCall,
    Allow,
    AttachmentFile,
    AttachmentText,
    BeforeToolCall,
    ChatRequestContext,
    Deny,
    HandledResponse,
    RequestContext,
    SessionReader,
    ToolCallContext,
)
from agentrail.host.plugin import HOST_HOOKS, HostPlugin, overrides
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.edges import FOR_THE_PROCESS
from agentrail.otp.exits import Redact, keep
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.hook_times import PluginTally

Q = TypeVar("Q")

REFUSAL_STATUSES: Final = frozenset({401, 402, 403, 409, 422, 429, 503})
"""The statuses that a refusal of a plugin may have."""


class WrongAnswer(TypeError):
    """A hook returned what it may not return: its plugin's bug, as if it had raised."""


@frozen
class PluginOrder:
    """The plugins of a host in their order, and for each hook those that have one of their own.

    Attributes:
        all: Every plugin.
        having: By hook.
    """

    all: tuple[HostPlugin, ...]
    having: Mapping[str, tuple[HostPlugin, ...]]

    @classmethod
    def of(cls, plugins: Sequence[HostPlugin]) -> "PluginOrder":
        """Look once at which plugin has which hook; `plugins` are checked and sorted."""
        having = {hook: tuple([one for one in plugins if overrides(one, hook)]) for hook in HOST_HOOKS}
        return cls(tuple(plugins), MappingProxyType(having))


class Chain(ABC, Generic[Q]):
    """Plugins that are asked one after another by one hook.

    Attributes:
        is_waited_out: Whether a caller that is cancelled waits for the hook that runs as long as one that is not: where it says then that
            nothing of the call is left.
    """

    is_waited_out: bool = False

    def __init__(self, hook: str, plugins: Sequence[HostPlugin]) -> None:
        """Begin in front of the first."""
        self.hook: str = hook
        self._plugins = plugins
        self._next = 0

    def next(self) -> HostPlugin | None:
        """Say who is asked now; None when the chain is over."""
        if self._next == len(self._plugins):
            return None
        self._next += 1
        return self._plugins[self._next - 1]

    def end(self) -> None:
        """Ask no one any more."""
        self._next = len(self._plugins)

    def function(self, plugin: HostPlugin) -> Callable[..., Awaitable[Any]]:
        """Say what of a plugin is called: the hook of this name, in most chains."""
        found: Callable[..., Awaitable[Any]] = getattr(plugin, self.hook)
        return found

    @abstractmethod
    def question(self, plugin: HostPlugin) -> tuple[Q, ...]:
        """Say what a plugin's hook is called with: where it can be changed, a copy of its own."""

    @abstractmethod
    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Take what a hook returned."""

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Take that a hook raised, ran out of time, or returned what it may not. Most chains go on with the next plugin."""

    def cut(self) -> None:
        """Take that no plugin is asked any more, because the host closes, though some were not. What they guard must not pass for it."""

    def scrub(self, text: str) -> str:
        """Take out of a text for the log what its question may have brought in and no log may hold."""
        return text


class Blaming(Chain[Any]):
    """No plugin is asked: one of them did wrong where no hook of a chain was called, and that is to be told of as a failure."""

    def __init__(self, hook: str, scrub: Callable[[str], str] = keep) -> None:
        """Say what the failure counts as one of."""
        super().__init__(hook, ())
        self._scrub = scrub

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give nothing."""
        return ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""

    def scrub(self, text: str) -> str:
        """Take out what it was told to."""
        return self._scrub(text)


class Hearing(Chain[RequestContext]):
    """Plugins that hear of a request: of its beginning, of its being kept, or of its end."""

    def __init__(self, hook: str, order: PluginOrder, context: RequestContext) -> None:
        """Begin in front of the first."""
        super().__init__(hook, order.having[hook])
        self._context = context

    def question(self, plugin: HostPlugin) -> tuple[RequestContext, ...]:
        """Give the request."""
        return (self._context,)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""
        _expect_nothing(self.hook, value)


class Intercepting(Chain[ChatRequestContext]):
    """Plugins that may answer a message in place of a session. The first answer counts.

    Attributes:
        response: What was answered; None to let it pass.
        refusal: What the caller is told where a critical plugin failed.
    """

    def __init__(self, order: PluginOrder, context: ChatRequestContext) -> None:
        """Begin in front of the first."""
        super().__init__("intercept_chat_request", order.having["intercept_chat_request"])
        self._context = context
        self.response: HandledResponse | None = None
        self.refusal: RequestRefused | None = None

    def question(self, plugin: HostPlugin) -> tuple[ChatRequestContext, ...]:
        """Give the message."""
        return (self._context,)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Take an answer, which ends the chain, or None."""
        if value is None:
            return
        if not isinstance(value, HandledResponse):
            raise WrongAnswer(_wrong(self.hook, value, "HandledResponse, or None to let the message pass"))
        self.response = value
        self.end()

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Refuse the request where the plugin is critical; else it is as if it had returned None."""
        if plugin.critical:
            self.refusal = decide_request_refusal(plugin, error)
            self.end()

    def cut(self) -> None:
        """Refuse the request: a plugin that would have kept it out may not have been asked."""
        self.refusal = RequestRefused(503, "draining", "this host is closing: try again later")


def decide_request_refusal(plugin: HostPlugin, error: BaseException) -> RequestRefused:
    """Say what the caller is told when a critical plugin failed: its own refusal, else nothing of what it raised."""
    if isinstance(error, RequestRefused) and error.status in REFUSAL_STATUSES:
        return error
    message = f"the plugin {plugin.name!r} could not judge this request: try again later"
    return RequestRefused(503, "plugin_failed", message)


class Attaching(Chain[tuple[AttachmentFile, ...]]):
    """Plugins that say something of the files of a message.

    Attributes:
        texts: What they said, trimmed, without empty ones.
    """

    def __init__(self, order: PluginOrder, files: tuple[AttachmentFile, ...]) -> None:
        """Begin in front of the first; without files there is none."""
        super().__init__("attachment_handler", order.having["attachment_handler"] if files else ())
        self._files = files
        self.texts: tuple[str, ...] = ()

    def question(self, plugin: HostPlugin) -> tuple[tuple[AttachmentFile, ...], ...]:
        """Give the files."""
        return (self._files,)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Keep a text."""
        if value is None:
            return
        if not isinstance(value, AttachmentText):
            raise WrongAnswer(_wrong(self.hook, value, "AttachmentText, or None"))
        text = (value.context_text or "").strip()
        if text:
            self.texts = (*self.texts, text)

    def message(self, said: str) -> str:
        """Put what was said of the files in front of a message."""
        if not self.texts:
            return said
        return "\n\n".join(self.texts) + f"\n\n---\n\n{said}"


class Judging(Chain[BeforeToolCall]):
    """Plugins that judge a call. The first denial counts; arguments that one rewrites reach the next.

    A plugin that is `fail_closed` judges again where a later one rewrote the arguments, because policy is to see what will run. Then
    only its denial counts: another rewrite would begin it all anew.
    """

    # The receipt of an abort says that the hook's task is gone, or names it; left behind here it would do neither.
    is_waited_out = True

    def __init__(self, order: PluginOrder, call: BeforeToolCall) -> None:
        """Begin in front of the first. Of what is no JSON object no plugin is asked."""
        given: Any = call.input
        super().__init__(
            "on_before_tool_call", order.having["on_before_tool_call"] if isinstance(given, Mapping) else ()
        )
        self._call = call
        self._input: Mapping[str, Any] = call.input
        self._rewrote: tuple[str, ...] = ()
        self._again: tuple[HostPlugin, ...] = ()  # those that have not seen the arguments as they are now
        self._seen: tuple[HostPlugin, ...] = ()
        self._is_second_round = False
        self._deny: tuple[str, str] | None = None

    def next(self) -> HostPlugin | None:
        """Give the next one; behind the last those that have to judge again."""
        found = super().next()
        if found is None and self._again and self._deny is None:
            self._plugins, self._next, self._again = self._again, 0, ()
            self._is_second_round = True
            found = super().next()
        return found

    def question(self, plugin: HostPlugin) -> tuple[BeforeToolCall, ...]:
        """Give the call, with a copy of its arguments that is this plugin's own."""
        return (attrs.evolve(self._call, input=thawed(self._input)),)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Take a verdict."""
        if not isinstance(value, Allow | Deny):
            raise WrongAnswer(_wrong(self.hook, value, "Allow() or Deny(reason)"))
        if (
            isinstance(value, Allow)
            and value.input is not None
            and (size := too_large(value.input)) is not None
        ):
            message = f"{self.hook} wants to run an input of {size}: write it to a file, and give its path"
            raise WrongAnswer(message)
        self._note_seen(plugin)
        if isinstance(value, Deny):
            self._refuse(plugin, value.reason)
        elif value.input is not None and not self._is_second_round:
            # A copy: what was handed over is the plugin's, which may go on changing it.
            self._input = thawed(value.input)
            self._rewrote = (*self._rewrote, plugin.name)
            self._again = tuple([one for one in self._seen if one.fail_closed and one is not plugin])

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Go on, with what was rewritten before; one that is `fail_closed` denies the call."""
        self._note_seen(plugin)
        if plugin.fail_closed:
            reason = (
                f"the plugin {plugin.name!r} could not judge this call, and what it cannot judge does not run"
            )
            self._refuse(plugin, reason)

    def cut(self) -> None:
        """Deny the call: a plugin that would have denied it may not have been asked."""
        self._deny = ("host", "Not run: the host closes, and its plugins cannot judge this call any more")

    @property
    def verdict(self) -> HostVerdict:
        """What becomes of the call, once the chain is over."""
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
    """Plugins that hear what a call came to."""

    def __init__(self, order: PluginOrder, call: AfterToolCall) -> None:
        """Begin in front of the first. Of a call whose arguments were no JSON object no plugin is told."""
        given: Any = call.input
        super().__init__(
            "on_after_tool_call", order.having["on_after_tool_call"] if isinstance(given, Mapping) else ()
        )
        self._call = call

    def question(self, plugin: HostPlugin) -> tuple[AfterToolCall, ...]:
        """Give the call, with a copy of its arguments that is this plugin's own."""
        return (attrs.evolve(self._call, input=thawed(self._call.input)),)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""
        _expect_nothing(self.hook, value)


class Beginning(Chain[Any]):
    """Plugins that start, all or nothing."""

    def __init__(self, order: PluginOrder) -> None:
        """Begin in front of the first. One that has no `start` of its own has started when its turn comes."""
        super().__init__("start", order.all)
        self.started: tuple[HostPlugin, ...] = ()
        self.error: BaseException | None = None

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give nothing."""
        return ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Note that it runs."""
        _expect_nothing(self.hook, value)
        self.started = (*self.started, plugin)

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Start no later one."""
        self.error = error
        self.end()

    def cut(self) -> None:
        """Start no later one, and let none pass for started that was not."""
        message = "the host was closed before all of its plugins had started"
        self.error = self.error or RuntimeError(message)


class Stopping(Chain[Any]):
    """Plugins that stop, in the exact reverse of the order in which they were started. One that fails keeps no other from it."""

    def __init__(self, started: Sequence[HostPlugin]) -> None:
        """Begin with the last one."""
        super().__init__("stop", [one for one in reversed(started) if overrides(one, "stop")])

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give nothing."""
        return ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""
        _expect_nothing(self.hook, value)


def _expect_nothing(hook: str, value: Any) -> None:
    if value is not None:
        raise WrongAnswer(_wrong(hook, value, "None"))


def _wrong(hook: str, value: Any, expected: str) -> str:
    return f"{hook} returned {type(value).__name__}, expected {expected}"


# The runner: calls each hook within its time limit and reports failures to the chain.
#
# The hooks of a chain run in one task of the host's nursery, not in the caller's: a hook that shields itself from cancellation delays
# its caller by its timeout and one second, and is then abandoned. Its plugin is not called again until it returns.

LOGGER: Final = Logger("agentrail.host")

HOOK_SECONDS: Final = 10.0
"""How long a hook may take that names no timeout."""

HOOK_GRACE_SECONDS: Final = 1.0
"""How long a hook that was cancelled may take to come back, before it is left behind."""

OnPluginError: TypeAlias = Callable[[str, str, BaseException], Awaitable[None] | None]
"""Gets the name of the plugin, that of the hook, and what it raised; sync or async. The host waits for it as for a hook."""


@define(eq=False)
class _Walk:
    """One task that walks along a chain, and what its caller looks at meanwhile."""

    chain: Chain[Any]
    plugin: HostPlugin
    """Whose hook runs."""
    blame: BaseException | None = None
    """What is told of the plugin first; of a walk that goes on where another one was left behind, that its hook is overdue."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    done: trio.Event = field(factory=trio.Event)
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    """How long the caller waits until it looks at `overdue_at`."""
    overdue_at: float = math.inf
    """When the hook that runs is left behind: it moves with each."""
    is_telling: bool = False
    """Whether the application is being told of a failure; that is no hook of the plugin's."""
    is_left_behind: bool = False
    left_at: float = math.inf
    """When it was left behind."""
    is_over: bool = False
    """Whether it came to the end of the chain."""

    def be_patient_until(self, at_seconds: float) -> None:
        """Say when the hook that runs now is left behind. The clock is set anew only where that is sooner: a chain has many hooks."""
        self.overdue_at = at_seconds
        if at_seconds < self.patience.deadline:  # noqa: PLR1730 - to set it is what costs
            self.patience.deadline = at_seconds


class HookRunner:
    """Calls hooks of plugins, in a nursery that outlives each of their callers."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        hook_seconds: float = HOOK_SECONDS,
        on_plugin_error: OnPluginError | None = None,
        on_interrupt: Callable[[BaseException], None] | None = None,
    ) -> None:
        """Begin with none that is stuck."""
        self._nursery = nursery
        self._on_interrupt = on_interrupt
        self._hook_seconds = hook_seconds
        self._on_plugin_error = on_plugin_error
        self._stuck: dict[_Walk, None] = {}
        self._failures: dict[str, int] = {}
        self._tally = PluginTally()

    @property
    def stuck(self) -> Mapping[str, str]:
        """The hooks that do not come back, by the names of their plugins."""
        return {walk.plugin.name: walk.chain.hook for walk in self._stuck}

    @property
    def stuck_since(self) -> Mapping[str, float]:
        """When the hooks of `stuck` were left behind, on Trio's clock, by the names of their plugins; of several the first."""
        since: dict[str, float] = {}
        for walk in self._stuck:
            since[walk.plugin.name] = min(walk.left_at, since.get(walk.plugin.name, math.inf))
        return since

    @property
    def tally(self) -> PluginTally:
        """How often each hook was called and failed, how long it took, and what failed last."""
        return self._tally

    @property
    def failures(self) -> Mapping[str, int]:
        """How often hooks failed, by the names of their plugins."""
        return dict(self._failures)

    @property
    def hook_seconds(self) -> float:
        """How long a hook may take that names no timeout."""
        return self._hook_seconds

    async def run(self, chain: Chain[Any]) -> None:
        """Walk along a chain to its end.

        Cancellation: The hook that runs is cancelled and no later one is called; it returns when that hook has, or after a second. Where
            the chain is waited out, it is when the hook's time and that second are over.
        """
        await self._go(chain, chain.next(), None)

    async def report(
        self, plugin: HostPlugin, hook: str, error: BaseException, *, scrub: Redact = keep
    ) -> None:
        """Tell of a failure that no call of a hook has seen, and count it; within the same time as of any other.

        Cancellation: The application is not told any more, or not to the end.
        """
        await self._go(Blaming(hook, scrub), plugin, error)

    def report_soon(self, plugin: HostPlugin, hook: str, error: BaseException) -> None:
        """Tell of such a failure, and do not wait for it."""
        self._nursery.start_soon(self.report, plugin, hook, error, name=f"a failure of {hook}")

    async def _go(self, chain: Chain[Any], plugin: HostPlugin | None, blame: BaseException | None) -> None:
        while plugin is not None:
            walk = _Walk(chain, plugin, blame)
            self._nursery.start_soon(self._walk, walk, name=f"{chain.hook} of plugins")
            await self._wait(walk)
            if not walk.is_left_behind:
                if not walk.is_over:  # its nursery was cancelled, and not its caller
                    chain.cut()
                return
            if walk.is_telling:
                plugin, blame = chain.next(), None
            else:
                plugin, blame = walk.plugin, self._overdue(walk.plugin, chain.hook)

    # --- the caller's side

    async def _wait(self, walk: _Walk) -> None:
        """Wait for the end of a walk, or until its hook is overdue and left behind."""
        try:
            while not walk.done.is_set():
                with walk.patience:
                    await walk.done.wait()
                if trio.current_time() >= walk.overdue_at:
                    break
                if walk.patience.cancelled_caught:  # the hook that it was set for is over, another one runs
                    walk.patience = trio.CancelScope(deadline=walk.overdue_at)
        finally:
            if not walk.done.is_set():
                walk.scope.cancel()
                with trio.CancelScope(shield=True, deadline=self._leaves_at(walk)):
                    await walk.done.wait()  # noqa: ASYNC102 - shielded and bounded
                if not walk.done.is_set():
                    self._leave_behind(walk)

    @staticmethod
    def _leaves_at(walk: _Walk) -> float:
        """Say until when a hook that was cancelled is waited for."""
        now = trio.current_time()
        if walk.patience.cancelled_caught:  # it had its grace
            return now
        return walk.overdue_at if walk.chain.is_waited_out else now + HOOK_GRACE_SECONDS

    def _leave_behind(self, walk: _Walk) -> None:
        walk.is_left_behind, walk.left_at = True, trio.current_time()
        if walk.is_telling:
            LOGGER.error("on_plugin_error does not come back; it was told of %s", named(walk.plugin))
        else:
            self._stuck[walk] = None

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
                    # A hook may swallow its cancellation: its caller is gone all the same.
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
        """Call one hook, and let the chain take what came of it."""
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
            if scope.cancel_called:  # also of one that shielded itself, and is late
                error = self._overdue(plugin, chain.hook)
            else:  # also where the caller has left meanwhile: what was started has to be stopped
                chain.answered(plugin, value)
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of a hook: its plugin is blamed, and its chain goes on
            raise_what_travels(raised)
            error = raised
        finally:
            self._tally.note(plugin.name, chain.hook, trio.current_time() - now)
        # What a hook returns that was cancelled counts where it is an answer, and is no failure where it is none.
        is_cut = walk.scope.cancel_called and isinstance(error, WrongAnswer)
        if error is not None and not walk.is_left_behind and not is_cut:
            await self._fail(walk, error)

    async def _fail(self, walk: _Walk, error: BaseException) -> None:
        """Let the chain make of a failure what its row of the table says, and tell of it."""
        plugin, chain = walk.plugin, walk.chain
        self._failures[plugin.name] = self._failures.get(plugin.name, 0) + 1
        self._tally.note_failure(plugin.name, chain.hook, chain.scrub(describe_bug(error)), now_ms())
        chain.failed(plugin, error)
        walk.be_patient_until(trio.current_time() + self._hook_seconds + HOOK_GRACE_SECONDS)
        walk.is_telling = True
        await self._tell(plugin, chain, error)
        walk.is_telling = False

    async def _tell(self, plugin: HostPlugin, chain: Chain[Any], error: BaseException) -> None:
        """Tell the application of a failure; where that fails too, both are in the log."""
        told, hook = self._on_plugin_error, chain.hook
        words = chain.scrub(describe_bug(error))
        if told is None:
            LOGGER.warning("host plugin %s failed in %s: %s", named(plugin), hook, words)
            return
        failure: str | None = None
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._hook_seconds) as scope:
                answer = told(plugin.name, hook, error)
                if inspect.isawaitable(answer):
                    await answer
            if scope.cancelled_caught:
                failure = f"it took longer than {self._hook_seconds:g} s"
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - the edge of the application's own function
            raise_what_travels(raised)
            failure = chain.scrub(describe_bug(raised))
        if failure is not None:
            LOGGER.warning("host plugin %s failed in %s: %s", named(plugin), hook, words)
            LOGGER.error("on_plugin_error failed as it was told of that: %s", failure)

    def _seconds(self, plugin: HostPlugin, hook: str) -> float:
        return plugin.timeouts.get(hook, self._hook_seconds)

    def _overdue(self, plugin: HostPlugin, hook: str) -> HookTimeout:
        seconds = self._seconds(plugin, hook)
        message = f"{hook} of the plugin {named(plugin)} did not end within {seconds:g} s"
        return HookTimeout(message, plugin=plugin.name, hook=hook, seconds=seconds)

    def _not_called(self, plugin: HostPlugin, hook: str, earlier: str) -> HookTimeout:
        message = f"{hook} of the plugin {named(plugin)} is not called: its {earlier} does not come back"
        return HookTimeout(message, plugin=plugin.name, hook=hook, seconds=0.0)


@define(eq=False)
class _Home:
    """Where hooks run, out of reach of the code that cancels the body: what the body owes to plugins it can still do then."""

    body: trio.CancelScope = field(factory=trio.CancelScope)
    up: trio.Event = field(factory=trio.Event)
    leave: trio.Event = field(factory=trio.Event)
    hooks: trio.Nursery | None = None
    interrupt: BaseException | None = None

    async def hold(self) -> None:
        """Hold a nursery open until `leave`, and cancel what is in it then.

        Cancellation: Shielded; `open_hook_runner` sets `leave` whatever happens. Not started by `nursery.start`, which waits for the end
            of a task whose caller is cancelled, and this one would have none.
        """
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as self.hooks:
                self.up.set()
                await self.leave.wait()
                self.hooks.cancel_scope.cancel(reason="the host was closed")

    def take(self, error: BaseException) -> None:
        """End the body for what a hook raised that is meant for the process; it is raised behind that."""
        self.interrupt = self.interrupt or error
        self.body.cancel(reason="a hook of a plugin ended the program")


@asynccontextmanager
async def open_hook_runner(
    *, hook_seconds: float = HOOK_SECONDS, on_plugin_error: OnPluginError | None = None
) -> AsyncIterator[HookRunner]:
    """Open a runner of hooks. All that sessions and plugins do with it has to be over when the block is left.

    Cancellation: Hooks that the body asks for under a shield still run. When it is left all hooks are cancelled; one that shields
        itself is waited for.
    """
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
        finally:  # whatever happened: the keeper is shielded, and no other code could ever end it
            home.leave.set()
    if home.interrupt is not None:
        raise home.interrupt
    failure.release()


def named(plugin: HostPlugin) -> str:
    """Name a plugin for people: with its version, where it has one."""
    return f"{plugin.name!r} {plugin.version}".rstrip()


# The hooks of plugins at the calls of sessions: what a session asks its host becomes a chain of plugins, and their verdict one. Where
# no plugin has such a hook there is none, and sessions do not ask. What a verdict does to a call, and what is checked of it, says the
# session; nothing here knows of gates.


ReaderOf: TypeAlias = Callable[[str, SessionId], SessionReader | None]
"""Gives what reads a session of a tenant; None where there is none any more."""


def _no_reader(_tenant_id: str, _session_id: SessionId) -> None:
    """Give none."""


def tool_hooks(order: PluginOrder, runner: HookRunner, reader_of: ReaderOf = _no_reader) -> HostHooks:
    """Make the hooks of a host for the calls of its sessions."""
    hooks = _ToolHooks(order, runner, reader_of)
    before = hooks.before_tool if order.having["on_before_tool_call"] else None
    after = hooks.after_tool if order.having["on_after_tool_call"] else None
    if before is None and after is None:
        return NO_HOST
    return HostHooks(before_tool=before, after_tool=after)


class _ToolHooks:
    def __init__(self, order: PluginOrder, runner: HookRunner, reader_of: ReaderOf) -> None:
        self._order = order
        self._runner = runner
        self._reader_of = reader_of

    async def before_tool(self, call: HostCall) -> HostVerdict:
        """Let the plugins judge a call.

        Cancellation: The hook that runs is cancelled, and no later one is asked; see `HookRunner.run`.
        """
        event = BeforeToolCall(
            tool_name=call.tool_name, call_id=call.call_id, input=call.input, context=self._around(call)
        )
        chain = Judging(self._order, event)
        await self._runner.run(chain)
        return chain.verdict

    async def after_tool(self, call: HostCallEnd) -> None:
        """Tell the plugins what a call came to.

        Cancellation: As of `before_tool`.
        """
        event = AfterToolCall(
            tool_name=call.tool_name,
            call_id=call.call_id,
            input=call.input,
            result=call.result,
            is_error=call.is_error,
            duration_ms=call.duration_ms,
            context=self._around(call),
        )
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
    # The host sets them in each session that it starts; one that was started past it says nothing.
    found = call.user_data.get(key)
    return found if isinstance(found, str) else ""
