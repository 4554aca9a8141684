"""`HumanApproval`: a person decides before some tools run; in a client, or by a line in the chat."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal
from unicodedata import east_asian_width

import attrs

from agentrail.core.actions import Abort, Action, Continue, RequireApproval, ResolveApproval
from agentrail.core.hooks import BeforePrompt, BeforeTool
from agentrail.core.plugin import Context
from agentrail.messages import JsonObject
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.shell_lines import Command, simple_commands

_DECISIONS: Final[dict[str, Literal["approve", "reject", "always"]]] = {
    "approve": "approve",
    "yes": "approve",
    "reject": "reject",
    "no": "reject",
    "always": "always",
}


@attrs.frozen
class Asking:
    """When a person is asked.

    Attributes:
        tools: Names of tools, or patterns of names.
        safe: Commands that need no approval: first words, or a pattern of the whole command.
        confirm_prefix: What a prompt begins with that decides; None: not in the chat.
        timeout_seconds: How long a call waits; 0: for ever.
    """

    tools: tuple[str, ...]
    safe: tuple[str, ...]
    confirm_prefix: str | None
    timeout_seconds: float


class HumanApproval(Plugin[Asking]):
    """Lets a person decide before some tools run."""

    priority = 50

    def init(
        self,
        *,
        require_approval_for: Sequence[str] = ("shell",),
        safe_commands: Sequence[str] = (),
        confirm_prefix: str | None = None,
        timeout_seconds: float = 120,
    ) -> Asking:
        """Take what needs an approval, and which commands do not.

        Raises:
            ValueError: Your move: a prefix without words, or a negative timeout.
        """
        if confirm_prefix is not None and not confirm_prefix.strip():
            message = f"confirm_prefix needs words that a prompt can begin with, got {confirm_prefix!r}"
            raise ValueError(message)
        if timeout_seconds < 0:
            message = f"timeout_seconds is 0, for ever, or more; got {timeout_seconds!r}"
            raise ValueError(message)
        return Asking(
            tools=tuple(require_approval_for),
            safe=tuple(safe_commands),
            confirm_prefix=confirm_prefix,
            timeout_seconds=float(timeout_seconds),
        )

    @on(BeforeTool)
    def ask(self, event: BeforeTool, asking: Asking, ctx: Context) -> Action[Asking]:
        """Ask, unless the call needs no approval or runs safe commands only."""
        if not any(fnmatchcase(event.name, pattern) for pattern in asking.tools):
            return Continue(asking)
        line = event.arguments.get("command")
        if isinstance(line, str) and _is_safe_line(line, asking.safe):
            return Continue(asking)
        hint = (
            f"{event.name}: {line}"
            if isinstance(line, str) and line
            else f"{event.name}{_shown(event.arguments)}"
        )
        return RequireApproval(hint, asking, expires_seconds=asking.timeout_seconds)

    @on(BeforePrompt)
    def decide(self, event: BeforePrompt, asking: Asking, ctx: Context) -> Action[Asking]:
        """Read a decision in a prompt that begins with the prefix."""
        prefix = asking.confirm_prefix
        said = None if prefix is None else _behind(prefix, event.text)
        if prefix is None or said is None:
            return Continue(asking)
        word, _, rest = said.partition(" ")
        decision = _DECISIONS.get(word.lower()) if rest else None
        wanted, decision = (said, "approve") if decision is None else (rest.strip(), decision)
        if wanted:
            return ResolveApproval(wanted, decision, asking)
        usage = f"say {prefix + ' ID'!r}, {prefix + ' reject ID'!r} or {prefix + ' always ID'!r}"
        return Abort(f"no decision: {usage}; the command that waits may stand in place of the ID", asking)


def _behind(prefix: str, text: str) -> str | None:
    """Give what stands behind the prefix; None where a text does not begin with it.

    A prefix that ends in a word ends where that word does: `confirmed` is not `confirm`. One that ends in a mark (`/ok:`), or
    in a script that writes no blanks between words, needs nothing behind it.
    """
    words = prefix.split()
    begun = re.match(r"\s*" + r"\s+".join(map(re.escape, words)), text)
    if begun is None:
        return None
    last, following = words[-1][-1], text[begun.end() : begun.end() + 1]
    if last.isalnum() and following.isalnum() and east_asian_width(last) not in {"W", "F"}:
        return None
    return text[begun.end() :].strip()


def _is_safe_line(line: str, safe: Sequence[str]) -> bool:
    """Say whether each simple command of a line is safe. One that writes files or sets variables is not."""
    commands = list(simple_commands(line))
    return bool(commands) and all(_is_safe(command, safe) for command in commands)


def _is_safe(command: Command, safe: Sequence[str]) -> bool:
    if not command.is_known or command.files or command.sets:
        return False
    # By the words as they were written: `/tmp/git` is not the `git` that somebody trusts.
    text = " ".join(command.words)
    return any(
        fnmatchcase(text, entry)
        if set(entry) & set("*?[")
        else command.words[: len(entry.split())] == tuple(entry.split())
        for entry in safe
        if entry.strip()
    )


def _shown(arguments: JsonObject) -> str:
    shown: list[Any] = [f"{name}={value!r}" for name, value in arguments.items()]
    return f"({', '.join(shown)})"
