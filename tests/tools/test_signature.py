"""Signatures as JSON Schema and back: what is described, what is refused, and that the two sides agree."""

import dataclasses
import datetime
import enum
import inspect
import math
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
import trio
from attrs import frozen
from hypothesis import given, strategies as st

from agentrail.abc import Ok
from agentrail.core.values.toolbox import ToolSpec
from agentrail.errors import ToolDefinitionError
from agentrail.tools.function import read_signature, tool
from tests.tools.rig import CTX


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Grant:
    """A class with a flag, and with itself."""

    rights: dict[str, Rights | None]
    nested: "Grant | None" = None


class Point(msgspec.Struct, frozen=True):
    x: int
    y: float = 0.5


@frozen
class Size:
    wide: int


class Plain:
    """A class with an `__init__` of its own."""

    def __init__(self, wire: object) -> None:
        self.wire = wire

    def look(self) -> None: ...


class Holder(msgspec.Struct):
    """A struct in which one stands."""

    plain: Plain


class Unresolved(msgspec.Struct):
    """A struct with a name that is nowhere."""

    when: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - the point of the test


def test_text_in_annotated_is_a_description_at_any_depth():
    """A description and a constraint go together, in unions and lists as well; other extras are left alone."""

    def find(
        a: Annotated[str, "What.", msgspec.Meta(min_length=1)],
        b: list[Annotated[int, "One of them.", object()]],
        c: Annotated[int, "Maybe."] | None = None,
        d: Literal["x", "y"] = "x",
    ) -> None: ...

    properties = read_signature(find).schema["properties"]
    assert properties["a"] == {"type": "string", "description": "What.", "minLength": 1}
    assert properties["b"]["items"] == {"type": "integer", "description": "One of them."}
    assert properties["c"]["anyOf"] == [{"type": "integer", "description": "Maybe."}, {"type": "null"}]
    assert properties["d"] == {"enum": ["x", "y"], "default": "x"}


async def test_a_default_that_json_cannot_represent_is_not_shown():
    """The function has it all the same; msgspec would write null, which the schema refuses, also inside of a class."""

    class Range(msgspec.Struct, frozen=True):
        most: float = math.inf

    @tool(effect_class="pure")
    async def find(most: float = math.inf, within: Range = Range(), least: float = 0.5) -> str:  # noqa: B008 - frozen
        """Find it."""
        return f"{most} {within.most} {least}"

    described = {"most": {"type": "number"}, "within": {"$ref": "#/$defs/Range"}}
    assert find.parameters["properties"] == {**described, "least": {"type": "number", "default": 0.5}}
    assert find.parameters["$defs"]["Range"]["properties"] == {"most": {"type": "number"}}
    spec = ToolSpec(name="find", description="F.", parameters=find.parameters)
    arguments = spec.with_defaults({})
    assert spec.faults(arguments) == ()
    assert await find.execute(arguments, CTX) == Ok(text="inf inf 0.5")


def _two_of_one_name():
    def first():
        class Twin(msgspec.Struct):
            x: int

        return Twin

    return first(), first()


A, B = _two_of_one_name()


def _args(*names: str) -> None: ...
def _kwargs(**names: str) -> None: ...
def _positional(it: str, /) -> None: ...
def _bare(it) -> None: ...
def _context(ctx) -> None: ...
def _undescribable(it: complex) -> None: ...
def _many_hooks(it: type) -> None: ...
def _ambiguous(it: str | bytes) -> None: ...
def _list_default(it: list[int] = []) -> None: ...  # noqa: B006 - the point of the test
def _dict_default(it: dict[str, int] = {}) -> None: ...  # noqa: B006 - the point of the test
def _wrong_default(it: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013 - the point of the test
def _loose_default(it: Annotated[int, msgspec.Meta(ge=1)] = 0) -> None: ...
def _odd_default(it: Any = len) -> None: ...
def _unknown_name(it: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point of the test
def _no_type(it: "1 +") -> None: ...  # type: ignore[valid-type]  # noqa: F722 - the point of the test
def _holder(it: list[Holder]) -> None: ...
def _adapted_default(it: Point | Size = "x") -> None: ...  # type: ignore[assignment]  # the point of the test
def _no_name(it: Unresolved) -> None: ...
def _twins(a: A, b: B) -> None: ...  # type: ignore[valid-type]  # made at run time
def _twins_in_one(a: A | list[B]) -> None: ...  # type: ignore[valid-type]  # made at run time
def _flag(it: Annotated[Rights, "Which."] = Rights.READ | Rights.WRITE) -> None: ...
def _flag_within(it: list[Grant]) -> None: ...
def _of_class(it: ClassVar[int] = 3) -> None: ...  # type: ignore[misc]  # the point of the test
def _private_name(__x: str) -> None: ...  # noqa: PYI063 - the point of the test
def _half_a_pair(a: str = "\ud800") -> None: ...
def _many_digits(a: str = 10**5_000) -> None: ...  # type: ignore[assignment]  # the point of the test


SUPPORTED = "is not supported)"
NO_SCHEMA = "has a type that no JSON Schema describes ("
HELD = f"type <class 'tests.tools.test_signature.Plain'> {SUPPORTED}: make `Plain` a dataclass"


def test_what_no_model_can_call_is_refused():
    """The message names the function, the parameter and the way out."""
    for function, words in (
        (
            _args,
            "parameter '*names' of tool function '_args' collects arguments without names: take a single list",
        ),
        (
            _kwargs,
            "parameter '**names' of tool function '_kwargs' takes any name, but a model needs to know the names",
        ),
        (
            _positional,
            "parameter 'it' of tool function '_positional' is positional-only, but arguments are passed by name",
        ),
        (
            _bare,
            "parameter 'it' of tool function '_bare' has no annotation: write its type, such as `it: str`",
        ),
        (
            Plain.look,
            "parameter 'self' of tool function 'Plain.look' has no annotation: make a tool of an instance's method",
        ),
        (_context, "has no annotation: write its type, such as `ctx: ToolContext`"),
        (_undescribable, f"{NO_SCHEMA}type <class 'complex'> {SUPPORTED}: use str"),
        (_many_hooks, f"{NO_SCHEMA}type <class 'type'> {SUPPORTED}"),
        (_ambiguous, "may not contain more than one str-like type"),
        (_list_default, "has the mutable default [], shared by all calls: write `| None = None`"),
        (_dict_default, "has the mutable default {}"),
        (_wrong_default, "has the default None, which is not of its own type (Expected `int`, got `null`)"),
        (_loose_default, "has the default 0, which is not of its own type (Expected `int` >= 1)"),
        (_odd_default, "has the default <built-in function len>, which is not of its own type"),
        (
            _unknown_name,
            "the annotation 'Nowhere', and name 'Nowhere' is not defined: define that name at the top",
        ),
        (_no_type, "has the annotation '1 +', which is not a type"),
        (_holder, f"{NO_SCHEMA}list[Holder][].plain: {HELD}"),
        (_adapted_default, "'x', which is not of its own type ($: expected `Point | Size`, got `str`)"),
        (_no_name, f"{NO_SCHEMA}Unresolved.when: name 'Nowhere' is not defined): define that name"),
        (
            _flag,
            f"{NO_SCHEMA}`Rights` is a flag): take a list of an Enum's members",
        ),
        (_flag_within, f"{NO_SCHEMA}`Rights` is a flag"),
        (
            _of_class,
            "'it' of tool function '_of_class' is a ClassVar, which no caller can pass: write its type alone",
        ),
        (_private_name, "has a name such as '__x', or a text that is not Unicode (Failed"),
        (_half_a_pair, "or a text that is not Unicode ('utf-8' codec"),
        (_many_digits, "which is not of its own type"),
    ):
        with pytest.raises(ToolDefinitionError) as caught:
            read_signature(function)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("function", "words"),
    [(_twins, "tool function '_twins' uses two types with the same name"), (_twins_in_one, NO_SCHEMA)],
)
def test_two_types_of_one_name_are_two_definitions(function, words):
    """As msgspec describes them since 0.23. With earlier versions they are refused."""
    if tuple(map(int, msgspec.__version__.split(".")[:2])) >= (0, 23):
        assert [one["title"] for one in read_signature(function).schema["$defs"].values()] == ["Twin"] * 2
    else:
        with pytest.raises(ToolDefinitionError) as caught:
            read_signature(function)
        assert words in str(caught.value)


_integers = st.integers(-(2**70), 2**70)
_whole_floats = st.integers(-(2**40), 2**40).map(float)
_floats = st.floats(allow_nan=False, allow_infinity=False)

# A type, and the JSON values that its schema takes.
_leaves = st.sampled_from([
    (int, _integers | _whole_floats),
    (float, _floats | _integers),
    (bool, st.booleans()),
    (str, st.text()),
    (Annotated[int, msgspec.Meta(ge=1, le=7)], st.integers(1, 7) | st.integers(1, 7).map(float)),
    (Annotated[str, msgspec.Meta(min_length=1, max_length=5), "words"], st.text(min_size=1, max_size=5)),
    (Literal["a", 1], st.sampled_from(["a", 1, 1.0])),
    (Colour, st.sampled_from(["red", "blue"])),
    (Point, st.fixed_dictionaries({"x": _integers | _whole_floats}, optional={"y": _floats | _integers})),
    (Size, st.fixed_dictionaries({"wide": _integers})),
    (None, st.none()),
    (datetime.date, st.dates().map(str)),
    (Any, st.none() | st.booleans() | _floats | st.text() | st.lists(_integers)),
])  # fmt: skip


def _wider(inner):
    return st.one_of(
        inner.map(lambda pair: (list[pair[0]], st.lists(pair[1], max_size=3))),
        inner.map(lambda pair: (dict[str, pair[0]], st.dictionaries(st.text(), pair[1], max_size=3))),
        inner.map(lambda pair: (tuple[pair[0], ...], st.lists(pair[1], max_size=3))),
        inner.map(lambda pair: (pair[0] | None if pair[0] is not None else None, pair[1] | st.none())),
    )


_types = st.recursive(_leaves, _wider, max_leaves=3)


@given(data=st.data(), parameters=st.dictionaries(st.sampled_from("abcde"), _types, max_size=4))
def test_arguments_that_fit_the_schema_reach_the_function(data, parameters):
    """Whatever the signature: JSON that the schema takes is converted, and the function is called with each name."""
    seen = {}

    def take(**given: object) -> str:
        """Take anything."""
        seen.update(given)
        return "taken"

    # A signature is read from the function, so the function is given one.
    take.__signature__ = _signature(parameters)
    made = tool(thread=False)(take)
    arguments = {name: data.draw(values, label=name) for name, (_, values) in parameters.items()}
    spec = ToolSpec(name="take", description="Take.", parameters=made.parameters)
    spec.check()
    assert spec.faults(arguments) == ()
    assert trio.run(made.execute, arguments, CTX) == Ok(text="taken")
    assert seen.keys() == parameters.keys()


def _signature(parameters):
    return inspect.Signature([
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        for name, (annotation, _) in parameters.items()
    ])  # fmt: skip
