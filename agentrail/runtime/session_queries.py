"""The handle's request-reply mechanism: send one message and wait for its reply."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

import trio
from msgspec.structs import replace

from agentrail.core.protocol.signals import Asked, StatusQuery
from agentrail.core.session.views import Status
from agentrail.errors import ReplyTimeout, SessionDown
from agentrail.otp.unique import Unique
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_calls import check_arguments
from agentrail.runtime.session_clock import now_ms
from agentrail.wire.operations import Operation

R = TypeVar("R")
T = TypeVar("T")

COLLECT_REPLY: Final = (
    "call collect_reply() to wait for its answer, because the same prompt sent again would be answered twice"
)
CALL_AGAIN: Final = "call this again to wait for longer"


class AskingHandle(Unique):
    """A handle that sends each call of the operations table as one signal."""

    __slots__ = ("_cell",)

    def __init__(self, cell: SessionCell) -> None:
        """Created by the supervisor. Use `start_session` or `supervisor.session(id)`."""
        self._cell = cell

    async def _call(self, operation: Operation[R], **given: Any) -> R:
        check_arguments(operation, given)
        if operation.signal is None:
            return cast("R", await getattr(self, f"_do_{operation.name}")(**given))
        signal = operation.signal(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), **given)
        if operation.owner is None:
            return cast("R", await self._ask(signal))
        return cast("R", await self._ask_owner(given[operation.owner], signal))

    async def _ask_owner(self, interaction_id: str, signal: Asked) -> object:
        owner = self._cell.owner_of(interaction_id)
        if owner is self._cell:
            return await self._ask(signal)
        asked = replace(signal, signal_id=owner.pending_calls.mint())
        return await AskingHandle(owner)._ask(asked)  # noqa: SLF001 - of the same class

    async def _ask(self, signal: Asked) -> object:
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._cell.pending_calls.ask(signal, self._cell.send)

    async def _look(self) -> Status:
        # After earlier messages have been read, and with a hibernated session awake.
        query = StatusQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        return cast("Status", await self._ask(query))

    async def _ask_within(
        self, signal: Asked, timeout_seconds: float | None, cure: str = COLLECT_REPLY
    ) -> object:
        ask = partial(self._cell.pending_calls.ask, signal, self._cell.send)
        return await wait_within(timeout_seconds, ask, cure)


async def change_below(above: SessionCell, change: Callable[[SessionCell], Awaitable[bool]]) -> bool:
    """Change all sessions below one that has changed, also those that are starting. Return whether one of them changed."""
    for started in above.starting:
        await started.wait()
    await AskingHandle(above)._look()  # noqa: SLF001 - after that, the session knows those that have started
    is_changed = False
    for _, cell in tuple(above.children()):
        with suppress(SessionDown):
            is_changed |= await change(cell)
            is_changed |= await change_below(cell, change)
    return is_changed


async def wait_within(
    timeout_seconds: float | None,
    work: Callable[[], Awaitable[T]],
    cure: str = COLLECT_REPLY,
    what: str = "answer",
) -> T:
    await trio.lowlevel.checkpoint_if_cancelled()
    if timeout_seconds is None:
        return await work()
    with trio.CancelScope() as scope:
        # Set after the start: even with a limit of 0, the signal is sent.
        scope.deadline = trio.current_time() + timeout_seconds
        return await work()
    message = f"no {what} within {timeout_seconds:g} s; the session continues: {cure}"
    raise ReplyTimeout(message)


def cure_of(client_id: str | None) -> str:
    if client_id is None:
        return COLLECT_REPLY
    return f"call this again with client_id={client_id!r} to wait for the same answer"
