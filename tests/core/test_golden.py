"""What was stored stays readable: the golden files, one for each kind of event and of signal."""

import json

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

SCHEMA = json.loads((GOLDEN.parents[2] / "docs" / "reference" / "events.json").read_text(encoding="utf-8"))
STORED_EVENTS = sorted((GOLDEN / "events").rglob("*.json"))
STORED_SIGNALS = sorted((GOLDEN / "signals").rglob("*.json"))


def test_todays_codec_writes_the_newest_file_of_each_kind():
    """What goes to disk changes only together with the file that shows it: `python -m tests.core.golden_values`."""
    assert set(EVENTS) == set(KINDS.values()) == {file.stem for file in STORED_EVENTS}
    assert set(SIGNALS) == set(SIGNAL_KINDS.values()) == {file.stem for file in STORED_SIGNALS}
    for file, content in golden_files():
        assert file.read_bytes() == content, file.name


def test_what_is_stored_is_read_as_the_value_it_was():
    """Files of today and of every version before: the same signal, and the same event in the same place, as docs/reference/events.json says."""
    for file in STORED_EVENTS:
        stored = file.read_bytes()
        event = decode_event(stored)
        assert event == EVENTS[file.stem], file
        assert event.meta == EVENTS[file.stem].meta
        Draft202012Validator(SCHEMA).validate(json.loads(stored))
    for file in STORED_SIGNALS:
        assert decode_signal(file.read_bytes()) == SIGNALS[file.stem], file


def test_a_field_that_came_later_is_read_and_is_in_the_schema():
    """It stands in a file of its own, and in no file of the kind, because it is left out where it holds its default."""
    for name, event in FIELDS.items():
        stored = (GOLDEN / "fields" / f"{name}.json").read_bytes()
        assert decode_event(stored) == event, name
        Draft202012Validator(SCHEMA).validate(json.loads(stored))
    for name, signal in SIGNAL_FIELDS.items():
        assert decode_signal((GOLDEN / "fields" / f"{name}.json").read_bytes()) == signal, name


def test_an_event_of_a_newer_version_is_kept():
    """A kind and a field that nobody knows yet: all of it is there still, and where it stands is known."""
    for name, meta in NEWER.items():
        stored = (GOLDEN / "newer" / f"{name}.json").read_bytes()
        event = decode_event(stored)
        assert isinstance(event, UnknownEvent)
        assert event.kind == json.loads(stored)["kind"]
        assert event.meta == meta
        assert as_stored(encode_event(event)) == stored


def test_the_schema_refuses_what_is_no_event():
    """It is a schema with teeth: an unknown kind, a missing field, a wrong type and a strange field do not pass."""
    validator = Draft202012Validator(SCHEMA)
    good = {"kind": "agent_start", "ref": "p"}
    assert validator.is_valid(good)
    for bad in ({"kind": "dreamt"}, {"kind": "agent_start"}, good | {"ref": 7}, good | {"mood": "good"}):
        assert not validator.is_valid(bad)
