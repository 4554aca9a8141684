"""Pydantic AI: an `Agent` on a `FunctionModel`; the caller keeps the history of a conversation."""

from collections.abc import Callable
from typing import Any

from drive import ANSWER, ARGUMENTS, SYSTEM, TOOL, Scenario
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Peer:
    """See `drive.Peer`."""

    def build(self, scenario: Scenario) -> Any:
        async def respond(messages: Any, _info: Any) -> ModelResponse:
            await scenario.think()
            if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
                return ModelResponse(parts=[TextPart(ANSWER)])
            calls = [
                ToolCallPart(TOOL, ARGUMENTS, tool_call_id=scenario.call_id()) for _ in range(scenario.calls)
            ]
            return ModelResponse(parts=calls)

        agent = Agent(FunctionModel(respond), instructions=SYSTEM)

        @agent.tool_plain
        async def add(a: int, b: int) -> int:
            """Add two integers."""
            return await scenario.add(a, b)

        return agent

    def new_session(self, agent: Any) -> Any:
        return {"history": None}

    async def prompt(self, agent: Any, session: Any, text: str) -> str:
        ran = await agent.run(text, message_history=session["history"])
        session["history"] = ran.all_messages()
        return str(ran.output)

    def build_openai(self, url: str) -> Any:
        client = AsyncOpenAI(base_url=url, api_key="stub", max_retries=0)
        model = OpenAIChatModel("stub", provider=OpenAIProvider(openai_client=client))
        return Agent(model, instructions=SYSTEM)

    async def stream(self, agent: Any, session: Any, text: str, on_first: Callable[[], None]) -> str:
        said: list[str] = []
        async with agent.run_stream(text) as ran:
            async for delta in ran.stream_text(delta=True, debounce_by=None):
                if not said:
                    on_first()
                said.append(delta)
        return "".join(said)
