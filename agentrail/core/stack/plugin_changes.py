"""Changes of a stack in a live session: new options, and plugins that are attached, detached and replaced."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import attrs
import msgspec
from msgspec.structs import replace

from agentrail.core.protocol.actions import Abort
from agentrail.core.protocol.hooks import BeforePluginOptsUpdate, HookEvent
from agentrail.core.stack.hook_outcome import Outcome
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
from agentrail.core.stack.pipeline import run_hook
from agentrail.core.stack.plugin import Context, Plugin
from agentrail.core.stack.plugin_state import loses
from agentrail.core.values.foreign_calls import Raised, attempt_with_options
from agentrail.errors import ErrorInfo, PluginError
from agentrail.errors.name_guesses import near_name
from agentrail.events import Event, PluginFailed, PluginOptsUpdated
from agentrail.frozen import FrozenDict, frozen_json
from agentrail.messages import JsonObject


class ChangedStack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stack and its states after a change."""

    stack: Stack
    states: PluginStates


class OptionChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of an option update.

    Attributes:
        states: With the new state, and with the states of the other plugins after they were asked.
        events: To publish, in order. `PluginOptsUpdated` is the last.
    """

    stack: Stack
    states: PluginStates
    events: tuple[Event, ...]


def find_plugin(stack: Stack, name: str) -> Member:
    member = stack.find(name)
    if member is None:
        guess = near_name(name, stack.names, " Did you mean {!r}?")
        there = ", ".join(map(repr, stack.names)) or "none"
        raise PluginError([f"no plugin is named {name!r:.200}.{guess} Plugins: {there}"])
    return member


def apply_config_update(plugin: Plugin, options: JsonObject, state: Any) -> Any:
    """Return the state for new options. The default of `on_config_update`.

    A mapping, an attrs class and a Struct are merged, field by field. Any other state is replaced by the result of
    `init` with the options.
    """
    if isinstance(state, msgspec.Struct):
        return replace(state, **options)
    if attrs.has(type(state)):
        return attrs.evolve(state, **options)
    if isinstance(state, FrozenDict):
        return frozen_json({**state, **options})
    return plugin.init(**options)


def decide_update(
    stack: Stack, name: str, options: JsonObject, states: PluginStates, ctx: Context
) -> OptionChange:
    """Apply an option update that waited for idle, or refuse it.

    The other plugins are asked first (`BeforePluginOptsUpdate`), then the plugin itself returns its new state.
    After a refusal, an exception, or a state that cannot be stored, the old state stays.
    """
    member = stack.find(name)
    if member is None:
        gone = ErrorInfo(code="no_such_plugin", message=f"plugin {name!r} is no longer in the stack")
        return OptionChange(stack=stack, states=states, events=(_failed(name, gone),))
    others = compile_stack([other for other in stack.members if other is not member], ask=stack.ask)
    outcome = run_hook(others, BeforePluginOptsUpdate(plugin=name, options=options), states, ctx)
    state = outcome.states[name]
    fault = _refusal(outcome)
    if fault is None:
        update = member.plugin.on_config_update
        given = frozen_json(options)
        state = attempt_as(stack.ask, update, given, state, attempting=attempt_with_options)
        fault = _fault_in(member, state)
    if fault is not None:
        return OptionChange(
            stack=stack, states=outcome.states, events=(*outcome.events, _failed(name, fault))
        )
    updated = replace(member, options=frozen_json({**member.options, **options}))
    return OptionChange(
        stack=compile_stack([updated if one is member else one for one in stack.members], ask=stack.ask),
        states=MappingProxyType({**outcome.states, name: state}),
        events=(*outcome.events, PluginOptsUpdated(plugin=name, success=True)),
    )


def attach_plugin(stack: Stack, states: PluginStates, entry: PluginEntry) -> ChangedStack:
    member, state = load_plugin(entry, ask=stack.ask)
    grown = compile_stack([*stack.members, member], ask=stack.ask)
    return ChangedStack(stack=grown, states=MappingProxyType({**states, member.name: state}))


def detach_plugin(stack: Stack, states: PluginStates, name: str) -> ChangedStack:
    member = find_plugin(stack, name)
    rest = compile_stack([other for other in stack.members if other is not member], ask=stack.ask)
    left = {other: state for other, state in states.items() if other != name}
    return ChangedStack(stack=rest, states=MappingProxyType(left))


def reload_plugin(
    stack: Stack,
    states: PluginStates,
    entry: PluginEntry,
    *,
    rehearsal: Iterable[tuple[HookEvent, Context]] = (),
) -> ChangedStack:
    """Replace the code of the plugin of the same name, and keep its state."""
    given = entry[0] if isinstance(entry, tuple) else entry
    old = find_plugin(stack, getattr(given, "name", repr(given)))
    fresh, _ = load_plugin(entry if isinstance(entry, tuple) else (given, old.options), ask=stack.ask)
    state = states[old.name]
    if fresh.version != old.version:
        state = attempt_as(stack.ask, fresh.plugin.migrate, old.version, state)
    fault = _fault_in(fresh, state)
    if fault is not None:
        raise PluginError([f"plugin {fresh.name!r} was not reloaded: {fault.message}"])
    _rehearse(fresh, state, rehearsal)
    members = [fresh if one is old else one for one in stack.members]
    return ChangedStack(
        stack=compile_stack(members, ask=stack.ask), states=MappingProxyType({**states, fresh.name: state})
    )


def _rehearse(member: Member, state: Any, rehearsal: Iterable[tuple[HookEvent, Context]]) -> None:
    alone = compile_stack([member])
    states: PluginStates = MappingProxyType({member.name: state})
    for event, ctx in rehearsal:
        outcome = run_hook(alone, event, states, ctx)
        states = outcome.states
        for published in outcome.events:
            if isinstance(published, PluginFailed):
                why = f"on {published.hook} it {published.error.message}"
                raise PluginError([f"plugin {member.name!r} was not reloaded: {why}"])


def _fault_in(member: Member, state: Any) -> ErrorInfo | None:
    if isinstance(state, Raised):
        return state.error
    fault = fault_of_state(member, state) or loses(state, member.state_type)
    return None if fault is None else ErrorInfo(code="plugin_misbehaved", message=f"it made a {fault}")


def _refusal(outcome: Outcome) -> ErrorInfo | None:
    match outcome.decision:
        case None:
            return None
        case decision:
            why = decision.action.reason if isinstance(decision.action, Abort) else "it was skipped"
            return ErrorInfo(code="refused_by_plugin", message=f"refused by {decision.by!r}: {why}")


def _failed(name: str, error: ErrorInfo) -> PluginOptsUpdated:
    return PluginOptsUpdated(plugin=name, success=False, error=error)
