"""The journal of a live session: records each of its steps, hands them to the writer, and holds back effects until they are durable."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

import trio
from attrs import define, field
from msgspec.structs import replace

from agentrail.abc import Refusal
from agentrail.abc.store import Append, Standing, StoredSnapshot
from agentrail.core.journal.file_changes import FILES_EVENT, FileNote, FileState, FileWrite, payload_of
from agentrail.core.journal.fold import Drift
from agentrail.core.journal.record import (
    REWOUND,
    Draft,
    RewoundBody,
    Tail,
    codec_of,
    encode_body,
    sealed,
    split_draft,
)
from agentrail.core.journal.recorder import Recorder, closed_draft, drifted_draft
from agentrail.core.protocol.effects import Effect, StartStream
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Asked,
    ChangeTools,
    MessagesQuery,
    ReceiptQuery,
    Recovered,
    ReplyQuery,
    Signal,
    SignalId,
    SnapshotQuery,
    StatusQuery,
    StopSession,
    ToolEmitted,
)
from agentrail.core.session.state import SessionState
from agentrail.errors import AgentrailError, CodecError, Fenced, StoreUnavailable
from agentrail.logs import Logger
from agentrail.messages import CallId, SessionId
from agentrail.otp.exits import keep
from agentrail.outside import offload
from agentrail.runtime.crashes import Control
from agentrail.runtime.error_scrubber import Scrub
from agentrail.runtime.event_subscription import Gate
from agentrail.runtime.journal_events import OldEvents
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.snapshots import begun_effects, is_at_rest, is_snapshot_due, make_snapshot
from agentrail.runtime.store_summary import stored_standing
from agentrail.runtime.store_writer import Leaving, Outbox, Writer, may_wait

# Notes of file writes: a tool's write is recorded before it happens.
#
# A note is a signal that a tool affects the outside world; the previous content is stored next to its record. This module neither
# reads nor writes files.

_IN_LINE_BYTES: Final = 1 << 16
"""Larger contents are searched for secrets in a thread, so that the event loop is not blocked."""

_KNOWN_DIGESTS: Final = 1_000

_REFUSED: Final = "It was not written, because the store that keeps what stood there takes nothing for now. Try again later."


class Durable(Protocol):
    @property
    def scrub(self) -> Scrub: ...

    async def wait_durable(self, number: int) -> None: ...


@define(eq=False, repr=False, weakref_slot=False)
class HandedNote:
    contents: Mapping[str, bytes]
    number: int = field(init=False, default=0)
    is_handed: trio.Event = field(init=False, factory=trio.Event)

    def handed(self, number: int) -> None:
        """Called with the record number, or 0 if nothing was recorded."""
        self.number = number
        self.is_handed.set()


@define(eq=False, repr=False, weakref_slot=False)
class FileNotes:
    _journal: Durable
    _waiting: dict[int, HandedNote] = field(init=False, factory=dict)
    _known: dict[str, None] = field(init=False, factory=dict)
    _count: int = field(init=False, default=0)

    @property
    def scrub(self) -> Scrub:
        return self._journal.scrub

    def number_next(self) -> int:
        self._count += 1
        return self._count

    def taken(self, signal: Signal) -> HandedNote | None:
        if not self._waiting or not isinstance(signal, ToolEmitted) or signal.name != FILES_EVENT:
            return None
        payload = signal.payload
        number = payload.get("number") if isinstance(payload, Mapping) else None
        return self._waiting.pop(number, None) if isinstance(number, int) else None

    async def hand(
        self,
        number: int,
        signal: ToolEmitted,
        contents: Mapping[str, bytes],
        deliver: Callable[[object], None],
    ) -> Refusal | None:
        """Put a note into the mailbox, and wait until its record is durable.

        Cancellation: It may still be recorded.
        """
        new = {digest: content for digest, content in contents.items() if digest not in self._known}
        note = self._waiting[number] = HandedNote(new)
        deliver(signal)
        try:
            await note.is_handed.wait()
            if note.number == 0:
                return Refusal(code="io_error", message=_REFUSED)
            await self._journal.wait_durable(note.number)
        except (Fenced, StoreUnavailable):
            return Refusal(code="io_error", message=_REFUSED)
        self._known.update(dict.fromkeys(contents))
        while len(self._known) > _KNOWN_DIGESTS:
            del self._known[next(iter(self._known))]
        return None


class KeptJournal(Protocol):
    @property
    def epoch(self) -> int: ...

    @property
    def writer(self) -> Gate: ...

    @property
    def files(self) -> FileNotes: ...


@define(eq=False)
class NotingKeeper:
    _notes: FileNotes
    _deliver: Callable[[object], None]
    _effect_id: EffectId
    _call_id: CallId
    _tool: str
    _has_command: bool = field(init=False, default=False)
    _noted: dict[str, FileWrite] = field(init=False, factory=dict)

    async def keep(self, changes: Sequence[FileWrite], contents: Mapping[str, bytes]) -> Refusal | None:
        scrub = self._notes.scrub
        is_small = sum(map(len, contents.values())) <= _IN_LINE_BYTES
        secret = _with_secrets(contents, scrub) if is_small else await offload(_with_secrets, contents, scrub)
        kept = {digest: content for digest, content in contents.items() if digest not in secret}
        public = tuple([_without(one, secret) for one in changes if scrub(one.path) == one.path])
        self._noted.update((one.path, one) for one in public)
        note = FileNote(changes=public, is_untold=len(public) < len(changes))
        return await self._hand(note, kept)

    def take_back(self, changes: Sequence[FileWrite]) -> None:
        noted = [self._noted[one.path] for one in changes if one.path in self._noted]
        if noted:
            undone = [replace(one, after=one.before, directories=0) for one in noted]
            note = FileNote(number=self._notes.number_next(), changes=tuple(undone))
            self._deliver(self._signal(note))

    async def keep_command(self) -> Refusal | None:
        if self._has_command:
            await trio.lowlevel.checkpoint()
            return None
        refused = await self._hand(FileNote(is_untold=True), {})
        self._has_command = refused is None
        return refused

    async def _hand(self, note: FileNote, contents: Mapping[str, bytes]) -> Refusal | None:
        number = self._notes.number_next()
        signal = self._signal(replace(note, number=number))
        return await self._notes.hand(number, signal, contents, self._deliver)

    def _signal(self, note: FileNote) -> ToolEmitted:
        whole = replace(note, call_id=self._call_id, tool=self._tool)
        return ToolEmitted(
            at_ms=now_ms(), effect_id=self._effect_id, name=FILES_EVENT, payload=payload_of(whole)
        )


def _with_secrets(contents: Mapping[str, bytes], scrub: Scrub) -> frozenset[str]:
    texts = {digest: content.decode("utf-8", "replace") for digest, content in contents.items()}
    return frozenset(digest for digest, text in texts.items() if scrub(text) != text)


def _without(change: FileWrite, secret: frozenset[str]) -> FileWrite:
    return replace(change, before=_public(change.before, secret), after=_public(change.after, secret))


def _public(state: FileState | None, secret: frozenset[str]) -> FileState | None:
    """Hide a content with a secret: the digest of a short one would let a reader guess it."""
    if state is None or state.sha256 not in secret:
        return state
    return replace(state, sha256="", lost="secret")


LOGGER: Final = Logger("agentrail.runtime")

_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})

STOPS: Final[tuple[type[Asked], ...]] = (AbortCycle, AbortTool, StopSession)
"""Signals accepted even while the store is unavailable: stopping work is never refused."""

_HARMLESS: Final[tuple[type[Asked], ...]] = (
    *STOPS,
    StatusQuery,
    MessagesQuery,
    SnapshotQuery,
    ReplyQuery,
    ReceiptQuery,
)


class MayLeave(Control):
    pass


_MAY_LEAVE: Final = MayLeave()


class Notified(Protocol):
    def put_control(self, message: object) -> None: ...


class Callers(Protocol):
    def give_callers_up(self, error: StoreUnavailable, answered: Container[SignalId]) -> None:
        """Raise an error in callers that must not wait any longer for the store."""


class WorkGuard(Protocol):
    """Decides whether sessions may begin work. For a store of one process there is none."""

    def may_begin(self, journal: "SessionJournal", /) -> bool:
        """Whether a session may begin work. Otherwise `let_begin` of the journal is called once it may."""


@define(eq=False)
class Stepped:
    before: SessionState
    after: SessionState
    effects: tuple[Effect, ...]
    drafts: tuple[Draft, ...]


@define(eq=False, repr=False, weakref_slot=False)
class SessionJournal:
    """Records of a live session, and the effects that wait for them.

    Attributes:
        first: The first signal of a resumed session. None after it, and for a new session.
        confirmed: Doubts of the node, see `trust`, when the last append or look that confirmed its owner was sent. -1 before the first.
        durable: Number up to which its records are durable.
        is_held: Whether nothing may begin, because the session is about to move to another node.
        not_begun: Calls that its records name but that never began: they were held when the session stopped.
        recorded_at: Time of its last record, on Trio's clock. 0 before the first.
        tail: End of the journal, including records handed over.
    """

    _latest: SessionState = field(alias="state")
    tail: Tail
    writer: Writer
    _mailbox: Notified
    _callers: Callers
    first: Recovered | None = None
    _snapshot: int = 0
    tool_change: ChangeTools | None = None
    old_events: OldEvents | None = None
    scrub: Scrub = keep
    _guard: WorkGuard | None = None
    _is_grouped: bool = False
    _recorder: Recorder = field(init=False)
    _scope: str = field(init=False)
    _session: SessionId = field(init=False)
    seen_up_to: int = field(init=False)
    durable: int = field(init=False)
    files: FileNotes = field(init=False)
    outbox: Outbox = field(init=False, factory=Outbox)
    refusal: AgentrailError | None = field(init=False, default=None)
    recorded_at: float = field(init=False, default=0.0)
    confirmed: int = field(init=False, default=-1)
    is_held: bool = field(init=False, default=False)
    not_begun: frozenset[EffectId] = field(init=False, default=frozenset())
    _sent: int = field(init=False, default=0)
    _wants_snapshot: bool = field(init=False, default=False)
    _is_told: bool = field(init=False, default=False)
    _changed: trio.Event | None = field(init=False, default=None)
    _settled: trio.Event | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        data = self._latest.data
        self._recorder = Recorder(self._latest)
        self._scope, self._session = data.config.scope, data.config.session_id
        self.seen_up_to, self.durable = data.seq, self.tail.seq
        self.files = FileNotes(self)

    def note_drift(
        self, drift: Drift, state: SessionState, begun: tuple[EffectId, ...], *, at_ms: int, engine: str
    ) -> None:
        self._wants_snapshot = True
        self._record((drifted_draft(drift, state, begun, at_ms=at_ms, engine=engine),))

    # --- a step

    def noted(
        self, before: SessionState, signal: Signal, after: SessionState, effects: tuple[Effect, ...]
    ) -> Stepped:
        return Stepped(before, after, effects, self._recorder.note(before, signal, after, effects))

    def hand_over(self, stepped: Stepped, signal: Signal) -> Leaving:
        """Hand the records of a step to the writer, and hold back its effects until then."""
        self._latest = stepped.after
        drafts = stepped.drafts
        if self.refusal is not None:
            drafts = ()
        elif stepped.after.ended and not stepped.before.ended:
            data = stepped.after.data
            at_ms = drafts[-1].at_ms if drafts else data.started_at_ms
            drafts = (*drafts, closed_draft(data.stopping or "ended", at_ms=at_ms, events=data.seq))
        note = self.files.taken(signal)
        is_sent = self._may_send(stepped)
        is_urgent = not (self._is_grouped and note is None and may_wait(stepped.effects, is_sent=is_sent))
        if drafts:
            self._record(drafts, {} if note is None else note.contents, is_urgent=is_urgent)
        elif is_urgent:
            self.writer.hurry()  # the step of a query has no record, but its answer waits for earlier ones
        if note is not None:
            note.handed(self.tail.seq if drafts else 0)
        if self.refusal is not None:
            return Outbox().put(1, stepped.effects, stepped.before, stepped.after, is_recorded=True)
        if self.outbox.is_empty and self.durable == self.tail.seq:
            if self._may_begin():
                return Leaving(at_once=stepped.effects)
            self._tell()
        leaving = self.outbox.put(
            self.tail.seq,
            stepped.effects,
            stepped.before,
            stepped.after,
            is_recorded=bool(drafts),
            is_sent=is_sent,
        )
        if is_sent:
            self._sent = self.tail.seq
        if not self.writer.is_available:
            self._give_callers_up()
        return leaving

    def _may_send(self, stepped: Stepped) -> bool:
        """Return whether the request of a step may leave before its record: at most one that a crash makes unknown, and never with a budget."""
        return (
            self._is_grouped
            and any(type(effect) is StartStream for effect in stepped.effects)
            and stepped.after.data.ledger is None
            and self.refusal is None
            and self._sent <= self.durable
            and self.writer.is_available
            and self._may_begin()
            and self.outbox.may_be_overtaken(stepped.effects)
        )

    def _record(
        self, drafts: Sequence[Draft], beside: Mapping[str, bytes] = _NOTHING, *, is_urgent: bool = True
    ) -> None:
        self.recorded_at = trio.current_time()
        blobs: dict[str, bytes] = dict(beside)
        small = []
        for draft in drafts:
            without, large = split_draft(draft)
            small.append(without)
            blobs |= large
        records, self.tail = sealed(small, self.tail, scope=self._scope, session=self._session)
        store = self.writer.store
        if store.is_immediate and self.outbox.is_empty and self.durable == records[0].seq - 1:
            append = Append(records=records, standing=self.standing(), codec=codec_of(records), blobs=blobs)
            outcome = self.writer.commit((append,))
            if outcome.trouble is None:
                answer = outcome.answers[0]
                if answer is None:
                    self.durable = self.tail.seq
                    self.confirmed = self.writer.doubts
                else:
                    self.refused(answer)
                return
        self.writer.put(self, records, blobs, may_wait=not is_urgent)

    def go_back(self, number: int, before: SessionState, after: SessionState, at_ms: int) -> None:
        body = encode_body(RewoundBody(number=number))
        self._recorder = Recorder(after)
        self._latest = after
        self._record((Draft(at_ms=at_ms, kind=REWOUND, body=body, events=after.data.seq),))
        if not self.outbox.is_empty or self.durable != self.tail.seq:
            self.outbox.put(self.tail.seq, (), before, after, is_recorded=True)

    async def wait_durable(self, number: int) -> None:
        self.writer.hurry()
        while self.durable < number:
            if self.refusal is not None:
                raise self.refusal
            if not self.writer.is_available:
                raise self.writer.unavailable_error()
            if self._settled is None:
                self._settled = trio.Event()
            await self._settled.wait()

    @property
    def is_settled(self) -> bool:
        """Whether all its records are durable, no effects wait for them, and more records would be accepted."""
        return (
            self.refusal is None
            and self.durable == self.tail.seq
            and self.outbox.is_empty
            and self.first is None
            and self.writer.is_available
        )

    # --- snapshots

    def look_for_snapshot(self, state: SessionState) -> None:
        is_due = self._wants_snapshot or is_snapshot_due(self._snapshot, self.tail.seq)
        if is_due and is_at_rest(state):
            self.put_snapshot(state)

    def put_snapshot(self, state: SessionState) -> None:
        """Hand a snapshot to the store, which may fail. Not during work, and not of a state that may be undone."""
        is_whole = self.refusal is None and self.durable == self.tail.seq != self._snapshot
        if is_whole and is_at_rest(state):
            self._put(state)

    def put_last_snapshot(self, state: SessionState) -> None:
        if self.refusal is not None or self.first is not None or state.ended:
            return
        aside = self._recorder.flush()
        if aside:
            self._record(aside)
        if self.tail.seq != self._snapshot:
            begun = [one for one in begun_effects(state) if one not in self.not_begun]
            self._put(state, None if is_at_rest(state) else tuple(begun))

    def _put(self, state: SessionState, begun: tuple[EffectId, ...] | None = None) -> None:
        try:
            snapshot = make_snapshot(state, self.tail, begun)
        except CodecError as error:
            LOGGER.warning("session %s: no snapshot can be made of it: %s", self._session, error)
            return
        self._snapshot, self._wants_snapshot = self.tail.seq, False
        self.writer.post(partial(self._store, snapshot))

    def _store(self, snapshot: StoredSnapshot) -> None:
        if self.refusal is None:  # its records may have been refused before, as another node has the session
            self.writer.store.put_snapshot(snapshot)

    # --- durable effects

    def leaving(self) -> Iterator[tuple[Effect, SessionState]]:
        """Yield the effects that may leave, each with the state after its step. The caller then waits for the next notification."""
        self._is_told = False
        return self.outbox.leaving(self.durable, None if self._guard is None else self._may_begin)

    def _may_begin(self) -> bool:
        return not self.is_held and (self._guard is None or self._guard.may_begin(self))

    async def wait_changed(self) -> None:
        self._changed = trio.Event()
        await self._changed.wait()

    @property
    def is_held_up(self) -> bool:
        return not (self.writer.is_available or self.outbox.is_empty)

    def check_admission(self, signal: Asked) -> None:
        if not self.writer.is_available and not isinstance(signal, _HARMLESS):
            raise self.writer.unavailable_error()

    # --- called by the writer

    def standing(self) -> Standing:
        return stored_standing(self._latest)

    def written(self, up_to: int) -> None:
        self.durable = up_to
        # A look that was sent later may have been answered first.
        self.confirmed = max(self.confirmed, self.writer.sent_doubts)
        self._settle()
        self._tell()

    @property
    def epoch(self) -> int:
        """Number of the session's owner, higher for each later one."""
        return self.tail.epoch

    @property
    def key(self) -> tuple[str, SessionId]:
        """Scope and id of the session."""
        return self._scope, self._session

    def note_owner(self, epoch: int | None, doubts: int) -> None:
        """Called after the owners of sessions were read.

        Args:
            epoch: Epoch of the session, or None if this node does not own it.
            doubts: Doubts of the node when the look was sent.
        """
        if epoch == self.tail.epoch:
            self.confirmed = max(self.confirmed, doubts)
        elif self.refusal is None and not self._latest.ended:
            self.refused(Fenced(self._session, durable_up_to=self.durable))

    @property
    def is_shared(self) -> bool:
        """Whether other nodes can continue the session."""
        return self._guard is not None

    @property
    def has_moved(self) -> bool:
        """Whether another node owns the session."""
        return self._guard is not None and isinstance(self.refusal, Fenced)

    def let_begin(self) -> None:
        """Called when work that was held may begin."""
        self._tell()

    def refused(self, error: AgentrailError) -> None:
        """Called when no more records will be accepted. Waiting effects were never visible, and never will be."""
        self.refusal = error
        self._settle()
        self.outbox.clear()
        self._tell()

    def kept_waiting(self) -> None:
        """Called when the store is unavailable for now. Waiting callers get the error, and decided effects continue."""
        self._settle()
        self._give_callers_up()
        if self._changed is not None:
            self._changed.set()

    def _give_callers_up(self) -> None:
        answered = {answer.to for answer in self.outbox.callers()}
        self._callers.give_callers_up(self.writer.unavailable_error(), answered)

    def _settle(self) -> None:
        if self._settled is not None:
            self._settled.set()
            self._settled = None

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
        elif not self._is_told:
            self._is_told = True
            self._mailbox.put_control(_MAY_LEAVE)
