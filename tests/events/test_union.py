"""The union of all events, its sections, and the door that everybody imports from."""

import importlib
import pkgutil
from typing import get_args

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError

from agentrail import events
from agentrail.events import EPHEMERAL, KINDS, SECTIONS, TERMINAL, Event, EventBase, UnknownEvent, kind_of
from tests.core.golden_values import EVENTS

FILES = [
    importlib.import_module(f"agentrail.events.{file.name}") for file in pkgutil.iter_modules(events.__path__)
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__.rpartition(".")[2])
def test_the_door_has_every_class_of_every_file(file):
    """Nobody needs to know in which file a kind stands: all of it is in `agentrail.events`, and it is the same."""
    own = {
        name: value
        for name, value in vars(file).items()
        if getattr(value, "__module__", "") == file.__name__ and not name.startswith("_")
    }
    assert own
    for name, value in own.items():
        assert getattr(events, name) is value


def test_the_sections_are_the_union():
    """Each kind stands in exactly one section, and the sections together are all there is."""
    listed = [event for section in SECTIONS.values() for event in get_args(section)]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(get_args(Event)) == set(KINDS)


def test_every_event_that_is_defined_is_in_the_union():
    """A class that somebody writes and forgets to list would be published by nobody's leave."""
    defined = {value for file in FILES for value in vars(file).values() if isinstance(value, type)}
    kinds = {kind for kind in defined if issubclass(kind, EventBase)} - {EventBase, UnknownEvent}
    assert kinds == set(get_args(Event))


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_event_is_a_frozen_value_that_is_named_in_full(event):
    """Slotted, frozen, made from keywords only: an event that was published is the same for all who hold it."""
    assert not hasattr(event, "__dict__")
    assert all(attribute.kw_only for attribute in attrs.fields(type(event)))
    with pytest.raises(FrozenInstanceError):
        event.meta = None


def test_the_names_on_the_wire_are_in_snake_case_and_differ():
    """The name of a class in snake_case, and no two alike."""
    assert kind_of(events.ToolSkippedForSteering) == "tool_skipped_for_steering"
    assert kind_of(events.AskUser) == "ask_user"
    assert len(set(KINDS.values())) == len(KINDS)


def test_ephemeral_and_terminal_are_those_of_the_table():
    """Four kinds are never replayed, three end a cycle (4.1, 3.4)."""
    assert sorted(map(kind_of, EPHEMERAL)) == [
        "message_delta",
        "stream_stalled",
        "thinking_delta",
        "tool_progress",
    ]
    assert sorted(map(kind_of, TERMINAL)) == ["agent_abort", "agent_end", "agent_error"]
