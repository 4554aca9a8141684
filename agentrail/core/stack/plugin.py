"""The core's view of a plugin: its protocol, and the context that it gets.

Authors use the base class in `agentrail.plugins`, which fills in all defaults.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentrail.core.protocol.actions import ActionType
from agentrail.core.protocol.hooks import Hook, HookEvent
from agentrail.core.stack.plugin_state import StateType
from agentrail.core.values.import_history import Repair
from agentrail.core.values.seeded_random import SeededRandom
from agentrail.messages import JsonObject, Message, SessionId

SAFETY_BELOW: Final = 100
"""Plugins of a lower priority are guards: they judge rewritten arguments again, and fail closed."""

OnError: TypeAlias = Literal["open", "closed"]
Emission: TypeAlias = object
"""The result of `on_session_end`: None, a pair of name and payload, or a list of pairs."""


class Context(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plugin's view of its session. Read-only, and new for each hook that has a listener.

    Attributes:
        session_id: The session.
        working_dir: Root of its file tools.
        model: The model string that the next request uses.
        context_window: Context window of that model, in tokens. A guess if unknown.
        turn: The turn of the cycle, from 1. 0 outside of a cycle.
        messages: The conversation so far, a view.
        repairs: Repairs of the session's initial messages.
        total_tokens: Tokens used so far.
        cost_usd: Cost so far. None if a price is unknown.
        budget_left: In US dollars. None without a budget.
        todos: The session's task list, as kept by its tools.
        tools: Names of the tools.
        plugins: Names of the plugins, in the order in which they are asked.
        memory: The session's memory, by key.
        prompt_mode: `full`, `task`, `minimal` or `none`.
        user_data: The application's own data.
        group_id: The group that the session belongs to, or None.
        depth: Number of sessions above it.
        now_ms: The time of the current signal, in milliseconds since 1970.
        random: A generator seeded by that signal, different for each plugin, so random decisions replay.
    """

    session_id: SessionId
    working_dir: str = "."
    model: str = ""
    context_window: int = 128_000
    turn: int = 0
    messages: Sequence[Message] = ()
    repairs: tuple[Repair, ...] = ()
    total_tokens: int = 0
    cost_usd: float | None = 0.0
    budget_left: float | None = None
    todos: tuple[JsonObject, ...] = ()
    tools: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    memory: JsonObject = {}
    prompt_mode: Literal["full", "task", "minimal", "none"] = "full"
    user_data: JsonObject = {}
    group_id: str | None = None
    depth: int = 0
    now_ms: int = 0
    random: SeededRandom = SeededRandom(0)


@runtime_checkable
class Plugin(Protocol):
    """A pure reducer: a hook event, its own state and the context in, one action out. No method awaits."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def hooks(self) -> Sequence[Hook] | frozenset[Hook] | None: ...

    @property
    def on_error(self) -> OnError | None: ...

    @property
    def state_type(self) -> StateType: ...

    @property
    def always(self) -> Mapping[Hook, ActionType]: ...

    def init(self, *args: Any, **options: Any) -> Any:
        """Return the initial state. `args` are never passed, and let a type checker accept options under their own names."""
        ...

    def handle(self, event: HookEvent, state: Any, ctx: Context, /) -> Any: ...

    def describe(self) -> str | Mapping[str, object]: ...

    def on_config_update(self, options: JsonObject, state: Any, /) -> Any: ...

    def on_session_end(self, state: Any, ctx: Context, /) -> Emission: ...

    def migrate(self, old_version: str, state: Any, /) -> Any: ...


Handler: TypeAlias = Callable[[HookEvent, Any, Context], object]
