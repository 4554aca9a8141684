"""What one incarnation of a session has at work: a group of tasks in a nursery that outlives it, so that none can keep it from ending.

In a nursery of its own a crashed session would come back when its last tool has ended, and one that shields itself from
cancellation may never end. The group is dismissed instead: cancelled, waited for within a bound, and then left behind.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio
from attrs import frozen

from agentrail.actors.mailbox import Mailbox
from agentrail.otp.exits import keep
from agentrail.runtime.crashes import log_crash, what_travels
from agentrail.runtime.scrubbing import Scrub


class Control:
    """A control message to a session, of which the type of its mailbox says nothing."""

    __slots__ = ()


@frozen
class TaskCrashed(Control):
    """A control message to the session: one of its tasks failed in a way that is no outcome, and the session with it.

    Attributes:
        error: What it raised; raised again in the actor's own task, and kept nowhere.
    """

    error: BaseException


# One for all groups that have none, and never written to: an empty table of its own, or one that was emptied, would weigh in ten
# thousand idle sessions.
_NO_TASKS: Final[dict[trio.CancelScope, str]] = {}


class TaskGroup:
    """The tasks of one incarnation.

    Attributes:
        scrub: Takes the secrets of the session out of what goes to the log.
    """

    __slots__ = ("_gone", "_mailbox", "_nursery", "_working", "scrub")

    def __init__(self, nursery: trio.Nursery, mailbox: Mailbox[Any], scrub: Scrub = keep) -> None:
        """Begin without tasks.

        Args:
            nursery: Of all sessions of a supervisor.
            mailbox: Of the actor that they work for.
            scrub: Takes the secrets of the session out of what goes to the log.
        """
        self.scrub: Scrub = scrub
        self._nursery = nursery
        self._mailbox = mailbox
        self._working = _NO_TASKS
        self._gone: trio.Event | None = None

    def deliver(self, item: object) -> None:
        """Tell the actor what came of its work; what a dismissed group says is not heard by the next incarnation."""
        if self._gone is None:
            self._mailbox.put_notice(item)

    def deliver_first(self, item: object) -> None:
        """Tell the actor before all that waits in its mailbox: what it decided last came to nothing."""
        if self._gone is None:
            self._mailbox.put_control(item)

    def start_soon(
        self, function: Callable[..., Awaitable[object]], *args: Any, scope: trio.CancelScope, name: str
    ) -> None:
        """Start a task, as a nursery does; in a dismissed group nothing is started.

        Args:
            function: The task.
            *args: For it.
            scope: What the function does its work in, and enters itself: one more around it would cost each call of a
                tool a third of its task.
            name: What it is called, should it be left behind.
        """
        if self._gone is None:
            if not self._working:
                self._working = {}
            self._working[scope] = name
            self._nursery.start_soon(self._work, scope, function, args, name=name)

    async def dismiss(self) -> None:
        """Cancel all tasks, and wait until they are gone.

        Cancellation: Cancelled here, it leaves behind what is named in `working`.
        """
        self._gone = trio.Event()
        for scope in tuple(self._working):
            scope.cancel(reason="the session has ended, or crashed")
        if self._working:
            await self._gone.wait()

    @property
    def is_dismissed(self) -> bool:
        """Whether nothing is started any more."""
        return self._gone is not None

    @property
    def working(self) -> tuple[str, ...]:
        """The names of the tasks that have not ended."""
        return tuple(self._working.values())

    async def _work(
        self, scope: trio.CancelScope, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        try:
            # Dismissed before its first step, it would still get as far as its first checkpoint.
            if self._gone is None:
                await function(*args)
        except BaseException as error:  # noqa: ASYNC103, BLE001 - the edge of a session's work: it is the actor that crashes
            leaving = what_travels(error)
            if isinstance(leaving, trio.Cancelled):  # not ours: the supervisor is being closed
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
            if self._gone is None:
                self._mailbox.put_control(TaskCrashed(error if leaving is None else leaving))
            elif leaving is None:
                log_crash(
                    f"{self._working[scope]!r} was left behind of a session and crashed", error, self.scrub
                )
            else:
                raise leaving from None  # noqa: ASYNC104 - what travels was asked
        finally:
            del self._working[scope]
            if not self._working:
                self._working = _NO_TASKS
                if self._gone is not None:
                    self._gone.set()
