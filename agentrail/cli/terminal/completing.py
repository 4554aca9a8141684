"""What a half-typed word may become: a command, a model behind `/model`, a turn behind `/rewind`, a file behind `@`. Plain functions."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

from attrs import field, frozen

MAX_CANDIDATES: Final = 100


@frozen
class Candidate:
    """What may stand in the place of a word."""

    text: str
    replaces: int
    meaning: str = ""


ListFiles: TypeAlias = Callable[[str], Sequence[str]]
"""Names in a directory, those of directories with a slash behind; nothing for one that cannot be read."""
Words: TypeAlias = Sequence[tuple[str, str]]
"""Words with what they mean."""
FindWords: TypeAlias = Callable[[], Awaitable[Words]]
"""Finds what may stand behind a command. It is asked in Trio, and may take a while."""


@frozen(kw_only=True)
class KnownNames:
    """What can be completed.

    Attributes:
        arguments: What may stand behind a command, asked for each time, by its name.
        files: Lists a directory below the working directory; `""` is that one.
    """

    commands: Words = ()
    arguments: dict[str, Callable[[], Words]] = field(factory=dict)
    files: ListFiles = lambda _: ()


def is_completed(before: str) -> bool:
    """Say whether candidates are looked for while one types: in a command, and in a path behind `@`."""
    return before.startswith("/") or _path_in(before) is not None


def complete(before: str, known: KnownNames) -> tuple[Candidate, ...]:
    """Give what may come."""
    if before.startswith("/"):
        name, space, rest = before[1:].partition(" ")
        if not space:
            return _matching(name, ((one, f"/{one}", why) for one, why in known.commands), len(before))
        if name.lower() in known.arguments:
            words = known.arguments[name.lower()]()
            return _matching(rest, ((one, one, why) for one, why in words), len(rest))
    path = _path_in(before)
    if path is None:
        return ()
    directory, slash, start = path.rpartition("/")
    names = known.files(directory + slash)
    shown = (one for one in sorted(names) if start.startswith(".") or not one.startswith("."))
    found = _matching(start, ((one, one, "") for one in shown), len(start))
    return tuple(one for one in found if not start.startswith(".") or one.text.startswith("."))


def _path_in(before: str) -> str | None:
    """Find the path that is being typed: behind an `@` at the beginning of a word, up to the cursor."""
    word = before[max(before.rfind(" "), before.rfind("\n"), before.rfind("\t")) + 1 :]
    return word[1:] if word.startswith("@") else None


def _matching(start: str, words: Iterable[tuple[str, str, str]], replaces: int) -> tuple[Candidate, ...]:
    """Keep those that begin with what was typed, in any case; behind them those that have it somewhere."""
    wanted = start.lower()
    found = [(name.lower(), Candidate(text, replaces, meaning)) for name, text, meaning in words]
    first = [one for name, one in found if name.startswith(wanted)]
    later = [one for name, one in found if wanted in name and not name.startswith(wanted)] if wanted else []
    return tuple([*first, *later][:MAX_CANDIDATES])
