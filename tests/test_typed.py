"""Python types as JSON Schema and back: what goes out comes back, and what does not fit is refused with its place."""

import dataclasses
import datetime
import decimal
import uuid
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Final, Literal

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Meta

from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema
from agentrail.errors import TypeFault
from agentrail.frozen import FrozenDict
from agentrail.typed import OutputFault, typed
from tests.typed_kinds import (
    Bound,
    Box,
    Circle,
    Colour,
    Crate,
    Level,
    Loose,
    Movie,
    Order,
    Pair,
    Person,
    Place,
    Point,
    Shelf,
    Slot,
    Square,
    Tree,
    Untyped,
    UserId,
)  # fmt: skip

# A type and a value of it: encoded it fits the schema, decoded it is itself again.
ROUND_TRIPS: Final = [
    (Point, Point(x=1)),
    (Circle, Circle(centre=Point(x=1, y=2.5), wide_by=3)),
    (Circle, Circle(centre=Point(x=1))),
    (Pair, Pair(1, "a")),
    (Person, Person("Ada", 36, "!")),
    (Order, Order(1, [Point(x=1), Person("Ada", 36)])),
    (Tree, Tree("a", [Tree("b"), Tree("c", [Tree("d")])])),
    (Movie, {"title": "M"}),
    (Movie, {"title": "M", "year": 1931}),
    (Loose, {"title": "A", "sequel": {"title": "B", "sequel": None}}),
    (Place, Place("Lisbon")),
    (Untyped, Untyped([1], None)),
    (Box[int], Box(3)),
    (Box[Person | Point], Box(Point(x=1))),
    (Crate[str], Crate(Point(x=1), "fragile")),
    (Box, Box({"any": [1]})),
    (Shelf[Point], Shelf({"a": [Point(x=1)]}, 3)),
    (Slot[Point | Person], Slot(Point(x=1))),
    (Box[Annotated[int, []]], Box(3)),
    (Point | Person, Person("Ada", 36)),
    (tuple[int, str] | Point, (1, "a")),
    (Square, Square(side=1, corner=Point(x=1))),
    (Any | None, [1]),
    (Pair | Point, Pair(1, "a")),
    (Circle | Square, Square(side=2)),
    (Movie | Place | None, Place("Lisbon")),
    (Movie | Place | None, {"title": "M"}),
    (Movie | Place | None, None),
    (Point | int | list[Person], [Person("Ada", 36)]),
    (Point | int | list[Person], 3),
    (Point | dict[str, int], {"z": 3}),
    (dict[str, int] | Point, Point(x=1)),
    (list[Point | Person | None], [Point(x=1), None]),
    (dict[str, list[Order | Tree]], {"a": [Tree("b")], "b": [Order(1)]}),
    (dict[int, Point], {1: Point(x=1)}),
    (dict[Colour, set[int]], {Colour.RED: {3, 1}}),
    (dict[datetime.date, bool], {datetime.date(2024, 2, 29): True}),
    (Mapping[str, Sequence[int]], {"a": [1]}),
    (frozenset[tuple[int, str]], frozenset({(1, "a"), (0, "b")})),
    (tuple[int, Point, Colour], (1, Point(x=1), Colour.BLUE)),
    (tuple[Point, ...], (Point(x=1), Point(x=2))),
    (tuple[()], ()),
    (tuple, (1, "a")),
    (list, [1, None]),
    (int | None, None),
    (Annotated[int, Meta(ge=1), "how many"], 1),
    (Annotated[list[Person], Meta(min_length=1, max_length=2)], [Person("Ada", 36)]),
    (Annotated[int | None, Meta(ge=1)], 3),
    (Annotated[Point | Annotated[Person, "who"], "what"], Point(x=1)),
    (UserId, 7),
    (Literal["a", 1] | None, "a"),
    (Colour, Colour.RED),
    (Level | None, Level.HIGH),
    (float, 2.5),
    (bool, True),
    (None, None),
    (str, "word"),
    (bytes, b"\x00\xff"),
    (decimal.Decimal, decimal.Decimal("1.50")),
    (uuid.UUID, uuid.UUID(int=5)),
    (datetime.datetime, datetime.datetime(2026, 11, 21, 18, tzinfo=datetime.UTC)),
    (datetime.date | int, datetime.date(2026, 11, 21)),
    (datetime.time, datetime.time(18, 10)),
    (datetime.timedelta, datetime.timedelta(hours=1)),
    (Any, {"a": [1, None]}),
    (object, "x"),
    (list[object], [1, "x"]),
    (Final[int], 3),
]


@pytest.mark.parametrize(
    ("kind", "value"), [pytest.param(*one, id=f"{place}-{one[0]!r}") for place, one in enumerate(ROUND_TRIPS)]
)
def test_a_value_goes_out_and_comes_back(kind, value):
    """What `encode` gives fits the schema, and `decode` gives the value again; alone, and as a text on a wire (X-003)."""
    it = typed(kind)
    assert fault_of_schema(it.schema) is None
    assert fault_of_schema(it.wire_schema) is None
    written = it.encode(value)
    assert CompiledSchema(it.schema).faults(written) == ()
    made = it.decode(written)
    assert made == value
    assert type(made) is type(value)
    on_the_wire = written if it.is_object else {"value": written}
    assert CompiledSchema(it.wire_schema).faults(on_the_wire) == ()
    assert it.decode_text(msgspec.json.encode(on_the_wire).decode()) == value
    assert it.decode_wire(FrozenDict(on_the_wire)) == value


def test_a_schema_has_what_the_types_and_their_docstrings_say():
    """Classes stand under `$defs`, but for the outermost; nothing may be in them that they do not name."""
    assert typed(Order).schema == {
        "title": "Order",
        "description": "A dataclass that holds others, and refuses a number.",
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "lines": {
                "type": "array",
                "items": {"anyOf": [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Person"}]},
                "default": [],
            },
        },
        "required": ["number"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "title": "Point",
                "description": "A place on a plane.",
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"description": "up", "type": "number", "default": 0.5},
                },
                "required": ["x"],
                "additionalProperties": False,
            },
            "Person": {
                "title": "Person",
                "description": "An attrs class.",
                "type": "object",
                "properties": {
                    "name": {"description": "What friends say.", "type": "string"},
                    "age": {"description": "In years.", "type": "integer", "minimum": 0},
                    "note": {"type": "string", "default": ""},
                },
                "required": ["name", "age"],
                "additionalProperties": False,
            },
        },
    }


def test_a_class_that_holds_itself_is_described_once():
    """In place at the top, and under `$defs` for whatever refers to it."""
    schema = typed(Tree).schema
    assert schema["properties"]["twigs"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"] == schema["properties"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Annotated[str, "who", Meta(max_length=3)], {"description": "who", "type": "string", "maxLength": 3}),
        (Annotated[list[int], Meta(min_length=1, title="Ns")], {"title": "Ns", "type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (Annotated[dict[str, int], Meta(max_length=2)], {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2}),
        (dict[Literal["a", "b"], Any], {"type": "object", "propertyNames": {"enum": ["a", "b"]}}),
        (dict[int, Any], {"type": "object"}),
        (tuple[int, Any], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer"}, {}], "items": False}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (Annotated[int, Bound(gt=3)], {"type": "integer", "exclusiveMinimum": 3}),
        (Annotated[str, Bound(description="who", gt=None, metadata=[Bound(max_length=3)])], {"description": "who", "type": "string", "maxLength": 3}),
        (Annotated[int, Bound(strict=True)], {"type": "integer"}),
        (Annotated[int, SimpleNamespace(gt=3)], {"type": "integer"}),
        (Annotated[int, Meta(examples=[3], extra_json_schema={"deprecated": True})], {"examples": [3], "deprecated": True, "type": "integer"}),
        (Any, {}),
    ],
)  # fmt: skip
def test_constraints_and_remarks_stand_in_the_schema(kind, schema):
    """At any depth, as msgspec writes them; of sets nothing is said that would cost a turn to put right."""
    assert typed(kind).schema == schema


def test_two_classes_of_one_name_have_two_places():
    """Where msgspec alone fails; whoever reads the schema sees a number behind the second."""

    def another():
        @dataclasses.dataclass
        class Point:
            z: str

        return Point

    other = another()
    it = typed(list[Point | other])
    assert it.schema["items"]["anyOf"] == [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Point_2"}]
    assert it.decode([{"z": "a"}, {"x": 1}]) == [other("a"), Point(x=1)]


# --- the form on the wire


def test_one_object_goes_as_it_is_and_anything_else_as_a_member_of_one():
    """Vendors take an object at the top; definitions stand where references look for them."""
    for kind in (Point, Movie, Place, dict[str, int], Annotated[Point, "where"]):
        assert typed(kind).is_object, kind
        assert typed(kind).wire_schema is typed(kind).schema
    for kind in (Point | Person, list[Point], int, Point | None, Any):
        it = typed(kind)
        assert not it.is_object, kind
        plain = {name: said for name, said in it.schema.items() if name != "$defs"}
        wire = {"type": "object", "properties": {"value": plain}, "required": ["value"]}
        nested = {"$defs": it.schema["$defs"]} if "$defs" in it.schema else {}
        assert it.wire_schema == {**wire, "additionalProperties": False, **nested}


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (list[int], "[1]", "$: expected `object`, got `array`"),
        (list[int], '{"values": [1]}', "$: expected an object with `value` and nothing else"),
        (list[int], '{"value": [1], "why": ""}', "$: expected an object with `value` and nothing else"),
        (list[int], '{"value": [1, "a"]}', "$.value[1]: expected `int`, got `str`"),
        (Point, '{"x": 1', "$: no JSON: Expecting ',' delimiter at line 1 column 8"),
        (Point, '{"x": NaN}', "$: no JSON: NaN is not JSON"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(kind, text, words):
    """Strict JSON, of the form that was asked for."""
    with pytest.raises(OutputFault) as caught:
        typed(kind).decode_text(text)
    assert str(caught.value).startswith(words)


# --- what is no value


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Point, b"", "$: expected `object`, got `bytes`"),
        (Point, [], "$: expected `object`, got `array`"),
        (Point, {"x": "1"}, "$.x: expected `int`, got `str`"),
        (Point, {"x": True}, "$.x: expected `int`, got `bool`"),
        (Point, {"x": 1.5}, "$.x: expected `int`, got `float`"),
        (Point, {}, "$: missing required field `x`"),
        (Point, {"x": 1, "z": 2}, "$: unknown field `z`, expected one of `x`, `y`"),
        (Circle, {"centre": {"x": 1}}, "$: missing required field `type`"),
        (Circle, {"type": "even", "centre": {"x": 1}}, "$.type: expected 'round', got 'even'"),
        (Circle, {"type": None, "centre": {"x": 1}}, "$.type: expected 'round', got 'null'"),
        (Circle, {"type": "round", "centre": {"x": 1}, "wide_by": 1}, "$: unknown field `wide_by`, expected one of `centre`, `wideBy`"),
        (Person, {"name": "a", "age": -1}, "$.age: expected `int` >= 0"),
        (Person, {"name": "a", "age": 200}, "$: 'age' must be < 150: 200"),
        (Order, {"number": 13}, "$: 13 brings bad luck"),
        (Tree, {"name": "a", "twigs": [{"name": "b"}, {"name": 3}]}, "$.twigs[1].name: expected `str`, got `int`"),
        (Movie, {"year": 1}, "$: missing required field `title`"),
        (Place, ["Lisbon", "PT"], "$: expected `object`, got `array`"),
        (Pair, [1, 2], "$[1]: expected `str`, got `int`"),
        (list[Point], {"x": 1}, "$: expected `array`, got `object`"),
        (list[Point] | None, "a", "$: expected `list[Point] | None`, got `str`"),
        (list[Point] | None, {}, "$: expected `list[Point] | None`, got `object`"),
        (Point | None, [], "$: expected `Point | None`, got `array`"),
        (Point | int, "a", "$: expected `Point | int`, got `str`"),
        (Point | int, {"x": ""}, "$.x: expected `int`, got `str`"),
        (tuple[int, int], [1], "$: expected `array` of length 2, got 1"),
        (tuple[int, int], "ab", "$: expected `array`, got `str`"),
        (dict[str, int], [], "$: expected `object`, got `array`"),
        (dict[str, int], {"a b": "c"}, "$['a b']: expected `int`, got `str`"),
        (dict[int, int], {"a": 1}, "$: the name 'a': expected `int`, got `str`"),
        (dict[Colour, int], {"green": 1}, "$: the name 'green': invalid enum value 'green'"),
        (Colour, "green", '$: expected one of "blue", "red", got "green"'),
        (list[Literal["a", 1]], ["a", "b"], '$[1]: expected one of 1, "a", got "b"'),
        (Literal["a"], [], '$: expected one of "a", got array'),
        (Annotated[list[int], Meta(min_length=1)], [], "$: expected `array` of length >= 1, got 0"),
        (Annotated[dict[str, int], Meta(max_length=1)], {"a": 1, "b": 2}, "$: expected `object` of length <= 1, got 2"),
        (datetime.date, "2024-02-30", "$: invalid RFC3339 encoded date"),
        (decimal.Decimal, 1.5, "$: expected `Decimal` as string, got `float`"),
        (bytes, "ä", "$: invalid base64 encoded string"),
        (set[Any], [[1]], "$: unhashable type: 'list'"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_with_its_place(kind, value, words):
    """In a sentence that a model can act on; also what no schema refuses, but the class does."""
    with pytest.raises(OutputFault) as caught:
        typed(kind).decode(value)
    assert str(caught.value) == words
    assert str(caught.value) == f"{caught.value.path}: {caught.value.reason}"


LONG: Final = "x" * 50_000


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Point, {LONG: 1}),
        (Square, {"type": LONG, "side": 1}),
        (Colour, LONG),
        (Literal["a", "b"], LONG),
        (dict[int, int], {LONG: 1}),
        (dict[str, int], {LONG: "a"}),
        (dict[str, int], {f"{LONG}!": "a"}),
    ],
)
def test_a_refusal_does_not_repeat_a_long_answer(kind, value):
    """It is sent back to the model, and would cost as much as the answer."""
    with pytest.raises(OutputFault) as caught:
        typed(kind).decode(value)
    assert 200 < len(str(caught.value)) < 1_200


def test_of_a_union_each_class_says_why_it_is_none():
    """The first that fits is taken, so two classes tell themselves apart by the names that they do not know."""
    it = typed(dict[str, Point | Person])
    with pytest.raises(OutputFault) as caught:
        it.decode({"a": {"x": "1", "name": "Ada"}})
    assert str(caught.value) == (
        "$.a: matches none of the 2 allowed types: as `Point`, unknown field `name`, expected one of `x`, `y`; "
        "as `Person`, unknown field `x`, expected one of `name`, `age`, `note`"
    )
    with pytest.raises(OutputFault, match=r"as `Order`, \$\.number: expected `int`, got `str`; as `Tree`"):
        typed(Order | Tree).decode({"number": "1"})


def test_the_order_of_a_union_counts():
    """`A | B` equals `B | A` to Python, and what fits both is not the same; a derived class is written before the one above it."""

    @dataclasses.dataclass
    class One:
        x: int

    @dataclasses.dataclass
    class Child(Tree):
        age: int = 0

    value = {"x": 1}
    assert typed(One | Point).decode(value) == One(1)
    assert typed(Point | One).decode(value) == Point(x=1)
    assert typed(list[One | Point]).decode([value]) == [One(1)]
    assert typed(list[Point | One]).decode([value]) == [Point(x=1)]
    assert typed(Point | One) is typed(Point | One)
    assert typed(Tree | Child).encode(Child("a", age=3)) == {"name": "a", "twigs": [], "age": 3}


def test_another_error_of_a_class_travels():
    """It is a bug of the application's, and no model can mend it."""

    @dataclasses.dataclass
    class Broken:
        x: int

        def __post_init__(self) -> None:
            raise KeyError("x")  # noqa: EM101 - what a lookup raises

    with pytest.raises(KeyError):
        typed(Broken).decode({"x": 1})


def test_three_point_zero_is_three():
    """JSON has one number type. A path may begin elsewhere, for a value that stands in a larger one."""
    assert typed(Point).decode({"x": 3.0, "y": 2}) == Point(x=3, y=2.0)
    assert type(typed(float).decode(3)) is float
    assert typed(Any).decode([3.0]) == [3]
    with pytest.raises(OutputFault, match=r"^\$\.stay\.x: expected `int`, got `null`$"):
        typed(Point).decode({"x": None}, path="$.stay")


def test_what_is_nested_without_an_end_is_refused():
    """Not a crash: a model can write it."""
    value: Any = {"name": "a"}
    for _ in range(5_000):
        value = {"name": "a", "twigs": [value]}
    with pytest.raises(OutputFault, match="nested too deeply"):
        typed(Tree).decode(value)
    endless: Any = []
    endless.append(endless)
    with pytest.raises(OutputFault, match="nested too deeply"):
        typed(Any).decode(endless)
    tree = Tree("a")
    tree.twigs.append(tree)
    with pytest.raises(TypeFault, match="it contains itself, or is nested too deeply"):
        typed(Tree).encode(tree)


@dataclasses.dataclass
class Left:
    """One of two that differ in what comes last."""

    below: "Left | Right | None"
    mark: int


@dataclasses.dataclass
class Right:
    """The other one."""

    below: "Left | Right | None"
    mark: str


def test_a_value_that_could_be_tried_in_endless_ways_is_refused():
    """Two to the power of its depth, which a model chooses; a long one is read as long as it says early what it is."""
    value: Any = {"below": None, "mark": "a"}
    for _ in range(60):
        value = {"below": value, "mark": "a"}
    with pytest.raises(OutputFault, match=r"^\$: it takes too much work to validate: send a simpler value$"):
        typed(Left | Right).decode(value)
    short: Any = {"below": {"below": None, "mark": "a"}, "mark": 1}
    assert typed(Left | Right).decode(short) == Left(Right(None, "a"), 1)
    long = [{"x": n} for n in range(20_000)]
    assert len(typed(list[Person | Point]).decode(long)) == 20_000
    # What is said does not grow with the ways either.
    wrong: Any = {"below": None, "mark": None}
    for _ in range(8):
        wrong = {"below": wrong, "mark": None}
    with pytest.raises(OutputFault) as caught:
        typed(Left | Right).decode(wrong)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Point, Person("Ada", 36), "$: expected `Point`, got `Person`"),
        (int, "a", "$: expected `int`, got `str`"),
        (Point, Point(x="a"), "$.x: expected `int`, got `str`"),  # type: ignore[arg-type]
        (Point | Person, 3, "$: expected `Point | Person`, got `int`"),
        (Point | int, Person("Ada", 36), "$: expected `Point | int`, got `Person`"),
        (Order | Tree, Order("a"), "$.number: expected `int`, got `str`"),  # type: ignore[arg-type]
        (Movie, {"year": 1}, "$: expected `Movie`, got one without `title`"),
        (Movie, {"title": "a", "z": 1, "a": 1}, "$: expected `Movie`, got one with 'a', 'z'"),
        (list[int], "ab", "$: expected `list[int]`, got `str`"),
        (Annotated[list[int], Meta(max_length=1)], [1, 2], "$: expected `array` of length <= 1, got 2"),
        (Annotated[dict[str, int], Meta(min_length=1)], {}, "$: expected `object` of length >= 1, got 0"),
        (tuple[int, int], (1,), "$: expected `tuple[int, int]`, got `tuple`"),
        (dict[str, int], [1], "$: expected `dict[str, int]`, got `list`"),
        (dict[Colour, int], {"green": 1}, "$: the name 'green': invalid enum value 'green'"),
        (Any, object(), "$: encoding objects of type object is unsupported"),
        (float, float("nan"), "float: $ is nan"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_type_is_not_written(kind, value, words):
    """The caller's move; the message has the place, what was expected, and what came."""
    with pytest.raises(TypeFault) as caught:
        typed(kind).encode(value)
    assert str(caught.value).startswith(words)


# --- drawn types

_LEAVES: Final = st.sampled_from([
    (int, st.integers(-(2**40), 2**40)),
    (float, st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer())),
    (bool, st.booleans()),
    (str, st.text(st.characters(exclude_categories=["Cs"]))),
    (Annotated[int, Meta(ge=1, le=7)], st.integers(1, 7)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (Colour, st.sampled_from(Colour)),
    (Point, st.builds(Point, x=st.integers(-9, 9), y=st.sampled_from([0.5, 1.5]))),
    (Person, st.builds(Person, st.sampled_from(["Ada", "Bob"]), st.integers(0, 149))),
    (Movie, st.fixed_dictionaries({"title": st.text("ab")}, optional={"year": st.integers(0, 9)})),
    (Place, st.builds(Place, st.text("ab"), st.text("ab"))),
    (type(None), st.none()),
    (datetime.date, st.dates()),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=5)),
])  # fmt: skip


def _wider(inner):
    return st.one_of(
        inner.map(lambda pair: (list[pair[0]], st.lists(pair[1], max_size=3))),
        inner.map(lambda pair: (dict[str, pair[0]], st.dictionaries(st.text("abc"), pair[1], max_size=3))),
        inner.map(lambda pair: (tuple[pair[0], int], st.tuples(pair[1], st.integers(0, 9)))),
        inner.map(lambda pair: (Box[pair[0]], st.builds(Box, pair[1]))),
        inner.map(lambda pair: (list[pair[0] | None], st.lists(pair[1] | st.none(), max_size=3))),
        inner.map(lambda pair: (Box[pair[0]] | Tree, st.builds(Box, pair[1]) | st.builds(Tree, st.just("a")))),
        inner.map(lambda pair: (Square | Box[pair[0]] | int, st.builds(Square, side=st.integers(0, 9)) | st.integers())),
    )  # fmt: skip


_TYPES: Final = st.recursive(_LEAVES, _wider, max_leaves=3)
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "red", "2024-02-30"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["x", "y", "name", "age", "title", "content", "twigs", "side", "type"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(data=st.data(), pair=_TYPES)
def test_every_value_of_every_type_comes_back(data, pair):
    """Whatever the type: what is written fits the schema, also as a text, and is the same value when it is read."""
    kind, values = pair
    value = data.draw(values, label="value")
    it = typed(kind)
    assert fault_of_schema(it.schema) is None
    written = it.encode(value)
    assert CompiledSchema(it.schema).faults(written) == ()
    assert it.decode(written) == value
    on_the_wire = written if it.is_object else {"value": written}
    assert it.decode_text(msgspec.json.encode(on_the_wire).decode()) == value


@given(pair=_TYPES, value=_JSON)
def test_what_the_schema_refuses_is_refused(pair, value):
    """Nothing is decoded that the schema does not take, and nothing but `OutputFault` is raised."""
    it = typed(pair[0])
    fits = CompiledSchema(it.schema).faults(value) == ()
    try:
        it.decode(value)
    except OutputFault:
        return  # the schema may have taken it
    assert fits
