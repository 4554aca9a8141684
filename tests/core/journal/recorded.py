"""What tests of journals share: a life is stepped as the shell steps it, recorded, and folded from its bytes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from attrs import field, mutable

from agentrail.core.journal.folding import Folded, Sources, Walked, fold_journal, walk
from agentrail.core.journal.record import Draft, Record, Tail, sealed
from agentrail.core.journal.recording import Recorder, opened_draft
from agentrail.core.protocol.effects import Effect, Publish
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.machine import step
from agentrail.core.session.state import SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.core.stack.plugin import Plugin
from agentrail.core.wire.codec import encode_event
from agentrail.core.wire.settling import settled
from agentrail.events import Event
from agentrail.messages import SessionId

SESSION: Final = SessionId("s")


@mutable
class Life:
    """A session that is lived and recorded.

    Attributes:
        start: Before its first signal.
        state: Where it stands.
        records: Its journal, so far.
        states: The state behind each record, by its number, as it was lived.
        steps: What was stepped, and what it asked for.
    """

    start: SessionState
    state: SessionState
    records: list[Record] = field(factory=list)
    states: dict[int, SessionState] = field(factory=dict)
    steps: list[tuple[Signal, tuple[Effect, ...]]] = field(factory=list)
    tail: Tail = field(factory=Tail)
    recorder: Any = None

    @classmethod
    def begun(cls, start: SessionState) -> "Life":
        """Open a journal."""
        life = cls(start, start, recorder=Recorder(start))
        life.write((opened_draft(start, at_ms=0, engine="1"),))
        return life

    def live(self, signal: Signal) -> tuple[Effect, ...]:
        """Take one step, and record it."""
        signal = settled(signal)
        before = self.state
        self.state, effects = step(before, signal)
        self.steps.append((signal, effects))
        drafts = self.recorder.note(before, signal, self.state, effects)
        self.write(drafts[:-1], before)
        self.write(drafts[-1:])
        return effects

    def live_all(self, signals: Iterable[Signal]) -> "Life":
        """Take many steps."""
        for signal in signals:
            self.live(signal)
        return self

    def write(self, drafts: Sequence[Draft], state: SessionState | None = None) -> None:
        """Write drafts, and note the state behind them."""
        records, self.tail = sealed(drafts, self.tail, scope="", session=SESSION)
        self.records += records
        for record in records:
            self.states[record.seq] = self.state if state is None else state

    def sources(self) -> Sources:
        """Give back the plugins that the session began with, each time the first state is read."""
        return Sources(resolve=plugins_again(self.start), ask=self.start.data.stack.ask)

    def fold(self) -> Folded:
        """Fold the journal from its bytes."""
        return fold_journal(self.records, self.sources())

    def walk(self) -> list[Walked]:
        """Go through the journal."""
        return list(walk(self.start, self.records, sources=self.sources()))

    @property
    def kinds(self) -> list[str]:
        """What stands in the journal."""
        return [record.kind for record in self.records]


def plugins_again(state: SessionState) -> Callable[[PluginRecord], Plugin]:
    """Give the plugins of a state back, as often as they are asked for."""
    plugins: dict[str, Plugin] = {member.name: member.plugin for member in state.data.stack.members}
    return lambda record: plugins[record.name]


def committed(effects: Iterable[Effect]) -> list[Event]:
    """Give the events of some effects that are committed."""
    events = [effect.event for effect in effects if isinstance(effect, Publish)]
    return [event for event in events if event.meta is not None and not event.meta.ephemeral]


def folds_to_what_was_lived(life: Life) -> None:
    """Hold a journal against the life that it records: what is decided, event numbers, and the state behind each record."""
    told = [effect for _, effects in life.steps for effect in committed(effects)]
    life.write(life.recorder.flush())
    folded = life.fold()
    assert folded.drift is None, str(folded.drift)
    assert folded.state == life.state
    assert encode_session(folded.state) == encode_session(life.state)
    assert folded.tail == life.tail
    again: list[Event] = []
    for walked in life.walk():
        assert walked.crash is None
        assert walked.does == walked.record.does
        assert walked.after == life.states[walked.record.seq], differing(walked, life)
        again += committed(walked.effects)
    assert [encode_event(event) for event in again] == [encode_event(event) for event in told]


def differing(walked: Walked, life: Life) -> str:
    """Say which fields of two states differ."""
    one, other = walked.after.data, life.states[walked.record.seq].data
    names = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    found = "".join(f"\n{name}: {getattr(one, name)!r}\n  lived: {getattr(other, name)!r}" for name in names)
    return f"record {walked.record.seq} ({walked.record.kind}){found}"
