"""The debug mode that names who held the loop."""

import threading
import time

import pytest
import trio

import agentrail
from agentrail import tool
from agentrail.errors import OptionError
from agentrail.runtime.loop_watch import SlowStep, describe_held, modes_of, watch_loop
from tests.runtime.doors import calls_then


def hold_for(seconds: float) -> None:
    """Compute for so long, and let other threads look."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_who_held_the_loop_is_named_with_the_place():
    """The task by its name, how long it computed, and the stack while it did."""
    held: list[SlowStep] = []

    async def greedy() -> None:
        hold_for(0.3)
        await trio.lowlevel.checkpoint()

    with watch_loop(held.append, seconds=0.1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(greedy, name="the greedy one")
            nursery.start_soon(trio.lowlevel.checkpoint, name="a modest one")
    (one,) = [each for each in held if each.task == "the greedy one"]
    assert one.seconds >= one.cpu_seconds >= 0.3
    assert "in hold_for" in one.where
    assert "'the greedy one' blocked the event loop for" in describe_held(one)


async def test_one_who_waited_for_something_is_told_from_one_who_computed():
    """A lock that the loop waits for costs no time of the processor."""
    held: list[SlowStep] = []
    never = threading.Event()
    with watch_loop(held.append, seconds=0.1):
        never.wait(0.3)
        await trio.lowlevel.checkpoint()
        never.wait(0.3)
        await trio.lowlevel.checkpoint()
    assert any(one.seconds >= 0.3 > 2 * one.cpu_seconds for one in held)


async def test_what_others_computed_before_is_not_counted():
    """Of many short steps before one that waits, no more than two milliseconds, although none of them was looked at for itself."""
    held: list[SlowStep] = []
    never = threading.Event()
    with watch_loop(held.append, seconds=0.1):
        for _ in range(400):
            hold_for(0.0005)
            await trio.lowlevel.checkpoint()
        never.wait(0.3)
        await trio.lowlevel.checkpoint()
    (one,) = [one for one in held if one.seconds >= 0.3]
    assert one.cpu_seconds < 0.05


async def test_a_watch_inside_of_another_watches_nothing():
    """Two supervisors in one program: each step is told once, and nothing is left behind."""
    threads = set(threading.enumerate())
    held: list[SlowStep] = []
    with watch_loop(held.append, seconds=0.1), watch_loop(held.append, seconds=0.1):
        await trio.lowlevel.checkpoint()
        hold_for(0.2)
        await trio.lowlevel.checkpoint()
    assert len(held) == 1
    assert set(threading.enumerate()) <= threads  # one that Trio keeps from before may have ended


async def test_the_variable_turns_it_on(caplog):
    """`AGENTRAIL_DEBUG=loop`: the log names the tool that held all sessions."""

    @tool(thread=False)
    def greedy() -> str:
        """Compute."""
        hold_for(0.2)
        return "done"

    async with agentrail.open_supervisor(environ={"AGENTRAIL_DEBUG": "loop"}) as supervisor:
        session = await supervisor.start_session(model=calls_then("greedy"), tools=[greedy])
        await session.ask("go")
    assert "task 'greedy' blocked the event loop for" in caplog.text
    assert "in hold_for" in caplog.text


async def test_a_watch_tells_no_coroutine_function():
    """Nothing would await it, so each report would be lost."""
    refused = pytest.raises(
        OptionError, match=r"on_held is <function sleep .*: expected a function without `async`"
    )
    with refused, watch_loop(trio.sleep):
        pass


async def test_a_mode_that_is_none_is_refused():
    """The message names those there are."""
    assert modes_of(" loop, ") == {"loop"}
    assert modes_of("") == frozenset()
    with pytest.raises(OptionError, match="AGENTRAIL_DEBUG has 'lop': expected loop"):
        async with agentrail.open_supervisor(environ={"AGENTRAIL_DEBUG": "loop,lop"}):
            pass
