"""Options of the plugin `Permissions`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agentrail.blueprints.capability import name_of_plugin, narrows_permissions
from agentrail.config.settings import PolicySettings, Sourced
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError
from agentrail.messages import JsonValue
from agentrail.plugins import Permissions
from agentrail.plugins.permission_policy import LISTS, MODES, narrowest
from agentrail.plugins.permission_rules import RuleFault, read_permission_rule
from agentrail.plugins.permission_state import unlimited_options

_NAME: Final = "Permissions"


def with_policies(
    plugins: Sequence[PluginEntry], policies: Sequence[PolicySettings], *, may_bypass: bool = False
) -> tuple[PluginEntry, ...]:
    """Return a stack whose `Permissions` also has these policies."""
    said = [one for one in policies if not one.is_empty]
    if not said:
        return tuple(plugins)
    scopes, plans_besides = _scopes(said)
    given: dict[str, Any] = {"scopes": scopes, "home": str(Path.home())}
    if may_bypass:
        given["dangerously_bypass_permissions"] = True
    found: list[PluginEntry] = []
    entry: PluginEntry = (Permissions, given)
    for one in plugins:
        if name_of_plugin(one) == _NAME:
            plugin, own = one if isinstance(one, tuple) else (one, {})
            entry = (plugin, {**own, **given, **(_planning(own) if plans_besides else {})})
            found.append(entry)
        else:
            found.append(one)
    if entry in found:
        return tuple(found)
    return (*found, (Permissions, {**given, **(_planning({}) if plans_besides else {})}))


def with_guard_for_agents(plugins: tuple[PluginEntry, ...]) -> tuple[PluginEntry, ...]:
    """Return a stack that can restrict permissions after a handoff, adding `Permissions` without limits if needed."""
    if any(map(narrows_permissions, plugins)):
        return plugins
    return (*plugins, (Permissions, unlimited_options(str(Path.home()))))


def permissions_of_agent(policies: Sequence[PolicySettings]) -> Mapping[str, JsonValue] | None:
    table: dict[str, Any] = {}
    for name in LISTS:
        rules = [rule.value for one in policies for rule in getattr(one, name)]
        if rules:
            table[name] = rules
    modes = [one.mode.value for one in policies if one.mode is not None]
    if modes:
        table["mode"], *others = narrowest(modes)
        if others:
            raise OptionError(
                [f"the modes {table['mode']} and {others[0]} restrict different things: choose one"]
            )
    return table or None


def faults_of_policies(policies: Sequence[PolicySettings]) -> Iterator[tuple[Sourced, str]]:
    for policy in policies:
        if policy.mode is not None and policy.mode.value not in MODES:
            yield (
                policy.mode,
                f"there is no mode {policy.mode.value!r:.80}: expected one of {', '.join(MODES)}",
            )
        for name in LISTS:
            rules: tuple[Sourced, ...] = getattr(policy, name)
            for rule in rules:
                try:
                    read_permission_rule(rule.value)
                except RuleFault as fault:
                    yield rule, f"{name}: at character {fault.at}: {fault.why}, in {rule.value!r:.120}"


def is_planning(policies: Sequence[PolicySettings]) -> bool:
    return any(one.mode is not None and one.mode.value == "plan" for one in policies)


def _scopes(policies: Sequence[PolicySettings]) -> tuple[Mapping[str, JsonValue], bool]:
    """Merge the policies of each scope: lists join, and the narrowest mode wins."""
    scopes: dict[str, Any] = {}
    modes: dict[str, list[Any]] = {}
    for policy in policies:
        table = scopes.setdefault(policy.scope, {})
        for name in LISTS:
            rules = [rule.value for rule in getattr(policy, name)]
            if rules:
                table[name] = [*table.get(name, ()), *rules]
        if policy.mode is not None:
            modes.setdefault(policy.scope, []).append(policy.mode.value)
    besides = False
    for scope, named in modes.items():
        others = [mode for mode in named if mode != "plan"]
        besides = besides or (bool(others) and len(others) < len(named))
        scopes[scope]["mode"] = narrowest(others or named)[0]
    return scopes, besides


def _planning(own: Mapping[str, Any]) -> Mapping[str, JsonValue]:
    """Return the options of a session that begins with a plan, in addition to its own mode."""
    if own.get("mode") in {None, "plan"}:
        return {"mode": "plan"}
    return {"within": [*own.get("within", ()), {"mode": "plan"}]}
