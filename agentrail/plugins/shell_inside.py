"""What a command runs in its turn: a script, code, another command; and what it prints, where its words say so."""

import abc
import re
import shlex
from typing import Final

from agentrail.plugins.shell_programs import (
    CODE_FIRST,
    DECLARES,
    FINDERS,
    INTERPRETERS,
    READS_COMMANDS,
    RUNS_CODE,
    SED_RUNS,
    SETS,
    SHELL_OPTIONS_WITH_A_WORD,
    SHELLS,
    WRAPPERS,
    Wrapper,
    command_starts,
    inner_lines,
)
from agentrail.plugins.shell_values import FOUND, MARKS, UNQUOTED, Variables, unescaped

MAX_PRINTED: Final = 100_000
MAX_TOGETHER: Final = 8
_EXECUTE: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_STDIN: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_DIRECTORY: Final = re.compile(
    r"(?:-C|--directory|--chdir|--cwd|--prefix|--work-tree)(?:=(.*))?\Z", re.DOTALL
)
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)\+?=(.*)\Z", re.DOTALL)
_FORMAT: Final = re.compile(r"%(?:%|-?\d*(?:\.\d+)?([sbqdc]))")
_SCRIPT_OPTION: Final = re.compile(r"(?:-([A-Za-z]*?[ef])|--(expression|file|source)=?)(.*)\Z", re.DOTALL)
_ZERO: Final = re.compile(r"\\0(?=[0-7])")
_XARGS_QUOTE: Final = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"|\\(.)", re.DOTALL)
_FEW: Final = re.compile(r"-[nLl]|--max-(?:args|lines)")
_GIT_RUNS: Final = re.compile(
    r"(?:alias\.|.*(?:pager|editor|command|helper|program|hookspath|external|textconv|askpass))",
    re.IGNORECASE,
)


class LineReader(abc.ABC):
    """What reads lines; `shell_lines` has it.

    Attributes:
        variables: What is set.
        aliases: Names that stand for lines.
        written: What files hold that the line writes, by their last name.
        is_fed: Whether anything in the line gives a program something to read.
    """

    variables: Variables
    aliases: dict[str, str]
    written: dict[str, str]
    is_fed: bool

    @abc.abstractmethod
    def read(self, line: str, stdin: str | None = None) -> str:
        """Read a line."""

    @abc.abstractmethod
    def run(self, words: tuple[str, ...], stdin: str | None) -> str:
        """Run a command."""

    @abc.abstractmethod
    def unknown(self, text: str, why: str) -> str:
        """Say that something runs that cannot be judged."""

    @abc.abstractmethod
    def assign(self, name: str, values: tuple[str, ...]) -> None:
        """Set a variable."""

    @abc.abstractmethod
    def write(self, name: str, text: str) -> None:
        """Remember what a file holds."""


def look_inside(reader: LineReader, words: tuple[str, ...], stdin: str | None) -> None:
    """Read what a command runs.

    Args:
        reader: Gets the lines and commands.
        words: The command, its program first.
        stdin: What it reads: a text, the mark of what is not known, or None where the line says nothing about it.
    """
    program, operands = words[0].rpartition("/")[2], words[1:]
    # Taken out meanwhile: a name may stand in what it stands for.
    if (alias := reader.aliases.pop(program, None)) is not None:
        reader.read(f"{alias} {shlex.join(operands)}")
        reader.aliases[program] = alias
    if program in reader.written and "/" in words[0]:
        _script(reader, program, stdin)
    if program in SHELLS:
        _shell(reader, operands, stdin)
    elif program in _BUILTINS:
        _BUILTINS[program](reader, operands, stdin)
    elif program in {".", "source"}:
        _script(reader, "".join(operands[:1]), stdin)
    elif program in DECLARES:
        _declare(reader, operands)
    elif program in SETS or (program == "printf" and operands and operands[0].startswith("-v")):
        named = "".join(operands[:2])[2:] if operands[:1] == ("-v",) else "".join(operands[:1])[2:]
        names = [named] if program == "printf" else [one for one in operands if one[:1] != "-"]
        for name in (*names, "REPLY"):
            reader.variables.add(name.partition("[")[0], (UNQUOTED,))
    elif program in {"let", "[["}:
        reader.variables.calculate(" ".join(operands))
    elif program in READS_COMMANDS:
        _standard_input(reader, stdin)
    elif program in INTERPRETERS:
        _interpreter(reader, words, INTERPRETERS[program], stdin)
    elif program in CODE_FIRST:
        _filter(reader, words, stdin)
    elif program in WRAPPERS:
        _wrapper(reader, words, WRAPPERS[program], stdin)


def directories_of(words: tuple[str, ...]) -> list[str]:
    """Give the folders in which a command says that it works: `cd` does, and so do `-C` and its like."""
    program, operands = words[0].rpartition("/")[2], words[1:]
    if program in {"cd", "pushd"}:
        return [word for word in operands if word[:1] != "-"]
    named = [
        found[1] or "".join(operands[place + 1 : place + 2])
        for place, word in enumerate(operands)
        if (found := _DIRECTORY.match(word)) is not None
    ]
    return named + [
        operands[place + 1] for place, word in enumerate(operands[:-1]) if (program, word) == ("sudo", "-D")
    ]


# --- shells and scripts


def _shell(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    """Find the script of a shell: behind `-c`, wherever that stands among the options, in a file, or on its input."""
    left = list(operands)
    is_line = reads = False
    while left and left[0][:1] in {"-", "+"} and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        if word in SHELL_OPTIONS_WITH_A_WORD or (word[1:2] != "-" and not set("oO").isdisjoint(word)):
            argument = left.pop(0) if left else ""
            if word in {"--rcfile", "--init-file"}:
                _script(reader, argument, None)
        if word == "--command" or word.startswith("--command="):
            is_line = True
            left = [word.partition("=")[2], *left] if "=" in word else left
        elif word[1:2] != "-":
            is_line = is_line or "c" in word[1:]
            reads = reads or "s" in word[1:]
    if is_line:
        if left:
            _with_arguments(reader, left[0], left[1:], stdin)
    elif left and not reads:
        _script(reader, left[0], stdin)
        # What is not here is looked for among the programs.
        if not MARKS.search(left[0]) and "/" not in left[0]:
            reader.run(tuple(left), stdin)
    else:
        _standard_input(reader, stdin)


def _with_arguments(reader: LineReader, line: str, arguments: list[str], stdin: str | None) -> None:
    """Read a line that has positional parameters of its own."""
    kept, zero = reader.variables.arguments, reader.variables.values.pop("0", None)
    reader.variables.arguments = tuple(arguments[1:])
    if arguments:
        reader.variables.values["0"] = (arguments[0],)
    reader.read(line, stdin)
    reader.variables.arguments = kept
    reader.variables.values.pop("0", None)
    if zero is not None:
        reader.variables.values["0"] = zero


def _script(reader: LineReader, name: str, stdin: str | None) -> None:
    """Read a script that the line itself has written; others are not looked at."""
    if name in _STDIN:
        _standard_input(reader, stdin)
    elif name.startswith("/dev/tcp/"):
        reader.unknown(name, "a script from the network cannot be judged")
    else:
        known = name if name in reader.written else name.rpartition("/")[2]
        if known in reader.written:
            _text(reader, reader.written[known])
        elif UNQUOTED in name:
            reader.unknown(name, "it cannot be known which script runs; name it")


def _standard_input(reader: LineReader, stdin: str | None) -> None:
    """Read what a shell reads on its input; a terminal or a file, unless the line feeds it from elsewhere."""
    if stdin is None and reader.is_fed:
        stdin = UNQUOTED
    if stdin is not None:
        _text(reader, stdin)


def _text(reader: LineReader, text: str) -> None:
    if MARKS.search(text):
        reader.unknown("sh", "a shell reads what is not known before it runs; name the commands")
    else:
        reader.read(text)


# --- builtins


def _eval(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    line = " ".join(operands[1:] if operands[:1] == ("--",) else operands)
    if MARKS.search(line.partition(" ")[0]) or UNQUOTED in line:
        reader.unknown(line, "`eval` of what is not known before it runs cannot be judged")
    reader.read(line, stdin)


def _trap(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    words = operands[1:] if operands[:1] == ("--",) else operands
    if len(words) > 1 and words[0] not in {"-", "-l", "-p", ""}:
        reader.read(words[0])


def _alias(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    for operand in operands:
        name, equals, line = operand.partition("=")
        if equals:
            reader.aliases[name] = line
            reader.read(line)


def _declare(reader: LineReader, operands: tuple[str, ...]) -> None:
    for operand in operands:
        if (found := _ASSIGNED.match(operand)) is not None:
            reader.assign(found[1], (found[2],))
        elif operand[:1] == "-" and not set("ni").isdisjoint(operand):
            # A name for another variable, or a number.
            for name in operands:
                reader.variables.add(name.partition("=")[0], (UNQUOTED,))
                if "n" in operand and "=" in name:
                    reader.variables.add(name.partition("=")[2], (UNQUOTED,))


def _set(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    known = reader.variables.arguments
    if "--" in operands:
        operands = operands[operands.index("--") + 1 :]
    elif not operands or operands[0][:1] in {"-", "+"}:
        return
    # Set twice, in a loop or in branches: it is not known which of them holds.
    reader.variables.arguments = operands if known in ((), operands) else None


def _shift(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    count = int(operands[0]) if operands and operands[0].isdecimal() and len(operands[0]) < 5 else 1  # noqa: PLR2004
    if reader.variables.arguments is not None:
        reader.variables.arguments = reader.variables.arguments[count:]


def _rename(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    if {"-p", "-f"} & set(operands):
        reader.unknown(" ".join(operands), "it makes a name stand for another program")


def _find(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    for place, word in enumerate(operands):
        if word in _EXECUTE:
            rest = operands[place + 1 :]
            end = next((at for at, one in enumerate(rest) if one in {";", "+"}), len(rest))
            reader.run(tuple(FOUND if one == "{}" else one for one in rest[:end]), stdin)


def _xargs(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    """Run its command with words that it reads; those that replace a mark stand in the place of the mark."""
    wrapper = WRAPPERS["xargs"]
    read = stdin if stdin is not None else FOUND
    words = tuple(shlex.split(read)) if _splits(read) else (FOUND if read == FOUND else UNQUOTED,)
    if any(re.match(r"-\w*d|--delim", one) for one in operands) and not MARKS.search(read):
        words = (UNQUOTED,)  # its own way to cut
    mark = next(
        (operands[at + 1] for at, one in enumerate(operands[:-1]) if one in {"-I", "--replace-str"}), None
    )
    mark = mark or next((one[2:] or "{}" for one in operands if re.match(r"-[Ii]", one)), None)
    for start in command_starts(wrapper, operands):
        command = operands[start:]
        if mark is not None:
            is_known = not MARKS.search(read)
            lines = [read, *read.splitlines()] if is_known else [words[0]]
            # Unless options say otherwise, xargs takes quotes away, and only then puts a line in its place.
            for given in dict.fromkeys(
                one for line in lines for one in (line.strip(), _unquoted(line.strip()))
            ):
                reader.run(tuple(word.replace(mark, given) for word in command), None)
        elif command:
            reader.run((*command, *words), None)
            if any(_FEW.match(one) for one in operands[:start]):
                for at in range(1, len(words)):  # several commands, of so many words each
                    reader.run((*command, *words[at : at + MAX_TOGETHER]), None)


def _unquoted(text: str) -> str:
    """Take quotes and backslashes away as xargs does: in quotes a backslash is text."""
    return _XARGS_QUOTE.sub(lambda found: "".join(one or "" for one in found.groups()), text)


def _splits(text: str) -> bool:
    if MARKS.search(text):
        return False
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def _curl(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    """Remember which files hold what came from the network."""
    for place, word in enumerate(operands):
        name = re.match(r"(?:-[A-Za-z]*[oO]|--output(?:-document)?)(?:=(.*))?\Z", word, re.DOTALL)
        if name is not None:
            reader.write(name[1] or "".join(operands[place + 1 : place + 2]), UNQUOTED)
        elif "://" in word:
            reader.write(word, UNQUOTED)


def _tee(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    for operand in operands:
        if operand[:1] != "-":
            reader.write(operand, stdin if stdin is not None else UNQUOTED)


def _copy(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    known = [one.rpartition("/")[2] for one in operands[:-1]]
    if operands and any(name in reader.written for name in known):
        reader.write(operands[-1], UNQUOTED)


def _git(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    """Read what git is told to run: aliases and helpers in its options, and the commands that run others."""
    for place, word in enumerate(operands):
        name, equals, line = word.partition("=")
        if place and operands[place - 1] == "-c" and equals and _GIT_RUNS.match(name):
            is_command = name.lower().startswith("alias.") and not line.startswith("!")
            reader.read(f"git {line}" if is_command else line.removeprefix("!"), stdin)
        if word in {
            "-x",
            "--exec",
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "foreach",
        }:
            reader.read(
                " ".join(operands[place + 1 :] if word == "foreach" else operands[place + 1 : place + 2])
            )
        if word == "run" and operands[place - 1] == "bisect":
            reader.run(operands[place + 1 :], stdin)


def _remote(reader: LineReader, operands: tuple[str, ...], stdin: str | None) -> None:
    """Read the command that a container runs: behind the first operand of `exec` and `run`, or behind `--`."""
    for word in ("exec", "run"):
        if word in operands:
            rest = operands[operands.index(word) + 1 :]
            if "--" in rest:
                reader.run(rest[rest.index("--") + 1 :], stdin)
                continue
            for place, one in enumerate(rest):
                if place and one[:1] != "-" and (rest[place - 1][:1] != "-" or place > 1):
                    _quietly(reader, rest[place:], stdin)


def _quietly(reader: LineReader, words: tuple[str, ...], stdin: str | None) -> None:
    """Run what may be a command, where that is not known: only programs that are known to do something count."""
    program = words[0].rpartition("/")[2]
    if not MARKS.search(program):
        reader.run(words, stdin)


def _tmux(reader: LineReader, operands: tuple[str, ...], _: str | None) -> None:
    for operand in operands:
        if " " in operand:
            reader.read(operand)


_BUILTINS: Final = {
    "eval": _eval, "trap": _trap, "alias": _alias, "set": _set, "shift": _shift, "hash": _rename, "enable": _rename, "find": _find, "xargs": _xargs, "curl": _curl,
    "wget": _curl, "tee": _tee, "cp": _copy, "mv": _copy, "ln": _copy, "git": _git, "docker": _remote, "podman": _remote,
    "kubectl": _remote, "tmux": _tmux,
}  # fmt: skip


# --- code and wrappers


def _interpreter(
    reader: LineReader, words: tuple[str, ...], options: frozenset[str], stdin: str | None
) -> None:
    """Read the code that stands behind options, or on the standard input where no script is named."""
    operands = words[1:]
    letters = {option[1] for option in options if len(option) == len("-c")}
    codes: list[str] = []
    for place, word in enumerate(operands):
        following = operands[place + 1 : place + 2]
        letter = next((at for at, one in enumerate(word) if at and one in letters), 0)
        if word in options:
            codes += following
        elif letter and word[0] == "-" and word[1] != "-":  # `-uc CODE`, `-ne CODE`, `-cCODE`
            codes += (word[letter + 1 :],) if word[letter + 1 :] else following
    is_shown = any(word in {"--version", "-V", "-v", "--help", "-h"} for word in operands)
    if not (codes or is_shown) and all(word[:1] == "-" and word != "-m" for word in operands):
        stdin = UNQUOTED if stdin is None and reader.is_fed else stdin
        codes += [stdin] if stdin is not None else []
    for code in codes:
        _code(reader, words, code)


def _code(reader: LineReader, words: tuple[str, ...], code: str) -> None:
    if MARKS.match(code):
        reader.unknown(" ".join(words), "it runs code that is not known before it runs")
    elif RUNS_CODE.search(code):
        reader.unknown(
            " ".join(words),
            "the code runs programs, or code that it makes itself; give the command as a line of its own",
        )


def _filter(reader: LineReader, words: tuple[str, ...], stdin: str | None) -> None:
    """Read the code of `awk` and `sed`: what stands behind `-e`, in a file that the line writes, or in the first operand."""
    operands = words[1:]
    codes: list[str] = []
    for place, word in enumerate(operands):
        option = _SCRIPT_OPTION.match(word)
        if option is not None:
            letters, given = option[1] or option[2][0], option[3] or "".join(operands[place + 1 : place + 2])
            is_file = letters[-1] == "f"
            fed = (
                stdin
                if given in _STDIN
                else reader.written.get(given.rpartition("/")[2], reader.written.get(given))
            )
            codes += [given] if not is_file else [] if fed is None else [fed]
    codes = codes or [word for word in operands if word[:1] != "-"][:1]
    is_sed = words[0].endswith("sed")
    for code in codes:
        if code == UNQUOTED:
            reader.unknown(" ".join(words), "its script is not known before it runs")
        elif SED_RUNS.search(code) if is_sed else RUNS_CODE.search(code):
            reader.unknown(" ".join(words), "its script runs programs; give the command as a line of its own")


def _wrapper(reader: LineReader, words: tuple[str, ...], wrapper: Wrapper, stdin: str | None) -> None:
    program, operands = words[0].rpartition("/")[2], words[1:]
    for line in inner_lines(wrapper, operands):
        # In a line of `env -S` a blank may be written so.
        reader.read(f"env {line}".replace("\\_", " ") if program == "env" else line, stdin)
    first = operands[:1]
    if first and first[0] in wrapper.shows:
        return
    for start in dict.fromkeys(command_starts(wrapper, operands)):
        command = operands[start:]
        if wrapper.is_line:
            reader.read(" ".join(command), stdin)
            if program == "parallel":
                for word in command:
                    reader.read(word if " " in word else "")
                if not command or command[0].startswith(":::"):
                    _standard_input(reader, stdin)
        elif command:
            reader.run(command, stdin)
        elif (
            program in {"sudo", "su", "runuser", "doas", "chroot", "unshare", "nsenter"} and stdin is not None
        ):
            _text(reader, stdin)  # a foreign shell, which reads


# --- what is printed


def printed_by(words: tuple[str, ...], raw: tuple[str, ...], stdin: str | None) -> str:
    """Give what a command prints, where its words or its input say so; else the mark of what is not known.

    Args:
        words: The command.
        raw: The same words, with the marks of variables that the line does not set.
        stdin: What it reads.
    """
    program, operands = words[0].rpartition("/")[2], raw[1:]
    if program == "echo":
        options = [word for word in operands if re.fullmatch(r"-[neE]+", word)]
        text = " ".join(operands[len(options) :] if tuple(options) == operands[: len(options)] else operands)
        return _echoed(text) if "\\" in text else text
    if program == "printf" and operands[:1] != ("-v",):
        return _formatted(operands[1:] if operands[:1] == ("--",) else operands)
    if (
        program in {"cat", "tee"}
        and stdin is not None
        and (program == "tee" or not operands or operands == ("-",))
    ):
        return stdin
    makes_up = any(
        word.startswith("+-") or "printf" in word or "format" in word or '"' in word for word in operands
    )
    is_finder = (program in FINDERS or program.endswith("awk")) and not makes_up
    return FOUND if is_finder and stdin in {None, FOUND} else UNQUOTED


def _echoed(text: str) -> str:
    """Read escapes as `echo -e` and `%b` do: an octal number has a zero in front of its three digits."""
    return unescaped(_ZERO.sub(r"\\", text))


def _formatted(operands: tuple[str, ...]) -> str:
    if not operands:
        return ""
    given = list(operands[1:])
    form = unescaped(operands[0])
    is_plain = "%" not in _FORMAT.sub("", form) and len(form) * len(operands) < MAX_PRINTED

    def fill(found: re.Match[str]) -> str:
        return "%" if found[1] is None else _echoed(given.pop(0)) if given else ""

    text = _FORMAT.sub(fill, form)
    while given and "%" in form and is_plain:
        before = len(given)
        text += _FORMAT.sub(fill, form)
        if len(given) == before:
            break
    return text if is_plain else UNQUOTED
