"""The same with Starlette alone: hypercorn -k trio on_starlette:app."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio
from agentrail import AgentrailError, AlreadyStarted, SessionSupervisor, encode_event, open_supervisor
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
    """Open the supervisor for the lifetime of the server. Leaving ends all sessions."""
    async with open_supervisor() as app.state.supervisor:
        yield


async def events(
    supervisor: SessionSupervisor, name: str, say: str, after: int, wait: float
) -> AsyncGenerator[str, None]:
    """Find or start a chat, and stream the cycle of a prompt, aborted on a disconnect, or all events since a given one."""
    try:
        with suppress(AlreadyStarted):
            await supervisor.start_session(model="demo:", session_id=name)
        chat = supervisor.session(name)
        async with chat.stream(say, on_leave="abort") if say else chat.subscribe(after=after) as feed:
            while True:
                with trio.fail_after(max(0.0, wait)):
                    event = await anext(feed, None)
                if event is None or event.meta is None:
                    return
                yield f"id: {event.meta.seq}\ndata: {encode_event(event).decode()}\n\n"
    except (AgentrailError, trio.TooSlowError) as why:
        yield f"event: {type(why).__name__}\ndata: {str(why) or f'nothing came for {wait:g} s'!r}\n\n"


async def stream(request: Request) -> StreamingResponse:
    """Stream the answer of a chat as text."""
    try:
        say = (await request.body()).decode()
        after = int(request.headers.get("last-event-id", 0))
        wait = float(request.query_params.get("wait", 60))
    except ValueError as why:
        raise HTTPException(400, f"{why}") from None
    feed = events(request.app.state.supervisor, request.path_params["name"], say, after, wait)
    return StreamingResponse(feed, media_type="text/event-stream", headers={"cache-control": "no-cache"})


app = Starlette(lifespan=lifespan, routes=[Route("/chats/{name}", stream, methods=["GET", "POST"])])
