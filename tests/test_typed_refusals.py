"""What is no type of an answer or a parameter: its place, what is wrong with it, and what to write instead."""

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Annotated, Final, Union

import attrs
import pytest
from msgspec import Meta

from agentrail.core.values.json_schema import CompiledSchema, fault_of_schema
from agentrail.errors import TypeFault
from agentrail.typed import OutputFault, typed
from tests.typed_kinds import Bound, Pair, Point


class Plain:
    """A class with an `__init__` of its own."""

    def __init__(self, wire: object) -> None:
        self.wire = wire


@dataclasses.dataclass
class Holder:
    """A class in which it stands."""

    plain: list[Plain]


@dataclasses.dataclass
class Unresolved:
    """A class with a name that is nowhere."""

    a: int
    when: "list[Nowhere]"  # type: ignore[name-defined]  # noqa: F821 - the point of the test


@dataclasses.dataclass
class Misspelt:
    """A class with what is no type."""

    a: "1 +"  # type: ignore[valid-type]  # noqa: F722 - the point of the test


@dataclasses.dataclass
class WithInitVar:
    """What is asked for is not kept."""

    a: dataclasses.InitVar[int]
    b: int = 0


@dataclasses.dataclass(init=False)
class OwnInit:
    a: int


@attrs.define(init=False)
class OwnAttrsInit:
    a: int


@dataclasses.dataclass
class OddDefault:
    """A default that is set later."""

    a: int = None  # type: ignore[assignment]  # the point of the test


class Mixed(enum.Enum):
    """An enum of texts and numbers."""

    A = 1
    B = "b"


CLASS: Final = "make `Plain` a dataclass, or an attrs or msgspec class, or spell out its fields"
OTHERS: Final = "use str, int, float, bool, lists, dicts, Literal, enums, or a class with fields"


@pytest.mark.parametrize(
    ("kind", "where", "words", "way_out"),
    [
        (Plain, "Plain", "Plain'> is not supported", CLASS),
        (Holder, "Holder.plain[]", "Plain'> is not supported", CLASS),
        (dict[str, Holder | None], "dict[str, Holder | None]{}.plain[]", "Plain'> is not supported", CLASS),
        (Point | Plain, "Point | Plain", "Plain'> is not supported", CLASS),
        (tuple[int, Plain], "tuple[int, Plain][1]", "Plain'> is not supported", CLASS),
        (Callable[[int], str], "Callable[[int], str]", "is not supported", "JSON cannot hold functions, so remove it"),
        (Unresolved, "Unresolved.when", "name 'Nowhere' is not defined", "define that name at the top of the module"),
        (Misspelt, "Misspelt", "Forward reference must be an expression", "write a type"),
        (complex, "complex", "type <class 'complex'> is not supported", OTHERS),
        (Iterator[int], "Iterator[int]", "is not supported", OTHERS),
        (3, "3", "is not supported", OTHERS),
        ("Point", "'Point'", "is not supported", "give the type itself, instead of its name"),
        (str | bytes, "str | bytes", "more than one str-like type", "keep one of them"),
        (list[int] | tuple[int, ...] | Point, "list[int] | tuple[int, ...] | ", "are both arrays", "keep one of them"),
        (list[int] | Pair, "list[int] | Pair", "are both arrays", "keep one of them"),
        (dict[str, int] | dict[str, str], "dict[str, int] | dict[str, str]", "are both dicts", "keep one of them"),
        (dict[Point, int], "dict[Point, int]", "`Point` cannot be a key", "write `dict[str, …]`, or a list of pairs"),
        (WithInitVar, "WithInitVar.a", "an `InitVar` is not stored in the object, so it cannot be encoded", "make it a field"),
        (OwnInit, "OwnInit", "has its own `__init__`", "remove `init=False`"),
        (OwnAttrsInit, "OwnAttrsInit", "has its own `__init__`", "remove `init=False`"),
        (Mixed, "Mixed", "", OTHERS),
        (Annotated[Point, Meta(ge=1)], "Annotated[Point", "a class has no size or order", "bound its fields"),
        (Annotated[list[int], Meta(ge=1)], "Annotated[list[int]", "Can only set `ge` on a numeric", "bound its items, or its length"),
        (Annotated[int, Bound(gt="x")], "Bound(gt='x')", "`gt` must be an int or float", "use msgspec.Meta"),
        (Annotated[tuple[int, int], Meta(min_length=1)], "Annotated[tuple", "the length of this tuple is fixed", "remove the bounds"),
    ],
)  # fmt: skip
def test_a_type_that_no_schema_describes_is_refused_by_its_place(kind, where, words, way_out):
    """The place in the type, what is wrong with it, and what to write instead."""
    with pytest.raises(TypeFault) as caught:
        typed(kind)
    assert caught.value.where.startswith(where)
    assert words in caught.value.reason
    assert caught.value.way_out == way_out or kind is Mixed
    assert str(caught.value) == f"{caught.value.where}: {caught.value.reason}: {caught.value.way_out}"


def test_a_schema_that_cannot_be_judged_by_is_refused():
    """As it would be as the `response_format` of a session."""
    with pytest.raises(TypeFault, match=r"its schema has an invalid pattern at"):
        typed(Annotated[str, Meta(pattern="a" * 2_000)])
    with pytest.raises(TypeFault, match=r"its schema is not JSON: .*give another default"):
        typed(Annotated[float, Meta(extra_json_schema={"default": float("inf")})])


def test_a_default_of_another_type_is_not_shown():
    """It is what stands there until something is set. What cannot be a key is read each time: an annotation may hold a list."""
    assert typed(OddDefault).schema["properties"] == {"a": {"type": "integer"}}
    assert typed(OddDefault).decode({}) == OddDefault()
    kind = Annotated[int, [], Meta(ge=1)]
    assert typed(kind) is not typed(kind)
    assert typed(kind).schema == {"type": "integer", "minimum": 1}
    assert repr(typed(Point | None)) == "TypedValue(Point | None)"


class TypeAliasType:  # which older Pythons do not have; `|` does not know it there
    """What `type Json = …` makes from Python 3.12 on, as far as it is looked at."""

    def __init__(self, name, make):
        self.__name__, self._make = name, make

    @property
    def __value__(self):
        return self._make()

    def __repr__(self):
        return self.__name__


def _two_names():
    json = TypeAliasType("Json", lambda: Union[dict[str, json], list[json], int, None])  # noqa: UP007 - as above
    nest = TypeAliasType("Nest", lambda: list[Union[nest, int]])  # noqa: UP007 - as above
    alias = TypeAliasType("Alias", lambda: json)
    return json, list[json], Union[alias, Point], nest, Union[nest, None]  # noqa: UP007 - as above


JSON, LISTED, EITHER, NEST, MAYBE = _two_names()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (JSON, {"a": [1, None, {}]}),
        (NEST, [1, [2, []]]),
        (MAYBE, [[]]),
        (LISTED, [None, [1]]),
        (EITHER, Point(x=1)),
        (EITHER, [{"x": 1}]),
    ],
)
def test_a_name_for_a_type_may_stand_in_the_type(kind, value):
    """`type Json = dict[str, Json] | list[Json] | int | None`, and a list of itself."""
    it = typed(kind)
    assert fault_of_schema(it.schema) is None
    assert it.decode(it.encode(value)) == value
    assert CompiledSchema(it.schema).faults(it.encode(value)) == ()
    with pytest.raises(OutputFault, match=r"^\$"):
        it.decode("x")


def test_a_name_that_stands_for_nothing_else_is_refused():
    """`type Loop = Loop | int`, and `type Same = Same`."""
    loop = TypeAliasType("Loop", lambda: Union[loop, int])  # noqa: UP007 - as above
    same = TypeAliasType("Same", lambda: same)
    for kind in (loop, same):
        with pytest.raises(
            TypeFault, match=f"^{kind!r}: it refers to itself, or is nested too deeply: put a class in"
        ):
            typed(kind)
