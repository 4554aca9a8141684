"""Options of the plugin `Permissions`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from agentrail.blueprints.capability import name_of_plugin, narrows_permissions, with_options
from agentrail.config.settings import PolicySettings, Sourced
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.errors import OptionError
from agentrail.messages import JsonValue
from agentrail.plugins import Permissions
from agentrail.plugins.permission_policy import LISTS, MODES, narrowest, read_scope
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
    if not any(name_of_plugin(one) == _NAME for one in plugins):
        plugins = (*plugins, Permissions)
    change = partial(_with_scopes, said, may_bypass=may_bypass)
    return tuple(with_options(plugins, _NAME, change))


def _with_scopes(
    policies: Sequence[PolicySettings], own: Mapping[str, Any], *, may_bypass: bool
) -> Mapping[str, Any]:
    before: Any = own.get("scopes") or {}
    try:
        for scope, table in before.items():
            read_scope(scope, table)
    except (AttributeError, TypeError, OptionError):
        return own  # `init` refuses them, with the reason
    scopes, plans_besides = _scopes(policies, before)
    bypass = {"dangerously_bypass_permissions": True} if may_bypass else {}
    planning = _planning(own) if plans_besides else {}
    return {**own, "scopes": scopes, "home": str(Path.home()), **bypass, **planning}


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


def _scopes(
    policies: Sequence[PolicySettings], before: Mapping[str, Any]
) -> tuple[Mapping[str, JsonValue], bool]:
    """Merge the policies of each scope with the plugin's own: lists join, and the narrowest mode wins."""
    scopes: dict[str, Any] = {scope: {**table} for scope, table in before.items()}
    modes = {scope: [table["mode"]] for scope, table in before.items() if "mode" in table}
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
