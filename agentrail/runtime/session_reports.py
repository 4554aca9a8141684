"""Reports about the sessions of a supervisor, as they happen: restarts after crashes, and parked sessions."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal, Self

import trio
from attrs import define, field, frozen

from agentrail.actors.trio_check import need_trio
from agentrail.errors import SessionDown, YourMove
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.outside import current_run
from agentrail.runtime.arguments import fault_of_whole, refuse
from agentrail.runtime.fan_in import EVERY
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_keys import fault_of_scope

LOGGER: Final = Logger("agentrail.runtime")

DEFAULT_BUFFER: Final = 256

MAX_PARKED: Final = 100
"""Number of parked sessions that are remembered."""


@frozen(kw_only=True)
class SessionReport:
    """A report about a session.

    Attributes:
        kind: `restarted`: it crashed, and a new incarnation has begun. `parked`: it crashed too often, or was resumed from
            its journal and needs an operator to continue.
        scope: Its scope. Empty for none.
        reason: Its crash, or why it does not continue and the remedy. One line, without its secrets.
        incarnation: The new one, or the last.
        at_ms: Time, in milliseconds since 1970.
    """

    kind: Literal["restarted", "parked"]
    session_id: SessionId
    scope: str
    reason: str
    incarnation: int
    at_ms: int


@define(eq=False, kw_only=True)
class SessionReports:
    """Reports of one reader: an async context manager to iterate over. Iteration ends when the supervisor closes.

    Attributes:
        dropped: Number of reports dropped because the buffer was full, the oldest first.
    """

    _scope: str | None
    _sender: trio.MemorySendChannel[SessionReport]
    _receiver: trio.MemoryReceiveChannel[SessionReport]
    _enter: "Callable[[SessionReports], None]"
    _leave: "Callable[[SessionReports], None]"
    _is_entered: bool = field(init=False, default=False)
    dropped: int = field(init=False, default=0)

    def offer(self, report: SessionReport) -> None:
        """Add a report if it matches. A full buffer drops its oldest one."""
        if self._scope is not None and self._scope != report.scope:
            return
        try:
            self._sender.send_nowait(report)
        except trio.WouldBlock:
            # The newest counts most: it shows the current state.
            self._receiver.receive_nowait()
            self.dropped += 1
            self._sender.send_nowait(report)

    def end(self) -> None:
        self._sender.close()

    async def __aenter__(self) -> Self:
        """Start: all later reports are received. There is not even a checkpoint in between."""
        if self._is_entered:
            message = "these reports were already entered: call supervisor.reports() again"
            raise YourMove(message)
        self._enter(self)
        self._is_entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave(self)
        self._sender.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionReport:
        if not self._is_entered:
            message = "these reports were not entered: read them inside `async with supervisor.reports() as reports:`"
            raise YourMove(message)
        try:
            return await self._receiver.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None


class ReportBoard:
    def __init__(self) -> None:
        self._readers: tuple[SessionReports, ...] = ()
        self.parked: deque[SessionReport] = deque(maxlen=MAX_PARKED)
        """The last parked sessions. They are no longer in the tree, where people look for them."""
        self._down: str | None = None
        self._run: trio.lowlevel.TrioToken | None = current_run()

    def subscribe(self, *, scope: str | None, buffer: int) -> SessionReports:
        refuse(None if scope is None else fault_of_scope("scope", scope), fault_of_whole("buffer", buffer, 1))
        sender, receiver = trio.open_memory_channel[SessionReport](buffer)
        return SessionReports(
            scope=scope, sender=sender, receiver=receiver, enter=self._join, leave=self._forget
        )

    def publish(
        self, kind: Literal["restarted", "parked"], cell: SessionCell, incarnation: int, at_ms: int
    ) -> None:
        if not self._readers and kind == "restarted":
            return
        report = SessionReport(
            kind=kind,
            session_id=cell.ports.session_id,
            scope=cell.ports.scope,
            reason=cell.crash or "",
            incarnation=incarnation,
            at_ms=at_ms,
        )
        self._publish(report)

    def note_parked(self, report: SessionReport) -> None:
        LOGGER.warning("session %s is not continued: %s", report.session_id, report.reason)
        self._publish(report)

    def _publish(self, report: SessionReport) -> None:
        if report.kind == "parked":
            self.parked.append(report)
        for reader in self._readers:
            reader.offer(report)

    def close(self, reason: str) -> None:
        self._down, self._run = reason, None
        for reader in self._readers:
            reader.end()

    def _join(self, reader: SessionReports) -> None:
        need_trio(self._run)
        if self._down is not None:
            raise SessionDown(EVERY, self._down)
        self._readers = (*self._readers, reader)

    def _forget(self, reader: SessionReports) -> None:
        self._readers = tuple(other for other in self._readers if other is not reader)
