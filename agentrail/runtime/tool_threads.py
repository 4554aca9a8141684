"""The worker threads of the tools of one supervisor: how many there are, and which of them cannot be stopped any more."""

from collections.abc import Callable
from typing import Final, TypeVar

import trio
from attrs import define, frozen

from agentrail.outside import offload

T = TypeVar("T")

MAX_TOOL_THREADS: Final = 40
MAX_LEFT_BEHIND: Final = 16
"""So many threads may work on although their calls were stopped; with more, no further one begins."""

TOO_MANY: Final = "Too many tools are still running in the background."


@define(eq=False)
class _Job:
    name: str
    scope: trio.CancelScope
    abandonable: bool


@frozen(kw_only=True)
class ThreadStatistics:
    """What the threads of a supervisor are doing.

    Attributes:
        left_behind: The tools of those whose calls were stopped and that work on, oldest first.
    """

    running: int = 0
    left_behind: tuple[str, ...] = ()


class ToolThreads:
    """Threads for tools that are plain functions.

    A limiter of their own, not Trio's default one: tools that block for minutes would starve all others that need a thread,
    such as name resolution. A thread that is left behind keeps its slot until it really ends.
    """

    __slots__ = ("_jobs", "_limiter")

    def __init__(self) -> None:
        """Begin with none; inside of a Trio run."""
        self._jobs: list[_Job] = []
        self._limiter = trio.CapacityLimiter(MAX_TOOL_THREADS)

    async def run(
        self, name: str, scope: trio.CancelScope, function: Callable[[], T], *, abandonable: bool
    ) -> T:
        """Run a function in a thread.

        Cancellation: Takes effect at once for an abandonable one; else when the function returns, or raises because
            it asked `check_cancelled()`.
        """
        job = _Job(name, scope, abandonable)

        def work() -> T:
            # Both in the thread: it may begin late, and at its end the caller may be gone. Each is one atomic step.
            self._jobs.append(job)
            try:
                return function()
            finally:
                self._jobs.remove(job)

        return await offload(work, abandon_on_cancel=abandonable, limiter=self._limiter)

    def is_abandoned(self, scope: trio.CancelScope) -> bool:
        """Say whether the thread of a call that was stopped works on without a caller that waits for it."""
        return any(job.scope is scope and job.abandonable and scope.cancel_called for job in self._jobs)

    @property
    def is_full(self) -> bool:
        """Whether too many are left behind for another one to begin."""
        return len(self.statistics().left_behind) >= MAX_LEFT_BEHIND

    def statistics(self) -> ThreadStatistics:
        """Count them."""
        jobs = tuple(self._jobs)
        left_behind = tuple(job.name for job in jobs if job.scope.cancel_called)
        return ThreadStatistics(running=len(jobs), left_behind=left_behind)
