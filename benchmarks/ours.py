"""The same work as `bare.py`, through agentrail's public door: a stub model that streams, and the tool `add`."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

import agentrail
from agentrail.abc import Capabilities
from agentrail.core.protocol.request import (
    ArgumentsDelta,
    Chunk,
    Completed,
    ModelRequest,
    TextDelta,
    ToolCallStarted,
)
from agentrail.core.values.toolbox import read_call
from agentrail.events import Event
from agentrail.messages import AssistantMessage, Text, TokenUsage, ToolMessage
from benchmarks.bare import ANSWER, arguments_of
from benchmarks.measure import Watch

_USAGE: Final = TokenUsage(input=10, output=5)


class StubModel:
    """Calls one tool some times, and answers when it has the results. Its chunks are those of a real provider."""

    name = "stub"

    def __init__(
        self, *, tool: str = "add", calls: int = 1, delay_seconds: float = 0.0, arguments: str | None = None
    ) -> None:
        self._tool = tool
        self._calls = calls
        self._delay_seconds = delay_seconds
        self._arguments = arguments
        self._ids = itertools.count(1)

    def capabilities(self, model: str) -> Capabilities:
        """Say nothing about any model."""
        return Capabilities()

    def encode(self, request: ModelRequest) -> bytes:
        """There is no wire."""
        return b""

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer, after the delay."""
        if self._delay_seconds:
            await trio.sleep(self._delay_seconds)
        else:
            await trio.lowlevel.checkpoint()
        is_answered = isinstance(request.messages[-1], ToolMessage)
        yield _Chunks(self._say(request.model) if is_answered else self._call(request.model))

    def _say(self, model: str) -> list[Chunk]:
        message = AssistantMessage(content=(Text(text=ANSWER),), model=model, stop_reason="end")
        return [TextDelta(ANSWER), Completed("end", message, _USAGE)]

    def _call(self, model: str) -> list[Chunk]:
        chunks: list[Chunk] = []
        made = []
        for index in range(self._calls):
            call_id = f"call_{next(self._ids)}"
            arguments = self._arguments or arguments_of(index)
            chunks += (ToolCallStarted(index, call_id, self._tool), ArgumentsDelta(index, arguments))
            made.append(read_call(call_id, self._tool, arguments))
        message = AssistantMessage(content=tuple(made), model=model, stop_reason="tool_use")
        return [*chunks, Completed("tool_use", message, _USAGE)]


class _Chunks:
    """An iterator, not an async generator: one that nobody reads to its end costs Trio a task to finalize."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._left = iter(chunks)

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> Chunk:
        for chunk in self._left:
            return chunk
        raise StopAsyncIteration


@agentrail.tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    await trio.lowlevel.checkpoint()
    return a + b


async def start_watch(nursery: trio.Nursery, session: agentrail.Session, *kinds: type[Event]) -> Watch:
    """Start the subscriber of a session, which reads every event and looks out for some kinds."""
    watch = Watch()

    async def read(*, task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe() as events:
            task_status.started()
            async for event in events:
                if isinstance(event, kinds):
                    watch.tell()

    await nursery.start(read)
    return watch


def expect(what: str, came: object, wanted: object) -> None:
    """Refuse to report on work that was not done.

    Raises:
        RuntimeError: Ours: what was measured is not what the table says.
    """
    if came != wanted:
        message = f"the benchmark did not do its work: {what} is {came!r}, expected {wanted!r}"
        raise RuntimeError(message)
