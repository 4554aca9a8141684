"""What a session was given to work with: its adapters and its surroundings, in one value."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from agentrail.abc import (
    ChildRequest,
    Error,
    Provider,
    ResolveProvider,
    Sandbox,
    Tool,
    ToolListing,
    ToolOutcome,
)
from agentrail.core.policy.budget import NOTHING_SPENT, Spent
from agentrail.core.protocol.effects import SpawnChild
from agentrail.core.protocol.signals import Signal, ToolFinished
from agentrail.core.values.toolbox import ToolSpec
from agentrail.events import AbortReceipt
from agentrail.frozen import EMPTY
from agentrail.messages import JsonObject, SessionId
from agentrail.runtime.clock import now_ms
from agentrail.runtime.tool_threads import ToolThreads

NOTHING_STOPPED: Final = AbortReceipt()
"""What was stopped where nothing was at work."""


@frozen(kw_only=True)
class Ports:
    """What a session was given to work with.

    Attributes:
        session_id: Whose they are.
        providers: By model string.
        tools: By name, and by the change of the session's tools that brought them; 0 for those of the start.
        find_provider: Turns a model string and provider options into a provider.
        spec_of: Says what a tool tells of itself to whom, checked.
        run_child: Lets a session of its own work for a call, or for a tool that runs.
        open_sandbox: Gives the place where files are read and commands run.
        is_unconfined: Says whether it is known that commands run there with the user's rights.
        working_dir: The root of the file tools.
        user_data: The application's own data, frozen: what every tool, plugin and child is shown.
        provider_opts: By model string, the newest last: what a provider that is not in `providers` is found with.
        tool_timeout_seconds: For tools that name none.
        event_buffer_size: How many committed events are kept for subscribers that come back.
        group_id: The group that it belongs to, or None; its children belong to it too.
        threads: Where tools that are plain functions run.
    """

    session_id: SessionId
    providers: dict[str, Provider]
    tools: dict[tuple[str, int], Tool]
    find_provider: ResolveProvider
    spec_of: Callable[[Tool, ToolListing], ToolSpec]
    run_child: "RunChild"
    open_sandbox: Callable[[], Sandbox]
    is_unconfined: Callable[[], bool]
    working_dir: str
    user_data: JsonObject = EMPTY
    provider_opts: dict[str, Mapping[str, Any]] = field(factory=dict, repr=False)  # keys are among them
    tool_timeout_seconds: float = 300.0
    event_buffer_size: int = 1000
    group_id: str | None = None
    threads: ToolThreads


@frozen(kw_only=True)
class ChildWork:
    """What a session is to do that works for a call, or for its tool.

    Attributes:
        effect: What the parent asked for.
        number: Which one of its incarnation, where a tool asked for it; None where it answers the call.
    """

    effect: SpawnChild
    number: int | None = None

    @property
    def request(self) -> ChildRequest:
        """What it is to do, and what it has for that."""
        wish = self.effect.wish
        if wish is None:
            return ChildRequest(prompt=str(self.effect.arguments.get("description", "")))
        return ChildRequest(
            prompt=wish.prompt, system_prompt=wish.system_prompt, tools=wish.tools, max_turns=wish.max_turns
        )

    def finished(self, outcome: ToolOutcome, usage: "ChildUsage", started_at_ms: int) -> ToolFinished:
        """Make the one outcome that the effect owes, whatever became of the session."""
        return ToolFinished(
            at_ms=now_ms(),
            effect_id=self.effect.effect_id,
            text=outcome.text,
            is_error=isinstance(outcome, Error),
            details=outcome.details,
            started_at_ms=started_at_ms,
            spent=usage.spent,
        )


@define
class ChildUsage:
    """What the child of a call has used and what became of it; an object, so that the code that stops the call can read it too.

    Attributes:
        spent: Nothing until the child is gone.
        receipt: What was stopped with it, its own children included; empty until it is gone.
    """

    spent: Spent = NOTHING_SPENT
    receipt: AbortReceipt = NOTHING_STOPPED

    def add(self, receipt: AbortReceipt) -> None:
        """Count what was stopped. Not the ids of calls: they mean something in the child alone."""
        before = self.receipt
        self.receipt = AbortReceipt(
            tasks_ended=before.tasks_ended + receipt.tasks_ended,
            processes_reaped=before.processes_reaped + receipt.processes_reaped,
            stuck=(*before.stuck, *receipt.stuck),
            abandoned=(*before.abandoned, *receipt.abandoned),
        )


RunChild: TypeAlias = Callable[
    [ChildWork, Ports, Callable[[Signal], None], ChildUsage], Awaitable[ToolOutcome]
]
"""Carries a `SpawnChild` out to the end of the child, delivers what it publishes, notes what it used, and gives the result of
the call. For a tool it gives the last text, and raises what ended the child otherwise."""
