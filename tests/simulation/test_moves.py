"""The worlds `moves` and `drain`: sessions change nodes all the time, and nothing that was accepted is lost. And how each life ends."""

from statistics import median

import pytest

from agentrail.testing.simulation.checkers import standard_checkers
from agentrail.testing.simulation.facts import CallAnswered, Calm
from agentrail.testing.simulation.faults import STORE
from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.worlds import WORLDS, cluster
from tests.simulation.move_log import moves_of
from tests.simulation.planting import planted
from tests.thinned import IS_NIGHTLY, sample

LIVES = sample(range(300), 2)
MOVES_OF_A_LIFE = 10_000 / 300 if IS_NIGHTLY else 20
"""Fewest moves in mid-cycle of a life, on average."""

CALM_SECONDS = 60.0


def lived(world, seed):
    kind = WORLDS[world]
    return run(kind.scenario, seed, nodes=kind.nodes, hours=kind.hours)


def seconds_to_rest(report):
    """The time from the end of all faults until the last answer. None if a client still waits for the end of a prompt."""
    lines = report.log.lines
    calm_at = next(line.at for line in lines if isinstance(line.facts, Calm))
    done = [line for line in lines if line.kind == "note" and line.said == "has no more to do"]
    clients = {line.place for line in lines if line.place.startswith(("person-", "operator"))}
    answered = max(line.at for line in lines if isinstance(line.facts, CallAnswered))
    return answered - calm_at if {line.place for line in done} >= clients else None


@pytest.mark.simulation("V-034")
def test_sessions_move_in_mid_cycle_under_all_faults():
    """All promises hold. Most readers are silent for less than a second, and none for a minute, although some are away or cut off meanwhile.

    Of 300 lives, three leave no node alive for a minute or two.
    """
    moves, silences = 0, []
    for seed in LIVES:
        report = lived("moves", seed)
        assert report.broken is None, seed
        of_this_life, silent = moves_of(report.log.lines)
        moves += of_this_life
        silences += silent
    assert moves >= MOVES_OF_A_LIFE * len(LIVES)
    assert len(silences) > moves / 2
    assert median(silences) < 1.0
    assert max(silences) < (3 if IS_NIGHTLY else 1) * CALM_SECONDS


@pytest.mark.simulation("V-024")
@pytest.mark.parametrize("world", ["cluster", "moves", "drain"])
def test_all_prompts_end_in_a_calm_minute(world):
    """Whatever the faults were, each client knows the end of each of its prompts within 60 virtual seconds."""
    for seed in sample(range(50), 1):
        report = lived(world, seed)
        assert report.broken is None, seed
        seconds = seconds_to_rest(report)
        assert seconds is not None, seed
        assert seconds < CALM_SECONDS, seed


@pytest.mark.simulation("V-024")
def test_held_work_that_is_not_taken_up_again_is_found_by_liveness_alone():
    """No other checker sees a prompt that is accepted and never carried out."""

    def without_liveness(world):
        return tuple(one for one in standard_checkers(world) if one.name != "liveness")

    def busy(world):
        cluster(world)
        world.faults(STORE, rate=400)

    options = {"nodes": 2, "hours": 0.05}
    with planted("held-work-is-not-taken-up-again"):
        for seed in range(8, 38):  # before, no work is held
            report = run(busy, seed, **options)
            if report.broken is not None:
                break
        assert report.broken is not None
        assert report.broken.checker == "liveness"
        assert run(busy, seed, **options, checkers=without_liveness).broken is None
    assert run(busy, seed, **options).broken is None
