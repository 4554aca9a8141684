"""`HumanApproval`: asks the user before some tools run. The user decides in a client, or with a line in the chat."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs

from agentrail.core.protocol.actions import (
    FORMER_APPROVAL_SECONDS,
    Abort,
    Action,
    Continue,
    RequireApproval,
    ResolveApproval,
    fault_of_options,
)
from agentrail.core.protocol.hooks import BeforePrompt, BeforeTool
from agentrail.core.stack.plugin import Context
from agentrail.events.values import PERMISSION_OPTIONS, PermissionOption
from agentrail.plugins.base import Plugin, on
from agentrail.plugins.chat_decisions import forms_of, read_decision, text_behind
from agentrail.plugins.shell_plain import PlainCommand, PlainLine, read_plain


@attrs.frozen
class Asking:
    """When to ask the user.

    Attributes:
        confirm_prefix: Prefix of a prompt that carries a decision. None: no decisions in the chat.
        timeout_seconds: Time limit for a call to wait. 0 waits for a decision. None uses the session's limit.
    """

    tools: tuple[str, ...]
    safe: tuple[str, ...]
    confirm_prefix: str | None
    timeout_seconds: float | None
    permission_options: tuple[PermissionOption, ...] = attrs.field(
        default=PERMISSION_OPTIONS, converter=tuple
    )


class HumanApproval(Plugin[Asking]):
    """Lets the user decide before some tools run."""

    priority = 50

    def init(
        self,
        *,
        require_approval_for: Sequence[str] = ("shell",),
        safe_commands: Sequence[str] = (),
        confirm_prefix: str | None = None,
        timeout_seconds: float | None = None,
        permission_options: Sequence[PermissionOption] = PERMISSION_OPTIONS,
    ) -> Asking:
        """Set the tools that need approval, the commands that do not, and the possible answers.

        Omit `timeout_seconds`: the session's `approval_timeout_seconds` is the deadline. It is kept for options in older journals.

        Raises:
            ValueError: Your move: a prefix without words, a negative timeout, an unknown answer, or a prefix for which no
                offered answer can be written.
        """
        if confirm_prefix is not None and not confirm_prefix.strip():
            message = f"confirm_prefix must be a text that a prompt can begin with, got {confirm_prefix!r}"
            raise ValueError(message)
        if timeout_seconds is not None and timeout_seconds < 0:
            message = f"timeout_seconds must be 0 (no limit) or more; got {timeout_seconds!r}"
            raise ValueError(message)
        options: tuple[Any, ...] = (  # a single word in place of a list must not be read as a list of letters
            (permission_options,) if isinstance(permission_options, str) else tuple(permission_options)
        )
        fault = fault_of_options(options)
        if fault is not None:
            raise ValueError(fault)
        if confirm_prefix is not None and not forms_of(options):
            message = (
                f"confirm_prefix needs approve, reject or always among permission_options, got {options!r}"
            )
            raise ValueError(message)
        return Asking(
            tools=tuple(require_approval_for),
            safe=tuple(safe_commands),
            confirm_prefix=confirm_prefix,
            timeout_seconds=None if timeout_seconds is None else float(timeout_seconds),
            permission_options=options,
        )

    @on(BeforeTool)
    def ask(self, event: BeforeTool, asking: Asking, ctx: Context) -> Action[Asking]:
        """Ask, unless the call needs no approval or runs only safe commands."""
        if not any(fnmatchcase(event.name, pattern) for pattern in asking.tools):
            return Continue(asking)
        line = event.arguments.get("command")
        if isinstance(line, str) and _is_safe_line(line, asking.safe):
            return Continue(asking)
        return RequireApproval(
            _why(event.name, asking, is_line=isinstance(line, str)),
            asking,
            expires_seconds=asking.timeout_seconds,
            former_expires_seconds=FORMER_APPROVAL_SECONDS,
            permission_options=asking.permission_options,
        )

    @on(BeforePrompt)
    def decide(self, event: BeforePrompt, asking: Asking, ctx: Context) -> Action[Asking]:
        """Read a decision from a prompt that starts with the prefix."""
        prefix = asking.confirm_prefix
        said = None if prefix is None else text_behind(prefix, event.text)
        if prefix is None or said is None:
            return Continue(asking)
        decision = read_decision(said)
        if decision is not None:
            return ResolveApproval(decision.wanted, decision.answer, asking)
        *most, last = (repr(prefix + form) for form in forms_of(asking.permission_options))
        usage = f"say {', '.join(most)} or {last}" if most else f"say {last}"
        return Abort(f"no decision: {usage}; instead of the ID, you can write the pending command", asking)


def _is_safe_line(line: str, safe: Sequence[str]) -> bool:
    """Whether each simple command of a line is safe. An unreadable line is not safe."""
    reading = read_plain(line)
    return isinstance(reading, PlainLine) and all(_is_safe(command, safe) for command in reading.commands)


def _is_safe(command: PlainCommand, safe: Sequence[str]) -> bool:
    # Compares the words as written: `/tmp/git` is not the `git` that the operator trusts.
    text = " ".join(command.words)
    return any(
        fnmatchcase(text, entry)
        if set(entry) & set("*?[")
        else command.words[: len(entry.split())] == tuple(entry.split())
        for entry in safe
        if entry.strip()
    )


def _why(name: str, asking: Asking, *, is_line: bool) -> str:
    """Return the reason for the question. It omits the command, which the approval contains: a repetition could disagree with it."""
    pattern = next(one for one in asking.tools if fnmatchcase(name, one))
    whose = "each call" if pattern == "*" else f"each call of {pattern}"
    besides = "; this line contains more than safe commands" if is_line and asking.safe else ""
    return f"{whose} needs an approval{besides}"
