"""The actor of one session: read a mailbox item, `step`, execute the effects. Its state survives a crash."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, ClassVar

import msgspec
import trio
from attrs import define, evolve, field, frozen

from agentrail.abc import Tool
from agentrail.actors.mailbox import Mailbox
from agentrail.actors.trio_check import need_trio
from agentrail.core.journal.fold import rewound_state
from agentrail.core.policy.budget import Spent
from agentrail.core.protocol.effects import Effect, Publish, Refuse, ReplyToCaller, RunTool
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    Asked,
    ChangePlugins,
    FinalOutcome,
    Recovered,
    ResponseCompleted,
    Restarted,
    SessionBegan,
    Signal,
    SignalId,
    StepCrashed,
    ToolFinished,
)
from agentrail.core.session.machine import step
from agentrail.core.session.open_calls import NO_CALLS
from agentrail.core.session.recovery import is_left_alone
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.transitions import is_late_ephemeral
from agentrail.core.session.views import LiveText, Snapshot, Status, snapshot_of, status_of
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_changes import find_plugin
from agentrail.core.wire.normalize import settled
from agentrail.errors import (
    AgentrailError,
    CodecError,
    ErrorInfo,
    JournalBehind,
    SessionDown,
    SessionRested,
    StoreUnavailable,
    Unrevivable,
)
from agentrail.events import Envelope, Event
from agentrail.messages import CallId, JsonObject, SessionId
from agentrail.otp.crash_text import describe_bug
from agentrail.otp.exits import keep
from agentrail.otp.guarded_calls import call_guarded, travels
from agentrail.runtime.chunk_buffer import ChunkBuffer
from agentrail.runtime.crashes import MAX_CRASH_MESSAGE, Control, TaskCrashed, TaskGroup, log_crash
from agentrail.runtime.cycle_reply import NO_READERS, Readers, judged
from agentrail.runtime.error_scrubber import Scrub, scrub_of
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.event_subscription import Subscription, TakenSnapshot, Terms
from agentrail.runtime.interpreter import Interpreter, MailboxItem
from agentrail.runtime.model_lookup import Choice, is_object
from agentrail.runtime.pending_calls import PendingCalls
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.ports import Ports
from agentrail.runtime.rewind_request import RewindRequest, is_quiet
from agentrail.runtime.session_clock import Alarm, now_ms
from agentrail.runtime.session_journal import SessionJournal, Stepped
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.session_rest import (
    RESTED,
    STOPS_WORK,
    Rested,
    RestRequest,
    decide_awaited,
    decide_rest,
    make_rested,
)
from agentrail.runtime.session_sandbox import Workspace
from agentrail.runtime.signal_scrubber import SignalCleaner
from agentrail.runtime.snapshots import is_at_rest
from agentrail.runtime.store_summary import stored_standing

# Hibernation: the actor of an idle session ends, and only the journal keeps its state.
#
# A row stays in memory: the code that no journal holds, and the session's position. A handle or subscription holds a cell
# without a state. A message to it waits in the mailbox and wakes the session. `hibernation` wakes it.


MAILBOX_CAPACITY = 1000


class SleepStage(Enum):
    AWAKE = "awake"
    LEAVING = "leaving"
    ASLEEP = "asleep"


class FallAsleep(Control):
    __slots__ = ()


@frozen(kw_only=True)
class HowToRead:
    has_format: bool
    has_tags: bool


@frozen(kw_only=True)
class SleepingSession:
    """The part of a hibernated session that stays in memory: everything that its journal does not hold."""

    ports: Ports
    options: SessionOptions
    workspace: Workspace
    plugins: tuple[Plugin, ...]
    place: Envelope
    incarnation: int
    due_at_ms: int | None
    waits_for: int
    reading: HowToRead


@define(eq=False)
class Waking:
    """A pending wake-up. Every caller that waits for it gets the same result."""

    done: trio.Event = field(init=False, factory=trio.Event)
    error: AgentrailError | None = field(init=False, default=None)


class Sleep:
    __slots__ = ("_wake", "row", "stage", "waking", "was_asleep")

    def __init__(self, wake: "Callable[[SleepingCell], None]", row: SleepingSession | None = None) -> None:
        self._wake = wake
        self.row: SleepingSession | None = row
        self.stage: SleepStage = SleepStage.AWAKE if row is None else SleepStage.ASLEEP
        self.waking: Waking | None = None
        self.was_asleep: bool = row is not None

    def request_wake(self, cell: "SleepingCell") -> Waking:
        """Schedule a wake-up unless one is pending. A session that is suspending wakes once it has hibernated."""
        if self.waking is None:
            self.waking = Waking()
            if self.stage is SleepStage.ASLEEP:
                self._wake(cell)
        return self.waking

    def mark_awake(self) -> None:
        self.stage, self.row, self.was_asleep = SleepStage.AWAKE, None, True
        self.settle(None)

    def settle(self, error: AgentrailError | None) -> None:
        waking, self.waking = self.waking, None
        if waking is not None:
            waking.error = error
            waking.done.set()


@define(eq=False, repr=False, init=False)
class SleepingCell:
    """A session cell that can hibernate: the fields that it drops when suspended and gets back when restored.

    It holds code outside the state: tools, plugins being added, providers. Kept as long as it may be needed.
    """

    state: SessionState = field(init=False)
    ports: Ports = field(init=False)
    pending_calls: PendingCalls = field(init=False)
    scrub: Scrub = field(init=False)
    mailbox: Mailbox[MailboxItem] = field(init=False, factory=partial(Mailbox, capacity=MAILBOX_CAPACITY))
    bus: EventBus = field(init=False)
    journal: SessionJournal | None = field(init=False, default=None)
    interpreter: Interpreter | None = field(init=False, default=None)
    options: SessionOptions | None = field(init=False, default=None)
    ending: str | None = field(init=False, default=None)
    resting: RestRequest | None = field(init=False, default=None)
    sleep: Sleep | None = field(init=False, default=None)
    _going_back: tuple[RewindRequest, ...] = field(init=False, default=())
    _coming: tuple[SignalId, ...] = field(init=False, default=())
    _tool_changes: int = field(init=False, default=0)

    take_snapshot: ClassVar[Callable[..., TakenSnapshot]]

    def __init__(
        self,
        state: SessionState | None,
        ports: Ports,
        events: Sequence[Event] = (),
        *,
        sleep: Sleep | None = None,
    ) -> None:
        self.__attrs_init__()
        row = None if sleep is None else sleep.row
        if state is not None:
            self.state = state
            # For a resumed session: earlier records keep their numbers.
            self._tool_changes = state.data.tools.generation
        self.sleep, self.ports, self.scrub = sleep, ports, scrub_of(ports)
        place = row.place if state is None and row is not None else last_envelope_of(self.state)
        self.bus = EventBus(place, keep=ports.event_buffer_size, events=events)
        self.pending_calls = PendingCalls(ports.session_id, ports.outside)
        self.options = None if row is None else row.options

    @property
    def is_asleep(self) -> bool:
        return self.sleep is not None and self.sleep.stage is SleepStage.ASLEEP

    @property
    def is_leaving(self) -> bool:
        return self.sleep is not None and self.sleep.stage is SleepStage.LEAVING

    @property
    def incarnation(self) -> int:
        row = None if self.sleep is None else self.sleep.row
        return self.state.data.incarnation if row is None else row.incarnation

    @property
    def reading(self) -> HowToRead:
        row = None if self.sleep is None else self.sleep.row
        if row is not None:
            return row.reading
        config = self.state.data.config
        return HowToRead(has_format=config.response_format is not None, has_tags=bool(config.inline_tags))

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        row = None if self.sleep is None else self.sleep.row
        if row is not None:
            return row.plugins
        of_agents = [plugin for agent in self.ports.agents.values() for plugin, _ in agent.plugins or ()]
        return (*of_agents, *[one.plugin for one in self.state.data.stack.members])

    def request_wake(self) -> None:
        sleep = self.sleep
        if sleep is not None and sleep.stage is not SleepStage.AWAKE and self.ending is None:
            sleep.request_wake(self)

    async def awake(self, reader: Subscription | None = None, after: int | None = None) -> None:
        """Wake the session if it is hibernated, and wait for its state. The state stays until the caller's next checkpoint.

        A reader without anything new to read does not wake it, unless it needs a snapshot.

        Cancellation: Always a checkpoint for cancellation, a full one only if it has to wait. The wake-up continues.
        """
        need_trio(self.pending_calls.run)
        await trio.lowlevel.checkpoint_if_cancelled()
        sleep = self.sleep
        if reader is not None and not reader.needs_snapshot and after in {None, self.bus.last_seq}:
            sleep = None if self.is_asleep and self.ending is None else sleep
        while sleep is not None and sleep.stage is not SleepStage.AWAKE:
            if self.ending is not None:
                raise SessionRested(self.ports.session_id, self.ending)
            waking = sleep.request_wake(self)
            await waking.done.wait()
            try:
                if waking.error is not None:
                    raise waking.error
            finally:
                del waking  # the traceback of its error refers to this frame: a cycle

    def may_sleep(self) -> bool:
        """Return whether the session could stop now without losing work or keeping a caller waiting."""
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
            and not self._going_back
        )

    def decide_sleep(self) -> bool:
        if not self.may_sleep():
            return False
        assert self.sleep is not None  # noqa: S101 - checked by `may_sleep`
        self.sleep.stage = SleepStage.LEAVING
        return True

    def suspend(self, row: SleepingSession) -> None:
        assert self.sleep is not None  # noqa: S101 - checked by `may_sleep`
        self.sleep.stage, self.sleep.row = SleepStage.ASLEEP, row
        if self.journal is not None:
            del self.journal.files  # each refers to the other, as in `let_go`
        self.journal = self.interpreter = None
        self.bus.empty()
        # Deleted rather than replaced by a stub: reading it without waking the session first is a bug and must raise.
        if hasattr(self, "state"):  # otherwise it never had a state
            del self.state

    def let_go(self) -> None:
        """Cut the cycles of an ended session, so that it is freed without the collector, which may look at old objects once an hour."""
        journal = self.journal
        if journal is None or journal.is_settled:
            self.journal = self.interpreter = None
            if journal is not None:
                del journal.files  # each refers to the other

    def restore(self, state: SessionState, ports: Ports, events: Sequence[Event]) -> None:
        """Install the state folded from the journal. Handles, subscribers and callers stay valid."""
        self.state, self.ports, self.scrub = state, ports, scrub_of(ports)
        self.bus.fill(last_envelope_of(state), events, self.take_snapshot)

    # --- code outside the state

    def number_tool_change(self) -> int:
        self._tool_changes = max(self._tool_changes, self.state.data.tools.generation) + 1
        return self._tool_changes

    def add_tools(self, tools: Mapping[str, Tool], change: int) -> None:
        self.ports.tools.update({(name, change): tool for name, tool in tools.items()})

    def forget_tools(self) -> None:
        data = self.state.data
        used = {(spec.name, data.tools.generation_of(spec.name)) for spec in data.tools}
        used |= {(call.call.name, call.generation) for call in (*data.batch, *data.survivors)}
        for key in list(self.ports.tools):
            # Newer ones are pending in the mailbox. Those below 0 belong to agents, which may still start.
            if key not in used and 0 <= key[1] <= data.tools.generation:
                del self.ports.tools[key]

    def refuse_unknown_plugin(self, name: str) -> None:
        """Raise `PluginError` for a name that is not in the stack, unless waiting changes may add it."""
        if not self._coming and not any(isinstance(one, ChangePlugins) for one in self.state.postponed):
            find_plugin(self.state.data.stack, name)

    def add_plugin(self, change: SignalId, plugin: Plugin | None) -> None:
        watch = self.state.data.stack.ask
        if plugin is not None and isinstance(watch, PluginWatch):
            watch.keep(change, plugin)
            self._coming = (*self._coming, change)

    def forget_plugins(self, answered: SignalId) -> None:
        watch = self.state.data.stack.ask
        if answered not in self._coming or not isinstance(watch, PluginWatch):
            return
        waiting = {one.signal_id for one in self.state.postponed if isinstance(one, ChangePlugins)}
        behind = self._coming.index(answered) + 1
        over = [change for change in self._coming[:behind] if change not in waiting]
        for change in over:
            watch.forget(change)
        self._coming = tuple(change for change in self._coming if change not in over)

    def add_model(self, choice: Choice) -> None:
        providers, opts = self.ports.providers, self.ports.provider_opts
        for known in (providers, opts):
            known.pop(choice.name, None)
        providers[choice.name], opts[choice.name] = choice.provider, choice.opts
        self.ports.withheld.learn_options(choice.opts)
        self.ports.withheld.learn_from(choice.provider)

    def forget_models(self, newest: str) -> None:
        data = self.state.data
        used = {facts.model for facts in (data.model, data.config.model, *data.config.fallbacks)}
        used |= {data.stream.model} if data.stream is not None else set()
        for name in list(self.ports.providers):
            if name == newest:  # later ones are pending in the mailbox
                return
            if name not in used and is_object(name):
                del self.ports.providers[name]
                self.ports.provider_opts.pop(name, None)


def last_envelope_of(state: SessionState) -> Envelope:
    config = state.data.config
    return Envelope(config.session_id, state.data.seq, state.data.started_at_ms, config.path)


def left_of(cell: SleepingCell, workspace: Workspace) -> SleepingSession:
    options = cell.options
    assert options is not None  # noqa: S101 - every root session with a store has them
    return SleepingSession(
        ports=cell.ports,
        # The initial conversation is in its journal.
        options=evolve(options, messages=()) if options.messages else options,
        workspace=workspace,
        plugins=cell.plugins,
        place=last_envelope_of(cell.state),
        incarnation=cell.incarnation,
        due_at_ms=stored_standing(cell.state).due_at_ms,
        waits_for=len(cell.state.data.interactions),
        reading=cell.reading,
    )


class SessionCrashed(Exception):
    """The crash of a session, re-raised without secrets and without exceptions that must not propagate."""


class _Held(msgspec.Struct, frozen=True):
    """State of a session and its children. Calling it draws their status. A closure would add nine objects for the collector."""

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


def _no_session(scope: str, session_id: str) -> None:
    """Return None: this session has no supervisor."""


@define(eq=False, repr=False, init=False)
class SessionCell(SleepingCell):
    """The part of a session that survives a crash of its actor: state, mailbox, subscribers, callers.

    Attributes:
        mailbox: Unread messages. An accepted message is never lost.
        undone: Effects of the last step that were not executed when the actor crashed, last one first.
        crash: One line about the crash of the last incarnation. `None` without one.
        late_ephemeral: Number of ephemeral signals that came too late. The state counts the others.
        has_moved: Whether it ended here because another node owns it.
        sleep: Hibernation state. `None` if it never hibernates. A hibernated session has no `state`.
        starting: Of each child that is being created, the end of that. It has the parent's rules of before.
        spent_below: Usage of each child of a call that ended because the actor crashed.
    """

    # The fields of the base that its own methods set, for type checkers.
    state: SessionState = field(init=False)
    interpreter: Interpreter | None = field(init=False, default=None)
    ending: str | None = field(init=False, default=None)
    resting: RestRequest | None = field(init=False, default=None)
    undone: list[Effect] = field(init=False, factory=list)
    crash: str | None = field(init=False, default=None)
    is_gone: bool = field(init=False, default=False)
    has_moved: bool = field(init=False, default=False)
    late_ephemeral: int = field(init=False, default=0)
    rested: Rested | None = field(init=False, default=None)
    readers: Readers = field(init=False, default=NO_READERS)
    starting: tuple[trio.Event, ...] = field(init=False, default=())
    spent_below: tuple[Spent, ...] = field(init=False, default=())
    find: "Callable[[str, str], SessionCell | None]" = field(init=False, default=_no_session)
    branching: Any = field(init=False, default=None)  # a `Branching`, which imports sessions
    # Created for the first signal of a session with secrets.
    _cleaner: SignalCleaner | None = field(init=False, default=None)
    # Created for the first waiter: ten thousand idle sessions need none.
    _gone: trio.Event | None = field(init=False, default=None)

    def owner_of(self, interaction_id: str) -> "SessionCell":
        session_id = interaction_id.rpartition("/")[0]
        own_id = self.ports.session_id
        found = self.find(self.ports.scope, session_id) if session_id != own_id else None
        return self if found is None or own_id not in found.state.data.config.path else found

    def give_callers_up(self, error: StoreUnavailable, answered: Container[SignalId]) -> None:
        self.pending_calls.give_up(error, answered)
        for session_id in self.state.data.config.path[:-1]:
            above = self.find(self.ports.scope, session_id)
            if above is not None:
                above.pending_calls.give_up(error, ())

    def tool_of(self, call_id: CallId) -> Tool:
        data = self.state.data
        call = next(one for one in (*data.batch, *data.survivors) if one.call.call_id == call_id)
        return self.ports.tools[call.call.name, call.generation]

    async def run(self, task_group: TaskGroup, alarm: Alarm[Mailbox[Any]]) -> str | None:
        self._finish_last_step()
        interpreter = self.interpreter = Interpreter(
            task_group, self.ports, self.bus, self.pending_calls, self.journal
        )
        if self.journal is not None:
            # The rest would start work of a crashed actor. Agents are connected again by the next step.
            interpreter.end_restored(self.journal.outbox.keep_what_is_told(), agents=False)
            self._let_leave(self.journal, interpreter)
        parked = self._begin(interpreter)
        if parked is None and not (self.state.ended or self.rested is not None):
            await interpreter.timers.serve(self.mailbox, self, alarm)
        if self.is_leaving:
            return None
        if self.journal is not None:
            await self.drain()
            if isinstance(self.journal.refusal, JournalBehind):
                parked = str(self.journal.refusal)
        # Before the task group is dismissed, not after: a tool that does not stop must not keep callers waiting.
        self.close(parked or self._reason())
        return parked

    def _begin(self, interpreter: Interpreter) -> str | None:
        if self.journal is not None and self.journal.tool_change is not None:
            # No caller waits for its answer, which is discarded.
            change, self.journal.tool_change = self.journal.tool_change, None
            self._advance(change, interpreter)
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
        """Publish and answer the remaining effects as they become durable, after the last step."""
        journal = self.journal
        if journal is None:
            return
        journal.outbox.keep_what_is_told()
        journal.writer.hurry()
        with trio.move_on_after(journal.writer.patience_seconds):
            while True:
                for effect, _ in journal.leaving():
                    self._tell(effect)
                if journal.outbox.is_empty or not journal.writer.is_available:
                    return
                await journal.wait_changed()

    def close(self, reason: str) -> None:
        if self.ending is not None:
            return
        self.ending = reason
        is_moved = self.has_moved = self.has_moved or (self.journal is not None and self.journal.has_moved)
        is_rested = self.rested is not None or self.is_asleep or is_moved
        self.pending_calls.close(reason, is_rested=is_rested)
        self.bus.close(reason, is_rested=is_rested, is_moved=is_moved)
        if self.resting is not None:
            self.resting.settled.set()

    def finish(self, reason: str) -> None:
        self.close(reason)
        self.is_gone = True
        if self._gone is not None:
            self._gone.set()

    async def wait_down(self) -> str:
        if self.is_gone:
            await trio.lowlevel.checkpoint()
        else:
            if self._gone is None:
                self._gone = trio.Event()
            await self._gone.wait()
        return self.ending or ""

    def stop_untrusted(self) -> None:
        """Stop streams, and tools that must not run twice: another node may own the session by now."""
        if self.interpreter is not None:
            self.interpreter.stop_untrusted()

    def say_last_words(self, last: Signal) -> None:
        self._finish_last_step()
        for clean in self._cleaned(last):
            if self.journal is not None:
                self._step_kept(clean, self.journal)
            else:
                self.state, effects = _step_stored(self.state, clean)
                self.undone[:0] = reversed(effects)
            self._finish_last_step()

    def send(self, signal: Asked) -> None:
        if self.journal is not None:
            self.journal.check_admission(signal)
        self.mailbox.put_nowait(signal)  # type: ignore[arg-type]  # Asked is the base of these members of Signal
        self.request_wake()

    def send_notice(self, signal: Asked) -> None:
        self.mailbox.put_notice(signal)  # even if it is full
        self.request_wake()

    def handle(self, item: MailboxItem | Control) -> bool:
        assert self.interpreter is not None  # noqa: S101 - the calling loop belongs to an interpreter
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
        assert journal is not None  # noqa: S101 - the other items belong to journals
        if isinstance(item, RewindRequest):
            if journal.refusal is None and is_quiet(self.state) and self._has_code_of(item):
                before, self.state = self.state, rewound_state(self.state, item.then, item.at_ms)
                journal.go_back(item.number, before, self.state, item.at_ms)
                item.seq = journal.tail.seq
                self._going_back = (*self._going_back, item)
            item.answered.set()
        self._let_leave(journal, interpreter)
        return journal.refusal is None

    def _has_code_of(self, request: RewindRequest) -> bool:
        try:  # again: a tool or a model may have been released since the handle looked
            self.branching.make_ready(self, request.then)
        except Unrevivable as error:
            request.error = error
        return request.error is None

    async def rewind(self, request: RewindRequest) -> bool:
        """Let the actor rewind, and wait until that is durable. Return whether it could.

        Cancellation: The rewind may still happen.
        """
        await self.awake()
        journal = self.journal
        assert journal is not None  # noqa: S101 - a session that rewinds has a journal
        if self.ending is not None:
            raise SessionDown(self.ports.session_id, self.ending)
        request.answered = trio.Event()
        self.mailbox.put_control(request)

        # Without a task of its own: a nursery would raise a group of exceptions in the caller.
        with trio.CancelScope() as scope, self.pending_calls.waiting(scope.cancel) as call:
            await request.answered.wait()
            await journal.wait_durable(request.seq)
            if request.seq:
                await request.told.wait()
        error = request.error or call.error
        if error is not None:
            raise error
        return request.seq > 0

    @property
    def is_idle(self) -> bool:
        return self.state.phase is Phase.IDLE

    def _first_signal(self) -> Signal:
        crash, self.crash = self.crash, None
        journal = self.journal
        if journal is not None and journal.first is not None:
            first, journal.first = journal.first, None
            return first
        if crash is None:
            return SessionBegan(at_ms=now_ms())
        incarnation, spent = self.state.data.incarnation + 1, self.take_spent_below()
        return Restarted(at_ms=now_ms(), reason=crash, incarnation=incarnation, spent=spent)

    def take_spent_below(self) -> tuple[Spent, ...]:
        """Return `spent_below`, with the usage in outcomes that the crashed actor had not read and that come too late now."""
        loans, unread = self.state.data.loans, self.mailbox.waiting
        late = [one.spent for one in unread if isinstance(one, ToolFinished) and one.effect_id in loans]
        spent, self.spent_below = (*self.spent_below, *[one for one in late if one is not None]), ()
        return spent

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
        if self.resting is not None and self._leaves(self.resting, effects, interpreter):
            return
        while undone:
            effect = undone.pop()
            if type(effect) is Publish:  # most of them: passing each on would cost 2 % of a cycle
                self.bus.publish(effect.event)
            else:
                interpreter.carry_out(effect, self.state)

    def put_aside(self, signal: Signal, error: BaseException) -> tuple[SessionState, tuple[Effect, ...]]:
        return _step_stored(self.state, self._quarantine(signal, error))

    def _quarantine(self, signal: Signal, error: BaseException) -> StepCrashed:
        scrub = self.scrub
        quarantine = decide_quarantine(signal, error, scrub)
        log_crash(f"session {self.ports.key}: {quarantine.error.message}", error, scrub)
        return quarantine

    # --- with a store

    def _advance_kept(self, signal: Signal, interpreter: Interpreter, journal: SessionJournal) -> None:
        before = self.state
        effects, taken_out = self._step_kept(signal, journal)
        if not effects and is_late_ephemeral(before, signal):
            self.late_ephemeral += 1
        if self.resting is not None and self._leaves(self.resting, effects, interpreter):
            interpreter.end_restored(journal.outbox.keep_what_is_told(), agents=True)
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
        """Step, and hand over its record, as one operation: a step commits its whole record, or nothing."""

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
        while self._going_back and journal.durable >= self._going_back[0].seq:
            request, self._going_back = self._going_back[0], self._going_back[1:]
            self.bus.begin_anew(request.then.data.seq, self._hold(now_ms()))
            request.told.set()
        journal.look_for_snapshot(self.state)

    def _leaves(self, request: RestRequest, effects: Sequence[Effect], interpreter: Interpreter) -> bool:
        """Stop after a step if a rest is due: effects that publish, answer or stop work are executed, and those that start work are not."""
        is_due = request.is_due or (request.is_move and not self.calls_to_await())
        at_boundary = decide_rest(self.state, effects, is_due=is_due)
        if at_boundary is None:
            return False
        try:
            self.rested = make_rested(self.state, at_boundary=at_boundary)
        except CodecError as error:  # it would be lost, so the session continues instead
            request.error, self.resting = partial(CodecError, str(error), path=error.path), None
            request.settled.set()
            return False
        if self.journal is not None:
            self.journal.not_begun = self._calls_not_begun()
            self.has_moved = self.journal.is_shared
        for effect in effects:
            if type(effect) in STOPS_WORK:
                interpreter.carry_out(effect, self.state)
        self._finish_last_step()
        return True

    def _calls_not_begun(self) -> frozenset[EffectId]:
        held = () if self.journal is None else self.journal.outbox.held_calls()
        return frozenset(one.effect_id for one in (*held, *self.undone) if isinstance(one, RunTool))

    def hold(self, *, is_held: bool) -> None:
        """Begin nothing in this session and its children, or continue."""
        for cell in self.below():
            if cell.journal is not None:
                cell.journal.is_held = is_held
                cell.journal.let_begin()

    def calls_to_await(self) -> tuple[str, ...]:
        """Return the tools of running calls, also of children, that must end before a move."""
        cells = (self, *(one for _, child in self.children() for one in child.below()))
        return tuple([name for one in cells for name in decide_awaited(one.state, one._calls_not_begun())])  # noqa: SLF001 - same class

    @property
    def group_id(self) -> str | None:
        return self.ports.group_id

    @property
    def scope(self) -> str:
        return self.ports.scope

    @property
    def user_data(self) -> JsonObject:
        return self.ports.user_data

    @property
    def visible(self) -> SessionState:
        """The visible state: everything except steps that a crash of the process could undo."""
        return self.state if self.journal is None else self.journal.outbox.visible(self.state)

    def subscribe(self, terms: Terms, *, after: int | None) -> Subscription:
        earlier = None if self.journal is None and self.sleep is None else self.events_between
        awake = None if self.sleep is None else self.awake
        subscription = self.bus.subscribe(
            terms, after=after, take_snapshot=self.take_snapshot, earlier=earlier, awake=awake
        )
        subscription.run = self.pending_calls.run
        return subscription

    async def events_between(self, after: int, before: int) -> Sequence[Event]:
        old_events = None if self.journal is None else self.journal.old_events
        return (
            ()
            if old_events is None
            else await old_events.read(self.state, after, before, withheld=self.ports.withheld)
        )

    def take_snapshot(self) -> TakenSnapshot:
        """Capture the state of the session for a new subscriber. All events counted by the state are published first."""
        # Between a crash and the next incarnation some may be unpublished, and would be repeated after the snapshot.
        self._finish_last_step()
        return self._hold(now_ms())

    def _hold(self, at_ms: int) -> TakenSnapshot:
        """Capture the current states of this session and its descendants. Their status is computed when it is read."""
        state = self.visible
        late, live, first_seq = self.late_ephemeral, self.bus.live, self.first_seq
        below = {child_id: cell._hold(at_ms) for child_id, cell in self._children(state)}  # noqa: SLF001 - same class
        return _Held(state, at_ms, late, live, first_seq, below)

    @property
    def first_seq(self) -> int:
        return self.bus.first_seq if self.journal is None and self.sleep is None else 1

    def with_children(self, status: Status, at_ms: int) -> Status:
        statuses = {child_id: cell.status_at(at_ms) for child_id, cell in self._children(self.visible)}
        return _with_late(_with_children(status, statuses), self.late_ephemeral)

    def status_at(self, at_ms: int) -> Status:
        state = self.visible
        status = self.with_children(status_of(state.phase, state.data, at_ms), at_ms)
        return evolve(status, unconfined_commands=self.ports.workspace.is_unconfined())

    def below(self) -> Iterator["SessionCell"]:
        yield self
        for _, cell in self._children(self.visible):
            yield from cell.below()

    def children(self) -> Iterator[tuple[SessionId, "SessionCell"]]:
        return self._children(self.state)

    def _children(self, state: SessionState) -> Iterator[tuple[SessionId, "SessionCell"]]:
        data = state.data
        calls = data.survivors if data.batch is NO_CALLS else (*data.batch, *data.survivors)
        ids = [child_id for call in calls for child_id in call.child_ids]
        ids += [agent.child_id for agent in data.agents.states if agent.child_id is not None]
        for child_id in ids:
            cell = self.find(self.ports.scope, child_id)
            # The id of an ended session is free, and may belong to another.
            if cell is not None and self.ports.session_id in cell.state.data.config.path[:-1]:
                yield child_id, cell

    def _finish_last_step(self) -> None:
        while self.undone:
            self._tell(self.undone.pop())

    def _tell(self, effect: Effect) -> None:
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
    """Step a signal. A signal that crashes the step is set aside."""
    # Not through `call_guarded`: for each signal, that would be three more calls.
    try:
        return step(state, settled(signal))
    except BaseException as error:  # noqa: ASYNC103 - the edge of the actor: a bug of the core sets one signal aside
        if travels(error):
            raise
        return cell.put_aside(signal, error)  # noqa: ASYNC104 - decided by `what_travels`


def _step_stored(state: SessionState, signal: Signal) -> tuple[SessionState, tuple[Effect, ...]]:
    """Step the decoded bytes of a signal, whatever its source: a journal will return exactly that."""
    return step(state, settled(signal))


def _step_noted(journal: SessionJournal, state: SessionState, signal: Signal) -> Stepped:
    """Step the decoded bytes of a signal, and return its record. A signal that cannot be encoded is never stepped."""
    said = settled(signal)
    after, effects = step(state, said)
    return journal.noted(state, said, after, effects)


def decide_parked(first: Signal, before: SessionState) -> str | None:
    """Return why a resumed session must be parked: it may be the cause of process crashes. None if it continues."""
    if not isinstance(first, Recovered) or not is_left_alone(before.data, first):
        return None
    return f"parked: {first.attempt} recoveries in a row without a new record; resume it by its id when the cause is fixed"


def _with_children(status: Status, statuses: Mapping[SessionId, Status]) -> Status:
    if not status.children:
        return status
    live = (child for child in status.children if child.session_id in statuses)
    return evolve(status, children=tuple(evolve(child, status=statuses[child.session_id]) for child in live))


def _with_late(status: Status, late: int) -> Status:
    return evolve(status, dropped_signals=status.dropped_signals + late) if late else status


def decide_quarantine(signal: Signal, error: BaseException, scrub: Scrub = keep) -> StepCrashed:
    """Return the signal that reports a bug of the core to it: text only, no exception is kept."""
    kind = type(signal).__name__
    said = scrub(describe_bug(error))[:MAX_CRASH_MESSAGE]
    message = f"{kind} crashed the session's core and was skipped ({said}); please report it"
    return StepCrashed(
        at_ms=now_ms(),
        signal_kind=kind,
        error=ErrorInfo(code="internal_error", message=message),
        asked_by=signal.signal_id if isinstance(signal, Asked) else None,
        owed_by=signal.effect_id if isinstance(signal, FinalOutcome) else None,
    )
