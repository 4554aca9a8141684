"""`.gitignore`: which paths git would not look at, after gitignore(5). Pure."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import frozen

from agentrail.sandboxes.globbing import PathPattern, PatternFault, compile_names

FILE_NAME: Final = ".gitignore"

MAX_RULES: Final = 2_000
"""Of one file; each is asked about each path. What stands behind them is left out."""

_MAX_LINE_CHARACTERS: Final = 1_024


@frozen(kw_only=True)
class _Rule:
    pattern: PathPattern
    is_exception: bool


@frozen(kw_only=True)
class IgnoreFile:
    """The rules of one file.

    Attributes:
        directory: The names of the directory in which it stands.
        rules: In its order; the last that fits decides.
    """

    directory: tuple[str, ...]
    rules: tuple[_Rule, ...]

    def decide(self, names: Sequence[str], *, is_directory: bool) -> bool | None:
        """Tell whether a path is ignored; None when no rule is about it."""
        below = names[len(self.directory) :]
        for rule in reversed(self.rules):
            if rule.pattern.matches(below, is_directory=is_directory):
                return not rule.is_exception
        return None


def read_ignore_file(text: str, directory: tuple[str, ...]) -> IgnoreFile:
    """Read the text of a `.gitignore`; lines that are no pattern are left out, as git does."""
    rules = (rule for line in pattern_lines(text) if (rule := _read_line(line)) is not None)
    return IgnoreFile(directory=directory, rules=tuple(itertools.islice(rules, MAX_RULES)))


def pattern_lines(text: str) -> list[str]:
    """Give the lines of a file that are read: the first few thousand, and none that is longer than a path."""
    # Half of them may be comments.
    lines = text[: MAX_RULES * _MAX_LINE_CHARACTERS].splitlines()[: 2 * MAX_RULES]
    return [line for line in lines if len(line) <= _MAX_LINE_CHARACTERS]


def is_ignored(files: Iterable[IgnoreFile], names: Sequence[str], *, is_directory: bool) -> bool:
    """Tell whether a path is ignored, given that the directories above it are not.

    Args:
        files: From the nearest directory up to the root: the nearest that says anything decides.
        names: From the root to the path.
        is_directory: What it is.
    """
    verdicts = (file.decide(names, is_directory=is_directory) for file in files)
    return next((verdict for verdict in verdicts if verdict is not None), False)


def decide_anchored(line: str, directory: Sequence[str]) -> str | None:
    """Rewrite a line so that it means the same in a file at the root.

    Returns:
        The line; None when it is a comment, empty, or no pattern.
    """
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
    """Take a line apart: the pattern without slashes around it, and whether it is an exception, anchored, of directories."""
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
