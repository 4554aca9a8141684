"""Completions of a half-typed word: a command, a model after `/model`, a turn after `/rewind`, a file after `@`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

from attrs import field, frozen

MAX_CANDIDATES: Final = 100


@frozen
class Candidate:
    text: str
    replaces: int
    meaning: str = ""


ListFiles: TypeAlias = Callable[[str], Sequence[str]]
"""Names in a directory, with a slash after those of directories. Empty for an unreadable one."""
Words: TypeAlias = Sequence[tuple[str, str]]
"""Words with their meaning."""
FindWords: TypeAlias = Callable[[], Awaitable[Words]]
"""Finds the arguments of a command. Called in Trio, and may take a while."""


@frozen(kw_only=True)
class KnownNames:
    commands: Words = ()
    arguments: dict[str, Callable[[], Words]] = field(factory=dict)
    files: ListFiles = lambda _: ()


def is_completed(before: str) -> bool:
    """Return whether to complete while typing: in a command, and in a path after `@`."""
    return before.startswith("/") or _path_in(before) is not None


def complete(before: str, known: KnownNames) -> tuple[Candidate, ...]:
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
    """Return the path being typed: after an `@` at the start of a word, up to the cursor."""
    word = before[max(before.rfind(" "), before.rfind("\n"), before.rfind("\t")) + 1 :]
    return word[1:] if word.startswith("@") else None


def _matching(start: str, words: Iterable[tuple[str, str, str]], replaces: int) -> tuple[Candidate, ...]:
    """Return the words that start with the typed text, ignoring case, followed by those that contain it."""
    wanted = start.lower()
    found = [(name.lower(), Candidate(text, replaces, meaning)) for name, text, meaning in words]
    first = [one for name, one in found if name.startswith(wanted)]
    later = [one for name, one in found if wanted in name and not name.startswith(wanted)] if wanted else []
    return tuple([*first, *later][:MAX_CANDIDATES])
