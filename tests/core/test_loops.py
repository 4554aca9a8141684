"""Loops: the same call with the same result, and files that are edited to and fro (6-tools, "Loops")."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy import calls as policy


def call(name: str, **fields: Any) -> policy.CallSeen:
    """A call of a tool that promises nothing, with a result."""
    return policy.CallSeen(**{"name": name, "arguments_hash": "0", "text": "ok"} | fields)


def edit(before: str, after: str, *, path: str = "a.py", **fields: Any) -> policy.CallSeen:
    """An edit; its arguments are other ones each time."""
    change = policy.FileChange(path=path, before=before, after=after)
    return call("edit_file", arguments_hash=f"{path}{before}{after}", change=change, **fields)


def loops_of(calls: Iterable[policy.CallSeen]) -> list[policy.Loop]:
    loops: list[policy.Loop] = []
    watch = policy.LoopHistory()
    for one in calls:
        watch, found = policy.watched(watch, [one])
        loops += found
    return loops


@pytest.mark.at(59, 137)
def test_first_a_warning_later_a_stop():
    """The third identical call in a row is warned of, the sixth ends the cycle; refusals count like results, so a rejected call too."""
    warning, stop = loops_of([call("shell")] * 8)
    assert warning == policy.Loop(type="repeat_pattern", name="shell", count=3, aborts=False)
    assert stop == policy.Loop(type="repeat_pattern", name="shell", count=6, aborts=True)
    assert warning.text == policy.REPEAT_NOTE.format(name="shell", count=3)
    assert [loop.aborts for loop in loops_of([call("other", is_error=True)] * 6)] == [False, True]


def test_a_return_is_told_once_and_a_watch_is_bounded():
    """What comes after the warning is new again; however long a cycle is, what was seen lately is what counts."""
    calls = [edit("A", "B"), edit("B", "A"), edit("A", "B"), edit("B", "C"), edit("C", "D")]
    assert [loop.count for loop in loops_of(calls)] == [2]
    watch, _ = policy.watched(policy.LoopHistory(), calls)
    assert watch.files["a.py"] == policy.FileSeen(contents=("A", "B", "C", "D"), returns=2)

    calls = [call("read", arguments_hash=f"{n}", is_pure=True) for n in range(policy.MAX_KEYS + 9)]
    watch, _ = policy.watched(policy.LoopHistory(), calls)
    assert len(watch.repeats) == policy.MAX_KEYS
    watch, loops = policy.watched(watch, [calls[policy.MAX_KEYS]] * 2)
    assert [loop.count for loop in loops] == [3]
    watch, _ = policy.watched(watch, [edit("A", "B", path=f"{n}") for n in range(policy.MAX_FILES + 9)])
    assert len(watch.files) == policy.MAX_FILES
    watch, _ = policy.watched(watch, [edit(f"{n}", f"{n + 1}") for n in range(policy.MAX_CONTENTS + 9)])
    assert len(watch.files["a.py"].contents) == policy.MAX_CONTENTS


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
    watch, found = policy.LoopHistory(), []
    rest = seen
    for size in sizes:  # the borders of batches change nothing
        watch, loops = policy.watched(watch, rest[:size])
        rest = rest[size:]
        found += [(loop.name, loop.count) for loop in loops]
    assert found == expected
