"""One step being worked out: a draft of what the session knows by now, and the effects so far, in order.

A `Work` lives inside one step and nowhere else, which is why it may be mutable: from outside, a step is a function.
What the rules of a session are stands in its siblings (`cycle`, `batch`, `teardown`); here is only how they write down
what they decide.
"""

from typing import final

from msgspec.structs import replace

from agentrail.core.effects import Effect, Publish, Refuse, Reply
from agentrail.core.request import EffectId
from agentrail.core.signals import SignalId
from agentrail.core.state import Cycle, Draft, SessionData, Stream
from agentrail.errors import AgentrailError
from agentrail.events import EPHEMERAL, Envelope, Event, SubagentEvent


def is_ephemeral(event: Event) -> bool:
    """Say whether an event is never replayed; what a child published is what it was there."""
    return type(event) in EPHEMERAL or (isinstance(event, SubagentEvent) and is_ephemeral(event.event))


@final
class Work:
    """The step in progress.

    Attributes:
        data: What the session knows by now. Write its fields; keep the values in it, never the draft itself.
        at_ms: The time of the step, which is that of the signal.
        effects: What was asked for so far.
        abort: Set when a plugin wants the cycle to be over: why. Nothing of the cycle may begin then.
    """

    __slots__ = ("abort", "at_ms", "data", "effects")
    __deletable__ = ("data",)  # by `close`; a compiled class has to be told

    def __init__(self, data: SessionData, at_ms: int) -> None:
        """Begin with the data that the signal met."""
        self.data = Draft.of(data)
        self.at_ms = at_ms
        self.effects: list[Effect] = []
        self.abort: str | None = None

    def close(self) -> SessionData:
        """Give what the session knows at the end of the step. The draft is gone then: whoever uses it after that fails."""
        data = self.data.frozen()
        del self.data
        return data

    def ask(self, effect: Effect) -> None:
        """Add an effect."""
        self.effects.append(effect)

    def publish(self, event: Event) -> None:
        """Give a new event its number and its place, and add it."""
        data = self.data
        kind = type(event)
        ephemeral = kind in EPHEMERAL or (kind is SubagentEvent and is_ephemeral(event))
        if not ephemeral:
            data.seq += 1
        config = data.config
        meta = Envelope(config.session_id, data.seq, self.at_ms, config.path, ephemeral)
        self.effects.append(Publish(replace(event, meta=meta)))

    def reply(self, to: SignalId, value: object) -> None:
        """Answer a caller."""
        self.effects.append(Reply(to, value))

    def refuse(self, to: SignalId | None, error: AgentrailError) -> None:
        """Answer a caller with an error, if there is one."""
        if to is not None:
            self.effects.append(Refuse(to, error))

    def mint(self, prefix: str) -> EffectId:
        """Make the next effect id. Counted, not drawn, so that a replay makes the same."""
        minted = self.data.minted + 1
        self.data.minted = minted
        return EffectId(f"{prefix}{minted}")

    @property
    def cycle(self) -> Cycle:
        """The cycle, in the phases that have one."""
        assert self.data.cycle is not None  # noqa: S101 - an invariant of SessionData, held by the properties
        return self.data.cycle

    @property
    def stream(self) -> Stream:
        """The stream, in the phases that have one."""
        assert self.data.stream is not None  # noqa: S101 - an invariant of SessionData, held by the properties
        return self.data.stream
