"""The capabilities that are built in, and what the blueprint for coding is made of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.blueprints.capability import Capability
from agentrail.blueprints.web import web_capability
from agentrail.core.stack.loading import PluginEntry
from agentrail.plugins import MemoryLoader, PatchToolCalls, Permissions, SecurityGuard
from agentrail.tools import builtin

CAPABILITIES: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Capability(
                name="files",
                tools=builtin("list_dir", "read_file", "glob", "grep", "edit_file", "write_file"),
            ),
            Capability(name="shell", tools=builtin("shell"), plugins=(SecurityGuard,)),
            Capability(name="todos", tools=builtin("write_todos")),
            Capability(name="agents", tools=builtin("task")),
            Capability(name="ask", tools=builtin("ask_user")),
            web_capability(),
        )
    }
)
"""By name. Each has the guards that its tools should not be without."""


CODING_CAPABILITIES: Final = ("files", "shell", "todos", "agents")
"""What `Blueprint.coding()` begins with."""

CODING_TOOLS: Final = builtin("compact_conversation")
"""What it has beside them."""

# What these do is written down in the session, or is judged where it is done: by the same rules, in a sub-agent.
_HARMLESS: Final = ("compact_conversation", "task", "write_todos")

CODING_PLUGINS: Final[tuple[PluginEntry, ...]] = (
    SecurityGuard,
    (Permissions, {"pure_tools": _HARMLESS}),
    MemoryLoader,
    PatchToolCalls,
)
"""What guards it, and looks after it."""
