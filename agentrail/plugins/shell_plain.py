"""Parser for plain commands: lines for which the commands and words that a shell would run are certain.

The only reader of command lines, used by permissions, guards, approvals and their previews. A command that a reader
overlooks would run, so this one accepts little and stops at everything else. It accepts plain words, quotes without
expansion, `&&`, `||`, `;`, `|`, newlines, `2>&1` and `/dev/null`. bash splits an accepted line into the same commands and
words. A rejected line is not judged by its words: it needs approval.

Add only syntax that is certain, and no knowledge of programs beyond the four wrappers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

MAX_PLAIN_CHARACTERS: Final = 10_000

_PIECE: Final = r"(?:[A-Za-z0-9_./:@%+,^=*?\[\]-]+|(?<=[A-Za-z0-9_])~|'[^']*'|\"[^\"$`\\!]*\")+"
_TOKEN: Final = re.compile(
    r"[ \t]*(?:"
    # The lookahead: text directly after a redirection would be part of its word.
    r"(?P<quiet>2>&1(?=[ \t\n;|&]|\Z)|(?:[12]?>>?|<)[ \t]*/dev/null(?=[ \t\n;|&]|\Z))"
    rf"|(?P<word>{_PIECE})"
    r"|(?P<mark>&&|\|\|(?!\|)|\|(?![|&])|;(?![;&])|\n)"
    r"|(?P<end>\Z)"
    r")"
)
_QUOTED: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_KEYWORDS: Final = frozenset(
    "if then elif else fi for in while until do done case esac select function time coproc".split()  # noqa: SIM905 - as a list it would fill a page
)
_LEAVES_OPEN: Final = frozenset({"&&", "||", "|"})
_TIME: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_NICE: Final = re.compile(r"-n?-?[0-9]+|--adjustment=-?[0-9]+")
_NUMBER: Final = re.compile(r"-?[0-9]+")
_MODE: Final = re.compile(r"-[ioe](?:L|[0-9]+[KMG]?)")
_SIGNAL: Final = re.compile(r"[A-Z0-9]+")
_WHY_NOT: Final = (
    ("$`", "an expansion, whose value is known only at run time"),
    ("\\", "a backslash"),
    ("(){}", "a group, a function or braces"),
    ("&", "a command in the background"),
    ("<>", "a redirection that is not 2>&1 and not /dev/null"),
    ("#", "a comment"),
    ("!", "a negation, or the history of a shell"),
    ("~", "a user's home directory"),
    ("'\"", "a quote with an expansion, or without an end"),
    (";|", "an operator that is not && || ; or |"),
)


@frozen
class PlainCommand:
    """A simple command that is certain.

    Attributes:
        behind: Position of the program that `timeout`, `nice`, `nohup` and `stdbuf` run. 0 without those.
    """

    words: tuple[str, ...]
    patterns: tuple[int, ...] = ()
    behind: int = 0

    @property
    def run(self) -> tuple[str, ...]:
        return self.words[self.behind :] if self.behind else self.words


@frozen
class PlainLine:
    commands: tuple[PlainCommand, ...]
    joints: tuple[str, ...] = ()


@frozen
class NotRead:
    """A line that is not certain.

    Attributes:
        at: Character position at which reading stopped, from 0.
    """

    at: int
    why: str


PlainReading: TypeAlias = PlainLine | NotRead


@lru_cache(maxsize=512)
def read_plain(line: str) -> PlainReading:
    if len(line) > MAX_PLAIN_CHARACTERS:
        return NotRead(MAX_PLAIN_CHARACTERS, f"more than {MAX_PLAIN_CHARACTERS:,} characters")
    if (at := _unprintable(line)) is not None:
        return NotRead(at, f"the character U+{ord(line[at]):04X}, which is invisible")
    return _read(line)


def read_words(words: Sequence[str]) -> PlainReading:
    """Parse an argument vector. No shell reads it, so its words are literal."""
    if sum(map(len, words)) > MAX_PLAIN_CHARACTERS:
        return NotRead(MAX_PLAIN_CHARACTERS, f"more than {MAX_PLAIN_CHARACTERS:,} characters")
    if not words or not _PROGRAM.fullmatch(words[0]):
        return NotRead(0, "a quoted or unusual name of a program")
    given = list(words)
    return PlainLine((PlainCommand(tuple(given), (), _behind(given, given, [])),))


def _read(line: str) -> PlainReading:
    commands: list[PlainCommand] = []
    joints: list[str] = []
    raws: list[str] = []
    joint = kind = ""
    at = first_at = 0
    is_quiet = False
    while (found := _TOKEN.match(line, at)) is not None:
        before, kind, came = at, found.lastgroup or "", kind
        begun, at = found.start(kind), found.end()
        if kind == "word":
            first_at = first_at if raws else begun
            raws.append(found["word"])
            continue
        if kind == "quiet":
            is_quiet = True
            # In `22>/dev/null`, the digits are a file descriptor rather than a word.
            if came == "word" and begun == before and raws[-1].isdigit():
                return NotRead(begun, "a redirection of another descriptor")
            continue
        mark = found["mark"] or ""
        if raws:
            made = _command(raws, first_at)
            if isinstance(made, NotRead):
                return made
            if commands:
                joints.append(joint)
            commands.append(made)
            raws, joint = [], ";" if mark == "\n" else mark
        elif is_quiet or mark not in {"\n", ""}:
            return NotRead(begun, "there is no command before this")
        is_quiet = False
        if kind == "end":
            if not commands or joint in _LEAVES_OPEN:
                return NotRead(begun, "the end, where a command is expected")
            return PlainLine(tuple(commands), tuple(joints))
    while line[at] in " \t":
        at += 1
    return NotRead(at, next((why for marks, why in _WHY_NOT if line[at] in marks), f"{line[at]!r}"))


def _command(raws: list[str], first_at: int) -> PlainCommand | NotRead:
    program = raws[0]
    if not _PROGRAM.fullmatch(program):
        why = "an assignment" if "=" in program else "a quoted or unusual name of a program"
        return NotRead(first_at, f"{why}, {program!r:.60}")
    if program in _KEYWORDS:
        return NotRead(first_at, f"{program!r}, a reserved word of the shell")
    words: list[str] = []
    patterns: list[int] = []
    for place, raw in enumerate(raws):
        if "'" in raw or '"' in raw:
            words.append(_QUOTED.sub(lambda found: found[1] or found[2] or "", raw))
            bare = _QUOTED.sub("", raw)
        else:
            words.append(raw)
            bare = raw
        if "*" in bare or "?" in bare or "[" in bare:
            patterns.append(place)
    return PlainCommand(tuple(words), tuple(patterns), _behind(words, raws, patterns))


def _behind(words: list[str], raws: list[str], patterns: list[int]) -> int:
    behind = 0
    while words[behind] in _SEEN_THROUGH:
        at = _SEEN_THROUGH[words[behind]](words, behind + 1)
        # Another program here, or a pattern of one, cannot be looked up as a name. Then the wrapper itself is judged.
        if at >= len(raws) or not _PROGRAM.fullmatch(raws[at]) or any(place <= at for place in patterns):
            break
        behind = at
    return behind


def _unprintable(line: str) -> int | None:
    if line.isprintable():
        return None
    return next((at for at, char in enumerate(line) if char not in "\n\t" and not char.isprintable()), None)


# --- wrappers: where the wrapped program starts, or the end of the words if it is not certain


def _behind_nohup(_: list[str], at: int) -> int:
    return at


def _behind_nice(words: list[str], at: int) -> int:
    if words[at : at + 1] == ["-n"] and _NUMBER.fullmatch("".join(words[at + 1 : at + 2])):
        return at + 2
    return at + 1 if _NICE.fullmatch("".join(words[at : at + 1])) else at


def _behind_timeout(words: list[str], at: int) -> int:
    while at < len(words) and words[at].startswith("-"):
        word, following = words[at], "".join(words[at + 1 : at + 2])
        if word in {"--foreground", "--preserve-status", "-v", "--verbose"}:
            at += 1
        elif (word == "-k" and _TIME.fullmatch(following)) or (word == "-s" and _SIGNAL.fullmatch(following)):
            at += 2
        else:
            return len(words)
    return at + 1 if _TIME.fullmatch("".join(words[at : at + 1])) else len(words)


def _behind_stdbuf(words: list[str], at: int) -> int:
    begun = at
    while at < len(words) and _MODE.fullmatch(words[at]):
        at += 1
    return at if at > begun else len(words)


_SEEN_THROUGH: Final[Mapping[str, Callable[[list[str], int], int]]] = MappingProxyType(
    {"nohup": _behind_nohup, "nice": _behind_nice, "timeout": _behind_timeout, "stdbuf": _behind_stdbuf}
)
