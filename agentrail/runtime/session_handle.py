"""The handle to a session. Each method sends one message and waits for the reply."""

from collections.abc import Iterable
from typing import cast

from attrs import evolve

from agentrail.abc import Error, Ok
from agentrail.core.protocol.signals import (
    AnswerCall,
    MessagesQuery,
    SnapshotQuery,
    Steer,
    StopSession,
)
from agentrail.core.session.client_calls import check_size
from agentrail.core.session.receipts import SteerReceipt
from agentrail.core.session.views import Snapshot, Status
from agentrail.events import Event
from agentrail.messages import (
    ClientCallRef,
    Message,
    SessionId,
    SteerRef,
)
from agentrail.runtime.arguments import (
    decide_client_id,
    decide_text,
    fault_of,
    fault_of_outcome,
    fault_of_request_id,
    fault_of_via,
    fault_of_whole,
    refuse,
)
from agentrail.runtime.background_agents import BackgroundAgents
from agentrail.runtime.cycle_stream import ENDS
from agentrail.runtime.event_subscription import Subscription, decide_terms, with_kinds
from agentrail.runtime.journal_access import LookingBackHandle
from agentrail.runtime.live_settings import ChangingHandle
from agentrail.runtime.prompt_calls import PromptingHandle
from agentrail.runtime.rule_queries import RulingHandle
from agentrail.runtime.session_calls import SessionCalls
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_facts import ReadAnswer, SessionFacts, facts_of_cell, reader_of
from agentrail.runtime.session_monitor import SessionMonitor
from agentrail.runtime.session_queries import CALL_AGAIN
from agentrail.runtime.tool_calls import clean_text


class Session(PromptingHandle, ChangingHandle, RulingHandle, LookingBackHandle, SessionCalls):
    """Handle to a session. It stays valid when the session crashes and restarts.

    With a store that fails, each call can also raise `StoreUnavailable`, or `StopNotWritten` if it stops work.
    """

    __slots__ = ()

    @property
    def session_id(self) -> SessionId:
        """The session's id."""
        return self._cell.ports.session_id

    @property
    def scope(self) -> str:
        """The scope in which its id is unique. Empty for a session without a scope."""
        return self._cell.ports.scope

    @property
    def facts(self) -> SessionFacts:
        """Session facts that need no round trip: its own or its root's `user_data`, and its root session."""
        return facts_of_cell(self._cell)

    @property
    def agents(self) -> BackgroundAgents:
        """The background agents: start, prompt, wait for, close and list them, like the model's tools."""
        return BackgroundAgents(self._cell)

    def reads_answers(self) -> ReadAnswer:
        """Return a function that extracts the answer from the messages of a cycle, as `ask` does.

        It can be called after the session has ended.
        """
        return reader_of(self._cell)

    def __repr__(self) -> str:
        cell = self._cell
        phase = "asleep" if cell.is_asleep else "ended" if cell.state.ended else cell.state.phase.value
        return f"<Session {self._cell.ports.key} {phase}>"

    async def _do_status(self) -> Status:
        status = self._cell.with_children(await self._look(), now_ms())
        return evolve(status, unconfined_commands=self._cell.ports.workspace.is_unconfined())

    async def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far.

        Raises:
            SessionDown: The session has ended.
        """
        signal = MessagesQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        return cast("tuple[Message, ...]", await self._ask(signal))

    def subscribe(
        self,
        *,
        after: int | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> Subscription:
        """Subscribe to the session's events, from the moment the block is entered.

        Args:
            after: Number of a committed event. Later committed events come first, then live ones, without gap or
                duplicate. With a store, events that are no longer buffered are rebuilt from the journal before the
                block is entered. If that is impossible, the first event is `EventsLost`, and `snapshot` is the state to
                continue from. None: live events only. 0: all events since the start.
            kinds: Only events of these classes. None: all. The end of a cycle, in any form, and the end of the session
                always come.
            deltas: Whether to include ephemeral events.
            buffer: Maximum number of unread events. When the buffer is full, deltas are dropped first. Then the
                subscriber is cut off with `SubscriberTooSlow`. The session never waits.

        Returns:
            An async context manager to iterate over. Iteration ends when the session ends. On an ended session, `after`
            still returns the remaining events. Without it, entering raises `SessionDown`.

        Raises:
            OptionError: Your move: an argument is out of range. A number beyond the last event raises `CursorAhead`
                when the block is entered.
        """
        refuse(None if after is None else fault_of_whole("after", after, 0))
        # A caller that reads until a cycle ends gets that end even if it is of a class that the caller did not
        # list.
        terms = with_kinds(decide_terms(kinds=kinds, deltas=deltas, buffer=buffer), ENDS)
        return self._cell.subscribe(terms, after=after)

    async def steer(
        self,
        text: str,
        *,
        client_id: str | None = None,
        via: str | None = None,
        request_id: str | None = None,
    ) -> SteerReceipt:
        """Add a message to the running cycle. The model reads it between two turns.

        Tools that can be stopped are stopped immediately and their calls count as skipped. The model's stream is never
        stopped. Without a running cycle, the message becomes a prompt. A cycle that waits for a user continues, and its
        pending request is superseded.

        Args:
            text: The message, 1 byte to 1 MB of UTF-8.
            client_id: See `prompt`.
            via: See `prompt`. Kept in case the message becomes a prompt because no cycle read it.
            request_id: See `prompt`. Kept for the same case.

        Returns:
            `ref`, and `status`: `queued` or `became_prompt`.

        Raises:
            PromptError: Your move: the text is empty or too long.
            SteeringQueueFull: Your move: `max_steering_queue` steers are waiting already.
            PromptQueueFull: Your move: the message would become a prompt, and the prompt queue is full.
            ClientIdReused, OptionError, MailboxFull, SessionDown: See `prompt`.

        Cancellation: Once the message has been sent, only the receipt is lost.
        """
        said, name = decide_text(text), decide_client_id(client_id)
        refuse(fault_of_via(via), fault_of_request_id(request_id))
        signal_id = self._cell.pending_calls.mint()
        signal = Steer(
            at_ms=now_ms(),
            signal_id=signal_id,
            ref=SteerRef(signal_id),
            text=said,
            client_id=name,
            via=via,
            request_id=request_id,
        )
        return cast("SteerReceipt", await self._ask(signal))

    async def answer(self, ref: str, outcome: Ok | Error) -> None:
        """Send the result of a call that the client ran, of a tool whose `answered_by` is `client`.

        Args:
            ref: `ref` of `ClientCall`.
            outcome: The result for the model: `Ok` or `Error`, at most 1 MiB of text, with details and images as a tool
                returns them.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: The call no longer waits: it was answered, its time limit
                expired, or it was withdrawn by an abort, a steer or the next prompt.
            InvalidResponse: Your move: it is an approval or a question, or the text is too long. The call is still
                pending.
            OptionError: Your move: an argument has the wrong type, or the details are not JSON, or too large.
            SessionDown: The session has ended.

        Cancellation: The answer remains in effect.
        """
        refuse(fault_of("ref", ref, str), fault_of_outcome(outcome))
        check_size(ref, outcome.text)
        signal = AnswerCall(
            at_ms=now_ms(),
            signal_id=self._cell.pending_calls.mint(),
            ref=ClientCallRef(ref),
            text=clean_text(outcome.text) or "[no output]",
            is_error=isinstance(outcome, Error),
            details=outcome.details,
            images=outcome.images if isinstance(outcome, Ok) else (),
        )
        await self._ask_owner(ref, signal)

    async def _do_snapshot(self) -> Snapshot:
        signal = SnapshotQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        snapshot = cast("Snapshot", await self._ask(signal))
        cell = self._cell
        if cell.bus.last_seq != snapshot.last_seq and not cell.is_asleep:
            # The session has published more since it answered: its live text now belongs to a newer state.
            return cell.take_snapshot()()
        return evolve(
            snapshot,
            status=cell.with_children(snapshot.status, now_ms()),
            live=cell.bus.live,
            first_seq=cell.first_seq,
        )

    async def _do_stop(self, reason: str, *, timeout_seconds: float | None) -> None:
        self._cell.pending_calls.refuse_self("stop")
        signal = StopSession(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), reason=reason)
        await self._ask_within(signal, timeout_seconds, CALL_AGAIN)

    def monitor(self) -> SessionMonitor:
        """Watch the session. `await monitor.wait()` returns its final end. A restart does not count as an end."""
        return SessionMonitor(self._cell)
