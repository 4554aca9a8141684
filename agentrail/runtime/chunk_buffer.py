"""The chunks of a stream on their way to its session: one message for all that wait together."""

from typing import Final

import trio

from agentrail.core.protocol.request import Chunk, EffectId, UsageUpdate
from agentrail.core.protocol.signals import ChunksArrived
from agentrail.messages import TokenUsage
from agentrail.runtime.clock import now_ms

SIGN_OF_LIFE_SECONDS: Final = 1.0
"""How often a session hears of chunks that say nothing by themselves; what comes between is told by `SignsOfLife`."""

_FIRST_RUN: Final = 4
_LONG_RUN: Final = 1_000
_PAUSE_SECONDS: Final = 0.02
_TURNS_TO_A_READER: Final = 3
"""The session has its turn in the first; its subscribers in the second, and in the third those that were behind this stream in both."""


class ChunkBuffer:
    """The chunks that wait together: one message in the mailbox, however many came before it is read.

    A server, or a proxy, may send a thousand at once, and they are read without waiting once. So that the first ones
    arrive before the last one was read, others have their turn after four, and from there to the next pause after each
    thousand: what is published together is what comes together, and a burst costs one turn more.
    """

    __slots__ = (
        "_chunks",
        "_lies_there",
        "_run",
        "_taken_at",
        "_usage",
        "effect_id",
        "touched_at",
        "usage",
    )

    def __init__(self, effect_id: EffectId) -> None:
        """Begin empty."""
        self.effect_id: EffectId = effect_id
        self._chunks: list[Chunk] = []
        self._lies_there = False
        self._run = _FIRST_RUN
        self._taken_at = trio.current_time()
        self._usage: UsageUpdate | None = None
        self.touched_at: float | None = None
        """When something last came that means nothing yet, of which a session need not have heard."""
        self.usage: TokenUsage = TokenUsage()
        """What the response has used so far, as far as its server has said."""

    def note(self, update: UsageUpdate) -> bool:
        """Note what was used so far; say as `touch` does whether the session must hear.

        It goes along with whatever comes next: some servers say it with every word, and only the last one counts.
        """
        self._usage, self.usage = update, update.usage
        return self.touch()

    def add(self, chunk: Chunk) -> bool:
        """Add a chunk, and say whether it is the first since the last `take`."""
        # Not whenever all was taken: of a burst that comes in packets each would be cut into three.
        if not self._chunks and trio.current_time() - self._taken_at >= _PAUSE_SECONDS:
            self._run = _FIRST_RUN
        self._chunks.append(chunk)
        return self._put()

    def touch(self) -> bool:
        """Note that something came which means nothing yet, such as half of a call; say whether the session must hear.

        It need not hear of each: only that the stream is alive.
        """
        self.touched_at = trio.current_time()
        is_time = self.touched_at - self._taken_at >= SIGN_OF_LIFE_SECONDS
        return is_time and self._put()

    @property
    def is_burst(self) -> bool:
        """Whether so many wait that the session should hear of them before more are read."""
        return len(self._chunks) >= self._run

    def begin_run(self) -> None:
        """Let more wait the next time."""
        self._run = _LONG_RUN

    def _put(self) -> bool:
        lay_there, self._lies_there = self._lies_there, True
        return not lay_there

    def take(self) -> ChunksArrived:
        """Make one signal of all that waits."""
        chunks, self._chunks = self._chunks, []
        if self._usage is not None:
            chunks.append(self._usage)
        self._lies_there, self._taken_at, self._usage = False, trio.current_time(), None
        return ChunksArrived(at_ms=now_ms(), effect_id=self.effect_id, chunks=tuple(chunks))


async def let_read(buffer: ChunkBuffer) -> None:
    """Let others have their turn, until subscribers could read what the session has heard so far."""
    buffer.begin_run()
    for _ in range(_TURNS_TO_A_READER):
        await trio.lowlevel.checkpoint()
