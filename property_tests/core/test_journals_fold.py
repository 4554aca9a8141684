"""Any life folds to what it was: recorded as a shell records it, through bytes, and stepped again from these alone.

States behind each record, event numbers, and what was decided. The chunk rule leaves chunks out of journals, and joins those that it
keeps: lives with streams that are steered, aborted and looked at in the middle are what it is judged by.
"""

from typing import Any, Final

import msgspec
from hypothesis import given, settings, strategies as st

from agentrail.core.journal.outline import outline
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.stalls import StallOptions
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import SignalId
from agentrail.core.session import machine
from agentrail.core.session.state import SessionData, SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.messages import PromptRef, Text
from agentrail.testing import strategies
from agentrail.testing.runs import Run, Setup
from agentrail.testing.session_machine import SessionMachine
from property_tests.core.test_machine import AnyOrder, AnyOrderWithAgents
from tests.core.journal.recorded import Life, committed, folds_to_what_was_lived
from tests.core.worlds import WITH_CLIENT as TOOLS, config

MODELS: Final = st.builds(
    ModelFacts,
    model=st.just("scripted:model"),
    max_output_tokens=st.just(20),
    stalls=st.builds(
        StallOptions,
        stall_policy=st.sampled_from(("abort", "report", "retry")),
        stall_ms=st.sampled_from((120_000, 30)),
    ),
)


def _config(model: ModelFacts, **options: Any) -> Any:
    return msgspec.structs.replace(config(**options), model=model)


CONFIGS: Final = st.builds(
    _config,
    MODELS,
    max_turns=st.sampled_from((6, 2)),
    max_retries=st.sampled_from((2, 0)),
    inline_tags=st.sampled_from((True, True, False)),
    budget=st.sampled_from((None, None, Budget(max_total_tokens=3_000))),
)
STREAMED: Final = st.one_of(
    *[strategies.stream_outcomes()] * 4,
    strategies.prompts(),
    strategies.aborts(),
    strategies.steers(),
    strategies.timers(),
    strategies.questions(),
    strategies.teardown_outcomes(),
)
"""What streams are about, and what comes in the middle of one."""


def lived(start: SessionState, drawn: list[s.Signal]) -> Life:
    """Live what was drawn, as far as it means something there."""
    life = Life.begun(start)
    life.live(s.SessionBegan(at_ms=0))
    for number, signal in enumerate(drawn):
        life.live(strategies.fit(signal, life.state, number + 1))
    return life


@given(drawn=st.lists(STREAMED, min_size=10, max_size=60), chosen=CONFIGS)
def test_streams_that_are_broken_into_fold_to_what_they_were(drawn, chosen):
    """Aborts, steers, questions, failures and looks at silence in the middle; responses that are not what was heard of them."""
    folds_to_what_was_lived(lived(machine.new_session(chosen, TOOLS), drawn))


@given(data=st.data(), plugins=strategies.stacks(max_size=3), chosen=CONFIGS)
def test_any_script_folds_to_what_it_was(data, plugins, chosen):
    """With plugins that answer anything, and signals in any order."""
    run = Run(Setup(tools=TOOLS, config=chosen, entries=plugins))
    folds_to_what_was_lived(Life.begun(run.state).live_all(data.draw(strategies.scripts(run.state))))


class Recorded(SessionMachine):
    """A run that came to rest is folded, too."""

    def rested(self) -> None:
        """Record what was lived, and fold it."""
        run = self.session_run
        start = run.seen[0].before
        folds_to_what_was_lived(Life.begun(start).live_all(seen.signal for seen in run.seen))


class AnyOrderRecorded(Recorded, AnyOrder):
    """Any order of signals, recorded and folded."""


class AgentsRecorded(Recorded, AnyOrderWithAgents):
    """The same with agents."""


TestAnyOrderRecorded = AnyOrderRecorded.TestCase
TestAnyOrderRecorded.settings = settings(report_multiple_bugs=False)
TestAgentsRecorded = AgentsRecorded.TestCase
TestAgentsRecorded.settings = settings(report_multiple_bugs=False)


FIELDS: Final = SessionData.__struct_fields__


@given(drawn=st.lists(strategies.chunk_signals(), min_size=1, max_size=12), chosen=CONFIGS)
def test_joined_chunks_mean_what_their_parts_meant(drawn, chosen):
    """Signals of which nothing came but deltas, and the one behind them, in one: the same state, the same decisions."""
    state = streaming(machine.new_session(chosen, TOOLS))
    behind, waiting = state, []
    for number, signal in enumerate(drawn):
        fitting = msgspec.structs.replace(signal, effect_id=EffectId("0"))  # none of them is late
        waiting.append(strategies.fit(fitting, state, number + 10))
        before, (state, effects) = state, machine.step(state, waiting[-1])
        chunks = tuple(chunk for one in waiting for chunk in one.chunks)
        joined, decided = machine.step(behind, msgspec.structs.replace(waiting[-1], chunks=chunks))
        assert joined == state
        assert encode_session(joined) == encode_session(state)
        assert outline(decided) == outline(effects)
        assert committed(decided) == committed(effects)
        changed = {name for name in FIELDS if getattr(state.data, name) != getattr(before.data, name)}
        assert changed <= {"stream", "seq"}  # no plugin was asked, and no effect began
        if outline(effects):
            behind, waiting = state, []


def streaming(start: SessionState) -> SessionState:
    """Bring a session to where a response streams."""
    for signal in (
        s.SessionBegan(at_ms=0),
        s.Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("s1"), content=(Text(text="?"),)),
    ):
        start, _ = machine.step(start, signal)
    assert start.data.stream is not None
    start, _ = machine.step(start, s.StreamStarted(at_ms=2, effect_id=start.data.stream.effect_id))
    return start
