"""Loops: the same call with the same result, and files that are edited to and fro (6-tools, "Loops")."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.calls import (
    MAX_CONTENTS,
    MAX_FILES,
    MAX_KEYS,
    REPEAT_NOTE,
    CallSeen,
    FileChange,
    FileSeen,
    Loop,
    LoopHistory,
    watched,
)


def call(name: str, **fields: Any) -> CallSeen:
    """A call of a tool that promises nothing, with a result."""
    return CallSeen(**{"name": name, "arguments_hash": "0", "text": "ok"} | fields)


def edit(before: str, after: str, *, path: str = "a.py", **fields: Any) -> CallSeen:
    """An edit; its arguments are other ones each time."""
    change = FileChange(path=path, before=before, after=after)
    return call("edit_file", arguments_hash=f"{path}{before}{after}", change=change, **fields)


def loops_of(calls: Iterable[CallSeen]) -> list[Loop]:
    """Watch calls that come one by one."""
    loops: list[Loop] = []
    watch = LoopHistory()
    for one in calls:
        watch, found = watched(watch, [one])
        loops += found
    return loops


SHELL, READ, OTHER = call("shell"), call("read", is_pure=True), call("other")
FAILED = call("other", is_error=True)


@pytest.mark.at(137)
def test_first_a_warning_later_a_stop():
    """The third identical call in a row is warned of, the sixth ends the cycle; those between say nothing."""
    warning, stop = loops_of([SHELL] * 8)
    assert warning == Loop(type="repeat_pattern", name="shell", count=3, aborts=False)
    assert stop == Loop(type="repeat_pattern", name="shell", count=6, aborts=True)
    assert warning.text == REPEAT_NOTE.format(name="shell", count=3)


@pytest.mark.at(59)
def test_refusals_count_like_results():
    """A model that repeats a rejected call is stopped too."""
    assert [loop.aborts for loop in loops_of([FAILED] * 6)] == [False, True]


def test_a_return_is_told_once():
    """What comes after the warning is new again, and the count stays where it is."""
    calls = [edit("A", "B"), edit("B", "A"), edit("A", "B"), edit("B", "C"), edit("C", "D")]
    assert [loop.count for loop in loops_of(calls)] == [2]
    watch, _ = watched(LoopHistory(), calls)
    assert watch.files["a.py"] == FileSeen(contents=("A", "B", "C", "D"), returns=2)


def test_a_watch_is_bounded_and_forgets_the_oldest():
    """However long a cycle is: what was seen lately is what counts."""
    watch, _ = watched(
        LoopHistory(), [call("read", arguments_hash=f"{n}", is_pure=True) for n in range(MAX_KEYS + 9)]
    )
    assert len(watch.repeats) == MAX_KEYS
    watch, loops = watched(watch, [call("read", arguments_hash=f"{MAX_KEYS}", is_pure=True)] * 2)
    assert [loop.count for loop in loops] == [3]
    watch, _ = watched(watch, [edit("A", "B", path=f"{n}") for n in range(MAX_FILES + 9)])
    assert len(watch.files) == MAX_FILES
    watch, _ = watched(watch, [edit(f"{n}", f"{n + 1}") for n in range(MAX_CONTENTS + 9)])
    assert len(watch.files["a.py"].contents) == MAX_CONTENTS


# --- against the sentences of the specification, read literally

KINDS = st.sampled_from(("pure", "once", "failed"))
CALLS = st.lists(st.builds(lambda name, kind: (name, kind), st.sampled_from("abc"), KINDS), max_size=40)


@given(calls=CALLS, sizes=st.lists(st.integers(1, 5), min_size=40, max_size=40))
def test_counts_are_those_of_the_plain_rule(calls, sizes):
    """Look back from each call to the last other success that is not pure: that many of the same stand there."""
    seen = [
        call(name, arguments_hash=kind, is_pure=kind == "pure", is_error=kind == "failed")
        for name, kind in calls
    ]
    expected = []
    for position, one in enumerate(seen):
        count = 0
        for before in reversed(seen[: position + 1]):
            if before == one:
                count += 1
            elif not before.is_pure and not before.is_error:
                break
        if count in (3, 6):
            expected.append((one.name, count))
    watch, found = LoopHistory(), []
    rest = seen
    for size in sizes:  # the borders of batches change nothing
        watch, loops = watched(watch, rest[:size])
        rest = rest[size:]
        found += [(loop.name, loop.count) for loop in loops]
    assert found == expected
