"""The union of all events, its sections, and the door that everybody imports from."""

import copy
import importlib
import inspect
import pickle
import pkgutil
from typing import get_args

import msgspec
import pytest

from agentrail import events
from agentrail.events import EPHEMERAL, KINDS, SECTIONS, TERMINAL, Event, EventBase, UnknownEvent, kind_of
from agentrail.messages import CallId, SessionId
from tests.core.golden_values import EVENTS
from tests.thinned import each

FILES = [
    importlib.import_module(f"agentrail.events.{file.name}") for file in pkgutil.iter_modules(events.__path__)
]


def test_the_door_has_every_class_of_every_file():
    """Nobody needs to know in which file a kind stands: all of it is in `agentrail.events`, and it is the same."""
    for file in FILES:
        own = {
            name: value
            for name, value in vars(file).items()
            if getattr(value, "__module__", "") == file.__name__ and not name.startswith("_")
        }
        assert own
        for name, value in own.items():
            assert getattr(events, name) is value


def test_the_sections_are_the_union():
    """Each kind that is defined stands in exactly one section, and the sections together are all there is; names on the wire are in snake_case and differ."""
    listed = [event for section in SECTIONS.values() for event in get_args(section)]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(get_args(Event)) == set(KINDS)

    defined = {value for file in FILES for value in vars(file).values() if isinstance(value, type)}
    kinds = {kind for kind in defined if issubclass(kind, EventBase)} - {EventBase, UnknownEvent}
    assert kinds == set(get_args(Event))

    assert kind_of(events.ToolSkippedForSteering) == "tool_skipped_for_steering"
    assert kind_of(events.AskUser) == "ask_user"
    assert len(set(KINDS.values())) == len(KINDS)


@each("event", EVENTS.values())
def test_an_event_is_a_frozen_value_that_is_named_in_full(event):
    """Slotted, frozen, made from keywords and matched by name only; a process pool gets the event that was sent, envelope and all."""
    assert not hasattr(event, "__dict__")
    assert all(one.kind is one.KEYWORD_ONLY for one in inspect.signature(type(event)).parameters.values())
    with pytest.raises(AttributeError):
        event.meta = None
    with pytest.raises(AttributeError):
        del event.meta
    assert type(event).__match_args__ == ()  # a field that comes later would be taken for another one
    for again in (pickle.loads(pickle.dumps(event)), copy.copy(event), copy.deepcopy(event)):  # noqa: S301 - ours
        assert type(again) is type(event)
        assert again == event
        assert again.meta == event.meta


@each("event", EVENTS.values())
def test_where_an_event_stands_is_no_part_of_what_it_says(event):
    """Two that differ only in their envelopes are equal, have one hash, and read alike: `meta` is how they came here."""
    by_hand = msgspec.structs.replace(event, meta=None)
    assert by_hand.meta is None
    assert event.meta is not None
    assert event == by_hand
    assert not event != by_hand  # noqa: SIM202 - another operator, which has to mean the same
    assert hash(event) == hash(by_hand)
    assert len({event, by_hand}) == 1
    assert repr(event) == repr(by_hand)
    assert "meta" not in repr(event)


def test_an_event_equals_no_event_of_another_kind_or_content():
    """One field that differs is enough; what it is made of is its repr, and where it stands is left out."""
    assert events.ToolAttached(name="a") != events.ToolDetached(name="a")
    assert events.MessageStart() != events.ThinkingStart()
    assert events.MessageDelta(delta="a") != events.MessageDelta(delta="b")
    assert events.MessageDelta(delta="a") != events.MessageDelta(delta="a", attempt=2)
    assert events.MessageDelta(delta="a") != "a"
    of_child = {"call_id": CallId("c"), "child_id": SessionId("k"), "depth": 1}
    child = events.SubagentEvent(**of_child, event=EVENTS["tool_progress"])
    assert child != events.SubagentEvent(**of_child, event=events.MessageDelta(delta="a"))

    assert repr(events.MessageDelta(delta="a")) == "MessageDelta(delta='a', attempt=1)"
    assert repr(events.MessageStart()) == "MessageStart(attempt=1)"


def test_ephemeral_and_terminal_are_those_of_the_table():
    """Four kinds are never replayed, three end a cycle (4.1, 3.4)."""
    ephemeral = ["message_delta", "stream_stalled", "thinking_delta", "tool_progress"]
    assert sorted(map(kind_of, EPHEMERAL)) == ephemeral
    assert sorted(map(kind_of, TERMINAL)) == ["agent_abort", "agent_end", "agent_error"]
