"""Loops: the same call with the same result, and files that are edited to and fro (6-tools, "Loops")."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.calls import (
    FILE_NOTE,
    MAX_CONTENTS,
    MAX_FILES,
    MAX_KEYS,
    REPEAT_NOTE,
    CallSeen,
    FileChange,
    FileSeen,
    Loop,
    LoopHistory,
    file_change_in,
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


def test_calls_of_one_batch_count_like_calls_of_many():
    """A model that asks six times at once is in the same loop."""
    _, loops = watched(LoopHistory(), [SHELL] * 6)
    assert [loop.count for loop in loops] == [3, 6]


@pytest.mark.parametrize("field", ["name", "arguments_hash", "text"])
def test_another_tool_other_arguments_or_another_result_is_another_call(field):
    """Only all three together make the same call."""
    others = [msgspec.structs.replace(SHELL, **{field: str(number)}) for number in range(9)]
    assert loops_of(others) == []


@pytest.mark.parametrize(
    ("between", "is_loop"), [([], True), ([READ], True), ([FAILED], True), ([OTHER], False)]
)
def test_what_may_stand_between(between, is_loop):
    """Pure calls and failed ones change nothing, so the row goes on; success of anything else starts it over."""
    calls = [SHELL, *between, SHELL, *between, SHELL]
    assert ("shell" in [loop.name for loop in loops_of(calls)]) is is_loop


def test_success_of_another_call_starts_all_others_over():
    """Also the pure ones: what they read may have changed."""
    assert loops_of([READ, READ, SHELL, READ, READ]) == []
    assert [loop.name for loop in loops_of([READ, READ, SHELL, READ, READ, READ])] == ["read"]


def test_pure_calls_may_alternate_and_are_still_loops():
    """A, B, A, B, A: nothing changed in between."""
    found = loops_of([READ, call("list", is_pure=True)] * 3)
    assert [(loop.name, loop.count) for loop in found] == [("read", 3), ("list", 3)]


@pytest.mark.at(59)
def test_refusals_count_like_results():
    """A model that repeats a rejected call is stopped too."""
    assert [loop.aborts for loop in loops_of([FAILED] * 6)] == [False, True]


def test_tools_that_poll_opt_out():
    """They neither count nor start anything over."""
    poll = call("status", polling=True)
    assert loops_of([poll] * 9) == []
    assert [loop.count for loop in loops_of([SHELL, poll, SHELL, poll, SHELL])] == [3]


def test_edits_to_and_fro_are_a_loop():
    """A, B, A, B: the second return to an earlier content is warned of, the fourth ends the cycle."""
    to, fro = edit("A", "B"), edit("B", "A")
    warning, stop = loops_of([to, fro, to, fro, to])
    assert warning == Loop(type="file_loop_warn", name="a.py", count=2, aborts=False)
    assert stop == Loop(type="file_loop_abort", name="a.py", count=4, aborts=True)
    assert warning.text == FILE_NOTE.format(name="a.py", count=2)


def test_a_return_is_told_once():
    """What comes after the warning is new again, and the count stays where it is."""
    calls = [edit("A", "B"), edit("B", "A"), edit("A", "B"), edit("B", "C"), edit("C", "D")]
    assert [loop.count for loop in loops_of(calls)] == [2]
    watch, _ = watched(LoopHistory(), calls)
    assert watch.files["a.py"] == FileSeen(contents=("A", "B", "C", "D"), returns=2)


def test_progress_is_no_loop():
    """New contents, other files, and a write that changes nothing, do not count."""
    assert loops_of([edit(f"{number}", f"{number + 1}") for number in range(9)]) == []
    assert loops_of([edit("A", "B", path=f"{number}") for number in range(9)]) == []
    assert loops_of([edit("A", "A"), call("x")] * 9) == []


def test_an_edit_that_failed_changed_nothing():
    """Whatever it told of the file."""
    assert loops_of([edit("A", "B", is_error=True), edit("B", "A", is_error=True, text="no")] * 2) == []


def test_the_details_of_a_result_tell_what_became_of_a_file():
    """A file that did not exist has a content of its own; anything else tells nothing."""
    details = {"file": {"path": "a.py", "sha256_before": None, "sha256_after": "1f"}, "lines": 3}
    assert file_change_in(details) == FileChange(path="a.py", before="", after="1f")
    details = {"file": {"path": "a.py", "sha256_before": "0a", "sha256_after": "1f"}}
    assert file_change_in(details) == FileChange(path="a.py", before="0a", after="1f")
    for other in (None, "a.py", {}, {"file": "a.py"}, {"file": {"path": "a.py", "sha256_after": 1}}):
        assert file_change_in(other) is None


def test_a_watch_is_a_value():
    """Looking at a batch leaves the watch before it as it was."""
    before, _ = watched(LoopHistory(), [SHELL, edit("A", "B")])
    kept = (dict(before.repeats), dict(before.files))
    watched(before, [READ, edit("B", "A")])
    assert (before.repeats, before.files) == kept
    assert LoopHistory() == LoopHistory(repeats={}, files={})


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
