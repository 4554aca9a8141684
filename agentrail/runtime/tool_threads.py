"""Worker threads for the tools of one supervisor: their number, and those that can no longer be stopped."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import trio
from attrs import define, field, frozen

from agentrail.outside import offload

T = TypeVar("T")

MAX_TOOL_THREADS: Final = 40
MAX_LEFT_BEHIND: Final = 16
"""Maximum number of threads left running after their calls were stopped. Beyond it, no further one starts."""

TOO_MANY: Final = "Too many tools are still running in the background."


@define(eq=False)
class _Job:
    name: str
    scope: trio.CancelScope
    abandonable: bool


@frozen(kw_only=True)
class ThreadStatistics:
    running: int = 0
    left_behind: tuple[str, ...] = ()


@define(eq=False)
class ToolThreads:
    """Threads for tools that are plain functions.

    They have a limiter of their own. A thread that is left behind keeps its slot until it ends.
    """

    _jobs: list[_Job] = field(init=False, factory=list)
    _limiter: trio.CapacityLimiter = field(
        init=False, factory=partial(trio.CapacityLimiter, MAX_TOOL_THREADS)
    )

    async def run(
        self, name: str, scope: trio.CancelScope, function: Callable[[], T], *, abandonable: bool
    ) -> T:
        job = _Job(name, scope, abandonable)

        def work() -> T:
            # Both in the thread: it may start late, and at its end the caller may have left. Each is one atomic step.
            self._jobs.append(job)
            try:
                return function()
            finally:
                self._jobs.remove(job)

        return await offload(work, abandon_on_cancel=abandonable, limiter=self._limiter)

    def is_abandoned(self, scope: trio.CancelScope) -> bool:
        return any(job.scope is scope and job.abandonable and scope.cancel_called for job in self._jobs)

    @property
    def is_full(self) -> bool:
        return len(self.statistics().left_behind) >= MAX_LEFT_BEHIND

    def statistics(self) -> ThreadStatistics:
        jobs = tuple(self._jobs)
        left_behind = tuple(job.name for job in jobs if job.scope.cancel_called)
        return ThreadStatistics(running=len(jobs), left_behind=left_behind)
