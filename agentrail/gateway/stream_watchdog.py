"""A stream written by one task and watched with all others: silent ones get heartbeats, blocked ones are cut."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, Self, TypeVar

import trio
from attrs import define, field

from agentrail.gateway.sse_frames import DoneReason
from agentrail.otp.guarded_calls import call_guarded

TURN_EVERY: Final = 64
"""Number of ready pieces, or of open calls in one pass, after which other tasks run, so that a listener can accept a connection in between."""

T = TypeVar("T")


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate over a copy of the items, and let other tasks run after every `TURN_EVERY` of them."""
    for place, one in enumerate(tuple(items), 1):
        yield one
        if place % TURN_EVERY == 0:
            await trio.lowlevel.checkpoint()


@define(eq=False, repr=False, weakref_slot=False)
class WatchedStream(ABC):
    """A stream as the watcher of all streams has it.

    Attributes:
        reason: How it ended, or None while it continues.
        last_at: Time of the last piece, on Trio's clock.
        overdue_since: Time since which it should have ended, or None.
    """

    _beats: bool = field(init=False, default=False)
    reason: DoneReason | None = field(init=False, default=None)
    last_at: float = field(init=False, factory=trio.current_time)
    overdue_since: float | None = field(init=False, default=None)
    scope: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    on_cut: Callable[[], object] | None = field(init=False, default=None)

    @property
    @abstractmethod
    def is_waiting(self) -> bool:
        """Whether all pieces were written, and its task waits."""

    @property
    @abstractmethod
    def is_due_to_end(self) -> bool:
        """Whether it cannot continue, so that a slow write is cut."""

    @abstractmethod
    def finish(self, reason: DoneReason) -> None:
        """End it with a final frame, unless it has ended."""

    def beat(self) -> None:
        self._beats = True
        self.wake()

    def cut(self) -> None:
        """End it without a final frame, because its task is blocked in a write."""
        self.scope.cancel()
        if self.on_cut is not None:
            # The watcher of all streams calls this, so a failure must not affect the others.
            call_guarded(lambda _: None, self.on_cut)

    def _end(self, reason: DoneReason) -> None:
        self.reason = reason

    @abstractmethod
    def wake(self) -> None:
        """Wake its task if it waits."""


@define(eq=False, repr=False, weakref_slot=False)
class FrameStream(WatchedStream):
    """Async iterator over the pieces to write. Its task writes each piece before it requests the next."""

    _since_yield: int = field(init=False, default=0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the ready pieces, joined, or wait. Cancellation loses nothing."""
        if self.reason is not None:
            raise StopAsyncIteration
        self._since_yield += 1
        if self._since_yield >= TURN_EVERY:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self.overdue_since: float | None = None
        while not (piece := self._next_piece()):
            self._since_yield = 0
            await self._wait()
        self.last_at: float = trio.current_time()
        return piece

    @abstractmethod
    def fail(self) -> bytes:
        """End it because it cannot be read any further, and return its last frames."""

    @abstractmethod
    def _next_piece(self) -> bytes:
        """Return the bytes to write now, a comment if `_beats` is set, or empty bytes to wait."""

    @abstractmethod
    async def _wait(self) -> None:
        """Wait until there may be more."""


@define(eq=False, repr=False, weakref_slot=False)
class ForeignStream(WatchedStream):
    """A stream that a library writes. It ends with the server, or with the token of its caller."""

    _end_it: Callable[[], object]

    @property
    def is_waiting(self) -> bool:
        return True

    @property
    def is_due_to_end(self) -> bool:
        return self.reason is not None

    def finish(self, reason: DoneReason) -> None:
        self._end(reason)
        self._end_it()

    def wake(self) -> None:
        self._beats = False
        self.last_at: float = trio.current_time()
