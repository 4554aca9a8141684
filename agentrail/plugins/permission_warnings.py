"""Warnings about rules that can never match, and rules that have no effect: valid, but probably not intended."""

from collections.abc import Collection, Iterator

from agentrail.plugins.permission_policy import LISTS, PermissionPolicy, WrittenRule
from agentrail.plugins.permission_rules import (
    AnyCall,
    Argument,
    CommandPattern,
    ListName,
    ReadRule,
    is_named,
    read_permission_rule,
)
from agentrail.plugins.shell_plain import PlainCommand
from agentrail.plugins.shell_wildcards import uncovered_by_star, why_never


def warnings_of(policy: PermissionPolicy, tools: Collection[str] | None = None) -> tuple[str, ...]:
    """Return warnings for rules of a policy that can never match or have no effect."""
    found: list[str] = []
    before: dict[str, tuple[ListName, WrittenRule]] = {}
    every: list[tuple[ListName, WrittenRule, ReadRule]] = []
    for name in LISTS:
        listed: tuple[WrittenRule, ...] = getattr(policy, name)
        for index, written in enumerate(listed):
            rule = read_permission_rule(written.text)
            where = f"{name}[{index}] {written.shown}"
            hidden = before.get(written.text) or next(
                (
                    (other, one)
                    for other, one, seen in every
                    if is_named(seen.tool, rule.tool)
                    and (seen.tool in {"*", rule.tool} or "*" not in rule.tool)
                ),
                None,
            )
            if hidden is not None:
                found.append(f"{where} never matches: {hidden[0]} {hidden[1].shown} comes before it")
            else:
                found += (f"{where} {why}" for why in _faults(name, rule, tools))
            before.setdefault(written.text, (name, written))
            if isinstance(rule.pattern, AnyCall):
                every.append((name, written, rule))
    return tuple(found)


def _faults(name: ListName, rule: ReadRule, tools: Collection[str] | None) -> Iterator[str]:
    if tools is not None and not any(is_named(rule.tool, tool) for tool in tools):
        yield f"never matches: there is no tool {rule.tool!r}; the tools are {', '.join(sorted(tools)) or 'none'}"
    command = rule.pattern
    if name == "allow" and isinstance(command, Argument) and not command.can_allow:
        yield (
            "restricts nothing: part of the code, or another argument, does not show its effect; write the whole code, or let a user decide"
        )
    if not isinstance(command, CommandPattern):
        return
    if command.not_read is not None:
        stopped = f"cannot be parsed after character {command.not_read.at}: {command.not_read.why}"
        yield (
            f"never matches: the command {stopped}"
            if name == "allow"
            else f"matches only that exact line: it {stopped}"
        )
    elif name == "allow" and command.has_star and command.words:
        yield from _held_by_star(command)


def _held_by_star(command: CommandPattern) -> Iterator[str]:
    program = command.words[0]
    why = None if 0 in command.stars else why_never(program)
    if program in {"curl", "wget"}:
        yield f"restricts nothing: {program} {why}"
    elif why is not None:
        yield f"never matches: {program} {why}, and no star covers that; write the whole line without a star"
    elif 0 not in command.stars and (stopped := uncovered_by_star(PlainCommand(command.words))) is not None:
        yield f"never matches: no star covers {stopped}"
