"""Many chats over HTTP, in the OpenAI Agents SDK. POST only, because events cannot be followed. Run: uvicorn web_server:app."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from agents import Agent, Model, Runner, SQLiteSession
from agents.exceptions import AgentsException
from fastapi import Body, FastAPI
from fastapi.sse import EventSourceResponse, ServerSentEvent as Sse

app = FastAPI()
app.state.model, app.state.path = "gpt-5-mini", "chats.sqlite"


@app.post("/chats/{name}", response_class=EventSourceResponse)
async def stream(name: str, say: Annotated[str, Body()], wait: float = 60) -> AsyncGenerator[Sse, None]:
    """Stream a run, cancelled when its client disconnects. Two runs of one chat at once would mix in its history."""
    model: str | Model = app.state.model
    chat = SQLiteSession(name, app.state.path)
    run = Runner.run_streamed(Agent(name="chat", model=model), say, session=chat)
    events = run.stream_events()
    try:
        while True:
            async with asyncio.timeout(wait):
                event = await anext(events, None)
            if event is None:
                break
            if event.type == "raw_response_event":
                yield Sse(raw_data=event.data.model_dump_json())
            elif event.type == "run_item_stream_event":
                yield Sse(event=event.name, data=event.item.to_input_item())
        yield Sse(event="result", data=run.final_output)
    except (AgentsException, TimeoutError) as why:
        yield Sse(event=type(why).__name__, data=str(why))
    finally:
        run.cancel()
        chat.close()
