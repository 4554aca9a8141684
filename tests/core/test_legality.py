"""What is legal is decided for every pair of signal and phase, and the cells that people would argue about are these."""

from itertools import product
from typing import Any, get_args

import pytest
from msgspec import structs

from agentrail.core.protocol import signals
from agentrail.core.protocol.effects import Refuse, ReplyToCaller
from agentrail.core.protocol.request import EffectId, TextDelta
from agentrail.core.protocol.signals import (
    AbortCycle,
    Asked,
    EffectOutcome,
    Prompt,
    ReplyQuery,
    Signal,
    SignalId,
    StreamStarted,
)
from agentrail.core.session import machine
from agentrail.core.session.legality import LEGALITY, Verdict, is_awaited, is_late_ephemeral, verdict
from agentrail.core.session.owners import OfStream
from agentrail.core.session.state import Phase
from agentrail.core.session.state_codec import encode_session
from agentrail.events import MessageDelta, StatusUpdate
from tests.core.worlds import new_session, small_world
from tests.thinned import each

PAIRS = tuple(product(get_args(Signal), Phase))


@each(("signal", "phase"), PAIRS)
def test_every_signal_is_decided_in_every_phase(signal, phase):
    """A new signal or phase fails here until somebody has decided its cells."""
    assert isinstance(LEGALITY[signal][phase].verdict, Verdict)


def test_nothing_else_is_in_the_table():
    """The table speaks of the signals of the union and of the phases, and of nothing else."""
    assert set(LEGALITY) == set(get_args(Signal))
    assert all(tuple(row) == tuple(Phase) for row in LEGALITY.values())


def test_the_table_cannot_be_edited():
    """Nobody changes a cell at run time."""
    with pytest.raises(TypeError):
        LEGALITY[Prompt] = {}
    with pytest.raises(TypeError):
        LEGALITY[Prompt][Phase.IDLE] = Verdict.DROP


@each(("signal", "phase"), PAIRS)
def test_who_asks_is_never_dropped(signal, phase):
    """A caller is answered, sooner or later: only outcomes and notices are dropped, only calls refused or postponed."""
    cell = LEGALITY[signal][phase].verdict
    if issubclass(signal, Asked):
        assert cell is not Verdict.DROP
    else:
        assert cell in {Verdict.TAKE, Verdict.DROP}


@pytest.mark.parametrize("phase", Phase)
def test_abort_is_taken_in_every_phase(phase):
    """An abort works in every phase and in every waiting state (AT-030)."""
    assert LEGALITY[AbortCycle][phase].verdict is Verdict.TAKE


def test_a_reply_is_waited_for_while_a_cycle_runs():
    """`collect_reply` waits for the cycle that runs, and is answered at once when none does (3.3)."""
    asked = [seen for seen in small_world() if isinstance(seen.signal, ReplyQuery) and not seen.before.ended]
    for seen in asked:
        answers = [effect for effect in seen.effects if isinstance(effect, ReplyToCaller | Refuse)]
        waits = seen.before.data.cycle is not None
        assert [effect.to for effect in answers] == ([] if waits else [seen.signal.signal_id])
    assert {seen.before.phase for seen in asked if seen.before.data.cycle is not None} == set(Phase)


def test_the_id_narrows_the_cell():
    """An outcome of another request is dropped where one of this request is taken."""
    data = new_session().data
    running = structs.replace(data, open={EffectId("r1"): OfStream()})
    mine, other = (StreamStarted(at_ms=0, effect_id=EffectId(name)) for name in ("r1", "r2"))
    assert verdict(Phase.RUNNING, running, mine) is Verdict.TAKE
    assert verdict(Phase.RUNNING, running, other) is Verdict.DROP
    assert verdict(Phase.IDLE, running, mine) is Verdict.DROP
    assert (
        verdict(Phase.IDLE, data, Prompt(at_ms=0, signal_id=SignalId("s"), ref="p", content=()))
        is Verdict.TAKE
    )


def test_the_small_world_meets_every_cell():
    """Each cell of the table is read somewhere in the small world, so each promise was held there."""
    met = {(type(seen.signal), seen.before.phase) for seen in small_world() if not seen.before.ended}
    assert met == set(PAIRS)


def test_only_awaited_outcomes_are_taken():
    """In all of the small world no outcome is taken of which the state does not say that it is awaited."""
    for seen in small_world():
        is_taken = seen.after.data.dropped == seen.before.data.dropped
        if (
            isinstance(seen.signal, EffectOutcome)
            and is_taken
            and not is_late_ephemeral(seen.before, seen.signal)
        ):
            assert is_awaited(seen.before.data, seen.signal) or seen.before.ended


def test_what_is_not_recorded_is_counted_by_the_shell_alone():
    """Late progress, late chunks and a late word of a child leave the very bytes; a late result and a late event count."""
    state = new_session()
    by: dict[str, Any] = {"at_ms": 1, "effect_id": EffectId("t9")}
    passing = (
        signals.ToolProgressed(**by, text="on it"),
        signals.ChunksArrived(**by, chunks=(TextDelta("a"),)),
        signals.ChildPublished(**by, event=MessageDelta(delta="a")),
    )
    for signal in passing:
        assert is_late_ephemeral(state, signal)
        after, effects = machine.step(state, signal)
        assert (encode_session(after), effects) == (encode_session(state), ())
    counted = (
        signals.ToolEmitted(**by, name="a"),
        signals.TimerFired(**by),
        signals.ChildPublished(**by, event=StatusUpdate(text="a")),
    )
    for signal in counted:
        assert not is_late_ephemeral(state, signal)
        assert machine.step(state, signal)[0].data.dropped == 1
    assert not is_late_ephemeral(machine.step(state, signals.Parked(at_ms=1, reason="a"))[0], passing[0])
