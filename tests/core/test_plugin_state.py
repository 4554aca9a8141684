"""What a plugin may remember, and that it comes back from the codec as it was."""

import enum
import functools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NewType, Optional

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail import plugins as p
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.stack.plugin_changes import decide_update
from agentrail.core.stack.plugin_state import classes_of, decode_state, encode_state, loses, unstorable
from agentrail.core.values.foreign_calls import MAX_FOREIGN_MESSAGE
from agentrail.errors import PluginError
from agentrail.events import Todo
from agentrail.frozen import FrozenDict, FrozenList
from agentrail.messages import Text
from tests.core.plugin_rig import CTX, Says

Whole, Real = type("Whole", (int,), {}), type("Real", (float,), {})  # such as `numpy.float64`


class Handler(enum.Enum):
    PRINT = print


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


@attrs.frozen
class Step:
    text: str
    done: bool = False


class Checked(msgspec.Struct, frozen=True):
    """A state that checks itself, and does not say what it holds."""

    step: Any = Step("x")

    def __post_init__(self) -> None:
        assert isinstance(self.step, Step), "a step"


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


def of_one(name: str, kind: Any, default: Any = None) -> Any:
    return attrs.frozen(type("Odd", (), {"__annotations__": {name: kind}, name: default}))


Dangling, Private, Untyped = of_one("step", "Nowhere"), of_one("_hidden", int, 0), of_one("step", Any)
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


def test_plain_values_are_states():
    """Scalars, tuples, frozen sets, enumerations and frozen structs, which come back as they were, frozen all the way down."""
    for plain in (None, True, 3, 1.5, "x", (), ("a", 1), frozenset({1}), Mood.BAD, b"x"):
        assert unstorable(plain) is None

    deep = FrozenList([FrozenDict(deep=FrozenList([1]))])
    state = Counted(Step("a"), Todo(id="1", content="b"), FrozenDict(n=1), (Text(text="c"),), deep)
    assert unstorable(state) is None
    assert loses(state, Counted) is None
    again = decode_state(encode_state(state), Counted)
    assert again == state
    assert type(again.counts) is FrozenDict
    assert type(again.notes[0]["deep"]) is FrozenList


def test_what_cannot_be_stored_is_named_with_its_place():
    """The message says where in the state the fault lies; a tuple with a class of its own would come back without its names."""
    pair = type("Pair", (tuple,), {"__slots__": ()})  # what collections.namedtuple makes
    changeable = Counted(Step("a"), Todo(id="1", content="b"), {"n": 1})
    deep = functools.reduce(lambda inner, _: (inner,), range(10_000), ())
    for state, words in (
        (2**64, "state is a number of more than 64 bits"),
        (float("inf"), "state is inf"),
        (Real(1.5), "state is a Real: a state may contain"),
        ((Whole(3),), "state[0] is a Whole: a state may contain"),
        (Handler.PRINT, "state.value is a builtin_function_or_method"),
        (Step("\ud800"), "state has a lone surrogate in '\\ud800'"),
        (FrozenDict({"\udfff": 1}), "state has a lone surrogate in '\\udfff'"),
        (deep, "state is nested too deeply"),
        (FrozenDict({1: 2}), "state has the key 1; keys must be text"),
        (FrozenDict({10**5000: 2}), "state has the key <int, whose __repr__ raises>; keys must be text"),
        (MappingProxyType({}), "state is a mappingproxy, whose underlying mapping can change"),
        (FrozenDict({"a": [object()]}), "state['a'][0] is a object"),
        (Plan(steps=[1]), "state.steps is a list"),
        ((Step(text=object()),), "state[0].text is a object"),
        (bytearray(b"x"), "state is a bytearray"),
        (Private(), "state._hidden would be lost: the codec skips names that begin with an underscore"),
        (Counting(), "state is a Counting, which can be changed: make it frozen=True"),
        (changeable, "state.counts is a dict, which can be changed"),
        (pair((1, 2)), "a state may contain frozen attrs classes, scalars, tuples and frozen mappings"),
    ):
        assert words in unstorable(state)
        assert words in loses(state, type(state))


def test_fields_must_say_what_they_hold():
    """A state that the codec gives back differently is refused, with both values."""
    fault = loses(Untyped(step=Step("x")), Untyped)
    assert "comes back from the codec as" in fault
    assert "cannot be read back as int" in loses("x", int)
    assert "cannot be read back as Odd: name 'Nowhere' is not defined" in loses(Dangling(), Dangling)
    assert "cannot be read back as tuple[int, ...]" in loses(("x",), tuple[int, ...])


def test_a_class_that_refuses_what_the_codec_reads_is_the_fault_of_its_plugin():
    """Its own check may raise anything: the start is refused, or the update, by the name of the plugin."""

    class Limits(p.Plugin[int | Checked]):
        def init(self, first: int | Checked = 0) -> int | Checked:
            return first

        def on_config_update(self, options: Any, state: Any) -> int | Checked:
            return Checked()

    words = (
        "state that cannot be read back as int | tests.core.test_plugin_state.Checked: AssertionError: a step"
    )
    fault = loses(Checked(), int | Checked)
    assert fault.startswith(words)
    with pytest.raises(PluginError, match=re.escape(f"plugin 'Limits': init: {words}")):
        load_stack([Says("Limits", init=Checked, state_type=int | Checked)])
    stack, states = load_stack([Limits])
    update = decide_update(stack, "Limits", {}, states, CTX)
    (failed,) = update.events
    assert failed.error.message.startswith(f"it made a {words}")
    assert update.states["Limits"] == 0


def test_a_fault_repeats_the_start_of_a_long_state():
    """It goes into events and the journal."""
    assert len(loses(("x" * 10_000,), tuple[int, ...])) == MAX_FOREIGN_MESSAGE


def test_an_annotation_says_of_which_classes_its_values_are():
    """Where an annotation does not say, anything is taken."""
    for annotation, classes in (
        (int, (int,)),
        (None, (type(None),)),
        (int | None, (int, type(None))),
        (Optional[str], (str, type(None))),  # noqa: UP045 - the old spelling is one too
        (tuple[str, ...], (tuple,)),
        (Mapping[str, int], (Mapping,)),
        (Annotated[int, "x"], (int,)),
        (NewType("Name", str), (str,)),
        (Any, (object,)),
        ("Plan", (object,)),
    ):
        found = classes_of(annotation)
        assert tuple(one if isinstance(one, type) else object for one in found) == classes, annotation


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
