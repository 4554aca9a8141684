"""Where tools that come while a session runs are found again, by the process that brings it back; and what stands for one that is gone.

Code is not stored: of such a tool the journal has `package.module:NAME`. Importing blocks, and is done in a thread.
"""

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
from agentrail.core.values.toolbox import EffectClass, ToolSpec
from agentrail.messages import JsonObject
from agentrail.otp.edges import call_guarded
from agentrail.runtime.reviving import found_at
from agentrail.runtime.session_options import fault_of_tool

_NOTHING: Final[Any] = object()

_UNKNOWN: Final = "[Outcome unknown: the process stopped while this ran, and the tool is not there any more]"
_NOT_RUN: Final = "[Not run: the tool is not there any more]"


def tool_origin(tool: Tool) -> str | None:
    """Say where another process finds a tool, `package.module:NAME`; None where it finds none that is sure to be this one.

    It is the name of the tool itself, in any module that is loaded; or that of its class, where the tool is as one that is made of it
    without arguments: what a tool was made with is not stored.
    """
    place = _place_of(tool)
    if found_at(place) is tool:
        return place
    if found_at(place) is type(tool) and _is_plain(tool, type(tool)):
        return place
    return _name_of(tool, place.partition(":")[0])


def fault_of_bare(tool: Tool) -> str:
    """Say what is wrong with a tool that comes to a stored session, and that no other process would find."""
    return (
        f"tool {tool.name!r} is defined at {_place_of(tool)!r}, and no other process finds it there as it is: the session is kept in a "
        "store. Make it importable as package.module:NAME, by a name of its own in a module; give it to start_session and "
        "resume_session; or use store='memory:'"
    )


def tool_at(spec: ToolSpec) -> Tool | None:
    """Import the tool of a spec. This may block, and runs code of the tool's module."""
    found = found_at(spec.origin)
    if isinstance(found, type):
        found = call_guarded(lambda _: None, found)
    name = call_guarded(lambda _: None, getattr, found, "name", None)
    return found if name == spec.name and fault_of_tool(found) is None else None


@frozen(kw_only=True)
class GoneTool:
    """Stands for a tool that is not there any more, for calls that were open: each is answered, and does nothing.

    Attributes:
        description: For who looks at it; no model is told.
    """

    name: str
    description: str = "A tool that is not there any more."
    parameters: JsonObject
    effect_class: EffectClass = "once"

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        """Say that it did not run, or that it is not known what became of the attempt before."""
        del arguments
        await trio.lowlevel.checkpoint()
        return Error(text=_UNKNOWN if ctx.attempt > 1 else _NOT_RUN)

    async def reconcile(self, operation_id: str, ctx: ToolContext) -> Unknown:
        """Say that nothing is known."""
        del operation_id
        await trio.lowlevel.checkpoint()
        return Unknown()


def _place_of(tool: Tool) -> str:
    """Say where its function was defined, or its class."""
    function = call_guarded(lambda _: None, getattr, tool, "function", None)
    found: Any = function if hasattr(function, "__qualname__") else type(tool)
    return f"{found.__module__}:{found.__qualname__}"


def _name_of(tool: Tool, home: str) -> str | None:
    """Look whether some module has a name for a tool: first its own, then all others. Once for each tool that comes, and a few milliseconds."""
    is_it = partial(operator.is_, tool)
    for module in (home, *sys.modules):
        names: Mapping[str, Any] = call_guarded(lambda _: {}, vars, sys.modules.get(module))
        # Without a step of Python for each of a hundred thousand names.
        if not any(map(is_it, tuple(names.values()))):
            continue
        for name, value in tuple(names.items()):
            if value is tool and found_at(f"{module}:{name}") is tool:
                return f"{module}:{name}"
    return None


def _is_plain(tool: Any, kind: type) -> bool:
    """Say whether a tool was made of its class without arguments, as far as it shows: each thing that it could have been given is the default.

    No second one is made to look: who makes a tool may open a file.
    """
    wanted = call_guarded(lambda _: None, inspect.signature, kind)
    return wanted is not None and all(
        _is_same(_member(tool, name), _default_of(kind, parameter))
        for name, parameter in wanted.parameters.items()
    )


def _default_of(kind: type, parameter: inspect.Parameter) -> Any:
    """Give what stands for an argument that is left out; of a class of attrs what is made then."""
    if parameter.default is not attrs.NOTHING:
        return parameter.default
    made: Any = attrs.fields_dict(kind)[parameter.name].default
    is_plain = hasattr(made, "factory") and not made.takes_self
    return (
        call_guarded(lambda _: inspect.Parameter.empty, made.factory) if is_plain else inspect.Parameter.empty
    )


def _is_same(value: Any, default: Any) -> bool:
    if value is _NOTHING or default is inspect.Parameter.empty:
        return False  # kept under another name, or never without
    return bool(call_guarded(lambda _: False, lambda: value is default or value == default))


def _member(tool: Any, name: str) -> Any:
    for known in (name, f"_{name}"):
        value = call_guarded(lambda _: _NOTHING, getattr, tool, known, _NOTHING)
        if value is not _NOTHING:
            return value
    return _NOTHING
