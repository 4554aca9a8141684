"""What the annotation of a result shows: what no model can read is refused when the tool is made."""

import abc
import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import io
import socket
import uuid
from collections import abc as c
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, NewType, NoReturn, Protocol, TypedDict, TypeVar

import attrs
import msgspec
import pytest

from agentrail.abc import Error, Ok, ToolOutcome, ToolUpdate
from agentrail.errors import ToolDefinitionError
from agentrail.tools.function import check_returned, tool

T = TypeVar("T")


Colour: Any = enum.Enum("Colour", {"RED": "red"})
Point: Any = msgspec.defstruct("Point", [("x", int), ("raw", bytes, b"")])  # its bytes are written as base64


class Movie(TypedDict):
    title: str


class Place(NamedTuple):
    city: str


@attrs.frozen
class Tree:
    twigs: "list[Tree]"


@dataclasses.dataclass
class Row:
    at: datetime.datetime
    where: "NoSuchName"  # type: ignore[name-defined]  # noqa: F821 - the point of the test


class Plain:
    """A class with an `__init__` of its own."""

    def __init__(self, wire: object) -> None:
        self.wire = wire


class Shape:
    """One with data below it."""


@dataclasses.dataclass
class Circle(Shape):
    wide: int


class Port(abc.ABC):
    """What is returned is of another class."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close it."""


class Closes(Protocol):
    def close(self) -> None:
        """Close it."""


@dataclasses.dataclass
class Wrong:
    rows: list[Row]
    wire: socket.socket


def _returning(hint):
    def find() -> None: ...

    find.__annotations__["return"] = hint
    return find


def test_what_can_be_written_or_does_not_say_is_let_through():
    """Data at any depth; and what may be anything, because nothing is guessed."""
    for hint in (
        *(str, int, float, bool, None, list, dict, tuple, set, Any, object, T, NoReturn),
        *(Ok, Error, ToolUpdate, ToolOutcome, Ok | None, str | Error, Ok | list[int]),
        *(Colour, Point, Tree, Row, Movie, Place, Circle, Shape, Port, Closes),
        *(datetime.date, datetime.timedelta, decimal.Decimal, uuid.UUID, Path, MappingProxyType[str, int]),
        *(
            list[Row],
            dict[str, Point | None],
            tuple[int, ...],
            c.Mapping[str, c.Sequence[Tree]],
            c.Iterable[str],
        ),
        *(list[bytes], Annotated[str, "words"], NewType("Name", str), Literal["a"], type(None)),
        *("NoSuchName", "1 +", "1/0", "list[NoSuchName]", "str", "Row"),
    ):
        check_returned(_returning(hint))


COLLECT = "collect it first, as in list(…)"
WRAP = "return text, data, an object of a dataclass, or Ok(text=str(value))"


def test_what_cannot_be_written_is_refused():
    """By function, annotation, and what to return instead; also where it is a text."""
    for hint, shown, way_out in (
        (socket.socket, "`socket`", WRAP),
        (Plain, "`Plain`", WRAP),
        (complex, "`complex`", WRAP),
        (range, "`range`", WRAP),
        (collections.deque[int], "`deque[int]`", WRAP),
        (type[Plain], "`type[Plain]`", WRAP),
        (bytes, "`bytes`", "decode it first, as in data.decode()"),
        (bytearray | None, "`bytearray | None` by its annotation, which contains `bytearray`", "decode it"),
        (c.Iterator[str], "`Iterator[str]`", COLLECT),
        (c.Generator[str, None, None], "`Generator[str, None, None]`", COLLECT),
        (c.AsyncIterator[str], "`AsyncIterator[str]`", COLLECT),
        (io.TextIOWrapper, "`TextIOWrapper`", COLLECT),
        (c.Awaitable[str], "`Awaitable[str]`", "await it, in an `async def`"),
        (c.Coroutine[Any, Any, str], "`Coroutine[Any, Any, str]`", "await it, in an `async def`"),
        (asyncio.Future, "`Future`", "await it, in an `async def`"),
        (c.Callable[[], str], "`Callable[[], str]`", "call it, and return the result"),
        (str | Plain, "`str | Plain` by its annotation, which contains `Plain`", WRAP),
        (list[Plain], "`list[Plain]` by its annotation, which contains `Plain`", WRAP),
        (dict[str, list[c.Iterator[int]]], "which contains `Iterator[int]`", COLLECT),
        (Annotated[Plain, "x"], "`Annotated[Plain, 'x']` by its annotation, which contains `Plain`", WRAP),
        (NewType("Wire", Plain), "which contains `Plain`", WRAP),
        (tuple[int, Wrong], "`tuple[int, Wrong]` by its annotation, which contains `socket`", WRAP),
        ("socket.socket", "`socket`", WRAP),
    ):
        with pytest.raises(ToolDefinitionError) as caught:
            check_returned(_returning(hint))
        assert str(caught.value).startswith("tool function '_returning.<locals>.find' returns `")
        assert shown in str(caught.value)
        assert f"which a model cannot read: {way_out}" in str(caught.value)


def test_the_decorator_refuses_it_unless_it_never_calls():
    """Nothing waits for the first call; a question to the user, or a call for the client, is never called here."""

    async def connect(host: str) -> socket.socket:
        """Connect."""
        raise NotImplementedError

    said = r"connect' returns `socket` by its annotation, which a model"
    with pytest.raises(ToolDefinitionError, match=said):
        tool(connect)
    assert tool(answered_by="client")(connect).name == "connect"
