"""The capabilities that are built in, and what the blueprint for coding is made of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.blueprints import capability_texts as texts
from agentrail.blueprints.capability import Capability
from agentrail.blueprints.web import web_capability
from agentrail.core.stack.loading import PluginEntry
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
    """Make the bundle `memory`: working notes and memories of the user, for a supervisor that was given `memories`.

    Args:
        auto: Whether the five memories that fit a prompt best are shown with it, unasked.
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
"""By name. Each has the guards that its tools should not be without."""


SKILLS: Final = "skills"
"""A capability too; what it is made of are the skills that there are, so that files name it and Python calls `with_skills`."""

CODING_CAPABILITIES: Final = ("files", "shell", "todos", "agents")
"""What `Blueprint.coding()` begins with."""

CODING_TOOLS: Final = builtin("compact_conversation")
"""What it has beside them."""

# What these do is written down in the session, or is judged where it is done: by the same rules, in a sub-agent.
_HARMLESS: Final = ("compact_conversation", "task", "write_todos")

CODING_PLUGINS: Final[tuple[PluginEntry, ...]] = (
    SecurityGuard,
    (Permissions, {"pure_tools": [*_HARMLESS]}),
    MemoryLoader,
    PatchToolCalls,
)
"""What guards it, and looks after it."""
