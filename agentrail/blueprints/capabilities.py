"""The capabilities that are built in, and the blueprint that is made of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.blueprints.blueprint import Blueprint, Capability
from agentrail.plugins import HumanApproval, MemoryLoader, PatchToolCalls, SecurityGuard
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
        )
    }
)
"""By name. Each has the guards that its tools should not be without."""


def coding() -> Blueprint:
    """Make `Blueprint.coding()`."""
    return Blueprint(
        "coding",
        description="Works on code: reads and writes files, and runs commands.",
        capabilities=[CAPABILITIES[name] for name in ("files", "shell", "todos", "agents")],
        tools=builtin("compact_conversation"),
        plugins=(SecurityGuard, HumanApproval, MemoryLoader, PatchToolCalls),
    )
