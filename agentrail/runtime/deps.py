"""Tool dependencies from the application: live objects, which no state, journal, event or text may contain."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from agentrail.abc import Tool
from agentrail.errors import OptionError
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import call_guarded

DepsFor: TypeAlias = Callable[[SessionId], object]
"""Returns the tools' dependencies for a session that was started without any, or is being restored."""


def decide_deps(given: object, session_id: SessionId, tools: Sequence[Tool], ask: DepsFor | None) -> object:
    deps = ask(session_id) if given is None and ask is not None else given
    OptionError.raise_for([fault for tool in tools if (fault := fault_of_deps(deps, tool)) is not None])
    return deps


def fault_of_deps(deps: object, tool: Tool) -> str | None:
    wanted = call_guarded(lambda _: None, getattr, tool, "wants_deps", None)
    if not isinstance(wanted, type) or call_guarded(lambda _: True, isinstance, deps, wanted):
        return None
    # Only the class: the object's repr may contain a password.
    came = "no deps were given" if deps is None else f"deps is of type {type(deps).__name__}"
    return f"{came}: tool {tool.name!r} takes a ToolContext[{wanted.__name__}], so pass start_session(deps=…) a {wanted.__name__}"
