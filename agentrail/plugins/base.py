"""Base classes for plugin authors: a class or a function, with defaults for everything that the pipeline expects."""

import abc
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, get_args, get_origin

from agentrail.core.protocol.actions import (
    ACTIONS,
    SHORT_CIRCUITS,
    Action,
    ActionType,
    Continue,
    ReplaceMessages,
)
from agentrail.core.protocol.hooks import BeforeRequest, Hook, HookEvent, RequestDone
from agentrail.core.stack import plugin_changes
from agentrail.core.stack.plugin import Context, Emission, OnError, Plugin as Port
from agentrail.core.stack.plugin_state import StateType
from agentrail.core.values.port_members import offers
from agentrail.errors import PluginError
from agentrail.messages import JsonObject, Text, UserMessage
from agentrail.otp.guarded_calls import repr_of, takes

S = TypeVar("S")
M = TypeVar("M", bound=Callable[..., Action[Any]])

_HOOKS: Final = "_agentrail_hooks"
_CALLED: Final = frozenset({"handle", "describe", "on_config_update", "on_session_end", "migrate"})


def _check_parameters(name: str, handler: Callable[..., object], model: Callable[..., object]) -> None:
    _, *wanted = inspect.signature(model).parameters
    if not takes(handler, wanted):
        raise PluginError([f"{name!r} must take {', '.join(wanted)}: it is called with exactly these"])


class Plugin(abc.ABC, Generic[S]):
    """A plugin as a class: subclass `Plugin[YourState]`, write `init`, and write `handle` or methods marked with `on`.

    Attributes:
        name: Unique in a stack. Defaults to the name of the class, unless the class or its caller sets another.
        version: Recorded in the journal. A state of another version goes through `migrate`.
        priority: Lower runs first: 0–99 safety, 100–299 core, 300–599 quality, 600–899 intelligence, 900+ own.
        hooks: The hooks it subscribes to. None for all, or for those of its marked methods.
        on_error: Effect of its failure: `closed` refuses, `open` continues. None: closed below priority 100, otherwise open.
        always: The actions it returns on every call, so that a stack can report unreachable plugins.
        state_type: Type of its state, taken from `Plugin[…]`.
    """

    name: str = ""
    version: str = "0"
    priority: int = 500
    hooks: Sequence[Hook] | frozenset[Hook] | None = None
    on_error: OnError | None = None
    always: Mapping[Hook, ActionType] = types.MappingProxyType({})
    state_type: StateType = None
    _marked: ClassVar[Mapping[Hook, str]] = types.MappingProxyType({})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the name of the class, find its marked methods, and read its state type."""
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        marked = dict(cls._marked)
        inherited = frozenset(marked) - {RequestDone}
        own: dict[Hook, str] = {}
        for method, found in cls.__dict__.items():
            for hook in getattr(found, _HOOKS, ()):
                if cls.__dict__[own.setdefault(hook, method)] is not found:
                    hook_name = getattr(hook, "__name__", hook)
                    fault = (
                        f"{own[hook]!r} and {method!r} both handle {hook_name}: merge them into one method"
                    )
                    raise PluginError([f"plugin {cls.__name__!r}: {fault}"])
            if inspect.isroutine(found) and (method in _CALLED or hasattr(found, _HOOKS)):
                model = getattr(Plugin, method) if method in _CALLED else Plugin.handle
                _check_parameters(f"{cls.__name__}.{method}", cast("Any", found).__get__(cls), model)
        marked.update(own)
        cls._marked = types.MappingProxyType(marked)
        # Hooks derived from the methods of a base class grow with the methods. Explicit hooks stay as declared.
        declared = "hooks" in cls.__dict__ or cls.hooks not in (None, inherited)
        if cls.handle is Plugin.handle and (cls.hooks is None or not declared):
            cls.hooks = frozenset(marked) - {
                RequestDone
            }  # an answer is delivered to the plugin that asked, declared or not
        for base in cls.__dict__.get("__orig_bases__", ()):
            if issubclass(get_origin(base) or object, Plugin) and not isinstance(get_args(base)[0], TypeVar):
                cls.state_type = get_args(base)[0]

    def __init__(self, *, name: str | None = None, priority: int | None = None) -> None:
        """Create a plugin. A stack may contain the same class twice, under two names."""
        if name is not None:
            self.name = name
        if priority is not None:
            self.priority = priority

    @abc.abstractmethod
    def init(self, *args: Any, **options: Any) -> S:
        """Return the first state. An exception refuses the start of the session, with the plugin's name and the reason."""

    def handle(self, event: HookEvent, state: S, ctx: Context) -> Action[S]:
        """Return the action for a hook event. By default, calls the method marked with the hook."""
        method = self._marked.get(type(event))
        if method is None:
            return Continue(state)
        answer: Action[S] = getattr(self, method)(event, state, ctx)
        return answer

    def describe(self) -> str | Mapping[str, object]:
        """Return a description of the plugin, for lists of plugins."""
        return inspect.getdoc(type(self)) or self.name

    def on_config_update(self, options: JsonObject, state: S) -> S:
        """Return the state for new options. An exception keeps the old state."""
        updated: S = apply_config_update(self, options, state)
        return updated

    def on_session_end(self, state: S, ctx: Context) -> Emission:
        """Return final events to publish: a pair of name and payload, or a list of pairs."""
        return None

    def migrate(self, old_version: str, state: Any) -> S:
        """Convert a state of another version.

        Args:
            old_version: The version that wrote the state.
            state: The state object after a code reload. The stored JSON, frozen, if it was stored as bytes.

        Raises:
            PluginError: By default: states of other versions are not accepted.
        """
        raise PluginError([f"{self.name!r} {self.version} cannot migrate the state of version {old_version}"])


class FunctionPlugin(Plugin[S]):
    """A plugin made from a function, still callable like it. Created by `plugin`."""

    def __init__(
        self,
        function: Callable[[HookEvent, S, Context], Action[S]],
        first: Callable[..., S],
        *,
        name: str | None = None,
        priority: int | None = None,
    ) -> None:
        """Store the handler and the function that returns the first state."""
        super().__init__(name=name or getattr(function, "__name__", "plugin"), priority=priority)
        self._function = function
        # The standard attribute through which tools find the source of a wrapper.
        self.__wrapped__: Callable[[HookEvent, S, Context], Action[S]] = function
        self._first = first

    def init(self, *args: Any, **options: Any) -> S:
        """Return the first state."""
        return self._first(*args, **options)

    def handle(self, event: HookEvent, state: S, ctx: Context) -> Action[S]:
        """Call the function."""
        return self._function(event, state, ctx)

    def describe(self) -> str:
        """Return the docstring of the function."""
        return inspect.getdoc(self._function) or self.name

    def __call__(self, event: HookEvent, state: S, ctx: Context) -> Action[S]:
        """Call the function, for example in a test."""
        return self._function(event, state, ctx)


def plugin(  # noqa: PLR0913 - one option per member of a plugin, each with a default
    *,
    init: Callable[..., S],
    name: str | None = None,
    version: str = "0",
    priority: int = 500,
    hooks: Sequence[Hook] | None = None,
    on_error: OnError | None = None,
) -> Callable[[Callable[[HookEvent, S, Context], Action[S]]], FunctionPlugin[S]]:
    """Create a plugin from a function `(event, state, ctx) -> Action`.

    Args:
        init: Returns the first state for the options. Often the class of the state.
        name: Name of the plugin. Defaults to the name of the function.
        version: The same as in `Plugin`.
        priority: The same as in `Plugin`.
        hooks: The hooks it subscribes to. None for all.
        on_error: The same as in `Plugin`.
    """

    def decorate(function: Callable[[HookEvent, S, Context], Action[S]]) -> FunctionPlugin[S]:
        _refuse_async(function)
        _check_parameters(getattr(function, "__qualname__", repr_of(function)), function, Plugin.handle)
        made = FunctionPlugin(function, init, name=name, priority=priority)
        made.version, made.hooks, made.on_error = version, hooks, on_error
        made.state_type = init if isinstance(init, type) else None
        return made

    return decorate


def on(*hooks: Hook) -> Callable[[M], M]:
    """Mark a method as the handler of these hook events. Its plugin is called for no other hooks."""
    if not hooks or inspect.isroutine(hooks[0]):
        raise PluginError(["p.on needs the hooks of the method below it: write @p.on(p.BeforeTool)"])

    def mark(method: M) -> M:
        _refuse_async(method)
        setattr(method, _HOOKS, hooks)
        return method

    return mark


# --- helpers


def _refuse_async(handler: Callable[..., object]) -> None:
    if inspect.iscoroutinefunction(handler):
        fault = "is async, but a plugin cannot wait: return a Request for async work"
        raise PluginError([f"{handler.__qualname__!r} {fault}"])


def append_note(event: BeforeRequest, text: str, state: S) -> Action[S]:
    """Add a note after the conversation, for this request only, so that the vendor's cache stays valid. An empty text adds none."""
    if not text:
        return Continue(state)
    note = UserMessage(content=(Text(text=text),), origin="note")
    return ReplaceMessages((*event.messages, note), state)


def is_plugin(thing: object) -> bool:
    """Return whether an object can be in a stack: a class with the members of a plugin, or an instance of one."""
    return issubclass(thing, Plugin) if isinstance(thing, type) else offers(thing, Port)


def action_type(action: object) -> ActionType:
    """Return the class of an action.

    Raises:
        TypeError: Your move: the object is not an action.
    """
    if type(action) not in ACTIONS:
        message = f"{repr_of(action)} is not an action: expected one of {', '.join(known.__name__ for known in ACTIONS)}"
        raise TypeError(message)
    return type(action)


def extract_state(action: Action[S]) -> S:
    """Return the state of an action."""
    state: S = action.state
    return state


def short_circuit(action: Action[Any]) -> bool:
    """Return whether an accepted action prevents calls to later plugins."""
    return action_type(action) in SHORT_CIRCUITS


def apply_config_update(plugin: Port, options: JsonObject, state: Any) -> Any:
    """Merge new options into a state, the default for plugins without an own `on_config_update`.

    A mapping and an attrs class are merged field by field. Any other state is replaced by the result of `init`.

    Raises:
        TypeError: Your move: the state has no such field.
    """
    return plugin_changes.apply_config_update(plugin, options, state)
