"""What is legal is decided for every pair of signal and phase, and the cells that people would argue about are these."""

from itertools import product
from typing import get_args

import pytest

from agentrail.core.protocol.effects import Refuse, ReplyToCaller
from agentrail.core.protocol.signals import AbortCycle, Asked, Prompt, ReplyQuery, Signal
from agentrail.core.session.state import Phase
from agentrail.core.session.transitions import LEGALITY, Verdict
from tests.core.worlds import small_world
from tests.thinned import each

PAIRS = tuple(product(get_args(Signal), Phase))


@each(("signal", "phase"), PAIRS)
def test_every_signal_is_decided_in_every_phase(signal, phase):
    """A caller is answered, sooner or later: only outcomes and notices are dropped, only calls refused or postponed; an abort works everywhere (AT-030)."""
    cell = LEGALITY[signal][phase].verdict
    assert isinstance(cell, Verdict)
    if issubclass(signal, Asked):
        assert cell is not Verdict.DROP
    else:
        assert cell in {Verdict.TAKE, Verdict.DROP}
    assert cell is Verdict.TAKE or signal is not AbortCycle


def test_nothing_else_is_in_the_table_and_no_one_changes_a_cell():
    """It speaks of the signals of the union and of the phases, and of nothing else."""
    assert set(LEGALITY) == set(get_args(Signal))
    assert all(tuple(row) == tuple(Phase) for row in LEGALITY.values())

    with pytest.raises(TypeError):
        LEGALITY[Prompt] = {}
    with pytest.raises(TypeError):
        LEGALITY[Prompt][Phase.IDLE] = Verdict.DROP


def test_the_small_world_meets_every_cell():
    """So each promise was held there; `collect_reply` waits for the cycle that runs, and is answered at once when none does (3.3)."""
    met = {(type(seen.signal), seen.before.phase) for seen in small_world() if not seen.before.ended}
    assert met == set(PAIRS)

    asked = [seen for seen in small_world() if isinstance(seen.signal, ReplyQuery) and not seen.before.ended]
    for seen in asked:
        answers = [effect for effect in seen.effects if isinstance(effect, ReplyToCaller | Refuse)]
        waits = seen.before.data.cycle is not None
        assert [effect.to for effect in answers] == ([] if waits else [seen.signal.signal_id])
    assert {seen.before.phase for seen in asked if seen.before.data.cycle is not None} == set(Phase)
