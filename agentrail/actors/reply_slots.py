"""The reply slot of one call: takes one answer and can never reach another call."""

from enum import Enum
from typing import Final, Protocol

import outcome
import trio

from agentrail.errors import ActorDown
from agentrail.otp.exits import ExitReason, NoProcess, describe


class Callee(Protocol):
    """The called actor. It keeps the calls that it still owes an answer."""

    def owe(self, to: "ReplyTo", /) -> None:
        """Register a call, so that it is answered at the end of the actor at the latest."""

    def settle(self, to: "ReplyTo", /) -> None:
        """Remove a call that has its answer or has lost its caller."""

    def answered_twice(self, to: "ReplyTo", /) -> None: ...


class _Stage(Enum):
    OPEN = "no answer was given"
    ANSWERED = "it was already answered"
    ABANDONED = "the caller no longer waits"


class ReplyTo:
    """The reply slot of one call. Keep it, pass it on, and answer later from any task: `to.reply(value)`.

    The first answer counts. A later answer is dropped and reported. An answer to a caller that has given up is dropped.
    """

    __slots__ = ("_callee", "_outcome", "_stage", "_task", "handle")

    def __init__(self, callee: Callee | None, handle: object) -> None:
        """Create an open slot. `handle` is for errors."""
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
        """Raise this error at the caller, unless the call is already answered."""
        self._close(outcome.Error(error))

    def fail_down(self, reason: ExitReason) -> None:
        """Fail the call with `ActorDown`: the called actor has ended with this reason."""
        self.fail(down(self.handle, reason))

    def move(self, callee: Callee | None, handle: object) -> None:
        """Transfer the call to another actor, which then owes the answer."""
        if self._callee is not None:
            self._callee.settle(self)
        self._callee, self.handle = callee, handle
        if callee is not None and self.is_open:
            callee.owe(self)

    async def wait(self) -> object:
        """Wait for the answer. Only the caller does that, and once.

        Raises:
            Exception: The error given to `fail`.

        Cancellation: Always a checkpoint. If cancelled, the call is abandoned and its answer will be dropped.
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
        try:
            return None if self._outcome is None else self._outcome.unwrap()
        finally:
            self._outcome = None  # the traceback of its error refers to this slot: a cycle

    def abandon(self) -> None:
        """Abandon the call: no caller waits any more, and a later answer is dropped."""
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
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)  # first: it raises in a thread that is not Trio's
            self._task = None
        self._stage = _Stage.ANSWERED
        self._outcome = answer
        if self._callee is not None:
            self._callee.settle(self)


NO_PROCESS: Final = NoProcess()


def down(handle: object, reason: ExitReason = NO_PROCESS) -> ActorDown:
    message = f"{handle!r} did not answer ({describe(reason)}): call its current instance"
    return ActorDown(message, handle=handle, reason=reason)
