"""Slash commands of other programs: `.claude/commands`, `.codex/prompts`, `.gemini/commands`.

>>> command = read_markdown_command("claude", "git/commit.md", "Commit $ARGUMENTS, then $0.")
>>> command.name, expand_command(command, "now please")
('git:commit', 'Commit now please, then now.')
"""

import re
import shlex
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from agentrail.config.front_matter import HeadFault, YamlHead, read_yaml_head
from agentrail.config.structure import show_value
from agentrail.config.toml_text import TomlFault, read_toml_text
from agentrail.errors import CommandError

CommandOrigin: TypeAlias = Literal["claude", "codex", "gemini"]

MAX_EXPANDED_PROMPT: Final = 1_000_000

_PLACE: Final = re.compile(r"\$ARGUMENTS\[(\d{1,4})\]|\$ARGUMENTS|\$(\d{1,4})|\$\$|\{\{args\}\}")
_READ: Final = frozenset({"description", "argument-hint", "argument_hint"})
_RUNS: Final[dict[str, re.Pattern[str]]] = {
    "claude": re.compile(r"!`[^`\n]*`"),
    "codex": re.compile(r"(?!)"),
    "gemini": re.compile(r"!\{"),
}
_OPENS: Final[dict[str, re.Pattern[str]]] = {
    "claude": re.compile(r"(?<!\S)@[\w./~-]+"),
    "codex": re.compile(r"(?!)"),
    "gemini": re.compile(r"@\{"),
}


class CommandFault(Exception):
    """The file is not a command. The message names what was expected."""


@frozen(kw_only=True)
class ImportedCommand:
    """A command of another program. `name` is its path with `:` for `/`, `first` the number of the first argument: 0 or 1."""

    name: str
    prompt: str
    origin: CommandOrigin
    description: str = ""
    argument_hint: str = ""
    first: int = 0
    notes: tuple[str, ...] = ()


def read_markdown_command(origin: Literal["claude", "codex"], path: str, text: str) -> ImportedCommand:
    head = YamlHead(values={}, body=text.strip("\n"), lines={})
    if text.removeprefix("\ufeff").startswith("---"):
        try:
            head = read_yaml_head(text)
        except HeadFault as fault:
            raise CommandFault(str(fault)) from None
    notes = [f"{key} is not read" for key in head.values if key not in _READ]
    first = 1 if origin == "codex" else 0
    numbers = {match[1] or match[2] for match in _PLACE.finditer(head.body) if match[1] or match[2]}
    if origin == "claude" and "1" in numbers and "0" not in numbers:
        first = 1
        notes.append("it has $1 but no $0: arguments are counted from 1")
    return ImportedCommand(
        name=_name(path, ".md"),
        prompt=head.body,
        origin=origin,
        description=_text(head.values, "description"),
        argument_hint=_text(head.values, "argument-hint") or _text(head.values, "argument_hint"),
        first=first,
        notes=(*notes, *_not_done(origin, head.body)),
    )


def read_gemini_command(path: str, text: str) -> ImportedCommand:
    try:
        values, _ = read_toml_text(text)
    except TomlFault as fault:
        raise CommandFault(str(fault)) from None
    prompt = _text(values, "prompt")
    if not prompt:
        message = "it has no prompt: write one"
        raise CommandFault(message)
    notes = [f"{key} is not read" for key in values if key not in {"prompt", "description"}]
    return ImportedCommand(
        name=_name(path, ".toml"),
        prompt=prompt,
        origin="gemini",
        description=_text(values, "description"),
        notes=(*notes, *_not_done("gemini", prompt)),
    )


def expand_command(command: ImportedCommand, arguments: str) -> str:
    """Replace the placeholders once, or append the arguments if there are none."""
    found = list(_PLACE.finditer(command.prompt))
    words = _words_of(arguments) if any(one[1] or one[2] for one in found) else []
    put_in = [_value(command, one, arguments, words) for one in found]
    is_taken = any(_takes_arguments(command, one) for one in found)
    behind = f"\n\n{arguments}" if arguments.strip() and not is_taken else ""
    # Checked before joining: a prompt with ten thousand $ARGUMENTS would take gigabytes.
    grows = sum(len(value) - len(one[0]) for value, one in zip(put_in, found, strict=True))
    length = len(command.prompt) + grows + len(behind)
    if length > MAX_EXPANDED_PROMPT:
        message = (
            f"/{command.name} would become a prompt of {length:,} characters: "
            f"at most {MAX_EXPANDED_PROMPT:,}, type less after it"
        )
        raise CommandError(message)
    values = iter(put_in)
    return _PLACE.sub(lambda _: next(values), command.prompt) + behind


def _takes_arguments(command: ImportedCommand, place: re.Match[str]) -> bool:
    return place[0] == "{{args}}" if command.origin == "gemini" else place[0] not in {"{{args}}", "$$"}


def _value(command: ImportedCommand, place: re.Match[str], arguments: str, words: list[str]) -> str:
    if not _takes_arguments(command, place):
        return "$" if place[0] == "$$" and command.origin == "codex" else place[0]
    if place[0] in {"$ARGUMENTS", "{{args}}"}:
        return arguments
    at = int(place[1] or place[2]) - command.first
    return words[at] if 0 <= at < len(words) else ""


def _words_of(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _name(path: str, ending: str) -> str:
    return path.removesuffix(ending).replace("/", ":")


def _text(values: dict[str, Any], key: str) -> str:
    value = values.get(key, "")
    if isinstance(value, list):  # YAML parses `argument-hint: [file]` as a list, but it is meant literally
        return f"[{', '.join(map(str, value))}]"
    if not isinstance(value, str):
        message = f"{key}: expected a text, got {show_value(value)}"
        raise CommandFault(message)
    return value.strip("\n")


def _not_done(origin: CommandOrigin, prompt: str) -> tuple[str, ...]:
    """Return notes on commands and file references that stay as text."""
    found = []
    if _RUNS[origin].search(prompt):
        found.append("commands in it are not run: they remain text")
    if _OPENS[origin].search(prompt):
        found.append("files in it are not opened: they remain text")
    return tuple(found)
