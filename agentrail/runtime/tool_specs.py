"""What tools say of themselves, checked once for as long as they say the same."""

import weakref

from agentrail.abc import Tool, ToolListing
from agentrail.core.toolbox import ToolSpec
from agentrail.errors import ToolDefinitionError


class ToolSpecs:
    """What tools say of themselves, checked. Kept, because checking a schema and compiling it cost more than a session."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: weakref.WeakKeyDictionary[Tool, ToolSpec] = weakref.WeakKeyDictionary()

    def of(self, tool: Tool, listing: ToolListing) -> ToolSpec:
        """Return the spec of a tool, as it describes itself to a session.

        Raises:
            ToolDefinitionError: Your move: its schema is none, or it lacks what its traits ask for.
        """
        spec = _spec_of(tool, listing)
        try:
            kept = self._kept.get(tool)
        except TypeError:  # a tool that cannot be a key is checked for each session
            spec.check()
            _check_traits(tool)
            return spec
        if kept is None or kept != spec:  # a tool may say something else by now, or to somebody else
            spec.check()
            _check_traits(tool)
            kept = self._kept[tool] = spec
        return kept


def _spec_of(tool: Tool, listing: ToolListing) -> ToolSpec:
    described = tool.description
    return ToolSpec(
        name=tool.name,
        description=described if isinstance(described, str) else described(listing),
        parameters=tool.parameters,
        killable=tool.killable,
        effect_class=tool.effect_class,
        timeout_seconds=tool.timeout_seconds,
        max_retries=getattr(tool, "max_retries", None),
        polling=getattr(tool, "polling", False),
        answered_by=getattr(tool, "answered_by", "code"),
    )


def _check_traits(tool: Tool) -> None:
    if tool.effect_class == "reconcilable" and getattr(tool, "reconcile", None) is None:
        message = (
            f"tool {tool.name!r} is 'reconcilable' and has no `reconcile(operation_id, ctx)`: "
            "give it one, or another effect_class"
        )
        raise ToolDefinitionError(message)
