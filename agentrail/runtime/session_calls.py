"""The calls of a session that are one row of `agentrail.wire.operations`, written once for the handles of both kinds.

A method says its signature and what it does. How it is carried out is the port's: a signal to a session of this process, or a command to
a server. The checks of arguments follow from the types of a row.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType, NoneType
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from agentrail.core.protocol.signals import KillMode
from agentrail.errors import OptionError
from agentrail.events import AbortReceipt
from agentrail.messages import JsonObject
from agentrail.runtime.arguments import (
    fault_of_edit,
    fault_of_flag,
    fault_of_response,
    fault_of_text,
    fault_of_user,
)
from agentrail.wire.operations import (
    ABORT,
    ABORT_TOOL,
    APPROVE,
    COMPACT,
    DECLINE,
    REJECT,
    RESPOND,
    Operation,
)

R = TypeVar("R")


class SessionCalls:
    """The calls that are one row each."""

    __slots__ = ()

    async def _call(self, operation: Operation[R], **given: Any) -> R:
        """Carry a call out, with all arguments of its method by name."""
        raise NotImplementedError

    async def approve(
        self,
        approval_id: str,
        *,
        kind: str = "once",
        arguments: JsonObject | None = None,
        auto_resume: bool = True,
        user: str | None = None,
    ) -> None:
        """Let the very call run that `ApprovalRequired` showed.

        Args:
            approval_id: `approval.id` of the event.
            kind: `once`, or `always`: then calls of the same tool and command family need no approval any more, and those
                that wait already run too.
            arguments: What shall run instead; held against the tool's schema, and the model is told.
            auto_resume: Whether the model reads the result; else the cycle ends when the call has.
            user: The id of the user who decides; recorded with the decision, in `ApprovalResolved` and the journal.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to decide any more, and why.
            InvalidArguments: Your move: the tool does not take these; the call still waits.
            OptionError: Your move: `kind` is neither of the two, or an argument is of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision stands.
        """
        await self._call(
            APPROVE,
            approval_id=approval_id,
            kind=kind,
            arguments=arguments,
            auto_resume=auto_resume,
            user=user,
        )

    async def reject(
        self,
        approval_id: str,
        reason: str | None = None,
        *,
        auto_resume: bool = False,
        user: str | None = None,
    ) -> None:
        """Refuse a call; the model reads the reason as its result.

        Args:
            approval_id: `approval.id` of `ApprovalRequired`.
            reason: Guidance for the model.
            auto_resume: Whether the model gets a turn to react; else the cycle ends as finished.
            user: As of `approve`.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to decide any more, and why.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision stands.
        """
        await self._call(REJECT, approval_id=approval_id, reason=reason, auto_resume=auto_resume, user=user)

    async def respond(self, ref: str, response: str | int | JsonObject, *, user: str | None = None) -> None:
        """Answer a question of the model or of a tool, or a call that waits for an approval in place of its tool.

        Args:
            ref: Of `AskUser`, or `approval.id`.
            response: The answer in words, or which of the options, from 0; where the question has a `schema`, the object that was
                filled in.
            user: As of `approve`.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to answer any more, and why.
            InvalidResponse: Your move: empty, an option that is none, a text for a form, or an object that does not fit it, with a
                sentence for each field; it still waits.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The answer stands.
        """
        await self._call(RESPOND, ref=ref, response=response, user=user)

    async def decline(self, ref: str, reason: str | None = None, *, user: str | None = None) -> None:
        """Say that a question gets no answer: the model reads that as the result of its call, a tool that asks has an error.

        Args:
            ref: Of `AskUser`.
            reason: For who asked.
            user: As of `approve`.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: There is nothing to decline any more, and why.
            InvalidResponse: Your move: it is an approval, which is refused with `reject`.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision stands.
        """
        await self._call(DECLINE, ref=ref, reason=reason, user=user)

    async def abort(  # noqa: PLR0913 - all that a caller may say of it
        self,
        reason: str | None = None,
        *,
        kill_tools: KillMode = "killable",
        clear_queue: bool = False,
        wait: bool = True,
        children: bool = True,
        ref: str | None = None,
    ) -> AbortReceipt:
        """Stop the cycle, now, in every phase. Idempotent; in idle it finds nothing to stop and says so.

        Args:
            reason: For people; it is in `AgentAbort` and in the results of the calls that were stopped.
            kill_tools: `killable` stops all but immune tools, `all` every one, `none` no one.
            clear_queue: Whether the prompts that wait are thrown away, or go on by themselves.
            wait: Whether to wait until what was stopped is gone, at most five seconds.
            children: Whether the agents in the background are stopped too; they work on else.
            ref: The prompt whose cycle is meant, as in its receipt, and no other. One that waits is taken out of the queue; where
                its cycle has ended nothing is stopped, whatever runs by now. None for the cycle that runs.

        Returns:
            What was stopped, what would not stop, what runs on. `settled` is false when `wait` was.

        Raises:
            OptionError: Your move: `kill_tools` is none of the three, or an argument is of a wrong type.
            SessionDown: The session has ended.

        Cancellation: Only the receipt is lost; the abort goes on.
        """
        return await self._call(
            ABORT,
            reason=reason,
            kill_tools=kill_tools,
            clear_queue=clear_queue,
            wait=wait,
            children=children,
            ref=ref,
        )

    async def abort_tool(self, call_id: str, reason: str | None = None) -> None:
        """Stop one call, running or waiting; its result says so, and the others of its batch go on.

        Args:
            call_id: As in `ToolExecutionStart`, `ApprovalRequired` or `status()`.
            reason: For people, and for the model.

        Raises:
            UnknownCall: Your move: no call of this id is open.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.

        Cancellation: The call is stopped all the same. Returns when it is answered; its task ends behind that, bounded.
        """
        await self._call(ABORT_TOOL, call_id=call_id, reason=reason)

    async def compact(self, reason: str | None = None) -> None:
        """Let a summary stand for the beginning of the conversation: now in idle, else before the next request.

        The model writes it, the full text goes into a file of the workspace, and `CompactEnd` says what became of it. The
        last messages stay as they are; where there are no others, `CompactSkipped` says so. Asked for while one goes on,
        that one serves.

        Args:
            reason: For people; it is in `CompactStart`.

        Raises:
            OptionError: Your move: a reason that is no text.
            SessionDown: The session has ended.

        Cancellation: The compaction goes on; only an abort stops it. Returns when it is noted.
        """
        await self._call(COMPACT, reason=reason)


# --- the checks of arguments

Check: TypeAlias = Callable[[object], str | None]
"""Returns what is wrong with a value."""


def check_arguments(operation: Operation[Any], given: Mapping[str, object]) -> None:
    """Check the arguments of a call, all of them.

    Raises:
        OptionError: Your move: one of the arguments cannot be.
    """
    faults = None
    for name, plain, check in _checks_of(operation):
        value = given[name]
        if type(value) not in plain and (fault := check(value)) is not None:
            faults = [*(faults or ()), fault]
    if faults is not None:
        raise OptionError(faults)


@cache
def _checks_of(operation: Operation[Any]) -> tuple[tuple[str, tuple[type, ...], Check], ...]:
    """Return for each argument its name, the types of which any value is right, and the check of all other values."""
    hints = get_type_hints(operation.takes)
    found = [(name, *_check_of(name, hint)) for name, hint in hints.items()]
    return (*found, *((name, (NoneType,), _CHECK_OF_NAME[name]) for name in operation.local))


def _check_of(name: str, hint: Any) -> tuple[tuple[type, ...], Check]:
    if name in _CHECK_OF_NAME:
        return (NoneType,) if NoneType in get_args(hint) else (), _CHECK_OF_NAME[name]
    if get_origin(hint) is Literal:
        return (), partial(_fault_of_word, name, get_args(hint))
    plain, check = _CHECK_OF_TYPE[hint]
    return plain, partial(check, name)


def _fault_of_word(name: str, words: tuple[str, ...], value: object) -> str | None:
    if value in words:
        return None
    *others, last = map(repr, words)
    return f"{name} is {value!r}: expected {', '.join(others)} or {last}"


_CHECK_OF_TYPE: Final[Mapping[Any, tuple[tuple[type, ...], Callable[[str, object], str | None]]]] = (
    MappingProxyType(
        {
            str: ((str,), fault_of_text),
            str | None: ((str, NoneType), fault_of_text),
            bool: ((bool,), fault_of_flag),
        }
    )
)
"""How an argument is checked whose type says all."""

_CHECK_OF_NAME: Final[Mapping[str, Check]] = MappingProxyType(
    {"arguments": fault_of_edit, "response": fault_of_response, "user": fault_of_user}
)
"""How an argument is checked that has the same name, and the same rules beyond its type, in each call that takes it."""
