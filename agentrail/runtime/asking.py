"""How a handle asks its session: one message goes in, and its reply is waited for."""

import msgspec
import trio

from agentrail.core.protocol.signals import Asked
from agentrail.errors import ReplyTimeout
from agentrail.runtime.session import SessionCell


class AskingHandle:
    """A handle that knows whom to ask, and nothing of what there is to ask."""

    __slots__ = ("_cell",)

    def __init__(self, cell: SessionCell) -> None:
        """Made by the supervisor; use `start_session` or `supervisor.session(id)`."""
        self._cell = cell

    async def _ask_owner(self, interaction_id: str, signal: Asked) -> object:
        """Ask the session that an interaction belongs to: this one, or one that works for a call of it."""
        owner = self._cell.owner_of(interaction_id)
        if owner is self._cell:
            return await self._ask(signal)
        asked = msgspec.structs.replace(signal, signal_id=owner.pending_calls.mint())
        return await AskingHandle(owner)._ask(asked)  # noqa: SLF001 - of the same class

    async def _ask(self, signal: Asked) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._cell.pending_calls.ask(signal, self._send)

    async def _ask_within(self, signal: Asked, timeout_seconds: float | None) -> object:
        # Before the clock runs: a call without time to wait is still made.
        await trio.lowlevel.checkpoint_if_cancelled()
        if timeout_seconds is None:
            return await self._cell.pending_calls.ask(signal, self._send)
        with trio.move_on_after(timeout_seconds):
            return await self._cell.pending_calls.ask(signal, self._send)
        message = f"no answer within {timeout_seconds:g} s; the session goes on, ask again"
        raise ReplyTimeout(message)

    def _send(self, signal: Asked) -> None:
        if self._cell.journal is not None:
            self._cell.journal.check_admission(signal)
        self._cell.mailbox.put_nowait(signal)  # type: ignore[arg-type]  # Asked is the base of these members of Signal
        self._cell.stir()
