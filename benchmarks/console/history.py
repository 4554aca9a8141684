"""A long session as events: cycles with answers in Markdown, calls with outputs, notices. The same in each run."""

from collections.abc import Iterator
from typing import Any, Final

SESSION: Final = "s-long"
_TURNS: Final = 4
_PARAGRAPH: Final = 40
BEGAN_MS: Final = 1_795_341_600_000
USAGE: Final = {
    "input": 1_200,
    "output": 80,
    "cache_read": 0,
    "cache_write": 0,
    "reasoning": 0,
    "cost_usd": 0.004,
    "estimated": False,
}
LAST: Final = {"name": "audit", "payload": {"part": "the last one"}}
ANSWER: Final = """I looked at **{n}** places, and `src/part_{n}.py` is the one that matters.

- it reads the settings, see [the page](https://example.com/{n})
- it writes *nothing*
- and it is called from three others

```python
def part_{n}(value: int) -> str:
    # what is given comes back
    return f"part {{value + {n}}}"
```

| file | lines | calls |
|:-----|------:|------:|
| a_{n}.py | {n} | 3 |
| b_{n}.py | 12 | 1 |

So I go on with the next one."""


def events_of(count: int) -> list[dict[str, Any]]:
    """Make so many committed events."""
    made: list[dict[str, Any]] = []
    for kind, fields in _told():
        seq = len(made) + 1
        made.append({"kind": kind, "seq": seq, "session_id": SESSION, "at_ms": BEGAN_MS + seq * 50, **fields})
        if len(made) == count:
            break
    # What stands at the end has a row of its own, by which a page is known to show all of it.
    head = {name: made[-1][name] for name in ("seq", "session_id", "at_ms")}
    made[-1] = {"kind": "plugin_event", **head, **LAST}
    return made


def _told() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "session_start", {"model": "demo:", "tools": ["read_file", "shell"], "plugins": []}
    number = 0
    while True:
        number += 1
        ref = f"p-{number}"
        yield (
            "prompt_received",
            {"ref": ref, "content": [{"kind": "text", "text": f"Look at part {number}."}]},
        )
        yield "agent_start", {"ref": ref}
        for turn in range(_TURNS):
            yield from _turn(number, turn)
        yield "plugin_event", {"name": "audit", "payload": {"part": number}}
        end = {"messages": [], "usage": USAGE, "stop_reason": "end", "ref": ref, "turns": _TURNS}
        yield "agent_end", end


def _turn(number: int, turn: int) -> Iterator[tuple[str, dict[str, Any]]]:
    is_last = turn == _TURNS - 1
    request = {"model": "demo:", "messages": 3, "context_messages": 0, "context_digest": "", "attempt": 1}
    yield "request_start", request
    yield "message_start", {"attempt": 1}
    call = f"c-{number}-{turn}"
    words = ANSWER.format(n=number) if is_last else f"I look at place {turn} of part {number}."
    blocks: list[dict[str, Any]] = [{"kind": "text", "text": words}]
    arguments = {"command": f"grep -n part_{number} src/*.py"}
    if not is_last:
        blocks.append(
            {"kind": "tool_call", "call_id": call, "name": "shell", "arguments": arguments, "malformed": None}
        )
    stop = "end" if is_last else "tool_use"
    message = {"role": "assistant", "content": blocks, "model": "demo:", "stop_reason": stop, "cut": False}
    yield "response_complete", {"message": message, "usage": USAGE, "stop_reason": stop, "attempt": 1}
    if is_last:
        return
    yield "tool_calls", {"count": 1}
    yield "tool_execution_start", {"name": "shell", "call_id": call, "arguments": arguments}
    lines = "\n".join(f"src/part_{number}.py:{line}: part_{number}({line})" for line in range(12))
    result = {"call_id": call, "name": "shell", "text": lines, "is_error": False, "details": None}
    yield "tool_execution_end", {"name": "shell", "call_id": call, "result": result}
    times = {"started_at_ms": BEGAN_MS, "ended_at_ms": BEGAN_MS + 12, "duration_ms": 12, "attempts": 1}
    yield "tool_execution_metrics", {"name": "shell", "call_id": call, **times}


def delta_of(number: int) -> str:
    """Give the words of one delta: some twenty characters, marks in each tenth, and in each fortieth the end of a paragraph."""
    if (number + 1) % _PARAGRAPH == 0:
        return "and so on.\n\n"
    return f"**word** `{number}` of it " if number % 10 == 0 else f"and word {number} of it "
