"""The tool `compact_conversation`: the model requests compaction of its conversation."""

from typing import Annotated, Final

from agentrail.abc import ToolUpdate
from agentrail.core.protocol.tool_changes import RequestCompaction
from agentrail.tools.function import tool

SCHEDULED: Final = "Compaction is scheduled and runs before the next request."


# Nothing can be removed while this call is open, so the session records the request and compacts afterwards.
@tool(effect_class="idempotent")
async def compact_conversation(  # noqa: RUF029 - in the loop: a plain function would have a thread
    reason: Annotated[str | None, "Why, in a few words."] = None,
) -> ToolUpdate:
    """Have the conversation so far replaced by a summary, before the next request. For long tasks with a new part ahead."""
    return ToolUpdate(RequestCompaction(reason=reason), text=SCHEDULED)
