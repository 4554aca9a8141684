"""Fold equals life: sessions that are folded again from their records while they live."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from attrs import define, field

from agentrail.core.journal.fold import Sources, drift_of, first_state, walk
from agentrail.core.journal.record import DRIFTED, ERASED, REWOUND, Record, Tail
from agentrail.core.protocol.signals import ChangePlugins
from agentrail.core.session.state import SessionData, SessionState
from agentrail.errors import AgentrailError
from agentrail.events import Event
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.session_loader import PluginFinder
from agentrail.testing.folded import committed_events, state_fault
from agentrail.testing.simulation.facts import SessionStep
from agentrail.testing.simulation.gods_eye import Checker
from agentrail.testing.simulation.log import LineKind, LogLine

_FIELDS: Final = tuple(SessionData.__struct_fields__)


class _Shadow:
    """A session that is folded again, record by record."""

    def __init__(self) -> None:
        self.sources: Sources | None = None
        self.waiting: list[Record | Tail] = []
        self.heard = 0  # number of the last record
        self.blobs: dict[str, bytes] = {}
        self.steps: dict[int, SessionStep] = {}
        self._state: SessionState | None = None
        self._tail = Tail()
        self._equal: tuple[SessionState, SessionState] | None = None  # what was compared last
        self._events: dict[int, Event] = {}

    def attach(self, step: SessionStep) -> None:
        """Use the plugins of a live session."""
        watch, signal = step.before.data.stack.ask, step.signal
        if self.sources is None:
            finder = PluginFinder({one.plugin.name: one.plugin for one in step.before.data.stack.members})
            ask = watch.quiet() if isinstance(watch, PluginWatch) else watch
            if isinstance(ask, PluginWatch):
                ask.find_others(finder)
            self.sources = Sources(resolve=finder, ask=ask, blob=self.blobs.get)
        known = self.sources.ask
        if isinstance(signal, ChangePlugins) and signal.entry is not None and isinstance(known, PluginWatch):
            found = watch.find(signal.signal_id, signal.entry) if isinstance(watch, PluginWatch) else None
            if found is not None:
                known.keep(signal.signal_id, found)

    def hear(self, step: SessionStep) -> None:
        self._events |= dict(committed_events(step.effects))
        if step.record:
            self.steps[step.record] = step

    def fold(self) -> str | None:
        """Fold all records that are due, and return the first difference."""
        if self.sources is None:
            return None
        due, self.waiting = self.waiting, []
        for record in due:
            if isinstance(record, Tail):
                self._tail = record
                continue
            if self._state is None:
                self._state = first_state((record,), self.sources)
            (walked,) = walk(self._state, (record,), tail=self._tail, sources=self.sources)
            self._state = walked.after
            self._tail = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
            drift = drift_of(walked)
            step = self.steps.pop(record.seq, None)
            said = (
                str(drift)
                if drift is not None
                else self._compare(step, dict(committed_events(walked.effects)))
            )
            if said is not None:
                return f"record {record.seq} ({record.kind}): {said}"
        return None

    def _compare(self, step: SessionStep | None, folded_events: Mapping[int, object]) -> str | None:
        for number, event in folded_events.items():
            lived = self._events.pop(number, event)
            if lived != event:
                return f"event {number} was {lived!r} and folds to {event!r}"
        if step is None or self._state is None:
            return None
        lived_state, folded = step.after, self._state
        fault = None if _is_equal(lived_state, folded, self._equal) else state_fault(lived_state, folded)
        if fault is None:
            self._equal = lived_state, folded
        return fault


def _is_equal(
    lived: SessionState, folded: SessionState, known: tuple[SessionState, SessionState] | None
) -> bool:
    """Whether two states are equal, by the fields that changed since two equal ones."""
    if (lived.phase, lived.ended, lived.postponed) != (folded.phase, folded.ended, folded.postponed):
        return False
    for name in _FIELDS:
        one, other = getattr(lived.data, name), getattr(folded.data, name)
        if (
            known is not None
            and one is getattr(known[0].data, name)
            and other is getattr(known[1].data, name)
        ):
            continue
        if one is not other and one != other:
            return False
    return True


@define(eq=False)
class FoldEqualsLife(Checker):
    """A shadow folds each durable record of some sessions, which are drawn by id. Its state, its decisions and its events are those of the live session."""

    name = "fold equals life"
    kinds: ClassVar[frozenset[LineKind]] = frozenset({"step"})

    _is_drawn: Callable[[str], bool] = bool
    _shadows: dict[str, _Shadow | None] = field(init=False, factory=dict)
    folded: int = field(init=False, default=0)

    def _shadow_of(self, session: str) -> _Shadow | None:
        if session not in self._shadows:
            self._shadows[session] = _Shadow() if self._is_drawn(session) else None
        return self._shadows[session]

    def judge(self, line: LogLine) -> str | None:
        touched: dict[str, _Shadow] = {}
        if isinstance(line.facts, SessionStep):
            shadow = self._shadow_of(line.session)
            if shadow is not None and (
                shadow.sources is None or isinstance(line.facts.signal, ChangePlugins)
            ):
                shadow.attach(line.facts)
                touched[line.session] = shadow
        for session, step in self.eye.steps:
            shadow = self._shadow_of(session)
            if shadow is not None:
                shadow.hear(step)
        for record in self.eye.records:
            shadow = self._shadow_of(record.session)
            if shadow is None:
                continue
            if record.kind in {DRIFTED, REWOUND, ERASED}:
                self._shadows[record.session] = None  # its numbers or its content start over
                continue
            shadow.waiting.append(record)
            shadow.heard = record.seq
            shadow.blobs.update(self.eye.blobs)
            touched[record.session] = shadow
            self.folded += 1
        for one in self.eye.taken:
            shadow = self._shadow_of(one.session)
            if shadow is not None and one.tail.seq > shadow.heard + 1:
                self._shadows[one.session] = None  # a call that failed had stored records nevertheless
            elif shadow is not None:
                shadow.heard = one.tail.seq
                shadow.waiting.append(one.tail)
                shadow.steps.clear()
        for session, shadow in touched.items():
            try:
                said = shadow.fold()
            except AgentrailError as error:
                said = f"its journal cannot be folded: {type(error).__name__}: {error}"
            if said is not None:
                return f"{session}: {said}"
        return None
