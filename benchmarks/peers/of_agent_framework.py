"""Microsoft Agent Framework: an `Agent` on a chat client with the layers of its own OpenAI client."""

from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)
from agent_framework._middleware import ChatMiddlewareLayer
from agent_framework.observability import ChatTelemetryLayer
from agent_framework_openai import OpenAIChatCompletionClient
from drive import ANSWER, ARGUMENTS, SYSTEM, TOOL, Scenario
from openai import AsyncOpenAI


class _Raw(BaseChatClient):
    def __init__(self, scenario: Scenario, **options: Any) -> None:
        super().__init__(**options)
        self.scenario = scenario

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Awaitable[Any]:
        return self._respond(messages)

    async def _respond(self, messages: Any) -> ChatResponse:
        scenario = self.scenario
        await scenario.think()
        if any(content.type == "function_result" for content in messages[-1].contents):
            contents = [Content.from_text(ANSWER)]
        else:
            contents = [
                Content.from_function_call(call_id=scenario.call_id(), name=TOOL, arguments=ARGUMENTS)
                for _ in range(scenario.calls)
            ]
        return ChatResponse(messages=[Message(role="assistant", contents=contents)], response_id="r")


class _Model(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, _Raw):
    OTEL_PROVIDER_NAME = "stub"

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario=scenario)


class Peer:
    """See `drive.Peer`."""

    def build(self, scenario: Scenario) -> Any:
        async def add(a: int, b: int) -> int:
            """Add two integers."""
            return await scenario.add(a, b)

        tools = [tool(add, approval_mode="never_require")]
        return Agent(_Model(scenario), SYSTEM, name="calculator", tools=tools)

    def new_session(self, agent: Any) -> Any:
        return agent.create_session()

    async def prompt(self, agent: Any, session: Any, text: str) -> str:
        return str((await agent.run(text, session=session)).text)

    def build_openai(self, url: str) -> Any:
        client = AsyncOpenAI(base_url=url, api_key="stub", max_retries=0)
        return Agent(OpenAIChatCompletionClient(model="stub", async_client=client), SYSTEM)

    async def stream(self, agent: Any, session: Any, text: str, on_first: Callable[[], None]) -> str:
        said: list[str] = []
        async for update in agent.run(text, stream=True, session=session):
            if update.text:
                if not said:
                    on_first()
                said.append(update.text)
        return "".join(said)
