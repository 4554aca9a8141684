"""The handle of a session on a server: each call sends one command and returns the same as the local session's handle. Trio."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, NoReturn, Protocol, Self, TypeVar, cast

from agentrail import outside
from agentrail.abc import Error, Ok
from agentrail.commands.slash_command import CommandRow
from agentrail.core.journal.turn_index import PastTurn
from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.session.client_calls import check_size
from agentrail.core.session.receipts import PromptReceipt, SteerReceipt
from agentrail.core.values.trace_carriers import read_trace
from agentrail.errors import (
    AgentrailError,
    AlreadyExists,
    AlreadyStarted,
    CodecError,
    IdInvalid,
    ModelNotFound,
    NotRemote,
    RemoteRefused,
    SessionUnknown,
    UnknownApproval,
    UnknownCall,
    UnknownRule,
)
from agentrail.events import Event
from agentrail.messages import Content, Message, SessionId, Text, TraceContext
from agentrail.remote.command_results import (
    ENDED_STATUSES,
    RemoteCommandAnswer,
    read_command_answer,
    read_command_rows,
    read_journal_page,
    read_prompt_receipt,
    read_reply,
    read_result,
    read_rewound,
    read_session_page,
    read_turns,
)
from agentrail.remote.frame_codec import object_in
from agentrail.remote.link import Links
from agentrail.remote.read_position import RemoteReading
from agentrail.remote.remote_cycle import (
    RemoteCycle,
    RemoteMonitor,
    answer_to_request,
    collect_answer,
    find_event,
    read_to_end,
)
from agentrail.remote.remote_subscription import RemoteSubscription
from agentrail.runtime.arguments import (
    decide_blocks,
    decide_client_id,
    decide_settings,
    decide_text,
    fault_of,
    fault_of_digest,
    fault_of_outcome,
    fault_of_request_id,
    fault_of_via,
    fault_of_wait,
    fault_of_whole,
    refuse,
)
from agentrail.runtime.cycle_calls import CycleCalls, CycleQuestion
from agentrail.runtime.cycle_reply import CycleReply
from agentrail.runtime.cycle_stream import OnLeave
from agentrail.runtime.event_subscription import decide_terms
from agentrail.runtime.event_waits import decide_wait
from agentrail.runtime.file_restore import Rewound
from agentrail.runtime.journal_state import JournalEntry, PastState, fault_of_number
from agentrail.runtime.session_calls import SessionCalls, check_arguments
from agentrail.runtime.session_queries import CALL_AGAIN, cure_of, wait_within
from agentrail.wire.form_fields import (
    decode_messages,
    decode_past_state,
    decode_receipt,
)
from agentrail.wire.operations import STOP, SWITCH_MODEL, Operation, already_decided, fault_of_place
from agentrail.wire.rows import SessionSummary
from agentrail.wire.server_frames import MAX_CURSOR

# The session calls without a remote form: they take code, or have no command.


def refuse_code(call: str) -> NoReturn:
    message = f"{call} takes code, which cannot be sent: put it into the profile on the server"
    raise NotRemote(message)


def refuse_unspoken(call: str) -> NoReturn:
    message = f"{call} is not available on a remote session: the server has no command for it; call it in the session's process"
    raise NotRemote(message)


def refuse_arguments(call: str, **given: object) -> None:
    """Raise `NotRemote` for arguments without a field in the call's command."""
    named = [name for name, value in given.items() if value is not None and value is not False]
    if named:
        message = f"{call} over a network does not support {', '.join(named)}: omit it"
        raise NotRemote(message)


class NotRemoteCalls:
    """The calls that raise `NotRemote`, so that the handle has all the methods of a local session."""

    __slots__ = ()

    @property
    def agents(self) -> NoReturn:
        """Not available: there is no command. The model's tools start and close agents on the server, and `status` shows them."""
        refuse_unspoken("agents")

    async def attach_tools(self, *_: object) -> NoReturn:
        """Not available: tools are code."""
        refuse_code("attach_tools")

    async def detach_tools(self, *_: object) -> NoReturn:
        """Not available: tools are code."""
        refuse_code("detach_tools")

    async def replace_tools(self, *_: object) -> NoReturn:
        """Not available: tools are code."""
        refuse_code("replace_tools")

    async def report_tool_source(self, *_: object, **__: object) -> NoReturn:
        """Not available: tool sources are code."""
        refuse_code("report_tool_source")

    async def attach_plugin(self, *_: object, **__: object) -> NoReturn:
        """Not available: plugins are code."""
        refuse_code("attach_plugin")

    async def detach_plugin(self, *_: object, **__: object) -> NoReturn:
        """Not available: plugins are code."""
        refuse_code("detach_plugin")

    async def reload_plugin(self, *_: object, **__: object) -> NoReturn:
        """Not available: plugins are code."""
        refuse_code("reload_plugin")

    async def update_plugin_opts(self, *_: object, **__: object) -> NoReturn:
        """Not available: there is no command, because plugins guard the actions of callers."""
        refuse_unspoken("update_plugin_opts")

    def reads_answers(self) -> NoReturn:
        """Not available: its result is code."""
        refuse_code("reads_answers")

    @property
    def facts(self) -> NoReturn:
        """Not available: the owner of a session is not sent to clients."""
        refuse_unspoken("facts")


# The fields of a prompt, and its client id.


def new_name() -> str:
    return f"r-{outside.ids(12)}"


def prompt_body(content: Content) -> dict[str, Any]:
    """Return the fields of a prompt: a single text as a message, as over HTTP, anything else as blocks."""
    blocks = decide_blocks(content)
    match blocks:
        case (Text(text=text),):
            return {"message": text}
        case _:
            return {"content": blocks}


_UNKNOWN: Final[Mapping[tuple[str, str], type[AgentrailError]]] = {
    **dict.fromkeys((("approve", "approval_id"), ("reject", "approval_id")), UnknownApproval),
    **dict.fromkeys((("respond", "ref"), ("decline", "ref"), ("answer", "ref")), UnknownApproval),
    **dict.fromkeys((("revoke_rule", "rule_id"), ("unbreak", "tool")), UnknownRule),
    ("abort_tool", "call_id"): UnknownCall,
    ("switch_model", "model"): ModelNotFound,
}
"""Error for an unknown id, by the command and its field."""

R = TypeVar("R")

PAGE: Final = 1_000
"""Messages per page."""

_RUN_BUFFER: Final = 4096
"""Buffer for start and end events, same as in `Session.run`."""

WAIT_SECONDS: Final = 60
"""Time limit for one query that waits for the end of a request at the server, in seconds."""


class _OnLinks(Protocol):
    @property
    def _links(self) -> Links: ...

    @property
    def session_id(self) -> SessionId: ...


class RemoteCommands:
    """The slash command calls of a remote session. A local session has a registry instead."""

    __slots__ = ()

    async def commands(self: _OnLinks) -> tuple[CommandRow, ...]:
        """List the server's slash commands for this session, with the reason if one cannot be run.

        Cancellation: Nothing is lost.
        """
        return read_command_rows(await self._links.first.call("commands", self.session_id, {}))

    async def run_command(
        self: _OnLinks, name: str, text: str = "", *, client_id: str | None = None
    ) -> RemoteCommandAnswer:
        """Run a slash command in this session.

        Cancellation: Once it is sent, only the answer is lost.
        """
        refuse(fault_of("name", name, str), fault_of("text", text, str))
        told = {
            "name": name.strip().removeprefix("/"),
            "text": text,
            "client_id": decide_client_id(client_id),
        }
        return read_command_answer(await self._links.first.call("run_command", self.session_id, told))


_MAX_LISTED: Final = 200
"""Maximum number of sessions per list."""


class RemoteListing:
    """The calls of a remote session about other sessions. Locally, the supervisor has them."""

    __slots__ = ()

    async def sessions(self: _OnLinks, limit: int = 50) -> tuple[SessionSummary, ...]:
        """List the caller's sessions on the server that have not ended, most recently active first."""
        refuse(fault_of_whole("limit", limit, 1, _MAX_LISTED))
        told = {"limit": limit, "sort": "-changed"}
        return read_session_page(await self._links.first.call("sessions", None, told))

    async def knows_session(self: _OnLinks, session_id: str) -> bool:
        """Return whether the server has a session of this id that the caller may use."""
        refuse(fault_of("session_id", session_id, str))
        try:
            await self._links.first.call("status", session_id, {})
        except SessionUnknown:
            return False
        return True


class RemoteSession(CycleCalls, SessionCalls, RemoteCommands, RemoteListing, NotRemoteCalls):
    """A handle for a session on a server. It survives lost connections."""

    __slots__ = ("_links", "_session_id")

    def __init__(self, links: Links, session_id: str) -> None:
        self._links = links
        self._session_id = SessionId(session_id)

    @property
    def session_id(self) -> SessionId:
        return self._session_id

    @property
    def scope(self) -> str:
        """Always empty: a server shows only ids."""
        return ""

    def __repr__(self) -> str:
        return f"<RemoteSession {self._session_id}>"

    # --- messages

    async def prompt(  # noqa: PLR0913 - as of `Session.prompt`
        self,
        content: Content,
        *,
        client_id: str | None = None,
        via: str | None = None,
        request_id: str | None = None,
        digest: str | None = None,
        settings: PromptSettings | Mapping[str, Any] | None = None,
        trace: TraceContext | Mapping[str, Any] | None = None,
    ) -> PromptReceipt:
        """Queue a prompt. See `Session.prompt`.

        Cancellation: Once the message is sent, only the receipt is lost.
        """
        said, named = prompt_body(content), decide_client_id(client_id) or new_name()
        refuse(fault_of_via(via), fault_of_request_id(request_id), fault_of_digest(digest))
        refuse_arguments("prompt", via=via, request_id=request_id, digest=digest)
        told = {**said, "client_id": named, "settings": decide_settings(settings)}
        carried, _ = read_trace(trace)
        if carried is not None:  # otherwise left out, because a server may be older than traces
            told["trace"] = carried
        return read_reply(read_prompt_receipt, await self._send("prompt", told))

    async def steer(
        self,
        text: str,
        *,
        client_id: str | None = None,
        via: str | None = None,
        request_id: str | None = None,
    ) -> SteerReceipt:
        """Send a steer to the running cycle. See `Session.steer`. `client_id`, `via` and `request_id` are the same as in `prompt`."""
        said, named = decide_text(text), decide_client_id(client_id) or new_name()
        refuse(fault_of_via(via), fault_of_request_id(request_id))
        refuse_arguments("steer", via=via, request_id=request_id)
        told = {"message": said, "client_id": named}
        return read_reply(partial(decode_receipt, SteerReceipt), await self._send("steer", told))

    async def _answer(self, asked: CycleQuestion) -> str:
        return await wait_within(asked.timeout_seconds, partial(self._ask, asked), cure_of(asked.client_id))

    async def _ask(self, asked: CycleQuestion) -> str:
        receipt = await self.prompt(asked.content, client_id=asked.client_id, settings=asked.settings)
        return await answer_to_request(self, receipt.request_id)

    async def _reply(self, asked: CycleQuestion) -> CycleReply[Any]:
        decide_blocks(asked.content)
        cycle = RemoteCycle(
            self,
            asked.content,
            kinds=frozenset(),
            deltas=False,
            raise_on_failure=True,
            on_leave="go_on",
            buffer=_RUN_BUFFER,
            client_id=asked.client_id,
            settings=asked.settings,
        )
        return await wait_within(asked.timeout_seconds, partial(read_to_end, cycle), cure_of(asked.client_id))

    async def wait_for_request(self, request_id: str) -> dict[str, Any]:
        """Wait for the end of a request, without a time limit.

        Cancellation: The request continues.
        """
        while True:
            told = object_in(await self._send("request", {"request_id": request_id, "wait": WAIT_SECONDS}))
            status = told.get("status")
            if not isinstance(status, str):
                message = f"the server sent a request of the status {status!r:.80}, expected a text"
                raise CodecError(message, path="$.status")
            if status in ENDED_STATUSES:
                return told

    async def cancel_request(self, request_id: str, reason: str | None = None) -> None:
        """Abort the cycle of a request, or remove its prompt from the queue."""
        await self._send("cancel", {"request_id": request_id, "reason": reason})

    def stream(  # noqa: PLR0913 - as of `Session.stream`
        self,
        content: Content,
        *,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        raise_on_failure: bool = False,
        on_leave: OnLeave = "go_on",
        buffer: int = 1024,
    ) -> RemoteCycle:
        """Send a prompt and read the events of its cycle. See `Session.stream`."""
        refuse(
            fault_of("raise_on_failure", raise_on_failure, bool),
            fault_of("on_leave", on_leave, Literal["go_on", "abort"]),
        )
        decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        decide_blocks(content)
        wanted = None if kinds is None else frozenset(kinds)
        return RemoteCycle(
            self,
            content,
            kinds=wanted,
            deltas=deltas,
            raise_on_failure=raise_on_failure,
            on_leave=on_leave,
            buffer=buffer,
        )

    async def _event(self, what: Any, timeout_seconds: float | None, *, wait_for_people: bool) -> Any:
        meant = decide_wait(what)
        return await wait_within(timeout_seconds, partial(find_event, self, meant), CALL_AGAIN, meant.name)

    async def collect_reply(
        self, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> str:
        """Wait for the running cycle and return its last answer. In idle, return that of the last cycle. See `Session.collect_reply`."""
        refuse(fault_of_wait(timeout_seconds, wait_for_people=wait_for_people))
        return await wait_within(timeout_seconds, partial(collect_answer, self), CALL_AGAIN)

    # --- calls of one row each

    async def _call(self, operation: Operation[R], **given: Any) -> R:
        check_arguments(operation, given)
        if isinstance(reason := given.get("reason"), str) and not reason.strip():
            given["reason"] = None  # a server refuses an empty one
        own = getattr(self, f"_do_{operation.name}", None)
        if own is not None:
            return cast("R", await own(**given))
        refuse_arguments(operation.name, **{name: given.pop(name) for name in operation.local})
        if given.get("client_id", "") is None:
            given["client_id"] = new_name()
        result = await self._have_done(operation.name, given, operation.was_ours)
        return cast("R", read_result(operation.gives, result))

    async def _do_switch_model(self, model: object, provider_opts: Mapping[str, Any] | None) -> None:
        if not isinstance(model, str):
            message = "switch_model over a network takes a model string: a provider object cannot be sent"
            raise NotRemote(message)
        opts = None if provider_opts is None else dict(provider_opts)
        await self._have_done("switch_model", {"model": model, "provider_opts": opts}, SWITCH_MODEL.was_ours)

    async def _do_rewind(self, *, dry: bool, **given: Any) -> Rewound:
        # Omitted unless requested, so that an older server accepts the command.
        return read_reply(
            read_rewound, await self._send("rewind", {**given, **({"dry": True} if dry else {})})
        )

    async def _do_journal(self, after: int, limit: int) -> tuple[JournalEntry, ...]:
        found: list[JournalEntry] = []
        while len(found) < limit:
            page = min(limit - len(found), PAGE)
            told = {"after": min(after + len(found), MAX_CURSOR), "limit": page}
            entries = read_reply(read_journal_page, await self._send("journal", told))[:page]
            found += entries
            if len(entries) < page:
                break
        return tuple(found)

    async def _do_turns(self, limit: int) -> tuple[PastTurn, ...]:
        return read_reply(read_turns, await self._send("turns", {"limit": min(limit, PAGE)}))

    async def _do_state_at(self, number: int) -> PastState:
        told = read_reply(decode_past_state, await self._send("state_at", {"number": number}))
        return PastState(number=told[0], at_ms=told[1], snapshot=told[2], messages=told[3])

    async def _do_stop(self, reason: str, timeout_seconds: float | None) -> None:
        stop = partial(self._have_done, "stop", {"reason": reason}, STOP.was_ours)
        await wait_within(timeout_seconds, stop, CALL_AGAIN)

    async def _have_done(
        self, name: str, told: Mapping[str, Any], was_ours: Callable[[AgentrailError], bool]
    ) -> bytes:
        answered = await self._links.first.ask(name, self._session_id, told)
        error = answered.error
        try:
            if error is not None and not (answered.was_repeated and was_ours(error)):
                # A server refuses an id that nothing can have by the name of its field, and a local session as unknown.
                is_refused = isinstance(error, IdInvalid | RemoteRefused)
                kind = _UNKNOWN.get((name, str(error).partition(" ")[0])) if is_refused else None
                raise error if kind is None else kind(str(error))
            return answered.result
        finally:
            del answered, error  # the traceback of the error refers to this frame: a cycle

    # --- decisions

    async def answer(self, ref: str, outcome: Ok | Error) -> None:
        """Send the result of a call that this client ran. See `Session.answer`."""
        refuse(fault_of("ref", ref, str), fault_of_outcome(outcome))
        check_size(ref, outcome.text)
        told = {
            "ref": ref,
            "text": outcome.text,
            "is_error": isinstance(outcome, Error),
            "details": outcome.details,
            "images": outcome.images if isinstance(outcome, Ok) and outcome.images else None,
        }
        await self._have_done("answer", told, already_decided("approved"))

    # --- status

    async def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far, fetched page by page. See `Session.messages`."""
        found: list[Message] = []
        after: int | None = 0
        while after is not None:
            page = read_reply(decode_messages, await self._send("messages", {"after": after, "limit": PAGE}))
            found += page.messages
            if page.next is not None and (page.next <= after or not page.messages):
                message = f"the server sent a page of {len(page.messages)} messages that leads from {after} to {page.next}, so listing would never end"
                raise CodecError(message, path="$.next")
            after = page.next
        return tuple(found)

    def subscribe(
        self,
        *,
        after: int | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> RemoteSubscription:
        """Subscribe to the session's events, starting when the block is entered. See `Session.subscribe`.

        Each committed event is delivered once, in order, across any number of connections. A lost connection loses its
        ephemeral events.
        """
        refuse(None if after is None else fault_of_whole("after", after, 0))
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        after = None if after is None else min(after, MAX_CURSOR)
        reading = RemoteReading(self._session_id, after=after, kinds=terms.kinds, deltas=deltas, limit=buffer)
        return RemoteSubscription(self._links, reading)

    def monitor(self) -> RemoteMonitor:
        """Watch the session. `await monitor.wait()` returns at its end. See `Session.monitor`."""
        return RemoteMonitor(self)

    # --- changes

    async def fork(
        self,
        at: int | None = None,
        *,
        turn: int | None = None,
        files: bool = False,
        session_id: str | None = None,
        **options: object,
    ) -> Self:
        """Fork the session at a record. See `Session.fork`. Of its options, only `session_id` is sent."""
        refuse(
            fault_of_place(at, turn),
            fault_of_number("at", at),
            fault_of_number("turn", turn),
            fault_of("files", files, bool),
            fault_of("session_id", session_id, str | None),
        )
        refuse_arguments("fork", files=files, **options)
        # The id is chosen here, so that a command repeated after a lost connection creates only one fork.
        wanted = session_id or f"s-{outside.ids(16)}"
        told = {"at": at, "turn": turn, "fork_id": wanted}
        await self._have_done("fork", told, lambda error: isinstance(error, AlreadyExists | AlreadyStarted))
        return type(self)(self._links, wanted)

    async def _send(self, name: str, told: Mapping[str, Any]) -> bytes:
        return await self._links.first.call(name, self._session_id, told)
