"""What tools say of themselves, checked once for as long as they say the same."""

import weakref

from agentrail.abc import Tool
from agentrail.core.toolbox import ToolSpec


class ToolSpecs:
    """What tools say of themselves, checked. Kept, because checking a schema and compiling it cost more than a session."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: weakref.WeakKeyDictionary[Tool, ToolSpec] = weakref.WeakKeyDictionary()

    def of(self, tool: Tool) -> ToolSpec:
        """Return the spec of a tool.

        Raises:
            ToolDefinitionError: Your move: its schema is none.
        """
        spec = _spec_of(tool)
        try:
            kept = self._kept.get(tool)
        except TypeError:  # a tool that cannot be a key is checked for each session
            spec.check()
            return spec
        if kept is None or kept != spec:  # a tool may say something else by now
            spec.check()
            kept = self._kept[tool] = spec
        return kept


def _spec_of(tool: Tool) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        killable=tool.killable,
        effect_class=tool.effect_class,
        timeout_seconds=tool.timeout_seconds,
        max_retries=getattr(tool, "max_retries", None),
        polling=getattr(tool, "polling", False),
        answered_by=getattr(tool, "answered_by", "code"),
    )
