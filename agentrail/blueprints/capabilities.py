"""The built-in capabilities."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.blueprints import capability_prompts as texts
from agentrail.blueprints.capability import Capability
from agentrail.blueprints.web import web_capability
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.plugins import (
    AutoRecall,
    Citations,
    MemoryFlush,
    MemoryLoader,
    PatchToolCalls,
    Permissions,
    SecurityGuard,
    WorkingNotes,
)
from agentrail.tools import builtin


def memory_capability(*, auto: bool = False) -> Capability:
    """Build the bundle `memory`: working notes and user memories.

    Args:
        auto: Whether the five memories that fit a prompt best are shown with it.
    """
    plugins: tuple[PluginEntry, ...] = (WorkingNotes, MemoryFlush)
    return Capability(
        name="memory",
        tools=builtin("remember", "recall", "forget"),
        plugins=(*plugins, AutoRecall) if auto else plugins,
        sections={"memory": texts.MEMORY},
    )


CAPABILITIES: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Capability(
                name="files",
                tools=builtin("list_dir", "read_file", "glob", "grep", "edit_file", "write_file"),
                sections={"files": texts.FILES},
            ),
            Capability(
                name="shell",
                tools=builtin("shell", "shell_output", "shell_stop", "sleep"),
                plugins=(SecurityGuard,),
                sections={"shell": texts.SHELL},
            ),
            Capability(name="todos", tools=builtin("write_todos"), sections={"todos": texts.TODOS}),
            Capability(name="agents", tools=builtin("task"), sections={"agents": texts.AGENTS}),
            Capability(name="ask", tools=builtin("ask_user"), sections={"ask": texts.ASK}),
            memory_capability(),
            Capability(
                name="kb",
                tools=builtin("kb_list", "kb_search", "kb_read"),
                plugins=(Citations,),
                sections={"kb": texts.KB},
            ),
            web_capability(),
        )
    }
)
"""Capabilities by name. Each includes the guards that its tools need."""


SKILLS: Final = "skills"
"""Also a capability, made of the skills that are found. Files name it, Python code calls `with_skills`."""

CODING_CAPABILITIES: Final = ("files", "shell", "todos", "agents")
"""Initial capabilities of `Blueprint.coding()`."""

CODING_TOOLS: Final = builtin("compact_conversation")
"""Its additional tools."""

# Their effects are recorded in the session, or are judged by the same rules where they happen, in a
# sub-agent.
_HARMLESS: Final = ("compact_conversation", "task", "write_todos")

CODING_PLUGINS: Final[tuple[PluginEntry, ...]] = (
    SecurityGuard,
    (Permissions, {"pure_tools": [*_HARMLESS]}),
    MemoryLoader,
    PatchToolCalls,
)
"""Its guards and helpers."""
