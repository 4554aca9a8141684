"""Guesses at what a command is told to run, of programs whose ways are not known: for rules of `deny` and `ask` alone.

`shell_inside` reads what shells, wrappers and interpreters run, option by option. Of hundreds of other programs it is only known that
they run what they are told (`shell_stars`): `tar --checkpoint-action=exec='rm x'`, `npx rm x`, `rsync -e 'rm x'`. Of those every text
between blanks and punctuation may be a program, with what stands behind it as its words. So a guess says what *may* run, and never that
something does: a rule that one fits makes a line one of which it is not known what it runs.
"""

import re
from collections.abc import Sequence
from typing import Final

from agentrail.plugins.shell_plain import PlainCommand
from agentrail.plugins.shell_programs import (
    CODE_FIRST,
    DECLARES,
    GLOBAL_OPTIONS,
    INTERPRETERS,
    SETS,
    SHELLS,
    WRAPPERS,
)
from agentrail.plugins.shell_stars import uncovered_by_star

MAX_GUESSED: Final = 500
"""Texts of one command that are looked at."""
MAX_GUESSED_WORDS: Final = 16
"""Words of one guess."""

_TEXT: Final = re.compile(r"[^\s'\"`$(){}\[\];|&<>=,:!@\\]+")
_GLUED: Final = re.compile(r"\A-[A-Za-z](?=[A-Za-z0-9_./])")
_QUOTES: Final = "'\"\\"
_UNQUOTED: Final = dict.fromkeys(map(ord, _QUOTES))
_ALSO_TOLD: Final = frozenset({"gdb", "ltrace", "valgrind", "screen", "ssh", "su", "script", "parallel", "sem", "vi", "vim", "nvim", "ex", "emacs", "osascript", "fish", "zsh"})  # fmt: skip
"""Of those that `shell_inside` reads, the ones that have more ways to run a command than it knows."""
_RUNS_A_WORD: Final = frozenset({"mapfile", "readarray"})
_IS_READ: Final = (
    (SHELLS | frozenset(WRAPPERS) | frozenset(INTERPRETERS) | CODE_FIRST | DECLARES | SETS)
    - _ALSO_TOLD
    - _RUNS_A_WORD
) | {"printf", "test", "[", "type", "help", "hash", "set", "let", "unset", "eval", "trap", "alias", "find"}
"""Programs and builtins of which it is known what they run."""


def guessed(words: Sequence[str]) -> list[tuple[str, ...]] | None:
    """Give what a command may be told to run.

    Args:
        words: The command, its program first.

    Returns:
        A row of words for each text that may be a program; none where it is known what the program runs, or that it runs nothing but
        itself; None where there are more texts than are looked at.
    """
    program = words[0].rpartition("/")[2]
    if not program or program in _IS_READ or uncovered_by_star(PlainCommand((program, *words[1:]))) is None:
        return []
    # `docker rm` is a command of docker's own.
    begun = 2 if program in GLOBAL_OPTIONS and "".join(words[1:2]).isalpha() else 1
    told = [_GLUED.sub(r"\g<0> ", word, count=1) for word in words[begun:]]
    read = [_TEXT.findall(" ".join(told))]
    if not set(_QUOTES).isdisjoint("".join(told)):  # a shell takes them away
        read.append(_TEXT.findall(" ".join(told).translate(_UNQUOTED)))
    if sum(map(len, read)) > MAX_GUESSED:
        return None
    return [tuple(texts[at : at + MAX_GUESSED_WORDS]) for texts in read for at in range(len(texts))]
