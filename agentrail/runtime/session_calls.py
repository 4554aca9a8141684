"""The calls of a session that are one row of `agentrail.wire.operations`, written once for the handles of both kinds.

A method says its signature and what it does. How it is carried out is the port's: a signal to a session of this process, or a command to
a server. The checks of arguments follow from the types of a row.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType, NoneType
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from agentrail.abc import Provider
from agentrail.core.journal.branches import PastTurn
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.signals import KillMode
from agentrail.core.session.asked_forms import ApprovalRule
from agentrail.core.session.projection import Snapshot, Status
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.errors import OptionError
from agentrail.events import AbortReceipt
from agentrail.messages import JsonObject
from agentrail.runtime.arguments import (
    decide_settings,
    fault_of_client_id,
    fault_of_digest,
    fault_of_edit,
    fault_of_flag,
    fault_of_model,
    fault_of_provider_opts,
    fault_of_request_id,
    fault_of_response,
    fault_of_text,
    fault_of_user,
    fault_of_via,
    fault_of_wait,
)
from agentrail.runtime.past import JournalEntry, PastState, fault_of_after, fault_of_limit, fault_of_number
from agentrail.runtime.restoring import Rewound
from agentrail.wire.operations import (
    ABORT,
    ABORT_TOOL,
    APPROVE,
    COMPACT,
    DECLINE,
    GO_ON,
    JOURNAL,
    RECEIPT_OF,
    REJECT,
    RESPOND,
    REVOKE_RULE,
    REWIND,
    RULES,
    SNAPSHOT,
    STATE_AT,
    STATUS,
    STOP,
    SWITCH_MODEL,
    TURNS,
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

    async def rules(self) -> tuple[ApprovalRule, ...]:
        """Give the rules that people made with `approve(kind="always")`: of this session, and of those that work for it.

        Returns:
            Those of this session first, each session's in the order in which they were made.

        Raises:
            SessionDown: The session has ended.
        """
        return await self._call(RULES)

    async def revoke_rule(self, rule_id: str) -> None:
        """Take a rule back, here and in each session below that has it. What it has let run runs on; the next call asks.

        Args:
            rule_id: Of `rules()`.

        Raises:
            UnknownRule: Your move: no session here has it, or not any more.
            OptionError: Your move: an argument of a wrong type.
            SessionDown: The session has ended.
            StoreUnavailable: The store takes nothing for now; the rule stands.

        Cancellation: Where it is taken back it stays so; in sessions below it may stand yet.
        """
        await self._call(REVOKE_RULE, rule_id=rule_id)

    async def switch_model(
        self, model: str | Provider, provider_opts: Mapping[str, Any] | None = None
    ) -> None:
        """Ask another model from the next request on; one that is out keeps its own.

        For the model that is asked already nothing changes, and nothing is published.

        Args:
            model: A model string, or a provider object, which no server takes. A session keeps one object that it was switched to, beside those that
                it still uses, and closes none: an object stays yours.
            provider_opts: As of `start_session`; None for none, and for the model that is asked already for those it has.

        Raises:
            ModelNotFound, Authentication, OptionError: As of `start_session`; nothing changed.
            SessionDown: The session has ended.

        Cancellation: The switch stands.
        """
        await self._call(SWITCH_MODEL, model=model, provider_opts=provider_opts)

    async def go_on(
        self,
        *,
        client_id: str | None = None,
        via: str | None = None,
        request_id: str | None = None,
        digest: str | None = None,
        settings: PromptSettings | Mapping[str, Any] | None = None,
    ) -> PromptReceipt:
        """Let the model answer what the conversation ends with, without new words: results, or a user's message.

        Such as the results that came with `messages`, or the prompt of a cycle that failed. It is a cycle like any other, but
        that no `PromptReceived` comes before its `AgentStart` and no plugin is asked about a prompt; it never waits.

        Args:
            client_id: As of `prompt`.
            via: As of `prompt`; in `AgentStart`.
            request_id: As of `prompt`.
            digest: As of `prompt`: of what the sender brought.
            settings: As of `prompt`.

        Returns:
            `ref`, which `AgentStart` and the end carry; `seq`, the number of that `AgentStart`.

        Raises:
            CannotGoOn: Your move: the session is not idle, or its conversation ends with an answer, or is empty.
            ClientIdReused, OptionError, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Once the message is on its way, only the receipt is lost.
        """
        return await self._call(
            GO_ON,
            client_id=client_id,
            via=via,
            request_id=request_id,
            digest=digest,
            settings=decide_settings(settings),
        )

    async def receipt_of(
        self, client_id: str, *, digest: str | None = None
    ) -> PromptReceipt | SteerReceipt | None:
        """Give the receipt of a message that was sent under this name before; None where none is remembered.

        For who has work to do in front of a prompt, and not twice. What was sent before this call is seen by it.

        Args:
            client_id: As given to `prompt` or `steer`.
            digest: As given to `prompt`: what the message has to be; None for whatever it was, and of a server.

        Returns:
            The receipt as it was, `request_id` included. The last 256 messages with a name are remembered.

        Raises:
            ClientIdReused: Your move: the name was used for a message of another digest.
            OptionError: Your move: a name or digest that is none, or too long.
            SessionDown: The session has ended.
        """
        return await self._call(RECEIPT_OF, client_id=client_id, digest=digest)

    async def status(self) -> Status:
        """Say how the session stands, and those that work for its calls: what waits there for people is in `children`.

        Raises:
            SessionDown: The session has ended.
        """
        return await self._call(STATUS)

    async def snapshot(self) -> Snapshot:
        """Give all that a client which comes late needs to draw the session.

        Raises:
            SessionDown: The session has ended.
        """
        return await self._call(SNAPSHOT)

    async def journal(self, after: int = 0, limit: int = 1_000) -> tuple[JournalEntry, ...]:
        """Read the journal of the session, as far as it is durable: what was said to it, and what it decided.

        Also of one that has ended, as long as its supervisor is open. A server asks for a token with the scope `inspect`.

        Args:
            after: The number behind which to begin.
            limit: How many records at most, up to 10,000.

        Returns:
            Records in order, from number `after + 1`; none behind the last one.

        Raises:
            OptionError: Your move: there is no store, or a number that cannot be.
            Trimmed: What was asked for was dropped; `first` is there.
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once.
        """
        entries: tuple[JournalEntry, ...] = await self._call(JOURNAL, after=after, limit=limit)
        return entries

    async def turns(self, limit: int = 1_000) -> tuple[PastTurn, ...]:
        """Name the turns that are over: those that `rewind(turn=…)` goes back to, and behind which `fork(turn=…)` begins.

        Args:
            limit: How many at most, up to 10,000, of a server 1,000: the last ones.

        Returns:
            The turns in order, with what was asked and said, and whether the conversation as it stands has them.

        Raises:
            OptionError: Your move: there is no store, or a number that cannot be.
            Trimmed: The beginning of the journal was dropped, so that turns cannot be counted.
            Erased, Unrevivable, JournalCorrupt: As of `state_at`.
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once. It is worked out in a thread, four at a time.
        """
        return await self._call(TURNS, limit=limit)

    async def state_at(self, number: int) -> PastState:
        """Say what the session was behind a record: the fold of its journal up to there, with all that waited for people.

        A server asks for a token with the scope `inspect`.

        Args:
            number: Of a record, from 1; see `journal`.

        Raises:
            OptionError: Your move: there is no store, or no such record; the message has the range.
            Trimmed: The records that it takes were dropped; `first` is the first number that can be asked for.
            Erased: A person had the content of one of them removed.
            Unrevivable: Your move: a plugin that it had then is not there any more.
            JournalCorrupt: A record is damaged.
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once. It is worked out in a thread, four at a time.
        """
        past: PastState = await self._call(STATE_AT, number=number)
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
        """Stop what runs, and go back to what the session was behind a record. Nothing is deleted, so one can go forth again.

        The cycle is aborted with all its tools, and prompts that wait are thrown away. Numbers of events go on, and what was spent is
        spent. Subscribers get `EventsLost` for what does not count any more, and `snapshot` is what to begin anew from. What happened
        outside stays done; the result names it.

        Args:
            to: Behind which record.
            turn: Behind which turn, counted from 1 over all cycles, in place of a number.
            files: Whether the files that tools of the session have written since become what they were. Others are not touched; nor is
                one that is not what the session left, which is a conflict.
            force: Whether conflicts are overwritten too. What stood there is kept, so that a later rewind brings it back.
            dry: Whether it is only told what going back would come to, by now: nothing is stopped and no file is touched. What may be
                refused is refused all the same.

        Returns:
            Where it stands, or would with `dry`; the calls behind it that may have changed something, and what became of the files.

        Raises:
            OptionError: Your move: there is no store, it works for another session (its root is named), or there is no such record or turn;
                or with `files` its sandbox does not keep what its tools write. Nothing was stopped.
            SandboxError: With `files`, the working directory cannot be opened any more; nothing was stopped.
            Trimmed, Erased, Unrevivable, JournalCorrupt: As of `state_at`; nothing was stopped.
            SessionDown: The session has ended.
            CallingSelf: Your move: a tool of this session asked for it.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: What was stopped is stopped; whether it went back `journal` says. Of the files none is half: the same call again
            restores those that are not restored.
        """
        rewound: Rewound = await self._call(REWIND, to=to, turn=turn, files=files, force=force, dry=dry)
        return rewound

    async def stop(self, reason: str = "stopped", *, timeout_seconds: float | None = None) -> None:
        """Abort what runs, survivors of earlier aborts too, and end the session.

        Args:
            reason: For people; it is in `SessionEnd` and in every later `SessionDown`.
            timeout_seconds: How long to wait; None for as long as it takes.

        Raises:
            ReplyTimeout: The time was up; it is still ending.
            OptionError: Your move: a reason that is no text, or a time that cannot be.
            CallingSelf: Your move: a tool of this session stopped it.
            SessionDown: It had ended already.

        Cancellation: The session ends all the same.
        """
        await self._call(STOP, reason=reason, timeout_seconds=timeout_seconds)


# --- the checks of arguments

Check: TypeAlias = Callable[[object], str | None]
"""Returns what is wrong with a value."""


def check_arguments(operation: Operation[Any], given: Mapping[str, object]) -> None:
    """Check the arguments of a call, all of them."""
    faults: list[str] | None = None
    for name, plain, check in _checks_of(operation):
        value = given[name]
        if type(value) not in plain and (fault := check(value)) is not None:
            faults = [*(faults or ()), fault]
    if operation.agree is not None:
        faults = [*(faults or ()), *[one for one in operation.agree(given) if one is not None]]
    if faults:
        raise OptionError(faults)


@cache
def _checks_of(operation: Operation[Any]) -> tuple[tuple[str, tuple[type, ...], Check], ...]:
    """Return for each argument its name, the types of which any value is right, and the check of all other values."""
    hints = get_type_hints(operation.takes)
    found = [(name, *_check_of(name, hint)) for name, hint in hints.items() if name not in _DECIDED]
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


def _fault_of_number(name: str, value: object) -> str | None:
    return fault_of_number(name, value, needed=True)


_DECIDED: Final = ("settings",)
"""Arguments that a method has made of what it was given."""

_CHECK_OF_TYPE: Final[Mapping[Any, tuple[tuple[type, ...], Callable[[str, object], str | None]]]] = (
    MappingProxyType(
        {
            str: ((str,), fault_of_text),
            str | None: ((str, NoneType), fault_of_text),
            bool: ((bool,), fault_of_flag),
            int: ((int,), _fault_of_number),
            int | None: ((int, NoneType), _fault_of_number),
        }
    )
)
"""How an argument is checked whose type says all."""

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
"""How an argument is checked that has the same name, and the same rules beyond its type, in each call that takes it."""
