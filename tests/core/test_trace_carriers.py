"""Trace contexts of callers, as of W3C Trace Context, level 1: see `core/values/trace_carriers.py`."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.trace_carriers import (
    UNDECIDED,
    decision_of,
    is_drawn,
    read_trace,
    span_id_of,
    trace_id_of,
    trace_of_background,
    traceparent_of,
)
from agentrail.messages import TraceContext

IDS = f"{'0af7651916cd43dd' * 2}-b7ad6b7169203331"
PARENT = f"00-{IDS}-01"
LONGEST = f"{'k' * 256}={'v' * 255}"


def state_of(count: int) -> str:
    """A state of so many members."""
    return ",".join(f"k{number}=v" for number in range(count))


@pytest.mark.parametrize(
    ("parent", "known"),
    [
        (PARENT, PARENT),
        (f"00-{IDS}-00", f"00-{IDS}-00"),
        (f"cc-{IDS}-01", f"cc-{IDS}-01"),
        (f"01-{IDS}-01-of-a-later-version", f"01-{IDS}-01"),
        (f"00-{IDS}-01-more", None),
        (f"01-{IDS}-01x", None),
        (f"ff-{IDS}-01", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{'0af7651916cd43dd' * 2}-{'0' * 16}-01", None),
        (PARENT.upper(), None),
        (f" {PARENT}", None),
        (f"{PARENT}\n", None),
        (f"{PARENT}, {PARENT}", None),
        (PARENT[:-1], None),
        ("none", None),
        ("", None),
        (7, None),
        (b"00", None),
    ],
)
def test_a_parent_is_of_its_form_or_there_is_no_trace(parent: Any, known: str | None):
    """Version, ids that are not all zeros, and flags; a later version may say more. Its state is not looked at then."""
    trace = None if known is None else TraceContext(traceparent=known)
    assert read_trace({"traceparent": parent}) == (trace, trace is None)
    with_state = {"traceparent": parent, "tracestate": "a=1", "authorization": "secret"}
    named = None if known is None else TraceContext(traceparent=known, tracestate="a=1")
    assert read_trace(with_state) == (named, named is None)


@pytest.mark.parametrize(
    ("state", "is_kept"),
    [
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", True),
        ("a=1 , b=2,,\t", True),
        ("tenant@vendor=a b~", True),
        (state_of(32), True),
        (LONGEST, True),
        (f"{LONGEST},", False),  # 513 characters
        ("k=" + "v" * 598, False),  # 600 of them
        (state_of(33), False),
        ("a=1,a=2", False),
        ("A=1", False),
        ("a", False),
        ("a=", False),
        ("a=1=2", False),
        ("a=\u00e4", False),
        ("a=1\n", False),
        (7, False),
    ],
)
def test_a_state_that_is_malformed_is_left_out_and_its_parent_stays(state: Any, is_kept: bool):  # noqa: FBT001 - a row
    """So a trace goes on if a vendor on the way wrote nonsense."""
    kept = TraceContext(traceparent=PARENT, tracestate=state if is_kept else "")
    assert read_trace({"traceparent": PARENT, "tracestate": state}) == (kept, not is_kept)
    assert read_trace(kept) == (kept, False)


def test_what_carries_no_trace_is_not_malformed():
    """Nothing, and headers without one; another thing than a carrier is."""
    for carrier in (None, {}, {"tracestate": "a=1"}, {"traceparent": None}):
        assert read_trace(carrier) == (None, False)
    for state in (None, ""):
        assert read_trace({"traceparent": PARENT, "tracestate": state}) == (
            TraceContext(traceparent=PARENT),
            False,
        )
    for other in (PARENT, 7, [PARENT]):
        assert read_trace(other) == (None, True)


@given(
    parent=st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"), state=st.text()
)
def test_what_was_read_is_read_as_the_same(parent: str, state: str):
    """Whatever comes: nothing raises, and what is kept is within its bounds."""
    trace, _ = read_trace({"traceparent": parent, "tracestate": state})
    if trace is not None:
        assert (len(trace.traceparent), len(trace.tracestate) <= 512) == (55, True)
        assert read_trace(trace) == (trace, False)


# --- ids of spans of ours


def test_ids_follow_from_names_and_a_callers_trace_is_continued():
    """Every node derives the same ids, so an export can be repeated. The carrier made from them is one that we accept."""
    names = ("tenant", "s-1", "cycle", "p1")
    assert trace_id_of(None, *names) == trace_id_of(None, *names) != trace_id_of(None, *names[:-1], "p2")
    assert trace_id_of(TraceContext(traceparent=PARENT), *names) == PARENT[3:35]
    assert span_id_of("call", "", "s", "p1") != span_id_of("request", "", "s", "p1")
    made = traceparent_of(trace_id_of(None, *names), span_id_of("call", *names), sampled=True)
    assert read_trace({"traceparent": made}) == (TraceContext(traceparent=made), False)
    assert made.endswith("-01")


def test_a_background_agent_has_a_trace_and_a_child_of_a_call_has_none():
    """A call's child belongs to the trace of its parent."""
    assert len(trace_of_background("", "s", "s:scout")) == 32
    assert trace_of_background("", "s", "s.c1") == ""


@pytest.mark.parametrize(
    ("flags", "state", "decision"),
    [("00", "", False), ("01", "", True), ("02", "", False), ("ff", "a=b", True), ("00", UNDECIDED, None)],
)
def test_a_callers_flag_is_its_decision(flags: str, state: str, decision: bool | None):  # noqa: FBT001 - a row of the table
    """Only the first bit counts. A prompt of a parent session that had no caller brings none."""
    assert decision_of(TraceContext(traceparent=f"00-{IDS}-{flags}", tracestate=state)) is decision
    assert decision_of(None) is None


def test_the_ratio_is_drawn_from_the_lower_half_of_the_trace_id():
    """As OpenTelemetry's ratio sampler does: all nodes draw alike."""
    low, high = f"{'f' * 16}{'0' * 16}", f"{'0' * 16}{'f' * 16}"
    assert [is_drawn(one, ratio) for ratio in (0.0, 0.5, 1.0) for one in (low, high)] == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]
