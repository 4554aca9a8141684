"""The outcome of a run of the pipeline: values that the machine carries out, without decisions.

An outcome is frozen and complete, so a waiting one can be kept in the state of its session.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from agentrail.core.protocol.actions import (
    NO_HINTS,
    Abort,
    BlockTool,
    Hints,
    RequireApproval,
    ResolveApproval,
    Skip,
    SwitchModel,
    Wanted,
)
from agentrail.core.protocol.hooks import (
    AfterResponse,
    AfterTool,
    BeforeCompact,
    BeforeRequest,
    BeforeTool,
    HookEvent,
)
from agentrail.core.stack.loaded_stack import PluginStates
from agentrail.events import Event
from agentrail.frozen import frozen_or_none
from agentrail.messages import AssistantMessage, JsonObject, Message, ToolResult

NO_CONTEXT: Final[Mapping[str, str | None]] = MappingProxyType({})


class Unfit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rewritten arguments of a call cannot run. Not decided by a plugin.

    Attributes:
        code: `invalid_arguments`: they do not match the schema. `arguments_unstable`: the rewrites did not come to
            an end.
    """

    code: Literal["invalid_arguments", "arguments_unstable"]
    text: str


Decisive: TypeAlias = (
    Abort[Any] | Skip[Any] | BlockTool[Any] | RequireApproval[Any] | ResolveApproval[Any] | Unfit
)


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The decision that stopped the pipeline.

    Attributes:
        by: The plugin that returned it. For `Unfit` the one that rewrote last.
    """

    action: Decisive
    by: str
    failed: bool = False


class Injected(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt to inject.

    Attributes:
        prompt: The text.
        by: The plugin.
    """

    prompt: str
    by: str


class Switch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A switch to another model.

    Attributes:
        provider_opts: Options of its provider. None keeps the current ones.
        by: The plugin.
    """

    model: str
    provider_opts: JsonObject | None
    by: str


class PluginRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plugin's request. Its answer goes to `deliver`.

    Attributes:
        effect: The work.
    """

    effect: Wanted
    tag: str
    by: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The reason why the run is not over. The answer goes to `resume_hook`.

    Attributes:
        plugin_request: The work that has to be done first.
        todo: Plugins that have yet to be asked.
        round: The number of the repeated judgement. 0 in the first pass.
    """

    plugin_request: PluginRequest
    todo: tuple[str, ...]
    round: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer of a stack to one hook event.

    Attributes:
        event: The hook event after the last plugin, with the final arguments, or the final result.
        states: All states of the stack. The same mapping as before if none changed.
        interventions: Prompts to inject, in the order in which the plugins were asked.
        rewritten_by: Plugins that rewrote the arguments, in order. Empty if none did.
        replaced_by: Plugins that replaced the result, the response or the messages, in order.
        switch: The model from now on, if another.
        collected: Switches on a hook that does not apply them (`OnToolError`).
        context: Sections of the system prompt. None removes one. Of two for one key the last one counts.
        hints: Hints to the session. Of two for one thing the last one counts.
        events: To publish after the run, in this order: plugin events, failures, ignored actions.
        waiting: Set if the run is not over. Then only `states`, `events` and `plugin_requests` may be applied.
        seen_by: The plugins that have judged the arguments in `event`.
        guarded: The hook event after the safety plugins, which a `Skip` restores.
        guarded_by: The plugins that have judged the arguments in that.
        is_fit: Whether the arguments in `event` match the schema of the tool.
        is_decided: Whether a user has approved the call, so that every plugin judges it.
    """

    event: HookEvent
    states: PluginStates
    decision: Decision | None = None
    interventions: tuple[Injected, ...] = ()
    rewritten_by: tuple[str, ...] = ()
    replaced_by: tuple[str, ...] = ()
    switch: Switch | None = None
    collected: tuple[Switch, ...] = ()
    context: Mapping[str, str | None] = NO_CONTEXT
    hints: Hints = NO_HINTS
    events: tuple[Event, ...] = ()
    plugin_requests: tuple[PluginRequest, ...] = ()
    waiting: Waiting | None = None
    seen_by: frozenset[str] = frozenset()
    guarded: HookEvent | None = None
    guarded_by: frozenset[str] = frozenset()
    is_fit: bool = True
    is_decided: bool = False

    @property
    def abort(self) -> str | None:
        decision = self.decision
        return decision.action.reason if decision is not None and isinstance(decision.action, Abort) else None

    @property
    def prompt(self) -> str | None:
        return "\n\n".join(injected.prompt for injected in self.interventions) or None

    @property
    def arguments(self) -> JsonObject | None:
        if self.rewritten_by and isinstance(self.event, BeforeTool):
            return self.event.arguments
        return None

    @property
    def result(self) -> ToolResult | None:
        return self.event.result if self.replaced_by and isinstance(self.event, AfterTool) else None

    @property
    def message(self) -> AssistantMessage | None:
        return self.event.message if self.replaced_by and isinstance(self.event, AfterResponse) else None

    @property
    def messages(self) -> tuple[Message, ...] | None:
        if self.replaced_by and isinstance(self.event, BeforeRequest | BeforeCompact):
            return self.event.messages
        return None


def switch_of(action: SwitchModel[Any], by: str) -> Switch:
    """Return the parts of a `SwitchModel` that the session needs, frozen, because the plugin may change its own options later."""
    return Switch(model=action.model, provider_opts=frozen_or_none(action.provider_opts), by=by)
