"""The handle that one holds to a session. Its methods send one message and wait for the reply."""

from collections.abc import Iterable
from typing import cast

from attrs import evolve

from agentrail.abc import Error, Ok
from agentrail.core.protocol.signals import (
    AnswerCall,
    MessagesQuery,
    SnapshotQuery,
    StatusQuery,
    Steer,
    StopSession,
)
from agentrail.core.session.client_calls import check_size
from agentrail.core.session.projection import Snapshot, Status
from agentrail.core.session.receipts import SteerReceipt
from agentrail.errors import OptionError
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
    fault_of_outcome,
    fault_of_request_id,
    fault_of_text,
    fault_of_via,
    refuse,
)
from agentrail.runtime.asking import CALL_AGAIN
from agentrail.runtime.background_agents import BackgroundAgents
from agentrail.runtime.changing import ChangingHandle
from agentrail.runtime.clock import now_ms
from agentrail.runtime.cycle_stream import ENDS
from agentrail.runtime.looking_back import LookingBackHandle
from agentrail.runtime.monitoring import SessionMonitor
from agentrail.runtime.prompting import PromptingHandle
from agentrail.runtime.ruling import RulingHandle
from agentrail.runtime.session_facts import ReadAnswer, SessionFacts, facts_of_cell, reader_of
from agentrail.runtime.subscription import Subscription, decide_terms, fault_of_cursor, with_kinds
from agentrail.runtime.tool_calls import clean_text


class Session(PromptingHandle, ChangingHandle, RulingHandle, LookingBackHandle):
    """A session, from outside. It stays good when the session crashes and comes back."""

    __slots__ = ()

    @property
    def session_id(self) -> SessionId:
        """Which session this is."""
        return self._cell.ports.session_id

    @property
    def scope(self) -> str:
        """The scope in which its id is the only one; empty for a session without one."""
        return self._cell.ports.scope

    @property
    def facts(self) -> SessionFacts:
        """What is known of it without asking it: its own or its root's `user_data`, and which session is its root."""
        return facts_of_cell(self._cell)

    @property
    def agents(self) -> BackgroundAgents:
        """The agents in the background: start, prompt, wait for, close and list them, as the tools do for the model."""
        return BackgroundAgents(self._cell)

    def reads_answers(self) -> ReadAnswer:
        """Give what reads the answer out of the messages of a cycle, as `ask` does; it can be called when the session has ended."""
        return reader_of(self._cell)

    def __repr__(self) -> str:
        """Show id and phase."""
        cell = self._cell
        phase = "asleep" if cell.is_asleep else "ended" if cell.state.ended else cell.state.phase.value
        return f"<Session {self._cell.ports.key} {phase}>"

    async def _do_status(self) -> Status:
        query = StatusQuery(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint())
        status = cast("Status", await self._ask(query))
        status = self._cell.with_children(status)
        return evolve(status, unconfined_commands=self._cell.ports.workspace.is_unconfined())

    async def messages(self) -> tuple[Message, ...]:
        """Give the conversation so far.

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
        """Subscribe to what the session publishes, from the moment the block is entered.

        Args:
            after: The number of a committed event; what was committed after it comes first, then what is live, without
                gap or duplicate. What is not kept any more is made again from the journal, with a store, before the block is
                entered. Where that cannot be, the first event is `EventsLost`, and `snapshot` is what to go on from. None for live events only; 0 for all since the start.
            kinds: Only events of these classes; None for all. The end of each cycle, whatever it is, and of the session always come.
            deltas: Whether ephemeral events come too.
            buffer: How many events may wait for the reader. When it is full deltas go first; then the subscriber is
                cut off with `SubscriberTooSlow`. The session never waits.

        Returns:
            An async context manager to iterate over; iteration ends when the session ends. On one that has ended a number
            in `after` still gives the rest; without, entering raises `SessionDown`.

        Raises:
            OptionError: Your move: an argument that cannot be. A number beyond the last event is refused when the block
                is entered, as `CursorAhead`.
        """
        faults = [] if after is None else fault_of_cursor("after", after)
        if faults:
            raise OptionError(faults)
        # A caller that reads until the end of a cycle gets it, also where it is another end than the one that was thought of.
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
        """Speak into the running cycle: the model hears it at the next gap between two turns.

        Tools that may be stopped are stopped at once and answered as skipped; the stream of the model never is. Without a
        running cycle it is a prompt. A cycle that waits for a person goes on, and what it waited for is superseded.

        Args:
            text: What to say; 1 byte to 1 MB of UTF-8.
            client_id: As of `prompt`.
            via: As of `prompt`; kept for the prompt that it becomes when no cycle hears it.
            request_id: As of `prompt`; kept likewise.

        Returns:
            `ref`; `status`: `queued` or `became_prompt`.

        Raises:
            PromptError: Your move: empty, or too long.
            SteeringQueueFull: Your move: `max_steering_queue` wait already.
            PromptQueueFull: Your move: it would be a prompt, and as many wait as may.
            ClientIdReused, OptionError, MailboxFull, SessionDown: As of `prompt`.

        Cancellation: Once the message is on its way, only the receipt is lost.
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
        """Give the result of a call that the client ran: one of a tool whose `answered_by` is `client`.

        Args:
            ref: Of `ClientCall`.
            outcome: What the model reads: `Ok` or `Error`, at most 1 MiB of text, with details and pictures as of a tool.

        Raises:
            UnknownApproval, ApprovalExpired, AlreadyResolved: The call waits no more, and why: it was answered, its time was over,
                or it was taken back by an abort, a steer or the next prompt.
            InvalidResponse: Your move: it is an approval or a question, or the text is too long; the call still waits.
            OptionError: Your move: an argument of a wrong type, or details that are no JSON, or too large.
            SessionDown: The session has ended.

        Cancellation: The answer stands.
        """
        refuse(fault_of_text("ref", ref), fault_of_outcome(outcome))
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
            # It went on since it answered: what is said in passing now belongs to now.
            return cell.take_snapshot()()
        return evolve(
            snapshot,
            status=cell.with_children(snapshot.status),
            live=cell.bus.live,
            first_seq=cell.first_seq,
        )

    async def _do_stop(self, reason: str, *, timeout_seconds: float | None) -> None:
        self._cell.pending_calls.refuse_self("stop")
        signal = StopSession(at_ms=now_ms(), signal_id=self._cell.pending_calls.mint(), reason=reason)
        await self._ask_within(signal, timeout_seconds, CALL_AGAIN)

    def monitor(self) -> SessionMonitor:
        """Watch the session; `await monitor.wait()` tells its end, once it is gone for good. A restart is no end."""
        return SessionMonitor(self._cell)
