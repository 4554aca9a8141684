"""Pairs of events and snapshots from real sessions, for the tests of the console's fold: `python -m tests.console.fold_cases FILE`.

One JSON object a line: `{name, session_id, first, steps: [{events, snapshot}]}`. `first` is the snapshot in front of all, `events` is what one
signal published, in wire form, `snapshot` how the session stood behind it, as a client is sent it. The sessions are all scenarios of
`tests/scenarios` and the golden journals.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from agentrail.core.journal.fold import first_state, walk
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.protocol.effects import Effect, Publish, RunTool
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import ToolFinished
from agentrail.core.session import machine
from agentrail.core.session.state import SessionState
from agentrail.core.session.views import snapshot_of
from agentrail.core.stack.loaded_stack import load_stack
from agentrail.core.wire.codec import encode_event
from agentrail.errors import InternalError
from agentrail.testing.plugins import PluginShelf
from agentrail.testing.scenario import Scenario, read_scenario
from agentrail.wire.form_fields import encode_snapshot
from tests.core.journal import golden_journals

SCENARIOS: Final = Path(__file__).parent.parent / "scenarios"

Step = dict[str, object]


def fold_cases() -> Iterator[bytes]:
    for file in sorted(SCENARIOS.glob("*.txt")):
        scenario = read_scenario(file.read_text())
        start = _start_of(scenario)
        yield _case(file.stem, start, _steps_of(scenario, start))
    for file in (golden_journals.FOLDER / f"{name}.jsonl" for name in ("plain", "guarded")):
        records = read_journal(file.read_bytes()).records
        start = first_state(records, golden_journals.SOURCES)
        walked = walk(start, records, sources=golden_journals.SOURCES)
        yield _case(
            f"journal_{file.stem}", start, (_step(one.after, one.effects, one.record.at_ms) for one in walked)
        )


def _case(name: str, start: SessionState, steps: Iterator[Step]) -> bytes:
    case = {
        "name": name,
        "session_id": start.data.config.session_id,
        "first": _snapshot(start, 0),
        "steps": list(steps),
    }
    return msgspec.json.encode(case) + b"\n"


def _start_of(scenario: Scenario) -> SessionState:
    stack, states = load_stack(scenario.plugins, ask=PluginShelf())
    return machine.new_session(scenario.config, scenario.tools, stack, states, scenario.messages)


def _steps_of(scenario: Scenario, state: SessionState) -> Iterator[Step]:
    """As `play` goes through a scenario; a signal that crashes the core changes nothing."""
    began_at_ms: dict[EffectId, int] = {}
    for line in scenario.inputs:
        signal = line.signal
        if isinstance(signal, ToolFinished) and not line.is_timed:
            began = began_at_ms.get(signal.effect_id, signal.at_ms)
            signal = msgspec.structs.replace(signal, started_at_ms=began)
        try:
            state, effects = machine.step(state, signal)
        except InternalError:
            continue
        began_at_ms |= {run.effect_id: signal.at_ms for run in effects if isinstance(run, RunTool)}
        yield _step(state, effects, signal.at_ms)


def _step(after: SessionState, effects: tuple[Effect, ...], at_ms: int) -> Step:
    events = [msgspec.Raw(encode_event(effect.event)) for effect in effects if isinstance(effect, Publish)]
    return {"events": events, "snapshot": _snapshot(after, at_ms)}


def _snapshot(state: SessionState, at_ms: int) -> msgspec.Raw:
    return msgspec.Raw(encode_snapshot(snapshot_of(state.phase, state.data, at_ms)))


if __name__ == "__main__":
    with Path(sys.argv[1]).open("wb") as out:
        out.writelines(fold_cases())
