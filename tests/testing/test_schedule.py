"""The order of tasks comes from a seed, under each release of Trio that is listed; under another one a run says so."""

import random
import types
import warnings

import pytest
import trio
from trio._core import _run

from agentrail.testing.clock import FakeClock
from agentrail.testing.schedule import TRIO_RELEASES, NotRepeatable, seeded_order, why_not_repeatable

PLAIN = random.Random(1)  # noqa: S311 - stands for Trio's


def order_of_tasks(seed):
    """Let twelve tasks go round five times; give the order in which they came."""
    seen = []

    async def go_round(number):
        for _ in range(5):
            seen.append(number)
            await trio.lowlevel.checkpoint()

    async def main():
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(go_round, number)

    with seeded_order(seed):
        trio.run(main, clock=FakeClock())
    return seen


def test_the_switches_of_this_trio_are_where_they_were():
    """Loudly, for whoever upgrades: `_r` shuffles each batch, and `_ALLOW_DETERMINISTIC_SCHEDULING` sorts it before."""
    assert isinstance(_run._r, random.Random)  # noqa: SLF001 - that it is there is the point
    assert _run._ALLOW_DETERMINISTIC_SCHEDULING in {True, False}  # noqa: SLF001 - as above
    assert why_not_repeatable() is None


@pytest.mark.parametrize("seed", [1, "another"])
def test_one_seed_has_one_order(seed):
    """Whatever was drawn meanwhile."""
    first = order_of_tasks(seed)
    random.random()  # noqa: S311 - of the process: nobody of ours draws from it
    assert order_of_tasks(seed) == first


def test_other_seeds_have_other_orders():
    """Ten seeds, ten orders, none of them that in which the tasks began."""
    orders = {tuple(order_of_tasks(seed)) for seed in range(10)}
    assert len(orders) == 10
    assert tuple(range(12)) not in {order[:12] for order in orders}


def test_behind_the_block_all_is_as_before():
    """Also when it is left by an exception: Trio's generator is its own again, in the middle of its numbers."""
    before = _run._r, _run._r.getstate(), _run._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001 - compared
    with pytest.raises(ZeroDivisionError), seeded_order(1):
        1 / 0  # noqa: B018 - raised
    assert before == (_run._r, _run._r.getstate(), _run._ALLOW_DETERMINISTIC_SCHEDULING)  # noqa: SLF001 - compared


def test_an_unknown_release_is_told_of():
    """With its number, and what to do."""
    assert why_not_repeatable("0.99.1") == (
        "not repeatable: nothing is known of the order of tasks in Trio 0.99.1; use one of "
        + ", ".join(sorted(TRIO_RELEASES))
        + ", or run tests/testing/test_schedule.py under it and add it to TRIO_RELEASES"
    )
    assert why_not_repeatable("0.35.7") is None


@pytest.mark.parametrize(
    "switches",
    [
        {"_ALLOW_DETERMINISTIC_SCHEDULING": False},
        {"_r": PLAIN},
        {"_r": None, "_ALLOW_DETERMINISTIC_SCHEDULING": False},
        {"_r": PLAIN, "_ALLOW_DETERMINISTIC_SCHEDULING": "no"},
    ],
)
def test_switches_that_moved_are_told_of(switches):
    """Whichever is gone, or is something else now."""
    said = why_not_repeatable("0.35.0", types.SimpleNamespace(**switches))
    assert said is not None
    assert said.startswith("not repeatable: Trio 0.35.0 has no _r or no _ALLOW_DETERMINISTIC_SCHEDULING")


def test_a_run_under_an_unknown_release_warns(monkeypatch):
    """And runs: most of what it is for does not hang on the order."""
    monkeypatch.setattr("agentrail.testing.schedule.TRIO_RELEASES", frozenset({"0.1"}))
    monkeypatch.setattr("agentrail.testing.schedule.why_not_repeatable", lambda: why_not_repeatable("0.98.0"))
    with pytest.warns(NotRepeatable, match=r"not repeatable: .* Trio 0\.98\.0"):
        assert len(order_of_tasks(1)) == 60


def test_a_run_under_a_known_release_says_nothing():
    """No warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        order_of_tasks(1)
