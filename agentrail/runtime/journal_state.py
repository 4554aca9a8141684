"""Past states of a session: its journal is folded up to a number, in a worker thread, without effects or an event loop."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from attrs import define, field, frozen
from msgspec.structs import replace

from agentrail.abc.store import Store, StoredSession
from agentrail.core.journal.file_changes import FilesBehind, files_behind
from agentrail.core.journal.fold import Sources, first_state, walk
from agentrail.core.journal.record import Record, Tail, join_blobs, tail_of
from agentrail.core.journal.recorded_steps import first_event_in, whole_body
from agentrail.core.journal.replay import ReplayStep, begins, steps_from
from agentrail.core.journal.step_explanation import ExplainedStep, explained_step
from agentrail.core.journal.turn_index import CallBehind, PastTurn, calls_behind, past_turns
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import EffectOutcome
from agentrail.core.session.state import SessionState
from agentrail.core.session.views import Snapshot, Status, snapshot_of
from agentrail.core.stack.loaded_stack import Ask
from agentrail.errors import CodecError, OptionError, Trimmed
from agentrail.frozen import EMPTY, MAX_RECORD_LEVELS, frozen_json
from agentrail.messages import JsonObject, Message
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.arguments import fault_of_whole
from agentrail.runtime.session_loader import PluginFinder, fold_sources, read_after, record_at, state_behind

_LOOKED_BACK: Final = 200

MAX_RECORDS_AT_ONCE: Final = 10_000
"""Maximum number of records that one call returns."""


@frozen(kw_only=True)
class JournalEntry:
    """A record of a journal, in readable form.

    Attributes:
        number: Its number, from 1, without gaps.
        at_ms: Time, on the clock of signals.
        kind: `opened`, `taken`, `heard`, `changed`, `drifted`, `rewound`, `closed`, `erased`, or the kind of a signal, such
            as `prompt`.
        body: Its content, read-only. For a signal all fields, including those omitted from storage because they hold their
            default.
        does: Decisions of the step, one line for each effect that is not ephemeral.
        events: Number of the last event after it.
        epoch: How often the session had been taken over when it was written, from 1.
        hash: Its hash, hexadecimal.
    """

    number: int
    at_ms: int
    kind: str
    body: JsonObject = field(default=EMPTY, repr=False)
    does: tuple[str, ...] = ()
    events: int
    epoch: int
    hash: str

    def __attrs_post_init__(self) -> None:
        """Freeze the content. A reader of another process decodes entries as they are sent."""
        object.__setattr__(self, "body", frozen_json(self.body, max_levels=MAX_RECORD_LEVELS))


@frozen(kw_only=True)
class PastState:
    """State of a session after a record.

    Attributes:
        at_ms: Its time, on the clock of signals.
        snapshot: The session's status, with everything that waited for users.
        messages: Its conversation.
    """

    number: int
    at_ms: int
    snapshot: Snapshot
    messages: tuple[Message, ...] = field(repr=False)

    @property
    def status(self) -> Status:
        return self.snapshot.status


@define(eq=False)
class Journal:
    """The journal of one stored session, and the source of its plugins. Each call blocks."""

    store: Store
    stored: StoredSession
    _finder: PluginFinder
    ask: Ask

    def entries(self, after: int, limit: int) -> tuple[JournalEntry, ...]:
        return journal_entries(self.store, self.stored, after, limit)

    def state_behind(self, number: int) -> SessionState:
        self.check_number(number)
        with self._finder.naming_missing(self.stored.session):
            return self._state_behind(number)

    def past_state(self, number: int) -> PastState:
        state = self.state_behind(number)
        at_ms = record_at(self.store, self.stored, number).at_ms
        return PastState(
            number=number,
            at_ms=at_ms,
            snapshot=snapshot_of(state.phase, state.data, at_ms),
            messages=state.data.history.messages[:],
        )

    def explained(self, number: int) -> ExplainedStep:
        self.check_number(number)
        try:
            # With the present verdicts, so that it shows where they differ from the recorded ones.
            (step,) = self.explained_steps(number - 1, number, keeps_verdicts=False)
        except Trimmed as error:
            # This needs the state before the record, so the first remaining one cannot be explained.
            raise Trimmed(self.stored.session, first=max(error.first, number) + 1) from None
        signal, begun_by = step.walked.signal, None
        if isinstance(signal, EffectOutcome):
            begun_by = self._beginning_of(signal.effect_id, number)
        return explained_step(step.walked, step.runs, begun_by)

    def explained_steps(self, after: int, up_to: int, *, keeps_verdicts: bool = True) -> Iterator[ReplayStep]:
        stored, store = self.stored, self.store
        sources = replace(self._sources(), keeps_verdicts=keeps_verdicts)
        start, tail = None, Tail()
        with self._finder.naming_missing(stored.session):
            if after or stored.first_seq > 1:
                start, tail = self._state_behind(after), tail_of((record_at(store, stored, after),))
            records = read_after(store, stored.scope, stored.session, after, up_to)
            start = first_state(records, sources) if start is None else start
            yield from steps_from(start, records, tail=tail, sources=sources, explains=True)

    def _beginning_of(self, effect_id: EffectId, before: int) -> int | None:
        """Return the record that began an effect. None if it was dropped. It is usually a few records earlier."""
        stored, end = self.stored, before
        while end > stored.first_seq:
            after = max(stored.first_seq - 1, end - 1 - _LOOKED_BACK)
            page = self.store.read(stored.scope, stored.session, after, end - 1 - after)
            for record in reversed(page):
                if begins(record.does, effect_id):
                    return record.seq
            end = after + 1
        return None

    def check_number(self, number: int) -> None:
        stored = self.stored
        if not 1 <= number <= stored.tail.seq:
            fault = f"the number is {repr_of(number)}: expected {stored.first_seq} to {stored.tail.seq}, the range of session {stored.session!r}"
            raise OptionError([fault])

    def number_of(self, at: int | None, turn: int | None) -> int:
        if turn is None:
            number = self.stored.tail.seq if at is None else at
            self.check_number(number)
            return number
        turns = self.turns()
        if not 1 <= turn <= len(turns):
            session = f"session {self.stored.session!r}"
            fits = f"expected 1 to {len(turns)}, the finished turns of {session}"
            raise OptionError(
                [f"turn is {repr_of(turn)}: {fits if turns else f'{session} has no finished turn'}"]
            )
        return turns[turn - 1].record

    def turns(self) -> tuple[PastTurn, ...]:
        records = read_after(self.store, self.stored.scope, self.stored.session, 0, self.stored.tail.seq)
        sources = self._sources()
        return past_turns(walk(first_state(records, sources), records, sources=sources))

    def number_of_event(self, event: int) -> int:
        """Return the record whose step published an event. Event numbers never decrease, so few records are read."""
        stored = self.stored
        low, high = stored.first_seq, stored.tail.seq
        if event < 1 or event > self._events_behind(high):
            fault = f"the event is {event}: expected 1 to {self._events_behind(high)}, the range of session {stored.session!r}"
            raise OptionError([fault])
        # Before the first remaining record, only the fact that records were dropped is known.
        first = record_at(self.store, stored, low)
        if low > 1 and event < (first_event_in(first.does) or first.events + 1):
            raise Trimmed(stored.session, first=low)
        while low < high:
            middle = (low + high) // 2
            if self._events_behind(middle) < event:
                low = middle + 1
            else:
                high = middle
        return low

    def _events_behind(self, number: int) -> int:
        return record_at(self.store, self.stored, number).events

    def calls_behind(self, number: int, up_to: int | None = None) -> tuple[CallBehind, ...]:
        stored = self.stored
        last = stored.tail.seq if up_to is None else up_to
        start, tail = self._state_behind(number), tail_of((record_at(self.store, stored, number),))
        records = read_after(self.store, stored.scope, stored.session, number, last)
        return calls_behind(walk(start, records, tail=tail, sources=self._sources()))

    def files_behind(self, number: int) -> FilesBehind:
        self.check_number(number)
        stored, store = self.stored, self.store
        records = read_after(store, stored.scope, stored.session, number, stored.tail.seq)
        return files_behind(records, store.blob)

    def _sources(self) -> Sources:
        return fold_sources(self.store, self.stored, self._finder, self.ask)

    def _state_behind(self, number: int) -> SessionState:
        return state_behind(self.store, self.stored, self._finder, self.ask, number)


def journal_entries(store: Store, stored: StoredSession, after: int, limit: int) -> tuple[JournalEntry, ...]:
    return tuple([entry_of(one, store) for one in store.read(stored.scope, stored.session, after, limit)])


fault_of_after: Final = partial(fault_of_whole, "after", least=0)
fault_of_limit: Final = partial(fault_of_whole, "limit", least=1, most=MAX_RECORDS_AT_ONCE)


def fault_of_number(name: str, value: object, *, needed: bool = False) -> str | None:
    if (value is None and not needed) or type(value) is int:
        return None
    return f"{name} is {repr_of(value):.200}: expected a whole number >= 1"


def entry_of(record: Record, store: Store) -> JournalEntry:
    try:
        text = join_blobs(record.body, store.blob)
        with suppress(CodecError):  # a newer version wrote it, so it is shown unchanged
            text = whole_body(record.kind, record.at_ms, text)
        body: JsonObject = msgspec.json.decode(text)
    except (CodecError, msgspec.DecodeError, RecursionError) as error:
        message = f"record {record.seq} of session {record.session!r} ({record.kind}) cannot be read: {error}"
        raise CodecError(message, path="$") from error
    return JournalEntry(
        number=record.seq,
        at_ms=record.at_ms,
        kind=record.kind,
        body=body,
        does=tuple(record.does.split("\n")) if record.does else (),
        events=record.events,
        epoch=record.epoch,
        hash=record.hash.hex(),
    )
