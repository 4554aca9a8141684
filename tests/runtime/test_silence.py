"""A stream that falls silent, seen by a subscriber: reported, ended, and not mistaken for one that writes a long call (7.9)."""

from collections.abc import Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Chunk, Completed, TextDelta
from agentrail.errors import CycleFailed
from agentrail.messages import AssistantMessage, Text, TokenUsage
from agentrail.testing.models import FunctionModel, says
from tests.runtime.rig import on_virtual_time, open_bare

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


class Pinged:
    """A stream whose server pings every second."""

    def __init__(self, chunks):
        self.chunks = chunks

    def __aiter__(self):
        return self.chunks

    @property
    def pinged_at(self):
        """When it last did."""
        return float(int(trio.current_time()))


class Pinging(Slow):
    """A provider that takes its time, and whose server says that it is alive."""

    @asynccontextmanager
    async def open_stream(self, request):
        """Open it, with a pulse."""
        async with super().open_stream(request) as chunks:
            yield Pinged(chunks)


@on_virtual_time
async def test_pings_do_not_hold_off_the_end_for_ever():
    """Ten minutes after the last chunk a silence counts, pings or not."""
    async with open_bare() as supervisor:
        model = Pinging((1.0, TextDelta("Hi.")), (10_000.0, DONE))
        session = await supervisor.start_session(model=model, max_retries=0)
        with pytest.raises(CycleFailed) as caught:
            await session.ask("Hi")
        assert caught.value.error.code == "stream_stalled"
        assert trio.current_time() == pytest.approx(1 + 600 + 20, abs=1)
