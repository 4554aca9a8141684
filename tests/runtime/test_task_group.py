"""What a session has at work, when it goes wrong: the actor falls with it, and a dismissed crew falls alone."""

import logging

import pytest
import trio

from agentrail.actors.mailbox import Mailbox
from agentrail.errors import ErrorInfo
from agentrail.runtime.crashes import TaskGroup, crash_edge


async def test_a_dismissed_crew_is_cancelled_and_waited_for():
    """What is dismissed before its first step takes none; who comes later is not started."""
    log = []

    async def work(scope: trio.CancelScope, name: str) -> None:
        with scope:
            log.append(name)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        task_group = TaskGroup(nursery, Mailbox())
        one, two, three = (trio.CancelScope() for _ in range(3))
        task_group.start_soon(work, one, "one", scope=one, name="one")
        await trio.testing.wait_all_tasks_blocked()
        task_group.start_soon(work, two, "two", scope=two, name="two")
        with trio.fail_after(60):
            await task_group.dismiss()
        task_group.start_soon(work, three, "three", scope=three, name="three")
        assert task_group.working == ()
    assert log == ["one"]


async def test_what_was_left_behind_fails_alone(caplog):
    """Its error goes to the log: the actor that it worked for has gone on without it."""

    async def fail_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            message = "on the way out"
            raise ValueError(message)

    async def work(scope: trio.CancelScope) -> None:
        with scope:
            await fail_late()

    scope = trio.CancelScope()
    with caplog.at_level(logging.WARNING, "agentrail.runtime"):
        async with trio.open_nursery() as nursery:
            task_group = TaskGroup(nursery, Mailbox())
            task_group.start_soon(work, scope, scope=scope, name="work")
            await trio.testing.wait_all_tasks_blocked()
            await task_group.dismiss()
    assert "ValueError: on the way out" in caplog.text


async def test_what_the_process_is_told_is_told_by_a_dismissed_crew_too():
    """`SystemExit` of what was left behind has nobody else to go to but the nursery."""

    async def leave(scope: trio.CancelScope) -> None:
        with scope:
            try:
                await trio.sleep_forever()
            finally:
                raise SystemExit(3)

    scope = trio.CancelScope()
    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: PT012 - the block is what is tested
        async with trio.open_nursery() as nursery:
            task_group = TaskGroup(nursery, Mailbox())
            task_group.start_soon(leave, scope, scope=scope, name="leave")
            await trio.testing.wait_all_tasks_blocked()
            await task_group.dismiss()
    assert caught.group_contains(SystemExit)


async def test_a_cancellation_from_outside_is_not_taken_for_a_failure():
    """Closing the nursery cancels what is left in it, and that goes on."""
    async with trio.open_nursery() as nursery:
        task_group = TaskGroup(nursery, Mailbox())
        task_group.start_soon(trio.sleep_forever, scope=trio.CancelScope(), name="sleep")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert task_group.working == ()


def as_data(error: Exception) -> ErrorInfo:
    """Make data of an error."""
    return ErrorInfo(code="crashed", message=repr(error))


def test_an_interrupt_is_nobodys_bug():
    """It leaves as it is, and out of a group without the crashes beside it."""
    with pytest.raises(KeyboardInterrupt), crash_edge(as_data):
        raise KeyboardInterrupt
    group = BaseExceptionGroup("", [KeyboardInterrupt(), ValueError("x")])
    with pytest.raises(KeyboardInterrupt), crash_edge(as_data):
        raise group


async def test_a_crash_while_it_is_cancelled_has_nobody_left_to_tell():
    """The cancellation is all that leaves."""

    async def fails_to_clean_up(task_status):
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            message = "x"
            raise ValueError(message)

    with trio.CancelScope() as scope, crash_edge(as_data):
        async with trio.open_nursery() as nursery:
            await nursery.start(fails_to_clean_up)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
