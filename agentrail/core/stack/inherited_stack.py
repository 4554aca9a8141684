"""The stack of a child session, and of a session that continues as another agent: its guards stay, and it is never allowed more."""

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from agentrail.core.stack.loaded_stack import (
    Member,
    PluginEntry,
    PluginStates,
    Stack,
    attempt_as,
    compile_stack,
    fault_of_state,
    load_plugin,
)
from agentrail.core.stack.plugin_changes import ChangedStack
from agentrail.core.stack.plugin_state import loses
from agentrail.core.values.foreign_calls import Raised
from agentrail.errors import PluginError
from agentrail.frozen import frozen_json, not_json
from agentrail.messages import JsonObject


def entries_now(stack: Stack, states: PluginStates) -> tuple[PluginEntry, ...]:
    """Return the plugins of a stack for a child session, each with its current options."""
    return tuple(
        [
            (one.plugin, _options_of(stack, one, states[one.name], "options_below", "options_now"))
            for one in stack.members
        ]
    )


def options_shown(stack: Stack, states: PluginStates) -> tuple[JsonObject, ...]:
    """Return the current options of each plugin, for users. A plugin that does not report them gets its initial ones."""
    return tuple([_shown(stack, member, states) for member in stack.members])


def hidden_tools(stack: Stack, states: PluginStates, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tools to hide from a model, because every call would be refused. Calls that still come are judged anyway."""
    hidden: dict[str, None] = {}
    for member in stack.hiding:
        say: Any = member.plugin
        found = attempt_as(stack.ask, say.hidden_tools, states[member.name], names)
        # A plugin that raises hides nothing. The call itself is judged, and its fault is reported.
        if isinstance(found, tuple):
            hidden.update(dict.fromkeys(name for name in found if name in names))
    return tuple(hidden)


def narrows(stack: Stack) -> bool:
    return any(_narrowing(member) is not None for member in stack.members)


def narrowing_of(stack: Stack, name: str, options: JsonObject) -> JsonObject | None:
    """Return the rules of an option update that apply to child sessions at once."""
    member = stack.find(name)
    if member is None or _narrowing(member) is None:
        return None
    found = {key: options[key] for key in ("deny", "ask") if options.get(key)}
    return frozen_json(found) if found else None


def narrow_stack(stack: Stack, states: PluginStates, permissions: JsonObject) -> ChangedStack:
    member, narrow = next(
        ((one, found) for one in stack.members if (found := _narrowing(one)) is not None), (None, None)
    )
    if member is None or narrow is None:
        fault = "no plugin of the session can enforce an agent's permissions: give it the plugin Permissions"
        raise PluginError([fault])
    options = _options_of(stack, member, states[member.name], "options_now")
    made = attempt_as(
        stack.ask, partial(_narrowed, member, narrow), options, states[member.name], permissions
    )
    if isinstance(made, Raised):
        raise PluginError([f"plugin {member.name!r} does not narrow: {made.error.message}"])
    given, state = made
    updated = replace(member, options=given)
    members = [updated if one is member else one for one in stack.members]
    return ChangedStack(
        stack=compile_stack(members, ask=stack.ask),
        states=MappingProxyType({**states, member.name: state}),
    )


def replace_unsafe(stack: Stack, states: PluginStates, entries: Sequence[PluginEntry]) -> ChangedStack:
    """Replace all plugins except guards. The guards keep their states, even if one is listed again."""
    members = [member for member in stack.members if member.guards]
    kept = {member.name: states[member.name] for member in members}
    for entry in entries:
        member, state = load_plugin(entry, ask=stack.ask)
        if member.name not in kept:
            members.append(member)
            kept[member.name] = state
    return ChangedStack(stack=compile_stack(members, ask=stack.ask), states=MappingProxyType(kept))


def _shown(stack: Stack, member: Member, states: PluginStates) -> JsonObject:
    try:
        return _options_of(stack, member, states[member.name], "options_now")
    except PluginError:
        return member.options


def _options_of(stack: Stack, member: Member, state: Any, *methods: str) -> JsonObject:
    """Return the options as the plugin's first of these methods describes them, or those it was given."""
    found = [say for name in methods if (say := getattr(member.plugin, name, None)) is not None]
    if not found:
        return member.options
    options = attempt_as(stack.ask, found[0], member.options, state)
    if isinstance(options, Raised):
        raise PluginError([f"plugin {member.name!r} cannot describe its options: {options.error.message}"])
    fault = not_json(options, "options")
    if fault is not None:
        raise PluginError([f"plugin {member.name!r} returned wrong options: {fault}"])
    return frozen_json(options)


def _narrowing(member: Member) -> Callable[..., Any] | None:
    found = getattr(member.plugin, "narrow_permissions", None)
    return found if callable(found) else None


def _narrowed(
    member: Member, narrow: Callable[..., Any], options: JsonObject, state: Any, permissions: JsonObject
) -> tuple[JsonObject, Any]:
    given, made = narrow(options, state, permissions)
    fault = not_json(given, "options") or fault_of_state(member, made) or loses(made, member.state_type)
    if fault is not None:
        message = f"it made a {fault}"
        raise TypeError(message)
    return frozen_json(given), made
