"""What becomes of a word: variables, defaults, braces and substitutions, as far as a line says it itself.

Nothing is run and no environment is read, so a part of a word may be unknown; marks stand in its place. A variable keeps every
value that the line gives it, whatever the order: functions, loops and branches need not be followed then.
"""

import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Final

from attrs import define, field, frozen

from agentrail.plugins.shell_words import Unreadable, closing, escaped_end, has_case, quote_end

UNQUOTED: Final = "\ufdd0"
"""Unknown, and perhaps several words."""
UNKNOWN_TEXT: Final = "\ufdd1"
"""Unknown, in one piece."""
FOUND: Final = "\ufdd2"
"""Not known, but found in the world, a name or a number: no option that was made up."""
SPLIT: Final = "\ufdd3"
"""Between two words of a list."""
BLANKS: Final = " \t\n"
"""What cuts words unless the line says otherwise."""
_ENVIRONMENT: Final = re.compile("\ufdd4(\\w+)\ufdd5")
MARKS: Final = re.compile("[\ufdd0-\ufdd5]")

MAX_SHELL_ALTERNATIVES: Final = 8
MAX_EXPANSION_CHARACTERS: Final = 120_000
MAX_BRACES: Final = 64
MAX_NESTED: Final = 16

_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_PARAMETER: Final = re.compile(r"([A-Za-z_]\w*|\d+|[@*#?$!_-])(\[[^\]]*\])?(.*)\Z", re.DOTALL)
_OPERATION: Final = re.compile(r"(:?[-=+?])(.*)\Z", re.DOTALL)
_LITERAL: Final = re.compile(r"[^\\'\"`$]+")
_SPECIAL: Final = re.compile(r"[\\'\"`${},<>]")
_RANGE: Final = re.compile(r"(\w+|-\d+)\.\.(\w+|-\d+)(?:\.\.-?\d+)?\Z")
_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL
)
_PLAIN_ESCAPES: Final = {
    **dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True)),
    **{mark: mark for mark in "\\'\"?"},
}
_GIVEN: Final = {
    "HOME": ("~",),
    "PWD": (".",),
    "SHELL": ("sh",),
    "BASH": ("bash",),
    "0": ("sh",),
    "TMPDIR": ("/tmp",),  # noqa: S108 - a name
    "IFS": (" \t\n",),
    "?": ("0",),
    "$": (FOUND,),
    "!": (FOUND,),
    "#": (FOUND,),
    "-": ("",),
    "_": (UNQUOTED,),
}


class TooMuch(Unreadable):
    """A line makes more of itself than a person reads."""

    def __init__(self) -> None:
        """Say it."""
        super().__init__("it expands to more than can be judged")


@define(kw_only=True)
class Variables:
    """What a line has set so far.

    Attributes:
        values: Each variable with all values that it may have.
        arguments: `$1` and those behind it; None inside a function or where they are not known.
        characters_left: How much more may be read and made. Whatever is looked at is paid from it first, so that no line
            of the longest holds up the sessions of the process: one that runs out of it is not known.
    """

    values: dict[str, tuple[str, ...]] = field(factory=dict)
    arguments: tuple[str, ...] | None = ()
    characters_left: int = MAX_EXPANSION_CHARACTERS

    def add(self, name: str, values: tuple[str, ...]) -> None:
        """Let a variable have these values besides the others; one with too many is unknown."""
        merged = tuple(dict.fromkeys((*self.values.get(name, ()), *values)))
        self.values[name] = merged if len(merged) <= MAX_SHELL_ALTERNATIVES else (UNQUOTED,)

    def spend(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Count what was made.

        Raises:
            TooMuch: It is more than a line may make of itself.
        """
        self.pay(sum(map(len, texts)) + 1)
        return texts

    def pay(self, characters: int) -> None:
        """Take what is about to be looked at from what a line may cost, before it is looked at.

        Raises:
            TooMuch: There is not that much left.
        """
        self.characters_left -= characters
        if self.characters_left < 0:
            raise TooMuch

    def get(self, name: str) -> tuple[str, ...]:
        """Give the values of a variable; one that the line does not set is marked, with its name."""
        if name in self.values:
            return self.values[name]
        if name.isdecimal() and name != "0":
            if self.arguments is None:
                return (UNQUOTED,)
            return self.arguments[int(name) - 1 : int(name)] or ("",) if len(name) <= len("9999") else ("",)
        if name in {"@", "*"}:
            return (UNQUOTED,) if self.arguments is None else (SPLIT.join(self.arguments),)
        return _GIVEN.get(name, (f"\ufdd4{name}\ufdd5",))

    @property
    def separators(self) -> tuple[str, ...]:
        """Each that cuts unquoted values, and joins lists in quotes: the usual blanks, and all that `IFS` may be."""
        return tuple(dict.fromkeys((BLANKS, *self.values.get("IFS", ()))))

    def split(self, value: str) -> Iterator[str]:
        """Cut an unquoted value: one reading for each `IFS` there may be, as any of them may be in force.

        Where `IFS` is not known it may cut anywhere, or nowhere.
        """
        for separator in self.separators:
            if MARKS.search(separator):
                yield UNQUOTED if value else ""
            else:
                yield re.sub(f"[{re.escape(separator)}]+", SPLIT, value) if separator else value

    def join(self, value: str) -> Iterator[str]:
        """Make one text of a list, as `"$*"` does: the first character of `IFS` stands between its words."""
        if SPLIT not in value:
            yield value
            return
        for separator in self.separators:
            yield value.replace(SPLIT, UNKNOWN_TEXT if MARKS.search(separator) else separator[:1])

    def calculate(self, text: str) -> None:
        """Note what an arithmetic sets, as far as it changes how words are cut: `IFS` is a number then."""
        if "IFS" in text:
            self.add("IFS", (UNQUOTED,))


@frozen(kw_only=True)
class Expanded:
    """What may become of a word.

    Attributes:
        alternatives: Each a list of words: none, one or several.
        has_wildcards: Whether a pattern in it is matched against names of files.
    """

    alternatives: tuple[tuple[str, ...], ...]
    has_wildcards: bool = False


@define(kw_only=True)
class Expander:
    """Expands words.

    Attributes:
        variables: What is known.
        substitute: Reads a line that runs while a word is made, and says what kind of text it prints: one of the marks.
        process: Reads one whose output or input has the name of a file, and gives that name.
    """

    variables: Variables
    substitute: Callable[[str], str]
    process: Callable[[str], str]
    _depth: int = 0

    def words(self, raw: str) -> list[Expanded]:
        """Expand a word that may hold braces."""
        return [self.word(one) for one in braces(raw)]

    def word(self, raw: str) -> Expanded:
        """Expand a word; unquoted blanks in the values of variables cut it."""
        reading = self._reading(raw)
        texts = reading.result()
        alternatives = []
        for text in texts:
            pieces = tuple(piece for piece in text.split(SPLIT) if piece)
            alternatives.append(pieces or (("",) if reading.is_quoted and "@" not in raw else ()))
        return Expanded(alternatives=tuple(alternatives), has_wildcards=reading.has_wildcards)

    def text(self, raw: str, *, quoted: bool = True) -> tuple[str, ...]:
        """Expand what is never cut into words: the value of an assignment, a here-document."""
        reading = self._reading(raw, double=quoted, splits=False)
        variables = self.variables
        return tuple(dict.fromkeys(one for text in reading.result() for one in variables.join(text)))

    def cut(self, raw: str) -> tuple[str, ...]:
        """Expand what stands for an unquoted value: all of it is cut, but for what is quoted in it."""
        return self._reading(raw, cuts=True).result()

    def _reading(
        self, raw: str, *, double: bool = False, splits: bool = True, cuts: bool = False
    ) -> "_Reading":
        """Read a word, and what is nested in it."""
        if self._depth >= MAX_NESTED:
            raise TooMuch
        self._depth += 1
        try:
            reading = _Reading(self, splits=splits, cuts=cuts)
            if double:
                reading.double(raw, 0, stop="")
            else:
                reading.read(raw)
            return reading
        finally:
            self._depth -= 1


class _Reading:
    """A word that is being read: all that it may be, so far."""

    def __init__(self, expander: Expander, *, splits: bool, cuts: bool) -> None:
        self.expander = expander
        self.splits = splits
        self.cuts = cuts
        self.parts: list[tuple[str, ...]] = []
        self.is_quoted = False
        self.has_wildcards = False

    def result(self) -> tuple[str, ...]:
        count = 1
        for part in self.parts:
            count *= len(part)
            if count > MAX_SHELL_ALTERNATIVES:
                return (UNQUOTED,)
        return self.expander.variables.spend(tuple(map("".join, product(*self.parts))))

    def add(
        self, values: tuple[str, ...], *, quoted: bool, is_list: bool = False, cut: tuple[str, ...] = ()
    ) -> None:
        """Add what a variable or a substitution gives; unquoted, its blanks or what `IFS` says cut the word."""
        variables = self.expander.variables
        if quoted:
            self.is_quoted = True
            if not is_list:  # in quotes a list stays several words, and anything else one
                values = tuple(value.replace(UNQUOTED, UNKNOWN_TEXT) for value in values)
                values = tuple(dict.fromkeys(one for value in values for one in variables.join(value)))
        else:
            if self.splits:
                values = tuple(dict.fromkeys(one for value in values for one in variables.split(value)))
                values = tuple(dict.fromkeys((*values, *cut)))
            self.has_wildcards = self.has_wildcards or any(set(value) & set("*?[") for value in values)
        self.parts.append(variables.spend(values))

    def read(self, raw: str) -> None:
        at = 0
        while at < len(raw):
            char = raw[at]
            if (literal := _LITERAL.match(raw, at)) is not None:
                self.has_wildcards = self.has_wildcards or not set(literal[0]).isdisjoint("*?[")
                at = self._literal(raw, at, literal)
            elif char == "\\":
                if raw[at + 1 : at + 2] != "\n":
                    self._quote(raw[at + 1 : at + 2])
                at += 2
            elif char == "'":
                end = quote_end(raw, at + 1)
                self._quote(raw[at + 1 : end])
                at = end + 1
            elif char == '"':
                self.is_quoted = True
                at = self.double(raw, at + 1, stop='"') + 1
            elif raw.startswith("$'", at):
                end = escaped_end(raw, at + 2)
                self._quote(unescaped(raw[at + 2 : end]))
                at = end + 1
            elif raw.startswith('$"', at):
                at += 1
            else:
                at = self._special(raw, at, quoted=False)

    def _literal(self, raw: str, at: int, literal: re.Match[str]) -> int:
        if not self.parts and literal[0].startswith(("<(", ">(")):
            end = closing(raw, at + 2, ")")
            self._quote(self.expander.process(_substituted(raw[at + 2 : end])))
            return end + 1
        variables = self.expander.variables
        values = tuple(dict.fromkeys(variables.split(literal[0]))) if self.cuts else (literal[0],)
        self.parts.append(variables.spend(values))
        return literal.end()

    def _quote(self, text: str) -> None:
        self.is_quoted = True
        self.parts.append(self.expander.variables.spend((text,)))

    def double(self, raw: str, at: int, *, stop: str) -> int:
        """Read what stands in double quotes, up to the mark that ends them; give its place."""
        plain = re.compile(rf"[^\\`${stop}]+")
        while at < len(raw) and raw[at] != stop:
            if (literal := plain.match(raw, at)) is not None:
                self._quote(literal[0])
                at = literal.end()
            elif raw[at] == "\\":
                following = raw[at + 1 : at + 2]
                self._quote(
                    {"\n": ""}.get(following, following) if following in '$`"\\\n' else f"\\{following}"
                )
                at += 2
            else:
                at = self._special(raw, at, quoted=True)
        return at

    def _special(self, raw: str, at: int, *, quoted: bool) -> int:
        """Read a variable or a substitution."""
        variables = self.expander.variables
        if raw[at] == "`":
            end = closing(raw, at + 1, "`")
            inner = re.sub(r"\\([\\`$])", r"\1", raw[at + 1 : end])
            # A line is joined even in single quotes here, and in double quotes a backslash hides a quote from those outside.
            lines = [inner, inner.replace("\\\n", "")]
            lines += [one.replace('\\"', '"') for one in lines] if quoted else []
            self.add(tuple(map(self.expander.substitute, dict.fromkeys(lines))), quoted=quoted)
            return end + 1
        if raw.startswith("$((", at) or raw.startswith("$[", at):
            if raw[at + 1] == "[":
                end, inner = _bracket(raw, at + 2)
            else:
                end = closing(raw, at + 3, "a")
                inner, end = raw[at + 3 : end], end + 1
            if raw.startswith("$[", at) or raw.startswith(")", end):
                variables.calculate(inner)
                self.expander.text(inner)
                self.add((FOUND,), quoted=quoted)
                return end + 1
        if raw.startswith("$(", at):
            end = closing(raw, at + 2, ")")
            self.add((self.expander.substitute(_substituted(raw[at + 2 : end])),), quoted=quoted)
            return end + 1
        if raw.startswith("${", at):
            end = closing(raw, at + 2, "}")
            self._parameter(raw[at + 2 : end], quoted=quoted)
            return end + 1
        if (name := _NAME.match(raw, at + 1)) is not None:
            self.add(variables.get(name[0]), quoted=quoted, is_list=name[0] == "@")
            return name.end()
        self._quote(raw[at])
        return at + 1

    def _parameter(self, inner: str, *, quoted: bool) -> None:
        """Read what stands in `${…}`."""
        variables = self.expander.variables
        found = _PARAMETER.match(inner)
        if (inner[:1] in {"#", "!"} and len(inner) > 1) or found is None:
            self.expander.text(inner)
            self.add((FOUND if inner[:1] == "#" else UNQUOTED,), quoted=quoted)
            return
        name, subscript, rest = found.groups()
        values = variables.get(name)
        if subscript is not None:
            variables.calculate(subscript)
            self.expander.text(subscript)
            values = values if subscript in {"[@]", "[*]"} else (UNQUOTED,)
        cut: tuple[str, ...] = ()
        operation = _OPERATION.match(rest)
        if operation is not None:
            # In double quotes a single quote hides nothing.
            other = self.expander.text(operation[2], quoted=quoted)
            other = tuple(text.replace('"', "") for text in other) if quoted else other
            if operation[1][-1] == "?":
                other = ()
            elif self.splits and not quoted:
                cut = self.expander.cut(operation[2])
            if operation[1][-1] == "=":
                variables.add(name, other)
            is_set = name in variables.values or operation[1][-1] == "?"
            kept = ("",) if operation[1][-1] == "+" else values if is_set else ()
            values = (*kept, *other)
        elif rest:
            variables.calculate(rest)
            self.expander.text(rest)
            is_made_up = rest[0] == "@" or any(
                set(value) & {"-", UNQUOTED, UNKNOWN_TEXT} for value in (*values, rest)
            )
            values = (UNQUOTED if is_made_up else FOUND,)
        self.add(values, quoted=quoted, is_list=name == "@" or subscript == "[@]", cut=cut)


def _substituted(inner: str) -> str:
    if has_case(inner):
        message = "where a substitution with `case` in it ends cannot be told"
        raise Unreadable(message)
    return inner


def _bracket(raw: str, at: int) -> tuple[int, str]:
    end = raw.find("]", at)
    end = len(raw) if end < 0 else end
    return end, raw[at:end]


def in_environment(text: str) -> Iterator[str]:
    """Give the names of the variables in a word that the line does not set."""
    return (found[1] for found in _ENVIRONMENT.finditer(text))


def without_environment(text: str) -> str:
    """Give a word as it is where its variables are not set."""
    return _ENVIRONMENT.sub("", text)


def with_environment(text: str) -> str:
    """Give a word as it was written, where its variables stand for what is not known."""
    return _ENVIRONMENT.sub(r"$\1", text)


# --- braces


def braces(raw: str) -> list[str]:
    """Carry out `{a,b}` and `{1..3}`, which comes first and knows no values.

    Raises:
        TooMuch: More words come of it than a person writes.
    """
    done: list[str] = []
    left = [raw]
    while left:
        word = left.pop()
        found = _brace(word) if "{" in word else None
        if found is None:
            done.append(word)
            continue
        begun, end, items = found
        left += [f"{word[:begun]}{item}{word[end + 1 :]}" for item in reversed(items)]
        if len(done) + len(left) > MAX_BRACES:
            raise TooMuch
    return done


def _brace(word: str) -> tuple[int, int, list[str]] | None:
    """Find the first brace that makes several words of one: its two places, and what stands in it."""
    opened: list[tuple[int, list[int]]] = []
    best: tuple[int, int, list[str]] | None = None
    at = 0
    while (found := _SPECIAL.search(word, at)) is not None:
        at, char = found.start(), found[0]
        if char == "{":
            opened.append((at, []))
            at += 1
        elif char == "," and opened:
            opened[-1][1].append(at)
            at += 1
        elif char == "}" and opened:
            begun, commas = opened.pop()
            items = _items(word, begun, at, commas)
            if items and (best is None or begun < best[0]):
                best = (begun, at, items)
                # The first that stands alone: what comes behind it is read when it is its turn.
                if not opened:
                    return best
            at += 1
        else:
            at = _past(word, at)
    return best


def _items(word: str, begun: int, end: int, commas: list[int]) -> list[str]:
    if commas:
        places = [begun, *commas, end]
        return [word[left + 1 : right] for left, right in pairwise(places)]
    sequence = _RANGE.match(word[begun + 1 : end])
    if sequence is None:
        return []
    first, last = sequence[1], sequence[2]
    is_number = all(one.lstrip("-").isdecimal() and len(one) < len("-100000") for one in (first, last))
    low, high = sorted(map(int, (first, last))) if is_number else sorted(map(ord, (first[0], last[0])))
    # Numbers and letters: what stands between the ends is no other program.
    if high - low >= MAX_SHELL_ALTERNATIVES:
        return [first, last]
    return [str(one) if is_number else chr(one) for one in range(low, high + 1)]


def _past(word: str, at: int) -> int:
    """Give the place behind a quote, a variable or a substitution."""
    char, following = word[at], word[at + 1 : at + 2]
    if char == "\\":
        return at + 2
    if char == "'":
        return quote_end(word, at + 1) + 1
    if char in '"`':
        return closing(word, at + 1, char) + 1
    if following == "(" or (char == "$" and following == "{"):
        return closing(word, at + 2, {"(": ")", "{": "}"}[following]) + 1
    if char == "$" and following == "'":
        return escaped_end(word, at + 2) + 1
    return at + 1


# --- escapes


def unescaped(text: str) -> str:
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
