"""Races that were planted into the kernel are found by the order of tasks, and the kernel as it is has none of them."""

import pytest

from agentrail.testing.simulation.life import run
from agentrail.testing.simulation.schedule import FAIR, HYBRID, PORTFOLIO, TRIO
from agentrail.testing.simulation.tape import Tape
from agentrail.testing.simulation.worlds import actors, single
from tests.simulation.busy_life import live
from tests.simulation.planting import planted
from tests.thinned import sample

LIVES = 100
OUT_OF_REACH = ("reader-parks-without-looking-again", "slot-is-registered-after-the-send")
"""Races that need a task to be held back while others make several steps."""

OF_ACTORS = (
    "answer-just-before-a-deadline-is-dropped",
    "letter-is-lost-between-taking-and-a-deadline",
    "reply-is-lost-between-check-and-park",
)
SOUND = sample(range(3_000), 10)


@pytest.mark.simulation("V-007")
@pytest.mark.parametrize("race", OUT_OF_REACH)
def test_a_planted_race_is_found(race):
    """Within 100 lives of the portfolio. The life is broken again if it is replayed from its tape."""
    with planted(race):
        for seed in range(LIVES):
            tape = Tape(f"{race}/{seed}")
            life, _ = live(tape, PORTFOLIO)
            if life.broken:
                again, _ = live(Tape(tape.seed, tape.drawn), PORTFOLIO)
                assert again.broken == life.broken
                return
    pytest.fail(f"{LIVES} lives of the portfolio did not show it")


@pytest.mark.simulation("V-007")
@pytest.mark.parametrize("race", OF_ACTORS)
def test_a_race_of_actors_is_found(race):
    """The world `actors` shows each of them within ten lives."""
    with planted(race):
        broken = [run(actors, f"{race}/{seed}", hours=0.01).broken for seed in range(10)]
    assert {one.checker for one in broken if one is not None} == {"every_caller_gets_its_answer"}


@pytest.mark.check
@pytest.mark.simulation("V-007")
def test_the_checkers_of_the_standard_world_find_a_planted_race():
    """A caller that registers too late waits for ever, and the world of one node says so at its calm end."""
    with planted("slot-is-registered-after-the-send"):
        for seed in range(LIVES):
            report = run(single, f"race/{seed}", hours=0.02, schedule=HYBRID)
            if report.broken is not None:
                assert report.broken.checker == "liveness"
                return
    pytest.fail(f"{LIVES} lives did not show it")


@pytest.mark.simulation("V-007")
@pytest.mark.parametrize("schedule", [FAIR, TRIO], ids=str)
@pytest.mark.parametrize("race", OUT_OF_REACH)
def test_a_race_that_needs_holding_back_is_hidden_from_fair_orders(race, schedule):
    """Also with a clock that each step advances: that alone does not let one task overtake another by several steps."""
    with planted(race):
        for seed in range(5):
            life, _ = live(Tape(f"{race}/{seed}"), schedule)
            assert life.broken == []


@pytest.mark.simulation("V-008")
def test_the_kernel_holds_under_starvation_and_drift():
    """No false alarm and no bug, in ten lives of the portfolio; at night in 3,000."""
    for seed in SOUND:
        life, _ = live(Tape(f"V-008/{seed}"), PORTFOLIO)
        assert life.broken == []
        assert life.events > 200
        assert run(actors, f"V-008/{seed}", hours=0.01).broken is None
