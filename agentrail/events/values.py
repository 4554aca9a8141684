"""Frozen values shared by events and state."""

from typing import Final, Literal, TypeAlias

from msgspec.structs import force_setattr

from agentrail.frozen import frozen_json, frozen_or_none
from agentrail.messages import ApprovalId, CallId, ClientCallRef, JsonObject, QuestionRef, SessionId
from agentrail.structs import Value, always_encoded


class LeftBehind(Value, frozen=True, kw_only=True):
    """Work that was stopped but is still running.

    Attributes:
        name: Name of the tool, or the model of a stream.
        age_ms: Time since it started, in milliseconds.
        pid: Process that survives `SIGKILL`, stuck in the kernel, or None.
    """

    name: str
    age_ms: int
    pid: int | None = None


class ChildReceipt(Value, frozen=True, kw_only=True):
    """Outcome for a background agent stopped by an abort.

    Attributes:
        session_id: Id of its session.
        tasks_ended: Same as in `AbortReceipt`.
        processes_reaped: Same as in `AbortReceipt`.
        stuck: Same as in `AbortReceipt`.
        abandoned: Same as in `AbortReceipt`.
    """

    session_id: SessionId
    tasks_ended: int = 0
    processes_reaped: int = 0
    stuck: tuple[LeftBehind, ...] = ()
    abandoned: tuple[LeftBehind, ...] = ()


class AbortReceipt(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Outcome of an abort, with child sessions of stopped calls.

    Attributes:
        settled: False if the caller did not wait, so the other fields have no meaning yet.
        tasks_ended: Streams and tool calls that were stopped and ended.
        processes_reaped: Processes of stopped calls, with their shells, that were ended.
        stuck: Work not ended within the teardown time.
        abandoned: Tools whose call ended while their thread keeps running, as they allow.
        committed: Calls of the batch that had ended, or still returned a value.
        unknown: Stopped calls that may have taken effect: neither pure nor idempotent. For a child session, only the call it worked for.
        survivors: Calls that keep running by policy.
        milliseconds: Time from the abort to the end of the teardown.
        children: Receipts of stopped descendants, deepest first. The totals include them.
    """

    # `children` was added later and is omitted when empty.
    settled: bool = always_encoded(True)
    tasks_ended: int = always_encoded(0)
    processes_reaped: int = always_encoded(0)
    stuck: tuple[LeftBehind, ...] = always_encoded(())
    abandoned: tuple[LeftBehind, ...] = always_encoded(())
    committed: tuple[CallId, ...] = always_encoded(())
    unknown: tuple[CallId, ...] = always_encoded(())
    survivors: tuple[CallId, ...] = always_encoded(())
    milliseconds: int = always_encoded(0)
    children: tuple[ChildReceipt, ...] = ()


# --- pending user decisions

PermissionOption: TypeAlias = Literal["approve", "always", "edit", "reject", "respond"]
"""Possible answers to an approval: run the call, run all similar calls, edit its arguments, refuse it, or answer in its place."""

PERMISSION_OPTIONS: Final[tuple[PermissionOption, ...]] = ("approve", "always", "edit", "reject", "respond")
"""All options, offered unless others are chosen."""


class Approval(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A call that waits for a user's approval. As data, it survives a restart.

    Attributes:
        id: Id to pass to `approve` or `reject`.
        call_id: Id of the call.
        tool: Name of the tool.
        arguments: The final arguments, as shown to the user and run, frozen.
        arguments_hash: SHA-256 of their canonical JSON, hexadecimal, from when the user is asked. Compared when the call starts, and right before it runs.
        hint: Reason for the approval, or None.
        requested_at_ms: Start of the wait, in milliseconds since 1970.
        expires_at_ms: Deadline, in milliseconds since 1970. None: no deadline.
        path: Session ids from the root to the session of the call.
        permission_options: The only accepted answers.
        by: `operator` if a breakpoint stopped the call, otherwise None.
    """

    id: ApprovalId
    call_id: CallId
    tool: str
    arguments: JsonObject
    arguments_hash: str
    # `permission_options` was added later and is omitted at its default, so that the encoding of older records does not
    # change. msgspec omits the defaults of all fields or of none, but always encodes a default that a function returns.
    hint: str | None = always_encoded(None)
    requested_at_ms: int
    expires_at_ms: int | None = always_encoded(None)
    path: tuple[SessionId, ...]
    permission_options: tuple[PermissionOption, ...] = PERMISSION_OPTIONS
    by: Literal["operator"] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_json(self.arguments))
        if self.permission_options == PERMISSION_OPTIONS:
            force_setattr(self, "permission_options", PERMISSION_OPTIONS)


ApprovalStatus: TypeAlias = Literal["approved", "rejected", "timeout", "aborted", "superseded"]
"""Final status of an approval."""

DecidedBy: TypeAlias = Literal["user", "rule", "timeout", "abort", "superseded", "client"]
"""Source of a decision: a user, a user's rule, the deadline, an abort, the next prompt, or for client calls the client."""


class Question(Value, frozen=True, kw_only=True):
    """A pending question to the user.

    Attributes:
        ref: Reference to pass to `respond` or `decline`.
        call_id: The `ask_user` call, or the call of the tool that asks.
        question: The question, in the model's words.
        options: Answers to choose from. Empty: any text.
        schema: Same as in `AskUser`.
        url: Same as in `AskUser`.
        requested_at_ms: Start of the wait, in milliseconds since 1970.
        expires_at_ms: Time of completion without an answer, in milliseconds since 1970. None: never.
        path: Session ids from the root to the session that asks.
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
        force_setattr(self, "schema", frozen_or_none(self.schema))


class PendingClientCall(Value, frozen=True, kw_only=True):
    """A call that waits for the client to run its tool. As data, it survives a restart.

    Attributes:
        ref: Reference to pass to `answer`.
        call_id: Id of the call.
        name: Name of the tool.
        arguments: Arguments, validated, checked by policies and approved. Frozen.
        requested_at_ms: Start of the wait, in milliseconds since 1970.
        expires_at_ms: Deadline, in milliseconds since 1970. None: no deadline.
        path: Session ids from the root to the session of the call.
    """

    ref: ClientCallRef
    call_id: CallId
    name: str
    arguments: JsonObject
    requested_at_ms: int
    expires_at_ms: int | None = None
    path: tuple[SessionId, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "arguments", frozen_json(self.arguments))


class WaitingFor(Value, frozen=True, kw_only=True):
    """One item that a suspended cycle waits for.

    Attributes:
        kind: Kind of the item.
        id: Id for the answer: an approval's `id`, or a question's or client call's `ref`.
        call_id: The call that it belongs to.
    """

    kind: Literal["approval", "question", "client_call"]
    id: ApprovalId | QuestionRef | ClientCallRef
    call_id: CallId


# --- todos

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]


class Todo(Value, frozen=True, kw_only=True):
    """An entry of the model's todo list.

    Attributes:
        id: Unique in the list.
        content: The task.
        status: Current state.
    """

    id: str
    content: str
    status: TodoStatus = "pending"


# --- amounts and decisions


class Amount(Value, frozen=True, kw_only=True):
    """An amount that a budget counts.

    Attributes:
        value: The number.
        unit: The unit.
    """

    value: float
    unit: Literal["usd", "tokens"]


class RecoveryDecision(Value, frozen=True, kw_only=True):
    """Decision about an item open when the process stopped.

    Attributes:
        open: Kind of the item.
        id: Id of the effect, call, approval, question, client call, prompt, steer or child.
        name: Tool, model or plugin of the item, otherwise empty.
        decision: `sent_again` or `run_again`: repeated. `begun`: started for the first time. `asked`: the tool reconciles the call, with the result `done`,
            `not_done` or `unknown`. `kept`: left unchanged. `expired`: its deadline has passed. `resumed`: a child continues. `given_up`: nothing waits for it.
            A call that must not be repeated is `unknown`.
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
