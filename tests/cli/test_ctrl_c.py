"""What ends a command in order besides Ctrl-C."""

import signal

import pytest
import trio

from agentrail.cli.ctrl_c import interruptible, stop_signals


@pytest.mark.parametrize("sent", stop_signals())
async def test_a_signal_that_ends_a_command_lets_its_work_stop(sent):
    """Like Ctrl-C: the work is cancelled, and what it does at its end is done."""
    stopped = []

    async def work() -> None:
        try:
            signal.raise_signal(sent)
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    with pytest.raises(KeyboardInterrupt):
        await interruptible(work)
    assert stopped == [True]


async def test_work_without_a_signal_ends_as_it_does_alone():
    """Its result is returned, and its error is raised without a group around it."""

    async def give() -> int:
        await trio.lowlevel.checkpoint()
        return 7

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        message = "no group around it"
        raise LookupError(message)

    assert await interruptible(give) == 7
    with pytest.raises(LookupError, match="no group around it"):
        await interruptible(fail)
