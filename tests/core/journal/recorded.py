"""What tests of journals share: a life is stepped as the shell steps it, recorded, and folded from its bytes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from attrs import field, mutable
from msgspec import Raw

from agentrail import messages as m
from agentrail.core.journal import record as rec
from agentrail.core.journal.fold import Folded, Sources, Walked, first_state, fold_journal, walk
from agentrail.core.journal.record import NO_HASH, Draft, Record, Tail, hash_of, sealed, tail_of
from agentrail.core.journal.recorder import Recorder, opened_draft
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Effect, Publish, RunTool
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import TextDelta
from agentrail.core.protocol.signals import Signal
from agentrail.core.session.effect_owners import OfTeardown
from agentrail.core.session.machine import step
from agentrail.core.session.state import Phase, SessionState
from agentrail.core.session.state_codec import encode_session, encode_stack, encode_toolbox
from agentrail.core.stack.plugin import Plugin
from agentrail.core.wire.codec import encode_event
from agentrail.core.wire.normalize import settled
from agentrail.events import AbortReceipt, Event
from tests.core.worlds import TOOLS, new_session

SESSION: Final = m.SessionId("s")


def changed_body(state: SessionState, *, engine: str) -> rec.ChangedBody:
    """Return the body of a record of other tools and plugins, which only earlier versions wrote."""
    plugins = encode_stack(state.data.stack, state.data.plugin_states)
    return rec.ChangedBody(tools=Raw(encode_toolbox(state.data.tools)), plugins=Raw(plugins), engine=engine)


@mutable
class Life:
    """A session that is lived and recorded.

    Attributes:
        start: Before its first signal.
        state: Where it stands.
        records: Its journal, so far.
        states: The state behind each record, by its number, as it was lived.
        steps: What was stepped, and what it asked for.
        tail: Where its journal ends.
        recorder: Says what is recorded.
        resumed: What the journal came to that it goes on with; None for none.
    """

    start: SessionState
    state: SessionState
    records: list[Record] = field(factory=list)
    states: dict[int, SessionState] = field(factory=dict)
    steps: list[tuple[Signal, tuple[Effect, ...]]] = field(factory=list)
    tail: Tail = field(factory=Tail)
    recorder: Any = None
    resumed: Any = None

    @classmethod
    def begun(cls, start: SessionState) -> "Life":
        life = cls(start, start, recorder=Recorder(start))
        life.write((opened_draft(start, at_ms=0, engine="1"),))
        return life

    @classmethod
    def again(cls, records: Sequence[Record], sources: Sources) -> "Life":
        """Go on with a journal, as another process does."""
        folded = fold_journal(records, sources)
        return cls(
            first_state(records, sources),
            folded.state,
            records=list(records),
            tail=folded.tail,
            recorder=Recorder(folded.state),
            resumed=folded,
        )

    def live(self, signal: Signal) -> tuple[Effect, ...]:
        signal = settled(signal)
        before = self.state
        self.state, effects = step(before, signal)
        self.steps.append((signal, effects))
        drafts = self.recorder.note(before, signal, self.state, effects)
        self.write(drafts[:-1], before)
        self.write(drafts[-1:])
        return effects

    def live_all(self, signals: Iterable[Signal]) -> "Life":
        for signal in signals:
            self.live(signal)
        return self

    def write(self, drafts: Sequence[Draft], state: SessionState | None = None) -> None:
        records, self.tail = sealed(drafts, self.tail, scope="", session=SESSION)
        self.records += records
        for record in records:
            self.states[record.seq] = self.state if state is None else state

    def sources(self) -> Sources:
        """Give back the plugins that the session began with, each time the first state is read."""
        return Sources(resolve=plugins_again(self.start), ask=self.start.data.stack.ask)

    def fold(self) -> Folded:
        return fold_journal(self.records, self.sources())

    def walk(self) -> list[Walked]:
        return list(walk(self.start, self.records, sources=self.sources()))

    @property
    def kinds(self) -> list[str]:
        return [record.kind for record in self.records]


def plugins_again(state: SessionState) -> Callable[[PluginRecord], Plugin]:
    """Give the plugins of a state back, as often as they are asked for."""
    plugins: dict[str, Plugin] = {member.name: member.plugin for member in state.data.stack.members}
    return lambda record: plugins[record.name]


def committed(effects: Iterable[Effect]) -> list[Event]:
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
    one, other = walked.after.data, life.states[walked.record.seq].data
    names = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    found = "".join(f"\n{name}: {getattr(one, name)!r}\n  lived: {getattr(other, name)!r}" for name in names)
    return f"record {walked.record.seq} ({walked.record.kind}){found}"


class Told:
    """Says what happens in a life, one signal after the other, a millisecond apart unless the caller says otherwise."""

    def __init__(self, start: SessionState) -> None:
        self.life = Life.begun(start)
        self.at_ms = 0
        self._asked = 0
        self.say(s.SessionBegan)

    def say(self, kind: type[Any], *, wait_ms: int = 1, **fields: Any) -> tuple[Effect, ...]:
        """Say anything; callers get an id, and outcomes of streams that of the stream that is out."""
        self.at_ms += wait_ms
        if issubclass(kind, s.Asked):
            self._asked += 1
            fields["signal_id"] = s.SignalId(f"s{self._asked}")
        if kind in {s.StreamStarted, s.ChunksArrived, s.ResponseCompleted, s.StreamFailed}:
            stream = self.life.state.data.stream
            fields.setdefault("effect_id", stream.effect_id if stream is not None else "r0")
        return self.life.live(kind(at_ms=self.at_ms, **fields))

    def prompt(self, text: str = "Hello") -> tuple[Effect, ...]:
        return self.say(s.Prompt, ref=m.PromptRef(f"p{self._asked}"), content=(m.Text(text=text),))

    def hear(self, *texts: str, wait_ms: int = 1) -> tuple[Effect, ...]:
        """The model says something; the first chunk has come."""
        if self.life.state.phase is Phase.RUNNING:
            self.say(s.StreamStarted)
        return self.say(s.ChunksArrived, wait_ms=wait_ms, chunks=tuple(map(TextDelta, texts)))

    def complete(self, *content: Any, **fields: Any) -> tuple[Effect, ...]:
        """The model is done: texts, and calls."""
        blocks = tuple(m.Text(text=block) if isinstance(block, str) else block for block in content)
        stop: Any = "tool_use" if any(isinstance(block, m.ToolCall) for block in blocks) else "end"
        message = m.AssistantMessage(content=blocks, model="scripted:model", stop_reason=stop)
        return self.say(
            s.ResponseCompleted,
            message=message,
            usage=m.TokenUsage(input=9, output=3),
            stop_reason=stop,
            **fields,
        )

    def finish(self, effect_id: str, text: str = "done") -> tuple[Effect, ...]:
        return self.say(s.ToolFinished, effect_id=effect_id, text=text, started_at_ms=self.at_ms)

    def finish_tools(self, text: str = "done") -> None:
        for state in tuple(self.life.state.data.batch):
            if state.stage == "running" and state.effect_id is not None:
                self.finish(state.effect_id, text)

    def approve(self, how: str) -> None:
        """A user allows the oldest call that waits."""
        waiting = self.life.state.data.interactions
        self.say(s.Approve, approval_id=waiting[0].id, how=how)


def call(name: str = "read", call_id: str = "c1", **arguments: Any) -> m.ToolCall:
    return m.ToolCall(call_id=m.CallId(call_id), name=name, arguments=arguments)


def resealed(records: Iterable[Record], changes: dict[int, dict[str, Any]]) -> list[Record]:
    """Make the journal that other code would have written: some fields are others, and the hashes fit."""
    made: list[Record] = []
    last = NO_HASH
    for record in records:
        other = msgspec.structs.replace(record, **changes.get(record.seq, {}))
        last = hash_of(last, other)
        made.append(msgspec.structs.replace(other, hash=last))
    return made


def behind(records: Sequence[Record], *drafts: Draft, epoch: int = 0) -> list[Record]:
    tail = tail_of(records)
    tail = msgspec.structs.replace(tail, epoch=epoch or tail.epoch)
    return [*records, *sealed(drafts, tail, scope="", session=SESSION)[0]]


def plain_life() -> Told:
    """A session with two cycles: one with a tool, and one that was steered and broken off in mid-stream."""
    session = Told(new_session(TOOLS))
    session.prompt("What is in a?")
    session.hear("I ", "look.")
    run = next(one for one in session.complete("I look.", call(path="a")) if isinstance(one, RunTool))
    session.finish(run.effect_id, "A fox.")
    session.hear("<title>A fox</title>It is a fox.")
    session.complete("<title>A fox</title>It is a fox.")
    session.prompt("And what does it do?")
    session.hear("It jumps", " over")
    session.say(s.Steer, ref=m.SteerRef("x1"), text="Shorter!")
    session.hear(" the lazy dog")
    session.say(s.AbortCycle, reason="enough")
    for effect_id, owner in session.life.state.data.open.items():
        assert isinstance(owner, OfTeardown)
        session.say(s.TeardownFinished, effect_id=effect_id, receipt=AbortReceipt())
    return session
