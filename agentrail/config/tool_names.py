"""Tool names of other programs and ours."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

TRANSLATED_TOOLS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Agent": ("task",),
        "AskUserQuestion": ("ask_user",),
        "Bash": ("shell",),
        "BashOutput": ("shell_output",),
        # Their rules for either name cover every tool that changes files.
        "Edit": ("edit_file", "write_file"),
        "ExitPlanMode": ("exit_plan",),
        "Glob": ("glob",),
        "Grep": ("grep",),
        "KillShell": ("shell_stop",),
        "LS": ("list_dir",),
        "MultiEdit": ("edit_file", "write_file"),
        "Read": ("read_file",),
        "Skill": ("skill",),
        "Task": ("task",),
        "TodoWrite": ("write_todos",),
        "WebFetch": ("web_fetch",),
        "WebSearch": ("web_search",),
        "Write": ("edit_file", "write_file"),
    }
)
"""Tool names of other programs, each with ours."""

OUR_TOOLS: Final = frozenset(
    {
        *(name for names in TRANSLATED_TOOLS.values() for name in names),
        *("ask_user", "close_agent", "compact_conversation", "forget", "handoff_to", "kb_list", "kb_read"),
        *("kb_search", "list_dir", "python", "recall", "remember", "send_input", "skill_search", "sleep"),
        *("spawn_agent", "wait_agents"),
    }
)
"""Names of built-in tools."""

_TOOL: Final = re.compile(r"([A-Za-z0-9_.*:/-]+)(\(.*\))?", re.DOTALL)
_BREAKS: Final = frozenset(" \t\r\n,")


class ToolListFault(Exception):
    """A tool list cannot be parsed."""


@frozen(kw_only=True)
class ToolRules:
    rules: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def split_tools(text: str) -> tuple[str, ...]:
    """Split a tool list at blanks and commas outside parentheses."""
    found: list[str] = []
    begun, depth = 0, 0
    for at, char in enumerate(f"{text} "):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif depth == 0 and char in _BREAKS:
            found.append(text[begun:at])
            begun = at + 1
        if depth < 0:
            message = "there is a ')' without a '('"
            raise ToolListFault(message)
    if depth:
        message = "there is a '(' without a ')'"
        raise ToolListFault(message)
    return tuple(filter(None, found))


def translate_tools(
    written: tuple[str, ...], *, pattern: Callable[[str, str], str] = lambda _, text: text
) -> ToolRules:
    known: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for rule in written:
        names = dict(_translated(rule, pattern))
        if names:
            known.update(names)
        else:
            unknown[rule] = None
    return ToolRules(rules=tuple(known), unknown=tuple(unknown))


def _translated(rule: str, pattern: Callable[[str, str], str]) -> Iterator[tuple[str, None]]:
    match = _TOOL.fullmatch(rule)
    name, given = ("", None) if match is None else (match[1], match[2])
    is_ours = name in OUR_TOOLS or name.startswith("mcp__") or "*" in name
    for ours in TRANSLATED_TOOLS.get(name, (name,) if is_ours else ()):
        inside = "" if given is None else pattern(ours, given[1:-1])
        # A pattern that matches everything is dropped: `Bash(*)`.
        yield (ours if inside.strip() in {"", "*", ":*"} else f"{ours}({inside})"), None
