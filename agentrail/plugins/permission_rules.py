"""Permission rules as values: `tool` or `tool(pattern)`, parsed once, with errors that name the rule."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from agentrail.errors import OptionError
from agentrail.plugins.permission_paths import PathGlob, fault_of_glob
from agentrail.plugins.shell_plain import NotRead, PlainCommand, PlainLine, read_plain

ListName: TypeAlias = Literal["deny", "ask", "allow"]
RuleScope: TypeAlias = Literal["session", "project", "user", "managed"]

MAX_RULE_CHARACTERS: Final = 4_000
MAX_PERMISSION_RULES: Final = 5_000
"""Maximum number of rules in one list."""

SHELL_TOOLS: Final = frozenset({"shell"})
PATTERN_READERS: Final = frozenset({"read_file", "list_dir", "glob", "grep"})
WRITERS: Final = frozenset({"write_file", "edit_file"})
PATH_TOOLS: Final = PATTERN_READERS | WRITERS
CODE_TOOLS: Final = MappingProxyType({"python": "code"})
"""Tools that run code, each with its code argument. A star there could match any code."""

_NAMED_BY: Final = {"task": "subagent_type", "skill": "name"}

_TOOL: Final = re.compile(r"[A-Za-z0-9_.*:/-]+")
_PROGRAM_WITH_A_STAR: Final = re.compile(r"(?=[^\s]*\*)[A-Za-z0-9_./*+-]+(?=\s|\Z)")
_DOMAIN: Final = re.compile(r"(?:\*|[a-z0-9_-]+)(?:\.(?:\*|[a-z0-9_-]+))*\.?", re.IGNORECASE)
_POINTER: Final = re.compile(r"(?:/(?:[^~/=]|~[01])*)+|[^/=~*\s]+")


@frozen
class AnyCall:
    """Every call of the tool."""


@frozen(kw_only=True)
class CommandPattern:
    """A command of the shell.

    Attributes:
        words: Its words. Empty if it is a whole line, or could not be read.
    """

    text: str
    words: tuple[str, ...] = ()
    stars: tuple[int, ...] = ()
    has_tail: bool = False
    line: PlainLine | None = None
    not_read: NotRead | None = None

    @property
    def has_star(self) -> bool:
        return self.has_tail or bool(self.stars)


@frozen(kw_only=True)
class Domain:
    host: str


@frozen(kw_only=True)
class Argument:
    pointer: tuple[str, ...]
    glob: str
    can_allow: bool = True


Pattern: TypeAlias = AnyCall | CommandPattern | PathGlob | Domain | Argument


@frozen(kw_only=True)
class ReadRule:
    tool: str
    pattern: Pattern

    @property
    def is_for_many(self) -> bool:
        return "*" in self.tool or self.tool.startswith("mcp__")


class RuleFault(Exception):
    """A rule cannot be parsed.

    Attributes:
        at: Character position, from 0.
    """

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


def check_rules(name: ListName, rules: Sequence[object], places: Sequence[str] = ()) -> list[str]:
    if isinstance(rules, str):
        return [f"{name}: expected a list of rules, got the text {rules!r:.80}: put it in brackets"]
    if len(rules) > MAX_PERMISSION_RULES:
        return [f"{name}: {len(rules)} rules, expected at most {MAX_PERMISSION_RULES}"]
    faults: list[str] = []
    for index, rule in enumerate(rules):
        where = f"{place}: " if (place := "".join(places[index : index + 1])) else ""
        if not isinstance(rule, str):
            faults.append(
                f"{where}{name}[{index}]: expected a text such as 'shell(git status)', got {rule!r:.80}"
            )
            continue
        try:
            read_permission_rule(rule)
        except RuleFault as fault:
            faults.append(f"{where}{name}[{index}] at {fault.at}: {fault.why}, in {rule!r:.120}")
    return faults


def refuse_faults(faults: Sequence[str]) -> None:
    if faults:
        raise OptionError(tuple(faults))


@lru_cache(maxsize=16_384)
def read_permission_rule(text: str) -> ReadRule:
    if len(text) > MAX_RULE_CHARACTERS:
        raise RuleFault(MAX_RULE_CHARACTERS, f"a rule may have at most {MAX_RULE_CHARACTERS} characters")
    hidden = next((at for at, char in enumerate(text) if not char.isprintable() and char not in "\n\t"), None)
    if hidden is not None:
        raise RuleFault(
            hidden, f"the character U+{ord(text[hidden]):04X} is invisible: write the rule without it"
        )
    tool, bracket, rest = text.partition("(")
    found = _TOOL.match(tool)
    if found is None or found.end() < len(tool):
        at = 0 if found is None else found.end()
        raise RuleFault(at, "expected the name of a tool, then nothing, or a pattern in parentheses")
    if not bracket:
        return ReadRule(tool=tool, pattern=AnyCall())
    if not rest.endswith(")"):
        at = text.rindex(")") + 1 if ")" in rest else len(text)
        raise RuleFault(at, "expected ')' at the end")
    begun = len(tool) + 1
    pattern = rest[:-1]
    if not pattern.strip():
        raise RuleFault(begun, f"expected a pattern; for every call write {tool!r}")
    return ReadRule(tool=tool, pattern=_pattern(tool, pattern, begun))


def words_of_name(tool: str) -> str | None:
    """Name the argument that `task(…)` and similar rules apply to. None for other tools."""
    return _NAMED_BY.get(tool)


def _pattern(tool: str, text: str, begun: int) -> Pattern:
    if tool in SHELL_TOOLS:
        return _read_command(text, begun)
    if tool in PATH_TOOLS:
        fault = fault_of_glob(text)
        if fault is not None:
            raise RuleFault(begun + fault[0], fault[1])
        return PathGlob(text=text)
    if tool == "web_fetch" and text.startswith("domain:"):
        host = text.removeprefix("domain:")
        if not _DOMAIN.fullmatch(host):
            raise RuleFault(
                begun + len("domain:"), "expected a host such as 'example.com', without scheme, port and path"
            )
        return Domain(host=host.lower().rstrip("."))
    named = _NAMED_BY.get(tool)
    if named is not None and "=" not in text:
        return _argument(tool, (named,), text)
    name, equals, glob = text.partition("=")
    if not equals:
        wanted = "'domain:HOST' or 'name=value'" if tool == "web_fetch" else "'name=value'"
        raise RuleFault(begun + len(text), f"expected {wanted}: {tool!r} does not define its own patterns")
    if not _POINTER.fullmatch(name):
        raise RuleFault(
            begun,
            "expected the name of an argument, or a JSON pointer such as '/options/mode', before '='",
        )
    pointer = tuple(part.replace("~1", "/").replace("~0", "~") for part in name.lstrip("/").split("/"))
    return _argument(tool, pointer if name.startswith("/") else (name,), glob)


def _argument(tool: str, pointer: tuple[str, ...], glob: str) -> Argument:
    runs = [code for name, code in CODE_TOOLS.items() if fnmatchcase(name, tool)]
    can_allow = all(pointer == (code,) and "*" not in glob for code in runs)
    return Argument(pointer=pointer, glob=glob, can_allow=can_allow)


def _read_command(text: str, begun: int) -> CommandPattern:
    """Parse a command pattern. A pattern that is not a plain line is kept as its text."""
    body, has_tail = text.strip(), False
    if body.endswith(":*"):
        body, has_tail = body[:-2].rstrip(), True
    elif body == "*" or body.endswith((" *", "\t*")):
        body, has_tail = body[:-1].rstrip(), True
    if not body:
        return CommandPattern(text=text, has_tail=True)
    program = _PROGRAM_WITH_A_STAR.match(body)
    # The reader does not accept a pattern as a program, so a placeholder name replaces it.
    reading = read_plain(body if program is None else f"x{body[program.end() :]}")
    if isinstance(reading, NotRead):
        return CommandPattern(text=text, has_tail=has_tail, not_read=reading)
    first = reading.commands[0]
    words = first.words if program is None else (program[0], *first.words[1:])
    stars = _stars(words, first, body, begun)
    if len(reading.commands) == 1:
        return CommandPattern(
            text=text,
            words=words,
            stars=stars,
            has_tail=has_tail,
            line=None if stars or has_tail else reading,
        )
    if has_tail or any(_stars(command.words, command, body, begun) for command in reading.commands):
        raise RuleFault(begun, "a rule must be one simple command, or a whole line without a star")
    return CommandPattern(text=text, line=reading)


def _stars(words: tuple[str, ...], command: PlainCommand, body: str, begun: int) -> tuple[int, ...]:
    places = tuple(
        place for place, word in enumerate(words) if "*" in word and (place in command.patterns or place == 0)
    )
    quoted = next((words[place] for place in places if words[place] not in body), None)
    if quoted is not None:
        raise RuleFault(
            begun, f"a word with a star cannot be quoted: remove the quotes or the star ({quoted!r:.40})"
        )
    return places


# The rules of a list, indexed by tool and by the first word of a command.

IndexedRule: TypeAlias = tuple[int, ReadRule]
"""A rule and its position in its list."""

_MAX_KEPT: Final = 256


@frozen(kw_only=True)
class OfTool:
    """The rules of one list for one tool, in order."""

    rules: tuple[IndexedRule, ...]
    anywhere: tuple[IndexedRule, ...] = ()
    by_program: Mapping[str, tuple[IndexedRule, ...]] = field(factory=dict)
    by_line: Mapping[PlainLine, IndexedRule] = field(factory=dict)

    def about(self, program: str) -> tuple[IndexedRule, ...]:
        """Return the rules that may apply to a program."""
        found = self.by_program.get(program)  # fast path: most names are lower case, without a directory
        return (
            self.by_program.get(program.rpartition("/")[2].lower(), self.anywhere) if found is None else found
        )


class RuleIndex:
    """A list of rules, indexed once. Caches its results per tool, because there are few tools."""

    __slots__ = ("_found", "_many", "_one")

    def __init__(self, rules: Iterable[ReadRule]) -> None:
        self._one: dict[str, list[IndexedRule]] = {}
        self._many: list[IndexedRule] = []
        self._found: dict[str, OfTool] = {}
        for place, rule in enumerate(rules):
            if rule.is_for_many:
                self._many.append((place, rule))
            else:
                self._one.setdefault(rule.tool, []).append((place, rule))

    def of(self, tool: str) -> OfTool:
        found = self._found.get(tool)
        if found is None:
            about_many = [entry for entry in self._many if is_named(entry[1].tool, tool)]
            found = _of_tool(tool, sorted((*self._one.get(tool, ()), *about_many), key=_place))
            # Tool names come from a model: names without rules of their own are not cached.
            if tool in self._one or (found.rules and len(self._found) < _MAX_KEPT):
                self._found[tool] = found
        return found


def is_named(pattern: str, tool: str) -> bool:
    """Return whether a rule's tool, which may be a pattern or a server, is this one."""
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
    """Return the first rule that matches every call."""
    return next((entry for entry in entries if isinstance(entry[1].pattern, AnyCall)), None)
