"""Folding of records: the state of a session is the fold of its journal, and nothing else is authoritative. Pure."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from agentrail.core.journal.record import (
    CHANGED,
    DRIFTED,
    ERASED,
    HEARD,
    OPENED,
    OWN_KINDS,
    REWOUND,
    TAKEN,
    Record,
    Tail,
    decode_changed,
    decode_drifted,
    decode_rewound,
    decode_taken,
    fits_behind,
    join_blobs,
    open_state,
    state_changed,
)
from agentrail.core.journal.recorded_steps import (
    decode_signal_body,
    effects_named,
    operation_id_in,
    operations_in,
    outline,
)
from agentrail.core.protocol.actions import Continue
from agentrail.core.protocol.effects import Effect
from agentrail.core.protocol.hooks import HookEvent
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ChangeTools, Recovered, Signal
from agentrail.core.session.fork import without_what_was_open
from agentrail.core.session.machine import step
from agentrail.core.session.recorded_calls import GUESSES, BeganCall, RecordedCalls, began_in
from agentrail.core.session.state import DoubtfulCalls, SessionState
from agentrail.core.session.state_codec import decode_session
from agentrail.core.session.state_shapes import NO_PLUGINS, Resolve
from agentrail.core.stack.loaded_stack import Ask, Member, call_handler as plainly
from agentrail.core.stack.plugin import Context
from agentrail.core.wire.codec import SIGNAL_KINDS
from agentrail.errors import CodecError, Erased, InternalError, JournalCorrupt, OptionError
from agentrail.messages import PromptRef, SessionId
from agentrail.structs import picked_fields

B = TypeVar("B")

GetBlob: TypeAlias = Callable[[str], bytes | None]
"""Returns a large value by its SHA-256, or None if it is missing."""


def no_blobs(_: str) -> None:
    """Return None for every large value."""


class Sources(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Sources of the values that records refer to.

    Attributes:
        resolve: Returns the plugin of each stored record.
        ask: How handlers are called. Its `find`, if any, finds plugins that a signal attached: see `find_code`.
        blob: Returns large values.
        state_at: Returns the state after a number before the given records. None if no rewind can go back that far.
        keeps_verdicts: Whether the records decide which calls ran, and newer guards do not: see `RecordedCalls`.
    """

    resolve: Resolve = NO_PLUGINS
    ask: Ask = plainly
    blob: GetBlob = no_blobs
    state_at: Callable[[int], SessionState] | None = None
    keeps_verdicts: bool = False


NO_SOURCES: Final = Sources()


class Walked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record and its result.

    Attributes:
        record: The record.
        before: The state before it.
        signal: The signal of the step. None for a record that is not a signal.
        after: The state after it.
        effects: The effects of the step. None is carried out.
        does: The outline of these.
        crash: The bug of the core, in one line, if a signal that it once accepted now crashes it. Otherwise None.
            After a crash `after` is `before`.
        set_aside: The plugins whose verdicts on calls did not count, because the record has the outcome of those
            calls.
    """

    record: Record
    before: SessionState
    signal: Signal | None
    after: SessionState
    effects: tuple[Effect, ...] = ()
    does: str = ""
    crash: str | None = None
    set_aside: tuple[str, ...] = ()


class Drift(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The point where the fold starts to differ from the recorded history.

    Attributes:
        first: The number of the first record that differs.
        kind: Its kind.
        what: The part that differs.
        recorded: The part in the record.
        folded: The part in the fold.
        events: The number of the last event from here on: the larger of both.
        operation: The first operation that only one of both starts, as written in an outline. Empty if only texts
            differ.
        plugin: The probable cause: the last plugin that decided in the step. Empty for the engine.
    """

    first: int
    kind: str
    what: Literal["does", "events", "crash"]
    recorded: str
    folded: str
    events: int = 0
    operation: str = ""
    plugin: str = ""

    @property
    def is_of_deeds(self) -> bool:
        """Whether operations differ, and not only events, texts and timers."""
        return bool(self.operation)

    def __str__(self) -> str:
        recorded, folded = (" | ".join(text.split("\n")) for text in (self.recorded, self.folded))
        return f"record {self.first} ({self.kind}): {self.what} was {recorded!r} and is {folded!r}"


class Folded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a fold.

    Attributes:
        tail: The end of the journal.
        drift: Where the fold differs from the recorded history. None if it does not, or if a `drifted` record
            covers it. A difference in operations has priority over one in texts.
        is_restored: Whether it has not continued since its store was restored from a backup.
    """

    state: SessionState
    tail: Tail
    begun: tuple[EffectId, ...] = ()
    attempt: int = 0
    drift: Drift | None = None
    set_aside: tuple[tuple[str, int], ...] = ()
    is_restored: bool = False


def fold(
    start: SessionState,
    records: Sequence[Record],
    *,
    tail: Tail = Tail(),  # noqa: B008 - frozen
    begun: Iterable[EffectId] = (),
    sources: Sources = NO_SOURCES,
) -> Folded:
    first = _newest_state(records, sources)
    if first:  # it holds the newer code's fold of the records before it, which are not folded again
        for record in records[:first]:
            _check(tail, record)
            tail = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
    state, end, named = start, tail, set(begun)
    settled = max((record.seq for record in records if record.kind == DRIFTED), default=0)
    found = _Found()
    for walked in walk(start, records[first:], tail=tail, sources=sources):
        record, state = walked.record, walked.after
        end = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
        if record.kind == DRIFTED and (drifted := _told(record, decode_drifted, sources)).has_state:
            named = set(drifted.begun)
        if record.does:
            named |= effects_named(record.does)
            if len(named) > _MANY_NAMED:  # of all effects that ever ran, only open ones matter
                named = {effect_id for effect_id in named if effect_id in state.data.open}
        if record.seq > settled:
            found.look_at(walked, sources)
    drift, causes = found.drift, _causes(records)
    if drift is not None:
        events = max(state.data.seq, records[-1].events)
        drift = replace(drift, events=events)
        state = found.doubting(_with_events(state, events))
    return Folded(
        state=state,
        tail=end,
        begun=tuple(sorted((one for one in named if one in state.data.open), key=_number)),
        attempt=sum(cause not in ("drain", "restored") for cause in causes),
        drift=drift,
        set_aside=tuple(found.set_aside.items()),
        is_restored=causes[-1:] == ["restored"],
    )


class _Found:
    """Findings of a fold about its code: how it differs, and which operations both started."""

    def __init__(self) -> None:
        self.drift: Drift | None = None
        self.set_aside: Counter[str] = Counter()
        self._doubtful: dict[BeganCall, None] = {}  # since an earlier drift
        self._recorded: dict[str, None] = {}
        self._folded: set[str] = set()

    def look_at(self, walked: Walked, sources: Sources) -> None:
        self.set_aside.update(walked.set_aside)
        if walked.before.data.doubtful is not None:
            self._doubtful |= dict.fromkeys(walked.before.data.doubtful.calls)
        self._recorded |= dict.fromkeys(operations_in(walked.record.does))
        self._folded.update(operations_in(walked.does))
        if self.drift is not None and self.drift.is_of_deeds:
            return
        drift = drift_of(walked)
        if drift is not None and (self.drift is None or drift.is_of_deeds):
            self.drift = replace(drift, plugin=_last_asked(walked, sources))

    def doubting(self, state: SessionState) -> SessionState:
        """Mark the calls that a record names and that did not end in this state as doubtful."""
        data = state.data
        ended = {one for one in self._folded if operation_id_in(one) not in data.open}
        lost = [one for one in self._recorded if one not in ended]
        doubtful = tuple(self._doubtful | dict.fromkeys(began_in("\n".join(lost))))
        if not doubtful or self.drift is None or not self.drift.is_of_deeds:
            return state
        known = (
            *((data.cycle.ref,) if data.cycle is not None else ()),
            *((data.held.prompt.ref,) if data.held is not None and data.held.prompt is not None else ()),
            *(prompt.ref for prompt in data.queue),
            *(PromptRef(steer.ref) for steer in data.steers),
        )
        doubts = DoubtfulCalls(calls=doubtful, prompts=known)
        return replace(state, data=replace(data, doubtful=doubts))


def _last_asked(walked: Walked, sources: Sources) -> str:
    """Return the plugin that last decided in a step, otherwise the last one called, or an empty name."""
    if walked.signal is None:
        return ""
    asked: list[tuple[str, bool]] = []

    def watch(member: Member, event: HookEvent, state: Any, ctx: Context) -> object:
        answer = sources.ask(member, event, state, ctx)
        asked.append((member.name, isinstance(answer, Continue)))
        return answer

    with contextlib.suppress(InternalError):
        step(asked_by(walked.before, watch), walked.signal)
    said = [name for name, is_silent in asked if not is_silent]
    return said[-1] if said else asked[-1][0] if asked else ""


def _newest_state(records: Sequence[Record], sources: Sources) -> int:
    """Return the index of the last `drifted` record with a state, at which a fold may start, or 0."""
    for place in range(len(records) - 1, 0, -1):
        record = records[place]
        if record.kind == REWOUND and sources.state_at is None:
            return 0
        if record.kind == DRIFTED and _told(record, decode_drifted, sources).has_state:
            return place
    return 0


def _causes(records: Sequence[Record]) -> list[str]:
    """Return the causes of the takeovers after which nothing happened, oldest first."""
    takers: list[Record] = []
    for record in records:
        if record.kind == TAKEN:
            takers.append(record)
        elif takers and record.kind not in RECOVERY_KINDS:
            takers.clear()
    return [decode_taken(record.body).cause for record in takers]


def fold_journal(records: Sequence[Record], sources: Sources = NO_SOURCES) -> Folded:
    return fold(first_state(records, sources), records, sources=sources)


def first_state(records: Sequence[Record], sources: Sources = NO_SOURCES) -> SessionState:
    if not records:
        raise JournalCorrupt(_NO_SESSION, 1, why="it is missing")
    first = records[0]
    if first.seq == 1 and first.kind == ERASED:
        raise Erased(first.session, 1)
    _check(Tail(), first)
    if first.kind != OPENED:
        raise JournalCorrupt(
            first.session, 1, why=f"it is {first.kind!r}, but a journal must begin with 'opened'"
        )
    state = _told(first, lambda body: open_state(body, sources.resolve, sources.ask), sources)
    own = state.data.config
    if (own.scope, own.path[-1:]) != (first.scope, (first.session,)) or own.session_id != first.session:
        why = f"it opens {own.session_id!r:.80} below {own.path[:-1]!r:.80}"
        raise JournalCorrupt(first.session, 1, why=why)
    return state


def walk(
    start: SessionState,
    records: Sequence[Record],
    *,
    tail: Tail = Tail(),  # noqa: B008 - frozen
    sources: Sources = NO_SOURCES,
) -> Iterator[Walked]:
    """Fold records one at a time. Arguments and errors are those of `fold`. The caller makes the comparison.

    A signal that crashes the core is skipped, as it would have been live.
    """
    targets = {_target_of(record) for record in records if record.kind == REWOUND}
    kept = {tail.seq: start}
    state = start
    later = [record.does for record in records] if sources.keeps_verdicts else None
    for place, record in enumerate(records):
        _check(tail, record)
        tail = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
        walked = _walked(record, state, sources, kept)
        if later is not None and drift_of(walked) is not None:
            walked = _as_recorded(walked, later, place)
        state = walked.after
        if record.seq in targets:
            kept[record.seq] = state
        yield walked


def drift_of(walked: Walked) -> Drift | None:
    record = walked.record
    if walked.signal is None:
        return None
    if walked.crash is not None:
        return Drift(
            first=record.seq,
            kind=record.kind,
            what="crash",
            recorded=record.does,
            folded=walked.crash,
            operation=f"signal {record.kind}",
        )
    if walked.does != record.does:
        recorded, folded = operations_in(record.does), operations_in(walked.does)
        operations = [one for one in (*recorded, *folded) if (one in recorded) is not (one in folded)]
        return Drift(
            first=record.seq,
            kind=record.kind,
            what="does",
            recorded=record.does,
            folded=walked.does,
            operation=operations[0] if operations else "",
        )
    seq = walked.after.data.seq
    if seq != record.events:
        return Drift(
            first=record.seq, kind=record.kind, what="events", recorded=str(record.events), folded=str(seq)
        )
    return None


def rewound_state(now: SessionState, then: SessionState, at_ms: int) -> SessionState:
    """Return the state of a session that goes back to an earlier one of its own.

    Everything is as it was then, with three exceptions. Open work has ended, as in a fork. Its code is that of now:
    the gates of its host, and the tools of its agents. And published facts cannot be withdrawn: numbers of events
    and ids of effects continue, spending stays spent, ids of calls are not reused, and a caller that repeats a
    message gets its receipt.
    """
    data = now.data
    then = without_what_was_open(then, at_ms, data.semantics)
    ledger = then.data.ledger
    if ledger is not None and data.ledger is not None:
        ledger = replace(data.ledger, budget=ledger.budget, open=ledger.open)
    gone_on = replace(
        then.data,
        ledger=ledger,
        model=data.model if data.model.model == then.data.model.model else then.data.model,
        **picked_fields(data, "seq", "minted", "dropped", "quarantined", "incarnation", "usage"),
        **picked_fields(data, "call_ids", "config", "remembered", "semantics"),
    )
    return replace(then, data=gone_on)


def asked_by(state: SessionState, ask: Ask) -> SessionState:
    data = state.data
    stack = replace(data.stack, ask=ask)
    return replace(state, data=replace(data, stack=stack))


# --- one record

RECOVERY_KINDS: Final = frozenset(
    {TAKEN, DRIFTED, CHANGED, *(SIGNAL_KINDS[one] for one in (ChangeTools, Recovered))}
)
"""Kinds of records that a recovery writes itself. If only these follow, nothing has happened since."""

_MANY_NAMED: Final = 1_000


def _check(tail: Tail, record: Record) -> None:
    due = tail.seq + 1
    if record.seq != due:
        raise JournalCorrupt(record.session, due, why=f"it is missing: found {record.seq} in its place")
    if record.epoch < tail.epoch or not fits_behind(tail.hash, record):
        raise JournalCorrupt(record.session, due)


def _walked(record: Record, state: SessionState, sources: Sources, kept: dict[int, SessionState]) -> Walked:
    kind = record.kind
    if kind in _NO_SIGNALS:
        after = _after(record, state, sources, kept)
        return Walked(record=record, before=state, signal=None, after=after)
    signal = _told(record, partial(decode_signal_body, kind, record.at_ms), sources)
    try:
        after, effects = step(state, signal)
    except InternalError as error:
        return Walked(record=record, before=state, signal=signal, after=state, crash=str(error))
    return Walked(
        record=record, before=state, signal=signal, after=after, effects=effects, does=outline(effects)
    )


def _as_recorded(walked: Walked, does: Sequence[str], place: int) -> Walked:
    """Repeat a step with the recorded outcome of its calls: identical if possible, otherwise with the same operations."""
    record, signal = walked.record, walked.signal
    assert signal is not None  # noqa: S101 - only a step can differ
    best: tuple[bool, Walked] | None = None
    for guess in GUESSES:
        recorded = RecordedCalls(does, place, guess)
        try:
            after, effects = step(walked.before, signal, recorded)
        except InternalError:
            continue
        tried = Walked(
            record=record,
            before=walked.before,
            signal=signal,
            after=after,
            effects=effects,
            does=outline(effects),
            set_aside=tuple(recorded.set_aside),
        )
        if not recorded.was_asked:
            return walked
        drift = drift_of(tried)
        if drift is None:
            return tried
        if best is None or (best[0] and not drift.is_of_deeds):
            best = drift.is_of_deeds, tried
    return walked if best is None else best[1]


_NO_SIGNALS: Final = OWN_KINDS - {HEARD}


def _after(
    record: Record, state: SessionState, sources: Sources, kept: dict[int, SessionState]
) -> SessionState:
    match record.kind:
        case "opened" if record.seq > 1:
            raise JournalCorrupt(
                record.session, record.seq, why="a journal is opened only once, at its beginning"
            )
        case "taken":
            _told(record, decode_taken, sources)  # an unreadable body names its engine, which is newer
            return state
        case "changed":
            return _told(
                record,
                lambda body: state_changed(state, decode_changed(body), sources.resolve, sources.ask),
                sources,
            )
        case "drifted":
            body = _told(record, decode_drifted, sources)
            if not body.has_state:
                return _with_events(state, body.events)
            return decode_session(bytes(body.state), sources.resolve, ask=sources.ask)
        case "rewound":
            number = _told(record, decode_rewound, sources).number
            return rewound_state(state, _state_behind(number, record, sources, kept), record.at_ms)
        case "closed":
            return replace(state, ended=True)
        case "erased":
            raise Erased(record.session, record.seq)
        case _:  # opened
            return state


def _state_behind(
    number: int, record: Record, sources: Sources, kept: dict[int, SessionState]
) -> SessionState:
    if not 0 < number < record.seq:
        why = f"it goes back to {number}: expected 1 to {record.seq - 1}"
        raise JournalCorrupt(record.session, record.seq, why=why)
    if number in kept:
        return kept[number]
    if sources.state_at is None:
        message = (
            f"record {record.seq} of session {record.session!r} goes back to {number}, which precedes the records "
            "given: fold from an earlier number, or give state_at"
        )
        raise OptionError([message])
    return sources.state_at(number)


_NO_SESSION: Final = SessionId("")


def _target_of(record: Record) -> int:
    """Return the target of a rewind. 0 for an unreadable one, which is reported in its turn."""
    try:
        return decode_rewound(record.body).number
    except CodecError:
        return 0


def _told(record: Record, decode: Callable[[bytes], B], sources: Sources) -> B:
    try:
        return decode(join_blobs(record.body, sources.blob))
    except CodecError as error:
        message = f"record {record.seq} of session {record.session!r} ({record.kind}): {error}"
        raise CodecError(message, path=error.path) from error


def _with_events(state: SessionState, events: int) -> SessionState:
    return replace(state, data=replace(state.data, seq=events))


def _number(effect_id: EffectId) -> int:
    return int(effect_id[1:])
