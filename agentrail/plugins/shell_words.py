"""The lexer behind `shell_lines`: words and operators of a command line, with quotes, variables and substitutions.

Not `shlex`: it cannot say whether `$(…)` stood in single quotes, where it is text, or in double quotes, where it runs.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

Substitution: TypeAlias = str
"""A command line that runs while a word is made."""

_OPERATORS: Final = re.compile(r"\n|;;?&?|&&?|\|\|?&?|\(|\)")
_REDIRECTION: Final = re.compile(r"&>>?|\d*(?:<<<|<<-?|<>|<&|>>|>\||>&|<|>)")
_VARIABLE: Final = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-=]([^{}]*))?\})"
)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL
)
_PLAIN_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{mark: mark for mark in "\\'\"?"},
}
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


@frozen(kw_only=True)
class WordToken:
    """A word.

    Attributes:
        words: What becomes of it: one word, or several where an unquoted variable or a brace holds more.
        substitutions: Command lines that run while it is made.
        is_quoted: Whether any of it stood in quotes.
        is_opaque: Whether a part of it is not known before it runs.
        assigns: The variable that it sets, where it stands in front of a command.
    """

    words: tuple[str, ...]
    substitutions: tuple[Substitution, ...] = ()
    is_quoted: bool = False
    is_opaque: bool = False
    assigns: str | None = None

    @property
    def text(self) -> str:
        """All of it as one text."""
        return " ".join(self.words)


Token: TypeAlias = WordToken | str
"""A word, `<` or `>` for any redirection, or another operator."""


@frozen(kw_only=True)
class _Reader:
    """The state of the lexer in a word that it is reading."""

    line: str
    known: Mapping[str, str]
    text: list[str] = field(factory=list)
    inner: list[str] = field(factory=list)
    marks: set[str] = field(factory=set)

    def word(self, at: int) -> int:
        """Read a word from here; give the place behind it."""
        line = self.line
        while at < len(line):
            char = line[at]
            if char in " \t\r\n;&|()<>":
                break
            if char == "\\":
                if line[at + 1 : at + 2] != "\n":
                    self._add(line[at + 1 : at + 2], quoted=True)
                at += 2
            elif char == "'":
                end = _end(line, "'", at + 1)
                self._add(line[at + 1 : end], quoted=True)
                at = end + 1
            elif char == '"':
                at = self._double(at + 1)
            elif line.startswith("$'", at):
                end = at + 2
                while end < len(line) and line[end] != "'":
                    end += 2 if line[end] == "\\" else 1
                self._add(_unescaped(line[at + 2 : end]), quoted=True)
                at = end + 1
            else:
                at = self._special(at, quoted=False)
        return at

    def _double(self, at: int) -> int:
        line = self.line
        self.marks.add("quoted")
        while at < len(line) and line[at] != '"':
            if line[at] == "\\" and line[at + 1 : at + 2] in {"$", "`", '"', "\\", "\n"}:
                self._add(line[at + 1 : at + 2].strip("\n"), quoted=True)
                at += 2
            else:
                at = self._special(at, quoted=True)
        return at + 1

    def _special(self, at: int, *, quoted: bool) -> int:
        """Read a character, a variable or a substitution."""
        line = self.line
        if line.startswith("$(", at):
            end = _closing(line, at + 2)
            self.inner.append(line[at + 2 : end])
            self.marks.add("opaque")
            return end + 1
        if line[at] == "`":
            end = _end(line, "`", at + 1)
            self.inner.append(line[at + 1 : end].replace("\\`", "`"))
            self.marks.add("opaque")
            return end + 1
        if (found := _VARIABLE.match(line, at)) is not None:
            default: str | None = found[3]
            value = self.known.get(found[1] or found[2], default)
            self._add(found[0] if value is None else value, quoted=quoted)
            return found.end()
        if line.startswith("${", at):  # a form that cuts or replaces: who knows what is left
            self.marks.add("opaque")
        self._add(line[at], quoted=quoted)
        return at + 1

    def _add(self, text: str, *, quoted: bool) -> None:
        if quoted:
            self.marks.add("quoted")
            text = text.replace(" ", "\0")  # a quoted blank separates nothing; see `token`
        self.text.append(text)

    def token(self, assigns: str | None) -> WordToken:
        """Make a token of what was read."""
        text = "".join(self.text)
        if "quoted" not in self.marks:
            text = _BRACES.sub(lambda found: found[1].replace(",", " "), text)
        words = tuple(word.replace("\0", " ") for word in text.split(" ") if word)
        return WordToken(
            words=words or (("",) if "quoted" in self.marks else ()),
            substitutions=tuple(self.inner),
            is_quoted="quoted" in self.marks,
            is_opaque="opaque" in self.marks,
            assigns=assigns,
        )


def tokens_of(line: str, known: Mapping[str, str]) -> Iterator[Token]:
    """Cut a line into tokens, one after the other, so that what becomes known on the way counts for what follows."""
    at = 0
    while at < len(line):
        if line[at] in " \t\r" or line.startswith("\\\n", at):
            at += 2 if line[at] == "\\" else 1
        elif (found := _REDIRECTION.match(line, at)) is not None:
            yield "<" if "<" in found[0] else ">"
            at = found.end()
            if found[0].endswith("&") or line.startswith("(", at):  # `2>&1` has no file, `<(…)` is a subshell
                at += len(_leading(line[at:]))
        elif (found := _OPERATORS.match(line, at)) is not None:
            yield found[0]
            at = found.end()
        else:
            sets = _ASSIGNMENT.match(line, at)
            reader = _Reader(line=line, known=known)
            at = reader.word(at)
            yield reader.token(sets[1] if sets else None)


def _leading(rest: str) -> str:
    found = re.match(r"[\d-]+", rest)
    return found[0] if found else ""


def _end(line: str, quote: str, at: int) -> int:
    """Find a closing quote; a line that lacks it ends there."""
    while at < len(line) and line[at] != quote:
        at += 2 if quote == "`" and line[at] == "\\" else 1
    return at


def _unescaped(text: str) -> str:
    """Read what stands in `$'…'`, which bash ends at a NUL."""
    return _ESCAPE.sub(_character, text).partition("\0")[0]


def _character(escape: re.Match[str]) -> str:
    octal, hexadecimal, control, other = escape.groups()
    if control is not None:
        return chr(ord(control) & 0x1F)
    if other is not None:
        return _PLAIN_ESCAPES.get(other, f"\\{other}")
    number = int(octal, 8) & 0xFF if octal is not None else int(hexadecimal[1:], 16)
    return chr(number) if number <= sys.maxunicode else ""


def _closing(line: str, at: int) -> int:
    """Find the parenthesis that closes a substitution, over quotes and other parentheses."""
    depth = 1
    while at < len(line):
        match line[at]:
            case "\\":
                at += 1
            case "'":
                at = _end(line, "'", at + 1)
            case "(":
                depth += 1
            case ")":
                depth -= 1
                if depth == 0:
                    return at
            case _:
                pass
        at += 1
    return at
