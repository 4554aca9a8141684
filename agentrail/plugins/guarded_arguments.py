"""Objections of `SecurityGuard` to the arguments of a call: protected paths, destructive commands, unparsed lines. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from agentrail.plugins.protected_paths import Looks, first_that_protects
from agentrail.plugins.shell_plain import (
    NotRead,
    PlainCommand,
    PlainLine,
    PlainReading,
    read_plain,
    read_words,
)
from agentrail.plugins.shell_programs import destroys, speaks
from agentrail.plugins.shell_wildcards import runs_its_words

_LINE_KEYS: Final = frozenset({"command", "cmd", "script", "command_line", "commands", "argv"})
_MOVES: Final = frozenset({"cd", "pushd"})
_SAYS: Final = frozenset({"echo"})
_ROOTS: Final = frozenset({"/", "~"})
_MAX_SHOWN: Final = 200
_PART: Final = re.compile(r"[=:,@]")
_PATH_KEY: Final = re.compile(
    r"(?:^|_)(?:path|file|filename|dir|directory|folder|source|src|destination|dest|target|cwd|workdir|root)s?$"
)


@attrs.frozen
class Rules:
    paths: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    defaults: bool
    audit: bool


def objections(
    arguments: Mapping[str, Any], rules: Rules, working_dir: str, unread: list[str]
) -> Iterator[str]:
    """Yield the reasons to refuse the call, and append to `unread` why a line was not parsed."""
    looks = Looks(working_dir)
    left: list[tuple[str, Any]] = list(arguments.items())
    for key, value in left:  # grows by nested values, at any depth
        if isinstance(value, Mapping):
            left += value.items()
            continue
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        left += [(key, item) for item in items if isinstance(item, Mapping | list | tuple)]
        texts = [item for item in items if isinstance(item, str)]
        if texts and key.lower() in _LINE_KEYS:
            for reading in _readings(key.lower(), value, texts):
                yield from _objections_to_line(reading, rules, looks, unread)
        elif _PATH_KEY.search(key.lower()):
            yield from _objections_to_paths(texts, rules, working_dir, looks)


def _readings(key: str, value: Any, texts: Sequence[str]) -> Iterator[PlainReading]:
    """Parse command lines. A list is an argument vector; under `commands`, each item is a line."""
    if isinstance(value, str) or key == "commands":
        yield from (read_plain(text) for text in texts if text.strip())
    else:
        yield read_words(texts)


def _objections_to_line(
    reading: PlainReading, rules: Rules, looks: Looks, unread: list[str]
) -> Iterator[str]:
    if not (rules.defaults or rules.commands or rules.paths):
        return
    if isinstance(reading, NotRead):
        unread.append(f"the command cannot be parsed after character {reading.at}: {reading.why}")
        return
    directories = _directories_of(reading)
    for command in reading.commands:
        told = runs_its_words(command)
        if told is not None:
            unread.append(told)
        yield from _objections_to_command(command, rules, directories, looks)


def _directories_of(line: PlainLine) -> list[str]:
    """Return the base directories of relative words: this one, `cd` targets, and absolute names, as in `tar -C`."""
    here = ""
    found = [here]
    for command in line.commands:
        words = command.run
        if words[0] in _MOVES and len(words) > 1:
            here = words[1] if words[1][:1] in _ROOTS else f"{here}/{words[1]}" if here else words[1]
            found.append(here)
        if words[0] not in _SAYS:
            found += (piece for word in words[1:] for piece in _places_in(word) if piece[:1] in _ROOTS)
    return list(dict.fromkeys(found))


def _objections_to_command(
    command: PlainCommand, rules: Rules, directories: Sequence[str], looks: Looks
) -> Iterator[str]:
    words = command.run
    shown = " ".join(words)[:_MAX_SHOWN]
    if rules.defaults and (what := destroys(command)) is not None:
        yield f"{shown!r} {what}"
    spoken = (words[0].rpartition("/")[2].lower(), *words[1:])
    if any(speaks(spoken, prefix) for prefix in rules.commands if prefix):
        yield f"{shown!r} is a command that must not run here"
    if words[0] in _SAYS:  # printed words are not files
        return
    named = dict.fromkeys(piece for word in words for piece in _places_in(word))
    for directory in directories:
        place = directory if directory[:1] in _ROOTS else f"{looks.working_dir}/{directory}".rstrip("/")
        yield from _objections_to_paths((*named,), rules, place, looks)


def _places_in(word: str) -> Iterator[str]:
    """Yield the parts of a word that may be paths: the whole word, and the text after a separator or a short option."""
    yield word
    if _PART.search(word):
        yield from _PART.split(word)[1:]
        yield word.partition("=")[2]
    if word[:1] == "-" and word[1:2] not in {"", "-"}:
        yield word[2:]


def _objections_to_paths(paths: Sequence[str], rules: Rules, working_dir: str, looks: Looks) -> Iterator[str]:
    for path in paths if rules.paths else ():
        if not looks.pay_for(path):
            yield "it names more paths than can be judged; use several calls"
        pattern = first_that_protects(rules.paths, path, working_dir=working_dir)
        if pattern is not None:
            yield f"{path!r} is protected ({pattern})"
