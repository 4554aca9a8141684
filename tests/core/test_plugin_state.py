"""What a plugin may remember, and that it comes back from the codec as it was."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NewType, Optional

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.stack.plugin_state import classes_of, decode_state, encode_state, loses, unstorable
from agentrail.events import Todo
from agentrail.frozen import FrozenDict, FrozenList
from agentrail.messages import Text

Name = NewType("Name", str)


class Mood(enum.Enum):
    """One of two."""

    GOOD = "good"
    BAD = "bad"


@attrs.frozen
class Step:
    """A part of a state."""

    text: str
    done: bool = False


@attrs.frozen
class Plan:
    """A state of every kind of field."""

    steps: tuple[Step, ...] = ()
    seen: frozenset[str] = frozenset()
    counts: Mapping[str, int] = FrozenDict()
    mood: Mood = Mood.GOOD
    raw: bytes = b""
    nested: Mapping[str, tuple[Step, ...]] = FrozenDict()
    notes: Any = None
    derived: int = attrs.field(init=False, default=7)


@attrs.frozen
class Dangling:
    """Has an annotation that leads nowhere."""

    step: "Nowhere" = None  # type: ignore[name-defined]  # noqa: F821


@attrs.frozen
class Private:
    """Hides something, even from the codec."""

    _hidden: int = 0


@attrs.frozen
class Untyped:
    """Says too little of what it holds."""

    step: Any = None


def built(kind: Any, **fields: Any) -> Any:
    """Build a value with fields that its annotations do not allow."""
    return kind(**fields)


texts = st.text(st.characters(codec="utf-8"), max_size=8)
steps = st.builds(Step, text=texts, done=st.booleans())
plans = st.builds(
    Plan,
    steps=st.lists(steps, max_size=3).map(tuple),
    seen=st.frozensets(texts, max_size=3),
    counts=st.dictionaries(texts, st.integers(-(2**63), 2**64 - 1), max_size=3).map(FrozenDict),
    mood=st.sampled_from(Mood),
    raw=st.binary(max_size=5),
    nested=st.dictionaries(texts, st.lists(steps, max_size=2).map(tuple), max_size=2).map(FrozenDict),
    notes=st.none() | st.lists(st.integers(0, 9), max_size=2).map(FrozenList),
)


@given(plan=plans)
def test_a_storable_state_survives_the_codec(plan):
    """`encode_state` and `decode_state` are the inverse of each other for whatever is storable."""
    assert unstorable(plan) is None
    back = decode_state(encode_state(plan), Plan)
    assert back == plan
    assert unstorable(back) is None  # what was decoded is frozen again
    assert loses(plan, Plan) is None


@pytest.mark.parametrize("state", [None, True, 3, 1.5, "x", (), ("a", 1), frozenset({1}), Mood.BAD, b"x"])
def test_plain_values_are_states(state):
    """Scalars, tuples, frozen sets and enumerations can be stored."""
    assert unstorable(state) is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (2**64, "state is a number of more than 64 bits"),
        (float("inf"), "state is inf"),
        (FrozenDict({1: 2}), "state has the key 1; keys are text"),
        (MappingProxyType({}), "state is a mappingproxy, and what lies behind it can be changed"),
        (FrozenDict({"a": [object()]}), "state['a'][0] is a object"),
        (built(Plan, steps=[1]), "state.steps is a list"),
        ((built(Step, text=object()),), "state[0].text is a object"),
        (bytearray(b"x"), "state is a bytearray"),
        (Private(), "state._hidden would be lost: the codec leaves out what begins with an underscore"),
    ],
)
def test_what_cannot_be_stored_is_named_with_its_place(state, words):
    """The message says where in the state the fault lies."""
    assert words in unstorable(state)
    assert words in loses(state, type(state))


def test_a_named_tuple_is_no_state():
    """It would come back without its names."""

    class Pair(tuple):  # what collections.namedtuple makes
        """A tuple with a class of its own."""

        __slots__ = ()

    assert "states are frozen attrs classes" in unstorable(Pair((1, 2)))


def test_fields_must_say_what_they_hold():
    """A state that the codec gives back differently is refused, with both values."""
    fault = loses(Untyped(step=Step("x")), Untyped)
    assert "comes back from the codec as" in fault
    assert "cannot be read back as int" in loses("x", int)
    assert "cannot be read back as Dangling: name 'Nowhere' is not defined" in loses(Dangling(), Dangling)
    assert "cannot be read back as tuple[int, ...]" in loses(("x",), tuple[int, ...])


@pytest.mark.parametrize(
    ("annotation", "classes"),
    [
        (int, (int,)),
        (None, (type(None),)),
        (int | None, (int, type(None))),
        (Optional[str], (str, type(None))),  # noqa: UP045 - the old spelling is one too
        (tuple[str, ...], (tuple,)),
        (Mapping[str, int], (Mapping,)),
        (Annotated[int, "x"], (int,)),
        (Name, (str,)),
        (Any, (object,)),
        ("Plan", (object,)),
    ],
)
def test_an_annotation_says_of_which_classes_its_values_are(annotation, classes):
    """Where an annotation does not say, anything is taken."""
    assert tuple(found if isinstance(found, type) else object for found in classes_of(annotation)) == classes


class Counted(msgspec.Struct, frozen=True):
    """A state that is no attrs class, with one in it, and one of ours."""

    step: Step
    todo: Todo
    counts: Mapping[str, int]
    said: tuple[Text, ...] = ()
    notes: Any = None


class Counting(msgspec.Struct):
    """One that can be written to."""

    count: int = 0


def test_a_frozen_struct_is_a_state():
    """It comes back as it was, frozen all the way down, and so do the values of events and messages in it."""
    state = Counted(
        Step("a"),
        Todo(id="1", content="b"),
        FrozenDict(n=1),
        (Text(text="c"),),
        FrozenList([FrozenDict(deep=FrozenList([1]))]),
    )
    assert unstorable(state) is None
    assert loses(state, Counted) is None
    again = decode_state(encode_state(state), Counted)
    assert again == state
    assert type(again.counts) is FrozenDict
    assert type(again.notes[0]["deep"]) is FrozenList


def test_a_struct_that_can_be_changed_is_no_state():
    """Nor is a frozen one that holds what can be; the place is named."""
    assert unstorable(Counting()) == "state is a Counting, which can be changed: make it frozen=True"
    whole = Counted(Step("a"), Todo(id="1", content="b"), {"n": 1})
    assert unstorable(whole).startswith("state.counts is a dict, which can be changed")
