"""A journal is written as a scenario that plays, and comes to the same events; what a scenario has no words for is refused by name."""

import msgspec
import pytest

from agentrail import tool
from agentrail.core.journal.fold import Sources, first_state, walk
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.policy.budget import Budget
from agentrail.core.policy.patience import StallOptions
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.effects import Publish
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.session import machine
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.wire.codec import encode_event
from agentrail.errors import Erased, ErrorInfo, OptionError
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.messages import Text, UserMessage
from agentrail.plugins import Continue, plugin
from agentrail.plugins.human_approval import HumanApproval
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.session_loader import PluginFinder
from agentrail.stores.memory import MemoryStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.scenario import play, read_scenario, run_scenario
from agentrail.testing.scenario_export import scenario_of_journal, sizes_of_journal
from agentrail.testing.tools import RecordingTool
from tests.core.journal.golden_journals import FOLDER, SOURCES
from tests.core.journal.recorded import Life, Told
from tests.core.worlds import TOOLS, config, new_session
from tests.runtime.rig import on_bounded_time, open_over, until, wants


def golden(name):
    return read_journal((FOLDER / f"{name}.jsonl").read_bytes()).records


def events_of(records, sources):
    """All that a journal's fold publishes, as it stands on the wire."""
    return [
        encode_event(effect.event)
        for one in walk(first_state(records, sources), records, sources=sources)
        for effect in one.effects
        if isinstance(effect, Publish) and not effect.event.meta.ephemeral
    ]


def events_when_played(text):
    """All that a scenario publishes, with its inputs as they stand there."""
    scenario = read_scenario(text)
    stack, states = load_stack(scenario.plugins)
    state = machine.new_session(scenario.config, scenario.tools, stack, states, scenario.messages)
    found = []
    for one in scenario.inputs:
        state, effects = machine.step(state, one.signal)
        found += [
            encode_event(effect.event)
            for effect in effects
            if isinstance(effect, Publish) and not effect.event.meta.ephemeral
        ]
    return found


@pytest.mark.at(157)
@pytest.mark.parametrize("name", ["plain", "guarded"])
def test_a_golden_journal_plays_as_a_scenario(tmp_path, name):
    """The file passes as it is, and what it publishes is what the journal does, byte for byte."""
    text = scenario_of_journal(golden(name), SOURCES, remark="a fox")
    assert text.startswith("# a fox\nsession ")
    (tmp_path / "it.txt").write_text(text)
    run_scenario(tmp_path / "it.txt")
    assert events_when_played(text) == events_of(golden(name), SOURCES)
    changed = text.replace("PromptReceived", "PromptLost")
    (tmp_path / "it.txt").write_text(changed)
    with pytest.raises(AssertionError, match="has a different result"):
        run_scenario(tmp_path / "it.txt")


@tool
async def look(places: list[str], how: dict[str, int] | None = None) -> str:
    """Look there."""
    del how
    return f"looked at {places}"


@pytest.mark.at(157)
@on_bounded_time
async def test_a_session_that_lived_is_a_test_with_one_call(tmp_path):
    """Real times, a nested schema, a plugin with options, an approval, large values, a steer and an abort."""
    store = MemoryStore()
    look_at = calls(("look", {"places": ["a", "b"], "how": {"far": 2}}))
    model = ScriptedModel([wants("record"), look_at, says("Done."), says("x" * 80_000)])
    asks = (HumanApproval, {"require_approval_for": ["record"]})
    async with open_over(store) as supervisor:
        session = await supervisor.start_session(
            model=model,
            tools=[RecordingTool(), look],
            plugins=[asks],
            session_id="a-session",
            system_prompt='Be "brief".',
            user_data={"who": ["me"]},
        )
        async with session.subscribe() as events:
            await session.prompt("Do it")
            seen = await until(events, ApprovalRequired)
            await session.approve(seen[-1].approval.id)
            await until(events, AgentEnd)
        await session.ask("And a long one")
        await session.abort("enough")
    stored = store.get("", "a-session")
    sources = Sources(resolve=PluginFinder({}), ask=QuietWatch(stored.session, {}), blob=store.blob)
    records = store.read("", "a-session")
    text = scenario_of_journal(records, sources)
    (tmp_path / "it.txt").write_text(text)
    run_scenario(tmp_path / "it.txt")
    assert "HumanApproval require_approval_for=" in text
    assert 'look schema={"' in text
    assert "Publish ApprovalRequired" in text


def test_what_no_scenario_has_words_for_is_refused_with_its_record():
    """A drift, a rewind, a change of tools, what was erased, a fork, a child, a plugin that nothing leads to."""

    def refusal(records, sources=SOURCES):
        with pytest.raises(OptionError, match="--format jsonl has all of it") as caught:
            scenario_of_journal(records, sources)
        return str(caught.value)

    assert "record 7 (drifted): it is not a signal" in refusal(golden("taken_over"))
    with pytest.raises(Erased):
        scenario_of_journal(golden("erased"), SOURCES)
    going_on = machine.new_session(config(), TOOLS, messages=(UserMessage(content=(Text(text="a"),)),))
    assert "it continues the journal of another session" in refusal(Life.begun(going_on).records)
    child = msgspec.structs.replace(config(), path=("root", "s"))
    assert "works for another session" in refusal(Life.begun(machine.new_session(child, TOOLS)).records)

    @plugin(init=tuple, name="local")
    def local(_event, state, _ctx):
        return Continue(state)

    stack, states = load_stack([local])
    life = Life.begun(machine.new_session(config(), TOOLS, stack, states))
    assert "plugin local cannot be written here" in refusal(life.records, life.sources())
    spending = msgspec.structs.replace(config(), budget=Budget(max_cost_usd=1.0))
    said = refusal(Life.begun(machine.new_session(spending, TOOLS)).records)
    assert "the text cannot be read back" in said


def test_what_would_play_differently_is_refused():
    """The record that parts, and both lines: here a model that is less patient than a scenario can say of a fallback."""
    hurried = ModelFacts(model="scripted:b", stalls=StallOptions(stall_ms=30))
    chosen = msgspec.structs.replace(config(), max_retries=0, fallbacks=(hurried,))
    told = Told(machine.new_session(chosen, TOOLS))
    told.prompt("What is it?")
    told.say(s.StreamFailed, error=ErrorInfo(code="model_not_found", message="gone"))
    told.say(s.StreamStarted)
    said = r"record 5 \(stream_started\): replayed, it results in '.*' instead of '.* SetTimer .*'"
    with pytest.raises(OptionError, match=said):
        scenario_of_journal(told.life.records, told.life.sources())


@pytest.mark.journal(25)
def test_sizes_alone_are_remarks_that_play():
    """Kinds, times, lengths and numbers; no word of what was said."""
    records = golden("plain")
    text = sizes_of_journal(records)
    assert len(text.splitlines()) == 1 + len(records)
    assert "# @2 prompt " in text
    assert not [word for word in ("fox", "What is", "jumps", "Shorter", "enough") if word in text]
    assert play(read_scenario(text)) == text


def test_what_differs_is_shown_and_not_what_stands_in_front_of_it():
    """A change of plugins waits for the end of a cycle; refused there, its id is in the message behind any number of others."""

    def prompt(number):
        ref = f"p{number}"
        return s.Prompt(at_ms=number, signal_id=ref, ref=ref, content=(Text(text="a"),), reply="receipt")

    entry = PluginRecord(
        name="anna", version="1", origin="agentrail.testing.plugins:PuppetPlugin", options=None
    )
    change = s.ChangePlugins(at_ms=20, signal_id="s-of-change", change="attach", name="anna", entry=entry)
    life = Life.begun(new_session()).live_all(
        [*map(prompt, range(9)), change, s.Parked(at_ms=21, reason="a")]
    )
    life.write(life.recorder.flush())
    with pytest.raises(OptionError) as refused:
        scenario_of_journal(life.records, life.sources())
    assert " s-of-change " in str(refused.value)
    assert "PromptDropped p1 " not in str(refused.value)
