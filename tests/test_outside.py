"""What a seed gives goes through eight doors, and each supervisor has its own: nothing is shared by accident."""

import signal
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from agentrail import outside, tool
from agentrail.actors import open_supervisor
from agentrail.otp.child_specs import SupervisorFlags
from agentrail.runtime.session_clock import now_ms, set_now_ms
from agentrail.testing.models import FunctionModel, says
from tests.garbage import without_collector
from tests.runtime.rig import open_bare
from tests.tools.rig import CTX


class Counting(outside.RealMachine):
    """A machine whose ids say whose they are."""

    def __init__(self, name, *, date=1_000.0):
        self.name = name
        self.date = date
        self.minted = 0

    def ids(self, size_bytes, /):
        self.minted += 1
        return f"{self.name}{self.minted}"

    def wall(self):
        return self.date

    def stopwatch(self):
        self.date += 1.0
        return self.date

    def jitter(self):
        return 0.5


def test_the_machine_is_in_place_unless_something_else_is():
    """And when the block ends, however it does, what was there before is there again; another thread does not see it."""
    one, other, seen = Counting("a"), Counting("b"), []
    assert outside.current() is outside.MACHINE
    with outside.installed(one):
        with suppress(ZeroDivisionError), outside.installed(other):
            assert outside.ids(4) == "b1"
            raise ZeroDivisionError
        assert (outside.ids(4), outside.wall(), outside.stopwatch()) == ("a1", 1_000.0, 1_001.0)
        assert outside.jitter() == 0.5
        thread = threading.Thread(target=lambda: seen.append(outside.current()))
        thread.start()
        thread.join()
    assert seen == [outside.MACHINE] == [outside.current()]

    # Ids of the machine are as long as asked for, and differ; the clocks go; what is drawn lies in its range.
    assert {len(outside.ids(size)) for size in (4, 6)} == {8, 12}
    assert outside.ids(8) != outside.ids(8)
    assert outside.wall() > 1_700_000_000
    assert outside.stopwatch() <= outside.stopwatch()
    assert 0 <= outside.jitter() < 1


async def test_tasks_and_offloaded_functions_inherit_it():
    """For as long as they last, which may be longer than the block."""
    one, go_on, seen = Counting("a"), trio.Event(), []

    async def task():
        await go_on.wait()
        seen.append(outside.current())
        seen.append(await outside.offload(outside.current))

    async with trio.open_nursery() as nursery:
        with outside.installed(one):
            nursery.start_soon(task)
        assert outside.current() is outside.MACHINE
        go_on.set()
    assert seen == [one, one]


async def test_an_offloaded_function_hears_of_its_cancellation_and_knows_the_time():
    """As in Trio's own threads; `monotonic` is the clock of the run, there and in the loop, to which a way leads back."""
    begun = threading.Event()

    def work():
        begun.set()
        while True:
            outside.check_cancelled()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outside.offload, work)
            await trio.to_thread.run_sync(begun.wait)
            scope.cancel()
    assert scope.cancelled_caught
    before = outside.monotonic()
    assert before <= await outside.offload(outside.monotonic) <= outside.monotonic()
    heard = trio.Event()
    await outside.offload(partial(outside.way_back(), heard.set))
    with trio.fail_after(60):
        await heard.wait()


async def test_an_error_of_an_offloaded_function_is_freed_without_the_collector():
    """A caller that asks for unknown sessions would leave each error in memory, with all frames that it passed through."""
    known = []

    class Unknown(Exception):
        def __init__(self):
            known.append(weakref.ref(self))

    def refuse():
        raise Unknown

    with without_collector():
        with suppress(Unknown):
            await outside.offload(refuse)
        assert known[0]() is None


async def test_the_thread_of_an_offloaded_function_has_its_name():
    """Whoever finds a thread that is left over learns what it does."""

    def look():
        return threading.current_thread().name

    assert (await outside.offload(look)).startswith("look from ")


async def test_processes_come_through_one_door():
    """Opened, run to their end, started from this thread, and signalled as a group."""
    door = outside.processes()
    quick, long = [sys.executable, "-c", "print(7)"], [sys.executable, "-c", "import time; time.sleep(60)"]
    ran = await door.run(quick, capture_stdout=True)
    assert ran.stdout.strip() == b"7"
    opened = await door.open(long, start_new_session=True)
    door.signal_group(opened.pid, signal.SIGKILL)
    assert await opened.wait() == -signal.SIGKILL
    started = door.start(quick, stdout=subprocess.DEVNULL)
    assert await outside.offload(started.wait) == 0
    with pytest.raises(ProcessLookupError):
        door.signal_group(opened.pid, 0)


def test_a_watchdog_barks_unless_it_is_called_off():
    """In a thread, so that a loop that stands still does not hold it."""
    barked = threading.Event()
    outside.watchdog(60, partial(pytest.fail, "called off")).cancel()
    outside.watchdog(0.01, barked.set)
    assert barked.wait(5)


async def test_a_supervisor_of_actors_has_the_watchdog_of_its_place():
    """Its stop sets one, and its end calls it off."""
    calls = []

    class Dogs(outside.RealMachine):
        def watchdog(self, seconds, bark, /):
            calls.append(seconds)
            return self

        def cancel(self):
            calls.append("called off")

    with outside.installed(Dogs()):
        async with open_supervisor(SupervisorFlags("one_for_one"), (), exit_process_after_seconds=9.0):
            assert calls == []
    assert calls == [9.0, "called off"]


async def test_two_supervisors_of_one_run_mint_their_own_ids():
    """Whoever calls: sessions that are started from outside of both blocks have the ids of their supervisor."""
    one, other, seen = Counting("a"), Counting("b"), []
    async with trio.open_nursery() as nursery:
        over = trio.Event()

        async def open_with(which, *, task_status):
            with outside.installed(which):
                async with open_bare() as supervisor:
                    task_status.started(supervisor)
                    await over.wait()

        supervisors = [await nursery.start(open_with, which) for which in (one, other)]
        for supervisor in supervisors:
            session = await supervisor.start_session(model=FunctionModel(lambda _: says("yes")))
            seen.append(session.session_id)
            seen.append((await session.prompt("?")).ref)
        over.set()
    assert [text[:3] for text in seen] == ["s-a", "a2-", "s-b", "b2-"]


async def test_plugins_and_tools_are_timed_by_the_stopwatch_in_place(caplog):
    """A tool that holds the loop is told of by this clock, and not by the machine's."""

    @tool(thread=False)
    def quick() -> str:
        """Be quick."""
        return "done"

    with outside.installed(Counting("a")):
        await quick.execute({}, CTX)
    assert "quick" in caplog.text


async def test_nodes_of_one_run_have_dates_of_their_own():
    """The date of signals is that of the clock in place, and goes forward with Trio's for each."""
    with outside.installed(Counting("a", date=10.0)):
        assert now_ms() == pytest.approx(10_000, abs=1_000)
        with outside.installed(Counting("b", date=70.0)):
            assert now_ms() == pytest.approx(70_000, abs=1_000)
            set_now_ms(90_000)
            assert now_ms() == pytest.approx(90_000, abs=1_000)
        assert now_ms() == pytest.approx(10_000, abs=1_000)
