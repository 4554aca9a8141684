"""What the core needs to know of a plugin: the port that it satisfies, and the context that it is shown.

Authors use the base class in `agentrail.plugins`, which fills in all defaults. Here stands only what the pipeline calls.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentrail.core.protocol.actions import ActionType
from agentrail.core.protocol.hooks import Hook, HookEvent
from agentrail.core.stack.plugin_state import StateType
from agentrail.core.values.importing import Repair
from agentrail.core.values.seeded import SeededRandom
from agentrail.messages import JsonObject, Message, SessionId

SAFETY_BELOW: Final = 100
"""Plugins of a lower priority guard: they judge rewritten arguments again, and are closed when they fail."""

OnError: TypeAlias = Literal["open", "closed"]
Emission: TypeAlias = object
"""What `on_session_end` may return: None, a pair of name and payload, or a list of pairs."""


class Context(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a plugin may know of its session. Read-only; made anew for each hook that has a listener.

    Attributes:
        session_id: The session.
        working_dir: Root of its file tools.
        model: The model string that the next request uses.
        context_window: How much that model reads at most, in tokens; a guess where it is not known.
        turn: The turn of the cycle, from 1; 0 outside of a cycle.
        messages: The conversation so far, a view.
        repairs: What had to be changed in the messages that the session began with.
        total_tokens: Used so far.
        cost_usd: Spent so far; None when a price is unknown.
        budget_left: In US dollars; None without a budget.
        todos: The session's plan, as its tools keep it.
        tools: Names of the tools.
        plugins: Names of the plugins, in the order in which they are asked.
        memory: What the session remembers, by key.
        prompt_mode: `full`, `task`, `minimal` or `none`.
        user_data: The application's own data.
        group_id: The group that the session belongs to, or None.
        depth: How many sessions stand above it.
        now_ms: The time of the signal that is worked on, in milliseconds since 1970.
        random: A generator seeded by that signal, another one for each plugin: a coin toss replays.
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
    """A pure reducer: a hook event, its own state and the context in, one action out. Nothing here awaits."""

    @property
    def name(self) -> str:
        """Unique in a stack."""
        ...

    @property
    def version(self) -> str:
        """Recorded; another one calls `migrate`."""
        ...

    @property
    def priority(self) -> int:
        """Lower is asked first."""
        ...

    @property
    def hooks(self) -> Sequence[Hook] | frozenset[Hook] | None:
        """The hooks that it wants; None for all."""
        ...

    @property
    def on_error(self) -> OnError | None:
        """What a failing handler means; None for what its priority says."""
        ...

    @property
    def state_type(self) -> StateType:
        """The type of its states; None for the class of the first one."""
        ...

    @property
    def always(self) -> Mapping[Hook, ActionType]:
        """The answers that it gives whenever it is asked, for the checks of a stack."""
        ...

    def init(self, *args: Any, **options: Any) -> Any:
        """Make the first state; `args` are never given, and let a type checker take options under their own names."""
        ...

    def handle(self, event: HookEvent, state: Any, ctx: Context, /) -> Any:
        """Answer a hook event with an action."""
        ...

    def describe(self) -> str | Mapping[str, object]:
        """Say what it does."""
        ...

    def on_config_update(self, options: JsonObject, state: Any, /) -> Any:
        """Make the state that new options lead to."""
        ...

    def on_session_end(self, state: Any, ctx: Context, /) -> Emission:
        """Take a last look; what is returned is published."""
        ...

    def migrate(self, old_version: str, state: Any, /) -> Any:
        """Make a state of this version out of one of another."""
        ...


Handler: TypeAlias = Callable[[HookEvent, Any, Context], object]
