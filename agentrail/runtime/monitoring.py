"""Watching a session from outside: one `SessionGone`, when it has ended for good."""

from attrs import frozen

from agentrail.actors.trio_only import need_trio
from agentrail.messages import SessionId
from agentrail.runtime.session import SessionCell


@frozen(kw_only=True)
class SessionGone:
    """A session has ended, and nothing of it acts any more.

    Attributes:
        session_id: Which one.
        scope: Of which scope; empty for one without.
        reason: How it ended, one line, as in `SessionDown`.
        incarnation: The last one; one more than it was restarted.
    """

    session_id: SessionId
    reason: str
    incarnation: int
    scope: str = ""


class SessionMonitor:
    """Watches one session. There is exactly one `SessionGone` to be told, however often it is asked for."""

    __slots__ = ("_cell",)

    def __init__(self, cell: SessionCell) -> None:
        """Made by `Session.monitor` and `SessionSupervisor.monitor`."""
        self._cell = cell

    async def wait(self) -> SessionGone:
        """Wait for the end; of a session that is gone tell at once.

        Raises:
            NoTrioRun: Your move: no Trio runs here.

        Cancellation: Always a checkpoint; the end is not lost by it, wait again.
        """
        need_trio()
        reason = await self._cell.wait_down()
        return SessionGone(
            session_id=self._cell.ports.session_id,
            reason=reason,
            incarnation=self._cell.incarnation,
            scope=self._cell.ports.scope,
        )
