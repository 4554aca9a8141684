"""The workloads of third-party protocols: what a delta costs in a bridge, and a stream over each, beside our own stream of the same words.

All through the application as a server calls it, in this process and without sockets, which would cost both sides the same.
"""

import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter, process_time
from types import MappingProxyType
from typing import Any, Final

import trio
from attrs import evolve
from msgspec.structs import replace
from starlette.applications import Starlette

from agentrail import events
from agentrail.core.protocol.request import Chunk, Completed, ModelRequest, TextDelta
from agentrail.gateway.app import create_app
from agentrail.gc_settings import many_sessions
from agentrail.host import AgentProfile
from agentrail.messages import AssistantMessage, PromptRef, SessionId, Text, TokenUsage
from agentrail.protocols.a2a import A2A, A2aTask
from agentrail.protocols.acp import ACP, AcpView
from agentrail.protocols.ag_ui import AG_UI, AgUiRun
from agentrail.protocols.ai_ui import AI_UI, NO_QUESTIONS
from agentrail.protocols.mcp_server import MCP_SERVER
from agentrail.protocols.openai_chat import CHAT, Completion
from agentrail.protocols.openai_responses import RESPONSES, Responding
from agentrail.protocols.response_state import Bridged, Response
from agentrail.runtime.session_options import SessionOptions
from benchmarks.bars import target_of
from benchmarks.gateway.server import LIMITS
from benchmarks.measure import Effort, Row, Sample, interleave, percentile, repeat
from benchmarks.ours import StubModel, expect

_DELTAS: Final = 2_000
_FOLDED: Final = 20_000
_STREAMS: Final = 200
_PER_SECOND: Final = 50
_SECONDS: Final = 5.0
_BEGUN_SECONDS: Final = 2.0
_WORD: Final = " word"

BRIDGES: Final[Mapping[str, tuple[Any, Any]]] = MappingProxyType(
    {
        "ai-ui": (AI_UI, NO_QUESTIONS),
        "ag-ui": (AG_UI, AgUiRun(thread_id="s", run_id="r")),
        "chat": (CHAT, Completion(id="c", model="desk", created=0)),
        "responses": (RESPONSES, Responding(id="r", model="desk", created=0, session_id="s")),
        "a2a": (A2A, A2aTask(id="t", context_id="s", at_ms=0)),
        "mcp": (MCP_SERVER, None),
        "acp": (ACP, AcpView(session_id="s", cwd="/", window=0)),
    }
)
_HI: Final = {"role": "user", "content": "Hi"}
REQUESTS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = MappingProxyType(
    {
        "native": ("/stream", {"message": "Hi"}),
        "ai-ui": (
            "/ai-ui/desk",
            {
                "id": "s1",
                "messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
            },
        ),
        "ag-ui": ("/ag-ui", {"threadId": "s1", "runId": "r", "messages": [{"id": "u", **_HI}]}),
        "chat": ("/v1/chat/completions", {"model": "desk", "stream": True, "messages": [_HI]}),
        "responses": ("/v1/responses", {"model": "desk", "stream": True, "input": "Hi"}),
    }
)


class Talker(StubModel):
    """Says so many words, at once or so many a second. A paced word is the moment at which it was said."""

    def __init__(self, words: int, per_second: float = 0.0) -> None:
        """Say nothing yet."""
        super().__init__()
        self._words = words
        self._pause = 1 / per_second if per_second else 0.0

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Answer."""
        yield self.talk(request.model)

    async def talk(self, model: str) -> AsyncIterator[Chunk]:
        """Say the words, and complete the message."""
        said = []
        for _ in range(self._words):
            await trio.sleep(self._pause)  # a checkpoint at least, so that each word is a delta of its own
            said.append(f" @{perf_counter():.6f}" if self._pause else _WORD)
            yield TextDelta(said[-1])
        message = AssistantMessage(content=(Text(text="".join(said)),), model=model, stop_reason="end")
        yield Completed("end", message, TokenUsage(input=1, output=1))


# --- a bridge


def fold_deltas(name: str, count: int) -> Sample:
    """Fold the deltas of one message."""
    bridge, own = BRIDGES[name]
    session, ref = SessionId("s"), PromptRef("p")

    def with_number(event: events.Event, number: int) -> events.Event:
        return replace(event, meta=events.Envelope(session, number, 0, (session,)))

    state = Bridged(Response(ref=ref), own)
    begin: tuple[events.Event, ...] = (
        events.AgentStart(ref=ref),
        events.RequestStart(model="m", messages=1, attempt=1),
        events.MessageStart(),
    )
    for number, event in enumerate(begin, 4):
        state, _ = bridge.fold(state, with_number(event, number))
    delta = with_number(events.MessageDelta(delta=_WORD), 6)
    state, frames = bridge.fold(state, delta)
    began_at = process_time()
    for _ in range(count):
        state, frames = bridge.fold(state, delta)
    took = process_time() - began_at
    expect("frames of a delta", len(frames), 1)
    return {"delta": took / count}


# --- a stream


async def ask(app: Starlette, name: str, on_piece: Any) -> None:
    """Send a request to the application as a server does, and hear each piece of its answer."""
    path, body = REQUESTS[name]
    content = json.dumps(body).encode()
    waits = trio.Event()
    sent = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await waits.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            expect("the status", message["status"], 200)
        elif message.get("body"):
            on_piece(message["body"])
        await trio.lowlevel.checkpoint()

    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "headers": headers,
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 9),
        "root_path": "",
    }
    await app(scope, receive, send)


@asynccontextmanager
async def open_app(model: StubModel) -> AsyncIterator[Starlette]:
    """An application of one profile, which is open."""
    profile = AgentProfile(id="desk", name="Desk", options=SessionOptions(model=model))
    app = create_app(profiles=[profile], store=None, limits=LIMITS)
    async with app.state.host.open():
        yield app


async def _stream(name: str, words: int) -> Sample:
    """One stream of many words: its CPU per word, and when its first piece came."""
    first: list[float] = []
    size = 0

    def hear(piece: bytes) -> None:
        nonlocal size
        if not first:
            first.append(perf_counter())
        size += piece.count(_WORD.encode())

    async with open_app(Talker(words)) as app:
        began_at, cpu_at = perf_counter(), process_time()
        await ask(app, name, hear)
        took = process_time() - cpu_at
    if size < words:
        expect("the words that came", size, words)
    return {"word": took / words, "first": first[0] - began_at}


async def _streams(name: str, streams: int, words: int) -> Sample:
    """Many streams at once, each of so many words a second: how late they come, when all have begun."""
    late: list[float] = []
    counted_from = perf_counter() + min(words / _PER_SECOND / 2, _BEGUN_SECONDS)

    def hear(piece: bytes) -> None:
        now = perf_counter()
        if now > counted_from:
            late.extend([now - float(one[:20].split(b'"')[0]) for one in piece.split(b" @")[1:]])

    async def write() -> None:  # the bare side: a task that says, and one that encodes and sends
        said, heard = trio.open_memory_channel[str](math.inf)

        async def send() -> None:
            async for word in heard:
                hear(b"data: %b\n\n" % json.dumps({"delta": word}).encode())
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery, said:
            nursery.start_soon(send)
            async for chunk in Talker(words, _PER_SECOND).talk("bare"):
                if isinstance(chunk, TextDelta):
                    said.send_nowait(chunk.text)

    async with open_app(Talker(words, _PER_SECOND)) as app, trio.open_nursery() as nursery:
        for _ in range(streams):
            nursery.start_soon(*((write,) if name == "bare" else (ask, app, name, hear)))
    return {"late": percentile(late, 99)}


def _crowd(name: str, streams: int, words: int) -> Sample:
    with many_sessions():  # as the server does
        return trio.run(_streams, name, streams, words)


def streams_of_wires(effort: Effort) -> list[Row]:
    """What bridges cost: a delta in each, a stream over each beside our own, and 200 streams of completions."""
    rounds, words = min(effort.rounds, 3), effort.of(_DELTAS)
    rows = []
    for name in BRIDGES:
        folded = repeat(partial(fold_deltas, name, effort.of(_FOLDED)), rounds)
        what = f"a delta in the bridge of {name}: CPU"
        rows.append(
            folded.row(
                "gateway-wires", "delta", what, unit="µs", factor=1e6, target=target_of("delta of a wire")
            )
        )
    native = partial(trio.run, _stream, "native", words)
    for name in [one for one in BRIDGES if one in REQUESTS]:
        taken = interleave(native, partial(trio.run, _stream, name, words), rounds)
        what = f"a stream of {words:,} deltas over {name}, beside our own: CPU of each"
        target = target_of("delivery over a wire")
        rows.append(taken.row("gateway-wires", "word", what, unit="µs", factor=1e6, target=target))
        if name == "chat":
            beyond = [
                {"beyond": one["first"] - other["first"]}
                for one, other in zip(taken.ours, taken.bare[::2], strict=True)
            ]
            first = evolve(taken, ours=beyond, bare=())
            rows.append(
                first.row(
                    "gateway-wires",
                    "beyond",
                    "its first frame, beyond our own",
                    unit="ms",
                    factor=1e3,
                    target=target_of("first frame of a completion"),
                )
            )
    many = effort.of(round(_SECONDS * _PER_SECOND))
    crowd = interleave(
        partial(_crowd, "bare", _STREAMS, many),
        partial(_crowd, "chat", _STREAMS, many),
        rounds,
        warm_up=False,
    )
    what = f"{_STREAMS} completions of {_PER_SECOND} deltas a second: how late a delta comes, p99"
    rows.append(
        crowd.row(
            "gateway-wires", "late", what, unit="ms", factor=1e3, target=target_of("lag of 200 completions")
        )
    )
    return rows
