"""Many chats over HTTP, in Pydantic AI. POST only, because events cannot be followed. Run: uvicorn web_server:app."""

from collections import defaultdict
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Body, FastAPI
from fastapi.sse import EventSourceResponse, ServerSentEvent as Sse
from pydantic import TypeAdapter
from pydantic_ai import Agent, AgentRunResultEvent, Conversation
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models import Model

app = FastAPI()
app.state.chats, app.state.model = defaultdict(Conversation), "openai:gpt-5-mini"
agent = Agent()
events_as_json = TypeAdapter[Any](Any)


@app.post("/chats/{name}", response_class=EventSourceResponse)
async def stream(name: str, say: Annotated[str, Body()], wait: float = 60) -> AsyncGenerator[Sse, None]:
    """Stream a run, cancelled when its client disconnects. Two runs of one chat at once would lose an answer."""
    model: str | Model = app.state.model
    chat: Conversation = app.state.chats[name]
    try:
        async with agent.run_stream_events(say, model=model, conversation=chat, timeout=wait) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    app.state.chats[name] = event.result.conversation
                    yield Sse(event="result", data=event.result.output)
                else:
                    yield Sse(raw_data=events_as_json.dump_json(event).decode())
    except AgentRunError as why:
        yield Sse(event=type(why).__name__, data=str(why))
