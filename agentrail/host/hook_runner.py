"""Calls the hooks of a chain, each within its time, and tells of those that fail. What a failure means, the chain says.

The hooks of one chain run in one task of the host's nursery, and not in that of their caller: one that shields itself from cancellation
delays its caller by its timeout and a second, and is then left behind. Until it has come back, its plugin is not called.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import trio
from attrs import define, field

from agentrail.errors import HookTimeout
from agentrail.host.chains import Chain
from agentrail.host.plugin import HostPlugin
from agentrail.logs import Logger
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.crashes import what_travels

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
    overdue: HookTimeout | None = None
    """Of a walk that goes on where another one was left behind: what its plugin has to be told of first."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    done: trio.Event = field(factory=trio.Event)
    patience: trio.CancelScope = field(factory=trio.CancelScope)
    """How long the caller waits: its deadline moves with each hook."""
    is_telling: bool = False
    """Whether the application is being told of a failure; that is no hook of the plugin's."""
    is_left_behind: bool = False


class HookRunner:
    """Calls hooks of plugins, in a nursery that outlives each of their callers."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        hook_seconds: float = HOOK_SECONDS,
        on_plugin_error: OnPluginError | None = None,
    ) -> None:
        """Begin with none that is stuck.

        Args:
            nursery: Where hooks run.
            hook_seconds: How long one may take that names no timeout.
            on_plugin_error: Is told of each failure; None for a warning in the log.
        """
        self._nursery = nursery
        self._hook_seconds = hook_seconds
        self._on_plugin_error = on_plugin_error
        self._stuck: dict[_Walk, None] = {}
        self._failures: dict[str, int] = {}

    @property
    def stuck(self) -> Mapping[str, str]:
        """The hooks that do not come back, by the names of their plugins."""
        return {walk.plugin.name: walk.chain.hook for walk in self._stuck}

    @property
    def failures(self) -> Mapping[str, int]:
        """How often hooks failed, by the names of their plugins."""
        return dict(self._failures)

    async def run(self, chain: Chain[Any]) -> None:
        """Walk along a chain to its end.

        Cancellation: The hook that runs is cancelled and no later one is called; it returns when that hook has, or after a second.
        """
        plugin, overdue = chain.next(), None
        while plugin is not None:
            walk = _Walk(chain, plugin, overdue)
            self._nursery.start_soon(self._walk, walk, name=f"{chain.hook} of plugins")
            await self._wait(walk)
            if not walk.is_left_behind:
                return
            if walk.is_telling:
                plugin, overdue = chain.next(), None
            else:
                plugin, overdue = walk.plugin, self._overdue(walk.plugin, chain.hook)

    # --- the caller's side

    async def _wait(self, walk: _Walk) -> None:
        """Wait for the end of a walk, or until its hook is overdue and left behind."""
        try:
            with walk.patience:
                await walk.done.wait()
        finally:
            if not walk.done.is_set():
                walk.scope.cancel()
                # The hook of a caller that is cancelled has its grace now; that of one that waited had it.
                seconds = 0 if walk.patience.cancelled_caught else HOOK_GRACE_SECONDS
                with trio.move_on_after(seconds, shield=True):
                    await walk.done.wait()  # noqa: ASYNC102 - shielded and bounded
                if not walk.done.is_set():
                    self._leave_behind(walk)

    def _leave_behind(self, walk: _Walk) -> None:
        walk.is_left_behind = True
        if walk.is_telling:
            LOGGER.error("on_plugin_error does not come back; it was told of %s", named(walk.plugin))
        else:
            self._stuck[walk] = None

    # --- the task's side

    async def _walk(self, walk: _Walk) -> None:
        try:
            with walk.scope:
                plugin: HostPlugin | None = walk.plugin
                if walk.overdue is not None:
                    await self._fail(walk, walk.overdue)
                    plugin = walk.chain.next()
                while plugin is not None:
                    walk.plugin = plugin
                    await self._call(walk)
                    # A hook may swallow its cancellation: its caller is gone all the same.
                    if walk.is_left_behind or walk.scope.cancel_called:
                        return
                    plugin = walk.chain.next()
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
        walk.patience.deadline = now + seconds + HOOK_GRACE_SECONDS
        error: BaseException | None = None
        try:
            with trio.CancelScope(deadline=now + seconds) as scope:
                value = await getattr(plugin, chain.hook)(*chain.question(plugin))
            if walk.is_left_behind or walk.scope.cancel_called:
                return
            if scope.cancel_called:  # also of one that shielded itself, and is late
                error = self._overdue(plugin, chain.hook)
            else:
                chain.answered(plugin, value)
        except BaseException as raised:
            leaving = what_travels(raised)
            if leaving is raised:
                raise
            if leaving is not None:
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
            error = raised
        if error is not None and not walk.is_left_behind:
            await self._fail(walk, error)

    async def _fail(self, walk: _Walk, error: BaseException) -> None:
        """Let the chain make of a failure what its row of the table says, and tell of it."""
        plugin, chain = walk.plugin, walk.chain
        self._failures[plugin.name] = self._failures.get(plugin.name, 0) + 1
        chain.failed(plugin, error)
        walk.patience.deadline = trio.current_time() + self._hook_seconds + HOOK_GRACE_SECONDS
        walk.is_telling = True
        await self.tell(plugin, chain.hook, error)
        walk.is_telling = False

    async def tell(self, plugin: HostPlugin, hook: str, error: BaseException) -> None:
        """Tell the application of a failure; where that fails too, both are in the log."""
        told = self._on_plugin_error
        if told is None:
            LOGGER.warning("host plugin %s failed in %s: %s", named(plugin), hook, describe_bug(error))
            return
        failure: str | None = None
        try:
            with trio.CancelScope(deadline=trio.current_time() + self._hook_seconds) as scope:
                answer = told(plugin.name, hook, error)
                if inspect.isawaitable(answer):
                    await answer
            if scope.cancelled_caught:
                failure = f"it took longer than {self._hook_seconds:g} s"
        except BaseException as raised:
            leaving = what_travels(raised)
            if leaving is raised:
                raise
            if leaving is not None:
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
            failure = describe_bug(raised)
        if failure is not None:
            LOGGER.warning("host plugin %s failed in %s: %s", named(plugin), hook, describe_bug(error))
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


def named(plugin: HostPlugin) -> str:
    """Name a plugin for people: with its version, where it has one."""
    return f"{plugin.name!r} {plugin.version}".rstrip()
