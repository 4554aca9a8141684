"""The tool `sleep`: the call waits as data in the state of its session. It needs no task and no slot, and survives a restart."""

from typing import Any, Final

from attrs import field, frozen

from agentrail.abc import ToolContext, ToolOutcome
from agentrail.core.session.agent_calls import MAX_SLEEP_SECONDS
from agentrail.core.session.agent_records import SLEEP_TOOL
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolContractError
from agentrail.messages import JsonObject

_DESCRIPTION: Final = (
    "Wait for some seconds: until something that runs in the background is further on, or before you look again. "
    "When the user has something to say you wake."
)
_PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SLEEP_SECONDS},
    },
    "required": ["seconds"],
    "additionalProperties": False,
}


@frozen(kw_only=True, eq=False)
class SleepTool:
    """A wait that the session itself manages and ends: by its timer, a steer, or an abort."""

    name: str = field(default=SLEEP_TOOL, init=False)
    description: str = field(default=_DESCRIPTION, init=False)
    parameters: JsonObject = field(factory=lambda: _PARAMETERS, init=False, repr=False)
    effect_class: EffectClass = field(default="pure", init=False)
    polling: bool = field(default=True, init=False)
    answered_by: str = field(default="machine", init=False)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Raise, because sessions never call this.

        Raises:
            ToolContractError: Always.
        """
        message = (
            f"sleep is answered by the session {ctx.session_id!r}, and not by code; got {dict(arguments)!r}"
        )
        raise ToolContractError(message)
