"""The operations of a session, one entry each, as shared by handles, sockets and routes.

Entries are independent of HTTP: `OFFERS` in `agentrail.gateway.session_routes` defines how a server offers an
operation.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, Literal, TypeVar

from attrs import frozen

from agentrail.core.journal.turn_index import PastTurn
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Approve,
    Asked,
    Compact,
    Decline,
    GoOn,
    KillMode,
    ReceiptQuery,
    Reject,
    Respond,
    SignalId,
)
from agentrail.core.session.approval_details import ApprovalRule
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import Snapshot, Status
from agentrail.errors import AgentrailError, AlreadyResolved, SessionDown, SessionUnknown, UnknownRule
from agentrail.events import AbortReceipt
from agentrail.messages import Image, PromptRef
from agentrail.structs import Value

R = TypeVar("R")

MAX_WORD_CHARACTERS: Final = 128
"""Limit on the ids in a call."""
MAX_SENTENCE_CHARACTERS: Final = 2_000
"""Limit on the reason of a call."""


def fault_of_reason(reason: object) -> str | None:
    is_long = isinstance(reason, str) and len(reason) > MAX_SENTENCE_CHARACTERS
    return f"reason has more than {MAX_SENTENCE_CHARACTERS:,} characters" if is_long else None


def _is_no_one(_: AgentrailError) -> bool:
    return False


@frozen(kw_only=True, eq=False)
class Operation(Generic[R]):
    """One operation of a session.

    Attributes:
        name: Name of the method, and of the socket command.
        takes: Arguments as they are sent. Their types define their checks, and a server may decode its body as this struct.
        local: Further arguments of the method, each None if omitted. A server sets them itself, or does not use them.
        agree: Returns an error for a combination of valid arguments, or None. Is None if every combination is valid.
        signal: Creates the signal from all arguments, or None if the handle has a `_do_<name>` method instead.
        owner: Argument that identifies the child session to call, or None for the session itself.
        gives: Type of the result.
        is_read: Whether it changes nothing, so that it may be repeated at any time.
        was_ours: Whether an error of a command that was sent again after a lost connection means that the first one succeeded.
    """

    name: str
    takes: type[Value]
    local: tuple[str, ...] = ()
    agree: Callable[[Mapping[str, object]], Iterable[str | None]] | None = None
    signal: Callable[..., Asked] | None = None
    owner: str | None = None
    gives: Any = None
    is_read: bool = False
    was_ours: Callable[[AgentrailError], bool] = _is_no_one


def already_decided(status: str) -> Callable[[AgentrailError], bool]:
    """Return a check for errors of interactions that a user decided this way, possibly with this very call."""

    def was_ours(error: AgentrailError) -> bool:
        return isinstance(error, AlreadyResolved) and error.by == "user" and error.status == status

    return was_ours


# --- decisions of users


class ApproveArguments(Value, frozen=True, kw_only=True):
    """Approves a call. The fields are those of `Session.approve`."""

    approval_id: str
    kind: Literal["once", "always"] = "once"
    arguments: dict[str, Any] | None = None
    auto_resume: bool = True


def _approve(*, kind: Literal["once", "always"], **given: Any) -> Approve:
    return Approve(how=kind, **given)


APPROVE: Final[Operation[None]] = Operation(
    name="approve",
    takes=ApproveArguments,
    local=("user",),
    signal=_approve,
    owner="approval_id",
    was_ours=already_decided("approved"),
)


class RejectBody(Value, frozen=True, kw_only=True):
    """Rejects a call.

    Attributes:
        approval_id: Id of the approval.
        reason: Reason shown to the model.
        auto_resume: Whether the model gets a turn to react.
    """

    approval_id: str
    reason: str | None = None
    auto_resume: bool = False


def decide_approval(
    approval_id: str, reason: str | None, edits: dict[str, Any] | None = None, *, is_approved: bool
) -> ApproveArguments | RejectBody:
    """Return the decision on an approval, after which the session continues."""
    if is_approved:
        return ApproveArguments(approval_id=approval_id, arguments=edits)
    return RejectBody(approval_id=approval_id, reason=reason, auto_resume=True)


REJECT: Final[Operation[None]] = Operation(
    name="reject",
    takes=RejectBody,
    local=("user",),
    signal=Reject,
    owner="approval_id",
    was_ours=already_decided("rejected"),
)


class RespondBody(Value, frozen=True, kw_only=True):
    """Answers a question.

    Attributes:
        ref: Id of the question.
        response: Text, the number of an option, or the completed object.
    """

    ref: str
    response: str | int | dict[str, Any]


RESPOND: Final[Operation[None]] = Operation(
    name="respond",
    takes=RespondBody,
    local=("user",),
    signal=Respond,
    owner="ref",
    was_ours=already_decided("approved"),
)


class DeclineBody(Value, frozen=True, kw_only=True):
    """Declines a question without an answer.

    Attributes:
        ref: Id of the question.
        reason: Reason shown to the asking tool or plugin.
    """

    ref: str
    reason: str | None = None


DECLINE: Final[Operation[None]] = Operation(
    name="decline",
    takes=DeclineBody,
    local=("user",),
    signal=Decline,
    owner="ref",
    was_ours=already_decided("rejected"),
)


class AnswerBody(Value, frozen=True, kw_only=True):
    """The result of a call that the client ran.

    Attributes:
        ref: Call id.
        text: Result shown to the model.
        is_error: Whether the call failed.
        details: JSON for events and user interfaces.
        images: Images in the result.
    """

    ref: str
    text: str
    is_error: bool = False
    details: Any = None
    images: tuple[Image, ...] = ()


# --- stops and changes


class AbortArguments(Value, frozen=True, kw_only=True):
    """Stops running work. The fields are those of `Session.abort`."""

    reason: str | None = None
    kill_tools: KillMode = "killable"
    clear_queue: bool = False
    wait: bool = True
    children: bool = True
    ref: str | None = None


def _faults_of_abort(given: Mapping[str, object]) -> Iterable[str]:
    # Without them it would stop nothing, and its receipt would look like that of the running cycle.
    ref = given["ref"]
    if isinstance(ref, str) and not ref.strip():
        yield "ref is empty: omit it, or give the ref of a prompt"
    if isinstance(ref, str) and len(ref) > MAX_WORD_CHARACTERS:
        yield f"ref has more than {MAX_WORD_CHARACTERS} characters"


ABORT: Final[Operation[AbortReceipt]] = Operation(
    name="abort", takes=AbortArguments, agree=_faults_of_abort, signal=AbortCycle, gives=AbortReceipt
)


class AbortToolArguments(Value, frozen=True, kw_only=True):
    """Stops one call. The fields are those of `Session.abort_tool`."""

    call_id: str
    reason: str | None = None


ABORT_TOOL: Final[Operation[None]] = Operation(name="abort_tool", takes=AbortToolArguments, signal=AbortTool)


class CompactBody(Value, frozen=True, kw_only=True):
    """Requests a summary of the conversation.

    Attributes:
        reason: Reason shown to users.
    """

    reason: str | None = None


COMPACT: Final[Operation[None]] = Operation(name="compact", takes=CompactBody, signal=Compact)


class SwitchModelArguments(Value, frozen=True, kw_only=True):
    """Switches the model. The fields are those of `Session.switch_model`."""

    model: Any
    provider_opts: Any = None


SWITCH_MODEL: Final[Operation[None]] = Operation(name="switch_model", takes=SwitchModelArguments)


class StopBody(Value, frozen=True, kw_only=True):
    """Ends a session.

    Attributes:
        reason: Reason shown to users.
    """

    reason: str = "stopped"


def _is_over(error: AgentrailError) -> bool:
    return isinstance(error, SessionDown | SessionUnknown)


STOP: Final[Operation[None]] = Operation(
    name="stop", takes=StopBody, local=("timeout_seconds",), was_ours=_is_over
)


class GoOnBody(Value, frozen=True, kw_only=True):
    """Starts a cycle without a new message.

    Attributes:
        client_id: Name that the caller gives the request.
        settings: Same as in `PromptCommandBody`.
    """

    client_id: str | None = None
    settings: dict[str, Any] | None = None


def _go_on(*, signal_id: SignalId, **given: Any) -> GoOn:
    return GoOn(signal_id=signal_id, ref=PromptRef(signal_id), **given)


GO_ON: Final[Operation[PromptReceipt]] = Operation(
    name="go_on", takes=GoOnBody, local=("via", "request_id", "digest"), signal=_go_on, gives=PromptReceipt
)


class RewindArguments(Value, frozen=True, kw_only=True):
    """Point to rewind to. The fields are those of `Session.rewind`."""

    to: int | None = None
    turn: int | None = None
    files: bool = False
    force: bool = False
    dry: bool = False


def fault_of_place(number: object, turn: object, *, needed: bool = False) -> str | None:
    """Return what is wrong with a position in a journal, given as a record number or as a turn, or None."""
    if number is not None and turn is not None:
        return f"a number ({number!r}) and a turn ({turn!r}) are both given: give one of them"
    if needed and number is None and turn is None:
        return "no target given: give the number of a record, or turn="
    return None


def _faults_of_rewind(given: Mapping[str, object]) -> tuple[str | None, ...]:
    needs_files = given["force"] is True and given["files"] is False
    return (
        fault_of_place(given["to"], given["turn"], needed=True),
        "force applies only to files: give files=True too" if needs_files else None,
    )


REWIND: Final[Operation[Any]] = Operation(name="rewind", takes=RewindArguments, agree=_faults_of_rewind)


# --- rules


class NoArguments(Value, frozen=True, kw_only=True):
    """No arguments."""


RULES: Final[Operation[tuple[ApprovalRule, ...]]] = Operation(
    name="rules", takes=NoArguments, gives=tuple[ApprovalRule, ...], is_read=True
)


class RevokeRuleArguments(Value, frozen=True, kw_only=True):
    """The rule to revoke."""

    rule_id: str


def _knows_no_rule(error: AgentrailError) -> bool:
    return isinstance(error, UnknownRule)


REVOKE_RULE: Final[Operation[None]] = Operation(
    name="revoke_rule", takes=RevokeRuleArguments, was_ours=_knows_no_rule
)


class BreakpointBody(Value, frozen=True, kw_only=True):
    """A breakpoint.

    Attributes:
        tool: The tool whose calls it stops. `*`: every tool.
    """

    tool: str = "*"


BREAK_ON: Final[Operation[None]] = Operation(name="break_on", takes=BreakpointBody)
UNBREAK: Final[Operation[None]] = Operation(name="unbreak", takes=BreakpointBody, was_ours=_knows_no_rule)


# --- queries


class ReceiptBody(Value, frozen=True, kw_only=True):
    """Looks up the receipt of a message that may have been sent before.

    Attributes:
        client_id: Name that the caller gave the message.
    """

    client_id: str


RECEIPT_OF: Final[Operation[PromptReceipt | SteerReceipt | None]] = Operation(
    name="receipt_of",
    takes=ReceiptBody,
    local=("digest",),
    signal=ReceiptQuery,
    gives=PromptReceipt | SteerReceipt | None,
    is_read=True,
)

STATUS: Final[Operation[Status]] = Operation(name="status", takes=NoArguments, gives=Status, is_read=True)

SNAPSHOT: Final[Operation[Snapshot]] = Operation(
    name="snapshot", takes=NoArguments, gives=Snapshot, is_read=True
)


class TurnsArguments(Value, frozen=True, kw_only=True):
    """The number of turns to return."""

    limit: int = 1_000


TURNS: Final[Operation[tuple[PastTurn, ...]]] = Operation(
    name="turns", takes=TurnsArguments, gives=tuple[PastTurn, ...], is_read=True
)


class JournalArguments(Value, frozen=True, kw_only=True):
    """The journal records to read."""

    after: int = 0
    limit: int = 1_000


JOURNAL: Final[Operation[Any]] = Operation(name="journal", takes=JournalArguments, is_read=True)


class StateAtBody(Value, frozen=True, kw_only=True):
    """A past point of a session.

    Attributes:
        number: Number of the record after which the state is read.
    """

    number: int


STATE_AT: Final[Operation[Any]] = Operation(name="state_at", takes=StateAtBody, is_read=True)


OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    APPROVE,
    REJECT,
    RESPOND,
    RULES,
    REVOKE_RULE,
    BREAK_ON,
    UNBREAK,
    COMPACT,
    SWITCH_MODEL,
    SNAPSHOT,
    GO_ON,
    RECEIPT_OF,
    ABORT,
    ABORT_TOOL,
    DECLINE,
    STATUS,
    REWIND,
    TURNS,
    STOP,
    JOURNAL,
    STATE_AT,
)
"""All operations."""
