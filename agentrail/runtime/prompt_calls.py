"""Prompting through a handle."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, Literal, cast

from attrs import evolve

from agentrail.core.policy.prompt_settings import PromptSettings
from agentrail.core.protocol.signals import Prompt, ReplyQuery
from agentrail.core.session.inline_tags import visible_in
from agentrail.core.session.receipts import PromptReceipt
from agentrail.core.session.state import SessionState
from agentrail.errors import CycleAborted, CycleFailed, EventMissed, SessionDown
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Event,
    EventsLost,
    PromptDropped,
    PromptRejected,
    PromptTaken,
)
from agentrail.messages import Content, PromptRef, TraceContext
from agentrail.runtime.arguments import (
    Blocks,
    decide_blocks,
    decide_client_id,
    decide_settings,
    fault_of,
    fault_of_digest,
    fault_of_request_id,
    fault_of_via,
    fault_of_wait,
    refuse,
)
from agentrail.runtime.cycle_calls import CycleCalls, CycleQuestion
from agentrail.runtime.cycle_reply import CycleReply, reply_of_cycle
from agentrail.runtime.cycle_stream import CYCLE_ENDS, CycleStream, OnLeave
from agentrail.runtime.event_subscription import Terms, decide_terms
from agentrail.runtime.event_waits import EventWait, bounded, decide_wait
from agentrail.runtime.people_waits import refused_while_waiting, unless_waiting
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_facts import reader_of
from agentrail.runtime.session_queries import CALL_AGAIN, AskingHandle, cure_of, wait_within
from agentrail.typed import TypedValue

_KINDS: Final = frozenset[type[Event]]((*CYCLE_ENDS, AgentStart, PromptDropped, PromptRejected, PromptTaken))

_BUFFER: Final = 4096
"""Large enough, because only ends of cycles are read."""


async def reply_to(cell: SessionCell, receipt: PromptReceipt) -> CycleReply[str]:
    ref, is_taken = receipt.ref, False
    await cell.awake()
    config = cell.state.data.config
    terms = Terms(kinds=_KINDS, deltas=False, buffer=_BUFFER, is_own=True)
    async with cell.subscribe(terms, after=max(receipt.seq - 1, 0)) as events:
        with bounded(cell, lambda _: events.end()) as call:
            async for event in events:
                _look_for_failure(cell, ref, event, is_taken=is_taken)
                if isinstance(event, PromptTaken) and event.ref == ref:
                    is_taken = True  # it answered another cycle and ends with it
                if isinstance(event, AgentEnd) and _is_own(event, ref, is_taken=is_taken):
                    text = reader_of(cell)(event.messages)
                    said = [visible_in((message,), config) for message in event.messages]
                    return reply_of_cycle(event, text, said, receipt.seq)
                if isinstance(event, EventsLost) and not (is_taken or _is_to_come(cell.state, ref)):
                    raise EventMissed(_MISSED)
    raise call.take_error(SessionDown(cell.ports.session_id, cell.ending or "ended"))


_MISSED: Final = (
    "this prompt was answered, but its events are no longer kept: read the conversation with messages()"
)


def _look_for_failure(cell: SessionCell, ref: PromptRef, event: Event, *, is_taken: bool) -> None:
    match event:
        case PromptRejected(ref=one, reason=reason) if one == ref:
            raise CycleAborted(reason)
        case PromptDropped(ref=one, reason=reason, at_end=at_end) if one == ref:
            if at_end:
                raise SessionDown(cell.ports.session_id, reason or "ended")
            raise CycleAborted(reason or "the prompt was taken out of the queue")
        case AgentAbort(reason=reason) if _is_own(event, ref, is_taken=is_taken):
            raise CycleAborted(reason)
        case AgentError(error=error) if _is_own(event, ref, is_taken=is_taken):
            last = cell.state.data.last
            raise CycleFailed(error, text=last.text if last is not None and last.error == error else "")
        case _:
            pass


def _is_own(event: AgentEnd | AgentAbort | AgentError, ref: PromptRef, *, is_taken: bool) -> bool:
    return is_taken or event.ref == ref


def _is_to_come(state: SessionState, ref: PromptRef) -> bool:
    data = state.data
    held = data.held.prompt if data.held is not None else None
    waiting = {prompt.ref for prompt in data.queue}
    return (
        ref in waiting
        or (held is not None and held.ref == ref)
        or (data.cycle is not None and data.cycle.ref == ref)
    )


class PromptingHandle(CycleCalls, AskingHandle):
    """A handle that prompts its session."""

    __slots__ = ()

    async def prompt(  # noqa: PLR0913 - all that a sender may say of its message
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
        """Append a prompt to the session's queue. An idle session starts it immediately.

        Args:
            content: Text or content blocks, 1 byte to 1 MB of UTF-8 in total.
            client_id: Your own name for this message, 1 to 128 of `A-Z a-z 0-9 . _ : @ + -`. Sending it again with the
                same content, after a reply was lost, returns the first receipt. A session remembers the last 256 names.
            via: The entry point it came through, such as `http`. Included in `PromptReceived` and `PromptQueued`.
            request_id: Your name for the request that carries it. Included in these events and in `AgentStart`, also
                after a restart.
            digest: SHA-256, in hexadecimal, of the sender's own input, for prompts that you prefix with other text.
                With the same `client_id`, messages with equal digests count as the same message, even if their content
                differs.
            settings: Model settings for the cycle of this prompt only: `temperature`, `top_p`, `max_output_tokens`,
                `stop`, `reasoning`, `response_format`. They override the options of the session and of its provider,
                and wait in the queue with the prompt. They do not apply to steers and children. `tools` adds client tools,
                such as `[ClientTool(…)]`: at most 64, of 64 KiB in total, with names that the session does not have.
                `instructions` is a last section of the system prompt.
            trace: Trace of the sender: a carrier with `traceparent` and perhaps `tracestate`, such as the headers of a
                request. It is kept in the journal, and included in `PromptReceived` and `PromptQueued`. A malformed one is
                left out and counted in `SupervisorStatistics.malformed_traces`.

        Returns:
            `ref`, which `AgentStart` carries too. `queued`. `position` in the queue, where 0 is next. `seq`, the number
            of the event that reports this.

        Raises:
            PromptError: Your move: the content is empty, too long, or has a block of unknown type or an invalid
                image. The message names the limit.
            PromptQueueFull: Your move: `max_prompt_queue` prompts are waiting already. Try again when the next cycle
                has ended.
            ClientIdReused: Your move: the name was used for other content.
            OptionError: Your move: a name or digest is invalid or too long, a setting is unknown or out of range, or a
                client tool is invalid or named like a tool of the session.
            MailboxFull: Your move: the session has not caught up with earlier messages. Try again later.
            SessionDown: The session has ended. `reason` has the cause.

        Cancellation: Always a checkpoint. Once the message has been sent, only the receipt is lost.
        """
        blocks, name = decide_blocks(content), decide_client_id(client_id)
        refuse(fault_of_via(via), fault_of_request_id(request_id), fault_of_digest(digest))
        signal = self._prompt(
            blocks,
            client_id=name,
            via=via,
            request_id=request_id,
            digest=digest,
            settings=decide_settings(settings),
            trace=None if trace is None else self._cell.ports.traces.read(trace),
        )
        return cast("PromptReceipt", await self._ask(signal))

    async def _answer(self, asked: CycleQuestion) -> str:
        with self._cell.pending_calls.waited_for("ask"):
            blocks = decide_blocks(asked.content)
            if asked.client_id is not None:
                return (await self._named_reply(blocks, asked.client_id, asked)).text
            signal = self._prompt(blocks, reply="text", settings=asked.settings)
            with nullcontext() if asked.reader is None else _reading(self._cell, signal.ref, asked.reader):
                if asked.waits_for_people:
                    return cast("str", await self._ask_within(signal, asked.timeout_seconds))
                with refused_while_waiting(self._cell, signal.signal_id):
                    return cast("str", await self._ask(signal))

    async def _reply(self, asked: CycleQuestion) -> CycleReply[Any]:
        with self._cell.pending_calls.waited_for("run"):
            blocks = decide_blocks(asked.content)
            if asked.client_id is not None:
                return await self._named_reply(blocks, asked.client_id, asked)
            signal = self._prompt(blocks, reply="text", settings=asked.settings)
            terms = evolve(decide_terms(kinds=(), deltas=False, buffer=_RUN_BUFFER), is_own=True)
            read = partial(_read_to_end, CycleStream(self._cell, signal, terms, raise_on_failure=True))
            with _reading(self._cell, signal.ref, asked.reader):
                if asked.waits_for_people:
                    return await wait_within(asked.timeout_seconds, read)
                return await unless_waiting(self._cell, read)

    async def _named_reply(self, blocks: Blocks, name: str, asked: CycleQuestion) -> CycleReply[str]:
        signal = self._prompt(blocks, client_id=name, settings=asked.settings)

        async def send_and_wait() -> CycleReply[str]:
            receipt = await self._cell.pending_calls.ask(signal, self._cell.send)
            wait = partial(reply_to, self._cell, cast("PromptReceipt", receipt))
            if asked.waits_for_people:
                return await wait()
            return await unless_waiting(self._cell, wait, is_begun=True)

        with _reading(self._cell, signal.ref, asked.reader):
            return await wait_within(asked.timeout_seconds, send_and_wait, cure_of(name))

    def stream(  # noqa: PLR0913 - what a reader may want
        self,
        content: Content,
        *,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        raise_on_failure: bool = False,
        on_leave: OnLeave = "go_on",
        buffer: int = 1024,
    ) -> CycleStream:
        """Prompt, and read the events of this cycle only. Iteration ends with its last event.

            async with session.stream("Tell me a story") as events:
                async for text in events.text():
                    print(text, end="")

        Args:
            content: See `prompt`.
            kinds: Only events of these classes. None: all. The end of the cycle and the end of the session always come.
            deltas: Whether to include ephemeral events.
            raise_on_failure: Whether a failed or aborted cycle raises after its last event. `text()` always raises.
            on_leave: Policy for leaving the block early: `go_on` lets the cycle continue, `abort` aborts it.
            buffer: See `subscribe`.

        Returns:
            An async context manager to iterate over. Entering it sends the prompt and waits for its acceptance. The
            first event is `PromptReceived`, or `PromptQueued` if the prompt has to wait. Afterwards, `reply` is the
            outcome.

        Raises:
            OptionError: Your move: an argument is out of range.
            PromptError: Your move: see `prompt`. All other errors of `prompt` are raised when the block is entered.
            CallingSelf: Your move: a tool of this session, or of one that it waits for, made the call.
        """
        refuse(
            fault_of("raise_on_failure", raise_on_failure, bool),
            fault_of("on_leave", on_leave, Literal["go_on", "abort"]),
        )
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        self._cell.pending_calls.refuse_self("stream")
        signal = self._prompt(decide_blocks(content), reply="text")
        return CycleStream(self._cell, signal, terms, raise_on_failure=raise_on_failure, on_leave=on_leave)

    async def _event(self, what: Any, timeout_seconds: float | None, *, wait_for_people: bool) -> Any:
        meant = decide_wait(what)
        may_wait = wait_for_people or timeout_seconds is not None
        wait = EventWait(self._cell, meant, wait_for_people=may_wait)
        is_end = what in CYCLE_ENDS  # other events come while a tool is running
        with self._cell.pending_calls.waited_for("wait_for") if is_end else nullcontext():
            return await wait_within(timeout_seconds, wait.run, CALL_AGAIN, meant.name)

    async def collect_reply(
        self, *, timeout_seconds: float | None = None, wait_for_people: bool = False
    ) -> str:
        """Wait for the running cycle, and return its last answer.

        In idle, returns the answer of the last cycle immediately, or the empty text if there has been none.

        Args:
            timeout_seconds: How long to wait, in seconds. None: no limit.
            wait_for_people: See `ask`.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed. `error` has the cause.
            CycleWaiting: See `ask`.
            ReplyTimeout: The time limit expired. The cycle continues. Call this again.
            StoreUnavailable: The store has accepted no records for longer than its patience. The cycle continues when
                it is back.
            OptionError: Your move: the time is out of range.
            CallingSelf: Your move: a tool of this session, or of one that it waits for, made the call.
            SessionDown: The session has ended.

        Cancellation: Only the reply is lost. The cycle continues.
        """
        refuse(fault_of_wait(timeout_seconds, wait_for_people=wait_for_people))
        with self._cell.pending_calls.waited_for("collect_reply"):
            signal = ReplyQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
            if wait_for_people or timeout_seconds is not None:
                return cast("str", await self._ask_within(signal, timeout_seconds, CALL_AGAIN))
            await self._cell.awake()
            ask = partial(self._ask_within, signal, None, CALL_AGAIN)
            return cast("str", await unless_waiting(self._cell, ask, is_begun=True))

    def _prompt(  # noqa: PLR0913 - what a prompt comes with
        self,
        blocks: Blocks,
        *,
        reply: Literal["receipt", "text"] = "receipt",
        client_id: str | None = None,
        via: str | None = None,
        request_id: str | None = None,
        digest: str | None = None,
        settings: PromptSettings | None = None,
        trace: TraceContext | None = None,
    ) -> Prompt:
        signal_id = self._cell.pending_calls.mint()
        # The same id names both: a prompt is identified by the call that sent it.
        ref = PromptRef(signal_id)
        return Prompt(
            at_ms=now_ms(),
            signal_id=signal_id,
            ref=ref,
            content=blocks,
            reply=reply,
            digest=digest,
            settings=settings,
            trace=self._cell.ports.parent_trace if trace is None else trace,
            client_id=client_id,
            via=via,
            request_id=request_id,
        )


@contextmanager
def _reading(cell: SessionCell, ref: PromptRef, reader: TypedValue[Any] | None) -> Iterator[None]:
    if reader is None:
        yield
        return
    cell.readers = {**cell.readers, ref: reader}
    try:
        yield
    finally:
        cell.readers = {known: one for known, one in cell.readers.items() if known != ref}


_RUN_BUFFER: Final = 4096
"""Large enough, because only starts and ends are read."""


async def _read_to_end(stream: CycleStream) -> CycleReply[str]:
    try:
        async with stream:
            async for _ in stream:
                pass
        return stream.reply
    finally:
        stream._call = None  # noqa: SLF001 - the traceback of its error refers to the stream: a cycle
