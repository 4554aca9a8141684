"""AutoGen AgentChat: an `AssistantAgent` for each conversation, since it owns the model's context."""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from drive import ANSWER, ARGUMENTS, SYSTEM, TOOL, Scenario

_USAGE: Final = RequestUsage(prompt_tokens=1, completion_tokens=1)
_INFO: Final = ModelInfo(
    vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
)


class _Model(ChatCompletionClient):
    component_type = "model"
    component_config_schema = None

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    async def create(self, messages: Any, **_: Any) -> CreateResult:
        scenario = self.scenario
        await scenario.think()
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return CreateResult(finish_reason="stop", content=ANSWER, usage=_USAGE, cached=False)
        calls = [
            FunctionCall(id=scenario.call_id(), name=TOOL, arguments=ARGUMENTS) for _ in range(scenario.calls)
        ]
        return CreateResult(finish_reason="function_calls", content=calls, usage=_USAGE, cached=False)

    def create_stream(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return _USAGE

    def total_usage(self) -> RequestUsage:
        return _USAGE

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        return 1 << 20

    @property
    def capabilities(self) -> Any:
        return _INFO

    @property
    def model_info(self) -> ModelInfo:
        return _INFO


class Peer:
    """See `drive.Peer`; what is built is only the parts, as the agent belongs to the conversation."""

    def build(self, scenario: Scenario) -> Any:
        async def add(a: int, b: int) -> int:
            """Add two integers."""
            return await scenario.add(a, b)

        return _Model(scenario), [FunctionTool(add, description="Add two integers.")]

    def new_session(self, agent: Any) -> Any:
        model, tools = agent
        return AssistantAgent(
            "calculator",
            model,
            tools=tools,
            system_message=SYSTEM,
            max_tool_iterations=10,
            model_client_stream=tools is None,
        )

    async def prompt(self, agent: Any, session: Any, text: str) -> str:
        return str((await session.run(task=text)).messages[-1].content)

    def build_openai(self, url: str) -> Any:
        client = OpenAIChatCompletionClient(
            model="stub", base_url=url, api_key="stub", max_retries=0, model_info=_INFO
        )
        return client, None

    async def stream(self, agent: Any, session: Any, text: str, on_first: Callable[[], None]) -> str:
        said: list[str] = []
        async for event in session.run_stream(task=text):
            if isinstance(event, ModelClientStreamingChunkEvent):
                if not said:
                    on_first()
                said.append(event.content)
        return "".join(said)
