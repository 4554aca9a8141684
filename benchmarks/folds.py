"""What a journal costs to fold: a record of a plain cycle, hashes and comparison included; and whether a long one costs more for each.

No store, no network and no loop: the records are there, and `fold_journal` makes a state of them.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

from agentrail.abc.store import Opening
from agentrail.cli.exit_codes import Exit
from agentrail.cli.sessions_command import show_session, trace
from agentrail.cli.store_access import StorePlace
from agentrail.core.journal.fold import Sources, fold_journal
from agentrail.core.journal.record import Record, Tail, sealed
from agentrail.core.journal.recorded_steps import decode_signal_body
from agentrail.core.journal.recorder import Recorder, opened_draft
from agentrail.core.protocol.effects import RunTool, StartStream
from agentrail.core.protocol.request import ModelFacts
from agentrail.core.protocol.signals import (
    Prompt,
    ResponseCompleted,
    SessionBegan,
    Signal,
    SignalId,
    StreamStarted,
    ToolFinished,
)
from agentrail.core.session.machine import new_session, step
from agentrail.core.session.state import SessionConfig
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.evals.journals import OtherStack, StackComparison
from agentrail.messages import (
    AssistantMessage,
    CallId,
    PromptRef,
    SessionId,
    Text,
    TokenUsage,
    ToolCall,
    ToolMessage,
)
from agentrail.plugins import SecurityGuard
from agentrail.stores.sqlite import SqliteStore
from benchmarks.bars import target_of
from benchmarks.measure import Effort, Row, Sample, interleave, repeat
from benchmarks.ours import expect

_CYCLES: Final = 1_000
_FEW: Final = 100
_MANY: Final = 1_667
_MICROSECONDS: Final = 1e6
_SESSION: Final = SessionId("s")
_START: Final = new_session(
    SessionConfig(session_id=_SESSION, path=(_SESSION,), model=ModelFacts(model="stub:model")),
    Toolbox([ToolSpec(name="read", description="Reads.", parameters={"type": "object"})]),
)


def folds(effort: Effort) -> list[Row]:
    """A journal of 1,000 cycles with a tool, of six records each."""
    long, short = journal_of_cycles(effort.of(_CYCLES)), journal_of_cycles(effort.of(_FEW))
    against_steps = interleave(partial(_step_all, long), partial(_fold, long), effort.rounds)
    against_short = interleave(partial(_fold, short), partial(_fold, long), effort.rounds)
    against_guard = interleave(partial(_fold, short), partial(_compare, short), effort.rounds)
    return [
        against_steps.row(
            "folds",
            "record_seconds",
            "CPU for a record of a fold; bare: decoded and stepped, nothing looked at",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("fold"),
        ),
        against_short.row(
            "folds",
            "record_seconds",
            "a record of a fold, by itself: 40 µs are 25,000 records a second",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("fold speed"),
        ),
        against_short.row(
            "folds",
            "record_seconds",
            "the same in a journal of 1,000 cycles; bare: of 100",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("growth of folds"),
        ),
        against_guard.row(
            "folds",
            "record_seconds",
            "a record of `evals journals` with a guard added; bare: folded",
            unit="µs",
            factor=_MICROSECONDS,
            target=target_of("journals beside folds"),
        ),
        *_shown(effort),
    ]


def _shown(effort: Effort) -> list[Row]:
    records = journal_of_cycles(effort.of(_MANY))
    rounds = repeat(partial(_show, records), effort.rounds)
    what = f"a journal of {len(records):,} records"
    return [
        rounds.row("folds", "show", f"`sessions show` of {what}: CPU", unit="s", target=target_of("session shown")),
        rounds.row("folds", "page", f"`sessions trace --html` of {what}: CPU", unit="s", target=target_of("page of a session")),
        rounds.row("folds", "megabytes", f"the page of {what}", unit="MB", target=target_of("size of a page")),
    ]  # fmt: skip


@contextmanager
def _silenced() -> Iterator[None]:
    """Drop what commands write: they write to the descriptor."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _show(records: tuple[Record, ...]) -> Sample:
    with TemporaryDirectory() as folder:
        store, page = SqliteStore(Path(folder, "s.db")), Path(folder, "page.html")
        store.create(Opening(records=records, root=_SESSION, node=""))
        store.close()
        place = StorePlace(store=f"sqlite:{folder}/s.db", data_dir=Path(folder))
        began_at = process_time()
        with _silenced():
            shown = show_session(_SESSION, place=place)
            shown_at = process_time()
            written = trace(_SESSION, html=page, place=place)
        took = process_time() - shown_at
        expect("exit codes", (shown, written), (Exit.DONE, Exit.DONE))
        return {"show": shown_at - began_at, "page": took, "megabytes": page.stat().st_size / 1e6}


def _fold(records: tuple[Record, ...]) -> Sample:
    began_at = process_time()
    folded = fold_journal(records)
    took = process_time() - began_at
    expect("records folded", folded.tail.seq, len(records))
    return {"record_seconds": took / len(records)}


def _compare(records: tuple[Record, ...]) -> Sample:
    found = StackComparison(
        records, Sources(), OtherStack(plugins=lambda recorded: [*recorded, SecurityGuard()])
    )
    began_at = process_time()
    for _ in found.steps():
        pass
    took = process_time() - began_at
    expect("records compared, all the same", (found.at, found.first), (len(records), None))
    return {"record_seconds": took / len(records)}


def _step_all(records: tuple[Record, ...]) -> Sample:
    state = _START
    began_at = process_time()
    for record in records[1:]:
        state, _ = step(state, decode_signal_body(record.kind, record.at_ms, record.body))
    took = process_time() - began_at
    expect("events published", state.data.seq, records[-1].events)
    return {"record_seconds": took / len(records)}


def journal_of_cycles(cycles: int) -> tuple[Record, ...]:
    """Make the journal of so many cycles with a tool."""
    state, tail, recorder = _START, Tail(), Recorder(_START)
    records, tail = sealed((opened_draft(state, at_ms=0, engine="0"),), tail, scope="", session=_SESSION)
    made = list(records)
    signals: list[Signal] = [SessionBegan(at_ms=0)]
    left = cycles
    while signals or left:
        if not signals:
            left -= 1
            ref = f"p{left}"
            content = (Text(text="What is in the file, please?"),)
            signals.append(Prompt(at_ms=1, signal_id=SignalId(ref), ref=PromptRef(ref), content=content))
        signal = signals.pop(0)
        before, (state, effects) = state, step(state, signal)
        records, tail = sealed(
            recorder.note(before, signal, state, effects), tail, scope="", session=_SESSION
        )
        made += records
        for effect in effects:
            signals += _outcomes(effect)
    return tuple(made)


def _outcomes(effect: Any) -> list[Signal]:
    match effect:
        case StartStream(request=request):
            attempt, is_last = request.attempt, isinstance(request.messages[-1], ToolMessage)
            call = ToolCall(call_id=CallId(f"c{attempt}"), name="read", arguments={"path": "a.txt"})
            message = AssistantMessage(
                content=(Text(text="It has this."),) if is_last else (Text(text="I look."), call),
                model="stub:model",
                stop_reason="end" if is_last else "tool_use",
            )
            usage = TokenUsage(input=100, output=10)
            return [
                StreamStarted(at_ms=1, effect_id=attempt),
                ResponseCompleted(
                    at_ms=1, effect_id=attempt, message=message, usage=usage, stop_reason=message.stop_reason
                ),
            ]
        case RunTool(effect_id=effect_id):
            return [ToolFinished(at_ms=1, effect_id=effect_id, text="content " * 20, started_at_ms=1)]
        case _:
            return []
