"""All that can arrive in a session's mailbox: calls from outside, and outcomes of effects. One closed union.

Signals are past tense or nouns, frozen, and carry their time and their ids; the shell mints both. There is no other
way in: what no signal says, the core does not know.

One is made for every chunk of every stream, and ten thousand sessions of them are what the cyclic collector would walk
through again and again, if it could see them: see `structs`.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from agentrail.core.policy.budget import Budget, Spent
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.changes import Change
from agentrail.core.protocol.hooks import RequestResult
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import Chunk, EffectId, ModelFacts
from agentrail.core.protocol.stamped import (
    Asked as Asked,
    EffectOutcome as EffectOutcome,
    FinalOutcome as FinalOutcome,
    SignalId as SignalId,
    Stamped as Stamped,
)
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
    UserBlock,
)
from agentrail.structs import Value

# What people decide outside of a prompt: not to answer a question, to take a rule back, what an agent in the background does.


def _nothing() -> None:
    """Make the default of a field that is written also where it is None. See `ToolFinished`."""


class Decline(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person does not want to answer a question.

    Attributes:
        ref: The question.
        reason: For the model, or for the tool that asks.
        user: The id of the user who declines; None where it is unknown.
    """

    ref: QuestionRef
    reason: str | None = msgspec.field(default_factory=_nothing)
    user: str | None = None


class RevokeRule(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person takes back what it has always allowed: calls of that kind are asked about again.

    Attributes:
        tool: The tool.
        command_family: As in `ToolApprovedAlways`.
        exact: As in `ToolApprovedAlways`.
    """

    # Which rule is meant stands here by what it allows: an id would bind journals to how ids are made today.
    tool: str
    command_family: str | None = None
    exact: bool = False


class AgentCommand(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The program starts an agent in the background, sends it more, or closes it; as the calls of the model do.

    Attributes:
        action: Which of the three.
        name: Of the agent in the background; to start one, the name it gets, empty for a fresh one.
        agent: Which agent is started.
        text: Its task, what it is sent, or the reason for closing it.
        now: Whether it is closed at once, and not after its cycle.
    """

    action: Literal["spawn", "send", "close"]
    name: str = ""
    agent: str = ""
    text: str = ""
    now: bool = False


# What a running tool reports: how far it is, what it emits, and how it ended.


def _no_changes() -> tuple[Change, ...]:
    return ()


class ToolProgressed(EffectOutcome, frozen=True, kw_only=True):
    """A tool says how far it is. Ephemeral, never journaled.

    Attributes:
        text: What it says.
    """

    text: str


class ToolEmitted(EffectOutcome, frozen=True, kw_only=True):
    """A running tool lets the world know something.

    Attributes:
        name: Its own name for it.
        payload: JSON, of at most 64 KiB.
    """

    name: str
    payload: JsonValue = None

    def __post_init__(self) -> None:
        """Freeze the payload."""
        force_setattr(self, "payload", frozen_value(self.payload))


class LateValue(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool returned although its call had been stopped.

    Attributes:
        call_id: The call.
        name: The tool.
        text: What the model may read.
        is_error: Whether the tool returned an error.
    """

    call_id: CallId
    name: str
    text: str
    is_error: bool = False


class ToolFinished(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """A tool is done, well or badly, or was stopped; or a session that worked for a call or for its tool.

    Attributes:
        text: What the model may read.
        is_error: Whether it failed.
        details: JSON for people.
        started_at_ms: When this attempt began.
        crashed: Whether it raised, and the same attempt may be made once more.
        jitter: A random number from 0 to below 1, for the pause before that.
        changes: What the tool wants changed in its session.
        late: Whether the tool gave a value although it had been stopped or its time was up.
        spent: Of a session that worked for a call or for its tool, what it has used; None of a tool, or where that is unknown.
        images: Pictures that the model may see.
        ran_ms: How long the code of this attempt took, in milliseconds; None where none ran. Not what lies between its beginning
            and this signal, which comes when its processes are gone as well.
        value: The value, where it is late; older journals do not have it.
    """

    text: str
    # `images` and `ran_ms` came later, and are left out where there are none; see `ToolResult`.
    is_error: bool = msgspec.field(default_factory=bool)
    details: JsonValue = msgspec.field(default_factory=_nothing)
    started_at_ms: int
    crashed: bool = msgspec.field(default_factory=bool)
    jitter: float = msgspec.field(default_factory=float)
    changes: tuple[Change, ...] = msgspec.field(default_factory=_no_changes)
    late: bool = msgspec.field(default_factory=bool)
    spent: Spent | None = msgspec.field(default_factory=_nothing)
    images: tuple[Image, ...] = ()
    ran_ms: int | None = None
    value: LateValue | None = None

    def __post_init__(self) -> None:
        """Freeze the details, which every subscriber will be given."""
        if self.details is not None:
            force_setattr(self, "details", frozen_value(self.details))


# What users say to a session: a prompt, a steer, that it shall go on, and what became of it.
#
# What came to these classes later is left out where it holds its default. What they were written with from the beginning is always
# written: its default is made by a function, which msgspec takes for a value of its own.

WantedReply: TypeAlias = Literal["receipt", "text"]


def _a_receipt() -> WantedReply:
    return "receipt"


def _no_name() -> str | None:
    return None


class Prompt(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user says something.

    Attributes:
        ref: Its name in all that follows from it.
        content: What was said; at least one block, within the limits (the shell checked).
        reply: Whether the caller wants the receipt, or waits for the text of this prompt's own cycle.
        client_id: The caller's own name of this message: sent again, it gives the first receipt again.
        via: The door that it came through: `http`, `acp`; None: this process.
        request_id: The request that brought it, as the host calls it.
        digest: Of its sender's own words, SHA-256, where something was put in front of them: by these, and not by the content, a
            message that is sent again is known. None: the content is the sender's.
        settings: What is wanted of the model for its cycle alone.
    """

    ref: PromptRef
    content: tuple[UserBlock, ...]
    reply: WantedReply = msgspec.field(default_factory=_a_receipt)
    client_id: str | None = msgspec.field(default_factory=_no_name)
    via: str | None = None
    request_id: str | None = None
    digest: str | None = None
    settings: PromptSettings | None = None


class GoOn(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A caller wants a turn without new words: the model answers the results, or the user's message, that the conversation ends with.

    Answered with a receipt when its cycle has begun; refused with `CannotGoOn` where nothing stands there to be answered, and
    wherever the session is not idle: it never waits in the queue, because what it would answer is not known then.

    Attributes:
        ref: The name of its cycle in all that follows.
        client_id: As of `Prompt`.
        via: As of `Prompt`.
        request_id: As of `Prompt`.
        digest: As of `Prompt`: of what its sender brought; all of these that have none are alike.
        settings: As of `Prompt`.
    """

    ref: PromptRef
    client_id: str | None = None
    via: str | None = None
    request_id: str | None = None
    digest: str | None = None
    settings: PromptSettings | None = None


class Steer(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """The user speaks into a running cycle.

    Attributes:
        ref: Its name; that of the prompt which it becomes when nothing runs.
        text: What was said; not empty, within the limits (the shell checked).
        client_id: As of `Prompt`.
        via: As of `Prompt`; of use where it becomes one.
        request_id: As of `Prompt`; of use where it becomes one.
    """

    ref: SteerRef
    text: str
    client_id: str | None = msgspec.field(default_factory=_no_name)
    via: str | None = None
    request_id: str | None = None


class ReceiptQuery(Asked, frozen=True, kw_only=True):
    """A caller wants the receipt of a message that it may have sent before; None where there is none.

    Attributes:
        client_id: The sender's name of the message.
        digest: What the message has to be; another one is refused with `ClientIdReused`. None: whatever it was.
    """

    client_id: str
    digest: str | None = None


# What a session hears of agents in the background, and an agent of the session that it works for.


class AgentIdled(EffectOutcome, frozen=True, kw_only=True):
    """A cycle of an agent in the background is over, and it waits for the next.

    Attributes:
        outcome: How it ended.
        text: What it said last; of a cycle that did not finish also why.
        turns: How many it took.
        spent: All that the agent has used since it was started.
    """

    outcome: Literal["finished", "aborted", "failed"]
    text: str
    turns: int
    spent: Spent


class AgentEnded(FinalOutcome, frozen=True, kw_only=True):
    """An agent in the background is gone: closed, stopped, or it crashed too often.

    Attributes:
        reason: Why.
        is_lost: Whether it was not told to end.
        spent: All that it has used since it was started; None where that is unknown.
        receipt: What was stopped with it.
    """

    reason: str
    is_lost: bool = False
    spent: Spent | None = None
    receipt: AbortReceipt = AbortReceipt()


class BudgetLent(Stamped, frozen=True, kw_only=True):
    """The session that this one works for lends it more, for its next cycle.

    Attributes:
        budget: What may be spent from now on, beside what was spent already.
    """

    budget: Budget


# What a tool says that goes on behind its call.


class ToolAnsweredEarly(EffectOutcome, frozen=True, kw_only=True):
    """A running tool answers its call, and goes on in the background: its `ToolFinished` comes when that ends, or is stopped.

    Attributes:
        text: What the model reads as the result of the call.
        details: JSON for people.
        started_at_ms: When the attempt began.
        ran_ms: How long it ran until now.
    """

    text: str
    details: JsonValue = None
    started_at_ms: int
    ran_ms: int

    def __post_init__(self) -> None:
        """Freeze the details."""
        force_setattr(self, "details", frozen_value(self.details))


KillMode: TypeAlias = Literal["killable", "all", "none"]


def _no_options() -> tuple[str, ...]:
    """Make the default of a field that is written also where it is empty. See `ToolAsked`."""
    return ()


def _yes() -> bool:
    """Make a default that is always written."""
    return True


def _once() -> Literal["once", "always"]:
    """Make a default that is always written."""
    return "once"


def _killable() -> KillMode:
    """Make a default that is always written."""
    return "killable"


# --- calls from outside


class AbortCycle(Asked, frozen=True, kw_only=True, tag="abort", omit_defaults=True):
    """Stop the cycle, now.

    Attributes:
        reason: For people.
        kill_tools: Which running tools are stopped.
        clear_queue: Whether the prompts that wait are thrown away.
        wait: Whether the reply comes when the teardown is over, or at once.
        children: Whether agents in the background are stopped too.
        ref: The prompt whose cycle is meant, and no other: where it waits it is taken out of the queue, and once it has ended
            nothing is stopped. None for the cycle that runs, whosever it is.
    """

    # The last two came later, and are left out where they are the default; a default that a function makes is always written.
    reason: str | None = msgspec.field(default_factory=_nothing)
    kill_tools: KillMode = msgspec.field(default_factory=_killable)
    clear_queue: bool = msgspec.field(default_factory=bool)
    wait: bool = msgspec.field(default_factory=_yes)
    children: bool = True
    ref: PromptRef | None = None


class AbortTool(Asked, frozen=True, kw_only=True):
    """Stop one call; the others of its batch go on.

    Attributes:
        call_id: Which one.
        reason: For people, and for the model.
    """

    call_id: CallId
    reason: str | None = None


class StopSession(Asked, frozen=True, kw_only=True, tag="stop"):
    """End the session: abort what runs, then go.

    Attributes:
        reason: For people.
    """

    reason: str = "stopped"


class ReplyQuery(Asked, frozen=True, kw_only=True):
    """A caller wants the text of the running cycle, or of the last one."""


class StatusQuery(Asked, frozen=True, kw_only=True):
    """A caller wants to know how the session stands."""


class MessagesQuery(Asked, frozen=True, kw_only=True):
    """A caller wants the conversation."""


class SnapshotQuery(Asked, frozen=True, kw_only=True):
    """A caller wants all that a late client needs to draw the session."""


class Approve(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person lets a call run.

    Attributes:
        approval_id: Which call.
        how: `once` for this very call; `always` for all calls of its tool and command family too.
        arguments: What shall run instead; None for what was shown.
        auto_resume: Whether the model gets a turn to read the result.
        user: The id of the user who decides; None where it is unknown.
    """

    # All but the last are written also where they hold their defaults, as they were before that came.
    approval_id: ApprovalId
    how: Literal["once", "always"] = msgspec.field(default_factory=_once)
    arguments: JsonObject | None = msgspec.field(default_factory=_nothing)
    auto_resume: bool = msgspec.field(default_factory=_yes)
    user: str | None = None

    def __post_init__(self) -> None:
        """Freeze the arguments: the person goes on with theirs."""
        force_setattr(self, "arguments", frozen_or_none(self.arguments))


class Reject(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person refuses a call.

    Attributes:
        approval_id: Which call.
        reason: Guidance for the model.
        auto_resume: Whether the model gets a turn to react; else the cycle ends.
        user: As of `Approve`.
    """

    approval_id: ApprovalId
    reason: str | None = msgspec.field(default_factory=_nothing)
    auto_resume: bool = msgspec.field(default_factory=bool)
    user: str | None = None


class Respond(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A person answers a question, or gives the result of a call in place of its tool.

    Attributes:
        ref: The question, or the approval.
        response: The answer in words; which of the options, from 0; or what was filled in, where the question is a form.
        user: As of `Approve`.
    """

    ref: QuestionRef | ApprovalId
    response: str | int | JsonObject
    user: str | None = None

    def __post_init__(self) -> None:
        """Freeze what was filled in: the person goes on with theirs."""
        force_setattr(self, "response", frozen_value(self.response))  # type: ignore[arg-type]  # a text, a number or an object


class AnswerCall(Asked, frozen=True, kw_only=True):
    """The client gives the result of a call that it ran.

    Attributes:
        ref: Which call: of `ClientCall`.
        text: What the model may read.
        is_error: Whether the tool failed.
        details: JSON for people.
        images: Pictures that the model is shown, too.
    """

    ref: ClientCallRef
    text: str
    is_error: bool = False
    details: JsonValue = None
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        """Freeze the details: the client goes on with theirs."""
        force_setattr(self, "details", frozen_value(self.details))


class ToolAsked(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A running tool has a question to the user, and waits for the answer.

    Answered with the text, or the object of a form; with None when no answer came in time; refused with `QuestionDeclined` when
    the user does not want to answer, and with `CycleAborted` when its call is over first.

    Attributes:
        effect_id: The attempt that asks.
        question: What it wants to know.
        options: What can be chosen; empty: any text.
        timeout_ms: How long it waits; None: as long as the call does.
        schema: A form; as in `AskUser`.
        url: An address for the user; as in `AskUser`.
    """

    effect_id: EffectId
    question: str
    # Written also where they hold their defaults, as they were before the other two came.
    options: tuple[str, ...] = msgspec.field(default_factory=_no_options)
    timeout_ms: int | None = msgspec.field(default_factory=_nothing)
    schema: JsonObject | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        """Freeze the form: the tool goes on with its own."""
        force_setattr(self, "schema", frozen_or_none(self.schema))


class ToolWantsChild(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A running tool wants a session of its own to work for it.

    Answered with a `SpawnChild` that names it, at once or when something is left to lend; refused when there can be no such
    session, and with `CycleAborted` when its call is over first.

    Attributes:
        effect_id: The attempt that asks.
        prompt: What the session is to do.
        system_prompt: Instead of that of this session; None for the same.
        tools: The names of those tools of this session that it has, or of its agent, where that has its own; None for all.
        max_turns: How many turns it has; None for as many as this session.
        agent: Which agent of this session works; None for one that has what this session has.
        model: Which model it asks; None for that of this session, or of the agent.
    """

    effect_id: EffectId
    prompt: str
    # Written also where they hold their defaults, as they were before the agent and the model came.
    system_prompt: str | None = msgspec.field(default_factory=_nothing)
    tools: tuple[str, ...] | None = msgspec.field(default_factory=_nothing)
    max_turns: int | None = msgspec.field(default_factory=_nothing)
    agent: str | None = None
    model: str | None = None


class ChangeModel(Asked, frozen=True, kw_only=True, tag="switch_model"):
    """Another model from now on; a request that is out keeps its own.

    Attributes:
        model: What is known of it; the shell has found its provider.
        opts_changed: Whether other provider options came along; they hold keys, so they stay in the shell.
        described: The tools that describe themselves by the model, as they do it to this one; of names that are gone nothing
            comes.
    """

    model: ModelFacts
    opts_changed: bool = False
    described: tuple[ToolSpec, ...] = ()


class ChangeTools(Asked, frozen=True, kw_only=True):
    """Other tools from now on, all at once; calls that are under way keep the tool they began with.

    Attributes:
        attach: New ones; one of a name that is there takes its place.
        detach: Names; those that are not there are listed in the answer.
        replace: Whether all that are not attached go.
        generation: Which change this is; tells two tools of one name apart.
    """

    attach: tuple[ToolSpec, ...] = ()
    detach: tuple[str, ...] = ()
    replace: bool = False
    generation: int


class ToolSourceReported(Asked, frozen=True, kw_only=True):
    """What gives a session tools says how it stands. Nothing of the session changes by it: tools come and go by `ChangeTools`.

    Attributes:
        source: Its name.
        state: How it stands now.
        reason: Why, for people.
    """

    source: str
    state: ToolSourceState
    reason: str | None = None


class UpdatePluginOpts(Asked, frozen=True, kw_only=True, omit_defaults=True):
    """A plugin gets other options when the session is idle.

    Attributes:
        plugin: Its name.
        options: Those that change.
        narrows: Whether they are rules of the session above, which hold at once and in addition to its own.
    """

    plugin: str
    options: JsonObject
    narrows: bool = False

    def __post_init__(self) -> None:
        """Freeze the options: the caller goes on with theirs."""
        force_setattr(self, "options", frozen_json(self.options))


class ChangePlugins(Asked, frozen=True, kw_only=True):
    """Plugins come, go, or get new code. Only in idle, between two cycles.

    Attributes:
        change: What to do.
        name: Of the plugin to detach; of another one its name too, or empty.
        entry: What stands for the plugin to attach, or for the new code of one that is there. The code stays in the shell,
            which finds it by the id of this signal, or by where it comes from: `find_code`.
    """

    change: Literal["attach", "detach", "reload"]
    name: str = ""
    entry: PluginRecord | None = None


class Compact(Asked, frozen=True, kw_only=True):
    """A caller wants the history shortened: now in idle, else before the next request.

    Attributes:
        reason: For people.
    """

    reason: str | None = None


# --- from the supervisor


class SessionBegan(Stamped, frozen=True, kw_only=True, tag="started"):
    """The actor is up, for the first time."""


class Restarted(Stamped, frozen=True, kw_only=True):
    """The actor crashed and is up again with the last state it had; nothing of the old one runs.

    Attributes:
        reason: Why it crashed, one line.
        incarnation: 2 for the first restart.
    """

    reason: str
    incarnation: int


class Recovered(Stamped, frozen=True, kw_only=True, omit_defaults=True):
    """The session came back from its journal in another process; nothing of the old one runs. The first signal of that life.

    The core decides of each effect that is open, and says so in `SessionRecovered`. Where this signal crashes it, all that was
    open ends as behind a crash. Sessions that worked for calls are back by now; one that no effect waits for any more is ended.

    Attributes:
        cause: Why the session has a new owner: its own start, the time of the old one was over, it was gone, or it gave it up.
        open: The effects that may have begun: those that a durable record names. An open one that is not among them never
            ran; one that is not open means nothing.
        attempt: How many recoveries there were since the last record that was none, this one included. The journal counts.
        semantics: The version of the decisions from here on, as of `SessionData.semantics`.
    """

    cause: Literal["start", "lease_over", "gone", "drain"] = "start"
    open: tuple[EffectId, ...] = ()
    attempt: int = 1
    semantics: int = 0


class Parked(Stamped, frozen=True, kw_only=True):
    """The actor crashed too often; this is the last signal of its life.

    Attributes:
        reason: The last crash, one line.
    """

    reason: str


class StepCrashed(Stamped, frozen=True, kw_only=True):
    """A signal crashed the core and was put aside.

    Attributes:
        signal_kind: Its type.
        error: What it raised, text only.
        asked_by: Whom the signal would have answered.
        owed_by: The effect whose final outcome it was: nothing more will come of that one.
    """

    signal_kind: str
    error: ErrorInfo
    asked_by: SignalId | None = None
    owed_by: EffectId | None = None


class PluginLagged(Stamped, frozen=True, kw_only=True):
    """A plugin took long. The shell says so, because the core has no clock.

    Attributes:
        plugin: Its name.
        hook: What it was asked on.
        milliseconds: How long it took.
    """

    plugin: str
    hook: str
    milliseconds: int


# --- outcomes of effects


class StreamStarted(EffectOutcome, frozen=True, kw_only=True):
    """The first chunk of a response is here."""


class ChunksArrived(EffectOutcome, frozen=True, kw_only=True):
    """More of a response: all chunks that waited together. Ephemeral, never journaled.

    Attributes:
        chunks: In order; no terminal one among them.
    """

    chunks: tuple[Chunk, ...]


class ResponseCompleted(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """The response is complete.

    Attributes:
        message: All of it.
        usage: What it cost.
        stop_reason: Why the model stopped.
        jitter: As of `StreamFailed`: an empty response is a failure too.
        misfit: Why the caller of the prompt cannot read it as what it wants, for the model to put right; None where nothing
            is wrong, or was looked for.
    """

    # `misfit` came later. See `AbortCycle`.
    message: AssistantMessage
    usage: TokenUsage
    stop_reason: StopReason
    jitter: float = msgspec.field(default_factory=float)
    misfit: str | None = None


class StreamFailed(FinalOutcome, frozen=True, kw_only=True):
    """There will be no response.

    Attributes:
        error: Why.
        usage: What the server says it cost all the same; nothing, at an unknown price, of a request for a summary that broke off
            before the server said so.
        jitter: A random number from 0 to below 1, for the pause before the next attempt.
    """

    error: ErrorInfo
    usage: TokenUsage = TokenUsage()
    jitter: float = 0.0


class ChildStarted(EffectOutcome, frozen=True, kw_only=True):
    """A session works for a call, or for the tool that the call runs.

    Attributes:
        child_id: That session.
        description: What it is to do; None: what the call says.
    """

    child_id: SessionId
    description: str | None = None


class ChildPublished(EffectOutcome, frozen=True, kw_only=True):
    """A child published an event.

    Attributes:
        event: With its `meta`.
        child_id: Which one; None: the first that works for the call, and mostly the only one.
    """

    event: Event
    child_id: SessionId | None = None


class HostJudged(FinalOutcome, frozen=True, kw_only=True):
    """The host has said whether a call may run.

    Attributes:
        deny: Why it may not, for the model; None where it may.
        arguments: What shall run instead, JSON; None for what was asked about. Validated again, and judged again by the guards.
        by: Who denied or changed it, such as the name of a host plugin.
    """

    deny: str | None = None
    arguments: JsonObject | None = None
    by: str = "host"

    def __post_init__(self) -> None:
        """Freeze the arguments: the host goes on with theirs."""
        force_setattr(self, "arguments", frozen_or_none(self.arguments))


class HostTold(FinalOutcome, frozen=True, kw_only=True):
    """The host knows what a call came to, or failed over it."""


class TimerFired(FinalOutcome, frozen=True, kw_only=True):
    """The time that a `SetTimer` named has come.

    Attributes:
        jitter: A random number from 0 to below 1, for a retry that must not come with all the others.
        pinged_at_ms: Of a look at a stream: when its server last gave a sign of life that is no chunk; 0 if never.
    """

    jitter: float = 0.0
    pinged_at_ms: int = 0


class PluginRequestFinished(FinalOutcome, frozen=True, kw_only=True):
    """What a plugin had asked for is there, or cannot be done.

    Attributes:
        result: What the plugin is given.
    """

    result: RequestResult


class ContextGathered(FinalOutcome, frozen=True, kw_only=True):
    """What is added to the requests of one turn is known. The messages themselves stay in the shell, by this id.

    A gathering that fails gives nothing, and that is no error.

    Attributes:
        count: How many messages.
        digest: SHA-256 of them, hexadecimal; empty when there are none.
        tokens: How long they are, estimated.
    """

    count: int = 0
    digest: str = ""
    tokens: int = 0


class TeardownFinished(FinalOutcome, frozen=True, kw_only=True, omit_defaults=True):
    """All that an abort stopped is gone, or its time is over.

    Attributes:
        receipt: What became of it.
        values: Values of calls that were stopped and took effect all the same.
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
