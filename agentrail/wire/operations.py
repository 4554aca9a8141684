"""The calls of a session, one row each: what every way to a session has to know of a call, whether it is a handle, a socket or a route.

A row has no word of HTTP: how a server offers a call is in `agentrail.gateway.offers`. The signature and docstring of a call are in
`agentrail.runtime.session_calls`. A test holds the two together: the same arguments with the same defaults.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeVar

from attrs import frozen

from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Approve,
    Asked,
    Compact,
    Decline,
    KillMode,
    Reject,
    Respond,
)
from agentrail.errors import AgentrailError, AlreadyResolved
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
        signal: Makes the signal of all arguments; None where the handle has a method `_do_<name>` in its place.
        owner: The argument that says which session below is asked; None for the session itself.
        gives: The type of the result.
        is_read: Whether it changes nothing, so that it may be done again at any time.
        was_ours: Whether an error of a command that was sent twice, since a connection was lost, only says that the first one was done.
    """

    name: str
    takes: type[Value]
    local: tuple[str, ...] = ()
    signal: Callable[..., Asked] | None = None
    owner: str | None = None
    gives: Any = None
    is_read: bool = False
    was_ours: Callable[[AgentrailError], bool] = _is_no_one


def decided(status: str) -> Callable[[AgentrailError], bool]:
    """Return what finds the error of an interaction that users have decided in this way, and this call may have been the one."""

    def was_ours(error: AgentrailError) -> bool:
        return isinstance(error, AlreadyResolved) and error.by == "user" and error.status == status

    return was_ours


# --- what users decide


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
    was_ours=decided("approved"),
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
    was_ours=decided("rejected"),
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
    was_ours=decided("approved"),
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
    was_ours=decided("rejected"),
)


# --- what stops, and what changes


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


OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    APPROVE,
    REJECT,
    RESPOND,
    DECLINE,
    ABORT,
    ABORT_TOOL,
    COMPACT,
)
"""All rows."""
