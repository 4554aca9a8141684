"""Any life folds to what it was: recorded as a shell records it, through bytes, and stepped again from these alone.

States behind each record, event numbers, and what was decided. The chunk rule leaves chunks out of journals, and joins those that it
keeps: lives with streams that are steered, aborted and looked at in the middle are what it is judged by.
"""

from typing import Any, Final

import msgspec
from hypothesis import given, settings, strategies as st

from agentrail.core.journal.recorded_steps import outline
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.patience import StallOptions
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId, ModelFacts
from agentrail.core.protocol.signals import SignalId
from agentrail.core.session import machine
from agentrail.core.session.state import SessionData, SessionState
from agentrail.core.session.state_codec import encode_session
from agentrail.messages import AssistantMessage, PromptRef, Text, TokenUsage
from agentrail.testing import strategies
from agentrail.testing.checked_run import Run, Setup
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
CHUNKS: Final = strategies.chunk_signals().map(
    lambda drawn: msgspec.structs.replace(drawn, effect_id=EffectId("0"))
)
"""Of the stream that is open, and not late."""

SAID: Final = st.sampled_from(
    ("It is", "<title>A fox</title>", "<status>x", "</status>", "<status>a</status>b")
)


def _response(effect_id: str, texts: list[str], usage: TokenUsage) -> s.ResponseCompleted:
    content = tuple(Text(text=text) for text in texts)
    message = AssistantMessage(content=content, model="scripted:model", stop_reason="end")
    return s.ResponseCompleted(
        at_ms=0, effect_id=EffectId(effect_id), message=message, usage=usage, stop_reason="end"
    )


RESPONSES: Final = st.builds(
    _response,
    st.sampled_from(("0", "0", "late")),
    st.lists(SAID, max_size=2),
    st.sampled_from((TokenUsage(), TokenUsage(input=5, output=3))),
)
"""They are seldom what was heard of them: with other tags, empty, without a count, of another stream."""

STARTED: Final = st.just(s.StreamStarted(at_ms=0, effect_id=EffectId("0")))
INTO_IT: Final = st.one_of(
    strategies.aborts(),
    strategies.steers(),
    strategies.timers(),
    strategies.questions(),
    strategies.stream_outcomes(),
    strategies.teardown_outcomes(),
)
# Not `one_of`, which makes one choice of all that these choose from: then few streams would say anything.
STREAMED: Final = st.sampled_from(
    (*[CHUNKS] * 8, *[RESPONSES] * 3, *[STARTED] * 3, *[strategies.prompts()] * 2, *[INTO_IT] * 3)
).flatmap(lambda chosen: chosen)
"""What streams are about, and what comes in the middle of one."""


def lived(start: SessionState, drawn: list[s.Signal]) -> Life:
    """Live what was drawn, from where a response streams."""
    life = Life.begun(start).live_all(to_where_it_streams(start))
    for number, signal in enumerate(drawn):
        life.live(strategies.fit(signal, life.state, number + 10))
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


@given(drawn=st.lists(CHUNKS, min_size=1, max_size=12), chosen=CONFIGS)
def test_joined_chunks_mean_what_their_parts_meant(drawn, chosen):
    """Signals of which nothing came but deltas, and the one behind them, in one: the same state, the same decisions."""
    state = machine.new_session(chosen, TOOLS)
    for begins in to_where_it_streams(state):
        state, _ = machine.step(state, begins)
    behind, waiting = state, []
    for number, signal in enumerate(drawn):
        waiting.append(strategies.fit(signal, state, number + 10))
        before, (state, effects) = state, machine.step(state, waiting[-1])
        chunks = tuple(chunk for one in waiting for chunk in one.chunks)
        joined, decided = machine.step(behind, msgspec.structs.replace(waiting[-1], chunks=chunks))
        assert joined == state
        assert encode_session(joined) == encode_session(state)
        assert outline(decided) == outline(effects)
        assert committed(decided) == committed(effects)
        changed = {name for name in FIELDS if getattr(state.data, name) != getattr(before.data, name)}
        assert changed <= {"stream", "seq", "title"}  # no plugin was asked, and no effect began
        if outline(effects):
            behind, waiting = state, []


def to_where_it_streams(start: SessionState) -> list[s.Signal]:
    """Give what brings a session to where a response streams."""
    said: list[s.Signal] = [
        s.SessionBegan(at_ms=0),
        s.Prompt(at_ms=1, signal_id=SignalId("s1"), ref=PromptRef("s1"), content=(Text(text="?"),)),
    ]
    for signal in said:
        start, _ = machine.step(start, signal)
    assert start.data.stream is not None
    return [*said, s.StreamStarted(at_ms=2, effect_id=start.data.stream.effect_id)]
