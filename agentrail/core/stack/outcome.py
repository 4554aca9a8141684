"""What a run of the pipeline comes to: values for the machine to carry out, and nothing that decides.

An outcome is frozen and complete, so one that waits for something can be kept in the state of its session.
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
from agentrail.core.stack.loading import PluginStates
from agentrail.events import Event
from agentrail.frozen import frozen_or_none
from agentrail.messages import AssistantMessage, JsonObject, Message, ToolResult

NO_CONTEXT: Final[Mapping[str, str | None]] = MappingProxyType({})


class Unfit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rewritten arguments of a call cannot run; no plugin said so.

    Attributes:
        code: `invalid_arguments`, they do not fit the schema; `arguments_unstable`, the rewrites never came to an end.
        text: What the model reads.
    """

    code: Literal["invalid_arguments", "arguments_unstable"]
    text: str


Decisive: TypeAlias = (
    Abort[Any] | Skip[Any] | BlockTool[Any] | RequireApproval[Any] | ResolveApproval[Any] | Unfit
)


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What stopped the pipeline.

    Attributes:
        action: What was said.
        by: The plugin that said it; of `Unfit` the one that rewrote last.
        failed: Whether it stands for a closed plugin that failed.
    """

    action: Decisive
    by: str
    failed: bool = False


class Injected(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A prompt to inject.

    Attributes:
        prompt: What to say.
        by: The plugin.
    """

    prompt: str
    by: str


class Switch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Another model.

    Attributes:
        model: The model string.
        provider_opts: Options of its provider; None keeps those of before.
        by: The plugin.
    """

    model: str
    provider_opts: JsonObject | None
    by: str


class PluginRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something to do for a plugin, whose answer goes to `deliver`.

    Attributes:
        effect: What to do.
        tag: The plugin's name for it.
        by: The plugin.
    """

    effect: Wanted
    tag: str
    by: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why the run is not over; the answer goes to `resume`.

    Attributes:
        plugin_request: What has to be done first.
        todo: Who has still to be asked.
        round: Which time the arguments are judged again; 0 in the first pass.
    """

    plugin_request: PluginRequest
    todo: tuple[str, ...]
    round: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a stack said to one hook event.

    Attributes:
        event: The hook event as left by the last plugin: with the final arguments, or the final result.
        states: All states of the stack; the very mapping that was given when none changed.
        decision: What stopped the run, if anything did.
        interventions: Prompts to inject, in the order in which the plugins were asked.
        rewritten_by: Whose arguments the final ones are, the last one last; empty when they are those that came.
        replaced_by: Who replaced the result, the response or the messages, the last one last.
        switch: The model from now on, if another.
        collected: Switches that were said where they mean nothing (on `OnToolError`).
        context: Sections of the system prompt; None removes one. Of two for one key the last one counts.
        hints: What the session is asked to heed; of two words on one thing the last one counts.
        events: To publish after the run, in this order: plugin events, failures, ignored actions.
        plugin_requests: What plugins asked for and do not wait for.
        waiting: Set when the run is not over: nothing but `states`, `events` and `plugin_requests` may be carried out yet.
        seen_by: The plugins that have judged the arguments in `event`.
        guarded: The hook event as the safety plugins left it; what a `Skip` goes back to.
        guarded_by: The plugins that have judged the arguments in that.
        is_fit: Whether the arguments in `event` fit the schema of the tool.
        is_decided: Whether a user has let the call run, so that every plugin judges it.
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
        """Why the cycle is to be over; None when no plugin wants that."""
        decision = self.decision
        return decision.action.reason if decision is not None and isinstance(decision.action, Abort) else None

    @property
    def prompt(self) -> str | None:
        """All interventions as one prompt, joined by blank lines; None when there are none."""
        return "\n\n".join(injected.prompt for injected in self.interventions) or None

    @property
    def arguments(self) -> JsonObject | None:
        """Other arguments for the call; None when no plugin rewrote them."""
        if self.rewritten_by and isinstance(self.event, BeforeTool):
            return self.event.arguments
        return None

    @property
    def result(self) -> ToolResult | None:
        """What the model will see instead of the result; None when no plugin replaced it."""
        return self.event.result if self.replaced_by and isinstance(self.event, AfterTool) else None

    @property
    def message(self) -> AssistantMessage | None:
        """What stands in the history instead of the response; None when no plugin replaced it."""
        return self.event.message if self.replaced_by and isinstance(self.event, AfterResponse) else None

    @property
    def messages(self) -> tuple[Message, ...] | None:
        """What is sent in place of the conversation; None when no plugin replaced it."""
        if self.replaced_by and isinstance(self.event, BeforeRequest | BeforeCompact):
            return self.event.messages
        return None


def switch_of(action: SwitchModel[Any], by: str) -> Switch:
    """Keep of a `SwitchModel` what the session needs; the plugin's own options may go on changing."""
    return Switch(model=action.model, provider_opts=frozen_or_none(action.provider_opts), by=by)
