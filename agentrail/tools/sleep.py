"""The tool `sleep`: the call waits as data in the state of its session. It needs no task and no slot, and survives a restart."""

from typing import Any, Final

from agentrail.abc import ToolContext, ToolOutcome
from agentrail.core.session.agent_calls import MAX_SLEEP_SECONDS
from agentrail.core.session.agent_records import SLEEP_TOOL
from agentrail.core.values.toolbox import EffectClass
from agentrail.errors import ToolContractError
from agentrail.messages import JsonObject

_DESCRIPTION: Final = "Wait for some seconds, for background work to progress or before you check again. A message of the user wakes you."
_PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SLEEP_SECONDS},
    },
    "required": ["seconds"],
    "additionalProperties": False,
}


class SleepTool:
    """A wait that the session itself manages and ends: by its timer, a steer, or an abort."""

    __slots__ = ()

    name = SLEEP_TOOL
    description = _DESCRIPTION
    parameters: JsonObject = _PARAMETERS
    effect_class: EffectClass = "pure"
    polling = True
    answered_by = "machine"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Raise, because sessions never call this.

        Raises:
            ToolContractError: Always.
        """
        message = f"sleep is answered by the session {ctx.session_id!r}, not by code; got {dict(arguments)!r}"
        raise ToolContractError(message)
