"""Types to write and to read: one of each kind that `agentrail.typed` knows."""

import collections
import dataclasses
import enum
from types import SimpleNamespace
from typing import (
    Annotated,
    ClassVar,
    Generic,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
from msgspec import UNSET, Meta, UnsetType
from typing_extensions import TypedDict as BackportedTypedDict

T = TypeVar("T")


class Point(msgspec.Struct, frozen=True):
    """A place on a plane."""

    x: int
    y: Annotated[float, Meta(description="up")] = 0.5


class Circle(msgspec.Struct, tag="round", rename="camel"):
    """A struct with a tag, and names of its own in JSON."""

    centre: Point
    wide_by: int | UnsetType = UNSET


class Square(msgspec.Struct, tag="even"):
    """The other one."""

    side: int
    corner: Point | UnsetType = UNSET


class Pair(msgspec.Struct, array_like=True):
    """A struct that is an array in JSON."""

    left: int
    right: str


def _title(name: str) -> str:
    return name.title()


@attrs.frozen
class Person:
    """An attrs class.

    Attributes:
        name: What friends say.
        age: In years.
    """

    name: str = attrs.field(converter=_title)
    age: Annotated[int, Meta(ge=0)] = attrs.field(validator=attrs.validators.lt(150))
    _note: str = ""
    seen: int = attrs.field(init=False, default=0)


@dataclasses.dataclass(frozen=True)
class Order:
    """A dataclass that holds others, and refuses a number."""

    number: int
    lines: list["Point | Person"] = dataclasses.field(default_factory=list)
    count: ClassVar[int] = 3
    total: int = dataclasses.field(init=False, default=7)

    def __post_init__(self) -> None:
        if self.number == 13:
            message = "13 brings bad luck"
            raise ValueError(message)


@dataclasses.dataclass
class Tree:
    """A class that holds itself."""

    name: str
    twigs: "list[Tree]" = dataclasses.field(default_factory=list)


class Movie(TypedDict):
    """A dictionary with known names."""

    title: str
    year: NotRequired[int]


class Loose(BackportedTypedDict, total=False):
    """One of the package that has it for older Pythons, which holds itself."""

    title: Required[str]
    sequel: "Loose | None"


class Place(NamedTuple):
    """A tuple with names."""

    city: str
    country: str = "PT"


Untyped = collections.namedtuple("Untyped", "a b")  # noqa: PYI024 - the point of the test


class Colour(enum.Enum):
    """An enum of strings."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Box(Generic[T]):
    """A class with a variable."""

    content: T


@dataclasses.dataclass
class Crate(Box[Point], Generic[T]):
    """One that says what the variable of the other stands for, and has its own."""

    label: T


@dataclasses.dataclass
class Shelf(Generic[T]):
    """One in which the variable stands deeper."""

    items: dict[str, list[T]]
    count: int = 0


class Slot(msgspec.Struct, Generic[T]):
    """A struct with a variable."""

    content: T | None = None


UserId = NewType("UserId", int)


class Bound(SimpleNamespace):
    """A bound as `annotated_types` and `pydantic.Field` have it, where neither is installed."""

    __module__ = "annotated_types"

    def __hash__(self) -> int:  # type: ignore[override]  # it has none
        return id(self)
