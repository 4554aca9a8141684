"""Where the answer to one call goes: a slot that takes one answer and can never reach another call."""

from enum import Enum
from typing import Final, Protocol

import outcome
import trio

from agentrail.errors import ActorDown
from agentrail.otp.exits import ExitReason, NoProcess, describe


class Callee(Protocol):
    """Who was asked: it has to know which calls it still owes an answer."""

    def owe(self, to: "ReplyTo", /) -> None:
        """Note a call, so that it is answered at the end at the latest."""

    def settle(self, to: "ReplyTo", /) -> None:
        """Forget a call that has its answer, or no caller who waits for one."""

    def answered_twice(self, to: "ReplyTo", /) -> None:
        """Hear of a second answer, which was dropped."""


class _Stage(Enum):
    OPEN = "no answer was given"
    ANSWERED = "it has its answer"
    ABANDONED = "the caller has gone"


class ReplyTo:
    """One call's way back. Keep it, pass it on, answer later and from any task: `to.reply(value)`.

    The first answer counts. A later one is dropped and reported; one for a caller who has gone is dropped.
    """

    __slots__ = ("_callee", "_outcome", "_stage", "_task", "handle")

    def __init__(self, callee: Callee | None, handle: object) -> None:
        """Make an open one; `handle` is for errors."""
        self.handle: object = handle
        self._callee = callee
        self._stage = _Stage.OPEN
        self._outcome: outcome.Outcome[object] | None = None
        self._task: trio.lowlevel.Task | None = None
        if callee is not None:
            callee.owe(self)

    @property
    def is_open(self) -> bool:
        """Whether the caller still waits for an answer."""
        return self._stage is _Stage.OPEN

    def reply(self, value: object) -> None:
        """Answer the call."""
        if self._stage is _Stage.ANSWERED and self._callee is not None:
            self._callee.answered_twice(self)
        else:
            self._close(outcome.Value(value))

    def fail(self, error: BaseException) -> None:
        """Raise this at the caller, unless it has its answer already."""
        self._close(outcome.Error(error))

    def fail_down(self, reason: ExitReason) -> None:
        """Tell the caller that the actor it asked has ended with this reason."""
        self.fail(down(self.handle, reason))

    def move(self, callee: Callee | None, handle: object) -> None:
        """Let another actor owe the answer."""
        if self._callee is not None:
            self._callee.settle(self)
        self._callee, self.handle = callee, handle
        if callee is not None and self.is_open:
            callee.owe(self)

    async def wait(self) -> object:
        """Wait for the answer; only the caller does that, and once.

        Raises:
            Exception: What `fail` was given.

        Cancellation: Always a checkpoint; cancelled here the call is abandoned, and its answer will be dropped.
        """
        if self._outcome is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        else:
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self.abandon()
                raise
        answer, self._outcome = self._outcome, None
        return answer.unwrap() if answer is not None else None

    def abandon(self) -> None:
        """No caller waits any more: drop the answer, should there be one."""
        self._stage = _Stage.ABANDONED
        self._outcome = None
        if self._callee is not None:
            self._callee.settle(self)

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        self.abandon()
        return trio.lowlevel.Abort.SUCCEEDED

    def _close(self, answer: "outcome.Outcome[object]") -> None:
        if self._stage is not _Stage.OPEN:
            return
        self._stage = _Stage.ANSWERED
        self._outcome = answer
        if self._callee is not None:
            self._callee.settle(self)
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)


NO_PROCESS: Final = NoProcess()


def down(handle: object, reason: ExitReason = NO_PROCESS) -> ActorDown:
    """Make the error for a caller whose callee has ended."""
    message = f"{handle!r} gives no answer ({describe(reason)}): ask the instance that lives now"
    return ActorDown(message, handle=handle, reason=reason)
