"""`SecurityGuard`: refuses calls that touch protected files or run destructive commands.

It reads names and words, so it stops accidents and bad ideas. What a determined program does is for the sandbox to stop.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from agentrail.core.actions import Action, BlockTool, Continue
from agentrail.core.hooks import BeforeTool
from agentrail.core.plugin import Context
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.destructive import destroys
from agentrail.plugins.protected_paths import DEFAULT_PATHS, protects
from agentrail.plugins.shell_lines import simple_commands

MAX_LINE_CHARACTERS: Final = 20_000

_LINE_KEYS: Final = frozenset({"command", "cmd", "script", "command_line"})
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
    def judge(self, event: BeforeTool, rules: Rules, ctx: Context) -> Action[Rules]:
        """Look at every path and every command line of a call."""
        why = next(_objections(event.arguments, rules, ctx.working_dir), None)
        verdict = {"tool": event.name, "call_id": event.call_id, "allowed": why is None, "reason": why}
        emits = (("security_audit", verdict),) if rules.audit else ()
        return (
            Continue(rules, emits=emits) if why is None else BlockTool(f"Not run: {why}", rules, emits=emits)
        )


def _objections(arguments: Mapping[str, Any], rules: Rules, working_dir: str) -> Iterator[str]:
    for key, value in arguments.items():
        items = value if isinstance(value, list) else [value]
        texts = [item for item in items if isinstance(item, str)]
        if key in _LINE_KEYS:
            # A list is an argument vector: quoted, it is the line of a single command.
            line = shlex.join(texts) if isinstance(value, list) else "".join(texts)
            yield from _objections_to_line(line, rules, working_dir)
        elif _PATH_KEY.search(key):
            yield from _objections_to_paths(texts, rules, working_dir)
        for item in items:
            if isinstance(item, Mapping):
                yield from _objections(item, rules, working_dir)


def _objections_to_line(line: str, rules: Rules, working_dir: str) -> Iterator[str]:
    if len(line) > MAX_LINE_CHARACTERS:
        yield f"a command line of {len(line)} characters cannot be judged; at most {MAX_LINE_CHARACTERS} may be"
    for command in simple_commands(line) if len(line) <= MAX_LINE_CHARACTERS else ():
        if not command.is_known and (rules.defaults or rules.commands):
            yield f"it cannot be known which program {' '.join(command.words)!r} runs; name it"
        if rules.defaults and (what := destroys(command)) is not None:
            yield f"{' '.join(command.words)!r} {what}"
        spoken = (command.program, *command.words[1:])
        if any(prefix == spoken[: len(prefix)] for prefix in rules.commands if prefix):
            yield f"{' '.join(command.words)!r} is a command that may not run here"
        named = (
            piece for word in command.words for piece in (word, *word.split("=")[1:], *word.split(":")[1:])
        )
        yield from _objections_to_paths((*named, *command.files), rules, working_dir)


def _objections_to_paths(paths: Sequence[str], rules: Rules, working_dir: str) -> Iterator[str]:
    for path in paths:
        pattern = next((one for one in rules.paths if protects(one, path, working_dir=working_dir)), None)
        if pattern is not None:
            yield f"{path!r} is protected ({pattern})"
