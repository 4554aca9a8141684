"""Monitors of sessions: one `SessionGone`, when the session has ended for good."""

from attrs import frozen

from agentrail.actors.trio_check import need_trio
from agentrail.messages import SessionId
from agentrail.runtime.session_actor import SessionCell


@frozen(kw_only=True)
class SessionGone:
    """A session has ended, and none of its work is running.

    Attributes:
        scope: Its scope. Empty for none.
        reason: Reason for the end, on one line, as in `SessionDown`.
        incarnation: The last one: the number of restarts plus one.
    """

    session_id: SessionId
    reason: str
    incarnation: int
    scope: str = ""


class SessionMonitor:
    """Monitors one session. There is exactly one `SessionGone`, however often it is requested."""

    __slots__ = ("_cell",)

    def __init__(self, cell: SessionCell) -> None:
        """Created by `Session.monitor` and `SessionSupervisor.monitor`."""
        self._cell = cell

    async def wait(self) -> SessionGone:
        """Wait for the end. Returns at once for an ended session.

        Raises:
            NoTrioRun: Your move: Trio is not running.
            CallingSelf: Your move: a tool of this session made the call, and its end waits for that tool.

        Cancellation: Always a checkpoint. The end is not lost. Wait again.
        """
        need_trio(self._cell.pending_calls.run)
        if self._cell.ending is None:
            self._cell.pending_calls.refuse_self("monitor")
        reason = await self._cell.wait_down()
        return SessionGone(
            session_id=self._cell.ports.session_id,
            reason=reason,
            incarnation=self._cell.incarnation,
            scope=self._cell.ports.scope,
        )
