"""The tools by which a model works with other agents. The session machine answers them, so nothing of them runs."""

from collections.abc import Callable
from typing import Any, Final

from attrs import field, frozen

from agentrail.abc import ToolContext, ToolListing, ToolOutcome
from agentrail.core.session.agent_state import HANDOFF_TOOL
from agentrail.errors import ToolContractError
from agentrail.messages import JsonObject

_NAME: Final[dict[str, Any]] = {
    "type": "string",
    "description": "The name of the agent, as spawn_agent gave it.",
}


@frozen(kw_only=True, eq=False)
class AgentTool:
    """A call that the session answers of what it knows.

    Attributes:
        name: What the session knows it by.
        description: What the model reads.
        parameters: JSON Schema.
        max_depth: How deep sessions may start sessions; the ones below have no such tool.
    """

    name: str
    description: str | Callable[[ToolListing], str]
    parameters: JsonObject
    max_depth: int = 1
    answered_by: str = field(default="machine", init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Refuse: the caller of this is no session.

        Raises:
            ToolContractError: Always.
        """
        message = f"{self.name} is answered by the session {ctx.session_id!r}, and not by code; got {dict(arguments)!r}"
        raise ToolContractError(message)


def tools_for_agents(names: tuple[str, ...], max_depth: int) -> tuple[AgentTool, ...]:
    """Make the four tools for agents in the background.

    Args:
        names: Of the agents that may be started there.
        max_depth: How deep sessions may start them.
    """

    def describe(listing: ToolListing) -> str:
        lines = [f"- {name}: {description}" for name, description in listing.agents if name in names]
        return "\n".join((_SPAWN, "Values of `agent`:", *lines))

    return (
        _tool(
            "spawn_agent",
            describe,
            {"agent": {"type": "string", "enum": list(names)}, "task": _TASK, "name": _OWN},
            max_depth,
        ),
        _tool("send_input", _SEND, {"name": _NAME, "text": {"type": "string", "minLength": 1}}, max_depth),
        _tool("wait_agents", _WAIT, _WAIT_PARAMETERS, max_depth),
        _tool(
            "close_agent",
            _CLOSE,
            {"name": _NAME, "reason": {"type": "string"}, "now": {"type": "boolean", "default": False}},
            max_depth,
        ),
    )


def tool_for_handoff(names: tuple[str, ...]) -> AgentTool:
    """Make the tool by which a session goes on as another agent; sessions below have none.

    Args:
        names: Of the agents that it may be handed over to.
    """

    def describe(listing: ToolListing) -> str:
        lines = [f"- {name}: {description}" for name, description in listing.agents if name in names]
        return "\n".join((_HANDOFF, "Values of `agent`:", *lines))

    properties = {"agent": {"type": "string", "enum": list(names)}, "note": _NOTE}
    return _tool(HANDOFF_TOOL, describe, properties, 0)


_REQUIRED: Final[dict[str, list[str]]] = {
    "spawn_agent": ["agent", "task"],
    "send_input": ["name", "text"],
    "wait_agents": [],
    "close_agent": ["name"],
    HANDOFF_TOOL: ["agent"],
}


def _tool(
    name: str, description: str | Callable[[ToolListing], str], properties: dict[str, Any], max_depth: int
) -> AgentTool:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": _REQUIRED[name],
        "additionalProperties": False,
    }
    return AgentTool(name=name, description=description, parameters=parameters, max_depth=max_depth)


_TASK: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "description": "What to do, what to know, and what to answer with; it does not know this conversation.",
}
_NOTE: Final[dict[str, Any]] = {
    "type": "string",
    "maxLength": 4_000,
    "description": "What the other agent should know that is not said in this conversation, which it reads.",
}
_HANDOFF: Final = (
    "Let another agent go on in your place, with this conversation: it has another system prompt, and may have other tools. "
    "Do it last, and once."
)
_OWN: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{1,64}$",
    "description": "What to call it; without one it is given a name. No name is used twice.",
}
_SPAWN: Final = (
    "Start an agent in the background and go on: it works beside you, until you close it. Gives its name at once; "
    "wait_agents gives its answer."
)
_SEND: Final = "Tell an agent in the background more. One that is at work reads it when it is idle."
_WAIT: Final = "Wait until agents in the background are idle (or closed), and read what they said last. Without names: all that are alive."
_CLOSE: Final = "End an agent in the background: after what it is doing, or now."
_WAIT_PARAMETERS: Final[dict[str, Any]] = {
    "names": {"type": "array", "items": {"type": "string"}},
    "match": {"type": "string", "enum": ["all", "any"], "default": "all"},
    "until": {"type": "string", "enum": ["idle", "closed"], "default": "idle"},
    "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 86_400, "default": 600},
}
