"""Calls the hooks of a chain, each within its time, and tells of those that fail. What a failure means, the chain says.

The hooks of one chain run in one task of the host's nursery, and not in that of their caller: one that shields itself from cancellation
delays its caller by its timeout and a second, and is then left behind. Until it has come back, its plugin is not called.
"""

import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import trio
from attrs import define, field

from agentrail.actors.kept import Kept
from agentrail.errors import HookTimeout
from agentrail.host.chains import Blaming, Chain, WrongAnswer
from agentrail.host.plugin import HostPlugin
from agentrail.logs import Logger
from agentrail.otp.edges import FOR_THE_PROCESS
from agentrail.otp.exits import Redact, keep
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.hook_times import PluginTally

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
        """Begin with none that is stuck.

        Args:
            nursery: Where hooks run.
            hook_seconds: How long one may take that names no timeout.
            on_plugin_error: Is told of each failure; None for a warning in the log.
            on_interrupt: Is given a `KeyboardInterrupt` or `SystemExit` that a hook raises; None lets it end the nursery.
        """
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

        Args:
            plugin: Whose it is.
            hook: What it counts as a failure of.
            error: What it did wrong.
            scrub: Takes out of a text for the log what no log may hold.

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

    Args:
        hook_seconds: How long a hook may take that names no timeout.
        on_plugin_error: Is told of each failure; None for a warning in the log.

    Raises:
        BaseException: What the body raises, as itself; a `KeyboardInterrupt` or `SystemExit` of a hook, behind the body.

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
