"""Signals: everything that can arrive in a session's mailbox, calls from outside and outcomes of effects.

One closed union.
"""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.core.policy.budget import Budget, Spent
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.hooks import RequestResult
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import Chunk, EffectId, ModelFacts
from agentrail.core.protocol.signal_base import (
    Asked as Asked,
    EffectOutcome as EffectOutcome,
    FinalOutcome as FinalOutcome,
    SignalId as SignalId,
    Stamped as Stamped,
)
from agentrail.core.protocol.tool_changes import Change
from agentrail.core.protocol.tool_questions import ToolQuestion
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ErrorInfo
from agentrail.events import AbortReceipt, Event, ToolSourceState
from agentrail.frozen import frozen_json, frozen_or_none, frozen_value
from agentrail.messages import (
    ApprovalId,
    AssistantMessage,
    CallId,
    ClientCallRef,
    Image,
    JsonObject,
    JsonValue,
    PromptRef,
    QuestionRef,
    SessionId,
    SteerRef,
    StopReason,
    TokenUsage,
    TraceContext,
    UserBlock,
)
from agentrail.structs import Value, always_encoded

# Decisions of users outside of a prompt: decline a question, revoke a rule, control an agent in the
# background.


class Decline(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user declines a question.

    Attributes:
        ref: The question.
        reason: For the model, or for the tool that asks.
        user: The id of the user who declines. None if unknown.
    """

    ref: QuestionRef
    reason: str | None = always_encoded(None)
    user: str | None = None


class RevokeRule(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user revokes a rule that always allows a call. Such calls need approval again.

    Attributes:
        tool: The tool.
        command_family: As in `ToolApprovedAlways`.
        exact: As in `ToolApprovedAlways`.
        breakpoint: Whether an operator sets or ends a breakpoint at the tool instead, or at every tool (`*`).
    """

    # The rule is identified by its content: an id would bind journals to today's way of making ids.
    tool: str
    command_family: str | None = None
    exact: bool = False
    breakpoint: Literal["set", "end"] | None = None


class AgentCommand(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The program starts an agent in the background, sends it a message, or closes it, like the model's calls do.

    Attributes:
        action: One of the three.
        name: Name of the agent in the background. For `spawn`, its new name, or empty to generate one.
        agent: The kind of agent to start.
        text: Its task, the message, or the reason for closing it. None in records of versions that did not check it.
        now: Whether it is closed at once, and not after its cycle.
    """

    action: Literal["spawn", "send", "close"]
    name: str = ""
    agent: str = ""
    text: str | None = ""
    now: bool = False


# Reports of a running tool: its progress, its events and its end.


class ToolProgressed(EffectOutcome, frozen=True, kw_only=True):
    """A tool reports its progress. Ephemeral, never journaled.

    Attributes:
        text: The progress message.
    """

    text: str


class ToolEmitted(EffectOutcome, frozen=True, kw_only=True):
    """A running tool publishes an event.

    Attributes:
        name: The tool's name for the event.
        payload: JSON, of at most 64 KiB.
    """

    name: str
    payload: JsonValue = None

    def __post_init__(self) -> None:
        force_setattr(self, "payload", frozen_value(self.payload))


class LateValue(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The return value of a tool whose call had been stopped.

    Attributes:
        call_id: The call.
        name: The tool.
        text: Text for the model.
        is_error: Whether the tool returned an error.
    """

    call_id: CallId
    name: str
    text: str
    is_error: bool = False


class ToolFinished(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """A tool has finished, failed or was stopped, or the child session of a call or its tool has ended.

    Attributes:
        text: Text for the model.
        is_error: Whether it failed.
        details: JSON for users.
        started_at_ms: When this attempt began.
        crashed: Whether it raised, and may be retried.
        jitter: A random number from 0 to below 1, for the pause before a retry.
        changes: Changes that the tool makes in its session.
        late: Whether the tool returned a value after it had been stopped or timed out.
        spent: For a child session, its usage. None for a tool, or if unknown.
        images: Pictures for the model.
        ran_ms: How long the code of this attempt took, in milliseconds. None if no code ran. This is less than the
            time until this signal, which comes when the tool's processes have also ended.
        value: The late value. Older journals do not have it.
        asks: A question of the tool, which is not done: the text is for a call that cannot wait for the answer.
    """

    text: str
    # `images` and `ran_ms` came later, and are omitted if empty. See `ToolResult`.
    is_error: bool = always_encoded(False)
    details: JsonValue = always_encoded(None)
    started_at_ms: int
    crashed: bool = always_encoded(False)
    jitter: float = always_encoded(0.0)
    changes: tuple[Change, ...] = always_encoded(())
    late: bool = always_encoded(False)
    spent: Spent | None = always_encoded(None)
    images: tuple[Image, ...] = ()
    ran_ms: int | None = None
    value: LateValue | None = None
    asks: ToolQuestion | None = None

    def __post_init__(self) -> None:
        if self.details is not None:
            force_setattr(self, "details", frozen_value(self.details))


# Messages of users to a session: a prompt, a steer, a request to continue, and the query for a receipt.
# Fields added to these classes later are omitted if they hold their default. The original fields are always
# written: their defaults are made by functions, which msgspec does not recognise as defaults.

WantedReply: TypeAlias = Literal["receipt", "text"]


class Prompt(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A message from the user.

    Attributes:
        ref: Its name in all events and receipts that follow from it.
        content: The message: at least one block, within the limits, which the shell checks.
        reply: Whether the caller wants the receipt, or waits for the text of this prompt's own cycle.
        client_id: The caller's own id for this message. Sent again, it returns the first receipt again.
        via: The channel that it came through: `http`, `acp`. None: this process.
        request_id: The host's id of the request that sent it.
        digest: SHA-256 of the sender's own words, if other text was put before them. A repeated message is
            recognised by this, not by the content. None: the content is the sender's.
        settings: Model settings for its cycle alone.
        trace: The trace of its sender.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    reply: WantedReply = always_encoded("receipt")
    client_id: str | None = always_encoded(None)
    via: str | None = None
    request_id: str | None = None
    digest: str | None = None
    settings: PromptSettings | None = None
    trace: TraceContext | None = None


class GoOn(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A caller asks for a turn without new words: the model answers the end of the conversation, results or a user's message.

    Answered with a receipt when its cycle has begun. Refused with `CannotGoOn` if there is nothing to answer, or if
    the session is not idle. It is never queued, because the end of the conversation is not known in advance.

    Attributes:
        ref: The name of its cycle in all that follows.
        client_id: Same as in `Prompt`.
        via: Same as in `Prompt`.
        request_id: Same as in `Prompt`.
        digest: Same as in `Prompt`, but of the sender's input. All signals without one are considered equal.
        settings: Same as in `Prompt`.
    """

    ref: PromptRef
    client_id: str | None = None
    via: str | None = None
    request_id: str | None = None
    digest: str | None = None
    settings: PromptSettings | None = None


class Steer(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A message from the user to a running cycle.

    Attributes:
        ref: Its name, also as the prompt that it becomes if no cycle runs.
        text: The message: not empty, within the limits, which the shell checks.
        client_id: Same as in `Prompt`.
        via: Same as in `Prompt`, used if it becomes one.
        request_id: Same as in `Prompt`, used if it becomes one.
    """

    ref: SteerRef
    text: str
    client_id: str | None = always_encoded(None)
    via: str | None = None
    request_id: str | None = None


class ReceiptQuery(Asked, frozen=True, kw_only=True):
    """A caller asks for the receipt of a message that it may have sent before. The answer is None if there is none.

    Attributes:
        client_id: The sender's id of the message.
        digest: The expected digest of the message. Another message is refused with `ClientIdReused`. None: any
            message.
    """

    client_id: str
    digest: str | None = None


# Signals from background agents, and to an agent from its parent session.


class AgentIdled(EffectOutcome, frozen=True, kw_only=True):
    """A cycle of an agent in the background has ended, and the agent waits for the next prompt.

    Attributes:
        outcome: How it ended.
        text: Its last text, and for a cycle that did not finish also why.
        turns: Number of turns.
        spent: Total usage of the agent since it was started.
    """

    outcome: Literal["finished", "aborted", "failed"]
    text: str
    turns: int
    spent: Spent


class AgentEnded(FinalOutcome, frozen=True, kw_only=True):
    """An agent in the background has ended: it was closed, was stopped, or crashed too often.

    Attributes:
        reason: Why.
        is_lost: Whether it ended without being told to.
        spent: Total usage since it was started. None if unknown.
        receipt: The work that was stopped with it.
    """

    reason: str
    is_lost: bool = False
    spent: Spent | None = None
    receipt: AbortReceipt = AbortReceipt()


class BudgetLent(Stamped, frozen=True, kw_only=True):
    """The parent session lends this one more budget, for its next cycle.

    Attributes:
        budget: Budget from now on, in addition to earlier spending.
    """

    budget: Budget


# Output of a tool that continues in the background after its call.


class ToolAnsweredEarly(EffectOutcome, frozen=True, kw_only=True):
    """A running tool answers its call and continues in the background. Its `ToolFinished` comes when it ends or is stopped.

    Attributes:
        text: The text of the result for the model.
        details: JSON for users.
        started_at_ms: When the attempt began.
        ran_ms: How long it ran until now, in milliseconds.
    """

    text: str
    details: JsonValue = None
    started_at_ms: int
    ran_ms: int

    def __post_init__(self) -> None:
        force_setattr(self, "details", frozen_value(self.details))


KillMode: TypeAlias = Literal["killable", "all", "none"]


# --- calls from outside


class AbortCycle(Asked, frozen=True, kw_only=True, tag="abort", omit_defaults=True):
    """Stop the cycle now.

    Attributes:
        reason: For users.
        kill_tools: Which running tools are stopped.
        clear_queue: Whether queued prompts are dropped.
        wait: Whether the reply comes after the teardown, or at once.
        children: Whether agents in the background are stopped too.
        ref: The only prompt whose cycle may be stopped. A queued prompt is removed from the queue, and one that has
            ended stops nothing. None for the running cycle, whatever its prompt.
    """

    # The last two came later, and are omitted if they hold their default.
    reason: str | None = always_encoded(None)
    kill_tools: KillMode = always_encoded("killable")
    clear_queue: bool = always_encoded(False)
    wait: bool = always_encoded(True)
    children: bool = True
    ref: PromptRef | None = None


class AbortTool(Asked, frozen=True, kw_only=True):
    """Stop one call. The other calls of its batch continue.

    Attributes:
        call_id: The call.
        reason: For users, and for the model.
    """

    call_id: CallId
    reason: str | None = None


class StopSession(Asked, frozen=True, kw_only=True, tag="stop"):
    """End the session: abort running work, then stop.

    Attributes:
        reason: For users.
    """

    reason: str = "stopped"


class ReplyQuery(Asked, frozen=True, kw_only=True):
    """A caller asks for the text of the running cycle, or of the last one."""


class StatusQuery(Asked, frozen=True, kw_only=True):
    """A caller asks for the status of the session."""


class MessagesQuery(Asked, frozen=True, kw_only=True):
    """A caller asks for the conversation."""


class SnapshotQuery(Asked, frozen=True, kw_only=True):
    """A caller asks for a snapshot, from which a late client can draw the session."""


class Approve(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user approves a call.

    Attributes:
        approval_id: The call.
        how: `once` for this call only, `always` also for all calls of its tool and command family.
        arguments: Arguments to run instead. None for those that were shown.
        auto_resume: Whether the model gets a turn to read the result.
        user: The id of the user who decides. None if unknown.
    """

    # All but the last are always written, as they were before the last one was added.
    approval_id: ApprovalId
    how: Literal["once", "always"] = always_encoded("once")
    arguments: JsonObject | None = always_encoded(None)
    auto_resume: bool = always_encoded(True)
    user: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_or_none(self.arguments))


class Reject(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user rejects a call.

    Attributes:
        approval_id: The call.
        reason: Guidance for the model.
        auto_resume: Whether the model gets a turn to react. Otherwise the cycle ends.
        user: Same as in `Approve`.
    """

    approval_id: ApprovalId
    reason: str | None = always_encoded(None)
    auto_resume: bool = always_encoded(False)
    user: str | None = None


class Respond(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user answers a question, or supplies the result of a call in place of its tool.

    Attributes:
        ref: The question, or the approval.
        response: The answer as text, the index of an option, from 0, or the values of a form.
        user: Same as in `Approve`.
    """

    ref: QuestionRef | ApprovalId
    response: str | int | JsonObject
    user: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "response", frozen_value(self.response))  # type: ignore[arg-type]  # a text, a number or an object


class AnswerCall(Asked, frozen=True, kw_only=True):
    """The client returns the result of a call that it ran.

    Attributes:
        ref: The call, from `ClientCall`.
        text: Text for the model.
        is_error: Whether the tool failed.
        details: JSON for users.
        images: Pictures for the model.
    """

    ref: ClientCallRef
    text: str
    is_error: bool = False
    details: JsonValue = None
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "details", frozen_value(self.details))


class ToolAsked(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A running tool asks the user a question and waits for the answer.

    Answered with the text, or the object of a form, or None if no answer came in time. Refused with
    `QuestionDeclined` if the user declines, and with `CycleAborted` if its call ends first.

    Attributes:
        effect_id: The attempt that asks.
        question: The question.
        options: The options to choose from. Empty: any text.
        timeout_ms: How long it waits, in milliseconds. None: as long as the call does.
        schema: A form, as in `AskUser`.
        url: An address for the user, as in `AskUser`.
    """

    effect_id: EffectId
    question: str
    # Always written, as they were before the other two were added.
    options: tuple[str, ...] = always_encoded(())
    timeout_ms: int | None = always_encoded(None)
    schema: JsonObject | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "schema", frozen_or_none(self.schema))


class ToolWantsChild(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A running tool asks for a child session of its own.

    Answered with a `SpawnChild` that names it, at once or when budget becomes available. Refused if no such session
    is possible, and with `CycleAborted` if its call ends first.

    Attributes:
        effect_id: The attempt that asks.
        prompt: The task of the child.
        system_prompt: Replaces the one of this session. None for the same.
        tools: The names of the tools that it gets, from this session or from its agent, if the agent has its own.
            None for all.
        max_turns: Maximum number of turns. None for as many as this session.
        agent: An agent of this session to work as. None for a copy of this session.
        model: Its model. None for the one of this session, or of the agent.
    """

    effect_id: EffectId
    prompt: str
    # Always written, as they were before the agent and the model were added.
    system_prompt: str | None = always_encoded(None)
    tools: tuple[str, ...] | None = always_encoded(None)
    max_turns: int | None = always_encoded(None)
    agent: str | None = None
    model: str | None = None


class ChangeModel(Asked, frozen=True, kw_only=True, tag="switch_model"):
    """Use another model from now on. A request that is out keeps its own.

    Attributes:
        model: Facts about the model, for which the shell has found a provider.
        opts_changed: Whether new provider options were supplied. They contain keys, so they stay in the shell.
        described: Tools whose description depends on the model, described for this one. Tools that no longer exist
            are left out.
    """

    model: ModelFacts
    opts_changed: bool = False
    described: tuple[ToolSpec, ...] = ()


AgentTools: TypeAlias = tuple[tuple[str, tuple[ToolSpec, ...] | None], ...]
"""Tools of agents, by the name of the agent. None for those of the session."""


class ChangeTools(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """Use other tools from now on, all at once. Running calls keep the tool that they began with.

    Attributes:
        attach: New tools. One with a known name replaces the tool of that name.
        detach: Names. Unknown ones are listed in the answer.
        replace: Whether all tools that are not attached are removed.
        generation: Number of this change, which distinguishes two tools of the same name.
        sections: Sections of the system prompt that belong to the tools, by key. None removes one.
        agents: Tools that these agents bring with a handoff from now on.
    """

    # `sections` and `agents` came later, and are omitted if empty. The other defaults are made by functions, so they are
    # always written.
    attach: tuple[ToolSpec, ...] = always_encoded(())
    detach: tuple[str, ...] = always_encoded(())
    replace: bool = always_encoded(False)
    generation: int
    sections: tuple[tuple[str, str | None], ...] = ()
    agents: AgentTools = ()


class ToolSourceReported(Asked, frozen=True, kw_only=True):
    """A tool source reports its state. The session itself does not change: tools come and go by `ChangeTools`.

    Attributes:
        source: Its name.
        state: Its current state.
        reason: Why, for users.
    """

    source: str
    state: ToolSourceState
    reason: str | None = None


class UpdatePluginOpts(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """Change the options of a plugin when the session is idle.

    Attributes:
        plugin: Its name.
        options: The options that change.
        narrows: Whether they are rules of the parent session, which apply at once and in addition to its own.
    """

    plugin: str
    options: JsonObject
    narrows: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "options", frozen_json(self.options))


class ChangePlugins(Asked, frozen=True, kw_only=True):
    """Attach, detach or reload a plugin. Only in idle, between two cycles.

    Attributes:
        change: The change to make.
        name: The plugin to detach. For other changes its name, or empty.
        entry: The record of the plugin to attach, or of the new code of one to reload. The code stays in the shell,
            which finds it by the id of this signal, or by its origin: `find_code`.
    """

    change: Literal["attach", "detach", "reload"]
    name: str = ""
    entry: PluginRecord | None = None


class Compact(Asked, frozen=True, kw_only=True):
    """A caller asks to compact the history: at once in idle, otherwise before the next request.

    Attributes:
        reason: For users.
    """

    reason: str | None = None


# --- from the supervisor


class SessionBegan(Stamped, frozen=True, kw_only=True, tag="started"):
    """The actor has started for the first time."""


class Restarted(Stamped, frozen=True, kw_only=True, omit_defaults=True):
    """The actor crashed and has restarted from its last state. No old work is running.

    Attributes:
        reason: Why it crashed, one line.
        incarnation: 2 for the first restart.
        spent: Same as that of `Recovered`.
    """

    reason: str
    incarnation: int
    spent: tuple[Spent, ...] = ()


HostHook: TypeAlias = Literal["before_tool", "after_tool"]
"""A gate of the host. It is asked about a call before the call runs, and notified of the result after its code has ended."""


class Recovered(Stamped, frozen=True, kw_only=True, omit_defaults=True):
    """The session was restored from its journal in another process. No old work is running. First signal of its incarnation.

    The core decides about each open effect, and publishes the decisions in `SessionRecovered`. If this signal
    crashes it, all open effects end as after a crash. Child sessions have been restored before. A child that no
    effect waits for is ended.

    Attributes:
        cause: Why the session has a new owner: its own start, an expired lease of the old owner, a lost owner, a
            drain, or a restored backup.
        open: The effects that may have begun: those named by a durable record. An open effect that is not listed
            never ran, and a listed effect that is not open is ignored.
        attempt: Number of consecutive recoveries since the last other record, this one included. The journal
            counts.
        semantics: The version of the decisions from here on, same as `SessionData.semantics`.
        spent: Usage of each child session of a tool that was open, and ends now or ended without a record of that.
            Other lost children count as having used all of their budgets.
        host_hooks: Gates that the host has now, and the session did not know.
        gathers_context: Whether there are context providers now. None: same as before.
        models: Models of the session that their providers describe otherwise now.
    """

    cause: Literal["start", "lease_over", "gone", "drain", "restored"] = "start"
    open: tuple[EffectId, ...] = ()
    attempt: int = 1
    semantics: int = 0
    spent: tuple[Spent, ...] = ()
    host_hooks: tuple[HostHook, ...] = ()
    gathers_context: bool | None = None
    models: tuple[ModelFacts, ...] = ()


class Parked(Stamped, frozen=True, kw_only=True, omit_defaults=True):
    """The actor crashed too often. The last signal of the session.

    Attributes:
        reason: The last crash, one line.
        spent: Same as that of `Recovered`.
    """

    reason: str
    spent: tuple[Spent, ...] = ()


class StepCrashed(Stamped, frozen=True, kw_only=True):
    """A signal crashed the core and was put aside.

    Attributes:
        signal_kind: Its type.
        error: The error that it raised, text only.
        asked_by: The signal id of the caller that it would have answered.
        owed_by: The effect whose final outcome it was. No other outcome will come.
    """

    signal_kind: str
    error: ErrorInfo
    asked_by: SignalId | None = None
    owed_by: EffectId | None = None


class PluginLagged(Stamped, frozen=True, kw_only=True):
    """A plugin was slow. The shell measures it, because the core has no clock.

    Attributes:
        plugin: Its name.
        hook: The hook that it handled.
        milliseconds: How long it took.
    """

    plugin: str
    hook: str
    milliseconds: int


# --- outcomes of effects


class StreamStarted(EffectOutcome, frozen=True, kw_only=True):
    """The first chunk of a response has arrived."""


class ChunksArrived(EffectOutcome, frozen=True, kw_only=True):
    """More of a response: all chunks that waited together. Ephemeral, never journaled.

    Attributes:
        chunks: In order, without a terminal one.
    """

    chunks: tuple[Chunk, ...]


class ResponseCompleted(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """The response is complete.

    Attributes:
        message: The complete message.
        usage: Its usage.
        stop_reason: Why the model stopped.
        jitter: Same as in `StreamFailed`, because an empty response is a failure too.
        misfit: Why the caller of the prompt cannot read it in the requested format, for the model to correct. None
            if it can, or was not checked.
    """

    # `misfit` came later. See `AbortCycle`.
    message: AssistantMessage
    usage: TokenUsage
    stop_reason: StopReason
    jitter: float = always_encoded(0.0)
    misfit: str | None = None


class StreamFailed(FinalOutcome, frozen=True, kw_only=True):
    """The request failed without a response.

    Attributes:
        error: Why.
        usage: The usage that the server reported anyway. Zero, at an unknown price, for a request for a summary
            that broke off before the server reported it.
        jitter: A random number from 0 to below 1, for the pause before the next attempt.
    """

    error: ErrorInfo
    usage: TokenUsage = TokenUsage()
    jitter: float = 0.0


class ChildStarted(EffectOutcome, frozen=True, kw_only=True):
    """A child session has started for a call, or for the tool that the call runs.

    Attributes:
        child_id: That session.
        description: Its task. None: the task of the call.
    """

    child_id: SessionId
    description: str | None = None


class ChildPublished(EffectOutcome, frozen=True, kw_only=True):
    """A child published an event.

    Attributes:
        event: With its `meta`.
        child_id: The child. None: the first child of the call, and usually the only one.
    """

    event: Event
    child_id: SessionId | None = None


class HostJudged(FinalOutcome, frozen=True, kw_only=True):
    """The host has decided whether a call may run.

    Attributes:
        deny: Why it must not run, for the model. None if it may.
        arguments: Arguments to run instead, JSON. None for the original ones. They are validated again, and judged
            again by the guards.
        by: The source of the decision, such as the name of a host plugin.
    """

    deny: str | None = None
    arguments: JsonObject | None = None
    by: str = "host"

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_or_none(self.arguments))


class HostTold(FinalOutcome, frozen=True, kw_only=True):
    """The host was notified of the result of a call, or failed to handle it."""


class TimerFired(FinalOutcome, frozen=True, kw_only=True):
    """A `SetTimer` is due.

    Attributes:
        jitter: A random number from 0 to below 1, to spread retries over time.
        pinged_at_ms: For a stall check: when the server last sent a sign of life other than a chunk. 0 if never.
    """

    jitter: float = 0.0
    pinged_at_ms: int = 0


class PluginRequestFinished(FinalOutcome, frozen=True, kw_only=True):
    """A plugin's request has finished or failed.

    Attributes:
        result: The result for the plugin.
    """

    result: RequestResult


class ContextGathered(FinalOutcome, frozen=True, kw_only=True):
    """The context of one turn's requests is ready. The messages themselves stay in the shell, under this id.

    A gathering that fails adds nothing, and is not an error.

    Attributes:
        count: Number of messages.
        digest: SHA-256 of them, hexadecimal. Empty if there are none.
        tokens: Their estimated length.
    """

    count: int = 0
    digest: str = ""
    tokens: int = 0


class TeardownFinished(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """All work stopped by an abort has ended, or the time limit has passed.

    Attributes:
        receipt: The outcome.
        values: Values of calls that were stopped and still took effect.
    """

    receipt: AbortReceipt
    values: tuple[LateValue, ...] = ()


Signal: TypeAlias = (
    Prompt
    | GoOn
    | Steer
    | AbortCycle
    | AbortTool
    | StopSession
    | ReplyQuery
    | StatusQuery
    | MessagesQuery
    | SnapshotQuery
    | ReceiptQuery
    | Approve
    | Reject
    | Respond
    | Decline
    | RevokeRule
    | AgentCommand
    | AnswerCall
    | ToolAsked
    | ToolWantsChild
    | ChangeModel
    | ChangeTools
    | ToolSourceReported
    | UpdatePluginOpts
    | ChangePlugins
    | Compact
    | SessionBegan
    | Restarted
    | Recovered
    | Parked
    | StepCrashed
    | PluginLagged
    | BudgetLent
    | StreamStarted
    | ChunksArrived
    | ResponseCompleted
    | StreamFailed
    | ToolProgressed
    | ChildStarted
    | ChildPublished
    | ToolEmitted
    | ToolAnsweredEarly
    | ToolFinished
    | HostJudged
    | HostTold
    | AgentIdled
    | AgentEnded
    | TimerFired
    | PluginRequestFinished
    | ContextGathered
    | TeardownFinished
)
