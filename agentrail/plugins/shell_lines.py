"""Reads command lines as a shell would, as far as it takes to know which programs would run, with which words.

`simple_commands` finds the simple commands of a line: behind `;`, `|`, `&&` and newlines, in subshells, substitutions, functions
and here-documents, and through programs that run others (`shell_inside`). Nothing is executed and no file is looked at, so a
program may still do what its name does not say: this finds accidents, not enemies. Where it must guess it guesses the dangerous
reading, and where it cannot, the command says so: `is_known` is false.

A line is read in time that grows as it does: it has a bound, and so has all that comes of it.
"""

import re
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from attrs import define, field, frozen

from agentrail.plugins.shell_inside import LineReader, directories_of, look_inside, printed_by
from agentrail.plugins.shell_programs import ENVIRONMENT_PROGRAMS, RUN_BY_OTHERS
from agentrail.plugins.shell_values import (
    BLANKS,
    FOUND,
    MARKS,
    MAX_SHELL_ALTERNATIVES,
    SPLIT,
    UNQUOTED,
    Expanded,
    Expander,
    TooMuch,
    Variables,
    in_environment,
    with_environment,
    without_environment,
)
from agentrail.plugins.shell_words import (
    Operator,
    Redirection,
    ShellToken,
    ShellWord,
    Unreadable,
    shell_tokens,
)

MAX_SHELL_DEPTH: Final = 8
MAX_SHELL_LINE_CHARACTERS: Final = 20_000
MAX_COMMANDS: Final = 1_000
MAX_DIRECTORIES: Final = 16
READING: Final = 60
"""What a line or a command costs besides its characters, in characters."""

_RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "fi", "done", "esac"}
)
_COMPOUND: Final = frozenset({"for", "select", "case"})
_LOOPS: Final = frozenset({"while", "until", "for", "select"})
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=(.*)\Z", re.DOTALL)
_DESCRIPTOR: Final = re.compile(r"\d+-?|-")


@frozen(kw_only=True)
class ShellCommand:
    """A simple command.

    Attributes:
        words: The program and its arguments, as they would reach it; quotes and backslashes are gone. What is not known of
            them before they run is marked by a character that no text has; `shown` has dots there.
        files: What its redirections read and write.
        sets: Variables that are set in front of it, or by it where it has no words.
        is_known: Whether its program is; what a substitution prints, say, is not known before it runs.
        why: Why it is not; empty where the words say it.
        directories: Where it may run besides the directory in which the line begins, as far as the line has said.
        is_said: Whether its words are only shown, on no way to a program or a file that runs.
    """

    words: tuple[str, ...]
    files: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    is_known: bool = True
    why: str = ""
    directories: tuple[str, ...] = ()
    is_said: bool = False

    @property
    def program(self) -> str:
        """The program without its folder; empty for a command of redirections alone."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def shown(self) -> str:
        """The words as one text, to be read by people."""
        return MARKS.sub("…", " ".join(self.words))


def simple_commands(line: str) -> Iterator[ShellCommand]:
    """Find the simple commands of a line, those inside others behind them.

    Args:
        line: What a shell would be given.

    Returns:
        The commands. One that stands for what cannot be read, or for more than is read, is not known, and says why.
    """
    if len(line) > MAX_SHELL_LINE_CHARACTERS:
        why = f"a line of {len(line)} characters cannot be judged; at most {MAX_SHELL_LINE_CHARACTERS} may be"
        return iter((ShellCommand(words=(line[:20] + "…",), is_known=False, why=why),))
    line = MARKS.sub("\ufffd", line)
    walk = _Walk()
    if "{IFS}" in line:  # as the name of a descriptor it is a number
        walk.variables.add("IFS", (UNQUOTED,))
    walk.read(line)
    found = walk.found
    if "IFS" in walk.variables.values:  # a function or a loop runs what stands in front of it
        again = _Walk()
        again.variables.add("IFS", walk.variables.values["IFS"])
        again.read(line)
        found += again.found
    return iter(found)


@define
class _Walk(LineReader):
    """What is known of a line while it is read, from its beginning to its end, through all lines inside it."""

    found: list[ShellCommand] = field(factory=list)
    variables: Variables = field(factory=Variables)
    aliases: dict[str, str] = field(factory=dict)
    written: dict[str, str] = field(factory=dict)
    directories: list[str] = field(factory=list)
    depth: int = 0
    in_loop: bool = False
    is_fed: bool = False
    is_inner: int = 0
    expander: Expander = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.expander = Expander(variables=self.variables, substitute=self._substitute, process=self._process)

    # --- what `look_inside` asks of it

    def read(self, line: str, stdin: str | None = None) -> str:
        """Read a line, whose commands read this text; give what it prints, or the mark of what is not known."""
        if self.depth >= MAX_SHELL_DEPTH:
            return self.unknown(line, "it is nested deeper than anybody writes")
        self.depth += 1
        try:
            self.variables.pay(len(line) + READING)
            return self._read(line, stdin)
        except Unreadable as error:
            return self.unknown(line, str(error))
        finally:
            self.depth -= 1

    def unknown(self, text: str, why: str) -> str:
        """Say that something runs that cannot be judged."""
        self.found.append(ShellCommand(words=(text[:200],), is_known=False, why=why))
        return UNQUOTED

    def run(
        self,
        words: tuple[str, ...],
        stdin: str | None,
        *,
        files: tuple[str, ...] = (),
        sets: tuple[str, ...] = (),
    ) -> str:
        """Run a command that another one runs."""
        if self.depth >= MAX_SHELL_DEPTH:
            return self.unknown(" ".join(words), "it is nested deeper than anybody writes")
        self.depth += 1
        try:
            return self._command(words, stdin, files=files, sets=sets) if words else UNQUOTED
        finally:
            self.depth -= 1

    def assign(self, name: str, values: tuple[str, ...]) -> None:
        """Set a variable; what others run of it is read as a line, and what arithmetic would run of it too."""
        self.variables.add(name, values)
        for value in values:
            if RUN_BY_OTHERS.match(name):
                self.read(value)
            elif name in {"BASH_ENV", "ENV"} and value in self.written:  # a script that shells begin with
                self.read(self.written[value])
            elif "$(" in value or "`" in value:
                self.expander.text(value)

    def enter(self, directory: str) -> None:
        """Go somewhere, from wherever the line may be."""
        came = [directory, *(f"{one}/{directory}" for one in self.directories if directory[:1] not in "/~")]
        self.directories = list(dict.fromkeys((*self.directories, *came)))[:MAX_DIRECTORIES]

    # --- a line

    def _read(self, line: str, stdin: str | None) -> str:
        pieces: list[tuple[list[ShellToken], str]] = []
        piece: list[ShellToken] = []
        error: Unreadable | None = None
        try:
            for token in shell_tokens(line):
                if isinstance(token, Operator):
                    pieces.append((piece, token.text))
                    piece = []
                else:
                    piece.append(token)
        except Unreadable as caught:  # what stands in front of it may run all the same
            error = caught
        pieces.append((piece, ""))
        patterns = _patterns(pieces)
        source, printed = stdin, []
        for place, (piece, operator) in enumerate(pieces):
            is_pipe = operator in {"|", "|&"}
            if operator == ")" and not piece and pieces[place - 1][1] == "(":
                self.variables.arguments = None  # a function begins: it is not known what it will be given
            self.is_fed = self.is_fed or is_pipe
            text = UNQUOTED
            if place not in patterns:
                self.is_inner += is_pipe
                text = self._piece(piece, source)
                self.is_inner -= is_pipe
            source = text if is_pipe else stdin
            if piece and not is_pipe:
                printed.append(text)
        if error is not None:
            raise error
        return printed[0] if len(printed) == 1 else UNQUOTED

    def _substitute(self, line: str) -> str:
        """Read a line whose output becomes part of a word."""
        self.is_inner += 1
        text = self.read(line)
        self.is_inner -= 1
        if not MARKS.search(text):
            return text.rstrip("\n")
        return FOUND if text == FOUND else UNQUOTED

    def _process(self, line: str) -> str:
        """Read a line whose output is a file; what is written there is kept under its name."""
        name = f"/dev/fd/p{len(self.written)}"
        self.is_inner += 1
        self.written[name] = self.read(line)
        self.is_inner -= 1
        self.is_fed = True
        return name

    # --- a simple command

    def _piece(self, piece: list[ShellToken], stdin: str | None) -> str:
        words = [token.raw for token in piece if isinstance(token, ShellWord)]
        words = self._behind_keywords(words)
        files: list[str] = []
        written: list[str] = []
        for token in piece:
            if isinstance(token, Redirection):
                stdin = self._redirect(token, stdin, files, written)
        if words and words[0] in _COMPOUND:
            self._loop(words)
            if words[2:3] in (["do"], ["{"]):  # `for NAME do …`: over the arguments
                self._inner_piece(words[3:], stdin, written)
            return UNQUOTED
        if "]]" in words[:-1] and words[words.index("]]") + 1] in _RESERVED:  # nothing else divides them
            self._inner_piece(words[words.index("]]") + 1 :], stdin, written)
        sets: list[str] = []
        while words and (assignment := _ASSIGNMENT.match(words[0])) is not None:
            sets.append(self._assignment(assignment))
            words.pop(0)
        if not words:
            if files or sets:
                self._keep(ShellCommand(words=(), files=tuple(files), sets=tuple(sets)))
            return UNQUOTED
        texts = {
            self._command(
                spoken,
                stdin,
                files=tuple(files),
                sets=tuple(sets),
                is_pattern=is_pattern,
            )
            for spoken, is_pattern in self._spoken(words)
        }
        text = min(texts) if len(texts) == 1 else UNQUOTED
        for name in written:
            self.write(name, text)
        return text

    def _behind_keywords(self, words: list[str]) -> list[str]:
        """Give what stands behind words of the grammar; it may begin with assignments, which a program's words may not."""
        while words:
            if words[0] in _RESERVED:
                self.in_loop = words[0] in _LOOPS or self.in_loop
                words = words[1:]
            elif words[0] == "function":
                self.variables.arguments = None
                words = words[2:]
            elif words[0] == "time" and (words[1:2] == ["-p"] or not "".join(words[1:2]).startswith("-")):
                self._keep(ShellCommand(words=("time",)))
                words = words[2 if words[1:2] == ["-p"] else 1 :]
                words = words[1:] if words[:1] == ["--"] else words
            elif words[0] == "coproc":
                self._keep(ShellCommand(words=("coproc",)))
                is_named = words[2:3] and (words[2] in _RESERVED or words[2] in _COMPOUND)
                words = words[2 if is_named and words[1] not in _RESERVED else 1 :]
            else:
                break
        return words

    def _inner_piece(self, raws: list[str], stdin: str | None, written: list[str]) -> None:
        """Read a command behind a `do` or `then` that nothing divides from what stands in front of it, and what it writes."""
        if self.depth >= MAX_SHELL_DEPTH:
            self.unknown(" ".join(raws), "it is nested deeper than anybody writes")
            return
        self.depth += 1
        try:
            text = self._piece([ShellWord(raw) for raw in raws], stdin)
        finally:
            self.depth -= 1
        for name in written:
            self.write(name, text)

    def _redirect(
        self, token: Redirection, stdin: str | None, files: list[str], written: list[str]
    ) -> str | None:
        """Note what a redirection reads or writes; give what stands on the standard input then."""
        if token.kind == "<<":
            self.is_fed = True
            return "\n".join(self.expander.text(token.target)) if token.expands else token.target
        if token.kind == "<<<":
            self.is_fed = True
            return "\n".join(self.expander.text(token.target, quoted=False))
        if token.kind in {"<&", ">&"} and _DESCRIPTOR.fullmatch(token.target):
            return UNQUOTED if self.is_fed and token.kind == "<&" else stdin
        names = [without_environment(" ".join(one)) for one in self.expander.word(token.target).alternatives]
        files += names
        if token.kind != "<":
            written += names
            return stdin
        return next((self.written[name] for name in names if name in self.written), None)

    def _assignment(self, found: re.Match[str]) -> str:
        name, subscript, adds, raw = found.groups()
        self.variables.calculate(subscript or "")
        self.expander.text(subscript or "")
        if raw.startswith("("):
            tokens = [token for token in shell_tokens(raw[1:-1]) if token != Operator("\n")]
            inner = [token.raw for token in tokens if isinstance(token, ShellWord)]
            if len(inner) < len(tokens):  # bash says so, and goes on with the next line
                message = "an array holds words, and nothing else"
                raise Unreadable(message)
            lists = [[re.sub(r"^\[\w+\]=", "", item) for item in items] for items, _ in self._spoken(inner)]
            values: tuple[str, ...] = tuple(map(SPLIT.join, lists)) or ("",)
        else:
            values = self.expander.text(raw, quoted=False)
        if adds:
            joint = SPLIT if raw.startswith("(") else ""
            before = self.variables.values.get(name, (BLANKS,) if name == "IFS" else ("",))
            values = tuple(f"{old}{joint}{new}" for old in before for new in values)
        if self.in_loop and any(
            re.search(rf"\$\{{?{re.escape(known)}\b", raw) for known in self.variables.values
        ):
            values = (UNQUOTED,)  # each round makes more of it
        self.assign(name, values)
        return name

    def _loop(self, words: list[str]) -> None:
        """Give the variable of a loop its values; the word of a `case` is expanded, and nothing else."""
        if words[0] == "case":
            self._spoken(words[1:2])
            return
        self.in_loop = True
        items = [one for raw in words[3:] for one in self.expander.words(raw)]
        values = tuple(text for one in items for alternative in one.alternatives for text in alternative)
        self.variables.add(
            words[1] if len(words) > 1 else "_", values if words[2:3] == ["in"] else (UNQUOTED,)
        )

    def _spoken(self, raws: list[str]) -> list[tuple[tuple[str, ...], bool]]:
        """Expand words; give each command that may come of them, and whether its program is a pattern."""
        expanded: list[Expanded] = [one for raw in raws for one in self.expander.words(raw)]
        if prod(len(one.alternatives) for one in expanded) > MAX_SHELL_ALTERNATIVES:
            return [((UNQUOTED,), False)]
        spoken = []
        for chosen in product(*(one.alternatives for one in expanded)):
            words = tuple(word for alternative in chosen for word in alternative)
            if words:
                first = next(place for place, alternative in enumerate(chosen) if alternative)
                spoken.append((words, expanded[first].has_wildcards))
        return spoken

    def _command(
        self,
        words: tuple[str, ...],
        stdin: str | None,
        *,
        files: tuple[str, ...] = (),
        sets: tuple[str, ...] = (),
        is_pattern: bool = False,
    ) -> str:
        """Take a command; give what it prints. A variable that the line does not set may be anything, or empty."""
        self.variables.pay(sum(map(len, words)) + len(words) + READING)
        names = list(in_environment(words[0]))
        base = words[0].rpartition("/")[2]
        rest = tuple(without_environment(word) or with_environment(word) for word in words[1:])
        if names and next(in_environment(base), None) is not None:
            is_custom = all(name in ENVIRONMENT_PROGRAMS for name in names)
            self._keep(
                ShellCommand(
                    words=(with_environment(words[0]), *rest), files=files, sets=sets, is_known=is_custom
                )
            )
        spoken = (without_environment(words[0]), *rest)
        if not spoken[0] and names:  # its variable may be empty: then the next word is the program
            return self.run(words[1:], stdin, files=files, sets=sets) if len(words) > 1 else UNQUOTED
        base = spoken[0].rpartition("/")[2]
        is_pattern = is_pattern and base not in {"[", "[["} and not set(base).isdisjoint("*?[")
        is_known = not (is_pattern or UNQUOTED in spoken[0] or MARKS.search(base))
        is_said = base in {"echo", "printf"} and not self.is_inner
        for directory in directories_of(spoken):
            self.enter(directory)
        places = tuple(self.directories)
        self._keep(
            ShellCommand(
                words=spoken, files=files, sets=sets, is_known=is_known, directories=places, is_said=is_said
            )
        )
        if not is_known:
            return UNQUOTED
        # A variable that is all of a word may be none: what the program runs is judged with and without it.
        inside = tuple(without_environment(word) or word for word in words[1:])
        look_inside(self, (spoken[0], *inside), stdin)
        return printed_by(spoken, words, stdin)

    def _keep(self, command: ShellCommand) -> None:
        if len(self.found) >= MAX_COMMANDS:
            raise TooMuch
        self.found.append(command)

    def write(self, name: str, text: str) -> None:
        """Remember what a file holds that the line writes, by its last name."""
        name = name.rpartition("/")[2]
        self.written[name] = f"{self.written[name]}\n{text}" if name in self.written else text


def _patterns(pieces: list[tuple[list[ShellToken], str]]) -> set[int]:
    """Find the patterns of `case`: a word, or several with `|` between them, in front of a parenthesis that nothing opened."""
    found: set[int] = set()
    opened = 0
    for place, (piece, operator) in enumerate(pieces):
        opened += operator == "("
        if operator != ")":
            continue
        if opened:
            opened -= 1
            continue
        while place >= 0 and len(piece) == 1 and isinstance(piece[0], ShellWord) and place not in found:
            found.add(place)
            place -= 1  # noqa: PLW2901 - walks back over `a | b`
            if pieces[place][1] != "|":
                break
            piece = pieces[place][0]  # noqa: PLW2901 - the piece in front of it
    return found
