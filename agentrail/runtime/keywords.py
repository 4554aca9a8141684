"""The options of a session as keywords of `start_session`, for type checkers and editors."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

from agentrail.abc import ContextProvider, Sandbox, Tool, ToolServer
from agentrail.core.policy.budget import Budget
from agentrail.core.session.state import PromptMode
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.messages import JsonValue, Message
from agentrail.otp.child_specs import Restart
from agentrail.runtime.agent import Agent


class OwnKeywords(TypedDict, total=False):
    """All options except the model and the agents, which a blueprint also accepts in other forms."""

    tools: Sequence[Tool]
    plugins: Sequence[PluginEntry]
    system_prompt: str | None
    prompt_mode: PromptMode
    base_prompt: bool
    replace_sections: Mapping[str, str]
    session_id: str | None
    scope: str
    working_dir: str | os.PathLike[str]
    sandbox: Sandbox | str | None
    messages: Sequence[Message]
    user_data: Mapping[str, JsonValue]
    deps: object
    provider_opts: Mapping[str, Any]
    max_turns: int
    on_max_turns: Literal["answer", "abort", "stop"]
    compact_at_tokens: int
    max_output_tokens: int | None
    max_prompt_queue: int
    max_steering_queue: int
    fallback_models: Sequence[str]
    max_retries: int
    tool_max_retries: int
    approval_timeout_seconds: float
    immune_tools: Sequence[str]
    max_parallel_tools: int
    tool_timeout_seconds: float
    event_buffer_size: int
    group_id: str | None
    restart: Restart
    budget: Budget | None
    response_format: Mapping[str, JsonValue] | None
    inline_tags: bool
    context_providers: Sequence[ContextProvider]
    max_agents: int
    max_agents_total: int
    max_agent_depth: int
    wake_on_background_end: bool
    mcp: Sequence[ToolServer | str] | None


class SessionKeywords(OwnKeywords, total=False):
    """All options of `SessionOptions` except the model, with the same names and types. A test compares the two."""

    agents: Sequence[Agent]


class GivesOptions(Protocol):
    """A source of options for similar sessions."""

    def options(self) -> Mapping[str, Any]: ...
