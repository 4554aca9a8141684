"""A stream that falls silent, seen by a subscriber: reported, ended, and not mistaken for one that writes a long call (7.9)."""

from collections.abc import Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.core.policy.budget import Price
from agentrail.core.policy.model_policy import ModelPolicy
from agentrail.core.protocol.request import ArgumentsDelta, Chunk, Completed, TextDelta, UsageUpdate
from agentrail.errors import CycleFailed, Overloaded, Transport
from agentrail.events import AgentEnd, AgentError, Retry, StreamStalled
from agentrail.messages import AssistantMessage, Text, TokenUsage
from agentrail.runtime.models import facts_of
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
async def test_pings_hold_off_the_end_and_not_the_reports():
    """A server that pings is alive: its stream may be silent for longer than `stall_seconds`, and is reported."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=Pinging((1.0, TextDelta("Hi.")), (61.0, DONE)))
        async with session.subscribe() as events:
            assert await session.ask("Hi") == "Hi."
            seen = await until(events, AgentEnd)
    stalls = [event.elapsed_seconds for event in seen if isinstance(event, StreamStalled)]
    assert stalls == pytest.approx(list(range(10, 65, 5)), abs=0.1)


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


class Busy(Slow):
    """A provider with its own idea of how often to try."""

    model_policy = ModelPolicy(max_retries=1, context_window=5_000, price=Price(input=1.0, output=2.0))

    @asynccontextmanager
    async def open_stream(self, _request):
        """Fail."""
        await trio.lowlevel.checkpoint()
        message = "busy"
        raise Overloaded(message)
        yield


@on_virtual_time
async def test_a_model_policy_comes_before_what_the_session_and_the_model_say():
    """The count of retries, the window and the price of `provider_opts` are those that the session decides by."""
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=Busy(), max_retries=7)
        async with session.subscribe() as events:
            with pytest.raises(CycleFailed):
                await session.ask("Hi")
            seen = await until(events, AgentError)
    assert sum(isinstance(event, Retry) for event in seen) == 1
    facts = facts_of("scripted:object", Busy())
    assert (facts.max_retries, facts.context_window, facts.window_is_assumed) == (1, 5_000, False)
    assert facts.price == Price(input=1.0, output=2.0)


@on_virtual_time
async def test_what_a_failed_attempt_has_used_counts():
    """Its server has said what it cost by the time it broke off; that is in the sums of the cycle and the session."""
    spent = TokenUsage(input=90, output=7, cost_usd=0.25)

    attempts = []

    def stream_of():
        async def chunks():
            await trio.sleep(1)
            attempts.append(1)
            yield TextDelta("Hi.")
            yield UsageUpdate(spent)
            if len(attempts) == 1:
                message = "cut"
                raise Transport(message)
            yield DONE

        return chunks()

    class Broken(Slow):
        @asynccontextmanager
        async def open_stream(self, request):
            """Break off the first time."""
            await trio.lowlevel.checkpoint()
            stream = stream_of()
            try:
                yield stream
            finally:
                await stream.aclose()

    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=Broken())
        async with session.subscribe() as events:
            assert await session.ask("Hi") == "Hi."
            seen = await until(events, AgentEnd)
        assert seen[-1].usage == spent
        assert (await session.status()).usage == spent


@on_virtual_time
@pytest.mark.parametrize("stall_seconds", [0.01, 0.05, 0.5, 2.0, 9.9])
async def test_a_short_patience_counts_from_the_first_chunk(stall_seconds):
    """Not from the next report, which is ten seconds away; and what says nothing by itself keeps the stream alive."""
    begun_at, ended_at = 3.0, 3.0 + 20 * stall_seconds * 0.8 + stall_seconds
    arguments = [(stall_seconds * 0.8, ArgumentsDelta(0, "x")) for _ in range(20)]
    model = Slow((begun_at, TextDelta("Hi.")), *arguments, (25.0, DONE))
    model.model_policy = ModelPolicy(stall_seconds=stall_seconds)
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=model, max_retries=0)
        asked_at = trio.current_time()
        with pytest.raises(CycleFailed) as caught:
            await session.ask("Hi")
    assert caught.value.error.code == "stream_stalled"
    assert trio.current_time() - asked_at == pytest.approx(ended_at, abs=0.01 + 0.2 * stall_seconds)


@pytest.mark.parametrize(("seconds", "milliseconds"), [(1e-9, 1), (0.0004, 1), (0.5, 500), (1e308, 10**12)])
def test_a_patience_is_at_least_a_millisecond_and_no_more_than_a_state_can_hold(seconds, milliseconds):
    """Below that nothing would be waited for at all, and above it no number of a journal is large enough (14.2)."""
    model = FunctionModel(lambda _: says())
    model.model_policy = ModelPolicy(stall_seconds=seconds, timeout_seconds=seconds)
    stalls = facts_of("scripted:object", model).stalls
    assert (stalls.stall_ms, stalls.timeout_ms) == (milliseconds, milliseconds)


@on_virtual_time
async def test_a_short_patience_that_only_reports_ends_nothing():
    """It is the policy that says so."""
    model = Slow((1.0, TextDelta("Hi.")), (25.0, DONE))
    model.model_policy = ModelPolicy(stall_seconds=0.5, stall_policy="report")
    async with open_bare() as supervisor:
        session = await supervisor.start_session(model=model)
        assert await session.ask("Hi") == "Hi."
