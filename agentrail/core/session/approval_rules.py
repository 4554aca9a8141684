"""Rules of the user about calls that are always allowed: how a decision makes one, and how one is revoked.

A rule is a tool and the very words of a command.
"""

import hashlib
import re
from itertools import islice
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from agentrail.core.protocol.signals import RevokeRule
from agentrail.core.session.open_calls import CallState
from agentrail.core.session.state import Rule
from agentrail.core.session.step_context import StepContext
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.errors import UnknownRule
from agentrail.events import Event, SubagentEvent, ToolApprovedAlways
from agentrail.frozen import canonical_json
from agentrail.messages import JsonObject, JsonValue

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

_AT_HOME: Final = (".", "./", "", None)

_DIGEST: Final = "agent "
"""Beginning of `Rule.shown` for a tool of no source. The first such rules were for tools of other agents."""


def family_of(arguments: JsonObject) -> str | None:
    """Return the words that a rule made of this call would cover, or None for a call that runs no command.

    They are the command line, letter by letter. If other arguments affect the command, such as another directory,
    they are the JSON text of all of these.
    """
    command = arguments.get("command")
    if not isinstance(command, str):
        return None
    others = {name: value for name, value in arguments.items() if not _changes_nothing(name, value)}
    # A line that looks like such a text is written as one, so that different calls never have the same words.
    return canonical_json(others).decode() if len(others) > 1 or command.startswith("{") else command


def _changes_nothing(name: str, value: JsonValue) -> bool:
    return (
        name == "timeout_seconds"
        or (name == "workdir" and value in _AT_HOME)
        or (name == "background" and value is False)
    )


def program_family_of(arguments: JsonObject) -> str | None:
    """Return the group of similar commands, for rules that are not exact, or None for a call that runs no command.

    Only records from before `Rule.exact` have such rules. Their family of a simple command is its program, plus the
    subcommand if it has any: `git status`, `ls`. A line with shell syntax, or whose program runs arbitrary
    commands, is a family of its own.
    """
    command = arguments.get("command")
    if not isinstance(command, str):
        return None
    words = plain_words(command, most=2)
    if words is None:
        return command
    program = words[0]
    # A path or an assignment is not a plain word.
    if program in _RUNS_ANYTHING or not _PLAIN_WORD.fullmatch(program):
        return command
    if program not in _HAS_COMMANDS:
        return program
    # An option before the subcommand may change its effect. Then only the very same line is alike.
    return f"{program} {words[1]}" if len(words) > 1 and _PLAIN_WORD.fullmatch(words[1]) else command


_CLOSED: Final = re.compile(r"""(?:[^'"]++|'[^']*+'|"[^"]*+")*+""")
_WORD: Final = re.compile(r"""(?:[^ \t\r\n'"]++|'[^']*+'|"[^"]*+")++""")
_PART: Final = re.compile(r"""([^'"]++)|'([^']*+)'|"([^"]*+)\"""")


def plain_words(line: str, *, most: int | None = None) -> tuple[str, ...] | None:
    """Split a line without shell syntax into words, same as `shlex.split`, in linear time."""
    if _SHELL_SYNTAX.search(line) or not _CLOSED.fullmatch(line):
        return None
    return tuple(_unquoted(found[0]) for found in islice(_WORD.finditer(line), most)) or None


def _unquoted(word: str) -> str:
    if "'" not in word or '"' not in word:  # one kind of quotes, all closed
        return word.replace("'", "").replace('"', "")
    return "".join(map("".join, _PART.findall(word)))


def is_allowed(rules: frozenset[Rule], tool: str, arguments: JsonObject, shown: str = "") -> bool:
    by_exact = sorted(rules, key=attrgetter("exact"))
    own = [rule for rule in by_exact if rule.tool == tool and is_shown(rule, shown) and not rule.breaks]
    # Read once for all rules: arguments may be a megabyte long.
    families = {
        is_exact: family_of(arguments) if is_exact else program_family_of(arguments)
        for is_exact in dict.fromkeys(rule.exact for rule in own)
    }
    return any(rule.family == families[rule.exact] for rule in own)


def covers(rule: Rule, tool: str, arguments: JsonObject) -> bool:
    if rule.tool != tool:
        return False
    return rule.family == (family_of(arguments) if rule.exact else program_family_of(arguments))


def is_shown(rule: Rule, shown: str) -> bool:
    """Whether a rule is for this text of its tool. Before version 3, rules for tools of no source had none."""
    return rule.shown == shown or (not rule.shown and shown.startswith(_DIGEST))


def rule_tool(rule: Rule, spec: ToolSpec | None) -> str | None:
    """Return how a list of rules names the tool of this one. None for an earlier text of a source's tool."""
    if rule.breaks or is_shown(rule, rule_text(spec)):
        return rule.tool
    if rule.shown.startswith(_DIGEST):
        return f"{rule.tool} of another agent, or before it changed"
    return rule.tool if spec is None else None


def shown_text(step: StepContext, state: CallState) -> str:
    if step.data.semantics > 2:  # noqa: PLR2004 - a version
        return rule_text(state.spec)
    return "" if state.spec is None else state.spec.shown_text


def rule_text(spec: ToolSpec | None) -> str:
    """Return the text of a tool of a source, or a digest of the facts that tell another tool from others of its name."""
    if spec is not None and spec.shown_text:
        return spec.shown_text
    told = () if spec is None else (spec.description, spec.parameters, spec.effect_class)
    return _DIGEST + hashlib.sha256(canonical_json(told)).hexdigest()


def rule_of(tool: str, arguments: JsonObject) -> Rule:
    family = family_of(arguments)
    return Rule(tool=tool, family=family, exact=family is not None)


def allow(step: StepContext, tool: str, arguments: JsonObject, shown: str = "") -> Rule:
    """Create the rule for a call that is always allowed, and return it. An existing rule stays unchanged."""
    if step.data.semantics == 0:
        return _keep(step, Rule(tool=tool, family=program_family_of(arguments)))
    return _keep(step, replace(rule_of(tool, arguments), shown=shown))


def rule_below(rule: Rule, here: Toolbox) -> Rule:
    """Return a rule for a child session, where it covers only the tool that the user saw here."""
    if rule.shown or rule.breaks:
        return rule
    return replace(rule, shown=rule_text(here.get(rule.tool)))


def hear_of_child(step: StepContext, event: Event) -> None:
    """Keep a rule that was made in a child session or passed on by it."""
    while type(event) is SubagentEvent:
        event = event.event
    if type(event) is ToolApprovedAlways:
        _keep(step, Rule(tool=event.tool, family=event.command_family, exact=event.exact, shown=event.shown))


def _keep(step: StepContext, made: Rule) -> Rule:
    """Add a rule, in place of one for an earlier text of its tool. An equal one stays unchanged."""
    rule = _find(step.data.rules, made)
    if rule is not None and rule.shown == made.shown:
        return rule
    new = replace(made, at_ms=step.at_ms)
    step.data.rules = frozenset(one for one in step.data.rules if one is not rule) | {new}
    return new


def revoke(step: StepContext, signal: RevokeRule) -> None:
    """Revoke a rule, or set or end a breakpoint. Calls already allowed keep running and are not asked about again."""
    wanted = Rule(tool=signal.tool, family=signal.command_family, exact=signal.exact)
    if signal.breakpoint is not None:
        wanted = Rule(tool=signal.tool, family=None, breaks=True)
    if signal.breakpoint == "set":
        _keep(step, wanted)
        step.reply(signal.signal_id, None)
        return
    rule = _find(step.data.rules, wanted)
    if rule is None:
        calls = "calls" if signal.command_family is None else f"commands like {signal.command_family!r:.80}"
        what = "no breakpoint stops calls" if wanted.breaks else f"nothing always allows {calls}"
        step.refuse(signal.signal_id, UnknownRule(f"{what} of {signal.tool!r:.80} here"))
        return
    step.data.rules = step.data.rules - {rule}
    step.reply(signal.signal_id, None)


def _find(rules: frozenset[Rule], wanted: Rule) -> Rule | None:
    # One by one, since a rule also has its time of creation. Users make few.
    return next((rule for rule in sorted_rules(rules) if _what(rule) == _what(wanted)), None)


def _what(rule: Rule) -> tuple[str, bool, str, bool, bool]:
    """Return the content of a rule, in the order in which rules are listed."""
    return (rule.tool, rule.family is not None, rule.family or "", rule.exact, rule.breaks)


def sorted_rules(rules: frozenset[Rule]) -> tuple[Rule, ...]:
    """Return rules in a stable order: by tool, then by words, those without any first."""
    return tuple(sorted(rules, key=_what))
