"""The lexer behind `shell_lines`: words, operators, redirections and here-documents of a command line, as bash cuts them.

Not `shlex`: it cannot say whether `$(…)` stood in single quotes, where it is text, or in double quotes, where it runs, and it
knows neither here-documents nor where a comment ends. Each function looks at each character once; nothing is expanded here.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from attrs import frozen

MAX_DOUBLED: Final = 50

_OPERATOR: Final = re.compile(r"\n|;;&|;;|;&|;|&&|&|\|\||\|&|\||\(|\)")
_REDIRECTION: Final = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\()|&>>|&>)")
_BLANK: Final = re.compile(r"(?:[ \t\r]|\\\n)+")
_PLAIN: Final = re.compile(r"[^ \t\r\n\\'\"`$;&|()<>]+")  # a shell takes no other blank for one
_MARK: Final = re.compile(r"[\\'\"`$(){}#<\n]")
_ARRAY: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=\Z")
_HERE: Final = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^']*'|\"[^\"]*\"|[^\s;&|()<>'\"\\])+)", re.DOTALL)
_QUOTES: Final = re.compile(r"['\"\\]")
_LINE_IN_BRACES: Final = (" ", "\t", "\n", "|")
_IN_BRACES: Final = "a line in `${ …; }` is in it, whose end only newer shells know"
_BEFORE_A_COMMENT: Final = frozenset(" \t\n;&|(")


class Unreadable(Exception):
    """What a shell would make of a line cannot be told; the words say why."""


@frozen
class ShellWord:
    """A word as it was written, with its quotes."""

    raw: str


@frozen
class Operator:
    """An operator: `;`, `|`, `&&`, a parenthesis, or the end of a line."""

    text: str


@frozen
class Redirection:
    """A redirection.

    Attributes:
        kind: `<`, `>>`, `<<<`, `<<` …
        target: The word behind it; of a here-document the text.
        expands: Whether variables and substitutions in a here-document are carried out.
    """

    kind: str
    target: str
    expands: bool = True


ShellToken: TypeAlias = ShellWord | Operator | Redirection


def shell_tokens(line: str) -> Iterator[ShellToken]:
    """Cut a line into tokens, in order; a here-document comes in the place of its `<<`.

    Raises:
        Unreadable: A here-document has no end, so it is not known where commands go on.
    """
    at = doubled = 0
    bodies = _Bodies(line)
    while at < len(line):
        doubled += line.startswith("((", at)
        if doubled > MAX_DOUBLED:  # whether one is an arithmetic is known at its end: each is looked for
            message = f"more than {MAX_DOUBLED} double parentheses are in it"
            raise Unreadable(message)
        if (blank := _BLANK.match(line, at)) is not None:
            at = blank.end()
        elif line[at] == "#":
            comment_end = line.find("\n", at)
            at = len(line) if comment_end < 0 else comment_end
        elif (found := _REDIRECTION.match(line, at)) is not None:
            token, at = _redirection(line, found, bodies)
            yield token
        elif line.startswith("((", at) and (end := _arithmetic_end(line, at)) is not None:
            # A command of its own, also behind `for` and in front of `then`, where nothing else divides it from them.
            yield from (
                Operator(";"),
                ShellWord("let"),
                ShellWord(f"$(({line[at + 2 : end - 2]}))"),
                Operator(";"),
            )
            at = end
        elif (operator := _OPERATOR.match(line, at)) is not None:
            yield Operator(operator[0])
            at = bodies.behind(operator.end()) if operator[0] == "\n" else operator.end()
        else:
            word_end = _word_end(line, at)
            yield ShellWord(line[at:word_end])
            at = word_end


class _Bodies:
    """The here-documents of a line: where each stands, found one after the other as bash reads them."""

    def __init__(self, line: str, read_to: int = 0) -> None:
        self.line = line
        self._read_to = read_to
        self._line_ends_at = -1

    def take(self, at: int, delimiter: str, *, strip: bool) -> str:
        """Read the document of a `<<` that ends here."""
        if at > self._line_ends_at:  # several may begin on one line, which is read once
            self._line_ends_at = _line_end(self.line, at)
        start = max(self._read_to, self._line_ends_at + 1)
        begun = start
        while start < len(self.line):
            end = self.line.find("\n", start)
            end = len(self.line) if end < 0 else end
            text = self.line[start:end]
            if (text.lstrip("\t") if strip else text) == delimiter:
                self._read_to = end + 1
                return self.line[begun:start]
            start = end + 1
        message = f"the here-document {delimiter!r} has no end"
        raise Unreadable(message)

    def behind(self, at: int) -> int:
        """Give where the line goes on behind a line break: after the documents that stand there."""
        return max(at, self._read_to)


def _redirection(line: str, found: re.Match[str], bodies: _Bodies) -> tuple[Redirection, int]:
    blank = _BLANK.match(line, found.end())
    at = blank.end() if blank is not None else found.end()
    end = _word_end(line, at)
    target = line[at:end]
    if found[1] not in {"<<", "<<-"}:
        return Redirection(found[1], target), end
    delimiter = _QUOTES.sub("", target)
    text = bodies.take(end, delimiter, strip=found[1] == "<<-")
    return Redirection("<<", text, expands=delimiter == target), end


def _line_end(line: str, at: int) -> int:
    """Find where the line ends on which something stands, over what is quoted or substituted."""
    while at < len(line) and line[at] != "\n":
        at = _step(line, at) if line[at] in "\\'\"`$" else at + 1
    return at


def _word_end(line: str, at: int) -> int:
    begun = at
    while at < len(line):
        if (plain := _PLAIN.match(line, at)) is not None:
            at = plain.end()
        elif line[at] in "\\'\"`$":
            at = _step(line, at)
        elif line[at] == "(" and _ARRAY.match(line[begun:at]):
            at = closing(line, at + 1, ")") + 1
        elif at == begun and line[at : at + 2] in {"<(", ">("}:
            at = closing(line, at + 2, ")") + 1
        else:
            break
    return min(at, len(line))


def _step(line: str, at: int) -> int:
    """Give the place behind what begins here with a backslash, a quote or a dollar sign."""
    char, following = line[at], line[at + 1 : at + 2]
    if char == "\\":
        return at + 2
    if char == "'":
        return quote_end(line, at + 1) + 1
    if char in '"`':
        return closing(line, at + 1, char) + 1
    if following == "'":
        return escaped_end(line, at + 2) + 1
    if following in {"(", "{"}:
        if line.startswith("$((", at) and (end := _arithmetic_end(line, at + 1)) is not None:
            return end
        return closing(line, at + 2, {"(": ")", "{": "}"}[following]) + 1
    return at + 1


def _arithmetic_end(line: str, at: int) -> int | None:
    """Give the place behind `((…))`; None where these are two subshells, one in the other."""
    end = closing(line, at + 2, "a")
    if end == len(line):
        message = "a parenthesis is never closed"
        raise Unreadable(message)
    return end + 2 if line.startswith("))", end) else None


def quote_end(line: str, at: int) -> int:
    """Find a single quote; a line that lacks it ends there."""
    end = line.find("'", at)
    return len(line) if end < 0 else end


def escaped_end(line: str, at: int) -> int:
    """Find the end of `$'…'`, over escaped quotes."""
    while at < len(line) and line[at] != "'":
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def closing(line: str, at: int, mark: str) -> int:
    """Find what closes a substitution or a quote, over all that is nested in it; without recursion.

    Args:
        line: Where.
        at: The place behind what opened it.
        mark: `)` of a substitution, `}` of a parameter, `"`, a backquote, or `a` for the parenthesis of an arithmetic.

    Returns:
        Its place; the length of the line where there is none.

    Raises:
        Unreadable: A here-document in it has no end, or it holds a line in braces.
    """
    if mark == "}" and line.startswith(_LINE_IN_BRACES, at):
        raise Unreadable(_IN_BRACES)
    stack = [mark]
    here: list[tuple[str, bool]] = []
    while (found := _MARK.search(line, at)) is not None:
        at, char, top = found.start(), found[0], stack[-1]
        at += 1
        if char == "\\":
            at += 1
        elif char == top or (char == ")" and top == "a"):
            stack.pop()
            if not stack:
                return at - 1
        elif top == "`":
            pass  # nothing is nested in it but escaped backquotes, and quotes do not hide its end
        elif char == "`":
            stack.append("`")
        elif char == "$" and line[at : at + 1] in {"(", "{"}:
            opens = line[at]
            if opens == "{" and line.startswith(_LINE_IN_BRACES, at + 1):
                raise Unreadable(_IN_BRACES)
            stack.append("}" if opens == "{" else "a" if line.startswith("((", at) else ")")
            at += 1
        elif char == '"':
            stack.append('"')
        elif top == '"' or (top == "}" and '"' in stack):
            pass  # in double quotes a single quote, a parenthesis and a `#` are text
        elif char == "'":
            is_escaped = line[at - 2 : at - 1] == "$"
            at = (escaped_end(line, at) if is_escaped else quote_end(line, at)) + 1
        elif char == "(" and top in {")", "a"}:
            stack.append(top)
        elif top == ")":
            at = _in_a_substitution(line, at, char, here)
    return len(line)


_CASE: Final = re.compile(r"(?:^|[\s;&|(])case\s")


def _in_a_substitution(line: str, at: int, char: str, here: list[tuple[str, bool]]) -> int:
    """Step over a comment, or over here-documents, which may hold any quote and parenthesis."""
    if char == "#" and line[at - 2 : at - 1] in _BEFORE_A_COMMENT:
        end = line.find("\n", at)
        return len(line) if end < 0 else end
    if char == "<" and not line.startswith("<<", at) and line[at - 2 : at - 1] != "<":
        found = _HERE.match(line, at - 1)
        if found is not None:
            here.append((_QUOTES.sub("", found[2]), bool(found[1])))
            return found.end()
    if char == "<" and line.startswith("<<", at):
        return at + 2  # a here-string
    if char == "\n" and here:
        bodies = _Bodies(line, read_to=at)
        for delimiter, strip in here:
            bodies.take(at - 1, delimiter, strip=strip)
        here.clear()
        return bodies.behind(at)
    return at


def has_case(line: str) -> bool:
    """Say whether `case` is in what stood in a substitution: then its end may be elsewhere than it seems."""
    return _CASE.search(line) is not None
