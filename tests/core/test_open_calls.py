"""Thousands of calls in one response: each costs what it costs among few, and all of them are one frozen value."""

import sys

import msgspec
import pytest

from agentrail.core.protocol.effects import RunTool, StartStream
from agentrail.core.protocol.signals import Signal, ToolFinished
from agentrail.core.session import machine
from agentrail.core.session.open_calls import NO_CALLS, CallState, OpenCalls
from agentrail.messages import CallId, ToolCall, ToolMessage
from tests.core.worlds import completed, new_session, prompt


def _states(count: int) -> list[CallState]:
    calls = [ToolCall(call_id=CallId(f"c{n}"), name="read", arguments={}) for n in range(count)]
    return [CallState(call=call, arguments={}, stage="waiting") for call in calls]


@pytest.mark.parametrize("count", [70, 7])
def test_calls_are_found_by_their_ids_and_stay_in_order(count):
    """A change gives a new value, and the old one still says what it said; of a handful of calls as of many."""
    before = OpenCalls(_states(count))
    last = count - 1
    running = msgspec.structs.replace(before[3], stage="running", effect_id="t1")
    after = before.changed(running)
    assert (after.find("c3"), after.next_waiting()) == (running, before[0])
    assert (before.find("c3").stage, before.find("c99")) == ("waiting", None)
    assert (after.count("running"), after.count("waiting", "running"), len(after)) == (1, count, count)
    found = [after.has_any(frozenset(one)) for one in ({"running"}, {"done", "waiting"}, {"done"}, set())]
    assert found == [True, True, False, False]
    again = after.changed(msgspec.structs.replace(running, effect_id="t2"))
    assert again.find("c3").effect_id == "t2"
    assert [state.call.call_id for state in again] == [f"c{n}" for n in range(count)]
    assert again[-1].call.call_id == again[last:][0].call.call_id == f"c{last}"
    assert again == OpenCalls(again)
    assert again != before
    assert hash(again) == hash(before)
    assert repr(OpenCalls(_states(2))) == "OpenCalls(c0: waiting, c1: waiting)"
    assert (NO_CALLS.next_waiting(), len(NO_CALLS)) == (None, 0)
    assert again != OpenCalls(_states(count + 1))
    assert (again.waiting_children, again.changed(before[3]).count("waiting")) == (0, count)
    with pytest.raises(IndexError, match=f"index {count} is outside of {count} calls"):
        again[count]


def _calls_made(count: int) -> int:
    """Answer a batch of so many calls, two at a time, and count how many functions were called for it."""
    state = new_session(max_parallel_tools=2)
    calls = [ToolCall(call_id=CallId(f"c{n}"), name="read", arguments={"path": str(n)}) for n in range(count)]
    state, effects = machine.step(state, prompt())
    (start,) = [effect for effect in effects if isinstance(effect, StartStream)]
    waiting: list[Signal] = [completed(start.request.attempt, *calls, stop_reason="tool_use")]
    made = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        while waiting:
            state, effects = machine.step(state, waiting.pop())
            waiting += [
                ToolFinished(at_ms=3, effect_id=effect.effect_id, text="x", started_at_ms=3)
                for effect in effects
                if isinstance(effect, RunTool)
            ]
    finally:
        sys.setprofile(None)
    last = state.data.history.messages[-1]
    assert isinstance(last, ToolMessage)
    assert len(last.results) == count
    return made


@pytest.mark.check
def test_a_call_among_four_thousand_costs_what_one_among_few_costs():
    """Counted in functions that are called, not in seconds: sixteen times as many calls, sixteen times the work."""
    assert _calls_made(4000) / 4000 < 1.3 * _calls_made(250) / 250
