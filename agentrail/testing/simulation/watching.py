"""`watching(log)`: writes what sessions do into a log. The code of the product is unchanged."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from attrs import evolve

from agentrail import logs
from agentrail.core.protocol.effects import Publish, Refuse, ReplyToCaller
from agentrail.core.session.state import SessionState
from agentrail.events import Event
from agentrail.remote.frame_codec import position_of
from agentrail.remote.read_position import RemoteReading
from agentrail.runtime import session_actor
from agentrail.runtime.event_bus import EventBus
from agentrail.runtime.interpreter import Interpreter
from agentrail.runtime.session_actor import SessionCell
from agentrail.testing.seams import Seam, wrapped
from agentrail.testing.simulation.facts import Closed, Logged, ReceivedAgain, SessionStep
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.nemesis import SimulatedCrash

_LOGGER: Final = logging.getLogger("agentrail")

_NO_BUGS: Final = (SimulatedCrash.__name__, "CallRefused: 500 internal")
"""Errors that are faults of the world, or relayed from another node, which has logged its own."""


class _Writer(logging.Handler):
    def __init__(self, log: LifeLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        is_error = record.levelno >= logging.ERROR and not any(one in text for one in _NO_BUGS)
        self._log.note("log", "logs: " + text.split("\n", 1)[0], facts=Logged(is_error))


@contextmanager
def hearing(log: LifeLog) -> Iterator[None]:
    """Write warnings and errors of the product into a log, and nowhere else, during the block."""
    before = _LOGGER.handlers, _LOGGER.propagate
    _LOGGER.handlers, _LOGGER.propagate = [_Writer(log)], False
    try:
        with wrapped(
            [(logs, "_structlog_set_up", lambda _: lambda: None)]
        ):  # the program's own log is not read
            yield
    finally:
        _LOGGER.handlers, _LOGGER.propagate = before


@contextmanager
def watching(log: LifeLog) -> Iterator[None]:
    """Write the steps, effects and events of all sessions of the process into a log, during the block."""
    with wrapped((*_step_seams(log), *_effect_seams(log), *_event_seams(log))):
        yield


def _step_seams(log: LifeLog) -> tuple[Seam, ...]:
    noted: list[list[SessionStep]] = []

    def note(step: SessionStep) -> None:
        session, phase = step.before.data.config.session_id, step.after.phase.name
        log.note("step", f"steps {type(step.signal).__name__}: {phase}", session=session, facts=step)

    def steps(before: Any) -> Any:
        def step(state: SessionState, signal: Any) -> Any:
            after, effects = before(state, signal)
            made = SessionStep(state, signal, after, effects)
            if noted:
                noted[-1].append(made)
            else:
                note(made)
            return after, effects

        return step

    def notes(before: Any) -> Any:
        def _step_noted(journal: Any, state: SessionState, signal: Any) -> Any:
            noted.append([])
            try:
                stepped = before(journal, state, signal)
            finally:
                made = noted.pop()
            is_recorded = stepped.drafts and journal.refusal is None
            number = journal.tail.seq + len(stepped.drafts) if is_recorded else 0
            for one in made:
                note(evolve(one, record=number))
            return stepped

        return _step_noted

    return (session_actor, "step", steps), (session_actor, "_step_noted", notes)


def _effect_seams(log: LifeLog) -> tuple[Seam, ...]:
    def carries_out(before: Any) -> Any:
        def carry_out(interpreter: Interpreter, effect: Any, state: SessionState) -> None:
            if not isinstance(effect, Publish):
                name = getattr(effect, "effect_id", "") or getattr(effect, "to", "")
                said = f"carries out {type(effect).__name__} {name}"
                log.note("effect", said, session=state.data.config.session_id, facts=effect)
            before(interpreter, effect, state)

        return carry_out

    def tells(before: Any) -> Any:
        def _tell(cell: SessionCell, effect: Any) -> None:
            if isinstance(effect, ReplyToCaller | Refuse):
                said = f"carries out {type(effect).__name__} {effect.to}"
                log.note("effect", said, session=cell.ports.session_id, facts=effect)
            before(cell, effect)

        return _tell

    return (Interpreter, "carry_out", carries_out), (SessionCell, "_tell", tells)


def _event_seams(log: LifeLog) -> tuple[Seam, ...]:
    def publishes(before: Any) -> Any:
        def publish(bus: EventBus, event: Event) -> None:
            meta = event.meta
            if meta is not None and not meta.ephemeral:
                said = f"publishes {type(event).__name__} {meta.seq}"
                log.note("event", said, session=bus.session_id, facts=event)
            before(bus, event)

        return publish

    def closes(before: Any) -> Any:
        def close(bus: EventBus, reason: str, *, is_rested: bool = False, is_moved: bool = False) -> None:
            facts = Closed(reason, is_rested=is_rested, is_moved=is_moved)
            log.note("note", f"closes: {reason}", session=bus.session_id, facts=facts)
            before(bus, reason, is_rested=is_rested, is_moved=is_moved)

        return close

    def takes(before: Any) -> Any:
        def take_event(reading: RemoteReading, event: Any) -> bool:
            seq, is_ephemeral = position_of(event)
            if reading.standing == "open" and not is_ephemeral and 0 < seq <= (reading.cursor or 0):
                facts = ReceivedAgain(seq)
                log.note("read", f"receives event {seq} again", session=reading.session_id, facts=facts)
            taken: bool = before(reading, event)
            return taken

        return take_event

    return (EventBus, "publish", publishes), (EventBus, "close", closes), (RemoteReading, "take_event", takes)
