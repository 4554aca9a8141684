"""How lives end that do not end by themselves: by Ctrl-C, in a deadlock, or with tasks that ignore their cancellation."""

import signal
import socket
import subprocess
import threading
from contextlib import suppress

import msgspec
import pytest
import trio

from agentrail import tool
from agentrail.testing.models import FunctionModel, calls, says
from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation import sim_files
from agentrail.testing.simulation.life import LifeInterrupted, run
from agentrail.testing.simulation.lives import SeedRange, live_one
from agentrail.testing.simulation.people import people
from agentrail.testing.simulation.sim_files import load_sim_file, replay
from agentrail.testing.simulation.stories import story
from agentrail.testing.simulation.worlds import cluster

HOURS = 0.003
IS_OPEN = [True]
"""Whether somebody presses Ctrl-C in the world `interrupted`."""


def interrupted(world):
    """A cluster with a node that stands still, in which Ctrl-C is pressed after four seconds."""
    cluster(world)

    async def press():
        await trio.sleep(4.0)
        world.stop(1, 600.0)
        if IS_OPEN:
            signal.raise_signal(signal.SIGINT)

    world.inhabit("somebody", press)


def test_ctrl_c_ends_a_life_and_keeps_what_was_lived():
    """Also while a node stands still, whose tasks cannot be cancelled. The draws so far lead to the same life again."""
    with pytest.raises(LifeInterrupted) as caught:
        run(interrupted, 5, nodes=3, hours=HOURS)
    report = caught.value.report
    assert report.broken.checker == "interrupted"
    assert 4.0 <= report.virtual_seconds < 4.5
    with pytest.raises(LifeInterrupted) as again:
        run(interrupted, 5, nodes=3, hours=HOURS, given=report.drawn)
    assert [line.said for line in again.value.report.log.lines] == [line.said for line in report.log.lines]


def test_ctrl_c_breaks_no_step():
    """It ends the life at the next checkpoint of the main task. In the midst of a step, an `except` could catch it, or a crash be blamed."""
    steps = []

    def answer(request):
        signal.raise_signal(signal.SIGINT)
        steps.append("goes on")
        return says("Hello.")

    def asked(world):
        world.profile("desk", model=FunctionModel(answer))
        people(world, 1, "desk", pause=(1, 2))

    with pytest.raises(LifeInterrupted):
        run(asked, 1, nodes=1, hours=HOURS)
    assert steps == ["goes on"]


def test_an_interrupted_life_is_saved(tmp_path, monkeypatch):
    """It is neither shrunk nor a test. Its file plays the life so far, and then a calm one."""
    work = SeedRange(name=f"{__name__}:interrupted", first=5, nodes=3, hours=HOURS, save=str(tmp_path))
    lived = live_one(work, 5)
    assert (lived.outcome, lived.file) == ("interrupted", str(tmp_path / "seed-5.sim"))
    assert "BROKEN: Ctrl-C" in lived.told
    assert [file.name for file in tmp_path.iterdir()] == ["seed-5.sim"]
    monkeypatch.setattr(f"{__name__}.IS_OPEN", [])
    report = replay(tmp_path / "seed-5.sim")
    assert report.broken is None
    assert report.virtual_seconds > 4.5


def test_a_scenario_that_waits_for_ever_is_a_broken_life(tmp_path):
    """No exception: it has a story, and its file plays it again."""

    async def waits(world):
        cluster(world)
        world.note("waits for nothing")
        await trio.sleep_forever()

    report = run(waits, 5, nodes=1, hours=HOURS)
    assert (report.broken.checker, report.broken.said) == ("a life ends", "no task can ever continue")
    assert "waits for nothing   ← BROKEN: no task can ever continue" in story(report)


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_task_that_cannot_be_cancelled_is_a_broken_life(is_busy):
    """Such as one that is shielded and works, or waits for something that never comes. The same seed ends in the same way."""

    def stays(world):
        cluster(world)

        async def stay():
            with trio.CancelScope(shield=True):
                while is_busy:  # noqa: ASYNC110 - it waits for nothing
                    await trio.sleep(1.0)
                await trio.sleep_forever()

        world.inhabit("a guest", stay)

    reports = [run(stays, 5, nodes=1, hours=HOURS) for _ in range(2)]
    said = (
        "tasks are still running long after the end of the life" if is_busy else "no task can ever continue"
    )
    assert [one.broken.said for one in reports] == [said, said]
    assert reports[0].digest == reports[1].digest


def test_a_check_that_raises_ends_the_life_with_its_error():
    """Neither the product code that logs a line nor a story hides it. During the setting-up, too."""

    def wrong(world):
        cluster(world)

        @world.always
        def looks_up():
            return {}["a bug of the check"] if any(one.kind == "person" for one in world.log.lines) else None

    def wrong_at_once(world):
        wrong(world)
        world.always(lambda: 1 / 0)
        world.note("begins")

    with pytest.raises(KeyError, match="a bug of the check"):
        run(wrong, 5, nodes=1, hours=HOURS)
    with pytest.raises(ZeroDivisionError):
        run(wrong_at_once, 5, nodes=1, hours=HOURS)


def test_a_final_check_is_of_a_whole_life():
    """It may rely on a life that was not cut short, and its own error ends the program. An async one would check nothing."""

    def cut_short(world):
        broken_at_once(world)
        world.finally_(lambda: 1 / 0)

    def whole(world):
        cluster(world)
        world.finally_(lambda: 1 / 0)

    def unheard(world):
        cluster(world)
        world.finally_(trio.lowlevel.checkpoint)

    assert run(cut_short, 5, nodes=1, hours=HOURS).broken.said == ASKED
    with pytest.raises(ZeroDivisionError):
        run(whole, 5, nodes=1, hours=HOURS)
    with pytest.warns(RuntimeWarning), pytest.raises(TypeError, match="'checkpoint' is async"):
        run(unheard, 5, nodes=1, hours=HOURS)


def test_a_final_check_sees_no_finally_of_a_killed_process():
    """The simulation cancels its tasks to free them, after the life was judged."""
    cleaned, runs = [], trio.Event()

    @tool(name="hold", effect_class="once")
    async def holding() -> str:
        """Hold."""
        runs.set()
        try:
            await trio.sleep(2.0)
        finally:
            cleaned.append("up")
        return ""

    def killed(world):
        model = FunctionModel(
            lambda request: calls(("hold", {})) if len(request.messages) == 1 else says("ok")
        )
        world.profile("shop", model=model, tools=[holding])
        people(world, 1, "shop", pause=(1.0, 2.0), deeds=("prompt",))

        async def kill():
            await runs.wait()
            world.kill(0)

        world.inhabit("killer", kill)

        @world.finally_
        def nothing_was_cleaned_up():
            assert not cleaned

    report = run(killed, 5, nodes=1, hours=HOURS)
    assert report.broken is None
    assert cleaned == ["up"]


def test_a_promise_may_break_before_a_life_begins():
    """By a line of the scenario itself."""

    def broken_early(world):
        cluster(world)

        @world.always
        def nothing_is_said():
            assert not world.log.lines

        world.note("begins")

    report = run(broken_early, 5, nodes=1, hours=HOURS)
    assert (report.broken.checker, len(report.log.lines)) == ("nothing_is_said", 1)


@pytest.mark.parametrize("is_at_once", [False, True])
@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: threading.Thread(target=int).start(), "start a thread"),
        (socket.socket, "open a socket"),
        (lambda: subprocess.run(["true"], check=True), "start a process"),
    ],
)
def test_a_life_uses_nothing_of_the_machine(use, said, is_at_once):
    """A thread, a socket or a process would tie it to more than its seed. The error names the line, whoever catches it there."""

    def guest(world):
        cluster(world)
        if is_at_once:
            with suppress(Exception):
                use()

        async def live():
            await trio.sleep(1.0)
            with suppress(Exception):
                use()

        world.inhabit("a guest", live)

    with pytest.raises(NotRepeatable, match=rf"a life must not {said}, .*see {__file__}:\d+"):
        run(guest, 5, nodes=1, hours=HOURS)
    assert run(cluster, 5, nodes=1, hours=HOURS).broken is None
    assert threading.Thread.start.__module__ == "threading"


@pytest.mark.parametrize("where", ["client", "tool", "scenario"])
def test_code_that_never_returns_to_the_loop_is_a_broken_life(monkeypatch, where):
    """It is interrupted after some time of the processor, and the sentence names its line."""
    monkeypatch.setattr("agentrail.testing.simulation.life.SPIN_SECONDS", 0.5)

    def spin():
        while True:
            pass

    @tool(name="spin")
    async def spinning() -> str:
        """Spin."""
        spin()
        return ""

    def spins(world):
        if where == "scenario":
            spin()
        model = FunctionModel(lambda request: calls(("spin", {})))
        world.profile("shop", model=model, tools=[spinning])
        people(world, 1, "shop", pause=(1.0, 2.0))

        async def live():
            if where == "client":
                spin()

        world.inhabit("a guest", live)

    broken = run(spins, 5, nodes=1, hours=HOURS).broken
    assert broken.checker == "a life ends"
    assert broken.said.startswith(f"a step of a task has no end: see {__file__}:")


@pytest.mark.simulation("V-001")
def test_a_life_that_takes_long_is_the_same_as_on_a_fast_machine(monkeypatch):
    """The watch over endless steps used to ring in long lives, and Trio woke up from its signal: one step more."""

    def slow(world):
        world.profile("shop", model=FunctionModel(lambda request: says("ok")))

        async def live():
            for _ in range(20):
                sum(range(1_000_000))
                await trio.sleep(1.0)

        world.inhabit("a guest", live)

    fast = run(slow, 5, nodes=1, hours=HOURS)
    monkeypatch.setattr("agentrail.testing.simulation.life.SPIN_SECONDS", 0.25)
    assert run(slow, 5, nodes=1, hours=HOURS).digest == fast.digest


async def _use_a_thread():
    await trio.to_thread.run_sync(int)


def test_a_thread_of_trio_is_refused():
    """It would wait in real time, while the clock of the life jumps ahead."""

    def guest(world):
        cluster(world)
        world.inhabit("a guest", _use_a_thread)

    with pytest.raises(NotRepeatable, match=rf"a life must not use a thread, .*see {__file__}:\d+"):
        run(guest, 5, nodes=1, hours=HOURS)


ASKED = "somebody asked"


def broken_at_once(world):
    """A cluster whose first call breaks a promise."""
    cluster(world)

    @world.always
    def nobody_asks():
        if any(line.kind == "person" for line in world.log.lines):
            raise AssertionError(ASKED)


def broken_as_well(world):
    """The same."""
    broken_at_once(world)


def test_a_broken_life_has_a_test_and_a_story_without_a_file_on_a_full_disk(tmp_path, monkeypatch):
    """The story names the test that was written. If nothing can be written, it says so."""
    work = SeedRange(
        name=f"{__name__}:broken_at_once", first=5, nodes=1, hours=HOURS, save=str(tmp_path), max_lives=0
    )
    lived = live_one(work, 5)
    assert lived.outcome == "broken"
    assert f"as a test: {tmp_path / 'test_seed_5.py'} (written)" in lived.told
    assert sorted(file.name for file in tmp_path.iterdir()) == ["seed-5.sim", "test_seed_5.py"]
    assert load_sim_file(tmp_path / "seed-5.sim").broken[1] == ASKED
    other = live_one(msgspec.structs.replace(work, name=f"{__name__}:broken_as_well"), 5)
    assert other.file == live_one(work, 5).file.replace("5.sim", "5-2.sim")
    assert "def test_seed_5_2(" in (tmp_path / "test_seed_5_2.py").read_text()

    def is_full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sim_files, "write_private", is_full)
    lived = live_one(work, 5)
    assert (lived.outcome, lived.file) == ("broken", "")
    assert ASKED in lived.told
    assert "not saved: [Errno 28] No space left on device: the file was not written" in lived.told
