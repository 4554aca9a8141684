"""Agno: an `Agent` with its in-memory database, and the whole history in the context."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.openai import OpenAIChat
from agno.models.response import ModelResponse
from drive import ANSWER, ARGUMENTS, SYSTEM, TOOL, Scenario

_NUMBERS: Final = itertools.count()


@dataclass
class _Model(Model):
    id: str = "stub"
    scenario: Any = None

    def __deepcopy__(self, _memo: Any) -> "_Model":
        return self

    async def ainvoke(self, messages: Any, assistant_message: Any, **_: Any) -> ModelResponse:
        scenario = self.scenario
        assistant_message.metrics.start_timer()
        await scenario.think()
        if messages[-1].role == "tool":
            response = ModelResponse(role="assistant", content=ANSWER)
        else:
            function = {"name": TOOL, "arguments": ARGUMENTS}
            calls = [
                {"id": scenario.call_id(), "type": "function", "function": function}
                for _ in range(scenario.calls)
            ]
            response = ModelResponse(role="assistant", tool_calls=calls)
        assistant_message.metrics.stop_timer()
        return response

    def invoke(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    def invoke_stream(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


class Peer:
    """See `drive.Peer`; a conversation is an id."""

    def build(self, scenario: Scenario) -> Any:
        async def add(a: int, b: int) -> str:
            """Add two integers."""
            return str(await scenario.add(a, b))

        return self._agent(_Model(scenario=scenario), [add])

    def new_session(self, agent: Any) -> Any:
        return f"s{next(_NUMBERS)}"

    async def prompt(self, agent: Any, session: Any, text: str) -> str:
        return str((await agent.arun(text, session_id=session)).content)

    def build_openai(self, url: str) -> Any:
        return self._agent(OpenAIChat(id="stub", base_url=url, api_key="stub", max_retries=0), [])

    async def stream(self, agent: Any, session: Any, text: str, on_first: Callable[[], None]) -> str:
        said: list[str] = []
        async for event in agent.arun(text, session_id=session, stream=True):
            if event.event == "RunContent" and event.content:
                if not said:
                    on_first()
                said.append(event.content)
        return "".join(said)

    def _agent(self, model: Any, tools: Any) -> Any:
        return Agent(
            model=model,
            tools=tools,
            instructions=SYSTEM,
            db=InMemoryDb(),
            add_history_to_context=True,
            num_history_runs=1_000,
            telemetry=False,
        )
