"""Reads command lines as a shell would, as far as it takes to know which programs would run, with which words.

`simple_commands` finds the simple commands of a line: behind `;`, `|`, `&&` and newlines, in subshells, substitutions and
double quotes, and through programs that run others (`sudo`, `env`, `xargs`, `sh -c`, `find -exec` …). Nothing is executed
and no file is looked at, so a program may still do what its name does not say: this finds accidents, not enemies. Where it
must guess it guesses the dangerous reading: the body of a here-document counts as commands.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import frozen

from agentrail.plugins.shell_words import Token, WordToken, tokens_of

MAX_DEPTH: Final = 8

# fmt: off
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash"})
# Programs that run what follows, and those of their options that take a word.
_WRAPPERS: Final[Mapping[str, frozenset[str]]] = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U", "-D", "--user", "--group", "--host", "--chdir"}),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "-C", "--unset", "--chdir"}),
    "xargs": frozenset({"-I", "-i", "-n", "-P", "-L", "-s", "-d", "-a", "-E", "--max-args", "--max-procs", "--delimiter"}),
    "nice": frozenset({"-n", "--adjustment"}), "ionice": frozenset({"-c", "-n", "-p"}),
    "timeout": frozenset({"-s", "-k", "--signal", "--kill-after"}), "stdbuf": frozenset({"-i", "-o", "-e"}),
    "nohup": frozenset(), "setsid": frozenset(), "time": frozenset({"-f", "-o"}), "exec": frozenset({"-a"}),
    "command": frozenset(), "builtin": frozenset(), "busybox": frozenset(), "watch": frozenset({"-n"}),
    "chroot": frozenset({"--userspec"}), "unshare": frozenset(), "chrt": frozenset(), "strace": frozenset({"-e", "-o", "-p"}),
}
_SKIPS_A_WORD: Final = frozenset({"timeout", "chroot"})  # their first operand is no program
_RESERVED: Final = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "coproc"})
_EXECUTE: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
# fmt: on
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)


@frozen(kw_only=True)
class Command:
    """A simple command.

    Attributes:
        words: The program and its arguments, as they would reach it; quotes and backslashes are gone.
        files: What its redirections read and write.
        sets: Variables that are set in front of it, or by it where it has no words.
        is_known: Whether its program is; what a substitution prints, say, is not known before it runs.
    """

    words: tuple[str, ...]
    files: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    is_known: bool = True

    @property
    def program(self) -> str:
        """The program without its folder; empty for a command of redirections alone."""
        return self.words[0].rpartition("/")[2] if self.words else ""


def simple_commands(
    line: str, *, variables: Mapping[str, str] | None = None, depth: int = 0
) -> Iterator[Command]:
    """Find the simple commands of a line, those inside others behind them.

    Args:
        line: What a shell would be given.
        variables: Values that are known; assignments of the line itself are read.
        depth: How many lines this one stands in; deeper than eight nothing is known any more.
    """
    known = {"IFS": " ", "HOME": "~", **(variables or {})}
    if depth > MAX_DEPTH:
        yield Command(words=(line,), is_known=False)
        return
    before: Command | None = None
    for piece, piped in _split(tokens_of(line, known)):
        for token in piece:
            if isinstance(token, WordToken):
                for inner in token.substitutions:
                    yield from simple_commands(inner, variables=known, depth=depth + 1)
        command = _command_of(piece, known)
        if command is None:
            continue
        yield command
        yield from _inside(command, known, depth, before if piped else None)
        before = command


def _split(tokens: Iterator[Token]) -> Iterator[tuple[list[Token], bool]]:
    """Cut at the operators; say of each piece whether it reads from a pipe."""
    piece: list[Token] = []
    piped = False
    for found in tokens:
        if isinstance(found, str) and found not in {"<", ">"}:
            yield piece, piped
            piece, piped = [], found in {"|", "|&"}
        else:
            piece.append(found)
    yield piece, piped


def _command_of(piece: list[Token], known: dict[str, str]) -> Command | None:
    """Make a command of a piece; assignments in front of it become known, reserved words go."""
    words: list[str] = []
    files: list[str] = []
    sets: list[str] = []
    is_known = True
    redirected = False
    for token in piece:
        if isinstance(token, str):
            redirected = True
        elif redirected:
            files += token.words
            redirected = False
        elif not words and token.assigns is not None:
            known[token.assigns] = token.text.partition("=")[2]
            sets.append(token.assigns)
        elif not words and token.text in _RESERVED:
            continue
        else:
            is_known = is_known and (bool(words) or not token.is_opaque)
            words += token.words
    if not (words or files or sets):
        return None
    return Command(words=tuple(words), files=tuple(files), sets=tuple(sets), is_known=is_known)


def _inside(
    command: Command, known: Mapping[str, str], depth: int, source: Command | None
) -> Iterator[Command]:
    """Find what a command runs in its turn."""
    program, operands = command.program, command.words[1:]
    line: str | None = None
    if program in _SHELLS:
        line = _script_of(operands)
        if line is None and source is not None and source.program in {"echo", "printf"}:
            line = " ".join(source.words[1:])
    elif program == "eval":
        line = " ".join(operands)
    elif program in {"su", "script"}:
        line = _script_of(operands)
    elif program == "env" and (split := _value_of(operands, "-S", "--split-string")) is not None:
        line = split
    elif program in _WRAPPERS:
        yield from _again(_operands_of(program, operands), known, depth)
    elif program == "find":
        for position, word in enumerate(operands):
            if word in _EXECUTE:
                yield from _again(operands[position + 1 :], known, depth)
    if line is not None:
        yield from simple_commands(line, variables=known, depth=depth + 1)


def _again(words: tuple[str, ...], known: Mapping[str, str], depth: int) -> Iterator[Command]:
    command = Command(words=words, is_known=depth < MAX_DEPTH)
    if words:
        yield command
    if words and command.is_known:
        yield from _inside(command, known, depth + 1, None)


def _script_of(operands: tuple[str, ...]) -> str | None:
    """Give what stands behind `-c`, also where the letter stands among others: `sh -ec`."""
    for position, word in enumerate(operands):
        if re.fullmatch(r"-[A-Za-z]*c|--command", word) and position + 1 < len(operands):
            return operands[position + 1]
        if not word.startswith(("-", "+")) and not operands[max(position - 1, 0)].startswith(("-o", "+O")):
            return None
    return None


def _value_of(operands: tuple[str, ...], short: str, long: str) -> str | None:
    for position, word in enumerate(operands):
        if word in {short, long} and position + 1 < len(operands):
            return operands[position + 1]
        for begins in (f"{long}=", short):
            if word.startswith(begins) and len(word) > len(begins):
                return word[len(begins) :]
    return None


def _operands_of(program: str, operands: tuple[str, ...]) -> tuple[str, ...]:
    """Drop a wrapper's own options, assignments and operands; what is left is the command that it runs."""
    takes_a_word = _WRAPPERS[program]
    rest = list(operands)
    while rest:
        word = rest[0]
        if word == "--":
            rest.pop(0)
            break
        if word.startswith("-") and word != "-":
            del rest[: 2 if word in takes_a_word else 1]
        elif _ASSIGNMENT.fullmatch(word) and program in {"env", "sudo", "doas"}:
            rest.pop(0)
        else:
            break
    return tuple(rest[1:] if program in _SKIPS_A_WORD else rest)
