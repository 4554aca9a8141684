"""Settings of one cycle: see `core/policy/prompt_settings.py`."""

from itertools import count

import msgspec
import pytest

from agentrail.core.policy.context import CompactionPlan
from agentrail.core.policy.prompt_settings import PromptSettings, faults_of_settings, settings_of
from agentrail.core.protocol.effects import StartStream
from agentrail.core.protocol.signals import GoOn, Prompt, SignalId, StreamFailed
from agentrail.core.session import machine
from agentrail.core.session.compaction import summary_request
from agentrail.core.session.projection import request_of
from agentrail.messages import PromptRef, Text
from tests.core import worlds

ALL = {
    "temperature": 0,
    "top_p": 1,
    "max_output_tokens": 7,
    "stop": "END",
    "reasoning": "low",
    "response_format": {"type": "object"},
}


def prompt(ref, settings=None):
    """A prompt with settings."""
    return Prompt(
        at_ms=1, signal_id=SignalId(ref), ref=PromptRef(ref), content=(Text(text="go"),), settings=settings
    )


def requests_of(effects):
    """What goes to a model."""
    return [effect.request for effect in effects if isinstance(effect, StartStream)]


def test_settings_are_made_of_a_mapping():
    """The same value as from the class, in which one text is one of several, and numbers are numbers."""
    made = settings_of(ALL)
    assert faults_of_settings(ALL) == faults_of_settings(made) == []
    assert made == settings_of(made)
    assert (type(made.temperature), made.stop) == (float, ("END",))
    assert msgspec.json.decode(msgspec.json.encode(made), type=PromptSettings) == made
    assert msgspec.json.encode(PromptSettings()) == b"{}"


def test_what_was_handed_in_can_be_edited_and_changes_nothing():
    """The schema is frozen when the settings are made."""
    schema = {"type": "object", "required": []}
    made = settings_of({"response_format": schema})
    schema["required"].append("n")
    assert made.response_format == {"type": "object", "required": []}
    with pytest.raises(TypeError):
        made.response_format["type"] = "array"


def test_settings_win_over_those_of_the_session_and_end_with_their_cycle():
    """Of the bound and the schema, which have fields of their own in a request, the merged value stands there."""
    state = worlds.new_session(max_output_tokens=500)
    state, effects = machine.step(state, prompt("p1", settings_of(ALL)))
    (request,) = requests_of(effects)
    assert (request.max_output_tokens, request.response_format) == (7, {"type": "object"})
    assert request.settings == settings_of(ALL)
    state, effects = machine.step(state, worlds.completed("r1", Text(text="{}")))
    state, effects = machine.step(state, prompt("p2", PromptSettings(temperature=0.5)))
    (request,) = requests_of(effects)
    assert (request.max_output_tokens, request.response_format) == (500, None)
    state, _ = machine.step(state, worlds.completed("r2", Text(text="a")))
    _, effects = machine.step(state, prompt("p3"))
    assert requests_of(effects)[0].settings is None


def test_a_summary_knows_nothing_of_them():
    """Neither one that a caller asks for, nor one in the middle of a cycle."""
    state, _ = machine.step(worlds.new_session(), prompt("p1", settings_of(ALL)))
    request = request_of(state.data, "r9", last_turn=False)
    assert request.settings == settings_of(ALL)
    summary = summary_request(request, CompactionPlan(reason="asked", cut=1), state.data.history.messages)
    assert (summary.settings, summary.response_format) == (None, None)


def test_going_on_takes_them_too():
    """For its own cycle."""
    state, _ = machine.step(worlds.new_session(), prompt("p1"))
    state, _ = machine.step(state, worlds.completed("r1", Text(text="a")))
    state = worlds.run([prompt("p2")], state)
    state, _ = machine.step(state, _failed(state))
    wanted = PromptSettings(top_p=0.5)
    go_on = GoOn(at_ms=1, signal_id=SignalId("g"), ref=PromptRef("g"), settings=wanted)
    _, effects = machine.step(state, go_on)
    assert requests_of(effects)[0].settings == wanted


def _failed(state):
    outcomes = worlds.everything(state, count(1))
    return next(one for one in outcomes if isinstance(one, StreamFailed) and not one.error.retryable)


def test_a_schema_that_is_nested_too_deeply_and_stops_that_are_none():
    """Faults like all others: said where settings are given."""
    deep: dict = {}
    for _ in range(200):
        deep = {"properties": deep}
    (fault,) = faults_of_settings({"response_format": deep})
    assert fault.startswith("settings: response_format is ")
    for stop in (["x"] * 17, {"x": 1}, [""], 7):
        (fault,) = faults_of_settings({"stop": stop})
        assert fault.startswith("settings: stop is ")
