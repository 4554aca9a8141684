"""Tools and plugins of an application's own, for files that name them."""

from agentrail import tool


@tool(effect_class="pure")
async def look_up(what: str) -> str:
    """Look something up."""
    return what.upper()


not_a_tool = 3
