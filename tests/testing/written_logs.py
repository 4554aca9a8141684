"""Logs of simulated lives, written by hand: one session on nodes over a store, with real steps and real records."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from attrs import evolve

from agentrail.abc.store import Append, Opening, StoredSession, Taken
from agentrail.core.journal.record import Tail, sealed, taken_draft
from agentrail.core.journal.recorder import Recorder, closed_draft, opened_draft
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.signals import Recovered, Signal
from agentrail.core.session import machine
from agentrail.core.session.state import SessionState
from agentrail.core.wire.normalize import settled
from agentrail.messages import SessionId
from agentrail.runtime.store_summary import stored_standing
from agentrail.testing.simulation.facts import Calm, SessionStep, StoreCall
from agentrail.testing.simulation.gods_eye import Checker
from agentrail.testing.simulation.log import LineKind, LogLine
from tests.core.worlds import new_session

SESSION = SessionId("s")


class WrittenLog:
    """A log that a test writes line by line. Each line comes a millisecond after the one before it.

    Attributes:
        lines: The lines so far.
        state: State of the session on its owner.
        place: Its owner, whose node has the same id.
    """

    def __init__(self, start: SessionState | None = None, *, session: SessionId = SESSION) -> None:
        """Open a session on `node-0`."""
        self.lines: list[LogLine] = []
        self.state, self.session, self.place, self.at = start or new_session(), session, "node-0", 0.0
        self._recorder, self._tail = Recorder(self.state), Tail()
        draft = opened_draft(self.state, at_ms=0, engine="agentrail 0")
        self._records = self._sealed([draft])
        opening = Opening(records=self._records, root=session, node=self.place)
        self.store("create", opening=opening)
        self._records = ()
        self._durable = self._tail, self.state

    def line(self, kind: LineKind, facts: Any, *, place: str | None = None) -> None:
        """Write a line."""
        self.at += 0.001
        place = self.place if place is None else place
        self.lines.append(LogLine(self.at, place, kind, self.session, type(facts).__name__, facts))

    def store(self, name: str, *, answer: Any = None, place: str | None = None, **arguments: Any) -> None:
        """Write a call of the store."""
        self.line("store", StoreCall(name, arguments, answer), place=place)

    def step(self, signal: Signal, does: str | None = None) -> SessionStep:
        """Write a step. Its record waits for `append`, and may name other effects than the step has."""
        before, said = self.state, settled(signal)
        self.state, effects = machine.step(before, said)
        drafts = self._recorder.note(before, said, self.state, effects)
        if does is not None:
            drafts = tuple(msgspec.structs.replace(draft, does=does) for draft in drafts)
        self._records += self._sealed(drafts)
        made = SessionStep(before, said, self.state, effects, self._records[-1].seq if self._records else 0)
        self.line("step", made)
        return made

    def append(self) -> None:
        """Write that the store took all records that wait."""
        records, self._records = self._records, ()
        standing = stored_standing(self.state)
        self._durable = self._tail, self.state
        self.store("append", batch=(Append(records=records, standing=standing),), answer=(None,))

    def leave(self, step: SessionStep, place: str | None = None) -> None:
        """Write that the effects of a step are carried out."""
        for effect in step.effects:
            if not isinstance(effect, Publish):
                self.line("effect", effect, place=place)
            elif effect.event.meta is not None and not effect.event.meta.ephemeral:
                self.line("event", effect.event, place=place)

    def live(self, *signals: Signal) -> None:
        """Write the steps of signals, each with its record and its effects."""
        for signal in signals:
            step = self.step(signal)
            if self._records:
                self.append()
            self.leave(step)

    def take(self, place: str) -> None:
        """Write that another node takes the session. What has no record is lost."""
        self._records = ()
        (tail, self.state), events = self._durable, self._durable[1].data.seq
        self._tail = Tail(seq=tail.seq, epoch=tail.epoch + 1, hash=tail.hash)
        self._sealed(
            [taken_draft(node=place, cause="lease_over", engine="agentrail 0", at_ms=0, events=events)]
        )
        self._durable = self._tail, self.state
        self.place, self._recorder = place, Recorder(self.state)
        stored = StoredSession(
            scope="",
            session=self.session,
            root=self.session,
            parent="",
            forked_from=None,
            node=place,
            opened_at_ms=0,
            written_at_ms=0,
            first_seq=1,
            tail=self._tail,
            events=events,
            standing=stored_standing(self.state),
        )
        arguments = {"scope": "", "root": self.session, "node": place, "cause": "lease_over"}
        self.store("take", answer=Taken(sessions=(stored,)), **arguments)

    def close(self, reason: str) -> None:
        """Write that the owner closes the session without a step."""
        records = self._sealed([closed_draft(reason, at_ms=1, events=self.state.data.seq)])
        standing = msgspec.structs.replace(stored_standing(self.state), is_working=False, has_ended=True)
        self.store("append", batch=(Append(records=records, standing=standing),), answer=(None,))

    def recover(self) -> None:
        """Write the first step of a new owner."""
        self.live(Recovered(at_ms=1, open=tuple(self.state.data.open)))

    def calm(self, seconds: float = 100.0) -> None:
        """Write that all faults end, and that time passes."""
        self.line("note", Calm(), place="world")
        self.at += seconds
        self.line("note", None, place="world")

    def _sealed(self, drafts: Iterable[Any]) -> tuple[Any, ...]:
        records, self._tail = sealed(list(drafts), self._tail, scope="", session=self.session)
        return tuple(records)


def judged(kind: Callable[[], Checker], lines: Iterable[LogLine]) -> list[str]:
    """Return what a new judge says about a log."""
    checker = kind()
    said = [fault for line in lines if (fault := checker.see(line)) is not None]
    return [*said, *checker.finish()]


def changed_line(lines: list[LogLine], number: int, **changes: Any) -> list[LogLine]:
    """Return a log in which one line differs."""
    return [evolve(line, **changes) if place == number else line for place, line in enumerate(lines)]


def number_of(lines: list[LogLine], kind: type[Any], nth: int = 0) -> int:
    """Return the place of the nth line with facts of a class."""
    found = [place for place, line in enumerate(lines) if isinstance(line.facts, kind)]
    return found[nth]
