"""The workload of `POST /chat` in a known session, beside a Starlette route in front of the bare loop: both by the same server, on loopback, in this process."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import process_time
from typing import Final, TypeAlias

import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import AgentProfile
from agentrail.runtime.session_options import SessionOptions
from benchmarks import bare
from benchmarks.bars import target_of
from benchmarks.gateway.server import LIMITS
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import StubModel, add, expect

_CHATS: Final = 400
_KNOWN: Final = 3
"""Messages before the first one that is measured."""
_SESSION: Final = "known"
_BODY: Final = json.dumps({"message": "please add 2 and 3", "session_id": _SESSION}).encode()
_REQUEST: Final = (
    b"POST /chat HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    % (len(_BODY), _BODY)
)
OpenApp: TypeAlias = Callable[[], AbstractAsyncContextManager[Starlette]]


def chats(effort: Effort) -> list[Row]:
    """A message with one tool call through `/chat`, one after the other over one connection."""
    count = effort.of(_CHATS)
    rounds = interleave(
        partial(trio.run, _ask_often, _bare_app, count),
        partial(trio.run, _ask_often, _our_app, count),
        effort.rounds,
    )
    what = "`/chat` in a known session, one tool call; bare: a Starlette route before the bare loop: CPU"
    return [rounds.row("gateway-chat", "chat", what, unit="µs", factor=1e6, target=target_of("chat"))]


async def _ask_often(open_app: OpenApp, count: int) -> Sample:
    async with _serve(open_app) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await _ask(stream, _KNOWN)
        began_at = process_time()
        await _ask(stream, count)
        return {"chat": (process_time() - began_at) / count}


async def _ask(stream: trio.SocketStream, count: int) -> None:
    for _ in range(count):
        await stream.send_all(_REQUEST)
        got = b""
        while not got.endswith(b"}"):
            got += await stream.receive_some()
        expect("whether it is the answer", bare.ANSWER.encode() in got, True)  # noqa: FBT003 - what it is to be


@asynccontextmanager
async def _serve(open_app: OpenApp) -> AsyncIterator[int]:
    async with open_app() as app, trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(partial(serve_app, app, listeners, trio.sleep_forever))
        yield addresses_of(listeners)[0][1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _our_app() -> AsyncIterator[Starlette]:
    options = SessionOptions(model=StubModel(), tools=[add])
    yield create_app(
        profiles=[AgentProfile(id="desk", name="Desk", options=options)], store=None, limits=LIMITS
    )


@asynccontextmanager
async def _bare_app() -> AsyncIterator[Starlette]:
    session = bare.BareSession(bare.StubModel(), bare.TOOLS)
    sessions = {_SESSION: session}

    async def chat(request: Request) -> JSONResponse:
        body = await request.json()
        return JSONResponse({"text": await sessions[body["session_id"]].prompt(body["message"])})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        bare.start_watch(nursery, session)
        yield Starlette(routes=[Route("/chat", chat, methods=["POST"])])
        session.close()
