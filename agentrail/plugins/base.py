"""What authors write: a class, or a function. Fills in everything that the pipeline expects of a plugin."""

import abc
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, get_args, get_origin

from agentrail.core.protocol.actions import ACTIONS, SHORT_CIRCUITS, Action, ActionType, Continue
from agentrail.core.protocol.hooks import Hook, HookEvent, RequestDone
from agentrail.core.stack import plugin_changes
from agentrail.core.stack.plugin import Context, Emission, OnError, Plugin as Port
from agentrail.core.stack.plugin_state import StateType
from agentrail.core.values.offered import offers
from agentrail.errors import PluginError
from agentrail.messages import JsonObject

S = TypeVar("S")
M = TypeVar("M", bound=Callable[..., Action[Any]])

_HOOKS: Final = "_agentrail_hooks"


class Plugin(abc.ABC, Generic[S]):
    """A plugin as a class: derive from `Plugin[YourState]`, write `init`, and `handle` or methods marked with `on`.

    Attributes:
        name: Unique in a stack; the name of the class, unless the class or the caller that makes it says another.
        version: Recorded in the journal; another one calls `migrate`.
        priority: Lower is asked first: 0–99 safety, 100–299 core, 300–599 quality, 600–899 intelligence, 900+ own.
        hooks: The hooks that it wants; None for all, or for those of its marked methods.
        on_error: What it means when it fails: `closed` refuses, `open` goes on. None: closed below 100, else open.
        always: The answers that it gives whenever it is asked, so that a stack can be told what it can never reach.
        state_type: What its states are; taken from `Plugin[…]`.
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
        """Name the class, find its marked methods, and read its state type."""
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        marked = dict(cls._marked)
        inherited = frozenset(marked) - {RequestDone}
        for method, found in cls.__dict__.items():
            marked.update(dict.fromkeys(getattr(found, _HOOKS, ()), method))
        cls._marked = types.MappingProxyType(marked)
        # What a base class declares by its methods grows with the methods; what it declares by name stands.
        declared = "hooks" in cls.__dict__ or cls.hooks not in (None, inherited)
        if cls.handle is Plugin.handle and (cls.hooks is None or not declared):
            cls.hooks = frozenset(marked) - {
                RequestDone
            }  # an answer comes to the plugin that asked, declared or not
        for base in cls.__dict__.get("__orig_bases__", ()):
            if issubclass(get_origin(base) or object, Plugin) and not isinstance(get_args(base)[0], TypeVar):
                cls.state_type = get_args(base)[0]

    def __init__(self, *, name: str | None = None, priority: int | None = None) -> None:
        """Make one; the same class may stand in a stack twice, under two names."""
        if name is not None:
            self.name = name
        if priority is not None:
            self.priority = priority

    @abc.abstractmethod
    def init(self, *args: Any, **options: Any) -> S:
        """Make the first state. Raising refuses the start of the session, with the name of the plugin and the reason."""

    def handle(self, event: HookEvent, state: S, ctx: Context) -> Action[S]:
        """Answer a hook event. Unless you write it, it goes to the method that is marked with the hook."""
        method = self._marked.get(type(event))
        if method is None:
            return Continue(state)
        answer: Action[S] = getattr(self, method)(event, state, ctx)
        return answer

    def describe(self) -> str | Mapping[str, object]:
        """Say what it does, for lists of plugins."""
        return inspect.getdoc(type(self)) or self.name

    def on_config_update(self, options: JsonObject, state: S) -> S:
        """Make the state that new options lead to; raising keeps the old one."""
        updated: S = apply_config_update(self, options, state)
        return updated

    def on_session_end(self, state: S, ctx: Context) -> Emission:
        """Take a last look; a pair of name and payload, or a list of such, is published."""
        return None

    def migrate(self, old_version: str, state: Any) -> S:
        """Make a state of this version out of one of another.

        Args:
            old_version: What made it.
            state: When code is reloaded, the object. When it was stored as bytes, the JSON that was stored, frozen.

        Raises:
            PluginError: Unless you write it: no state of another version is taken.
        """
        raise PluginError([f"{self.name!r} {self.version} does not take the state of version {old_version}"])


class FunctionPlugin(Plugin[S]):
    """A plugin made of a function; still callable like it. `plugin` makes these."""

    def __init__(
        self,
        function: Callable[[HookEvent, S, Context], Action[S]],
        first: Callable[..., S],
        *,
        name: str | None = None,
        priority: int | None = None,
    ) -> None:
        """Take the function that handles, and the one that makes the first state."""
        super().__init__(name=name or getattr(function, "__name__", "plugin"), priority=priority)
        self._function = function
        # By this name those find it who ask where this comes from.
        self.__wrapped__: Callable[[HookEvent, S, Context], Action[S]] = function
        self._first = first

    def init(self, *args: Any, **options: Any) -> S:
        """Make the first state."""
        return self._first(*args, **options)

    def handle(self, event: HookEvent, state: S, ctx: Context) -> Action[S]:
        """Call the function."""
        return self._function(event, state, ctx)

    def describe(self) -> str:
        """Give the docstring of the function."""
        return inspect.getdoc(self._function) or self.name

    def __call__(self, event: HookEvent, state: S, ctx: Context) -> Action[S]:
        """Call the function, in a test, say."""
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
    """Make a plugin of a function `(event, state, ctx) -> Action`.

    Args:
        init: Makes the first state of the options; often the class of the state.
        name: Of the plugin; the name of the function, unless given.
        version: As in `Plugin`.
        priority: As in `Plugin`.
        hooks: The hooks that it wants; None for all.
        on_error: As in `Plugin`.
    """

    def decorate(function: Callable[[HookEvent, S, Context], Action[S]]) -> FunctionPlugin[S]:
        made = FunctionPlugin(function, init, name=name, priority=priority)
        made.version, made.hooks, made.on_error = version, hooks, on_error
        made.state_type = init if isinstance(init, type) else None
        return made

    return decorate


def on(*hooks: Hook) -> Callable[[M], M]:
    """Mark a method of a plugin as the one that answers these hook events; its plugin is asked on no others."""

    def mark(method: M) -> M:
        setattr(method, _HOOKS, hooks)
        return method

    return mark


# --- helpers


def is_plugin(thing: object) -> bool:
    """Say whether something can stand in a stack: a class with the members of a plugin, or an instance of one."""
    return issubclass(thing, Plugin) if isinstance(thing, type) else offers(thing, Port)


def action_type(action: object) -> ActionType:
    """Give the class of an action.

    Raises:
        TypeError: Your move: it is none.
    """
    if type(action) not in ACTIONS:
        message = f"{action!r} is no action: expected one of {', '.join(known.__name__ for known in ACTIONS)}"
        raise TypeError(message)
    return type(action)


def extract_state(action: Action[S]) -> S:
    """Give the state that an action carries."""
    state: S = action.state
    return state


def short_circuit(action: Action[Any]) -> bool:
    """Say whether an action, where it is accepted, keeps later plugins from being asked."""
    return action_type(action) in SHORT_CIRCUITS


def apply_config_update(plugin: Port, options: JsonObject, state: Any) -> Any:
    """Merge new options into a state as plugins do that have no way of their own.

    A mapping and an attrs class are merged field by field; anything else is replaced by what `init` makes of them.

    Raises:
        TypeError: Your move: the state has no such field.
    """
    return plugin_changes.apply_config_update(plugin, options, state)
