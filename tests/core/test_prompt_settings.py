"""Settings of one cycle: see `core/policy/prompt_settings.py`."""

import msgspec

from agentrail.core.policy.prompt_settings import PromptSettings, faults_of_settings, settings_of

ALL = {"temperature": 0, "top_p": 1, "max_output_tokens": 7, "stop": "END", "reasoning": "low"}


def test_settings_are_made_of_a_mapping():
    """The same value as from the class, in which one text is one of several, and numbers are numbers."""
    given = ALL | {"response_format": {"type": "object"}}
    made = settings_of(given)
    assert faults_of_settings(given) == faults_of_settings(made) == []
    assert made == settings_of(made)
    assert (type(made.temperature), made.stop) == (float, ("END",))
    assert msgspec.json.decode(msgspec.json.encode(made), type=PromptSettings) == made
    assert msgspec.json.encode(PromptSettings()) == b"{}"


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
