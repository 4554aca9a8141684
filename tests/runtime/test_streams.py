"""One request, whatever its provider does: the cycle ends with one terminal event, and the session goes on."""

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import Completed, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.errors import CycleFailed
from agentrail.events import AgentError, StreamError
from agentrail.messages import AssistantMessage, Text, Thinking, TokenUsage
from agentrail.runtime import session_actor as sessions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import Chunky, kinds, on_virtual_time, open_bare, saying, until


async def test_a_stream_without_its_terminal_chunk(supervisor):
    """It is a protocol error that may be tried again, and never an empty answer."""
    session = await supervisor.start_session(model=Chunky(TextDelta("one word")))
    async with session.subscribe() as events:
        with pytest.raises(CycleFailed, match="without its terminal chunk") as caught:
            await session.ask("Hi")
        seen = await until(events, AgentError)
    assert (caught.value.error.code, caught.value.error.retryable) == ("protocol_error", True)
    assert StreamError.__name__ in kinds(seen)
    assert len(await session.messages()) == 1


async def test_a_response_that_crashes_the_core_ends_its_cycle(supervisor, monkeypatch):
    """It is put aside, and nobody waits for ever for what has come already; the session takes the next prompt."""
    step = sessions.step

    def crashing(state, signal):
        if isinstance(signal, ResponseCompleted) and signal.message.text == "word":
            raise RuntimeError
        return step(state, signal)

    monkeypatch.setattr(sessions, "step", crashing)
    session = await supervisor.start_session(model=saying("word", "well"))
    async with session.subscribe() as events:
        with pytest.raises(CycleFailed, match="ResponseCompleted crashed the session's core") as caught:
            await session.ask("Hello")
        assert kinds(await until(events, AgentError))[-3:] == [
            "SignalQuarantined",
            "StreamError",
            "AgentError",
        ]
    assert caught.value.error.code == "internal_error"
    assert await session.ask("Again") == "well"
    assert (await session.status()).quarantined_signals == 1


WRONG: Any = 5  # where a type checker would see it


def said(*content: Any, **changed: Any) -> Completed:
    """Make the terminal chunk of a provider that is not careful."""
    message = AssistantMessage(model="m", content=content or (Text(text="a"),))
    fields: dict[str, Any] = {"stop_reason": "end", "message": message, "usage": TokenUsage()}
    return Completed(**{**fields, **changed})


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ([said(stop_reason="stop")], r"\$\.stop_reason: Invalid enum value 'stop'"),
        ([said(Text(text=WRONG))], r"\$\.message\.content\[0\]\.text: Expected `str`"),
        ([said(Thinking(text="a", signature=WRONG, provider="p"))], r"content\[0\]\.signature"),
        ([said("a")], r"\$\.message\.content\[0\]: Expected `object`"),
        ([said(usage=None)], r"\$\.usage: Expected `object`"),
        ([TextDelta(WRONG), said()], "TextDelta.text is 5, expected text"),
        ([ReasoningDelta("a", WRONG), said()], "ReasoningDelta.signature is 5, expected text or None"),
        ([UsageUpdate(WRONG), said()], "UsageUpdate.usage is 5, expected a TokenUsage"),
    ],
    ids=["reason", "text", "signature", "block", "usage", "delta", "thought", "count"],
)
@on_virtual_time
async def test_what_a_provider_gives_is_of_its_types_or_is_refused(chunks, words):
    """A step may not mind, and a record of it would never be read again, with all that stands behind it: so it is none."""
    store = MemoryStore()
    async with open_nameless(store=store) as supervisor:
        session = await supervisor.start_session(model=Chunky(*chunks), session_id="s-1")
        with pytest.raises(CycleFailed, match=words) as caught:
            await session.ask("Hello")
        assert caught.value.error.code == "protocol_error"
    async with open_nameless(store=store) as supervisor:
        session = await supervisor.resume_session("s-1", model=saying("well"))
        assert await session.ask("Again") == "well"


async def test_what_is_only_written_otherwise_is_taken_as_it_is_read(supervisor):
    """A mapping for the usage is one, once it has been JSON: what is stepped is what a journal says."""
    session = await supervisor.start_session(model=Chunky(TextDelta("a"), said(usage={"input": 3})))
    assert await session.ask("Hello") == "a"
    assert (await session.status()).usage.input == 3


DONE = Completed("end", AssistantMessage(content=(Text(text="Hi."),), model="scripted:object"), TokenUsage())


class Pinged:
    """A stream whose server pings every second."""

    def __init__(self, chunks):
        self.chunks = chunks

    def __aiter__(self):
        return self

    async def __anext__(self):
        return await anext(self.chunks)

    @property
    def pinged_at(self):
        return float(int(trio.current_time()))


class Pinging(Chunky):
    """A provider that takes its time, and whose server says that it is alive."""

    model_policy = ModelPolicy(timeout_seconds=30.0, stall_seconds=20.0)

    @asynccontextmanager
    async def open_stream(self, request):
        async with super().open_stream(request) as chunks:
            yield Pinged(chunks)


@on_virtual_time
async def test_pings_do_not_hold_off_the_end_for_ever():
    """Ten minutes after the last chunk a silence counts, pings or not."""
    async with open_bare() as supervisor:
        model = Pinging(1.0, TextDelta("Hi."), 10_000.0, DONE)
        session = await supervisor.start_session(model=model, max_retries=0)
        with pytest.raises(CycleFailed) as caught:
            await session.ask("Hi")
        assert caught.value.error.code == "stream_stalled"
        assert trio.current_time() == pytest.approx(1 + 600 + 20, abs=1)
