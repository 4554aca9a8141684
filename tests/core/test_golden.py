"""What was stored stays readable: the golden files, one for each kind of event and of signal."""

import json

import pytest
from jsonschema import Draft202012Validator

from agentrail.core.wire.codec import SIGNAL_KINDS, decode_event, decode_signal, encode_event
from agentrail.events import KINDS, UnknownEvent
from tests.core.golden_values import (
    EVENTS,
    FIELDS,
    GOLDEN,
    NEWER,
    SIGNAL_FIELDS,
    SIGNALS,
    as_stored,
    golden_files,
)
from tests.thinned import each

SCHEMA = json.loads((GOLDEN.parents[2] / "docs" / "reference" / "events.json").read_text(encoding="utf-8"))
STORED_EVENTS = sorted((GOLDEN / "events").rglob("*.json"))
STORED_SIGNALS = sorted((GOLDEN / "signals").rglob("*.json"))


def test_every_kind_has_its_golden_files():
    """A new kind comes with its file, and a file without a kind is a kind that somebody forgot how to read."""
    assert set(EVENTS) == set(KINDS.values()) == {file.stem for file in STORED_EVENTS}
    assert set(SIGNALS) == set(SIGNAL_KINDS.values()) == {file.stem for file in STORED_SIGNALS}


@each(("file", "content"), golden_files())
def test_todays_codec_writes_the_newest_file(file, content):
    """What goes to disk changes only together with the file that shows it: `python -m tests.core.golden_values`."""
    assert file.read_bytes() == content


@each("file", STORED_EVENTS)
def test_a_stored_event_is_read_as_the_value_it_was(file):
    """Files of today and of every version before: the same event, in the same place."""
    event = decode_event(file.read_bytes())
    assert event == EVENTS[file.stem]
    assert event.meta == EVENTS[file.stem].meta


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_came_later_is_read_and_is_in_the_schema(name):
    """It stands in the file of its own, and in no file of the kind, because it is left out where it holds its default."""
    stored = (GOLDEN / "fields" / f"{name}.json").read_bytes()
    assert decode_event(stored) == FIELDS[name]
    Draft202012Validator(SCHEMA).validate(json.loads(stored))


@pytest.mark.parametrize("name", SIGNAL_FIELDS)
def test_a_field_of_a_signal_that_came_later_is_read(name):
    """As of events: in a file of its own, and in no file of the kind; also what that one leaves empty."""
    assert decode_signal((GOLDEN / "fields" / f"{name}.json").read_bytes()) == SIGNAL_FIELDS[name]


@each("file", STORED_SIGNALS)
def test_a_stored_signal_is_read_as_the_value_it_was(file):
    """Files of today and of every version before: the same signal."""
    assert decode_signal(file.read_bytes()) == SIGNALS[file.stem]


@pytest.mark.parametrize("name", NEWER)
def test_an_event_of_a_newer_version_is_kept(name):
    """A kind and a field that nobody knows yet: all of it is there still, and where it stands is known."""
    stored = (GOLDEN / "newer" / f"{name}.json").read_bytes()
    event = decode_event(stored)
    assert isinstance(event, UnknownEvent)
    assert event.kind == json.loads(stored)["kind"]
    assert event.meta == NEWER[name]
    assert as_stored(encode_event(event)) == stored


@each("file", STORED_EVENTS)
def test_a_stored_event_is_as_the_schema_says(file):
    """docs/reference/events.json describes what is really written."""
    Draft202012Validator(SCHEMA).validate(json.loads(file.read_bytes()))


def test_the_schema_refuses_what_is_no_event():
    """It is a schema with teeth: an unknown kind, a missing field, a wrong type and a strange field do not pass."""
    validator = Draft202012Validator(SCHEMA)
    good = {"kind": "agent_start", "ref": "p"}
    assert validator.is_valid(good)
    for bad in ({"kind": "dreamt"}, {"kind": "agent_start"}, good | {"ref": 7}, good | {"mood": "good"}):
        assert not validator.is_valid(bad)
