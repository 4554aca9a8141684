"""The order in which Trio lets tasks go on, from a seed: Trio's two private switches, which are touched here and nowhere else.

Trio shuffles the tasks that could go on together, with a random generator of its own, in which nothing but these two names
lets a caller have a say; Hypothesis and pytest-trio turn the same two. They may move with any release. So the releases in
which they were seen to work are listed, and a run under another one says that it is not repeatable.
"""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio
from trio._core import _run

TRIO_RELEASES: Final = frozenset({"0.31", "0.32", "0.33", "0.34", "0.35"})
"""Those in which `tests/testing/test_schedule.py` passes. Run it under a new one before you add that."""

_GENERATOR: Final = "_r"
_SORTED_FIRST: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"


class NotRepeatable(Warning):
    """This run is not the same one when it is run again, and why.

    A warning where a run is of use all the same, an error where it is not.
    """


def why_not_repeatable(release: str = trio.__version__, switches: object = _run) -> str | None:
    """Say why the order of tasks cannot be had again here; None where it can.

    Args:
        release: Of Trio.
        switches: Trio's module of them.
    """
    if not isinstance(getattr(switches, _GENERATOR, None), random.Random) or not isinstance(
        getattr(switches, _SORTED_FIRST, None), bool
    ):
        return (
            f"not repeatable: Trio {release} has no {_GENERATOR} or no {_SORTED_FIRST} in trio._core._run, "
            "so nothing here has a say in the order of tasks; use one of " + _known()
        )
    if ".".join(release.split(".")[:2]) not in TRIO_RELEASES:
        return (
            f"not repeatable: nothing is known of the order of tasks in Trio {release}; use one of {_known()}, "
            "or run tests/testing/test_schedule.py under it and add it to TRIO_RELEASES"
        )
    return None


@contextmanager
def seeded_order(seed: object) -> Iterator[None]:
    """Let the order of tasks come from a seed in each `trio.run` of the block, in this thread; not inside of a run.

    Args:
        seed: Anything with a `str` of its own.

    Warns:
        NotRepeatable: Under this release of Trio it may not; the block runs all the same.
    """
    fault = why_not_repeatable()
    if fault is not None:
        warnings.warn(fault, NotRepeatable, stacklevel=3)
    switches: Any = _run
    generator: object = getattr(switches, _GENERATOR, None)
    sorted_first: object = getattr(switches, _SORTED_FIRST, None)
    try:
        # A generator of its own, so that Trio's goes on behind the block as if nothing had been.
        setattr(switches, _GENERATOR, random.Random(f"{seed}/order"))  # noqa: S311 - has to repeat, and hides nothing
        setattr(switches, _SORTED_FIRST, True)
        yield
    finally:
        _put_back(switches, _GENERATOR, generator)
        _put_back(switches, _SORTED_FIRST, sorted_first)


def _put_back(switches: object, name: str, value: object) -> None:
    if value is None:
        delattr(switches, name)
    else:
        setattr(switches, name, value)


def _known() -> str:
    return ", ".join(sorted(TRIO_RELEASES))
