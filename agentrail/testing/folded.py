"""`folded_sessions()`: journals every session of a test in memory, and checks that its state equals its folded journal.

    with folded_sessions():
        trio.run(main)

Records are encoded while a session lives, step by step, as for a store. At the end of the block, each journal is folded from
these bytes, with the plugins of the session. The decisions of each step, every published event and the state are compared. A
difference means that the session could not be resumed as it was. Usually a plugin uses more than its state, its options and
its events, otherwise agentrail has a bug. Sessions in a memory store are folded from there.

No store is added, and watching changes no behaviour or answer of a session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from agentrail.abc.store import Store
from agentrail.core.journal.fold import GetBlob, Sources, drift_of, first_state, walk
from agentrail.core.journal.record import DRIFTED, ERASED, REWOUND, Draft, Record, Tail, sealed, split_draft
from agentrail.core.journal.recorder import Recorder, opened_draft
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.signals import ChangePlugins, Signal, SignalId
from agentrail.core.session.state import SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.core.stack.plugin import Plugin
from agentrail.errors import AgentrailError, CodecError, SessionNotFound, StoreUnavailable, Trimmed
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import call_guarded
from agentrail.runtime import session_actor as sessions
from agentrail.runtime.persistence import ENGINE
from agentrail.runtime.plugin_watch import PluginWatch, QuietWatch
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_journal import SessionJournal
from agentrail.runtime.session_loader import PluginFinder, read_after
from agentrail.testing.differences import first_difference
from agentrail.testing.seams import Seam, around, wrapped

_MAX_FAULTS: Final = 5
_MAX_SHOWN: Final = 600


class FoldDiffers(AssertionError):
    """A session differs from its folded journal."""


class FoldedSessions:
    """The sessions of a block.

    Attributes:
        folded: Number of sessions folded without a difference. Known after the block.
        left_out: Sessions left out, by id, with the reason. Also known after the block. A session that no store would accept has
            no journal. For a session in another store, or cut short by a store, the journal is incomplete.
    """

    def __init__(self) -> None:
        """Create an empty set. Use `folded_sessions`."""
        self.folded: int = 0
        self.left_out: list[tuple[SessionId, str]] = []
        self._lives: list[_Life] = []
        # By identity of the objects kept here meanwhile. Sessions until they end: their content is freed as without a watch.
        self._live: dict[int, tuple[SessionCell, _Life]] = {}
        # The current state of each session: a step of the core knows no session, and each one continues from its last state.
        self._standing: dict[int, _Life] = {}
        self._coming: dict[SignalId, Plugin] = {}

    def follow(self, cell: SessionCell) -> None:
        """Start recording a session, unless it is already recorded."""
        if id(cell) in self._live:
            return
        life: _Life = _Noted(cell) if cell.journal is None else _Kept(cell, cell.journal)
        self._live[id(cell)] = (cell, life)
        self._standing[id(cell.state)] = life
        self._lives.append(life)

    def let_go(self, cell: SessionCell) -> None:
        """Take the compared values of an ended session, and drop the rest."""
        _, life = self._live.pop(id(cell), (None, None))
        if life is not None:
            self._standing.pop(id(life.state), None)
            life.take_end(cell)

    def note(
        self, before: SessionState, signal: Signal, after: SessionState, effects: tuple[Effect, ...]
    ) -> None:
        """Record a step of any session."""
        if type(signal) is ChangePlugins and signal.entry is not None:
            watch = before.data.stack.ask
            found = watch.find(signal.signal_id, signal.entry) if isinstance(watch, PluginWatch) else None
            if found is not None:
                self._coming[signal.signal_id] = found
        life = self._standing.pop(id(before), None)
        if life is not None:
            self._standing[id(after)] = life
            life.note(before, signal, after, effects)

    def faults(self) -> list[str]:
        """Fold all sessions, and return the differences."""
        for cell, _ in tuple(self._live.values()):
            self.let_go(cell)
        said: list[str] = []
        for life in self._lives:
            why: str | None = None
            fault: str | None = None
            try:
                why = life.left_out()
                if why is None:
                    fault = life.fault(self._coming)
            except AgentrailError as error:
                fault = f"its journal cannot be folded: {type(error).__name__}: {error}"
            if why is not None:
                self.left_out.append((life.session_id, why))
            elif fault is None:
                self.folded += 1
            else:
                said.append(f"session {life.session_id!r}: {fault}")
        return said


class _Life:
    """One session, from its first incarnation to its end.

    Attributes:
        state: The last known state, kept so that its identity stays unique.
    """

    def __init__(self, cell: SessionCell) -> None:
        self.state: SessionState = cell.state
        self.session_id: SessionId = cell.state.data.config.session_id
        self.scope: str = cell.state.data.config.scope
        self._user_data = cell.ports.user_data
        self._plugins: dict[str, Plugin] = {plugin.name: plugin for plugin in cell.plugins}
        self._kept: tuple[Event, ...] = ()
        self._last_event = 0
        self._is_told = True

    def note(
        self, before: SessionState, signal: Signal, after: SessionState, effects: tuple[Effect, ...]
    ) -> None:
        del before, signal, effects
        self.state = after

    def take_end(self, cell: SessionCell) -> None:
        self.state, self._kept, self._last_event = cell.state, cell.bus.kept, cell.bus.last_seq

    def left_out(self) -> str | None:
        """Return why it cannot be folded. None if it can."""
        raise NotImplementedError

    def records(self) -> tuple[Sequence[Record], GetBlob]:
        raise NotImplementedError

    def fault(self, coming: Mapping[SignalId, Plugin]) -> str | None:
        """Fold it, and return the difference. None if there is none."""
        records, blob = self.records()
        watch = QuietWatch(self.session_id, self._user_data)
        for change, plugin in coming.items():
            watch.keep(change, plugin)
        finder = PluginFinder(self._plugins)
        watch.find_others(finder)
        sources = Sources(resolve=finder, ask=watch, blob=blob)
        settled = max((one.seq for one in records if one.kind in _NEW_BEGINNINGS), default=0)
        state = first_state(records, sources)
        events: dict[int, Event] = {}
        for walked in walk(state, records, sources=sources):
            state = walked.after
            if walked.record.seq <= settled:
                continue
            drift = drift_of(walked)
            if drift is not None:
                return str(drift)[:_MAX_SHOWN]
            events |= dict(committed_events(walked.effects))
        return self._fault_of_events(events) or state_fault(self.state, state)

    def _fault_of_events(self, events: Mapping[int, object]) -> str | None:
        first = min(events, default=self._last_event + 1)
        for event in self._kept:
            assert event.meta is not None
            number = event.meta.seq
            if number >= first and events.get(number) != event:
                return f"event {number} was {_shown(event)} and folds to {_shown(events.get(number))}"
        if self._is_told and events and max(events) > self._last_event:
            return (
                f"event {max(events)} results from the fold, but the last published one is {self._last_event}"
            )
        return None


_NEW_BEGINNINGS: Final = frozenset({DRIFTED, REWOUND})
"""Records after which event numbers, or the state, differ from the fold of earlier records."""


class _Noted(_Life):
    """A session without a store: its records are kept here."""

    def __init__(self, cell: SessionCell) -> None:
        super().__init__(cell)
        self._recorder = Recorder(cell.state)
        self._blobs: dict[str, bytes] = {}
        self._drafts: list[Draft] = []
        self._refusal: str | None = None
        self._trouble: BaseException | None = None
        try:
            self._keep((opened_draft(cell.state, at_ms=now_ms(), engine=ENGINE),))
        except CodecError as error:
            self._refusal = f"no store accepts it: {error}"

    def note(
        self, before: SessionState, signal: Signal, after: SessionState, effects: tuple[Effect, ...]
    ) -> None:
        super().note(before, signal, after, effects)
        if self._refusal is not None or self._trouble is not None:
            return

        def fail(error: BaseException) -> None:
            self._trouble = error

        call_guarded(fail, lambda: self._keep(self._recorder.note(before, signal, after, effects)))

    def _keep(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            small, large = split_draft(draft)
            self._drafts.append(small)
            self._blobs |= large

    def left_out(self) -> str | None:
        """Return why no store would accept it."""
        return self._refusal

    def records(self) -> tuple[Sequence[Record], GetBlob]:
        if self._trouble is not None:
            raise self._trouble
        self._keep(self._recorder.flush())
        return sealed(self._drafts, Tail(), scope=self.scope, session=self.session_id)[0], self._blobs.get


class _Kept(_Life):
    def __init__(self, cell: SessionCell, journal: SessionJournal) -> None:
        super().__init__(cell)
        store = journal.writer.store
        self._store: Store = getattr(store, "inner", store)  # the store inside one that fails on request
        self._tail = journal.tail
        self._refusal: AgentrailError | None = None
        self._aside: tuple[Draft, ...] = ()
        self._records: tuple[Record, ...] = ()

    def take_end(self, cell: SessionCell) -> None:
        """Also take the end of its own part of the journal, with the values stored separately at that time."""
        super().take_end(cell)
        journal = cell.journal
        assert journal is not None
        self._tail, self._refusal = journal.tail, journal.refusal
        self._aside = journal._recorder.flush()  # noqa: SLF001 - our own test kit
        # Otherwise its store was unreachable too long: the events are recorded, and were never published.
        self._is_told = journal.outbox.is_empty

    def left_out(self) -> str | None:
        """Return why its store is incomplete, or cannot be read."""
        if self._refusal is not None:
            return f"its store refused it: {self._refusal}"
        if not self._store.is_immediate:
            return "its store is not in memory"
        try:
            self._records = read_after(self._store, self.scope, self.session_id, 0)[: self._tail.seq]
        except (Trimmed, StoreUnavailable, SessionNotFound) as error:
            return str(error)
        if any(record.kind == ERASED for record in self._records):
            return "its content was erased"
        if not self._records or self._records[-1].hash != self._tail.hash:
            return "its store has only part of it"
        return None

    def records(self) -> tuple[Sequence[Record], GetBlob]:
        rest, _ = sealed(self._aside, self._tail, scope=self.scope, session=self.session_id)
        return (*self._records, *rest), self._store.blob


def committed_events(effects: Iterable[Effect]) -> Iterator[tuple[int, Event]]:
    """Yield the numbered events of a step, with their numbers."""
    for effect in effects:
        if isinstance(effect, Publish):
            meta = effect.event.meta
            assert meta is not None
            if not meta.ephemeral:
                yield meta.seq, effect.event


@contextmanager
def folded_sessions() -> Iterator[FoldedSessions]:
    """Journal all sessions of the process in memory during the block, and raise at its end if one differs from its journal.

    Not in two threads at once, because classes are patched. An exception of the block propagates unchanged.

    Raises:
        FoldDiffers: A session differs from its folded journal. The message names the first differing record.
    """
    watched = FoldedSessions()
    with wrapped(_seams(watched)):
        yield watched
    faults = watched.faults()
    if faults:
        shown = "\n".join(faults[:_MAX_FAULTS])
        message = (
            f"{len(faults)} of {len(faults) + watched.folded} sessions differ from their journals:\n{shown}"
        )
        raise FoldDiffers(message)


def _seams(watched: FoldedSessions) -> tuple[Seam, ...]:
    @around
    async def runs(before: Any, cell: SessionCell, *args: Any) -> Any:
        watched.follow(cell)
        return await before(cell, *args)  # why it is parked, for its supervisor

    @around
    def steps(before: Any, state: SessionState, signal: Signal) -> tuple[SessionState, tuple[Effect, ...]]:
        after, effects = before(state, signal)
        watched.note(state, signal, after, effects)
        return after, effects

    @around
    def finishes(before: Any, cell: SessionCell, reason: str) -> None:
        before(cell, reason)
        watched.let_go(cell)

    @around
    def suspends(before: Any, cell: SessionCell, *args: Any) -> None:
        watched.let_go(cell)  # recorded again when it wakes
        before(cell, *args)

    return (
        (SessionCell, "run", runs),
        (SessionCell, "finish", finishes),
        (SessionCell, "suspend", suspends),
        (sessions, "step", steps),
    )


def _shown(event: object) -> str:
    return "nothing" if event is None else repr(event)[:_MAX_SHOWN]


def state_fault(lived: SessionState, folded: SessionState) -> str | None:
    """Return how two states of one session differ, or None."""
    one, other = encode_session(lived), encode_session(folded)
    if one == other:
        return None
    path, was, now = first_difference(msgspec.json.decode(one), msgspec.json.decode(other))
    return f"its state was {path}: {repr(was)[:_MAX_SHOWN]} and folds to {repr(now)[:_MAX_SHOWN]}"
