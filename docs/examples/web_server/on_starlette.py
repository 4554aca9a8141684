"""The same with Starlette alone: hypercorn -k trio on_starlette:app."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio
from agentrail import AgentrailError, AlreadyStarted, Session, encode_event, open_supervisor
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
    """Open the supervisor for the lifetime of the server. Leaving ends all sessions."""
    async with open_supervisor() as app.state.supervisor:
        yield


async def events(chat: Session, say: str, after: int, wait: float) -> AsyncGenerator[str, None]:
    """Stream the cycle of a prompt, aborted when its client disconnects, or all events since a given one."""
    try:
        async with chat.stream(say, on_leave="abort") if say else chat.subscribe(after=after) as feed:
            while True:
                with trio.fail_after(wait):
                    event = await anext(feed, None)
                if event is None or event.meta is None:
                    return
                yield f"id: {event.meta.seq}\ndata: {encode_event(event).decode()}\n\n"
    except (AgentrailError, trio.TooSlowError) as why:
        yield f"event: {type(why).__name__}\ndata: {str(why) or f'nothing came for {wait:g} s'!r}\n\n"


async def stream(request: Request) -> StreamingResponse:
    """Find or start the chat of a request, and stream its answer as text."""
    name, wait = request.path_params["name"], float(request.query_params.get("wait", 60))
    with suppress(AlreadyStarted):
        await request.app.state.supervisor.start_session(model="demo:", session_id=name)
    feed = events(
        request.app.state.supervisor.session(name),
        (await request.body()).decode(),
        int(request.headers.get("last-event-id", 0)),
        wait,
    )
    return StreamingResponse(feed, media_type="text/event-stream", headers={"cache-control": "no-cache"})


app = Starlette(lifespan=lifespan, routes=[Route("/chats/{name}", stream, methods=["GET", "POST"])])
