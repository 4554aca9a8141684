"""What events carry and a state holds: receipts, what waits for a person, todos, plans, decisions. Frozen values."""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from agentrail.frozen import frozen_json, frozen_or_none
from agentrail.messages import ApprovalId, CallId, ClientCallRef, JsonObject, QuestionRef, SessionId
from agentrail.structs import Value


class LeftBehind(Value, frozen=True, kw_only=True):
    """Something that was stopped and is still there.

    Attributes:
        name: The tool, or the model of a stream.
        age_ms: Since it began.
        pid: Of a process that outlives even `SIGKILL`, stuck in the kernel; None for what is no process.
    """

    name: str
    age_ms: int
    pid: int | None = None


def _yes() -> bool:
    """Make a default that is always written."""
    return True


def _none_left() -> tuple[LeftBehind, ...]:
    """Make a default that is always written."""
    return ()


def _no_calls() -> tuple[CallId, ...]:
    """Make a default that is always written."""
    return ()


class ChildReceipt(Value, frozen=True, kw_only=True):
    """What became of an agent in the background that an abort stopped.

    Attributes:
        session_id: Which session it was.
        tasks_ended: As of `AbortReceipt`.
        processes_reaped: As of `AbortReceipt`.
        stuck: As of `AbortReceipt`.
        abandoned: As of `AbortReceipt`.
    """

    session_id: SessionId
    tasks_ended: int = 0
    processes_reaped: int = 0
    stuck: tuple[LeftBehind, ...] = ()
    abandoned: tuple[LeftBehind, ...] = ()


class AbortReceipt(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What an abort found and what became of it; what the sessions had at work that worked for stopped calls is counted too.

    Attributes:
        settled: False when the caller did not want to wait: the rest then says nothing yet.
        tasks_ended: How many streams and tool calls were stopped and are gone.
        processes_reaped: How many processes of stopped calls were ended and are gone, their shells among them.
        stuck: What had not ended when the time for teardown was over.
        abandoned: Tools whose call has ended and whose thread works on, because they allow that.
        committed: Calls of the batch that was broken off which had ended before, or gave their value in spite of the stop.
        unknown: Calls that were stopped at work and may have taken effect: neither pure nor idempotent. Of a session that
            worked for a call only that call is named, because ids mean something in their own session.
        survivors: Calls that run on by policy.
        milliseconds: From the abort to the end of the teardown.
        children: What became of each session below that was stopped, the deepest first; it is counted above too.
    """

    # `children` came later, and is left out where there are none; a default that a function makes is always written.
    settled: bool = msgspec.field(default_factory=_yes)
    tasks_ended: int = msgspec.field(default_factory=int)
    processes_reaped: int = msgspec.field(default_factory=int)
    stuck: tuple[LeftBehind, ...] = msgspec.field(default_factory=_none_left)
    abandoned: tuple[LeftBehind, ...] = msgspec.field(default_factory=_none_left)
    committed: tuple[CallId, ...] = msgspec.field(default_factory=_no_calls)
    unknown: tuple[CallId, ...] = msgspec.field(default_factory=_no_calls)
    survivors: tuple[CallId, ...] = msgspec.field(default_factory=_no_calls)
    milliseconds: int = msgspec.field(default_factory=int)
    children: tuple[ChildReceipt, ...] = ()


# --- what waits for a person

PermissionOption: TypeAlias = Literal["approve", "always", "edit", "reject", "respond"]
"""How a person may answer: run it; run all that are like it; run it with other arguments; refuse it; answer in its place."""

PERMISSION_OPTIONS: Final[tuple[PermissionOption, ...]] = ("approve", "always", "edit", "reject", "respond")
"""All of them, which is what is offered unless other choices are given."""


def _nothing() -> None:
    """Make the default of a field that is written also where it is None. See `Approval`."""


class Approval(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A call that waits for a person. Data, so it costs nothing while it waits and survives a restart.

    Attributes:
        id: What `approve` and `reject` are given.
        call_id: The call.
        tool: Its tool.
        arguments: The final arguments, shown to the person; these run and no others. Frozen.
        arguments_hash: SHA-256 of their canonical JSON, hexadecimal, taken when the person was asked; compared with what
            is about to run, in the step that begins it and once more right before it runs.
        hint: Why a person is asked, in the words of who asks; None where no reason was given.
        requested_at_ms: Since when it waits, in milliseconds since 1970.
        expires_at_ms: When it is answered by the clock; None: never.
        path: The chain of sessions from the root to the one whose call it is.
        permission_options: The answers that are taken, and no others; what shows the call to a person offers these.
    """

    id: ApprovalId
    call_id: CallId
    tool: str
    arguments: JsonObject
    arguments_hash: str
    # `permission_options` came later, and is left out where it is the default, so that what was written before stays as it
    # was. msgspec leaves out all fields of a class or none; a default that a function makes it always writes.
    hint: str | None = msgspec.field(default_factory=_nothing)
    requested_at_ms: int
    expires_at_ms: int | None = msgspec.field(default_factory=_nothing)
    path: tuple[SessionId, ...]
    permission_options: tuple[PermissionOption, ...] = PERMISSION_OPTIONS

    def __post_init__(self) -> None:
        """Freeze the arguments, and take the one object that counts as the default on the wire where it equals that."""
        force_setattr(self, "arguments", frozen_json(self.arguments))
        if self.permission_options == PERMISSION_OPTIONS:
            force_setattr(self, "permission_options", PERMISSION_OPTIONS)


ApprovalStatus: TypeAlias = Literal["approved", "rejected", "timeout", "aborted", "superseded"]
"""How an approval ended."""

DecidedBy: TypeAlias = Literal["user", "rule", "timeout", "abort", "superseded", "client"]
"""Who ended it: a person, a rule that a person made, the clock, an abort, the next prompt; of a call of the client that one."""


class Question(Value, frozen=True, kw_only=True):
    """A question of the model or of a running tool that waits for a person.

    Attributes:
        ref: What `respond` and `decline` are given.
        call_id: The call of `ask_user` that its answer is the result of; or that of the tool that asks.
        question: In the model's words.
        options: Answers to choose from; none: any text.
        schema: As in `AskUser`.
        url: As in `AskUser`.
        requested_at_ms: Since when it waits, in milliseconds since 1970.
        expires_at_ms: When the call is answered without one; None: never.
        path: The chain of sessions from the root to the one that asks.
    """

    ref: QuestionRef
    call_id: CallId
    question: str
    options: tuple[str, ...] = ()
    schema: JsonObject | None = None
    url: str | None = None
    requested_at_ms: int
    expires_at_ms: int | None = None
    path: tuple[SessionId, ...]

    def __post_init__(self) -> None:
        """Freeze the form."""
        force_setattr(self, "schema", frozen_or_none(self.schema))


class PendingClientCall(Value, frozen=True, kw_only=True):
    """A call that waits for the client, who runs its tool. Data, so it costs nothing while it waits and survives a restart.

    Attributes:
        ref: What `answer` is given.
        call_id: The call.
        name: Its tool.
        arguments: What the tool is to be run with: validated, judged and approved. Frozen.
        requested_at_ms: Since when it waits, in milliseconds since 1970.
        expires_at_ms: When it is answered by the clock; None: never.
        path: The chain of sessions from the root to the one whose call it is.
    """

    ref: ClientCallRef
    call_id: CallId
    name: str
    arguments: JsonObject
    requested_at_ms: int
    expires_at_ms: int | None = None
    path: tuple[SessionId, ...]

    def __post_init__(self) -> None:
        """Freeze the arguments."""
        force_setattr(self, "arguments", frozen_json(self.arguments))


class WaitingFor(Value, frozen=True, kw_only=True):
    """One of the things that a suspended cycle waits for. The event that asked for it says all of it.

    Attributes:
        kind: What it is.
        id: What the answer is given to: of an approval its `id`, of a question and of a call of the client its `ref`.
        call_id: The call that it belongs to.
    """

    kind: Literal["approval", "question", "client_call"]
    id: ApprovalId | QuestionRef | ClientCallRef
    call_id: CallId


# --- what the model means to do

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]


class Todo(Value, frozen=True, kw_only=True):
    """One entry of the list that a model keeps of its work.

    Attributes:
        id: Unique in the list.
        content: What is to be done.
        status: How far it is.
    """

    id: str
    content: str
    status: TodoStatus = "pending"


# --- what was counted, what was decided


class Amount(Value, frozen=True, kw_only=True):
    """So much of something that a budget counts.

    Attributes:
        value: How much.
        unit: Of what.
    """

    value: float
    unit: Literal["usd", "tokens"]


class RecoveryDecision(Value, frozen=True, kw_only=True):
    """What became of something that was open when the process stopped.

    Attributes:
        open: What it is.
        id: The id of the effect, call, approval, question, call of the client, prompt, steer or child.
        name: The tool of a call, or of one that the host is asked about or told of, the model of a request, the plugin that asked for something; empty elsewhere.
        decision: Sent or run again; begun, because it never ran; for a call whose tool is asked what became of it `asked`,
            and what it found; left as it was; over its time; given up, because nothing waits for it any more; or, for a
            child, resumed. A call that must not be repeated is `unknown`.
    """

    open: Literal[
        "request",
        "tool",
        "timer",
        "approval",
        "question",
        "client_call",
        "prompt",
        "steer",
        "child",
        "plugin_request",
        "host",
        "context",
        "teardown",
    ]
    id: str
    name: str = ""
    decision: Literal[
        "sent_again",
        "run_again",
        "begun",
        "asked",
        "done",
        "not_done",
        "unknown",
        "kept",
        "expired",
        "resumed",
        "given_up",
    ]
