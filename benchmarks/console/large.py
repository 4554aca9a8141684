"""What large lists are made of: sessions, nodes of the tree, spans, records of a journal. The same in each run; pure."""

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, Final

from benchmarks.console.history import BEGAN_MS, SESSION, USAGE

SESSIONS: Final = 5_000
NODES: Final = 2_000
SPANS: Final = 5_000
RECORDS: Final = 100_000
CHANGES_A_ROUND: Final = 25
"""A hundred a second: a watch tells four rounds of them."""
ROUND_SECONDS: Final = 0.25

_CYCLES: Final = 50
_LOOKED_AT: Final = 97  # prime to the sizes, so that rounds go all over a list


def session_row(number: int, **given: Any) -> dict[str, Any]:
    """Make a row of a session."""
    return {
        "session_id": f"s-{number}",
        "title": f"Session {number}",
        "agent_id": "desk",
        "phase": "idle",
        "suspended": False,
        "tearing_down": False,
        "tool": None,
        "running": 0,
        "waiting": {"approvals": 0, "questions": 0},
        "queued": 0,
        "model": "demo:",
        "turn": 0,
        "tokens": 1_200,
        "cost_usd": 0.01,
        "created_at_ms": BEGAN_MS,
        "changed_at_ms": BEGAN_MS - number,
        "outcome": "end",
        "restarts": 0,
        "parent": None,
        "ended": False,
        "user": None,
    } | given


def node_row(number: int, **given: Any) -> dict[str, Any]:
    """Make a node of the tree; number 0 is its root."""
    is_root = number == 0
    return {
        "key": "0" if is_root else f"0.{number}",
        "parent": None if is_root else "0",
        "name": "sessions" if is_root else f"s-{number}",
        "kind": "supervisor" if is_root else "session",
        "status": "running",
        "phase": None if is_root else "idle",
        "session_id": None if is_root else f"s-{number}",
        "incarnation": 1,
        "restarts": number % 3,
        "mailbox": number % 7,
        "up_at_ms": BEGAN_MS,
        "intensity": {"used": 0, "allowed": 3, "within_ms": 5_000},
        "exits": [],
        "stuck": False,
    } | given


@cache
def rows_of(what: str) -> list[dict[str, Any]]:
    """Give all rows that are watched under a name."""
    match what:
        case "sessions":
            return [
                session_row(number, phase="idle" if number % 9 else "running") for number in range(SESSIONS)
            ]
        case "tree":
            return [node_row(number) for number in range(NODES + 1)]
        case _:
            return []


def changed_of(what: str, beat: int) -> list[dict[str, Any]]:
    """Give the rows that change in a round."""
    numbers = [(beat * CHANGES_A_ROUND + place) * _LOOKED_AT for place in range(CHANGES_A_ROUND)]
    match what:
        case "sessions":
            return [
                session_row(
                    number % SESSIONS, phase="running", tokens=1_200 + beat, changed_at_ms=BEGAN_MS + beat
                )
                for number in numbers
            ]
        case "tree":
            return [node_row(1 + number % NODES, mailbox=beat % 9) for number in numbers]
        case _:
            return []


def span_events(many: int) -> list[dict[str, Any]]:
    """Make a session of so many spans: cycles, and in them requests and calls."""
    told: list[dict[str, Any]] = []

    def tell(kind: str, **fields: Any) -> None:
        seq = len(told) + 1
        told.append({"kind": kind, "seq": seq, "session_id": SESSION, "at_ms": BEGAN_MS + seq * 40, **fields})

    tell("session_start", model="demo:", tools=["shell"], plugins=[])
    for number in range(many // _CYCLES // 2):
        ref = f"p-{number}"
        tell("prompt_received", ref=ref, content=[{"kind": "text", "text": f"Look at part {number}."}])
        tell("agent_start", ref=ref)
        for turn in range(_CYCLES):
            _tell_turn(tell, f"c-{number}-{turn}")
        tell("agent_end", messages=[], usage=USAGE, stop_reason="end", ref=ref, turns=_CYCLES)
    return told


def _tell_turn(tell: Any, call_id: str) -> None:
    request = {"model": "demo:", "messages": 3, "context_messages": 0, "context_digest": "", "attempt": 1}
    tell("request_start", **request)
    call = {"name": "shell", "call_id": call_id, "arguments": {"command": "ls"}}
    block = {"kind": "tool_call", **call, "malformed": None}
    message = {
        "role": "assistant",
        "content": [block],
        "model": "demo:",
        "stop_reason": "tool_use",
        "cut": False,
    }
    tell("response_complete", message=message, usage=USAGE, stop_reason="tool_use", attempt=1)
    tell("tool_execution_start", **call)
    result = {"call_id": call_id, "name": "shell", "text": "a.py", "is_error": False, "details": None}
    tell("tool_execution_end", name="shell", call_id=call_id, result=result)


def events_page(told: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Answer a page of events, from either side and of some kinds."""
    before, after = int(query.get("before", 0)) or len(told) + 1, int(query.get("after", 0))
    limit = int(query.get("limit", 200))
    kinds = set(query["kinds"].split(",")) if "kinds" in query else None
    between = told[after : before - 1]
    wanted = iter(between if "after" in query else reversed(between))
    page = list(islice((one for one in wanted if kinds is None or one["kind"] in kinds), limit))
    is_cut = next(wanted, None) is not None
    if "after" not in query:
        page.reverse()
    first = page[0]["seq"] if is_cut and page and "after" not in query else after + 1
    last = page[-1]["seq"] if is_cut and page and "after" in query else before - 1
    return {"events": page, "first": first, "last": last, "kept_from": 1, "more": is_cut}


def trace_page(query: Mapping[str, str]) -> dict[str, Any]:
    """Answer a page of the records of a journal; none where some kinds are looked for: it has only timers."""
    limit = int(query.get("limit", 100))
    if "kinds" in query:
        numbers = range(0)
    elif "before" in query:
        end = min(RECORDS, int(query["before"]) - 1)
        numbers = range(max(1, end - limit + 1), end + 1)
    else:
        after = int(query.get("after", 0))
        numbers = range(after + 1, min(RECORDS, after + limit) + 1)
    entries = [_record(number) for number in numbers]
    return {"entries": entries, "next": None, "previous": None, "first": 1, "last": RECORDS}


def explained(at: int) -> dict[str, Any]:
    """Answer what became of a record."""
    signal = {"kind": "timer_fired", "at_ms": BEGAN_MS + at, "effect_id": None, "begun_by": None}
    told = {"at": at, "signal": signal, "phase": ["idle", "idle"], "runs": [], "effects": []}
    return {**told, "events": None, "drift": None}


def state_at(at: int) -> dict[str, Any]:
    """Answer how the session was behind a record."""
    told = {"phase": "idle", "suspended": False, "ended": False, "messages": [], "plugins": {}}
    return {"at": at, "state": told, "patch": None}


def _record(number: int) -> dict[str, Any]:
    head = {"number": number, "at_ms": BEGAN_MS + number, "kind": "timer_fired", "body": {}}
    return {**head, "does": [], "events": 0, "epoch": 1, "hash": ""}
