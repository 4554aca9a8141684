"""The order of tasks comes from a seed, under each release of Trio that is listed; under another one a run says so."""

from types import SimpleNamespace

import pytest
import trio
from trio._core import _run

from agentrail.testing.clock import FakeClock
from agentrail.testing.seeded import NotRepeatable, run_queue, seeded_order, why_not_repeatable


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


@pytest.mark.parametrize("name", ["_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT", "Runner"])
def test_a_trio_without_one_of_the_private_names_is_not_repeatable(name):
    """Each of them: the generator, the switch, and the way to the queue of ready tasks. With all of them it is repeatable."""
    names = {
        each: getattr(_run, each)
        for each in ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT", "Runner")
    }
    assert why_not_repeatable(switches=SimpleNamespace(**names)) is None
    fewer = SimpleNamespace(**{each: value for each, value in names.items() if each != name})
    assert "not repeatable: Trio" in why_not_repeatable(switches=fewer)


def test_a_queue_of_another_name_is_not_repeatable():
    """The name inside of Trio's runner counts too."""
    moved = SimpleNamespace(**vars(_run) | {"Runner": SimpleNamespace()})
    assert "tasks cannot be held back" in why_not_repeatable(switches=moved)


def test_an_order_of_its_own_decides_which_tasks_run():
    """It gets each batch sorted by age, and may return a task that it left out to the queue."""

    class LastFirst:
        def shuffle(self, batch):
            seen.append(len(batch))
            if len(batch) > 1:
                run_queue().extend(batch[:-1])
                del batch[:-1]

    seen, said = [], []

    async def go(number):
        said.append(number)

    async def main():
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(go, number)

    with seeded_order(0, LastFirst()):
        trio.run(main, clock=FakeClock())
    assert said == [3, 2, 1, 0]
    assert max(seen) >= 4
