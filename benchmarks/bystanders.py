"""What plugins cost where nobody asks them: the steps of a stream's deltas, with ten plugins that listen elsewhere, and without.

Pure steps of the core, because that is where plugins are; everything around them is the same on both sides.
"""

from functools import partial
from time import process_time
from typing import Final

from agentrail import plugins as p
from agentrail.core.protocol.request import EffectId, ModelFacts, TextDelta
from agentrail.core.protocol.signals import ChunksArrived, Prompt, SessionBegan, SignalId, StreamStarted
from agentrail.core.session import machine
from agentrail.core.session.state import SessionConfig
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.values.toolbox import Toolbox
from agentrail.messages import PromptRef, SessionId, Text
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave
from benchmarks.ours import expect

_BYSTANDERS: Final = 10
_DELTAS: Final = 20_000
_MICROSECONDS: Final = 1e6
_STREAM: Final = EffectId("r1")
_CONFIG: Final = SessionConfig(
    session_id=SessionId("bystanders"), path=(SessionId("bystanders"),), model=ModelFacts(model="stub:model")
)


class _Bystander(p.Plugin[int]):
    """Listens to what does not happen while a response streams."""

    def init(self) -> int:
        return 0

    @p.on(p.BeforeTool, p.BeforeCompact, p.BeforeSteering)
    def watch(self, event: p.HookEvent, state: int, ctx: p.Context) -> p.Action[int]:
        return p.Continue(state)


def bystanders(effort: Effort) -> list[Row]:
    """The step of a delta, with ten plugins that listen to other hooks; bare: the same session without any."""
    count = effort.of(_DELTAS)
    rounds = interleave(partial(_deltas, count, 0), partial(_deltas, count, _BYSTANDERS), effort.rounds)
    return [
        rounds.row(
            "bystanders",
            "delta_seconds",
            f"the step of one delta, with {_BYSTANDERS} plugins that listen to other hooks",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("delta step"),
        ),
        rounds.row(
            "bystanders",
            "delta_seconds",
            "the same, against none that listen",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("bystanders"),
        ),
    ]


def _deltas(count: int, listeners: int) -> Sample:
    stack, states = load_stack([_Bystander(name=f"bystander {number}") for number in range(listeners)])
    state = machine.new_session(_CONFIG, Toolbox(), stack, states)
    prompt = Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("p1"), content=(Text(text="go"),))
    for signal in (SessionBegan(at_ms=0), prompt, StreamStarted(at_ms=2, effect_id=_STREAM)):
        state, _ = machine.step(state, signal)
    delta = ChunksArrived(at_ms=3, effect_id=_STREAM, chunks=(TextDelta("word "),))
    began_at = process_time()
    for _ in range(count):
        state, _ = machine.step(state, delta)
    took = process_time() - began_at
    stream = state.data.stream
    expect("the deltas", len(stream.text) if stream is not None else 0, count)
    return {"delta_seconds": took / count}
