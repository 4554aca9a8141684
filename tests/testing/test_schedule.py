"""The order of tasks comes from a seed, under each release of Trio that is listed; under another one a run says so."""

import pytest
import trio

from agentrail.testing.clock import FakeClock
from agentrail.testing.seeded import NotRepeatable, seeded_order, why_not_repeatable


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


def test_a_run_under_an_unknown_release_warns(monkeypatch):
    """And runs: most of what it is for does not hang on the order."""
    monkeypatch.setattr("agentrail.testing.seeded.TRIO_RELEASES", frozenset({"0.1"}))
    monkeypatch.setattr("agentrail.testing.seeded.why_not_repeatable", lambda: why_not_repeatable("0.98.0"))
    with pytest.warns(NotRepeatable, match=r"not repeatable: .* Trio 0\.98\.0"):
        assert len(order_of_tasks(1)) == 60
