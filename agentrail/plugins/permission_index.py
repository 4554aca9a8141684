"""The rules of a list, found by tool and by the first word of a command: a policy has hundreds, and few of them are about a call."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from attrs import field, frozen

from agentrail.plugins.permission_rules import SHELL_TOOLS, AnyCall, CommandPattern, ReadRule
from agentrail.plugins.shell_plain import PlainLine

IndexedRule: TypeAlias = tuple[int, ReadRule]
"""A rule, and its place in its list."""

_MAX_KEPT: Final = 256


@frozen(kw_only=True)
class OfTool:
    """The rules of one list that are about one tool, in their order.

    Attributes:
        rules: All of them.
        anywhere: Those that may be about any program.
        by_program: Those that may be about a program, by its name in lower case; those of `anywhere` among them.
        by_line: The place of the first rule that is a whole line.
    """

    rules: tuple[IndexedRule, ...]
    anywhere: tuple[IndexedRule, ...] = ()
    by_program: Mapping[str, tuple[IndexedRule, ...]] = field(factory=dict)
    by_line: Mapping[PlainLine, IndexedRule] = field(factory=dict)

    def about(self, program: str) -> tuple[IndexedRule, ...]:
        """Give the rules that may be about a program."""
        found = self.by_program.get(program)  # most names have no folder, and are in lower case
        return (
            self.by_program.get(program.rpartition("/")[2].lower(), self.anywhere) if found is None else found
        )


class RuleIndex:
    """A list of rules. Made once; what it finds for a tool it keeps, since there are few tools."""

    __slots__ = ("_found", "_many", "_one")

    def __init__(self, rules: Iterable[ReadRule]) -> None:
        """Sort them by tool."""
        self._one: dict[str, list[IndexedRule]] = {}
        self._many: list[IndexedRule] = []
        self._found: dict[str, OfTool] = {}
        for place, rule in enumerate(rules):
            if rule.is_for_many:
                self._many.append((place, rule))
            else:
                self._one.setdefault(rule.tool, []).append((place, rule))

    def of(self, tool: str) -> OfTool:
        """Give the rules about a tool."""
        found = self._found.get(tool)
        if found is None:
            found = _of_tool(tool, sorted((*self._one.get(tool, ()), *self._about_many(tool)), key=_place))
            # The names of tools come from a model: what has no rules of its own is not kept.
            if tool in self._one or (found.rules and len(self._found) < _MAX_KEPT):
                self._found[tool] = found
        return found

    def _about_many(self, tool: str) -> list[IndexedRule]:
        return [entry for entry in self._many if is_named(entry[1].tool, tool)]


def is_named(pattern: str, tool: str) -> bool:
    """Say whether a rule's tool, which may be a pattern or a server, is this one."""
    if pattern == tool:
        return True
    if "*" in pattern:
        return fnmatchcase(tool, pattern)
    is_server = pattern.startswith("mcp__") and "__" not in pattern.removeprefix("mcp__")
    return is_server and tool.startswith(f"{pattern}__")


def _place(entry: IndexedRule) -> int:
    return entry[0]


def _of_tool(tool: str, entries: list[IndexedRule]) -> OfTool:
    if tool not in SHELL_TOOLS:
        return OfTool(rules=tuple(entries))
    anywhere: list[IndexedRule] = []
    own: dict[str, list[IndexedRule]] = {}
    lines: dict[PlainLine, IndexedRule] = {}
    for entry in entries:
        match entry[1].pattern:
            case CommandPattern(line=PlainLine() as line) as command:
                lines.setdefault(line, entry)
                program = command.words[0] if command.words else None
            case CommandPattern(words=(first, *_), stars=stars):
                program = None if 0 in stars else first
            case _:
                program = None
        if program is None:
            anywhere.append(entry)
        else:
            own.setdefault(program.rpartition("/")[2].lower(), []).append(entry)
    merged = {name: tuple(sorted((*anywhere, *rules), key=_place)) for name, rules in own.items()}
    return OfTool(rules=tuple(entries), anywhere=tuple(anywhere), by_program=merged, by_line=lines)


def bare(entries: Iterable[IndexedRule]) -> IndexedRule | None:
    """Give the first rule that is about every call."""
    return next((entry for entry in entries if isinstance(entry[1].pattern, AnyCall)), None)
