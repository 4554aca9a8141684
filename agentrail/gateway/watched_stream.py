"""A stream that is written piece by piece by one task, and watched beside all others: given comments where it is silent, and cut where it is stuck.

What a piece is, how its task waits for more, and how the stream ends is said by the readers. Trio, and no HTTP.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Self

import trio

from agentrail.gateway.frames import DoneReason
from agentrail.otp.edges import call_guarded

TURN_EVERY: Final = 64
"""After how many pieces that waited already other tasks get a turn."""


class WatchedStream(ABC):
    """An async iterator over what is to be written; its task writes each piece before it asks for the next.

    Attributes:
        reason: How it ended; None while it goes on.
        last_at: When it gave something last, on Trio's clock.
        overdue_since: Since when it should have ended; None where that is not so.
        scope: Around the block of its task.
        on_cut: Breaks the connection, where it has to be; a write may be deaf to cancellation.
    """

    __slots__ = ("_beats", "_since_yield", "last_at", "on_cut", "overdue_since", "reason", "scope")

    def __init__(self) -> None:
        """Have given nothing yet."""
        self._beats = False
        self._since_yield = 0
        self.reason: DoneReason | None = None
        self.last_at: float = trio.current_time()
        self.overdue_since: float | None = None
        self.scope: trio.CancelScope = trio.CancelScope()
        self.on_cut: Callable[[], object] | None = None

    def __aiter__(self) -> Self:
        """Iterate over oneself: there is one position."""
        return self

    async def __anext__(self) -> bytes:
        """Give what waits, joined into one write; wait where nothing does.

        Cancellation: Always a checkpoint for it, and nothing is lost by it.
        """
        if self.reason is not None:
            raise StopAsyncIteration
        self._since_yield += 1
        if self._since_yield >= TURN_EVERY:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self.overdue_since = None
        while not (piece := self._next_piece()):
            self._since_yield = 0
            await self._wait()
        self.last_at = trio.current_time()
        return piece

    # --- for who watches all streams

    @property
    @abstractmethod
    def is_waiting(self) -> bool:
        """Whether it has given all that there was, and its task waits for more."""

    @property
    @abstractmethod
    def is_due_to_end(self) -> bool:
        """Whether it cannot go on, so that a write which takes long is cut."""

    @abstractmethod
    def finish(self, reason: DoneReason) -> None:
        """End it with a last word, if it has not ended."""

    def beat(self) -> None:
        """Write a comment if nothing else is to be written."""
        self._beats = True
        self.wake()

    def cut(self) -> None:
        """End it without a word: its task is stuck in a write."""
        self.scope.cancel()
        if self.on_cut is not None:
            # The watcher of all streams calls this: what fails here is no matter of the others.
            call_guarded(lambda _: None, self.on_cut)

    # --- for the readers

    def _end(self, reason: DoneReason) -> None:
        """Give nothing more, from the next piece on."""
        self.reason = reason

    @abstractmethod
    def wake(self) -> None:
        """Let its task look again; fine if it does not wait."""

    @abstractmethod
    def _next_piece(self) -> bytes:
        """Give what is to be written now, a comment where `_beats` asks for one; nothing where it has to wait."""

    @abstractmethod
    async def _wait(self) -> None:
        """Wait until there may be more."""
