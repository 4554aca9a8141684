"""Work that a cancelled caller does not stop."""

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeVar

import trio

from agentrail.actors.deferred_error import Kept

T = TypeVar("T")


async def carry_through(work: Callable[[], Awaitable[T]]) -> T:
    """Do work in a task of its own, and wait for its result. The work must end on its own, and its error is raised here.

    Cancellation: Only the wait is cancelled, and then the error is lost.
    """
    results: list[T] = []
    failure, is_done = Kept(), trio.Event()

    async def run() -> None:
        with failure:  # it would end the run
            results.append(await work())
        is_done.set()

    trio.lowlevel.spawn_system_task(run, name="work of a caller", context=copy_context())
    await is_done.wait()
    failure.release()
    return results[0]
