"""The events of one cycle for its caller, from its prompt to its end. The stream always ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

import trio

from agentrail.core.protocol.signals import AbortCycle, Prompt
from agentrail.core.session.inline_tags import visible_in
from agentrail.core.session.state import SessionConfig
from agentrail.errors import SessionDown, StoreUnavailable, YourMove
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentError,
    AgentStart,
    Event,
    MessageDelta,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptTaken,
    ResponseComplete,
    SessionEnd,
    StreamError,
)
from agentrail.messages import Message, PromptRef
from agentrail.runtime.cycle_reply import CycleReply, TurnsApart, reply_of_cycle
from agentrail.runtime.event_subscription import Subscription, Terms, number_of, with_kinds
from agentrail.runtime.pending_calls import PendingCall
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms

OnLeave: TypeAlias = Literal["go_on", "abort"]
"""Policy for a cycle whose caller stops reading: let it continue, or abort it."""

CYCLE_ENDS: Final = (AgentEnd, AgentAbort, AgentError)
"""Each cycle publishes exactly one of these, as its last event."""

ENDS: Final = (*CYCLE_ENDS, SessionEnd)
"""Delivered to every subscriber of a cycle, also with other `kinds`. Otherwise it could wait indefinitely."""

_OF_PROMPTS: Final = (PromptReceived, PromptQueued, AgentStart, PromptTaken, PromptRejected, PromptDropped)


class CycleStream:
    """The events of one cycle: an async context manager to iterate over. It sends the prompt and ends with the cycle.

    Enter it once and read it from one task. Events that arrived in the block can still be read after it, and no others:
    `reply` is available when the cycle's end has been read.
    """

    def __init__(
        self,
        cell: SessionCell,
        prompt: Prompt,
        terms: Terms,
        *,
        raise_on_failure: bool = False,
        on_leave: OnLeave = "go_on",
    ) -> None:
        """Created by `Session.stream`."""
        self._cell = cell
        self._prompt = prompt
        self._kinds = terms.kinds
        self._deltas = terms.deltas
        self._raises = raise_on_failure
        self._on_leave = on_leave
        self._events: Subscription = cell.bus.subscribe(
            with_kinds(terms, (*ENDS, *_OF_PROMPTS)), after=None, take_snapshot=cell.take_snapshot
        )
        self._config: SessionConfig | None = None
        self._call: PendingCall | None = None
        self._wait = ExitStack()
        self._accepted: Event | None = None
        self._end: AgentEnd | None = None
        self._is_queued = False
        self._is_taken = False
        self._from = 0

    @property
    def ref(self) -> PromptRef:
        """The prompt's reference, as in `AgentStart`."""
        return self._prompt.ref

    @property
    def reply(self) -> CycleReply[str]:
        """The outcome of the cycle.

        Raises:
            CycleAborted: The cycle was aborted.
            CycleFailed: The cycle failed. `error` has the cause.
            SessionDown: The session ended before the cycle did.
            YourMove: The cycle has not ended yet. Iterate to the end first.
        """
        call, end = self._call, self._end
        if call is None or not call.answered.is_set() or (call.error is None and end is None):
            message = f"the cycle of prompt {self.ref} has not been read to its end: iterate in the block until the loop ends"
            raise YourMove(message)
        if call.error is not None:
            raise call.error.with_traceback(None)  # that of an earlier read would grow
        assert end is not None  # noqa: S101 - looked at above
        return reply_of_cycle(end, str(call.value), self._said_in(end.messages), self._from)

    async def __aenter__(self) -> Self:
        """Subscribe, send the prompt, and wait until it is accepted.

        Raises:
            PromptError, PromptQueueFull, MailboxFull, SessionDown: See `prompt`.
            YourMove: It was entered before. Call `stream` again.

        Cancellation: Once the message has been sent, the cycle continues, or is aborted if `on_leave` is `abort`.
        """
        await self._cell.awake()
        # Kept for a later read of the reply: the session may hibernate by then.
        self._config = self._cell.state.data.config
        await self._events.__aenter__()
        try:
            self._wait.enter_context(self._cell.pending_calls.waited_for("stream"))
            self._call = self._cell.pending_calls.open(
                self._prompt, self._cell.send, on_answered=self._events.end
            )
            await self._wait_for_acceptance(self._call)
        except BaseException:
            await self._leave()  # noqa: ASYNC102 - a cancellation ends the waiting there, but not the sending
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop reading. An unfinished cycle continues, or is aborted and waited for, depending on `on_leave`."""
        await self._leave()  # noqa: ASYNC102 - as above

    def __aiter__(self) -> Self:
        """Return this stream itself: there is one position, and two readers would share it."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event of the cycle.

        Raises:
            CycleFailed, CycleAborted, SessionDown: With `raise_on_failure`, after the last event: there is no answer.
            StoreUnavailable: The store does not accept records for now. The cycle continues when the store is back.
            SubscriberTooSlow: Your move: the buffer was full. The cycle continues.
            YourMove: The block was not entered.
            trio.BusyResourceError: Your move: another task is already waiting here.

        Cancellation: Always a checkpoint for cancellation. Nothing is lost.
        """
        if self._accepted is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            event, self._accepted = self._accepted, None
            return event
        while True:
            event = await self._next()
            if self._is_wanted(event):
                return event

    async def text(self) -> AsyncIterator[str]:
        """Iterate over the model's visible text as it streams in. Without deltas, one response at a time.

        An empty line separates the texts of two responses, as in `CycleReply.all_text`.

        Raises:
            CycleFailed: The cycle failed. `text` has the output of its last response so far.
            CycleAborted: The cycle was aborted.
            SessionDown, SubscriberTooSlow: See iteration.
        """
        apart = TurnsApart()
        async for event in self:
            if isinstance(event, MessageDelta):
                yield apart.take(event.delta)
            elif isinstance(event, ResponseComplete | StreamError):
                apart.end()
                if isinstance(event, ResponseComplete) and not self._deltas:
                    yield apart.take(visible_in((event.message,), self._config_of_cell()))
        self._raise_failure()

    def _said_in(self, messages: Sequence[Message]) -> list[str]:
        config = self._config_of_cell()
        each = [visible_in((message,), config) for message in messages]
        return [said for said in each if said]

    def _config_of_cell(self) -> SessionConfig:
        assert self._config is not None  # noqa: S101 - the block was entered
        return self._config

    # --- reading

    async def _next(self) -> Event:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            if self._raises or self._is_kept_waiting:
                self._raise_failure()
            raise
        if isinstance(event, PromptTaken) and event.ref == self.ref:
            # The prompt answered a pending request of another cycle: the end of that cycle is its own.
            self._is_taken = True
        if isinstance(event, AgentEnd) and self._is_own_end(event):
            self._end = event
        return event

    def _is_wanted(self, event: Event) -> bool:
        if self._is_queued:  # skip events of earlier cycles
            self._is_queued = not self._begins(event)
            return not self._is_queued and self._is_wanted(event)
        if isinstance(event, CYCLE_ENDS):
            return self._is_own_end(event)
        return self._kinds is None or type(event) in self._kinds or isinstance(event, SessionEnd)

    def _is_own_end(self, event: AgentEnd | AgentAbort | AgentError) -> bool:
        # A prompt supersedes a cycle that waits for a user. That cycle's end comes after this one's start.
        return self._is_taken or event.ref in (None, self.ref)

    async def _wait_for_acceptance(self, call: PendingCall) -> None:
        async for event in self._events:
            if self._begins(event) or self._waits(event):
                self._from = number_of(event)
                self._accepted = event if self._kinds is None or type(event) in self._kinds else None
                return
        if call.error is not None:
            raise call.take_error(call.error)

    def _waits(self, event: Event) -> bool:
        self._is_queued = isinstance(event, PromptQueued) and event.ref == self.ref
        return self._is_queued

    def _begins(self, event: Event) -> bool:
        """Whether the prompt leaves the queue with this event, or never enters it."""
        return (
            isinstance(event, _OF_PROMPTS) and not isinstance(event, PromptQueued) and event.ref == self.ref
        )

    # --- leaving

    @property
    def _is_kept_waiting(self) -> bool:
        return self._call is not None and isinstance(self._call.error, StoreUnavailable)

    def _raise_failure(self) -> None:
        if self._call is not None and self._call.error is not None:
            raise self._call.error.with_traceback(None)

    async def _leave(self) -> None:
        call = self._call
        self._wait.close()
        await self._events.__aexit__(None, None, None)
        if call is None:
            return
        self._cell.pending_calls.drop(self._prompt.signal_id)
        if self._on_leave == "go_on" or (call.answered.is_set() and not self._is_kept_waiting):
            return
        await abort_prompt(self._cell, self.ref, "the caller left the block", wait=True)


async def abort_prompt(cell: SessionCell, ref: PromptRef, reason: str, *, wait: bool) -> None:
    signal = AbortCycle(
        at_ms=now_ms(), signal_id=cell.pending_calls.mint(), reason=reason, wait=wait, ref=ref
    )
    # Sent before any waiting: a caller that leaves because of a cancellation cannot wait, and the cycle is still aborted.
    # SessionDown: nothing is running any more. StoreUnavailable: it was stopped, and this cannot be recorded yet.
    with suppress(SessionDown, StoreUnavailable):
        await cell.pending_calls.ask(signal, cell.send_notice)
