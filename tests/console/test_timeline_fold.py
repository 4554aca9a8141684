"""One timeline, two folds: Python's and the console's give the same spans of the same events; live, behind a reload, and out of a journal."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentrail.core.journal.timeline import SpanItem, Timeline
from agentrail.core.wire.codec import decode_event
from agentrail.events import Event, UnknownEvent
from tests.console.fold_cases import fold_cases
from tests.console.node import needs_node, run_in_node
from tests.core.journal.timelines import timeline_of

GOLDEN = Path(__file__).parent.parent / "core" / "golden" / "events"


def plain(spans: tuple[SpanItem, ...]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(spans))
    return made


def cases() -> list[dict[str, Any]]:
    """The events of all scenarios and golden journals; and every golden event in a row, which no session would publish."""
    found = []
    for line in fold_cases():
        case = msgspec.json.decode(line)
        events = [event for step in case["steps"] for event in step["events"]]
        found.append({"name": case["name"], "events": events})
    row = [msgspec.json.decode(file.read_bytes()) for file in sorted(GOLDEN.glob("*.json"))]
    numbered = [{**event, "seq": seq, "at_ms": 10 * seq} for seq, event in enumerate(row + row, 1)]
    return [
        *found,
        {"name": "every golden event, twice", "events": numbered},
        {"name": "set back", "events": SET_BACK},
    ]


def folded(events: list[dict[str, Any]]) -> tuple[SpanItem, ...]:
    """What Python makes of events in their wire form."""
    return timeline_of(known(event) for event in events if event["kind"] != "unknown")


def known(event: dict[str, Any]) -> Event:
    made = decode_event(msgspec.json.encode(event))
    assert not isinstance(made, UnknownEvent), event
    return made


@pytest.mark.c(29)
@pytest.mark.check
@needs_node
def test_the_console_draws_the_spans_that_python_folds(tmp_path):
    """Of each case the same, field for field."""
    lines = [{**case, "spans": plain(folded(case["events"]))} for case in cases()]
    assert sum(len(case["spans"]) for case in lines) > 500
    kinds = {span["kind"] for case in lines for span in case["spans"]}
    assert kinds == {"cycle", "request", "call", "gate", "child", "compaction"}
    written = (msgspec.json.encode(line) + b"\n" for line in lines)
    assert "# pass 2\n" in run_in_node("spans_of_cases", "CONSOLE_TIMELINES", written, tmp_path)


def event(kind: str, seq: int, **fields: Any) -> dict[str, Any]:
    """An event by hand."""
    return {"kind": kind, "seq": seq, "session_id": "s", "at_ms": 100 * seq, **fields}


USAGE = {"input": 5, "output": 2, "cache_read": 1, "cache_write": 0, "reasoning": 0, "cost_usd": 0.5, "estimated": False}  # fmt: skip
ERROR = {"code": "overloaded", "message": "m", "retryable": True, "retry_after_seconds": None}
SAID: dict[str, Any] = {"role": "assistant", "content": [], "model": "m", "stop_reason": "end", "cut": False}
APPROVAL = {"id": "s/1", "call_id": "c", "tool": "shell", "arguments": {}, "arguments_hash": "h", "requested_at_ms": 1, "path": ["s"]}  # fmt: skip
LIFE = [
    event("prompt_received", 1, ref="p", content=[{"kind": "text", "text": "refund order 4411"}]),
    event("agent_start", 2, ref="p"),
    event("request_start", 3, model="demo:v", messages=1, attempt=1),
    event("plugin_slow", 4, plugin="audit", hook="RequestPrepared", milliseconds=80),
    event("retry", 5, attempt=2, delay_ms=1_000, error=ERROR),
    event("request_start", 6, model="demo:v", messages=1, attempt=2),
    event("message_start", 7, attempt=2),
    event("response_complete", 8, message=SAID, usage=USAGE, stop_reason="tool_use", attempt=2),
    event("approval_required", 9, approval=APPROVAL),
    event("approval_resolved", 10, approval=APPROVAL, status="approved", by="user"),
    event("tool_execution_start", 11, name="shell", call_id="c", arguments={}),
    event("tool_execution_end", 12, name="shell", call_id="c", result={"call_id": "c", "name": "shell", "text": "x", "is_error": False, "details": None}),
    event("agent_end", 13, messages=[], usage=USAGE, stop_reason="end", ref="p", turns=2),
]  # fmt: skip
SET_BACK = [event("approval_required", 9, approval=APPROVAL), event("approval_resolved", 10, approval=APPROVAL, status="approved", by="user", at_ms=1)]  # fmt: skip


@pytest.mark.c(29)
def test_a_wait_takes_no_negative_time():
    """The clock may be set back before the session continues in another process."""
    (gate,) = folded(SET_BACK)
    assert gate.attributes["waited_ms"] == 0


@pytest.mark.c(29)
def test_a_cycle_comes_to_its_spans_and_what_has_no_end_ends_with_it():
    """Retries are attempts of one row, a gate stands below its call, what plugins did is marked; a call that an abort took along, and a request whose cycle failed."""
    spans = folded(LIFE)
    told = [(one.key, one.parent, one.from_ms, one.to_ms, one.outcome) for one in spans]
    assert told == [
        ("cycle:2", None, 200, 1_300, "done"),
        ("request:3", "cycle:2", 300, 500, "error"),
        ("request:6", "cycle:2", 600, 800, "done"),
        ("gate:9", "call:11", 900, 900, "approved"),
        ("call:11", "cycle:2", 1_100, 1_200, "done"),
    ]
    cycle, failed, done, gate, _ = spans
    assert cycle.attributes["prompt"] == "refund order 4411"
    assert [(one.action, one.plugin) for one in failed.marks] == [("slow", "audit"), ("retry", "")]
    assert (done.attempt, done.attributes["row"], done.attributes["first_chunk_ms"]) == (2, failed.key, 100)
    assert (done.tokens_in, done.tokens_out, done.cost_usd) == (5, 2, 0.5)
    assert (gate.attributes["by"], gate.attributes["waited_ms"]) == ("user", 100)

    cut = [*LIFE[:11], event("agent_abort", 12, reason="no", ref="p")]
    by_key = {one.key: one for one in folded(cut)}
    assert by_key["call:11"].outcome == "incomplete"
    assert by_key["cycle:2"].outcome == "aborted"
    failed = [*LIFE[:7], event("agent_error", 8, error=ERROR, ref="p")]
    by_key = {one.key: one for one in folded(failed)}
    assert (by_key["request:6"].outcome, by_key["request:6"].attributes["error"]) == ("error", "overloaded")
    assert by_key["cycle:2"].outcome == "failed"
    assert folded(LIFE[:6])[-1].to_ms is None


@pytest.mark.c(29)
def test_duplicates_and_a_beginning_in_the_middle_change_nothing_and_break_nothing():
    """What comes twice is heard once; and a fold that begins anywhere gives the spans that begin there."""
    timeline = Timeline()
    for one in (LIFE[0], *LIFE, *LIFE):
        timeline.hear(known(one))
    assert plain(timeline.spans) == plain(folded(LIFE))
    whole = {one.key for one in folded(LIFE)}
    for start in range(len(LIFE)):
        assert {one.key for one in folded(LIFE[start:])} <= whole
