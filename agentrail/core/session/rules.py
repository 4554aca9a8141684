"""What people always allow: the rules that they make when they decide, and how one is taken back.

A rule is a tool and a family of commands, in the session whose call was decided, and in those above it: what a person always allows
a session below is kept at the root, and what begins below afterwards begins with it. What is at work beside it by then asks for
itself. No rule is made here without a person.
"""

import re
import shlex
from typing import Final

from agentrail.core.protocol.signals import RevokeRule
from agentrail.core.session.state import Rule
from agentrail.core.session.step_context import StepContext
from agentrail.errors import UnknownRule
from agentrail.events import Event, SubagentEvent, ToolApprovedAlways
from agentrail.messages import JsonObject

# fmt: off
_HAS_COMMANDS: Final = frozenset({
    "apt", "brew", "bundle", "cargo", "docker", "gh", "git", "go", "helm", "kubectl", "make", "npm", "pip", "pnpm", "podman",
    "poetry", "terraform", "uv", "yarn",
})
_RUNS_ANYTHING: Final = frozenset({
    "awk", "bash", "dash", "doas", "env", "eval", "exec", "find", "fish", "ksh", "node", "nohup", "perl", "php", "python",
    "python3", "ruby", "sh", "ssh", "sudo", "time", "timeout", "watch", "xargs", "zsh",
})
# fmt: on
_PLAIN_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SHELL_SYNTAX: Final = re.compile(r"[;&|<>`$(){}\n\\*?\[\]!#~]")


def family_of(arguments: JsonObject) -> str | None:
    """Name the commands that are like this one; None for a call that runs no command.

    The family of a simple command is its program, and the command of the program where it has those: `git status`, `ls`.
    A line with any syntax of the shell, or whose program runs what it is told, is a family of its own: a person who allows
    one such line has not allowed another.
    """
    command = arguments.get("command")
    if not isinstance(command, str):
        return None
    words = plain_words(command)
    if words is None:
        return command
    program = words[0]
    # A path or an assignment is no plain word.
    if program in _RUNS_ANYTHING or not _PLAIN_WORD.fullmatch(program):
        return command
    if program not in _HAS_COMMANDS:
        return program
    # An option in front of the command may change what it does: then only the very line is alike.
    return f"{program} {words[1]}" if len(words) > 1 and _PLAIN_WORD.fullmatch(words[1]) else command


def plain_words(line: str) -> tuple[str, ...] | None:
    """Give the words of a line without any syntax of the shell; None of any other, of one that is empty, or of a quote without its end."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return None if not words or _SHELL_SYNTAX.search(line) else tuple(words)


def is_allowed(rules: frozenset[Rule], tool: str, arguments: JsonObject) -> bool:
    """Say whether a person has always allowed this."""
    return _find(rules, tool, family_of(arguments)) is not None


def allow(step: StepContext, tool: str, arguments: JsonObject) -> Rule:
    """Make a rule of what a person always allows, and give it; one that is there stays as it is."""
    return _keep(step, tool, family_of(arguments))


def hear_of_child(step: StepContext, event: Event) -> None:
    """Keep what a person always allows a session below, which has said so, or has passed it on."""
    while type(event) is SubagentEvent:
        event = event.event
    if type(event) is ToolApprovedAlways:
        _keep(step, event.tool, event.command_family)


def _keep(step: StepContext, tool: str, family: str | None) -> Rule:
    rule = _find(step.data.rules, tool, family)
    if rule is None:
        rule = Rule(tool=tool, family=family, at_ms=step.at_ms)
        step.data.rules = step.data.rules | {rule}
    return rule


def revoke(step: StepContext, signal: RevokeRule) -> None:
    """Take a rule back. What runs by it runs on, and what it has let go is not asked about again; the next call is."""
    rule = _find(step.data.rules, signal.tool, signal.command_family)
    if rule is None:
        calls = "calls" if signal.command_family is None else f"commands like {signal.command_family!r:.80}"
        step.refuse(
            signal.signal_id, UnknownRule(f"nothing always allows {calls} of {signal.tool!r:.80} here")
        )
        return
    step.data.rules = step.data.rules - {rule}
    step.reply(signal.signal_id, None)


def _find(rules: frozenset[Rule], tool: str, family: str | None) -> Rule | None:
    # One by one, since a rule also has the time at which it was made; people make few.
    return next((rule for rule in sorted_rules(rules) if rule.tool == tool and rule.family == family), None)


def sorted_rules(rules: frozenset[Rule]) -> tuple[Rule, ...]:
    """Give rules in an order that is the same each time: by tool, then by family, those without one first."""
    return tuple(sorted(rules, key=lambda rule: (rule.tool, rule.family is not None, rule.family or "")))
