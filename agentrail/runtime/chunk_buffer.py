"""The buffer between a provider's stream and its session: one message for all waiting chunks."""

from typing import Final

import trio
from attrs import define, field

from agentrail.core.protocol.request import Chunk, EffectId, UsageUpdate
from agentrail.core.protocol.signals import ChunksArrived
from agentrail.messages import TokenUsage
from agentrail.runtime.session_clock import now_ms

SIGN_OF_LIFE_SECONDS: Final = 1.0
"""Interval, in seconds, for notifying a session of chunks without content. `SignsOfLife` reports those in between."""

_FIRST_RUN: Final = 4
_LONG_RUN: Final = 1_000
_PAUSE_SECONDS: Final = 0.02
_TURNS_TO_A_READER: Final = 3
"""The session runs in the first turn. Its subscribers run in the second, or in the third if this stream comes first in both."""


@define(eq=False, repr=False, weakref_slot=False)
class ChunkBuffer:
    """The waiting chunks of a stream. They are one message in the mailbox, however many arrive before it is read."""

    effect_id: EffectId
    _chunks: list[Chunk] = field(init=False, factory=list)
    _lies_there: bool = field(init=False, default=False)
    _run: int = field(init=False, default=_FIRST_RUN)
    _taken_at: float = field(init=False, factory=trio.current_time)
    _usage: UsageUpdate | None = field(init=False, default=None)
    touched_at: float | None = field(init=False, default=None)
    """Time of the last chunk without content, which the session may not have been notified of."""
    usage: TokenUsage = field(init=False, factory=TokenUsage)
    """Usage of the response so far, according to the server."""

    def note(self, update: UsageUpdate) -> bool:
        """Record the usage so far. Return whether the session must be notified, as `touch` does."""
        self._usage, self.usage = update, update.usage
        return self.touch()

    def add(self, chunk: Chunk) -> bool:
        # Not on every empty buffer: that would split each packet of a burst into three.
        if not self._chunks and trio.current_time() - self._taken_at >= _PAUSE_SECONDS:
            self._run = _FIRST_RUN
        self._chunks.append(chunk)
        return self._put()

    def touch(self) -> bool:
        """Record a chunk without content, such as half a call, and return whether the session must be notified."""
        self.touched_at = trio.current_time()
        is_time = self.touched_at - self._taken_at >= SIGN_OF_LIFE_SECONDS
        return is_time and self._put()

    @property
    def is_burst(self) -> bool:
        return len(self._chunks) >= self._run

    def begin_run(self) -> None:
        self._run = _LONG_RUN

    def _put(self) -> bool:
        lay_there, self._lies_there = self._lies_there, True
        return not lay_there

    def take(self) -> ChunksArrived:
        chunks, self._chunks = self._chunks, []
        if self._usage is not None:
            chunks.append(self._usage)
        self._lies_there, self._taken_at, self._usage = False, trio.current_time(), None
        return ChunksArrived(at_ms=now_ms(), effect_id=self.effect_id, chunks=tuple(chunks))


async def let_read(buffer: ChunkBuffer) -> None:
    """Yield to other tasks until subscribers have had a chance to read everything that the session has received."""
    buffer.begin_run()
    for _ in range(_TURNS_TO_A_READER):
        await trio.lowlevel.checkpoint()
