"""Lifecycle of a host's plugins: start of all or none, background work, and stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail.actors import (
    Report,
    Supervisor,
    SupervisorFlags,
    cleanup_scope,
    open_supervisor,
    worker,
)
from agentrail.actors.deferred_error import Kept
from agentrail.actors.supervisor_loop import log_report
from agentrail.errors import ActorDown, ChildNotFound, HookTimeout, SupervisorGaveUp, SupervisorStopping
from agentrail.host.host_plugin import HostPlugin, overrides
from agentrail.host.plugin_chain import Beginning, HookRunner, PluginOrder, Stopping, named
from agentrail.host.shutdown import LEAST_SECONDS
from agentrail.logs import Logger
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import Shutdown
from agentrail.otp.guarded_calls import leaves
from agentrail.runtime.branch import SupervisorLabel
from agentrail.runtime.crashes import what_travels

LOGGER: Final = Logger("agentrail.host")

MAX_BACKGROUND_RESTARTS: Final = 3
BACKGROUND_PERIOD_SECONDS: Final = 5.0
"""One more crash within this time ends the background work of that plugin only."""

BACKGROUNDS: Final = SupervisorFlags(
    "dynamic",
    intensity=MAX_BACKGROUND_RESTARTS,
    period_seconds=BACKGROUND_PERIOD_SECONDS,
    intensity_per="child",
)


class PluginLife:
    """Starts and stops the plugins of a host.

    Attributes:
        stops_by: Deadline for the plugins' own `stop` timeouts. After it, each plugin has one second.
    """

    def __init__(self, order: PluginOrder, runner: HookRunner) -> None:
        self._order = order
        self._runner = runner
        self._backgrounds: Supervisor | None = None
        self._started: tuple[HostPlugin, ...] = ()
        self._given_up: dict[str, None] = {}
        self._stopping: set[str] = set()
        self._blamed: set[str] = set()
        self.stops_by: float = float("inf")

    @property
    def started(self) -> tuple[HostPlugin, ...]:
        return self._started

    @property
    def failed_backgrounds(self) -> tuple[str, ...]:
        return tuple(self._given_up)

    async def start(self) -> None:
        """Start all plugins in order, then their background work. Cancelled like a failed start."""
        chain = Beginning(self._order)
        try:
            await self._start_all(chain)
        except BaseException:
            self._started = chain.started
            await self.stop()  # noqa: ASYNC102 - shields itself, and each hook in it is bounded
            raise
        self._started = chain.started

    async def stop(self) -> None:
        """Stop all started plugins in reverse order, each after its background. Idempotent and shielded."""
        with trio.CancelScope(shield=True):
            while self._started:
                self._started, plugin = self._started[:-1], self._started[-1]
                by = max(self.stops_by, trio.current_time() + LEAST_SECONDS)
                with trio.CancelScope(deadline=by) as scope:
                    if overrides(plugin, "background"):
                        await self._stop_background(plugin)
                    await self._runner.run(Stopping([plugin]))
                if scope.cancelled_caught:
                    LOGGER.warning("there was no time left for plugin %s to stop", named(plugin))

    async def _start_all(self, chain: Beginning) -> None:
        await self._runner.run(chain)
        if chain.error is not None:
            raise decide_start_error(chain.error)
        for plugin in chain.started:
            if overrides(plugin, "background"):
                assert self._backgrounds is not None  # noqa: S101 - `open_plugins` has opened it
                spec = ChildSpec(
                    plugin.name,
                    worker(self._run_background, plugin),
                    "transient",
                    shutdown_seconds=self._runner.hook_seconds,
                )
                await self._backgrounds.start_child(spec)

    # --- background work

    @asynccontextmanager
    async def supervise(self) -> AsyncIterator[None]:
        label = SupervisorLabel("backgrounds of plugins")
        failure = Kept()
        async with open_supervisor(BACKGROUNDS, [_TEMPLATE], name=label, observer=self._hear) as backgrounds:
            self._backgrounds = backgrounds
            with failure:
                yield
            await self.stop()
        failure.release()

    async def _run_background(self, plugin: HostPlugin) -> None:
        if plugin.name in self._stopping:  # it crashed while its plugin began to stop
            return
        try:
            await plugin.background()
        except BaseException as error:
            if what_travels(error) is not None:
                raise
            self._blamed.add(plugin.name)
            with cleanup_scope(self._runner.hook_seconds):  # also if it raises because it is being stopped
                await self._runner.report(plugin, "background", error)  # noqa: ASYNC102 - shielded and bounded
            raise

    async def _stop_background(self, plugin: HostPlugin) -> None:
        self._stopping.add(plugin.name)
        assert self._backgrounds is not None  # noqa: S101 - as above
        try:
            for child in await self._backgrounds.which_children():
                if child.id == plugin.name and child.handle is not None:
                    await self._backgrounds.terminate_child(child.handle)
        except (ActorDown, ChildNotFound, SupervisorStopping):
            return  # it ended by itself, or all are being stopped by the same rules

    def _hear(self, report: Report) -> None:
        plugin = next((one for one in self._order.all if one.name == report.child_id), None)
        if plugin is None:
            log_report(report)
        elif report.kind == "child_terminated" and plugin.name in self._blamed:
            self._blamed.discard(plugin.name)
        elif report.kind == "shutdown":
            self._given_up[plugin.name] = None
            self._runner.report_soon(plugin, "background", decide_given_up(plugin))
        elif report.kind == "stuck":
            self._runner.report_soon(plugin, "background", decide_stuck(plugin, self._runner.hook_seconds))
        else:
            log_report(report)


@asynccontextmanager
async def open_plugins(order: PluginOrder, runner: HookRunner) -> AsyncIterator[PluginLife]:
    """Open the lifecycle of a host's plugins. They start after the sessions' supervisor and stop after its end."""
    life = PluginLife(order, runner)
    async with life.supervise():
        yield life


def decide_start_error(error: BaseException) -> BaseException:
    """Return the plugin's exception. A foreign cancellation is wrapped, because it would end the program."""
    if any(isinstance(leaf, trio.Cancelled) for leaf in leaves(error)):
        return RuntimeError(
            f"a plugin did not start: {describe_bug(error)}, although its host did not cancel it"
        )
    return error


def decide_given_up(plugin: HostPlugin) -> SupervisorGaveUp:
    message = (
        f"background of the plugin {named(plugin)} crashed more than {MAX_BACKGROUND_RESTARTS} times "
        f"within {BACKGROUND_PERIOD_SECONDS:g} s: it is not started again"
    )
    return SupervisorGaveUp(message, reason=Shutdown("max_restart_intensity"), child_id=plugin.name)


def decide_stuck(plugin: HostPlugin, seconds: float) -> HookTimeout:
    message = (
        f"background of the plugin {named(plugin)} did not end within {seconds:g} s after it was cancelled"
    )
    return HookTimeout(message, plugin=plugin.name, hook="background", seconds=seconds)


async def _no_background() -> None:
    """Never started."""


_TEMPLATE: Final = ChildSpec("background", worker(_no_background), "temporary")
