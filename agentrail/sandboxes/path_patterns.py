"""Patterns of paths: `* ** ? [a-z] {a,b}`, and the rules of `.gitignore`. Pure."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from agentrail.sandboxes.paths import fault_of_path

# A pattern is matched name by name. A single regular expression for a whole path would be shorter, but it would take years
# for some patterns.

MAX_ALTERNATIVES: Final = 256
"""Maximum number of alternatives from `{a,b}`, in total."""

MAX_GLOB_CHARACTERS: Final = 4_096
"""No path is longer."""

MAX_EXPANDED_CHARACTERS: Final = 20_000

_Segments: TypeAlias = tuple["re.Pattern[str] | None", ...]
_ANY_NAME: Final = re.compile(".*", re.DOTALL)


class PatternFault(Exception):
    """An invalid pattern. The text is the reason."""


@frozen(kw_only=True)
class PathPattern:
    """A compiled pattern.

    Attributes:
        alternatives: For each, a name pattern per name, and None for any number of names.
    """

    alternatives: tuple[_Segments, ...]
    is_directory_only: bool

    def matches(self, names: Sequence[str], *, is_directory: bool) -> bool:
        if self.is_directory_only and not is_directory:
            return False
        return any(_fits(segments, names) for segments in self.alternatives)


def compile_pattern(pattern: str) -> PathPattern:
    fault = fault_of_path(pattern, MAX_GLOB_CHARACTERS)
    if fault is not None:
        raise PatternFault(fault)
    if not pattern.strip("/"):
        message = "it is empty"
        raise PatternFault(message)
    if pattern.startswith("/"):
        message = 'it begins with "/", but patterns are relative'
        raise PatternFault(message)
    alternatives = expand_braces(pattern)
    if any(".." in one.split("/") for one in alternatives):
        message = '".." is not allowed'
        raise PatternFault(message)
    return PathPattern(
        alternatives=tuple(compile_names(one) for one in alternatives),
        is_directory_only=pattern.endswith("/"),
    )


def compile_names(pattern: str) -> _Segments:
    """Compile a pattern without `{a,b}`: a name pattern per name, None for `**`."""
    segments = [
        None if one == "**" else _compile_name(one) for one in pattern.split("/") if one not in {"", "."}
    ]
    if segments and segments[-1] is None:
        segments.append(_ANY_NAME)  # paths below, without the directory itself
    return tuple(segments)


def _fits(segments: _Segments, names: Sequence[str]) -> bool:
    """Match like `*` in a text: on a mismatch, the last `**` takes one more name. Earlier ones need no retry."""
    at = here = 0
    last_wild, taken = -1, 0
    while here < len(names):
        segment = segments[at] if at < len(segments) else _NOTHING
        if segment is None:
            last_wild, taken = at, here
            at += 1
        elif segment.fullmatch(names[here]):
            at += 1
            here += 1
        elif last_wild >= 0:
            taken += 1
            at, here = last_wild + 1, taken
        else:
            return False
    return at == len(segments)  # `**` is never last: see compile_names


_NOTHING: Final = re.compile("(?!)")


def _compile_name(pattern: str) -> "re.Pattern[str]":
    fixed = [""]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            if len(fixed) == 1 or fixed[-1]:
                fixed.append("")
        elif character == "?":
            fixed[-1] += "."
        elif character == "\\" and at < len(pattern):
            fixed[-1] += re.escape(pattern[at])
            at += 1
        elif character == "[" and (end := _end_of_class(pattern, at)) is not None:
            fixed[-1] += _character_class(pattern[at:end])
            at = end + 1
        else:
            fixed[-1] += re.escape(character)
    first, *further = fixed
    if further:
        # Each "*" takes as little as possible and never gives back (an atomic group). The first occurrence of the text between two
        # stars is as good as any other, and trying all of them takes years.
        *middle, last = further
        first += "".join(f"(?>.*?{part})" for part in middle) + f".*{last}"
    try:
        return re.compile(first, re.DOTALL)
    except re.error as error:
        message = f"{pattern!r} is not a pattern ({error.msg})"
        raise PatternFault(message) from None


def _end_of_class(pattern: str, start: int) -> int | None:
    """Return the position of the `]` that closes a class. One directly after its beginning is a member."""
    first = start + (pattern[start : start + 1] in {"!", "^"})
    end = pattern.find("]", first + 1)
    return None if end < 0 else end


def _character_class(members: str) -> str:
    negated = members[0] in {"!", "^"}
    chars = members[negated:]
    made: list[str] = []
    at = 0
    while at < len(chars):
        # A hyphen as a member is escaped: `re` warns that two in a row may become an operator.
        if chars[at + 1 : at + 2] == "-" and at + 2 < len(chars):
            made.append(f"{re.escape(chars[at])}-{re.escape(chars[at + 2])}")
            at += 3
        else:
            made.append(re.escape(chars[at]))
            at += 1
    return f"[{'^' if negated else ''}{''.join(made)}]"


def expand_braces(pattern: str) -> tuple[str, ...]:
    done: list[str] = []
    waiting = [(pattern, 0)]
    characters = 0
    while waiting:
        text, start = waiting.pop()
        characters += len(text)
        if len(done) + len(waiting) >= MAX_ALTERNATIVES:
            message = f"its braces expand to more than {MAX_ALTERNATIVES} patterns"
            raise PatternFault(message)
        if characters > MAX_EXPANDED_CHARACTERS:
            message = f"its braces expand to more than {MAX_EXPANDED_CHARACTERS:,} characters"
            raise PatternFault(message)
        found = _first_choice(text, start)
        if found is None:
            done.append(text)
        else:
            start, commas, end = found
            bounds = itertools.pairwise((start, *commas, end))
            waiting += [(f"{text[:start]}{text[a + 1 : b]}{text[end + 1 :]}", start) for a, b in bounds]
    return tuple(done)


def _first_choice(text: str, start: int) -> tuple[int, list[int], int] | None:
    """Return the first braces from `start` that offer a choice: their opening, their commas, and their end."""
    # One look at each character, rather than one per opening brace: there may be thousands of unclosed ones.
    opened: list[tuple[int, list[int]]] = []
    found: tuple[int, list[int], int] | None = None
    for at in range(start, len(text)):
        character = text[at]
        if character == "{":
            opened.append((at, []))
        elif character == "," and opened:
            opened[-1][1].append(at)
        elif character == "}" and opened:
            begin, commas = opened.pop()
            if commas and (found is None or begin < found[0]):
                found = (begin, commas, at)
    return found


# `.gitignore`, after gitignore(5).

FILE_NAME: Final = ".gitignore"

MAX_RULES: Final = 2_000
"""Maximum number of rules of one file, each compared with each path. Later rules are ignored."""

_MAX_LINE_CHARACTERS: Final = 1_024


@frozen(kw_only=True)
class _Rule:
    pattern: PathPattern
    is_exception: bool


@frozen(kw_only=True)
class IgnoreFile:
    directory: tuple[str, ...]
    rules: tuple[_Rule, ...]

    def decide(self, names: Sequence[str], *, is_directory: bool) -> bool | None:
        """Return whether a path is ignored. None if no rule matches."""
        below = names[len(self.directory) :]
        for rule in reversed(self.rules):
            if rule.pattern.matches(below, is_directory=is_directory):
                return not rule.is_exception
        return None


def read_ignore_file(text: str, directory: tuple[str, ...]) -> IgnoreFile:
    """Parse a `.gitignore`. Lines that are not patterns are skipped, as in git."""
    rules = (rule for line in pattern_lines(text) if (rule := _read_line(line)) is not None)
    return IgnoreFile(directory=directory, rules=tuple(itertools.islice(rules, MAX_RULES)))


def pattern_lines(text: str) -> list[str]:
    """Return the lines to parse: the first few thousand, without lines longer than a path."""
    # Half of them may be comments.
    lines = text[: MAX_RULES * _MAX_LINE_CHARACTERS].splitlines()[: 2 * MAX_RULES]
    return [line for line in lines if len(line) <= _MAX_LINE_CHARACTERS]


def is_ignored(files: Iterable[IgnoreFile], names: Sequence[str], *, is_directory: bool) -> bool:
    """Return whether a path is ignored, provided that the directories above it are not."""
    verdicts = (file.decide(names, is_directory=is_directory) for file in files)
    return next((verdict for verdict in verdicts if verdict is not None), False)


def decide_anchored(line: str, directory: Sequence[str]) -> str | None:
    """Rewrite a line so that it has the same meaning in a file at the root."""
    parsed = _parse_line(line)
    if parsed is None:
        return None
    body, is_exception, is_anchored, is_directory_only = parsed
    above = "".join(f"/{_escaped(name)}" for name in directory)
    between = "/" if is_anchored else "/**/"
    return f"{'!' if is_exception else ''}{above}{between}{body}{'/' if is_directory_only else ''}"


def _read_line(line: str) -> _Rule | None:
    parsed = _parse_line(line)
    if parsed is None:
        return None
    body, is_exception, is_anchored, is_directory_only = parsed
    try:
        segments = compile_names(body if is_anchored else f"**/{body}")
    except PatternFault:
        return None
    pattern = PathPattern(alternatives=(segments,), is_directory_only=is_directory_only)
    return _Rule(pattern=pattern, is_exception=is_exception)


def _parse_line(line: str) -> tuple[str, bool, bool, bool] | None:
    """Split a line: the pattern without surrounding slashes, and whether it is an exception, anchored, for directories."""
    if line.startswith("#"):
        return None
    stripped = line.rstrip(" ")
    if stripped.endswith("\\") and stripped != line:
        stripped += " "
    is_exception = stripped.startswith("!")
    body = stripped[is_exception:]
    is_directory_only = body.endswith("/")
    body = body.rstrip("/")
    is_anchored = "/" in body
    body = body.lstrip("/")
    return (body, is_exception, is_anchored, is_directory_only) if body else None


def _escaped(name: str) -> str:
    return "".join(f"\\{character}" if character in "\\*?[]{}! #" else character for character in name)
