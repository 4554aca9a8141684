"""Session calls that are one row each of `agentrail.wire.operations`, written once for local and remote handles."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType, NoneType
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from agentrail.abc import Provider
from agentrail.core.journal.turn_index import PastTurn
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.signals import KillMode
from agentrail.core.session.approval_details import ApprovalRule
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.session.views import Snapshot, Status
from agentrail.errors import OptionError
from agentrail.events import AbortReceipt
from agentrail.messages import JsonObject
from agentrail.otp.unique import Unique
from agentrail.runtime.arguments import (
    decide_settings,
    fault_of,
    fault_of_client_id,
    fault_of_digest,
    fault_of_edit,
    fault_of_model,
    fault_of_provider_opts,
    fault_of_request_id,
    fault_of_response,
    fault_of_user,
    fault_of_via,
    fault_of_wait,
)
from agentrail.runtime.file_restore import Rewound
from agentrail.runtime.journal_state import (
    JournalEntry,
    PastState,
    fault_of_after,
    fault_of_limit,
    fault_of_number,
)
from agentrail.wire import operations

R = TypeVar("R")


class SessionCalls(Unique):
    """Calls that are one row of the operations table each."""

    __slots__ = ()

    async def _call(self, operation: operations.Operation[R], **given: Any) -> R:
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
        """Approve the call shown in `ApprovalRequired`, so that it runs.

        Args:
            approval_id: `approval.id` of the event.
            kind: `once` or `always`. With `always`, later calls with the same command, or every call of a tool without one,
                need no approval, and pending ones run too.
            arguments: Arguments to run the call with instead. They are checked against the tool's schema, and the model
                is informed.
            auto_resume: Whether the model reads the result. If false, the cycle ends when the call has finished.
            user: Id of the user who decides. Recorded with the decision, in `ApprovalResolved` and in the journal.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: The approval is unknown, has expired, or was already
                decided.
            InvalidArguments: Your move: the tool does not accept these arguments. The call is still pending.
            AnswerNotOffered: Your move: the approval does not offer this answer. The call is still pending.
            InvalidResponse: Your move: this is a question. Answer it with `respond`.
            OptionError: Your move: `kind` is neither of the two, or an argument has the wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision remains in effect.
        """
        await self._call(
            operations.APPROVE,
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
        """Refuse a call. The model reads the reason as its result.

        Args:
            approval_id: `approval.id` of `ApprovalRequired`.
            reason: Guidance for the model.
            auto_resume: Whether the model gets a turn to react. If false, the cycle ends as finished.
            user: See `approve`.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: The approval is unknown, has expired, or was already
                decided.
            AnswerNotOffered: Your move: the approval does not offer this answer. The call is still pending.
            InvalidResponse: Your move: this is a question. Answer it with `respond`, or call `decline`.
            OptionError: Your move: an argument has the wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision remains in effect.
        """
        await self._call(
            operations.REJECT, approval_id=approval_id, reason=reason, auto_resume=auto_resume, user=user
        )

    async def respond(self, ref: str, response: str | int | JsonObject, *, user: str | None = None) -> None:
        """Answer a question of the model or of a tool, or answer a pending approval in place of its tool.

        Args:
            ref: `ref` of `AskUser`, or `approval.id`.
            response: The answer as text, or the index of an option, from 0. For a question with a `schema`, the
                completed object.
            user: See `approve`.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: The question is unknown, has expired, or was already
                answered.
            AnswerNotOffered: Your move: the approval does not offer this answer. The call is still pending.
            InvalidResponse: Your move: the response is empty, not one of the options, or text in place of a form. An
                object that does not fit its form gets a sentence for each field. The question is still pending.
            OptionError: Your move: an argument has the wrong type.
            SessionDown: The session has ended.

        Cancellation: The answer remains in effect.
        """
        await self._call(operations.RESPOND, ref=ref, response=response, user=user)

    async def decline(self, ref: str, reason: str | None = None, *, user: str | None = None) -> None:
        """Decline to answer a question. The model reads that as the call's result, and a tool gets an error.

        Args:
            ref: `ref` of `AskUser`.
            reason: Explanation for the model or the tool.
            user: See `approve`.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: The question is unknown, has expired, or was already
                answered.
            InvalidResponse: Your move: this is an approval. Refuse it with `reject`.
            OptionError: Your move: an argument has the wrong type.
            SessionDown: The session has ended.

        Cancellation: The decision remains in effect.
        """
        await self._call(operations.DECLINE, ref=ref, reason=reason, user=user)

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
        """Stop the cycle immediately, in any phase. Idempotent: in idle, the receipt is empty.

        Args:
            reason: Human-readable. Included in `AgentAbort` and in the results of the stopped calls.
            kill_tools: `killable` stops all tools except immune ones, `all` stops every tool, `none` stops no tool.
            clear_queue: Whether to discard queued prompts. If false, they run afterwards.
            wait: Whether to wait until the stopped work has ended, at most five seconds.
            children: Whether to stop background agents too. If false, they keep working.
            ref: The prompt whose cycle to stop, as in its receipt, and no other cycle. A queued prompt leaves the
                queue. None: the running cycle.

        Returns:
            Lists the stopped work, the work that did not stop, and the work that keeps running. `settled` is false if
                `wait` was.

        Raises:
            OptionError: Your move: `kill_tools` is not one of the three, `ref` is empty or has more than 128 characters, the reason
                has more than 2,000, or an argument has the wrong type.
            SessionDown: The session has ended.

        Cancellation: Only the receipt is lost. The abort continues.
        """
        return await self._call(
            operations.ABORT,
            reason=reason,
            kill_tools=kill_tools,
            clear_queue=clear_queue,
            wait=wait,
            children=children,
            ref=ref,
        )

    async def abort_tool(self, call_id: str, reason: str | None = None) -> None:
        """Stop one call, running or waiting. Its result reports the abort, and the other calls of its batch continue.

        Args:
            call_id: As in `ToolExecutionStart`, `ApprovalRequired` or `status()`.
            reason: Human-readable. The model reads it too.

        Raises:
            UnknownCall: Your move: no call with this id is open.
            OptionError: Your move: an argument has the wrong type.
            SessionDown: The session has ended.

        Cancellation: The call is still stopped. Returns when the call has its result. Its task ends later, within a
            time limit.
        """
        await self._call(operations.ABORT_TOOL, call_id=call_id, reason=reason)

    async def compact(self, reason: str | None = None) -> None:
        """Replace the beginning of the conversation with a summary: now if idle, otherwise before the next request.

        The model writes the summary, the full text is saved to a file of the workspace, and `CompactEnd` reports the
        outcome. The last messages are kept. If there are no others, `CompactSkipped` is published. A running
        compaction serves this request too.

        Args:
            reason: Human-readable. Included in `CompactStart`.

        Raises:
            OptionError: Your move: the reason is not text, or has more than 2,000 characters.
            SessionDown: The session has ended.

        Cancellation: The compaction continues, and only an abort stops it. Returns when the request has been recorded.
        """
        await self._call(operations.COMPACT, reason=reason)

    async def rules(self) -> tuple[ApprovalRule, ...]:
        """Return the rules that users made with `approve(kind="always")`, for this session and its sub-sessions.

        Returns:
            This session's rules first. The rules of each session are in the order in which they were made.

        Raises:
            SessionDown: The session has ended.
        """
        return await self._call(operations.RULES)

    async def revoke_rule(self, rule_id: str) -> None:
        """Revoke a rule in this session and in each session below that has it.

        Calls already allowed continue to run.

        Args:
            rule_id: Id of a rule from `rules()`.

        Raises:
            UnknownRule: Your move: neither this session nor one below it has the rule, or no longer.
            OptionError: Your move: an argument has the wrong type.
            SessionDown: The session has ended.
            StoreUnavailable: The store does not accept records for now. The rule stays in force.

        Cancellation: Waits for the session first. After that, all these sessions revoke the rule.
        """
        await self._call(operations.REVOKE_RULE, rule_id=rule_id)

    async def break_on(self, tool: str = "*") -> None:
        """Stop each later call of a tool before it runs, in this session and those below it, until `unbreak`.

        The call becomes an approval with `by="operator"`, in every permission mode and whatever rules allow. `rules()`
        lists breakpoints. They survive a restart, and sub-agents that start later have them too.

        Args:
            tool: Name of a tool. `*`: every tool.

        Raises:
            OptionError: Your move: no session of the tree has the tool. The message has the nearest name.
            SessionDown: The session has ended.

        Cancellation: As with `revoke_rule`.
        """
        await self._call(operations.BREAK_ON, tool=tool)

    async def unbreak(self, tool: str = "*") -> None:
        """End a breakpoint, in this session and those below it. Calls that it stopped stay pending.

        Args:
            tool: The tool of `break_on`. `*`: every breakpoint.

        Raises:
            UnknownRule: Your move: there is no such breakpoint.
            SessionDown: The session has ended.

        Cancellation: As with `revoke_rule`.
        """
        await self._call(operations.UNBREAK, tool=tool)

    async def switch_model(
        self, model: str | Provider, provider_opts: Mapping[str, Any] | None = None
    ) -> None:
        """Use another model from the next request on. A running request keeps its model.

        Switching to the current model changes nothing and publishes nothing.

        Args:
            model: A model string, or a provider object, which a server does not accept. An object remains yours to
                close.
            provider_opts: See `start_session`. None: no options, or, for the current model, its present options.

        Raises:
            ModelNotFound, Authentication, OptionError: See `start_session`. Nothing has changed.
            SessionDown: The session has ended.

        Cancellation: The switch remains in effect.
        """
        await self._call(operations.SWITCH_MODEL, model=model, provider_opts=provider_opts)

    async def go_on(
        self,
        *,
        client_id: str | None = None,
        via: str | None = None,
        request_id: str | None = None,
        digest: str | None = None,
        settings: PromptSettings | Mapping[str, Any] | None = None,
    ) -> PromptReceipt:
        """Continue without a new prompt: the model responds to the end of the conversation.

        The conversation must end with results or a user's message. No `PromptReceived` precedes its `AgentStart`, and
        no prompt hook of a plugin is called. It is never queued.

        Args:
            client_id: See `prompt`.
            via: See `prompt`. Included in `AgentStart`.
            request_id: See `prompt`.
            digest: See `prompt`. Digest of the sender's own input.
            settings: See `prompt`.

        Returns:
            `ref`, which `AgentStart` and the end carry, and `seq`, the number of that `AgentStart`.

        Raises:
            CannotGoOn: Your move: the session is not idle, or its conversation is empty or ends with an answer.
            ClientIdReused, OptionError, MailboxFull, SessionDown: See `prompt`.

        Cancellation: Once the message has been sent, only the receipt is lost.
        """
        return await self._call(
            operations.GO_ON,
            client_id=client_id,
            via=via,
            request_id=request_id,
            digest=digest,
            settings=decide_settings(settings),
        )

    async def receipt_of(
        self, client_id: str, *, digest: str | None = None
    ) -> PromptReceipt | SteerReceipt | None:
        """Return the receipt of an earlier message with this name, or None if none is remembered.

        Every message sent before this call is considered.

        Args:
            client_id: As passed to `prompt` or `steer`.
            digest: As passed to `prompt`: the expected digest of the message. None accepts any message. A server takes
                only None.

        Returns:
            The original receipt, `request_id` included. The last 256 messages with a name are remembered.

        Raises:
            ClientIdReused: Your move: the name was used for a message with another digest.
            OptionError: Your move: a name or digest is invalid or too long.
            SessionDown: The session has ended.
        """
        return await self._call(operations.RECEIPT_OF, client_id=client_id, digest=digest)

    async def status(self) -> Status:
        """Return the status of the session and of its sub-sessions. Approvals pending in those are in `children`.

        Raises:
            SessionDown: The session has ended.
        """
        return await self._call(operations.STATUS)

    async def snapshot(self) -> Snapshot:
        """Return the full state that a late client needs to display the session.

        Raises:
            SessionDown: The session has ended.
        """
        return await self._call(operations.SNAPSHOT)

    async def journal(self, after: int = 0, limit: int = 1_000) -> tuple[JournalEntry, ...]:
        """Read the durable part of the session's journal: the messages it received and its decisions.

        Works for an ended session too, as long as its supervisor is open. A server requires a token with the scope
        `inspect`.

        Args:
            after: Number of the record after which to start.
            limit: Maximum number of records, up to 10,000.

        Returns:
            Records in order, from number `after + 1`. Empty after the last record.

        Raises:
            OptionError: Your move: there is no store, or a number is out of range.
            Trimmed: The requested records were dropped. `first` is the first one available.
            StoreUnavailable: The store cannot be read now.

        Cancellation: Immediate.
        """
        entries: tuple[JournalEntry, ...] = await self._call(operations.JOURNAL, after=after, limit=limit)
        return entries

    async def turns(self, limit: int = 1_000) -> tuple[PastTurn, ...]:
        """Return the finished turns: the possible targets of `rewind(turn=…)` and starting points of `fork(turn=…)`.

        Args:
            limit: Maximum number of turns, up to 10,000, or 1,000 for a server. The last ones are returned.

        Returns:
            The turns in order, each with its prompt, its answer, and whether the current conversation contains it.

        Raises:
            OptionError: Your move: there is no store, or a number is out of range.
            Trimmed: The beginning of the journal was dropped, so that turns cannot be counted.
            Erased, Unrevivable, JournalCorrupt: See `state_at`.
            StoreUnavailable: The store cannot be read now.

        Cancellation: Immediate. The computation runs in a thread, at most four at a time.
        """
        return await self._call(operations.TURNS, limit=limit)

    async def state_at(self, number: int) -> PastState:
        """Return the session's state after a record, folded from its journal, with all pending approvals and questions.

        A server requires a token with the scope `inspect`.

        Args:
            number: Number of a record, from 1. See `journal`.

        Raises:
            OptionError: Your move: there is no store, or no such record. The message has the range.
            Trimmed: Records needed for this state were dropped. `first` is the first number available.
            Erased: The content of one of these records was erased at a user's request.
            Unrevivable: Your move: a plugin that the session had then is no longer available.
            JournalCorrupt: A record is damaged.
            StoreUnavailable: The store cannot be read now.

        Cancellation: Immediate. The computation runs in a thread, at most four at a time.
        """
        past: PastState = await self._call(operations.STATE_AT, number=number)
        return past

    async def rewind(
        self,
        to: int | None = None,
        *,
        turn: int | None = None,
        files: bool = False,
        force: bool = False,
        dry: bool = False,
    ) -> Rewound:
        """Stop running work and return the session to its state after a record.

        Nothing is deleted. The cycle is aborted with all its tools, and queued prompts are discarded. Event numbers
        continue, and spending is kept. Subscribers get `EventsLost` for events that no longer count, and start over
        from `snapshot`. External side effects are listed, not undone.

        Args:
            to: Number of the record to return to. The state after it is restored.
            turn: Number of the turn to return to, counted from 1 over all cycles. Used in place of `to`.
            files: Whether to restore the files that tools of the session have written since. A file that has since
                been changed otherwise is a conflict and is not touched.
            force: Whether to overwrite conflicts too. A later rewind can bring their content back.
            dry: Whether to only report the present effect of the rewind. Nothing is stopped or touched.

        Returns:
            The new position, the later calls that may have changed something, and the outcome for the files.

        Raises:
            OptionError: Your move: there is no store, no such record, or no such turn. Or the session works for another
                one (its root is named). Or, with `files`, its sandbox does not keep the writes of its tools. Nothing
                was stopped.
            SandboxError: With `files`, the working directory can no longer be opened. Nothing was stopped.
            Trimmed, Erased, Unrevivable, JournalCorrupt: See `state_at`. Nothing was stopped, unless code was released meanwhile.
            SessionDown: The session has ended.
            CallingSelf: Your move: a tool of this session made the call.
            StoreUnavailable: The store does not accept records for now.

        Cancellation: Stopped work stays stopped. `journal` shows whether the session was rewound. No file is left half
            restored: repeat the call to restore the remaining ones.
        """
        rewound: Rewound = await self._call(
            operations.REWIND, to=to, turn=turn, files=files, force=force, dry=dry
        )
        return rewound

    async def stop(self, reason: str = "stopped", *, timeout_seconds: float | None = None) -> None:
        """Abort running work, including survivors of earlier aborts, and end the session.

        Args:
            reason: Human-readable. Included in `SessionEnd` and in every later `SessionDown`.
            timeout_seconds: How long to wait, in seconds. None: no limit.

        Raises:
            ReplyTimeout: The time limit expired. The session is still ending.
            OptionError: Your move: the reason is not text or too long (see `compact`), or the time is out of range.
            CallingSelf: Your move: a tool of this session stopped it.
            SessionDown: The session had already ended.

        Cancellation: The session still ends.
        """
        await self._call(operations.STOP, reason=reason, timeout_seconds=timeout_seconds)


# --- argument checks

Check: TypeAlias = Callable[[object], str | None]
"""Returns the fault of a value, or None."""


def check_arguments(operation: operations.Operation[Any], given: Mapping[str, object]) -> None:
    faults: list[str] | None = None
    for name, plain, check in _checks_of(operation):
        value = given[name]
        if type(value) not in plain and (fault := check(value)) is not None:
            faults = [*(faults or ()), fault]
    if (fault := operations.fault_of_reason(given.get("reason"))) is not None:
        faults = [*(faults or ()), fault]
    if operation.agree is not None:
        faults = [*(faults or ()), *[one for one in operation.agree(given) if one is not None]]
    OptionError.raise_for(faults)


@cache
def _checks_of(operation: operations.Operation[Any]) -> tuple[tuple[str, tuple[type, ...], Check], ...]:
    hints = get_type_hints(operation.takes)
    found = [(name, *_check_of(name, hint)) for name, hint in hints.items() if name not in _DECIDED]
    return (*found, *((name, (NoneType,), _CHECK_OF_NAME[name]) for name in operation.local))


def _check_of(name: str, hint: Any) -> tuple[tuple[type, ...], Check]:
    plain = get_args(hint) or (hint,)
    if name in _CHECK_OF_NAME:
        return (NoneType,) if NoneType in plain else (), _CHECK_OF_NAME[name]
    if int in plain:
        return plain, partial(fault_of_number, name, needed=True)
    return plain, partial(fault_of, name, annotation=hint)


_DECIDED: Final = ("settings",)
"""Arguments that the method has already validated and converted."""

_CHECK_OF_NAME: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "after": fault_of_after,
        "arguments": fault_of_edit,
        "client_id": fault_of_client_id,
        "digest": fault_of_digest,
        "limit": fault_of_limit,
        "model": fault_of_model,
        "provider_opts": fault_of_provider_opts,
        "request_id": fault_of_request_id,
        "response": fault_of_response,
        "timeout_seconds": fault_of_wait,
        "user": fault_of_user,
        "via": fault_of_via,
    }
)
"""Checks by argument name, for names with the same rules in every call."""
