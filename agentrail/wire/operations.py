"""The calls of a session, one row each: what every way to a session has to know of a call, whether it is a handle, a socket or a route.

A row has no word of HTTP: how a server offers a call is in `agentrail.gateway.offers`. The signature and docstring of a call are in
`agentrail.runtime.session_calls`. A test holds the two together: the same arguments with the same defaults.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, Literal, TypeVar

from attrs import frozen

from agentrail.core.journal.branches import PastTurn
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Approve,
    Asked,
    Compact,
    Decline,
    KillMode,
    ReceiptQuery,
    Reject,
    Respond,
)
from agentrail.core.session.asked_forms import ApprovalRule
from agentrail.core.session.projection import Snapshot, Status
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import AgentrailError, AlreadyResolved, SessionDown, SessionUnknown, UnknownRule
from agentrail.events import AbortReceipt
from agentrail.structs import Value

R = TypeVar("R")


def _is_no_one(_: AgentrailError) -> bool:
    return False


@frozen(kw_only=True, eq=False)
class Operation(Generic[R]):
    """One call of a session.

    Attributes:
        name: Of the method, and of the command of a socket.
        takes: Its arguments, as they travel. Their types say how they are checked; a server may read its body as this very struct.
        local: More arguments of the method, each of which is None where it is left out. A server sets them itself, or has no use for them.
        agree: Says what is wrong with arguments of which each is right by itself; None where nothing can be.
        signal: Makes the signal of all arguments; None where the handle has a method `_do_<name>` in its place.
        owner: The argument that says which session below is asked; None for the session itself.
        gives: The type of the result.
        is_read: Whether it changes nothing, so that it may be done again at any time.
        was_ours: Whether an error of a command that was sent twice, since a connection was lost, only says that the first one was done.
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
    """Return what finds the error of an interaction that users have decided in this way, and this call may have been the one."""

    def was_ours(error: AgentrailError) -> bool:
        return isinstance(error, AlreadyResolved) and error.by == "user" and error.status == status

    return was_ours


# --- decisions of users


class ApproveArguments(Value, frozen=True, kw_only=True):
    """A call that may run; fields as of `Session.approve`."""

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
    """A call that may not run.

    Attributes:
        approval_id: Which one.
        reason: What the model reads.
        auto_resume: Whether the model gets a turn to react.
    """

    approval_id: str
    reason: str | None = None
    auto_resume: bool = False


REJECT: Final[Operation[None]] = Operation(
    name="reject",
    takes=RejectBody,
    local=("user",),
    signal=Reject,
    owner="approval_id",
    was_ours=already_decided("rejected"),
)


class RespondBody(Value, frozen=True, kw_only=True):
    """An answer to a question.

    Attributes:
        ref: Which one.
        response: In words, the number of an option, or the object that was filled in.
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
    """A question that gets no answer.

    Attributes:
        ref: Which one.
        reason: For who asked.
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


# --- stops and changes


class AbortArguments(Value, frozen=True, kw_only=True):
    """What is to be stopped; fields as of `Session.abort`."""

    reason: str | None = None
    kill_tools: KillMode = "killable"
    clear_queue: bool = False
    wait: bool = True
    children: bool = True
    ref: str | None = None


ABORT: Final[Operation[AbortReceipt]] = Operation(
    name="abort", takes=AbortArguments, signal=AbortCycle, gives=AbortReceipt
)


class AbortToolArguments(Value, frozen=True, kw_only=True):
    """Which call is to be stopped; fields as of `Session.abort_tool`."""

    call_id: str
    reason: str | None = None


ABORT_TOOL: Final[Operation[None]] = Operation(name="abort_tool", takes=AbortToolArguments, signal=AbortTool)


class CompactBody(Value, frozen=True, kw_only=True):
    """Why a conversation is to be summarised.

    Attributes:
        reason: For people.
    """

    reason: str | None = None


COMPACT: Final[Operation[None]] = Operation(name="compact", takes=CompactBody, signal=Compact)


class SwitchModelArguments(Value, frozen=True, kw_only=True):
    """Another model; fields as of `Session.switch_model`."""

    model: Any
    provider_opts: Any = None


SWITCH_MODEL: Final[Operation[None]] = Operation(name="switch_model", takes=SwitchModelArguments)


class StopBody(Value, frozen=True, kw_only=True):
    """Why a session is ended.

    Attributes:
        reason: For people.
    """

    reason: str = "stopped"


def _is_over(error: AgentrailError) -> bool:
    return isinstance(error, SessionDown | SessionUnknown)


STOP: Final[Operation[None]] = Operation(
    name="stop", takes=StopBody, local=("timeout_seconds",), was_ours=_is_over
)


class GoOnBody(Value, frozen=True, kw_only=True):
    """A cycle without new words.

    Attributes:
        client_id: The caller's name of it.
        settings: As of `PromptCommandBody`.
    """

    client_id: str | None = None
    settings: dict[str, Any] | None = None


GO_ON: Final[Operation[PromptReceipt]] = Operation(
    name="go_on", takes=GoOnBody, local=("via", "request_id", "digest"), gives=PromptReceipt
)


class RewindArguments(Value, frozen=True, kw_only=True):
    """Where a session goes back to; fields as of `Session.rewind`."""

    to: int | None = None
    turn: int | None = None
    files: bool = False
    force: bool = False
    dry: bool = False


def fault_of_place(number: object, turn: object, *, needed: bool = False) -> str | None:
    """Say what is wrong with a place in a journal, which is given by a number or by a turn."""
    if number is not None and turn is not None:
        return f"a number ({number!r}) and a turn ({turn!r}) are given: give one of them"
    if needed and number is None and turn is None:
        return "to what? give the number of a record, or turn="
    return None


def _faults_of_rewind(given: Mapping[str, object]) -> tuple[str | None, ...]:
    needs_files = given["force"] is True and given["files"] is False
    return (
        fault_of_place(given["to"], given["turn"], needed=True),
        "force is about files: give files=True too" if needs_files else None,
    )


REWIND: Final[Operation[Any]] = Operation(name="rewind", takes=RewindArguments, agree=_faults_of_rewind)


# --- rules


class NoArguments(Value, frozen=True, kw_only=True):
    """Nothing to say."""


RULES: Final[Operation[tuple[ApprovalRule, ...]]] = Operation(
    name="rules", takes=NoArguments, gives=tuple[ApprovalRule, ...], is_read=True
)


class RevokeRuleArguments(Value, frozen=True, kw_only=True):
    """Which rule is taken back."""

    rule_id: str


def _knows_no_rule(error: AgentrailError) -> bool:
    return isinstance(error, UnknownRule)


REVOKE_RULE: Final[Operation[None]] = Operation(
    name="revoke_rule", takes=RevokeRuleArguments, was_ours=_knows_no_rule
)


# --- queries


class ReceiptBody(Value, frozen=True, kw_only=True):
    """A message that may have been sent before.

    Attributes:
        client_id: Its name.
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
    """How many turns are named."""

    limit: int = 1_000


TURNS: Final[Operation[tuple[PastTurn, ...]]] = Operation(
    name="turns", takes=TurnsArguments, gives=tuple[PastTurn, ...], is_read=True
)


class JournalArguments(Value, frozen=True, kw_only=True):
    """Which records of a journal are read."""

    after: int = 0
    limit: int = 1_000


JOURNAL: Final[Operation[Any]] = Operation(name="journal", takes=JournalArguments, is_read=True)


class StateAtBody(Value, frozen=True, kw_only=True):
    """A moment of the past.

    Attributes:
        number: Of the record behind which it is.
    """

    number: int


STATE_AT: Final[Operation[Any]] = Operation(name="state_at", takes=StateAtBody, is_read=True)


OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    APPROVE,
    REJECT,
    RESPOND,
    RULES,
    REVOKE_RULE,
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
"""All rows."""
