"""The clock beside the plugins: the core that calls them has none, so it is told of the slow ones by a signal."""

import time
from collections.abc import Callable
from typing import Any, Final

from agentrail.core.hooks import HookEvent
from agentrail.core.plugin import Context
from agentrail.core.signals import PluginLagged
from agentrail.core.stack import Member
from agentrail.runtime.clock import now_ms

SLOW_SECONDS: Final = 0.05
QUIET_SECONDS: Final = 60.0
"""How long a plugin that was reported is not reported again."""


class PluginWatch:
    """Calls the handlers of one session's plugins, and looks how long each takes."""

    __slots__ = ("_report", "_reported_at")

    def __init__(self) -> None:
        """Report to nobody yet."""
        self._report: Callable[[PluginLagged], None] | None = None
        self._reported_at: dict[str, float] | None = (
            None  # made when it is needed: most sessions have no slow plugin
        )

    def report_to(self, report: Callable[[PluginLagged], None]) -> None:
        """Say who hears of slow plugins: the session's own mailbox."""
        self._report = report

    def ask(self, member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        """Call a handler; what it raises travels on."""
        began = time.perf_counter()
        try:
            return member.plugin.handle(event, state, ctx)
        finally:
            now = time.perf_counter()
            if now - began > SLOW_SECONDS:
                self._tell(member.name, type(event).__name__, now - began, now)

    def _tell(self, plugin: str, hook: str, took: float, now: float) -> None:
        if self._report is None:
            return
        if self._reported_at is None:
            self._reported_at = {}
        if now - self._reported_at.get(plugin, -QUIET_SECONDS) >= QUIET_SECONDS:
            self._reported_at[plugin] = now
            self._report(
                PluginLagged(at_ms=now_ms(), plugin=plugin, hook=hook, milliseconds=round(took * 1000))
            )
