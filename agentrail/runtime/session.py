"""The actor of one session: take an item of the mailbox, `step`, carry out. What it knows survives it, so it can crash and come back."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
import trio
from attrs import evolve, frozen

from agentrail.abc import Tool
from agentrail.actors.mailbox import Mailbox
from agentrail.core.journal.folding import rewound_state
from agentrail.core.protocol.effects import Effect, Publish, Refuse, ReplyToCaller
from agentrail.core.protocol.signals import (
    Asked,
    ChangeTools,
    FinalOutcome,
    Recovered,
    ResponseCompleted,
    Restarted,
    SessionBegan,
    Signal,
    SignalId,
    StepCrashed,
)
from agentrail.core.session.legality import is_late_ephemeral
from agentrail.core.session.machine import step
from agentrail.core.session.open_calls import NO_CALLS
from agentrail.core.session.projection import LiveText, Snapshot, Status, snapshot_of, status_of
from agentrail.core.session.recovery import is_left_alone
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.stack.plugin import Plugin
from agentrail.core.wire.settling import settled
from agentrail.errors import (
    AgentrailError,
    CodecError,
    ErrorInfo,
    Fenced,
    SessionDown,
    SessionRested,
    StoreUnavailable,
)
from agentrail.events import Envelope, Event
from agentrail.messages import CallId, SessionId
from agentrail.otp.edges import call_guarded, travels
from agentrail.otp.exits import keep
from agentrail.otp.leaving import describe_bug
from agentrail.runtime.answers import NO_READERS, Readers, judged
from agentrail.runtime.chunk_buffer import ChunkBuffer
from agentrail.runtime.clean_signals import SignalCleaner
from agentrail.runtime.clock import now_ms
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, Control, TaskCrashed, TaskGroup, log_crash
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.held_code import HeldCode
from agentrail.runtime.interpreter import Interpreter, MailboxItem
from agentrail.runtime.pending_calls import PendingCalls
from agentrail.runtime.ports import Ports
from agentrail.runtime.resting import RESTED, Rested, RestRequest, decide_rest, make_rested
from agentrail.runtime.rewinding import RewindRequest, is_quiet
from agentrail.runtime.scrubbing import Scrub, scrub_of
from agentrail.runtime.session_journal import SessionJournal, Stepped
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.snapshots import is_at_rest
from agentrail.runtime.standing import stored_standing
from agentrail.runtime.subscription import Subscription, TakenSnapshot, Terms
from agentrail.runtime.workspace import Workspace

# Hibernation: the actor of an idle session ends, and its state is in the journal alone.
#
# Memory keeps a row: code that no journal holds, and the session's place. A handle or subscription holds a cell without a state; a message to
# it waits in the mailbox and wakes the session. `sleeping_door` wakes it.


class SleepStage(Enum):
    """How far a session is: it is awake; or it has decided to leave, and nothing is read any more; or it is asleep."""

    AWAKE = "awake"
    LEAVING = "leaving"
    ASLEEP = "asleep"


class FallAsleep(Control):
    """A control message to the session: it is to leave, if nothing is at work and nothing waits."""

    __slots__ = ()


@frozen(kw_only=True)
class HowToRead:
    """How the answers of a session read.

    Attributes:
        has_tags: Whether inline tags stand in them, which no person sees.
    """

    has_format: bool
    has_tags: bool


@frozen(kw_only=True)
class SleepingSession:
    """What is left of a session that sleeps: what its journal does not hold.

    Attributes:
        ports: What it works with, with the tools and models that came since it began.
        options: What it was started with, for its forks.
        workspace: Where its files are; a command that it left running there runs on.
        plugins: Its plugins; what they know is in the journal.
        due_at_ms: When it is to wake by itself, on the clock of signals; None for not at all.
    """

    ports: Ports
    options: SessionOptions
    workspace: Workspace
    plugins: tuple[Plugin, ...]
    place: Envelope
    incarnation: int
    due_at_ms: int | None
    reading: HowToRead


class Waking:
    """That a session is to wake: for who waits until it is known what became of that.

    Attributes:
        error: Why it could not; None when it is awake.
    """

    __slots__ = ("done", "error")

    def __init__(self) -> None:
        self.done: trio.Event = trio.Event()
        self.error: AgentrailError | None = None


class Sleep:
    """Whether a session sleeps, and what it is woken with.

    Attributes:
        stage: How far it is.
        waking: That it is to wake; None while it is not.
        row: What is left of it; None while it is awake.
        was_asleep: Whether it was ever woken here.
    """

    __slots__ = ("_wake", "row", "stage", "waking", "was_asleep")

    def __init__(self, wake: "Callable[[SleepingCell], None]", row: SleepingSession | None = None) -> None:
        """Begin awake; with a row asleep."""
        self._wake = wake
        self.row: SleepingSession | None = row
        self.stage: SleepStage = SleepStage.AWAKE if row is None else SleepStage.ASLEEP
        self.waking: Waking | None = None
        self.was_asleep: bool = row is not None

    def request_wake(self, cell: "SleepingCell") -> Waking:
        """Begin to wake it, if that has not begun; one that is about to leave is woken when it has left."""
        if self.waking is None:
            self.waking = Waking()
            if self.stage is SleepStage.ASLEEP:
                self._wake(cell)
        return self.waking

    def mark_awake(self) -> None:
        """Note that it is awake: who waited goes on."""
        self.stage, self.row, self.was_asleep = SleepStage.AWAKE, None, True
        self.settle(None)

    def settle(self, error: AgentrailError | None) -> None:
        """Tell who waited what became of the waking."""
        waking, self.waking = self.waking, None
        if waking is not None:
            waking.error = error
            waking.done.set()


class SleepingCell(HeldCode):
    """A session that can sleep: what of its cell goes when it falls asleep, and comes back."""

    __slots__ = ("interpreter", "journal", "ports", "scrub", "sleep", "state")

    state: SessionState
    ports: Ports
    scrub: Scrub
    mailbox: Mailbox[Any]
    bus: EventBus
    pending_calls: PendingCalls
    journal: SessionJournal | None
    interpreter: Any
    options: SessionOptions | None
    ending: str | None
    resting: RestRequest | None
    take_snapshot: Callable[[], TakenSnapshot]
    sleep: Sleep | None
    _going_back: Any

    @property
    def is_asleep(self) -> bool:
        """Whether there is no state of it in memory."""
        return self.sleep is not None and self.sleep.stage is SleepStage.ASLEEP

    @property
    def is_leaving(self) -> bool:
        """Whether its actor has decided to leave."""
        return self.sleep is not None and self.sleep.stage is SleepStage.LEAVING

    @property
    def incarnation(self) -> int:
        """Which one this is, or was."""
        row = None if self.sleep is None else self.sleep.row
        return self.state.data.incarnation if row is None else row.incarnation

    @property
    def reading(self) -> HowToRead:
        """How its answers read."""
        row = None if self.sleep is None else self.sleep.row
        if row is not None:
            return row.reading
        config = self.state.data.config
        return HowToRead(has_format=config.response_format is not None, has_tags=bool(config.inline_tags))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The code of its plugins, behind that of the agents that it may be handed over to."""
        row = None if self.sleep is None else self.sleep.row
        if row is not None:
            return row.plugins
        of_agents = [plugin for agent in self.ports.agents.values() for plugin, _ in agent.plugins or ()]
        return (*of_agents, *[one.plugin for one in self.state.data.stack.members])

    def request_wake(self) -> None:
        """Wake it, if it sleeps: something was put into its mailbox."""
        sleep = self.sleep
        if sleep is not None and sleep.stage is not SleepStage.AWAKE and self.ending is None:
            sleep.request_wake(self)

    async def awake(self) -> None:
        """Wake it, if it sleeps, and wait until what it knows is there; it stays so until the next checkpoint of the caller.

        Cancellation: A checkpoint only where it has to wait. It wakes all the same.
        """
        sleep = self.sleep
        while sleep is not None and sleep.stage is not SleepStage.AWAKE:
            if self.ending is not None:
                raise SessionRested(self.ports.session_id, self.ending)
            waking = sleep.request_wake(self)
            await waking.done.wait()
            if waking.error is not None:
                raise waking.error

    def may_sleep(self) -> bool:
        """Say whether nothing would be lost or kept waiting if it left now."""
        journal = self.journal
        return (
            self.sleep is not None
            and self.ending is None
            and journal is not None
            and journal.is_settled
            and is_at_rest(self.state)
            and not stored_standing(self.state).is_working
            and not self.mailbox.has_mail()
            and not self.pending_calls.is_waited_for
            and self.resting is None
            and self._going_back is None
        )

    def decide_sleep(self) -> bool:
        """Say whether its actor leaves now. What comes from here on waits for the next one."""
        if not self.may_sleep():
            return False
        assert self.sleep is not None  # noqa: S101 - it may sleep
        self.sleep.stage = SleepStage.LEAVING
        return True

    def suspend(self, row: SleepingSession) -> None:
        """Let go of all that the journal knows, behind the end of its actor."""
        assert self.sleep is not None  # noqa: S101 - it may sleep
        self.sleep.stage, self.sleep.row = SleepStage.ASLEEP, row
        self.journal = self.interpreter = None
        self.bus.empty()
        # Not replaced by something harmless: who looks at it without waking it first is wrong, and hears so.
        if hasattr(self, "state"):  # else it was not even made ready
            del self.state

    def restore(self, state: SessionState, ports: Ports, events: Sequence[Event]) -> None:
        """Take what the journal came to. Handles, subscribers and callers are those of before."""
        self.state, self.ports, self.scrub = state, ports, scrub_of(ports)
        self.bus.fill(last_envelope_of(state), events, self.take_snapshot)


def last_envelope_of(state: SessionState) -> Envelope:
    """Give the envelope of the last event of a session, number 0 before the first."""
    config = state.data.config
    return Envelope(config.session_id, state.data.seq, state.data.started_at_ms, config.path)


def left_of(cell: SleepingCell, workspace: Workspace) -> SleepingSession:
    """Say what is left of a session that is about to sleep."""
    options = cell.options
    assert options is not None  # noqa: S101 - a root with a store has them
    return SleepingSession(
        ports=cell.ports,
        # The conversation that it began with is in its journal.
        options=evolve(options, messages=()) if options.messages else options,
        workspace=workspace,
        plugins=cell.plugins,
        place=last_envelope_of(cell.state),
        incarnation=cell.incarnation,
        due_at_ms=stored_standing(cell.state).due_at_ms,
        reading=cell.reading,
    )


MAILBOX_CAPACITY = 1000


class SessionCrashed(Exception):
    """What a session crashed with, said again without what may not be told or may not travel."""


class _Held(msgspec.Struct, frozen=True):
    """How a session stood, with those below it; called, it draws that. No function: of one the collector walks nine objects more."""

    state: SessionState
    at_ms: int
    late: int
    live: LiveText | None
    first_seq: int
    below: Mapping[SessionId, TakenSnapshot]

    def __call__(self) -> Snapshot:
        snapshot = snapshot_of(self.state.phase, self.state.data, self.at_ms)
        statuses = {child_id: drawn().status for child_id, drawn in self.below.items()}
        status = _with_late(_with_children(snapshot.status, statuses), self.late)
        return evolve(snapshot, status=status, live=self.live, first_seq=self.first_seq)


class SessionCell(SleepingCell):
    """What of a session survives a crash of its actor: state, mailbox, subscribers, callers.

    Attributes:
        state: What `step` returned last.
        ports: What it works with.
        mailbox: What it has not read yet; a message accepted is never lost.
        bus: Its subscribers.
        pending_calls: Its callers.
        undone: Effects of the last step that were not carried out when the actor crashed, the last one first.
        scrub: Takes the secrets of the session out of a text.
        crash: What the last incarnation crashed with, one line; `None` of one that did not.
        ending: Why the session has ended, as callers and subscribers were told; `None` before.
        is_gone: Nothing of it acts any more.
        journal: What is recorded of it, and what waits for that; `None` of one without a store.
        late_ephemeral: How many ephemeral signals came too late to mean anything; of others the state keeps count.
        interpreter: What carries out the effects of this incarnation; `None` before the first.
        find: Finds another session of the same supervisor by its scope and id.
        resting: That it is to be put to rest; `None` where no caller wants that.
        rested: What it left behind when it was; `None` of one that was not.
        readers: How answers are read whose callers want values; empty for most.
        branching: Who reads its journal and begins its forks; `None` of one without a store.
        options: What it was started with, for its forks; `None` of one without a store, and of one that works for another.
        sleep: Whether it sleeps; `None` of one that never does. One that sleeps has no `state`.
    """

    __slots__ = (
        "__weakref__",
        "_cleaner",
        "_going_back",
        "_gone",
        "branching",
        "bus",
        "crash",
        "ending",
        "find",
        "is_gone",
        "late_ephemeral",
        "mailbox",
        "options",
        "pending_calls",
        "readers",
        "rested",
        "resting",
        "undone",
    )

    def __init__(
        self,
        state: SessionState | None,
        ports: Ports,
        events: Sequence[Event] = (),
        *,
        sleep: Sleep | None = None,
    ) -> None:
        """Make a session that has not begun."""
        self.sleep: Sleep | None = sleep
        row = None if sleep is None else sleep.row
        if state is not None:
            self.state: SessionState = state
        self.ports: Ports = ports
        self.scrub: Scrub = scrub_of(ports)
        self._cleaner: SignalCleaner | None = None  # made for the first signal of one that knows secrets
        self.mailbox: Mailbox[MailboxItem] = Mailbox(capacity=MAILBOX_CAPACITY)
        place = row.place if state is None and row is not None else last_envelope_of(self.state)
        self.bus: EventBus = EventBus(
            place,
            keep=ports.event_buffer_size,
            events=events,
        )
        self.pending_calls: PendingCalls = PendingCalls(ports.session_id, ports.outside, key=ports.key)
        self.undone: list[Effect] = []
        # Of one that comes back: what there was keeps its number.
        self._tool_changes = 0 if state is None else state.data.tools.generation
        self._coming: tuple[SignalId, ...] = ()
        self.crash: str | None = None
        self.ending: str | None = None
        self.is_gone: bool = False
        self.late_ephemeral: int = 0
        self.resting: RestRequest | None = None
        self.rested: Rested | None = None
        self.readers: Readers = NO_READERS
        self.find: Callable[[str, str], SessionCell | None] = _no_session
        self.interpreter: Interpreter | None = None
        self.journal: SessionJournal | None = None
        self._going_back: RewindRequest | None = None
        self.branching: Any = None  # a `Branching`, which knows of sessions
        self.options: SessionOptions | None = None if row is None else row.options
        self._gone: trio.Event | None = (
            None  # made when it is waited for: ten thousand idle sessions need none
        )

    def owner_of(self, interaction_id: str) -> "SessionCell":
        """Find the session whose approval or question this is: this one, or one that works for it, however deep."""
        session_id = interaction_id.rpartition("/")[0]
        own_id = self.ports.session_id
        found = self.find(self.ports.scope, session_id) if session_id != own_id else None
        return self if found is None or own_id not in found.state.data.config.path else found

    def give_callers_up(self, error: StoreUnavailable, answered: Container[SignalId]) -> None:
        """Raise an error where callers wait, since the store keeps them waiting: here, and above, where they wait for this session."""
        self.pending_calls.give_up(error, answered)
        for session_id in self.state.data.config.path[:-1]:
            above = self.find(self.ports.scope, session_id)
            if above is not None:
                above.pending_calls.give_up(error, ())

    def tool_of(self, call_id: CallId) -> Tool:
        """Give the tool of an open call: the one that the call began with."""
        data = self.state.data
        call = next(one for one in (*data.batch, *data.survivors) if one.call.call_id == call_id)
        return self.ports.tools[call.call.name, call.generation]

    async def run(self, task_group: TaskGroup) -> str | None:
        """Be the actor of one incarnation, until the session has ended."""
        self._finish_last_step()
        interpreter = self.interpreter = Interpreter(
            task_group, self.ports, self.bus, self.pending_calls, self.journal
        )
        if self.journal is not None:
            self.journal.outbox.keep_what_is_told()  # the rest would begin work of an actor that crashed
            self._let_leave(self.journal, interpreter)
        parked = self._begin(interpreter)
        if parked is None and not (self.state.ended or self.rested is not None):
            await interpreter.timers.serve(self.mailbox, self)
        if self.is_leaving:
            return None
        if self.journal is not None:
            await self.drain()
        # Before the task group is dismissed and not after: a tool that will not stop may not keep callers waiting.
        self.close(parked or self._reason())
        return parked

    def _begin(self, interpreter: Interpreter) -> str | None:
        """Take the first step, and say why it is to be the last one; None where it is not.

        A call of its own: what the session was before is let go of with it, and would else stay as long as the actor.
        """
        gone = self._without_gone_tools()
        if gone is not None:
            self._advance(gone, interpreter)
        first = self._first_signal()
        parked = decide_parked(first, self.state)
        for clean in self._cleaned(first):
            self._advance(clean, interpreter)
        return parked

    def _reason(self) -> str:
        if self.journal is not None and self.journal.refusal is not None:
            return str(self.journal.refusal)
        return RESTED if self.rested is not None else self.state.data.stopping or "ended"

    async def drain(self) -> None:
        """Publish and answer what is left when nothing is decided any more, as it becomes durable. Without a store nothing is left.

        Where the store does not take it, what is left is given up: its records are written all the same when the store is back.

        Cancellation: What is left is given up.
        """
        journal = self.journal
        if journal is None:
            return
        journal.outbox.keep_what_is_told()
        with trio.move_on_after(journal.writer.patience_seconds):
            while True:
                for effect, _ in journal.leaving():
                    self._tell(effect)
                if journal.outbox.is_empty or not journal.writer.is_available:
                    return
                await journal.wait_changed()

    def close(self, reason: str) -> None:
        """Tell callers and subscribers that nothing comes any more. The first reason counts."""
        if self.ending is not None:
            return
        self.ending = reason
        is_rested = self.rested is not None or self.is_asleep
        self.pending_calls.close(reason, is_rested=is_rested)
        self.bus.close(reason, is_rested=is_rested)
        if self.resting is not None:
            self.resting.settled.set()

    def finish(self, reason: str) -> None:
        """Note that nothing of the session acts any more, and tell its monitors."""
        self.close(reason)
        self.is_gone = True
        if self._gone is not None:
            self._gone.set()

    async def wait_down(self) -> str:
        """Wait until nothing of the session acts any more, and say why it ended.

        Cancellation: Always a checkpoint.
        """
        if self.is_gone:
            await trio.lowlevel.checkpoint()
        else:
            if self._gone is None:
                self._gone = trio.Event()
            await self._gone.wait()
        return self.ending or ""

    def say_last_words(self, last: Signal) -> None:
        """Let the session end itself without an actor: only what it publishes and answers is carried out; see `drain`."""
        self._finish_last_step()
        for clean in self._cleaned(last):
            if self.journal is not None:
                self._step_kept(clean, self.journal)
            else:
                self.state, effects = _step_stored(self.state, clean)
                self.undone[:0] = reversed(effects)
            self._finish_last_step()

    def handle(self, item: MailboxItem | Control) -> bool:
        """Take what came; False when that was the last."""
        assert self.interpreter is not None  # noqa: S101 - the loop that calls this is one of its
        if isinstance(item, Control):
            return self._obey(item, self.interpreter)
        signal = item.take() if isinstance(item, ChunkBuffer) else item
        if self.readers and isinstance(signal, ResponseCompleted):
            signal = judged(signal, self.state, self.readers)
        if self.ports.withheld.known is None:
            self._advance(signal, self.interpreter)
        else:
            for clean in self._cleaned(signal):
                self._advance(clean, self.interpreter)
        return not (self.state.ended or self.rested is not None)

    def _cleaned(self, signal: Signal) -> tuple[Signal, ...]:
        """Give what is to be stepped in place of a signal, without the secrets that are known; see `SignalCleaner`."""
        known = self.ports.withheld.known
        if known is None:
            return (signal,)
        if self._cleaner is None:
            self._cleaner = SignalCleaner()

        def put_aside(error: BaseException) -> tuple[Signal, ...]:
            return (self._quarantine(signal, error),)

        return call_guarded(put_aside, self._cleaner.cleaned, signal, self.state, known)

    def _obey(self, item: Control, interpreter: Interpreter) -> bool:
        if isinstance(item, TaskCrashed):
            raise item.error
        if isinstance(item, FallAsleep):
            return not self.decide_sleep()
        journal = self.journal
        assert journal is not None  # noqa: S101 - the others are of journals
        if isinstance(item, RewindRequest):
            self._go_back(item, journal)
        self._let_leave(journal, interpreter)
        return journal.refusal is None

    def _go_back(self, request: RewindRequest, journal: SessionJournal) -> None:
        """Go on behind an earlier record, if nothing is at work; the caller is told, and tries again."""
        if journal.refusal is None and is_quiet(self.state):
            before, self.state = self.state, rewound_state(self.state, request.then, request.at_ms)
            journal.go_back(request.number, before, self.state, request.at_ms)
            request.seq = journal.tail.seq
            self._going_back = request
        request.answered.set()

    def _tell_gone_back(self, journal: SessionJournal) -> None:
        """Let subscribers begin anew, as soon as it is durable that the session went back."""
        request = self._going_back
        if request is not None and journal.durable >= request.seq:
            self._going_back = None
            self.bus.begin_anew(request.then.data.seq, self._hold(now_ms()))
            request.told.set()

    async def rewind(self, request: RewindRequest) -> bool:
        """Let the actor go back, and wait until that is durable; say whether it could.

        Cancellation: It may go back all the same.
        """
        await self.awake()
        journal = self.journal
        assert journal is not None  # noqa: S101 - who goes back has a past
        if self.ending is not None:
            raise SessionDown(self.ports.session_id, self.ending)
        request.answered = trio.Event()
        self.mailbox.put_control(request)
        failed: list[AgentrailError] = []

        async def follow(scope: trio.CancelScope) -> None:
            await request.answered.wait()
            try:
                await journal.wait_durable(request.seq)
                if request.seq:
                    await request.told.wait()
            except (Fenced, StoreUnavailable) as error:
                failed.append(error)
            scope.cancel(reason="it is known what became of it")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, nursery.cancel_scope)
            await self.wait_down()
            nursery.cancel_scope.cancel(reason="the session has ended")
        if failed:
            raise failed[0]
        if self.ending is not None:
            raise SessionDown(self.ports.session_id, self.ending)
        return request.seq > 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is at work."""
        return self.state.phase is Phase.IDLE

    def _without_gone_tools(self) -> ChangeTools | None:
        """Make the signal that takes away the tools which are not there any more, before anything is asked of a model."""
        journal = self.journal
        if journal is None or not journal.gone_tools:
            return None
        names, journal.gone_tools = journal.gone_tools, ()
        # No caller waits for its answer, which is let go of.
        return ChangeTools(
            at_ms=now_ms(),
            signal_id=self.pending_calls.mint(),
            detach=names,
            generation=self.state.data.tools.generation,
        )

    def _first_signal(self) -> Signal:
        crash, self.crash = self.crash, None
        journal = self.journal
        if journal is not None and journal.first is not None:
            first, journal.first = journal.first, None
            return first
        if crash is None:
            return SessionBegan(at_ms=now_ms())
        return Restarted(at_ms=now_ms(), reason=crash, incarnation=self.state.data.incarnation + 1)

    def _advance(self, signal: Signal, interpreter: Interpreter) -> None:
        if self.journal is not None:
            self._advance_kept(signal, interpreter, self.journal)
            return

        before = self.state
        self.state, effects = _stepped(self, before, signal)
        if not effects and is_late_ephemeral(before, signal):
            self.late_ephemeral += 1
        undone = self.undone
        undone[:0] = reversed(effects)
        if self.resting is not None and self._leaves(self.resting, effects):
            return
        while undone:
            interpreter.carry_out(undone.pop(), self.state)

    def put_aside(self, signal: Signal, error: BaseException) -> tuple[SessionState, tuple[Effect, ...]]:
        """Tell the core of a signal that crashed it."""
        return _step_stored(self.state, self._quarantine(signal, error))

    def _quarantine(self, signal: Signal, error: BaseException) -> StepCrashed:
        scrub = self.scrub
        quarantine = decide_quarantine(signal, error, scrub)
        log_crash(f"session {self.ports.key}: {quarantine.error.message}", error, scrub)
        return quarantine

    # --- with a store

    def _advance_kept(self, signal: Signal, interpreter: Interpreter, journal: SessionJournal) -> None:
        """Step, record, and carry out what does not wait for the record."""
        before = self.state
        effects, taken_out = self._step_kept(signal, journal)
        if not effects and is_late_ephemeral(before, signal):
            self.late_ephemeral += 1
        if self.resting is not None and self._leaves(self.resting, effects):
            journal.outbox.keep_what_is_told()
            return
        for effect in taken_out:
            interpreter.give_up(effect)
        while self.undone:
            interpreter.carry_out(self.undone.pop(), self.state)
        if journal.writer.store.is_immediate:
            journal.look_for_snapshot(self.state)

    def _step_kept(
        self, signal: Signal, journal: SessionJournal
    ) -> tuple[tuple[Effect, ...], tuple[Effect, ...]]:
        """Step, and hand over what is recorded of it, in one: a step commits all of its record, or nothing."""

        def put_aside(error: BaseException) -> Stepped:
            return _step_noted(journal, self.state, self._quarantine(signal, error))

        stepped = call_guarded(put_aside, _step_noted, journal, self.state, signal)
        self.state = stepped.after
        leaving = journal.hand_over(stepped, signal)
        self.undone[:0] = reversed(leaving.at_once)
        return stepped.effects, leaving.taken_out

    def _let_leave(self, journal: SessionJournal, interpreter: Interpreter) -> None:
        for effect, after in journal.leaving():
            interpreter.carry_out(effect, after)
        self._tell_gone_back(journal)
        journal.look_for_snapshot(self.state)

    def _leaves(self, request: RestRequest, effects: Sequence[Effect]) -> bool:
        """Leave behind a step if that is due: what it publishes and answers is carried out, and what would begin work is not."""
        at_boundary = decide_rest(self.state, effects, is_due=request.is_due)
        if at_boundary is None:
            return False
        try:
            self.rested = make_rested(self.state, at_boundary=at_boundary)
        except CodecError as error:  # it would be lost: it goes on instead
            request.error, self.resting = error, None
            request.settled.set()
            return False
        self._finish_last_step()
        return True

    @property
    def group_id(self) -> str | None:
        """The group that it is followed with."""
        return self.ports.group_id

    @property
    def scope(self) -> str:
        """The scope that it is followed with."""
        return self.ports.scope

    @property
    def visible(self) -> SessionState:
        """What may be shown of what it knows: all of it, but for what a crash of the process could take back."""
        return self.state if self.journal is None else self.journal.outbox.visible(self.state)

    def subscribe(self, terms: Terms, *, after: int | None) -> Subscription:
        """Make a subscription, which is registered when its block is entered; as of `EventBus.subscribe`."""
        earlier = None if self.journal is None and self.sleep is None else self.events_between
        awake = None if self.sleep is None else self.awake
        return self.bus.subscribe(
            terms, after=after, take_snapshot=self.take_snapshot, earlier=earlier, awake=awake
        )

    async def events_between(self, after: int, before: int) -> Sequence[Event]:
        """Give what it published between two numbers, out of its journal; none where that does not say.

        Cancellation: At once.
        """
        old_events = None if self.journal is None else self.journal.old_events
        return (
            ()
            if old_events is None
            else await old_events.read(self.state, after, before, withheld=self.ports.withheld)
        )

    def take_snapshot(self) -> TakenSnapshot:
        """Hold how the session stands, for a subscriber that begins here; what the state counts is published first."""
        # Between a crash and the next incarnation some of it may not be, and would come again behind the snapshot.
        self._finish_last_step()
        return self._hold(now_ms())

    def _hold(self, at_ms: int) -> TakenSnapshot:
        """Hold the states of this session and of all below as they are now; what is drawn of them is drawn when it is read."""
        state = self.visible
        late, live, first_seq = self.late_ephemeral, self.bus.live, self.first_seq
        below = {child_id: cell._hold(at_ms) for child_id, cell in self._children(state)}  # noqa: SLF001 - of the same class
        return _Held(state, at_ms, late, live, first_seq, below)

    @property
    def first_seq(self) -> int:
        """The number of the first event that can still be read, as far as that is known here: a journal has all of them."""
        return self.bus.first_seq if self.journal is None and self.sleep is None else 1

    def with_children(self, status: Status) -> Status:
        """Add to what the core says how the sessions below stand, as far as they have not ended since; and what only the shell counts.

        Read where they are: a child that is busy would be waited for, and a status is what one asks when nothing moves. So
        it may be ahead of the events of a child that have not come up yet, and never behind them.
        """
        at_ms = now_ms()
        statuses = {child_id: cell.status_at(at_ms) for child_id, cell in self._children(self.visible)}
        return _with_late(_with_children(status, statuses), self.late_ephemeral)

    def status_at(self, at_ms: int) -> Status:
        """Say how the session stands, with all sessions below."""
        state = self.visible
        statuses = {child_id: cell.status_at(at_ms) for child_id, cell in self._children(state)}
        status = _with_children(status_of(state.phase, state.data, at_ms), statuses)
        status = _with_late(status, self.late_ephemeral)
        return evolve(status, unconfined_commands=self.ports.workspace.is_unconfined())

    def below(self) -> Iterator["SessionCell"]:
        """Give this session, and all that work for it, however deep."""
        yield self
        for _, cell in self._children(self.visible):
            yield from cell.below()

    def children(self) -> Iterator[tuple[SessionId, "SessionCell"]]:
        """Return the sessions that work for this one, by their ids."""
        return self._children(self.state)

    def _children(self, state: SessionState) -> Iterator[tuple[SessionId, "SessionCell"]]:
        data = state.data
        calls = data.survivors if data.batch is NO_CALLS else (*data.batch, *data.survivors)
        ids = [child_id for call in calls for child_id in call.child_ids]
        ids += [agent.child_id for agent in data.agents.states if agent.child_id is not None]
        for child_id in ids:
            cell = self.find(self.ports.scope, child_id)
            # An id is free again when its session has ended, and another's then.
            if cell is not None and self.ports.session_id in cell.state.data.config.path[:-1]:
                yield child_id, cell

    def _finish_last_step(self) -> None:
        """Publish and answer what the last step decided before the actor crashed.

        Numbers stay dense and no caller waits in vain. What would start work is left out: the core hears of the crash and
        closes all that was open.
        """
        while self.undone:
            self._tell(self.undone.pop())

    def _tell(self, effect: Effect) -> None:
        """Carry out an effect that only says something; all others are left out."""
        match effect:
            case Publish(event):
                self.bus.publish(event)
            case ReplyToCaller(to, value):
                self.pending_calls.answer(to, value)
            case Refuse(to, error):
                self.pending_calls.refuse(to, error)
            case _:
                pass


def _stepped(
    cell: SessionCell, state: SessionState, signal: Signal
) -> tuple[SessionState, tuple[Effect, ...]]:
    """Step a signal; one that cannot be stepped is put aside."""
    # Not through `call_guarded`: this is done for each signal, and would be three calls more.
    try:
        return step(state, settled(signal))
    except BaseException as error:  # noqa: ASYNC103 - the edge of the actor: a bug of the core puts one signal aside
        if travels(error):
            raise
        return cell.put_aside(signal, error)  # noqa: ASYNC104 - what travels was asked


def _step_stored(state: SessionState, signal: Signal) -> tuple[SessionState, tuple[Effect, ...]]:
    """Step what the bytes of a signal say, whatever door it came in by: a journal will give that back, and nothing else."""
    return step(state, settled(signal))


def _step_noted(journal: SessionJournal, state: SessionState, signal: Signal) -> Stepped:
    """Step what the bytes of a signal say, and say what is recorded of it: what cannot be written was never stepped."""
    said = settled(signal)
    after, effects = step(state, said)
    return journal.noted(state, said, after, effects)


def decide_parked(first: Signal, before: SessionState) -> str | None:
    """Say why a session that came back is left as it is: it may be what stops the process. None for one that goes on."""
    if not isinstance(first, Recovered) or not is_left_alone(before.data, first):
        return None
    return f"parked: {first.attempt} recoveries in a row, and no new record in between; resume it by its id when the cause is gone"


def _with_children(status: Status, statuses: Mapping[SessionId, Status]) -> Status:
    if not status.children:
        return status
    live = (child for child in status.children if child.session_id in statuses)
    return evolve(status, children=tuple(evolve(child, status=statuses[child.session_id]) for child in live))


def _with_late(status: Status, late: int) -> Status:
    return evolve(status, dropped_signals=status.dropped_signals + late) if late else status


def _no_session(scope: str, session_id: str) -> None:
    """Find no session: this one has no supervisor."""


def decide_quarantine(signal: Signal, error: BaseException, scrub: Scrub = keep) -> StepCrashed:
    """Make the signal that tells the core of its own bug: text only, no exception is kept."""
    kind = type(signal).__name__
    said = scrub(describe_bug(error))[:MAX_CRASH_MESSAGE]
    message = f"{kind} crashed the session's core and was put aside ({said}); please report it"
    return StepCrashed(
        at_ms=now_ms(),
        signal_kind=kind,
        error=ErrorInfo(code="internal_error", message=message),
        asked_by=signal.signal_id if isinstance(signal, Asked) else None,
        owed_by=signal.effect_id if isinstance(signal, FinalOutcome) else None,
    )
