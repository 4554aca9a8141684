"""How large a session's state becomes: bounded by its options and by what it is told, and not by how long it lives."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import msgspec
import pytest

from agentrail.core.protocol import signals as s
from agentrail.core.protocol.hooks import FileWritten
from agentrail.core.protocol.request import EffectId
from agentrail.core.session import compaction_run
from agentrail.core.session.state import SessionState
from agentrail.core.values.history import GrowingSet, Log
from agentrail.core.values.toolbox import read_call
from agentrail.messages import Text
from tests.core.worlds import completed, new_session, prompt, run

LETTERS = "word " * 40


def objects_in(value: Any, known: set[int] | None = None) -> int:
    """Count all objects that a state holds, shared ones once."""
    known = set() if known is None else known
    if id(value) in known or isinstance(value, type) or callable(value):
        return 0
    known.add(id(value))
    return 1 + sum(objects_in(part, known) for part in parts_of(value))


def parts_of(value: Any) -> Iterator[Any]:
    """What one object refers to, also what it hides from those who compare it."""
    match value:
        case msgspec.Struct():
            yield from (getattr(value, name) for name in value.__struct_fields__)
            slots = (name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ()))
            yield from (getattr(value, name, None) for name in slots)
        case Log() | GrowingSet():
            yield from (getattr(value, name) for name in value.__slots__)
        case Mapping():
            yield from (*value.keys(), *value.values())
        case tuple() | list() | set() | frozenset():
            yield from value
        case _ if attrs.has(type(value)):
            yield from (getattr(value, field.name) for field in attrs.fields(type(value)))
        case _ if type(value).__module__.startswith("agentrail"):
            yield from vars(value).values() if hasattr(value, "__dict__") else ()
            yield from (getattr(value, name, None) for name in getattr(value, "__slots__", ()))
        case _:
            return


def request_of(state: SessionState) -> EffectId:
    assert state.data.stream is not None
    return state.data.stream.effect_id


def cycle(state: SessionState, number: int) -> SessionState:
    """One prompt with two calls and an answer, and then the summary of all before."""

    def say(signal: s.Signal) -> None:
        nonlocal state
        state = run([signal], state)

    def open_calls() -> list[EffectId]:
        return [call.effect_id for call in state.data.batch if call.effect_id is not None]

    name = f"p{number}"
    say(prompt(name, f"{LETTERS}{number}", at_ms=number))
    calls = (read_call(f"{name}-{place}", "read", '{"path": "a"}') for place in "ab")
    say(completed(request_of(state), *calls))
    while at_work := open_calls():
        say(s.ToolFinished(at_ms=number, effect_id=at_work[0], text=f"{LETTERS}{name}", started_at_ms=0))
    say(completed(request_of(state), Text(text=f"{LETTERS}{name}")))
    say(s.Compact(at_ms=number, signal_id=s.SignalId(f"c{number}")))
    if state.data.compaction is not None:
        say(completed(state.data.compaction.effect_id, Text(text="They spoke.")))
        written = FileWritten(path="compacted/x.md", written_bytes=9)
        say(s.PluginRequestFinished(at_ms=number, effect_id=state.data.compaction.effect_id, result=written))
    return state


@pytest.mark.check
@pytest.mark.at(87)
def test_a_long_life_does_not_make_a_session_larger(monkeypatch):
    """After 200 cycles with summaries it holds no more than after 50, and about as many ids of calls as it may."""
    monkeypatch.setattr(compaction_run, "MAX_CALL_IDS", 40)
    state, sizes = new_session(), []
    for number in range(200):
        state = cycle(state, number)
        sizes.append(objects_in(state))
        assert len(state.data.call_ids) <= 40 + 2
    assert max(sizes[50:]) <= 1.01 * max(sizes[:50])


def test_the_id_of_a_survivor_is_not_forgotten(monkeypatch):
    """Its result is still to come, however much was summarised since: a new call of its id gets another one."""
    monkeypatch.setattr(compaction_run, "MAX_CALL_IDS", 4)
    state = run([prompt("p", LETTERS)], new_session())
    state = run([completed(request_of(state), read_call("slow", "deploy", "{}"))], state)
    state = run([s.AbortCycle(at_ms=1, signal_id=s.SignalId("a"))], state)
    assert [call.call.call_id for call in state.data.survivors] == ["slow"]
    for number in range(12):
        state = cycle(state, number)
    assert "slow" in state.data.call_ids
    assert "p1-a" not in state.data.call_ids


@pytest.mark.at(87)
def test_whoever_waits_holds_no_conversation():
    """A caller that waits for the end of a cycle costs its id, however much was said."""
    state = new_session()
    for number in range(20):
        state = cycle(state, number)
    state = run([prompt("p")], state)
    before = objects_in(state)
    waiting = [s.ReplyQuery(at_ms=1, signal_id=s.SignalId(f"q{number}")) for number in range(100)]
    assert objects_in(run(waiting, state)) <= before + 101
