"""One function as a temporary child, with its value: for work whose caller waits for it, or wants to hear of it."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio
from attrs import frozen

from agentrail.actors.handle import ActorHandle, cell_of, check_timeout, current_cell, late, mailbox_of
from agentrail.actors.monitor import link, monitor
from agentrail.actors.replies import down
from agentrail.otp.exits import ExitReason, Shutdown
from agentrail.otp.statem import Info

SHUTDOWN: Final = Shutdown()
_NOTHING: Final = object()


@frozen
class TaskResult:
    """The value of a task; its `Down` follows.

    Attributes:
        handle: Of the task.
        value: What its function returned.
    """

    handle: ActorHandle
    value: object


class Task:
    """The books of one task: who wants to hear of it, and what it returned."""

    def __init__(self, linked_to: ActorHandle | None, report_to: ActorHandle | None) -> None:
        """Refuse an actor that cannot be told.

        Raises:
            NoMailbox: Your move: `report_to` is a worker.
        """
        if report_to is not None:
            mailbox_of(cell_of(report_to))
        self.value: object = _NOTHING
        self.is_given_up = False
        self._linked_to = linked_to
        self._report_to = report_to

    def begin(self, own: ActorHandle) -> None:
        """Link and monitor, before the function can do anything."""
        if self._linked_to is not None:
            link(own, self._linked_to)
        if self._report_to is not None:
            monitor(own, deliver_to=self._report_to)

    def finish(self, own: ActorHandle, value: object) -> None:
        """Keep the value for the caller that waits, and report it; a result that was given up arrives nowhere."""
        if self.is_given_up:
            return
        self.value = value
        if self._report_to is not None:
            mailbox_of(cell_of(self._report_to)).put_notice(Info(TaskResult(own, value)))

    @property
    def has_value(self) -> bool:
        """Whether the function has returned."""
        return self.value is not _NOTHING


async def run_task(task: Task, function: Callable[..., Awaitable[object]], *args: object) -> None:
    """Be the task."""
    cell = current_cell()
    assert cell is not None  # noqa: S101 - a supervisor runs it
    task.begin(cell.handle)
    task.finish(cell.handle, await function(*args))


class TaskHandle:
    """A task that was started.

    Attributes:
        handle: Of its actor.
    """

    def __init__(self, handle: ActorHandle, task: Task) -> None:
        """Made by `start_task`."""
        self.handle = handle
        self._task = task

    async def result(self, timeout_seconds: float | None = 5.0) -> object:  # noqa: ASYNC109 - it gives the result up
        """Wait for the value.

        Args:
            timeout_seconds: Then the result is given up for good; `None` waits for ever.

        Raises:
            ActorDown: It ended without a value.
            CallTimeout: It was not there in time, now or in an earlier call.
            ValueError: Your move: a timeout that is negative or NaN.

        Cancellation: Always a checkpoint.
        """
        check_timeout(timeout_seconds)
        if self._task.is_given_up:
            await trio.lowlevel.checkpoint()
            raise late(self.handle, "result", timeout_seconds)
        if self.handle.exit_reason is not None:  # what is there already is in time, also for a timeout of 0
            await trio.lowlevel.checkpoint()
            return self._value_or_raise(self.handle.exit_reason)
        try:
            with trio.fail_after(float("inf") if timeout_seconds is None else timeout_seconds):
                reason = await self.handle.wait()
        except trio.TooSlowError:
            self._task.is_given_up = True
            raise late(self.handle, "result", timeout_seconds) from None
        return self._value_or_raise(reason)

    async def shutdown(self, timeout_seconds: float | None = 5.0) -> object:  # noqa: ASYNC109 - then it is killed
        """Stop the task, and return its value if it was already there.

        Args:
            timeout_seconds: Then it is killed; `None` waits for ever.

        Returns:
            The value, or the exit reason of a task that had none.

        Cancellation: Always a checkpoint; cancelled here the stop goes on.
        """
        check_timeout(timeout_seconds)
        if self.handle.exit_reason is None:
            cell = cell_of(self.handle)
            cell.is_laddered = True  # the time is set here, and the kill comes from here
            cell.ask(SHUTDOWN)
        with trio.move_on_after(float("inf") if timeout_seconds is None else timeout_seconds):
            await self.handle.wait()
        if self.handle.exit_reason is None:
            self.handle.kill()
        reason = await self.handle.wait()
        return self._task.value if self._task.has_value else reason

    def _value_or_raise(self, reason: ExitReason) -> object:
        if self._task.has_value:
            return self._task.value
        raise down(self.handle, reason)
