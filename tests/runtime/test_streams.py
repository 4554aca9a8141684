"""One request, whatever its provider does: the cycle ends with one terminal event, and the session goes on."""

import re
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from agentrail.core.protocol.request import Completed, ReasoningDelta, TextDelta, UsageUpdate
from agentrail.core.protocol.signals import ResponseCompleted
from agentrail.errors import CycleFailed
from agentrail.events import AgentEnd, AgentError, MessageDelta, StreamError
from agentrail.messages import AssistantMessage, Text, Thinking, TokenUsage
from agentrail.runtime import session as sessions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import FunctionModel, ScriptedModel, says
from agentrail.testing.supervisors import open_nameless
from tests.runtime.rig import kinds, on_virtual_time, saying, until


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


class Chunky(FunctionModel):
    """A provider that gives these chunks to each request, whatever they are."""

    def __init__(self, *chunks: object) -> None:
        super().__init__(lambda _request: says())
        self.chunks = chunks

    @asynccontextmanager
    async def open_stream(self, request):
        """Open it."""
        await trio.lowlevel.checkpoint()

        async def given():
            for chunk in self.chunks:
                yield chunk

        stream = given()
        try:
            yield stream
        finally:
            await stream.aclose()


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


class Bursting(FunctionModel):
    """A provider whose pieces are all there at once: nothing is waited for between two of them.

    Attributes:
        given: How many pieces the session has taken out of it.
    """

    def __init__(self, pieces: int, *, pause_after: int = 0) -> None:
        super().__init__(lambda _request: says())
        self.given = 0
        self._pieces = pieces
        self._pause_after = pause_after

    @asynccontextmanager
    async def open_stream(self, request):
        """Open it."""
        await trio.lowlevel.checkpoint()

        async def chunks():
            for number in range(self._pieces):
                if number and number == self._pause_after:
                    await trio.sleep(1)
                self.given += 1
                yield TextDelta(f"{number} ")
            message = AssistantMessage(
                content=(Text(text="".join(f"{number} " for number in range(self._pieces))),),
                model=request.model,
                stop_reason="end",
            )
            yield Completed("end", message, TokenUsage(input=1, output=1))

        stream = chunks()
        try:
            yield stream
        finally:
            await stream.aclose()


@pytest.mark.parametrize("pause_after", [0, 500])
@on_virtual_time
async def test_the_first_piece_of_a_burst_comes_before_the_last_one_is_read(supervisor, pause_after):
    """Whoever reads along sees it at once, also of a burst behind a pause; the rest is still published in few events."""
    model = Bursting(1_000, pause_after=pause_after)
    session = await supervisor.start_session(model=model)
    seen: list[tuple[int, str]] = []
    async with session.subscribe() as events:
        await session.prompt("Hi")
        async for event in events:
            if isinstance(event, MessageDelta):
                seen.append((model.given, event.delta))
            if isinstance(event, AgentEnd):
                break
    assert "".join(delta for _, delta in seen) == "".join(f"{number} " for number in range(1_000))
    assert seen[0][0] <= 10
    assert len(seen) <= 4 * (1 + bool(pause_after))
    if pause_after:
        behind = [given for given, delta in seen if int(delta.split()[0]) >= pause_after]
        assert behind[0] <= pause_after + 10


async def test_a_stream_that_never_waits_lets_others_have_their_turn(supervisor):
    """A provider that has all its pieces in memory does not keep another session from answering."""
    model = Bursting(50_000)
    busy = await supervisor.start_session(model=model)
    other = await supervisor.start_session(model=ScriptedModel([says("here")]))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy.ask, "Hi")
        assert await other.ask("Are you there?") == "here"
        assert model.given < 50_000
