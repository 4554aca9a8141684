"""The tool `exit_plan`: requests approval of a finished plan. For sessions whose `Permissions` are in the mode `plan`."""

from typing import Annotated

import msgspec

from agentrail.abc import Ok
from agentrail.tools.function import tool

MAX_PLAN_CHARACTERS = 50_000


@tool(effect_class="idempotent", timeout_seconds=30)
async def exit_plan(  # noqa: RUF029 - in the loop: a plain function would have a thread
    plan: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MAX_PLAN_CHARACTERS,
            description="The plan, in Markdown: what you will do, in steps.",
        ),
    ],
) -> Ok:
    """Show your plan to a person, who approves it or not. Call it once the plan is complete; until it is approved nothing can be changed."""
    return Ok(text=f"The plan is approved: carry it out, step by step.\n\n{plan}")
