"""The tool `task`: delegates work to a new session, which starts without this conversation."""

from collections.abc import Callable
from typing import Final

from attrs import field, frozen

from agentrail.abc import ToolContext, ToolListing, ToolOutcome
from agentrail.core.session.agent_records import GENERAL_PURPOSE
from agentrail.errors import ToolContractError
from agentrail.messages import JsonObject
from agentrail.otp.field_rules import CheckedFields, Count, TimeLimit

TIMEOUT_SECONDS: Final = 120.0

_DESCRIPTION: Final = "Give a self-contained piece of work to a sub-agent with the same tools. It does not know this conversation: write down everything it must know. Its last text is the result. Several calls in one response run side by side."

_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "description": {
            "type": "string",
            "minLength": 1,
            "description": "What to do, what to know, and what to answer with.",
        },
        "subagent_type": {
            "type": "string",
            "default": GENERAL_PURPOSE,
            "description": "The kind of sub-agent.",
        },
    },
    "required": ["description"],
    "additionalProperties": False,
}


def _describe(listing: ToolListing) -> str:
    """Return the description, with a list of agents if there are more than the general one."""
    if not listing.agents:
        return _DESCRIPTION
    lines = [f"- {name}: {description}" for name, description in listing.agents]
    if GENERAL_PURPOSE not in dict(listing.agents):
        lines.append(f"- {GENERAL_PURPOSE}: has the same tools as you")
    return "\n".join((_DESCRIPTION, "Values of `subagent_type`:", *lines))


@frozen(kw_only=True, eq=False)
class TaskTool(CheckedFields):
    """Starts a child session. The session machine answers the call, so this code never runs.

    Attributes:
        max_depth: Maximum nesting of sessions. 1: child sessions do not have this tool.
        timeout_seconds: Time limit of a child, in seconds.
    """

    max_depth: Count = 1
    timeout_seconds: TimeLimit = TIMEOUT_SECONDS
    name: str = field(default="task", init=False)
    description: Callable[[ToolListing], str] = field(default=_describe, init=False)
    parameters: JsonObject = field(factory=lambda: dict(_PARAMETERS), init=False)
    answered_by: str = field(default="child", init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Raise, because sessions never call this.

        Raises:
            ToolContractError: Always.
        """
        message = (
            f"{self.name} is answered by the session {ctx.session_id!r}, not by code; got {dict(arguments)!r}"
        )
        raise ToolContractError(message)
