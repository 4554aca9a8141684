"""Many chats over HTTP: POST prompts one, GET follows it, both stream events. Run: hypercorn -k trio web_server:app."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import trio
from agentrail import AgentrailError, AlreadyStarted, Session, encode_event, open_supervisor
from fastapi import Body, FastAPI, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent as Sse


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Open the supervisor for the lifetime of the server. Leaving ends all sessions."""
    async with open_supervisor() as app.state.supervisor:
        yield


app = FastAPI(lifespan=lifespan)


@app.api_route("/chats/{name}", methods=["GET", "POST"], response_class=EventSourceResponse)
async def stream(
    name: str, say: Annotated[str, Body()] = "", last_event_id: Annotated[int, Header()] = 0, wait: float = 60
) -> AsyncGenerator[Sse, None]:
    """Stream the cycle of a prompt, aborted when its client disconnects, or all events since a given one."""
    try:
        with suppress(AlreadyStarted):
            await app.state.supervisor.start_session(model="demo:", session_id=name)
        chat: Session = app.state.supervisor.session(name)
        async with chat.stream(say, on_leave="abort") if say else chat.subscribe(after=last_event_id) as feed:
            while True:
                with trio.fail_after(max(0.0, wait)):
                    event = await anext(feed, None)
                if event is None or event.meta is None:
                    return
                yield Sse(raw_data=encode_event(event).decode(), id=str(event.meta.seq))
    except (AgentrailError, trio.TooSlowError) as why:
        yield Sse(event=type(why).__name__, data=str(why) or f"nothing came for {wait:g} s")
