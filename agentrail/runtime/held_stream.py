"""A stream that is read only while a gate is open: while a store takes nothing, its server waits, and no buffer of ours grows."""

from collections.abc import AsyncIterator
from typing import Protocol, Self

import trio

from agentrail.core.protocol.request import Chunk


class Gate(Protocol):
    """What says whether more may be read."""

    @property
    def is_available(self) -> bool:
        """Whether more may be read now."""
        ...

    async def wait_available(self) -> None:
        """Wait until more may be read."""


class HeldStream:
    """The chunks of a provider, as fast as a gate lets them through."""

    __slots__ = ("_chunks", "_gate", "_is_held", "_opened_at")

    def __init__(self, chunks: AsyncIterator[Chunk], gate: Gate) -> None:
        """Read these, while this is open."""
        self._chunks = chunks
        self._gate = gate
        self._is_held = False
        self._opened_at: float = trio.current_time()

    @property
    def pinged_at(self) -> float:
        """When it gave a sign of life that is no chunk, on Trio's clock: while we do not read, its silence is ours."""
        if self._is_held:
            return trio.current_time()
        given: object = getattr(self._chunks, "pinged_at", None)
        return max(given, self._opened_at) if isinstance(given, float) else self._opened_at

    def __aiter__(self) -> Self:
        """Iterate over oneself."""
        return self

    async def __anext__(self) -> Chunk:
        """Give the next chunk, when the gate is open.

        Cancellation: As of the stream; where it is held, a checkpoint.
        """
        if not self._gate.is_available:
            self._is_held = True
            try:
                await self._gate.wait_available()
            finally:
                self._is_held = False
                self._opened_at = trio.current_time()
        return await anext(self._chunks)
