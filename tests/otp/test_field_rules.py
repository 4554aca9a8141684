"""`agentrail/otp/field_rules.py`: values that do not fit the annotation of their field or argument."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from attrs import field, frozen

from agentrail.abc import Provider, Secret
from agentrail.errors import OptionError
from agentrail.messages import JsonObject, SessionId
from agentrail.otp.field_rules import (
    CheckedFields,
    Count,
    PathText,
    Pause,
    TimeLimit,
    checks_arguments,
    misfits,
)

FITTING: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = [
    (str, ("", "a\0\ud800"), (None, b"x", 5, ["x"])),
    (bool, (True, False), (None, 0, 1, "no", math.nan)),
    (int, (0, -5, 10**400, 2**63), (True, 1.0, math.nan, "5", None)),
    (float, (0, -0.5, 1e308), (True, math.nan, -math.inf, 10**400, "5", None)),
    (Count, (1, 2**63), (0, -1, True, 1.0)),
    (Pause, (0, 0.5, 1e305), (-0.5, math.inf, math.nan, True, 1e306)),
    (TimeLimit, (0.5, 1, 1e305), (0, -1, math.inf, 1e306, 10**306)),
    (PathText, ("x", Path("x")), ("a\0b", "\ud800", b"x", 5)),
    (str | os.PathLike[str] | None, (None, "", "\udcff", Path("x")), ("a\0b", "\ud800", b"x", 5, [])),
    (Literal["a", "b"] | None, ("a", None), ("c", [], b"a")),
    (SessionId | None, ("s", None), (5,)),
    (Mapping[str, str], ({}, {"a": "b"}), ({"a": 5}, {5: "a"}, [("a", "b")], "x", None)),
    (JsonObject, ({"a": [-1]}, {"a": None}), ({5: "a"}, "x")),
    (tuple[str, ...], ((), ("x",)), (["x"], "x", ("x", 5), None)),
    (Iterable[str], ((), ["x"], {"x"}, {"x": 5}), ("x", b"x", [5], 5)),
    (Callable[[int], str] | None, (str, None), (5, "str")),
    (Secret, (Secret("x"),), ("x", None)),
    (Annotated[str, "any other note"], ("x",), (5,)),
    (Provider | None, (None, 5, "x"), ()),  # a protocol: its users look at its members
    (object, (None, 5), ()),
]


@pytest.mark.parametrize(("annotation", "right", "wrong"), FITTING, ids=lambda part: f"{part}"[:40])
def test_a_value_fits_its_annotation_or_is_named(
    annotation: Any, right: tuple[Any, ...], wrong: tuple[Any, ...]
) -> None:
    """A bool is not a number, a text is not a sequence of texts, and no NUL is in a path."""
    assert not [fault for value in right for fault in misfits("it", value, annotation)]
    assert all(next(misfits("it", value, annotation)).startswith("it is ") for value in wrong)


@frozen(kw_only=True)
class Door(CheckedFields):
    """Fields with rules of several kinds."""

    width: TimeLimit = 1.0
    is_open: bool = False
    key: str = field(default="", repr=False)
    env: Mapping[str, str | Secret] = field(factory=dict)


def test_all_wrong_fields_are_reported_at_once_and_no_secret_is() -> None:
    """A key is often given as bytes, or next to a value that has the wrong type."""
    wrong: Any = {"width": math.nan, "is_open": 1, "key": b"sk-1", "env": {"KEY": "sk-2", "PORT": 80}}
    with pytest.raises(OptionError) as caught:
        Door(**wrong)
    assert caught.value.faults == (
        "width is nan: expected finite seconds above 0",
        "is_open is 1: expected True or False",
        "key is of type bytes: expected a text",
        "env is of type dict: expected a mapping",
    )
    assert Door(env={"KEY": Secret("sk-2")}).width == 1.0


def test_arguments_are_checked_before_anything_is_done() -> None:
    """Also by position. Python itself refuses names that the function does not have."""

    @checks_arguments
    def opened(path: PathText, *, retries: Count = 1, other: Any = None) -> tuple[object, ...]:
        return path, retries, other

    assert opened("a", retries=2, other=print) == ("a", 2, print)
    with pytest.raises(OptionError, match=r"path is 5: expected a path.*; retries is True: expected a whole"):
        opened(5, retries=True)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="path"):
        opened()  # type: ignore[call-arg]  # on purpose


def test_what_can_be_read_only_once_is_not_read() -> None:
    """An iterator fits a sequence of texts by its type, because its reader needs the items."""

    def items() -> Iterator[str]:
        yield "x"

    given = items()
    assert not [*misfits("it", given, Iterable[str])]
    assert [*given] == ["x"]
