"""A compiled stack of plugins: the listeners of each hook, in order, and all faults of the stack, reported at once.

Compiled once per change, so that a hook without a listener costs one lookup in a mapping, and nothing is sorted while
a session runs.
"""

import functools
import inspect
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import msgspec

from agentrail.core.protocol.actions import (
    MATRIX,
    SHORT_CIRCUITS,
    ActionType,
    Continue,
    Emit,
    Request,
    Treatment,
)
from agentrail.core.protocol.hooks import HOOKS, Hook, HookEvent
from agentrail.core.stack.plugin import SAFETY_BELOW, Context, OnError, Plugin
from agentrail.core.stack.plugin_state import StateType, classes_of, loses
from agentrail.core.values.foreign_calls import WRONG_OPTIONS, Raised, attempt, attempt_with_options
from agentrail.errors import PluginError
from agentrail.frozen import EMPTY, frozen_json, not_json
from agentrail.messages import JsonObject
from agentrail.otp.guarded_calls import show

PluginEntry: TypeAlias = type[Plugin] | Plugin | tuple[type[Plugin] | Plugin, Mapping[str, Any]]
"""A plugin in the options of a session: a class, an instance, or one of them with its options.

`Any` and not `JsonValue`: to a type checker, a list of texts in a caller's variable is not a list of JSON.
"""

PluginStates: TypeAlias = Mapping[str, Any]
"""The state of each plugin of a stack, by its name."""

NO_STATES: Final[PluginStates] = MappingProxyType({})


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plugin in its stack.

    Attributes:
        name: Unique in its stack.
        version: As declared by the plugin.
        priority: Lower is asked first.
        on_error: The meaning of a failing handler.
        options: The options passed to `init`.
        salt: Distinguishes its random numbers from those of others.
        plugin: The plugin itself, always the same object, equal only to itself.
        guards: Whether it is a safety plugin, which judges rewritten arguments again.
    """

    name: str
    version: str
    priority: int
    hooks: frozenset[Hook]
    on_error: OnError
    options: JsonObject
    state_type: StateType
    state_classes: tuple[type, ...]
    salt: int
    plugin: Plugin
    guards: bool


Ask: TypeAlias = Callable[[Member, HookEvent, Any, Context], object]
"""Calls a handler. The shell may supply a version that also measures time, since the core has no clock."""


def call_handler(member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
    return member.plugin.handle(event, state, ctx)


def attempt_as(
    ask: Ask, function: Callable[..., Any], *args: Any, attempting: Callable[..., Any] = attempt
) -> Any:
    """Call code of a plugin other than its handlers, and return its result, or `Raised`.

    If the shell's `call_handler` also has a `call`, it is used: it logs crashes.
    """
    call = getattr(ask, "call", None)
    return attempting(function, *args) if call is None else attempting(call, function, *args)


class Stack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Plugins, in the order in which they are asked.

    Attributes:
        members: All of them.
        by_hook: The listeners of each hook. Hooks without listeners are left out.
        names: All names, in the order in which they are asked.
        warnings: Combinations that are allowed, but probably not intended.
        ask: How a handler is called.
        hiding: Plugins that can hide tools from a model, by `hidden_tools(state, names)`.
        following: Plugins that also judge the target of a path: `path_of(name, arguments)` returns the path of a
            call, if any, and `refusal_of_end(state, name, arguments, working_dir, end)` returns why a call whose
            path leads there must not run.
    """

    members: tuple[Member, ...] = ()
    by_hook: Mapping[Hook, tuple[Member, ...]] = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    ask: Ask = call_handler
    hiding: tuple[Member, ...] = ()
    following: tuple[Member, ...] = ()
    names: tuple[str, ...] = ()

    def listeners(self, hook: Hook) -> tuple[Member, ...]:
        """Return the listeners of a hook. If there are none, the pipeline need not run."""
        return self.by_hook.get(hook, ())

    def find(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)


EMPTY_STACK: Final = Stack()

_MEMBERS_OF_A_PLUGIN: Final = tuple(name for name in vars(Plugin) if not name.startswith("_"))


def load_stack(entries: Sequence[PluginEntry], *, ask: Ask = call_handler) -> tuple[Stack, PluginStates]:
    """Load the plugins of a session, and return their stack and initial states.

    Args:
        entries: In the order of registration.
        ask: How handlers are called. The shell measures them here.

    Raises:
        PluginError: Your move: faults of any of them, all at once, each with the name of its plugin.
    """
    if not entries:
        return EMPTY_STACK if ask is EMPTY_STACK.ask else Stack(ask=ask), NO_STATES
    members: list[Member] = []
    states: dict[str, Any] = {}
    faults: list[str] = []
    for entry in entries:
        try:
            member, state = load_plugin(entry, ask=ask)
        except PluginError as error:
            faults += error.faults
        else:
            members.append(member)
            states[member.name] = state
    if faults:
        raise PluginError(faults)
    return compile_stack(members, ask=ask), MappingProxyType(states)


def parts_of_entry(entry: Any, without: Any = EMPTY) -> tuple[Any, Any]:
    """Return the plugin and the options of a caller's entry. Options that are not given are `without`."""
    if not isinstance(entry, tuple):
        return entry, without
    if len(entry) != 2 or not isinstance(entry[1], Mapping):  # noqa: PLR2004 - a pair
        message = f"{entry!r:.200} is not a plugin: expected a plugin, or a pair of a plugin and its options, a dict"
        raise PluginError([message])
    return entry


def load_plugin(entry: PluginEntry, *, ask: Ask = call_handler) -> tuple[Member, Any]:
    given, options = parts_of_entry(entry)
    plugin = sound_plugin(given, options, ask)
    state = _first_state(plugin, options, ask)
    member = _member(plugin, frozen_json(options), state)
    fault = fault_of_state(member, state) or loses(state, member.state_type)
    if fault is not None:
        raise PluginError([f"plugin {plugin.name!r}: init: {fault}"])
    return member, state


def restored_member(plugin: type[Plugin] | Plugin, options: JsonObject, *, ask: Ask = call_handler) -> Member:
    """Return the member of a plugin whose state was stored. Its `init` is called only if it does not declare its state type.

    Not with all options that a session was given meanwhile: `init` need not accept the options of
    `on_config_update`.
    """
    sound = sound_plugin(plugin, options, ask)
    state = _first_state(sound, options, ask) if sound.state_type is None else None
    return _member(sound, frozen_json(options), state)


def sound_plugin(given: type[Plugin] | Plugin, options: JsonObject, ask: Ask) -> Plugin:
    plugin = attempt_as(ask, given) if isinstance(given, type) else given
    if isinstance(plugin, Raised):
        raise PluginError([f"{show(given)} cannot be made without arguments: {plugin.error.message}"])
    faults = attempt_as(ask, _look_at, plugin)
    if isinstance(faults, Raised):
        raise PluginError([f"an attribute of {type(plugin).__name__} raised {faults.error.message}"])
    if faults is None:
        raise PluginError(
            [f"{show(given)} is not a plugin: derive from p.Plugin, or decorate a function with @p.plugin"]
        )
    fault_of_options = not_json(options, "options")
    if fault_of_options is not None:
        faults.append(fault_of_options)
    if faults:
        raise PluginError([f"plugin {plugin.name!r}: {fault}" for fault in faults])
    return cast("Plugin", plugin)


def _first_state(plugin: Plugin, options: JsonObject, ask: Ask) -> Any:
    state = attempt_as(ask, functools.partial(plugin.init, **options), attempting=attempt_with_options)
    if isinstance(state, Raised):
        if state.error.code == WRONG_OPTIONS:
            raise PluginError([f"plugin {plugin.name!r}: {state.error.message}"])
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise PluginError([f"plugin {plugin.name!r}: init({given}) raised {state.error.message}"])
    return state


def compile_stack(members: Sequence[Member], *, ask: Ask = call_handler) -> Stack:
    ordered = tuple(sorted(members, key=lambda member: member.priority))  # stable: ties stay as registered
    names = [member.name for member in ordered]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise PluginError(
            [f"two plugins are named {name!r}: give one of them another, {name}(name=…)" for name in double]
        )
    by_hook: dict[Hook, tuple[Member, ...]] = {
        hook: listeners
        for hook in HOOKS
        if (listeners := tuple(member for member in ordered if hook in member.hooks))
    }
    warnings = (*_double_writers(by_hook), *_never_reached(ordered, by_hook))
    hiding = tuple([one for one in ordered if callable(getattr(one.plugin, "hidden_tools", None))])
    following = tuple([one for one in ordered if callable(getattr(one.plugin, "refusal_of_end", None))])
    return Stack(
        names=tuple([member.name for member in ordered]),
        members=ordered,
        by_hook=MappingProxyType(by_hook),
        warnings=warnings,
        ask=ask,
        hiding=hiding,
        following=following,
    )


def fault_of_state(member: Member, state: object) -> str | None:
    """Return why a state does not belong to this plugin, or None if it does."""
    if isinstance(state, member.state_classes):
        return None
    wanted = " or ".join(found.__name__ for found in member.state_classes)
    return f"state of type {type(state).__name__}, expected {wanted}: each action carries the plugin's own next state"


# --- checks of one plugin


def _look_at(given: object) -> list[str] | None:
    """Return the faults of a plugin, or None for an object that is not a plugin."""
    # Same as `isinstance`, but before Python 3.12 that one collects the names again each time, in each new
    # session.
    return [*_faults_of(given)] if all(hasattr(given, name) for name in _MEMBERS_OF_A_PLUGIN) else None


def _faults_of(plugin: Any) -> Iterator[str]:
    if not isinstance(plugin.name, str) or not plugin.name:
        yield f"its name is {plugin.name!r}, expected a text that is not empty"
    if not isinstance(plugin.version, str):
        yield f"its version is {plugin.version!r}, expected a text such as '1'"
    if type(plugin.priority) is not int:  # excludes bool, which is an int in Python
        yield f"its priority is {plugin.priority!r}, expected an integer: 0–99 safety, 100–299 core, 300–599 quality, …"
    if plugin.on_error not in {None, "open", "closed"}:
        yield f"its on_error is {plugin.on_error!r}, expected 'open' or 'closed'"
    hooks = () if plugin.hooks is None else plugin.hooks
    if isinstance(hooks, str) or not isinstance(hooks, Collection):  # an iterator is empty the second time
        yield f"its hooks are {show(hooks)}, expected a tuple such as (p.BeforeTool,)"
        hooks = ()
    for hook in hooks:
        if hook not in HOOKS:
            known = ", ".join(known.__name__ for known in HOOKS)
            yield f"it declares the hook {_hook_name(hook)}, which does not exist: expected one of {known}"
    for name in _MEMBERS_OF_A_PLUGIN:
        if inspect.iscoroutinefunction(getattr(plugin, name)):
            yield f"its {name} is async, but a plugin cannot wait: return a Request for async work"
    for hook, action in plugin.always.items():
        if MATRIX.get(hook, {}).get(action) is not Treatment.ACCEPTED:
            yield f"it always answers {_hook_name(hook)} with {action.__name__}, which that hook does not accept"


def _member(plugin: Plugin, options: JsonObject, state: object) -> Member:
    state_type = type(state) if plugin.state_type is None else plugin.state_type
    return Member(
        name=plugin.name,
        version=plugin.version,
        priority=plugin.priority,
        hooks=frozenset(HOOKS if plugin.hooks is None else plugin.hooks),
        on_error=plugin.on_error or ("closed" if plugin.priority < SAFETY_BELOW else "open"),
        options=options,
        state_type=state_type,
        state_classes=classes_of(state_type),
        salt=zlib.crc32(plugin.name.encode("utf-8", "surrogatepass")),
        plugin=plugin,
        guards=plugin.priority < SAFETY_BELOW,
    )


def _hook_name(hook: object) -> str:
    return hook.__name__ if isinstance(hook, type) else repr(hook)


# --- checks of several plugins

# Actions of several plugins on one hook that do not override each other.
_SHARED: Final[frozenset[ActionType]] = frozenset({Continue, Emit, Request})


def _double_writers(by_hook: Mapping[Hook, tuple[Member, ...]]) -> Iterator[str]:
    """Yield warnings about pairs that always write the same thing: the first one's answer never counts."""
    for hook, listeners in by_hook.items():
        first: dict[ActionType, str] = {}
        for member in listeners:
            action = member.plugin.always.get(hook)
            if action is None or action in _SHARED | SHORT_CIRCUITS or action.__name__ == "Intervene":
                continue
            if action in first:
                yield (
                    f"{first[action]!r} and {member.name!r} both always answer {hook.__name__} with {action.__name__}: only the answer of {member.name!r} ever counts"
                )
            first[action] = member.name


def _never_reached(members: Sequence[Member], by_hook: Mapping[Hook, tuple[Member, ...]]) -> Iterator[str]:
    """Yield warnings about plugins that no hook calls, because they declare none or others always stop before them."""
    stoppers: dict[str, set[str]] = {member.name: set() for member in members}
    reached = dict.fromkeys(stoppers, False)
    for hook, listeners in by_hook.items():
        stopped_by: str | None = None
        for member in listeners:
            if stopped_by is None:
                reached[member.name] = True
            else:
                stoppers[member.name].add(stopped_by)
            if stopped_by is None and member.plugin.always.get(hook) in SHORT_CIRCUITS:
                stopped_by = member.name
    for name, found in reached.items():
        if found:
            continue
        by = " and ".join(map(repr, sorted(stoppers[name])))
        why = f"{by} always stops before it" if by else "it handles no hook"
        yield f"{name!r} is never asked: {why}"
