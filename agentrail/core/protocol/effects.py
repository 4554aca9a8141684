"""What a session asks of the shell. One closed union, and the order in which its members are carried out.

Effects are imperative and frozen. None of them edits the state: what carrying one out teaches us comes back as a
signal with its id.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.actions import Wanted
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.protocol.signals import SignalId, ToolWantsChild
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.events import Event, Todo
from agentrail.messages import CallId, JsonObject, JsonValue, Message, SessionId, ToolResult


class StartStream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask the model.

    Owes, whatever happens: any number of `StreamStarted` (at most one) and `ChunksArrived`, then exactly one
    `ResponseCompleted` or `StreamFailed` with the id `request.attempt`.

    With it comes a timer, `stall_timer_of` its id, which is gone when the stream has ended or was cancelled; until then it may be
    set anew.

    Attributes:
        request: The whole request.
        look_at_ms: When the timer fires first.
        is_quiet: Whether the session wants to hear only of its end: then no `StreamStarted` and no `ChunksArrived` comes.
        context: The gathering whose messages go along, in front of the conversation and behind it; None for none. The shell has
            them by this id, and the request here is without them.
    """

    request: ModelRequest
    look_at_ms: int
    is_quiet: bool = False
    context: EffectId | None = None


def stall_timer_of(attempt: EffectId) -> EffectId:
    """Name the timer of a stream."""
    return EffectId(f"s{attempt[1:]}")


class CancelStream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop a stream. What it still says comes late and is dropped.

    Attributes:
        effect_id: The `attempt` of its request.
    """

    effect_id: EffectId


class RunTool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Run one call whose arguments have passed all gates.

    Owes exactly one `ToolFinished` with this id, whatever happens.

    Attributes:
        effect_id: This attempt at the call.
        call_id: The call.
        name: The tool.
        generation: Which tool of that name: the one that the call began with, also when another took its place since.
        arguments: Validated, with defaults filled in.
        arguments_hash: SHA-256 of the canonical arguments; the runner compares it right before it runs.
        operation_id: The idempotency key: the same for all attempts at one call.
        attempt: 1 for the first.
        turn: Which turn of the cycle, from 1.
        model: The model string of the request.
        path: The chain of sessions from the root to this one.
        total_tokens: What the session used so far.
        cost_usd: What that cost; None when a price is unknown.
        todos: The list that the model keeps of its work.
        memory: What the session's tools keep between their calls.
    """

    effect_id: EffectId
    call_id: CallId
    name: str
    generation: int
    arguments: JsonObject
    arguments_hash: str
    operation_id: str
    attempt: int = 1
    turn: int
    model: str
    path: tuple[SessionId, ...]
    total_tokens: int = 0
    cost_usd: float | None = None
    todos: tuple[Todo, ...] = ()
    memory: JsonValue = None


class SpawnChild(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let a session of its own work for a call whose arguments have passed all gates, or for the tool that runs for one.

    Owes, whatever happens: one `ChildStarted` at most, then any number of `ChildPublished`, then exactly one `ToolFinished`
    with this id. Stopping it, as a `KillTools` does, stops the child and all below it; one that a tool asked for ends with
    the tool, in whose task it is carried out, and so before the outcome of the tool.

    Attributes:
        effect_id: This child; where it answers the call, this attempt at the call.
        call_id: The call.
        name: The tool.
        agent: Which agent works.
        arguments: What the child is to do, in `description`; of a call all of its arguments, validated.
        budget: What the child may spend: its share of what is left; None without a budget.
        wish: What the tool asked for that has the child, and is answered by this; None where it answers the call.
    """

    effect_id: EffectId
    call_id: CallId
    name: str
    agent: str
    arguments: JsonObject
    budget: Budget | None = None
    wish: ToolWantsChild | None = None


class ResumeChild(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let a session go on working for a call: it was at work when the process stopped, and has come back from its own journal.

    Owes what the `SpawnChild` of the same id owed, except for a `ChildStarted` that was heard: exactly one `ToolFinished` in
    the end, also where there is no such session any more.

    Attributes:
        effect_id: This child, and this attempt at the call.
        call_id: The call.
        name: The tool.
        child_ids: The session; empty where it had not said that it started.
    """

    effect_id: EffectId
    call_id: CallId
    name: str
    child_ids: tuple[SessionId, ...]


class _HostCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    effect_id: EffectId
    call_id: CallId
    name: str
    arguments: JsonObject


class AskHost(_HostCall, frozen=True, kw_only=True, gc=False):
    """Ask the host whether a call may run, before it does. Only where the host has such a hook.

    Owes exactly one `HostJudged` with this id, unless a `CancelPluginRequest` comes first. Calls of one batch reach the host
    in the order of these effects; how long it takes over each is its own affair.

    Attributes:
        effect_id: This question.
        call_id: The call.
        name: The tool.
        arguments: As they would run: validated, with defaults filled in, and as the plugins left them.
        path: The chain of sessions from the root to this one.
        request_id: The request whose prompt this cycle works on, as the host calls it.
    """

    path: tuple[SessionId, ...]
    request_id: str | None = None


class TellHost(_HostCall, frozen=True, kw_only=True, gc=False):
    """Tell the host what a call came to whose code has ended. Only where the host has such a hook. It changes nothing.

    Owes exactly one `HostTold` with this id. Nothing stops it but the end of the session: an abort does not wait for it.

    Attributes:
        effect_id: This report.
        call_id: The call.
        name: The tool.
        arguments: What ran.
        result: What the call was answered with, as it was published.
        ran_ms: How long the code of the last attempt took, in milliseconds.
        path: The chain of sessions from the root to this one.
        request_id: As of `AskHost`; None for a call that an abort had spared, whose cycle is over.
    """

    result: ToolResult
    ran_ms: int
    path: tuple[SessionId, ...]
    request_id: str | None = None


class StartAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let a session work in the background, which outlives the call and the cycle that start it; or go on with one.

    Owes, whatever happens: one `ChildStarted` at most, any number of `ChildPublished`, an `AgentIdled` at the end of each of its
    cycles, and then exactly one `AgentEnded`. A `CloseAgent` or a `KillTools` stops it and all below it. A crash of the session
    that asked leaves it alone: the next incarnation asks for it once more, under another id.

    Attributes:
        effect_id: This agent.
        call_id: The call that started it.
        name: What it is called.
        agent: Which agent it is.
        task: What it is to do.
        budget: What its first cycle may spend; None without a budget.
        child_id: The session to go on with, which is alive; None for a new one.
        after: Of that session: the number of the last event that was passed on.
    """

    effect_id: EffectId
    call_id: CallId
    name: str
    agent: str
    task: str
    budget: Budget | None = None
    child_id: SessionId | None = None
    after: int = 0


class PromptAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let an agent that is idle work on. Owes nothing by itself: its `StartAgent` owes the `AgentIdled`.

    Attributes:
        effect_id: The agent, by its `StartAgent`.
        text: What it is told.
        budget: What this cycle may spend; None without a budget.
    """

    effect_id: EffectId
    text: str
    budget: Budget | None = None


class CloseAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End an agent, and all that it has at work. Its `StartAgent` owes the `AgentEnded`.

    Attributes:
        effect_id: The agent, by its `StartAgent`.
        reason: For people.
    """

    effect_id: EffectId
    reason: str


class KillTools(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop running calls. Their results are given already; what they still say is dropped.

    Attributes:
        effect_ids: Which attempts.
    """

    effect_ids: tuple[EffectId, ...]


class SetTimer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Wake the session at a time.

    Owes exactly one `TimerFired` with this id, unless a `ClearTimer` comes first.

    Attributes:
        effect_id: This timer.
        at_ms: When, on the clock of signals; at once when that has passed.
    """

    effect_id: EffectId
    at_ms: int


class ClearTimer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Forget a timer.

    Attributes:
        effect_id: Which one.
    """

    effect_id: EffectId


class RunPluginRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Do something that a plugin asked for.

    Owes exactly one `PluginRequestFinished` with this id, unless a `CancelPluginRequest` comes first.

    Attributes:
        effect_id: This request.
        wanted: What to do, one of a small closed set.
        refused: Why it is not done, but answered with this error: the budget does not hold what it may use.
    """

    effect_id: EffectId
    wanted: Wanted
    refused: ErrorInfo | None = None


class CancelPluginRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop what is being done for a plugin, a question to the host, or the gathering of context. What it still says is dropped.

    Attributes:
        effect_id: Which request, or which `AskHost`.
    """

    effect_id: EffectId


class GatherContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask those who add something to each request of a turn what that is this time.

    Owes exactly one `ContextGathered` with this id, unless a `CancelPluginRequest` comes first. The messages stay in the shell, by
    this id, until the next gathering: what stands in a signal stands in the journal, and these are to stand nowhere.

    Attributes:
        effect_id: This gathering.
        messages: The conversation that they are asked about.
    """

    effect_id: EffectId
    messages: Sequence[Message]


class SetProviderOpts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Use these options whenever this model is asked, from the next request on. Owes nothing.

    Attributes:
        model: The model string.
        provider_opts: Of its provider, as of `start_session`.
    """

    model: str
    provider_opts: JsonObject


class Teardown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Wait until what was stopped is really gone, but not for ever.

    Owes exactly one `TeardownFinished` with this id.

    Attributes:
        effect_id: This teardown.
        stopped: The streams, tools, plugin requests and questions to the host that were told to stop.
        survivors: Calls that run on by policy, for the receipt.
        committed: Calls that had ended before, for the receipt.
        unknown: Those of the calls that may have taken effect, for the receipt.
    """

    effect_id: EffectId
    stopped: tuple[EffectId, ...]
    survivors: tuple[CallId, ...] = ()
    committed: tuple[CallId, ...] = ()
    unknown: tuple[CallId, ...] = ()


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Give an event to all subscribers; it carries its number already.

    Attributes:
        event: The event.
    """

    event: Event


class ReplyToCaller(msgspec.Struct, frozen=True, gc=False):
    """Answer a caller. One who has gone away gets nothing, and nothing happens.

    Attributes:
        to: The signal that asked.
        value: The answer.
    """

    to: SignalId
    value: object


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Answer a caller with an error, which is raised where it waits. It never enters state, journal or event.

    Attributes:
        to: The signal that asked.
        error: What is raised.
    """

    to: SignalId
    error: AgentrailError


class End(msgspec.Struct, frozen=True, gc=False):
    """The session is over: nothing comes after this effect.

    Attributes:
        reason: How it ended, one line.
    """

    reason: str


Effect: TypeAlias = (
    StartStream
    | CancelStream
    | RunTool
    | SpawnChild
    | AskHost
    | TellHost
    | ResumeChild
    | StartAgent
    | PromptAgent
    | CloseAgent
    | KillTools
    | SetTimer
    | ClearTimer
    | RunPluginRequest
    | CancelPluginRequest
    | GatherContext
    | SetProviderOpts
    | Teardown
    | Publish
    | ReplyToCaller
    | Refuse
    | End
)
"""Carried out in the order of the list, and only after the signal is recorded at the durability its class asks for.

- `Publish` comes after the signal is recorded and never before; the events of one step come in one run.
- `CancelStream`, `KillTools` and `CancelPluginRequest` end scopes at once; a `Teardown` of the same step waits for what they
  stopped.
- A `ReplyToCaller` that tells of a change comes after the change; `End` is always the last.
"""

Awaited: TypeAlias = (
    RunTool
    | SpawnChild
    | StartAgent
    | AskHost
    | TellHost
    | SetTimer
    | RunPluginRequest
    | GatherContext
    | Teardown
)
"""Those that owe an outcome, besides `StartStream`, with which a timer comes."""

Cancel: TypeAlias = CancelStream | ClearTimer | CancelPluginRequest
"""Those after which an outcome that was owed means nothing any more."""

Plain: TypeAlias = (
    ResumeChild
    | PromptAgent
    | CloseAgent
    | KillTools
    | SetProviderOpts
    | Publish
    | ReplyToCaller
    | Refuse
    | End
)
"""Those that owe nothing new, and end no debt: what a `KillTools` stops still says when it has ended."""
