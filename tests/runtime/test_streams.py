"""One request, whatever its provider does: the cycle ends with one terminal event, and the session goes on."""

import re
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.core.request import TextDelta
from agentrail.errors import CycleFailed
from agentrail.events import AgentError, StreamError
from agentrail.testing.models import FunctionModel, ScriptedModel, Turn, says
from tests.runtime.rig import kinds, until


class Broken(FunctionModel):
    """A provider that opens a stream, says a word, and does something that no provider may do."""

    def __init__(self, error: BaseException | None, *, at_once: bool = False) -> None:
        super().__init__(lambda _request: says())
        self.error = error
        self.at_once = at_once
        self.closed = 0

    @asynccontextmanager
    async def open_stream(self, request):
        """Open it, or not."""
        await trio.lowlevel.checkpoint()
        if self.at_once:
            raise self.error

        async def chunks():
            yield TextDelta("one word")
            await trio.lowlevel.checkpoint()
            if self.error is not None:
                raise self.error

        stream = chunks()
        try:
            yield stream
        finally:
            await stream.aclose()
            self.closed += 1


class Unprintable(Exception):
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        """Raise."""
        message = "no words"
        raise RuntimeError(message)


@pytest.mark.parametrize("at_once", [False, True], ids=["in the middle", "at once"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("choices"), "KeyError: 'choices'"),
        (OSError("gone"), "OSError: gone"),
        (ExceptionGroup("many", [ValueError("a"), TypeError("b")]), "ValueError: a; TypeError: b"),
        (Unprintable(), "Unprintable: <no message: its __str__ raises>"),
    ],
    ids=["key", "os", "group", "unprintable"],
)
async def test_a_foreign_exception_ends_the_request_only(supervisor, error, words, at_once):
    """It is told as a bug in the provider, and the session takes the next prompt."""
    broken = Broken(error, at_once=at_once)
    session = await supervisor.start_session(model=broken)
    for _ in range(2):
        with pytest.raises(CycleFailed) as caught:
            await session.ask("Hi")
        assert caught.value.error.code == "provider_crashed"
        said = caught.value.error.message
        assert re.match(
            rf"the provider of scripted:object crashed \({re.escape(words)} "
            r"\(runtime/test_streams.py:\d+ in (chunks|open_stream)\)\): this is a bug",
            said,
        )
    assert (await session.status()).restarts == 0
    assert broken.closed == (0 if at_once else 2)


async def test_a_stream_without_its_terminal_chunk(supervisor):
    """It is a protocol error that may be tried again, and never an empty answer."""
    session = await supervisor.start_session(model=Broken(None))
    async with session.subscribe() as events:
        with pytest.raises(CycleFailed, match="without its terminal chunk") as caught:
            await session.ask("Hi")
        seen = await until(events, AgentError)
    assert (caught.value.error.code, caught.value.error.retryable) == ("protocol_error", True)
    assert StreamError.__name__ in kinds(seen)
    assert len(await session.messages()) == 1


async def test_a_stream_that_hangs_is_cancelled_by_an_abort(supervisor):
    """Its block is left, so its connection is closed, and the receipt counts it."""
    closed = trio.Event()
    asked = trio.Event()

    async def hang(_request):
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            closed.set()

    session = await supervisor.start_session(model=FunctionModel(hang))
    await session.prompt("Hi")
    await asked.wait()
    receipt = await session.abort()
    assert closed.is_set()
    assert (receipt.tasks_ended, receipt.stuck) == (1, ())


async def test_a_provider_that_crashes_while_it_is_cancelled(supervisor):
    """Nobody is left to tell: the session goes on."""
    asked = trio.Event()

    async def messy(request):
        if len(request.messages) > 1:
            return says("fine")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            asked.set()
            try:
                await trio.sleep_forever()
            finally:
                message = "while leaving"
                raise ValueError(message)

    session = await supervisor.start_session(model=FunctionModel(messy))
    await session.prompt("Hi")
    await asked.wait()
    await session.abort()
    assert await session.ask("Still there?") == "fine"
    assert (await session.status()).restarts == 0


async def test_pieces_that_come_together_are_published_together(supervisor):
    """The subscriber pays per wake-up; joined, the deltas are the text."""
    session = await supervisor.start_session(model=ScriptedModel([says(*"Hello, world.")]))
    async with session.subscribe() as events:
        assert await session.ask("Hi") == "Hello, world."
        await session.stop()
        deltas = [event.delta async for event in events if type(event).__name__ == "MessageDelta"]
    assert "".join(deltas) == "Hello, world."


async def test_a_response_that_crashes_the_core_ends_its_cycle(supervisor):
    """It is put aside, and nobody waits for ever for what has come already; the session takes the next prompt."""
    model = ScriptedModel([Turn(text=("word",), usage=None), says("well")])  # the core cannot add up nothing
    session = await supervisor.start_session(model=model)
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
