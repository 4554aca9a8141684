"""Origins of tools that are added to a running session, for the process that resumes it. Also placeholders for missing tools."""

import inspect
import operator
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs
import trio
from attrs import frozen

from agentrail.abc import Error, Tool, ToolContext, ToolOutcome, Unknown
from agentrail.core.values.toolbox import FROM_SOURCE, EffectClass, ToolSpec
from agentrail.messages import JsonObject
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime.session_loader import found_at
from agentrail.runtime.session_options import fault_of_tool
from agentrail.structs import picked_fields

SOURCE_WAIT_SECONDS: Final = 20.0
"""Time that an open call of a restored session waits for its source."""

_LOOK_SECONDS: Final = 0.1
_NOTHING: Final[Any] = object()

_UNKNOWN: Final = "[Outcome unknown: the process stopped while this ran, and the tool is not there any more]"
_NOT_RUN: Final = "[Not run: the tool is not there any more]"


def source_origin(tool: Tool) -> str | None:
    """Return the origin of a source's tool, which is found nowhere: the source attaches it again."""
    source = call_guarded(lambda _: None, getattr, tool, "comes_from", None)
    return f"{FROM_SOURCE}{source}" if isinstance(source, str) else None


def tool_origin(tool: Tool) -> str | None:
    """Return where another process finds a tool, `package.module:NAME`. None if it would not surely find the same."""
    place = _place_of(tool)
    if found_at(place) is tool:
        return place
    if found_at(place) is type(tool) and _is_plain(tool, type(tool)):
        return place
    return _name_of(tool, place.partition(":")[0])


def fault_of_bare(tool: Tool) -> str:
    """Return why a tool must not be added to a stored session: no other process would find it."""
    return f"tool {tool.name!r} is defined at {_place_of(tool)!r}, where no other process can find it, but the session is stored. Make it importable as package.module:NAME; or pass it to start_session and resume_session; or use store='memory:'"


def tool_at(spec: ToolSpec) -> Tool | None:
    """Import the tool of a spec. This may block, and runs code of the tool's module."""
    found = found_at(spec.origin)
    if isinstance(found, type):
        found = call_guarded(lambda _: None, found)
    name = call_guarded(lambda _: None, getattr, found, "name", None)
    return found if name == spec.name and fault_of_tool(found) is None else None


@frozen(kw_only=True)
class GoneTool:
    """Placeholder for a tool that no longer exists. It answers the open calls, once its source is there by the tool with the same text."""

    name: str
    description: str = "A tool that no longer exists."
    parameters: JsonObject
    effect_class: EffectClass = "once"
    shown_text: str
    present: Mapping[str, Tool]

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(min(SOURCE_WAIT_SECONDS, ctx.seconds_left() / 2)):
            while self.shown_text and self.name not in self.present:  # noqa: ASYNC110 - a mapping sets no event
                await trio.sleep(_LOOK_SECONDS)
        tool = self.present.get(self.name) if self.shown_text else None
        if tool is not None and source_origin(tool) == self.shown_text:
            return await tool.execute(arguments, ctx)
        return Error(text=_UNKNOWN if ctx.attempt > 1 or ctx.resumption is not None else _NOT_RUN)

    async def reconcile(self, operation_id: str, ctx: ToolContext) -> Unknown:
        del operation_id
        await trio.lowlevel.checkpoint()
        return Unknown()


def gone_tool(spec: ToolSpec, present: Mapping[str, Tool]) -> GoneTool:
    """Return the placeholder for a tool that is not there."""
    given = picked_fields(spec, "name", "parameters", "effect_class")
    return GoneTool(**given, shown_text=spec.shown_text, present=present)


def _place_of(tool: Tool) -> str:
    function = call_guarded(lambda _: None, getattr, tool, "function", None)
    found: Any = function if hasattr(function, "__qualname__") else type(tool)
    return f"{found.__module__}:{found.__qualname__}"


def _name_of(tool: Tool, home: str) -> str | None:
    """Return the name of a tool in a module: first its own module, then all others. Once per added tool, a few milliseconds."""
    is_it = partial(operator.is_, tool)
    for module in (home, *sys.modules):
        names: Mapping[str, Any] = call_guarded(lambda _: {}, vars, sys.modules.get(module))
        # Without a Python step for each of a hundred thousand names.
        if not any(map(is_it, tuple(names.values()))):
            continue
        for name, value in tuple(names.items()):
            if value is tool and found_at(f"{module}:{name}") is tool:
                return f"{module}:{name}"
    return None


def _is_plain(tool: Any, kind: type) -> bool:
    wanted = call_guarded(lambda _: None, inspect.signature, kind)
    return wanted is not None and all(
        _is_same(_member(tool, name), _default_of(kind, parameter))
        for name, parameter in wanted.parameters.items()
    )


def _default_of(kind: type, parameter: inspect.Parameter) -> Any:
    if parameter.default is not attrs.NOTHING:
        return parameter.default
    made: Any = attrs.fields_dict(kind)[parameter.name].default
    is_plain = hasattr(made, "factory") and not made.takes_self
    return (
        call_guarded(lambda _: inspect.Parameter.empty, made.factory) if is_plain else inspect.Parameter.empty
    )


def _is_same(value: Any, default: Any) -> bool:
    if value is _NOTHING or default is inspect.Parameter.empty:
        return False  # stored under another name, or required
    return bool(call_guarded(lambda _: False, lambda: value is default or value == default))


def _member(tool: Any, name: str) -> Any:
    for known in (name, f"_{name}"):
        value = call_guarded(lambda _: _NOTHING, getattr, tool, known, _NOTHING)
        if value is not _NOTHING:
            return value
    return _NOTHING
