"""A stream that falls silent, seen by a subscriber: reported, ended, and not mistaken for one that writes a long call (7.9)."""

from collections.abc import Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.core.model_policy import ModelPolicy
from agentrail.core.request import ArgumentsDelta, Chunk, Completed, TextDelta
from agentrail.errors import CycleFailed
from agentrail.events import AgentEnd, AgentError, StreamStalled
from agentrail.messages import AssistantMessage, Text, TokenUsage
from agentrail.testing.models import FunctionModel, says
from tests.runtime.rig import on_virtual_time, open_bare, until

DONE = Completed("end", AssistantMessage(content=(Text(text="Hi."),), model="scripted:object"), TokenUsage())


class Slow(FunctionModel):
    """A provider that takes its time before each chunk."""

    model_policy = ModelPolicy(timeout_seconds=30.0, stall_seconds=20.0)

    def __init__(self, *chunks: tuple[float, Chunk]) -> None:
        super().__init__(lambda _request: says())
        self.chunks: Sequence[tuple[float, Chunk]] = chunks

    @asynccontextmanager
    async def open_stream(self, request):
        """Open it, and say one thing after the other."""
        await trio.lowlevel.checkpoint()

        async def chunks():
            for seconds, chunk in self.chunks:
                await trio.sleep(seconds)
                yield chunk

        stream = chunks()
        try:
            yield stream
        finally:
            await stream.aclose()


@on_virtual_time
@pytest.mark.parametrize(
    ("chunks", "code", "reported"),
    [
        ([(40.0, DONE)], "timeout", [10.0, 15.0, 20.0, 25.0]),
        ([(1.0, TextDelta("Hi.")), (25.0, DONE)], "stream_stalled", [10.0, 15.0]),
    ],
    ids=["before the first chunk", "behind it"],
)
async def test_a_silent_stream_is_reported_and_ended(chunks, code, reported):
    """Subscribers hear of the silence while it lasts, callers of the typed error when it has lasted too long."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=Slow(*chunks), max_retries=0)
        async with session.subscribe() as events:
            with pytest.raises(CycleFailed) as caught:
                await session.ask("Hi")
            seen = await until(events, AgentError)
    assert caught.value.error.code == code
    stalls = [event.elapsed_seconds for event in seen if isinstance(event, StreamStalled)]
    assert stalls == pytest.approx(reported, abs=0.01)


@on_virtual_time
async def test_a_call_that_is_long_in_coming_is_no_silence():
    """Chunks that mean nothing by themselves keep a stream alive, for longer than a silence may last, and unreported."""
    arguments = [(5.0, ArgumentsDelta(0, "x")) for _ in range(12)]
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=Slow((1.0, TextDelta("Hi.")), *arguments, (5.0, DONE)))
        async with session.subscribe() as events:
            assert await session.ask("Hi") == "Hi."
            seen = await until(events, AgentEnd)
    assert not [event for event in seen if isinstance(event, StreamStalled)]
