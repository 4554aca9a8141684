"""Side effects of a handler are seen however it got at the function, with the line; what is pure is left alone."""

import io
import json
import os
import random
import re
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from time import time

import pytest

from agentrail.testing.purity import side_effects


def _read() -> object:
    return Path(__file__).read_text(encoding="utf-8")


IMPURE = {
    "a function that was imported by name": (time, "time.time"),
    "the time of day": (lambda: datetime.now(UTC), "datetime.now"),
    "a random number": (random.random, "random.random"),
    "a random number made in Python": (lambda: random.randint(1, 6), "random.getrandbits"),  # noqa: S311
    "an id": (uuid.uuid4, "os.urandom"),
    "a variable of the environment": (lambda: os.environ.get("HOME"), "os.environ"),
    "a file": (_read, "open"),
    "a list of files": (lambda: os.listdir("."), "os.listdir"),  # noqa: PTH208
    "a word on stdout": (lambda: print(end=""), "print"),  # noqa: T201
}
PURE = {
    "texts and JSON": lambda: json.loads(json.dumps({"a": re.sub("a", "b", "aaa")})),
    "a buffer": lambda: io.StringIO("a\nb").readlines(),
    "a path that is not looked at": lambda: os.path.normpath("a/../b"),
    "a date that is given": lambda: datetime.fromtimestamp(0, UTC).isoformat(),
}


@pytest.mark.parametrize("kind", IMPURE)
def test_what_is_impure_is_found_with_its_line(kind):
    """The sentence names the function and the line of whoever is not the standard library."""
    function, name = IMPURE[kind]
    found: list[str] = []
    with side_effects(found):
        function()
    assert any(re.fullmatch(rf"{re.escape(name)} at test_purity\.py:\d+", one) for one in found), found


@pytest.mark.parametrize("kind", PURE)
def test_what_is_pure_is_left_alone(kind):
    """Computing is no side effect."""
    found: list[str] = []
    with side_effects(found):
        PURE[kind]()
    assert found == []


def test_the_profiler_of_somebody_else_is_put_back():
    """Whoever profiles the program goes on behind the block."""
    calls: list[str] = []

    def theirs(frame: object, event: str, arg: object) -> None:
        calls.append(event)

    sys.setprofile(theirs)
    try:
        with side_effects([]):
            pass
        assert sys.getprofile() is theirs
    finally:
        sys.setprofile(None)
