"""`SecurityGuard`: refuses calls that touch protected files or run destructive commands.

It reads names and words, so it stops accidents and bad ideas. What a determined program does is for the sandbox to stop.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from agentrail.core.protocol.actions import Action, BlockTool, Continue
from agentrail.core.protocol.hooks import BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.destructive import destroys
from agentrail.plugins.protected_paths import DEFAULT_PATHS, Looks, first_that_protects
from agentrail.plugins.shell_lines import MAX_SHELL_LINE_CHARACTERS, ShellCommand, simple_commands
from agentrail.plugins.shell_programs import speaks
from agentrail.plugins.shell_values import MARKS

_LINE_KEYS: Final = frozenset({"command", "cmd", "script", "command_line", "commands", "argv"})
_PART: Final = re.compile(r"[=:,@]")
_PATH_KEY: Final = re.compile(
    r"(?:^|_)(?:path|file|filename|dir|directory|folder|source|src|destination|dest|target|cwd|workdir|root)s?$"
)


@attrs.frozen
class Rules:
    """What is refused.

    Attributes:
        paths: Patterns of protected paths.
        commands: The first words of commands that do not run, besides the destructive ones.
        defaults: Whether the destructive ones are refused.
        audit: Whether each verdict is published.
    """

    paths: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    defaults: bool
    audit: bool


class SecurityGuard(Plugin[Rules]):
    """Refuses calls that touch protected files or run destructive commands."""

    priority = 10

    def init(
        self,
        *,
        blocked_paths: Sequence[str] = (),
        blocked_commands: Sequence[str] = (),
        defaults: bool = True,
        audit: bool = False,
    ) -> Rules:
        """Take patterns and commands to refuse besides the defaults, or in place of them."""
        return Rules(
            paths=(*(DEFAULT_PATHS if defaults else ()), *blocked_paths),
            commands=tuple(tuple(shlex.split(command)) for command in blocked_commands),
            defaults=defaults,
            audit=audit,
        )

    @on(BeforeTool)
    def check(self, event: BeforeTool, rules: Rules, ctx: Context) -> Action[Rules]:
        """Look at every path and every command line of a call."""
        why = next(_objections(event.arguments, rules, ctx.working_dir), None)
        verdict = {"tool": event.name, "call_id": event.call_id, "allowed": why is None, "reason": why}
        emits = (("security_audit", verdict),) if rules.audit else ()
        return (
            Continue(rules, emits=emits) if why is None else BlockTool(f"Not run: {why}", rules, emits=emits)
        )


def _objections(arguments: Mapping[str, Any], rules: Rules, working_dir: str) -> Iterator[str]:
    looks = Looks(working_dir)
    left: list[tuple[str, Any]] = list(arguments.items())
    for key, value in left:  # grows by what is nested, to any depth
        if isinstance(value, Mapping):
            left += value.items()
            continue
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        left += [(key, item) for item in items if isinstance(item, Mapping | list | tuple)]
        texts = [item for item in items if isinstance(item, str)]
        if texts and key.lower() in _LINE_KEYS:
            yield from _objections_to_lines(key.lower(), value, texts, rules, looks)
        elif _PATH_KEY.search(key.lower()):
            yield from _objections_to_paths(texts, rules, working_dir, looks)


def _objections_to_lines(
    key: str, value: Any, texts: Sequence[str], rules: Rules, looks: Looks
) -> Iterator[str]:
    """Judge lines; a list is an argument vector, quoted the line of a single command, or one line for each item."""
    if isinstance(value, str) or key == "commands":
        lines = list(texts)
    elif sum(map(len, texts)) + len(texts) > MAX_SHELL_LINE_CHARACTERS:
        # Not even quoted: that alone would take its time.
        lines = ["x" * (MAX_SHELL_LINE_CHARACTERS + 1)]
    else:
        lines = [shlex.join(texts)]
    if sum(map(len, lines)) + len(lines) > MAX_SHELL_LINE_CHARACTERS:
        lines = ["x" * (MAX_SHELL_LINE_CHARACTERS + 1)]
    for line in lines:
        for command in simple_commands(line):
            yield from _objections_to_command(command, rules, looks.working_dir, looks)


def _objections_to_command(
    command: ShellCommand, rules: Rules, working_dir: str, looks: Looks
) -> Iterator[str]:
    if not command.is_known and (rules.defaults or rules.commands or command.why):
        why = command.why or f"it cannot be known which program {command.shown!r} runs; name it"
        yield f"{command.shown!r}: {command.why}" if command.why else why
    if rules.defaults and (what := destroys(command)) is not None:
        yield f"{command.shown!r} {what}"
    spoken = (command.program, *command.words[1:])
    if any(speaks(spoken, prefix) for prefix in rules.commands if prefix):
        yield f"{command.shown!r} is a command that may not run here"
    # What is only said is no file; a redirection is.
    words = () if command.is_said else command.words
    named = dict.fromkeys(piece for word in words for piece in _places_in(word))
    for directory in ("", *command.directories):
        place = directory if directory.startswith(("/", "~")) else f"{working_dir}/{directory}".rstrip("/")
        yield from _objections_to_paths((*named, *command.files), rules, place, looks)


def _places_in(word: str) -> Iterator[str]:
    """Give what of a word may be a path: all of it, what stands behind a mark in it, or behind a short option."""
    word = MARKS.sub("", word)
    yield word
    if _PART.search(word):
        yield from _PART.split(word)[1:]
        yield word.partition("=")[2]
    if word[:1] == "-" and word[1:2] not in {"", "-"}:
        yield word[2:]


def _objections_to_paths(paths: Sequence[str], rules: Rules, working_dir: str, looks: Looks) -> Iterator[str]:
    for path in paths if rules.paths else ():
        if not looks.pay_for(path):
            yield "it names more paths than can be judged; do it in several calls"
        pattern = first_that_protects(rules.paths, path, working_dir=working_dir)
        if pattern is not None:
            yield f"{path!r} is protected ({pattern})"
