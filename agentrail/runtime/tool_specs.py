"""What tools say of themselves, checked once for as long as they say the same."""

import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NoReturn, get_args

from agentrail.abc import Tool, ToolListing
from agentrail.core.toolbox import EffectClass, Toolbox, ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.frozen import TooDeep, frozen_json
from agentrail.messages import JsonObject
from agentrail.otp.edges import contain
from agentrail.runtime.tool_runner import describe_crash


class ToolSpecs:
    """What tools say of themselves, checked. Kept, because checking a schema and compiling it cost more than a session."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: weakref.WeakKeyDictionary[Tool, ToolSpec] = weakref.WeakKeyDictionary()
        self._last_box: tuple[tuple[ToolSpec, ...], Toolbox] = ((), Toolbox())

    def box_of(self, tools: Iterable[Tool], listing: ToolListing) -> Toolbox:
        """Return the box that a session begins with, which is frozen: that of the session before, if the tools are the same.

        A supervisor mostly has one kind of session. Ten thousand of them share one box then, and the list of tools is
        encoded once for all; sessions of several kinds in turn each get their own, as good and no more.

        Raises:
            ToolDefinitionError: Your move: as of `of`, or two tools of one name.
        """
        specs = tuple([self.of(tool, listing) for tool in tools])
        known, box = self._last_box
        # The very same, not equal ones: `of` has compared them already.
        if len(specs) != len(known) or any(
            spec is not other for spec, other in zip(specs, known, strict=True)
        ):
            box = Toolbox(specs)
            self._last_box = (specs, box)
        return box

    def of(self, tool: Tool, listing: ToolListing) -> ToolSpec:
        """Return the spec of a tool, as it describes itself to a session.

        Raises:
            ToolDefinitionError: Your move: its schema is none, or it lacks what its traits ask for.
        """
        spec = _spec_of(tool, listing)
        try:
            kept = self._kept.get(tool)
        except TypeError:  # a tool that cannot be a key is checked for each session
            _check_types(spec)
            spec.check()
            _check_traits(tool)
            return spec
        if kept is None or kept != spec:  # a tool may say something else by now, or to somebody else
            _check_types(spec)
            spec.check()
            _check_traits(tool)
            kept = self._kept[tool] = spec
        return kept


def _spec_of(tool: Tool, listing: ToolListing) -> ToolSpec:
    described = tool.description
    if callable(described):
        described = contain(partial(_refuse_description, tool), described, listing)
    return ToolSpec(
        name=tool.name,
        description=described,
        parameters=_schema_of(tool),
        killable=tool.killable,
        effect_class=tool.effect_class,
        timeout_seconds=tool.timeout_seconds,
        max_retries=getattr(tool, "max_retries", None),
        polling=getattr(tool, "polling", False),
        answered_by=getattr(tool, "answered_by", "code"),
    )


def _schema_of(tool: Tool) -> JsonObject:
    schema: Any = tool.parameters
    if not isinstance(schema, Mapping):
        message = f"the schema of tool {tool.name!r} is of type {type(schema).__name__}: expected a JSON Schema as a dict"
        raise ToolDefinitionError(message)
    try:
        return frozen_json(schema)
    except TooDeep as error:
        message = f"the schema of tool {tool.name!r} is {error}, or holds itself: say the same with fewer"
        raise ToolDefinitionError(message) from None


def _refuse_description(tool: Tool, error: Exception) -> NoReturn:
    message = (
        f"the description of tool {tool.name!r} raised {describe_crash(error)}: "
        "expected a function of a ToolListing that gives a text"
    )
    raise ToolDefinitionError(message) from None


def _check_types(spec: Any) -> None:
    """Refuse what a type checker would have refused: a tool may be anybody's object."""
    if not isinstance(spec.name, str):
        message = f"a tool is named {spec.name!r}: expected a text"
        raise ToolDefinitionError(message)
    if not isinstance(spec.description, str):
        message = (
            f"the description of tool {spec.name!r} is {spec.description!r}: "
            "expected a text, or a function of a ToolListing that gives one"
        )
        raise ToolDefinitionError(message)


def _check_traits(tool: Tool) -> None:
    if tool.effect_class not in get_args(EffectClass):
        known = ", ".join(repr(one) for one in get_args(EffectClass))
        message = f"tool {tool.name!r} has effect_class {tool.effect_class!r}: expected one of {known}"
        raise ToolDefinitionError(message)
    if tool.effect_class == "reconcilable" and getattr(tool, "reconcile", None) is None:
        message = (
            f"tool {tool.name!r} is 'reconcilable' and has no `reconcile(operation_id, ctx)`: "
            "give it one, or another effect_class"
        )
        raise ToolDefinitionError(message)
