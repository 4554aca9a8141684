"""Effects: requests of a session to the shell.

One closed union, and the order in which its members are carried out.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from agentrail.core.policy.budget import Budget
from agentrail.core.protocol.actions import Wanted
from agentrail.core.protocol.request import EffectId, ModelRequest
from agentrail.core.protocol.signals import SignalId, ToolWantsChild
from agentrail.core.protocol.tool_questions import Resumption
from agentrail.errors import AgentrailError, ErrorInfo
from agentrail.events import Event, Todo
from agentrail.messages import CallId, JsonObject, JsonValue, Message, SessionId, ToolResult


class StartStream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Send a request to the model.

    Owes at most one `StreamStarted`, any number of `ChunksArrived`, and then exactly one `ResponseCompleted` or
    `StreamFailed`, all with the id `request.attempt`.

    The stream has a timer with the id `stall_timer_of(attempt)`. It ends when the stream ends or is cancelled, and
    may be set again until then.

    Attributes:
        request: The whole request.
        look_at_ms: When the timer fires first.
        is_quiet: Whether the session needs only its end: then no `StreamStarted` and no `ChunksArrived` is sent.
        context: The gathering whose messages are sent along, before and after the conversation. None for none. The
            shell finds them by this id, and `request` does not contain them.
    """

    request: ModelRequest
    look_at_ms: int
    is_quiet: bool = False
    context: EffectId | None = None


def stall_timer_of(attempt: EffectId) -> EffectId:
    return EffectId(f"s{attempt[1:]}")


class CancelStream(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop a stream. Any later outcome of it is dropped.

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
        generation: Version of the tool that the call began with, even if another tool has replaced it since.
        arguments: Validated, with defaults filled in.
        arguments_hash: SHA-256 of the canonical arguments. The runner compares it right before it runs the call.
        operation_id: The idempotency key, the same for all attempts at one call.
        attempt: 1 for the first.
        turn: Turn of the cycle, from 1.
        model: The model string of the request.
        path: The chain of sessions from the root to this one.
        total_tokens: Tokens used by the session so far.
        cost_usd: Their cost. None if a price is unknown.
        todos: The model's task list.
        memory: Data that the session's tools keep between calls.
        resumption: The answer to the call's own question. None before it has asked one.
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
    resumption: Resumption | None = None


class SpawnChild(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Start a child session for a call whose arguments have passed all gates, or for the tool that runs for the call.

    Owes at most one `ChildStarted`, then any number of `ChildPublished`, then exactly one `ToolFinished` with this
    id. Stopping it, as `KillTools` does, stops the child and all sessions below it. A child requested by a tool
    runs in the tool's task, so it ends before the tool's outcome.

    Attributes:
        effect_id: This child. If it answers the call, also this attempt at the call.
        call_id: The call.
        name: The tool.
        agent: The kind of agent to run.
        arguments: The child's task, in `description`. For a call, all of its validated arguments.
        budget: The child's share of the remaining budget. None without a budget.
        wish: The tool's request for this child, which this effect answers. None if the child answers the call.
    """

    effect_id: EffectId
    call_id: CallId
    name: str
    agent: str
    arguments: JsonObject
    budget: Budget | None = None
    wish: ToolWantsChild | None = None


class ResumeChild(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Continue a child session that was running when the process stopped and was restored from its own journal.

    Owes the same as the `SpawnChild` of this id, except for a `ChildStarted` that arrived already: exactly one
    `ToolFinished` in the end, even if the session no longer exists.

    Attributes:
        effect_id: This child, and this attempt at the call.
        call_id: The call.
        name: The tool.
        child_ids: The session. Empty if it had not reported its start.
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
    """Ask the host whether a call may run, before it does. Only if the host has such a hook.

    Owes exactly one `HostJudged` with this id, unless a `CancelPluginRequest` comes first. Calls of one batch reach
    the host in the order of these effects. The host may answer them in any order.

    Attributes:
        effect_id: This question.
        call_id: The call.
        name: The tool.
        arguments: The arguments that would run: validated, with defaults filled in, and as changed by plugins.
        path: The chain of sessions from the root to this one.
        request_id: The host's id of the request whose prompt this cycle answers.
    """

    path: tuple[SessionId, ...]
    request_id: str | None = None


class TellHost(_HostCall, frozen=True, kw_only=True, gc=False):
    """Report the result of a call to the host after the call's code has ended. Only if the host has such a hook.

    Owes exactly one `HostTold` with this id. Only the end of the session stops it: an abort does not wait for it.

    Attributes:
        effect_id: This report.
        call_id: The call.
        name: The tool.
        arguments: The arguments that ran.
        result: The result of the call, as published.
        ran_ms: How long the code of the last attempt took, in milliseconds.
        path: The chain of sessions from the root to this one.
        request_id: Same as in `AskHost`. None for a call that an abort had spared, whose cycle has ended.
    """

    result: ToolResult
    ran_ms: int
    path: tuple[SessionId, ...]
    request_id: str | None = None


class BegunAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An agent in the background, as its start names it.

    Attributes:
        name: Unique among all that the session ever started.
        agent: Its kind.
        call_id: The call that started it.
        effect_id: The effect that runs it, open until it has ended.
        child_id: Its session. None before it has started.
    """

    name: str
    agent: str
    task: str
    call_id: CallId
    effect_id: EffectId
    child_id: SessionId | None = None


class StartAgent(BegunAgent, frozen=True, kw_only=True, gc=False):
    """Start an agent in the background, or reconnect to one. It outlives the call and the cycle that start it.

    Owes at most one `ChildStarted`, any number of `ChildPublished`, an `AgentIdled` at the end of each of its
    cycles, and then exactly one `AgentEnded`. A `CloseAgent` or a `KillTools` stops it and all sessions below it. A
    crash of the session that started it does not affect it: the next incarnation reconnects with another id.

    Attributes:
        child_id: The running session to reconnect to. None for a new one.
        budget: Budget of its first cycle. None without a budget.
        after: Number of the last event of that session that was passed on.
    """

    budget: Budget | None = None
    after: int = 0


class PromptAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Send an idle agent its next prompt. Owes nothing itself: its `StartAgent` owes the `AgentIdled`.

    Attributes:
        effect_id: The agent, by its `StartAgent`.
        text: The prompt.
        budget: Budget of this cycle. None without a budget.
    """

    effect_id: EffectId
    text: str
    budget: Budget | None = None


class CloseAgent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Close an agent and stop its running work. Its `StartAgent` owes the `AgentEnded`.

    Attributes:
        effect_id: The agent, by its `StartAgent`.
        reason: For users.
    """

    effect_id: EffectId
    reason: str


class KillTools(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop running calls. They are answered already, and any later output is dropped.

    Attributes:
        effect_ids: Their attempts.
    """

    effect_ids: tuple[EffectId, ...]


class SetTimer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Wake the session at a time.

    Owes exactly one `TimerFired` with this id, unless a `ClearTimer` comes first.

    Attributes:
        effect_id: This timer.
        at_ms: When, on the clock of signals. A time in the past fires at once.
    """

    effect_id: EffectId
    at_ms: int


class ClearTimer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Cancel a timer.

    Attributes:
        effect_id: The timer.
    """

    effect_id: EffectId


class RunPluginRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Carry out a plugin's request.

    Owes exactly one `PluginRequestFinished` with this id, unless a `CancelPluginRequest` comes first.

    Attributes:
        effect_id: This request.
        wanted: The work to do, one of a small closed set.
        refused: An error to answer with instead of doing it, because the budget does not cover its possible cost.
    """

    effect_id: EffectId
    wanted: Wanted
    refused: ErrorInfo | None = None


class CancelPluginRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Cancel a plugin's request, a question to the host, or the gathering of context. Any later outcome of it is dropped.

    Attributes:
        effect_id: The request, or the `AskHost`.
    """

    effect_id: EffectId


class GatherContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Collect the context that registered sources add to the requests of one turn.

    Owes exactly one `ContextGathered` with this id, unless a `CancelPluginRequest` comes first. The messages stay
    in the shell under this id until the next gathering. A signal would store them in the journal, and these must
    not be stored.

    Attributes:
        effect_id: This gathering.
        messages: The conversation so far, for the sources.
    """

    effect_id: EffectId
    messages: Sequence[Message]


class SetProviderOpts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Use these options for this model from the next request on. Owes nothing.

    Attributes:
        model: The model string.
        provider_opts: Options of its provider, same as in `start_session`.
    """

    model: str
    provider_opts: JsonObject


class Teardown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Wait until stopped work has really ended, up to a time limit.

    Owes exactly one `TeardownFinished` with this id.

    Attributes:
        effect_id: This teardown.
        stopped: The streams, tools, plugin requests and questions to the host that were told to stop.
        survivors: Calls that keep running by policy, for the receipt.
        committed: Calls that had ended before, for the receipt.
        unknown: Calls among the stopped ones that may have taken effect, for the receipt.
    """

    effect_id: EffectId
    stopped: tuple[EffectId, ...]
    survivors: tuple[CallId, ...] = ()
    committed: tuple[CallId, ...] = ()
    unknown: tuple[CallId, ...] = ()


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Send an event to all subscribers. It already has its number.

    Attributes:
        event: The event.
    """

    event: Event


class ReplyToCaller(msgspec.Struct, frozen=True, gc=False):
    """Answer a caller. If the caller has left, nothing happens.

    Attributes:
        to: The id of the caller's signal.
        value: The answer.
    """

    to: SignalId
    value: object


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Answer a caller with an error, which is raised at its call. It never enters state, journal or event.

    Attributes:
        to: The id of the caller's signal.
        error: The error to raise.
    """

    to: SignalId
    error: AgentrailError


class End(msgspec.Struct, frozen=True, gc=False):
    """End the session. No effect comes after this one.

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

- `Publish` comes after the signal is recorded and never before. The events of one step come in one run.
- `CancelStream`, `KillTools` and `CancelPluginRequest` end scopes at once. A `Teardown` of the same step waits for
  the stopped work.
- A `ReplyToCaller` that reports a change comes after the change. `End` is always the last.
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
"""Effects that owe an outcome, in addition to `StartStream`, which also has a timer."""

Cancel: TypeAlias = CancelStream | ClearTimer | CancelPluginRequest
"""Effects that cancel an owed outcome."""

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
"""Effects that owe nothing new and cancel nothing: a call stopped by `KillTools` still reports its end."""
