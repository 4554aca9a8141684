"""The oracle for lost items: it finds one that is lost between taking and a deadline, every time, and is silent otherwise."""

import json
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail.actors import machine_loop, open_supervisor
from agentrail.actors.mailbox import NO_MESSAGE, Mailbox
from agentrail.errors import AgentrailError, MailboxFull
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.statem import EventTimeout, Keep
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, says
from agentrail.testing.seeded import seeded_order
from agentrail.testing.taken import ItemWatch, Lost, no_lost_items
from tests.actors.rig import Tabled, settled
from tests.runtime.rig import open_bare
from tests.thinned import first, sample

ROOT = Path(__file__).parents[2]
STEP_SECONDS = 0.000_05
SEEDS = range(40)
FEW_SEEDS = first(SEEDS, 8)


class Drift(trio.abc.Instrument):
    """Lets each step of a task cost time, without which no deadline ever comes between two."""

    def __init__(self, clock):
        self.clock = clock

    def after_task_step(self, task):
        self.clock.jump(STEP_SECONDS)


async def take_and_look_again(mailbox, timers, *, suspended=False):
    """The planted bug: it takes inside the scope of the deadline, and lets others have a turn before it hands the item on."""
    await mailbox.give_way()
    while True:
        with trio.CancelScope(
            deadline=trio.current_time() + 1e9 if timers is None else timers.next_seconds()
        ):
            item = mailbox.take_nowait(control_only=suspended)
            if item is NO_MESSAGE:
                await mailbox.wait(control_only=suspended)
                item = mailbox.take_nowait(control_only=suspended)
            if item is not NO_MESSAGE:
                await trio.lowlevel.checkpoint()
                return item
        if timers is not None:
            timers.collect()


def meet_deadlines(seed):
    """Send casts to a machine just when the timer is due that each of its events sets anew."""
    chance = random.Random(seed)  # noqa: S311 - has to repeat

    async def main():
        made = Tabled({"s1": lambda _: Keep(actions=[EventTimeout(1.0)])})
        flags = SupervisorFlags("one_for_one")
        async with open_supervisor(flags, [ChildSpec("m", made.start)]) as supervisor:
            handle = (await supervisor.which_children())[0].handle
            for number in range(60):
                handle.cast(number)
                await trio.sleep(1.0 + chance.uniform(-4, 4) * STEP_SECONDS)
            await trio.sleep(0.5)

    clock = FakeClock()
    with seeded_order(seed):
        trio.run(main, clock=clock, instruments=[Drift(clock)])


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_an_item_that_is_lost_before_a_deadline_is_found(seed, monkeypatch):
    """In each run: the cast was accepted, and no code ever acted on it."""
    monkeypatch.setattr(machine_loop, "take_in_turn", take_and_look_again)
    with (
        pytest.raises(Lost, match=r"items were accepted and never handled:\n(Cast|TimerDue) in the mailbox"),
        no_lost_items(),
    ):
        meet_deadlines(seed)


def talk(seed):
    """Hold two short conversations, as far as they get: what is lost may be an answer that a caller waits for."""

    async def main():
        async with open_bare() as supervisor:
            for _ in range(2):
                model = FunctionModel(lambda _: says("one ", "two ", "three", pause_seconds=0.5))
                session = await supervisor.start_session(model=model)
                for prompt in ("a", "b"):
                    with trio.move_on_after(600), suppress(AgentrailError):
                        await session.ask(prompt)
                with trio.move_on_after(600), suppress(AgentrailError):
                    await session.stop()

    with seeded_order(seed):
        trio.run(main, clock=FakeClock())


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_an_item_that_a_session_never_hears_is_found(seed, monkeypatch):
    """One of them, whichever it is: the mailbox gives it to nobody, as if the deadline had come instead."""
    take, lost_at, taken = Mailbox.take_nowait, random.Random(seed).randint(1, 20), []  # noqa: S311 - has to repeat

    def lose(self, **options):
        item = take(self, **options)
        # Those of sessions: no actor ends without its own.
        if type(item).__module__.startswith(("agentrail.core", "agentrail.runtime")):
            taken.append(item)
            if len(taken) == lost_at:
                return NO_MESSAGE
        return item

    monkeypatch.setattr(Mailbox, "take_nowait", lose)
    with pytest.raises(Lost, match="accepted and never handled"), no_lost_items():
        talk(seed)


def test_sessions_as_they_are_lose_nothing():
    """The same conversations."""
    for seed in SEEDS[::4]:
        with no_lost_items() as watch:
            talk(seed)
        assert watch.handled > 20


def test_what_is_given_up_is_told_and_not_lost():
    """Thrown away for another one, drained, or there when it is closed; what waits at the end waits. The same object put twice is two."""
    with no_lost_items() as watch:
        full = Mailbox(capacity=1, overflow="drop_oldest")
        full.put_nowait("old")
        full.put_nowait("new")
        assert full.statistics().dropped == 1
        left = Mailbox(capacity=1)
        left.put_nowait("waits")
        with suppress(MailboxFull):
            left.put_nowait("refused")
        left.put_control("control")
        left.put_notice("notice")
        drained = Mailbox()
        drained.put_nowait("one")
        drained.drain()
    assert (watch.accepted, watch.given_up, watch.handled) == (6, 2, 0)

    watch, mailbox, item = ItemWatch(), Mailbox(), ("the", "same")
    for _ in range(2):
        watch.put(mailbox, item)
    watch.handle(mailbox, item)
    assert len(watch.lost()) == 1
    watch.handle(mailbox, item)
    assert watch.lost() == ()


def test_a_reader_that_was_not_woken_is_found(monkeypatch):
    """The item is there still, and nothing would ever take it."""
    monkeypatch.setattr(Mailbox, "wake", lambda _: None)
    said = []

    async def main():
        mailbox = Mailbox()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(machine_loop.take_in_turn, mailbox, None)
            await settled()
            mailbox.put_nowait("hello")
            said.extend(watch.stuck())
            nursery.cancel_scope.cancel()

    with no_lost_items() as watch:
        trio.run(main)
    assert len(said) == 1
    assert "1 items wait in the mailbox of" in said[0]


@pytest.mark.check
@pytest.mark.parametrize(("seed", "least"), [(1, 800), *((one, 500) for one in sample(range(2, 12), 2))])
def test_long_runs_lose_nothing(seed, least):
    """That of `long_run.py`, in a process of its own, with crashes, aborts, stops and children; at night ten more of them."""
    command = [sys.executable, "-m", "tests.testing.long_run", str(seed), "--watch-items"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(ran.stdout)["handled"] > least
