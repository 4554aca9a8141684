"""`agentrail demo`: a tour in the terminal, offline and without a key. Its scenes are in `demo_tour`."""

import signal
from collections.abc import AsyncIterator
from typing import Annotated

import trio
from cyclopts import Parameter

from agentrail.cli.demo_stage import TourStage, demo_look_of_process
from agentrail.cli.demo_tour import give_tour
from agentrail.cli.exits import Exit
from agentrail.cli.logs import Debug, send_logs_to_stderr
from agentrail.cli.output import OutputClosed, OutputFailed
from agentrail.cli.printing import end_without_output
from agentrail.cli.screen import DirectScreen


def demo(
    *,
    fast: Annotated[
        bool, Parameter(help="Make no pauses to read in.", negative="", show_default=False)
    ] = False,
    debug: Debug = False,
) -> Exit:
    """Show the features of a session, scene by scene. See `commands.py` for the help."""
    send_logs_to_stderr(debug=debug)
    stage = TourStage(screen=DirectScreen(), look=demo_look_of_process(), is_fast=fast)
    return trio.run(show_tour, stage)


async def show_tour(stage: TourStage) -> Exit:
    """Show the tour until it ends or Ctrl-C. Both exit with success."""
    end = Exit.DONE
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leave_when_told, signals, nursery.cancel_scope)
            try:
                await give_tour(stage)
            except OutputFailed as error:
                end = end_without_output(error)
            except OutputClosed:  # its reader closed the pipe (`| head`)
                pass
            finally:
                nursery.cancel_scope.cancel(reason="the tour is over")
    return end


async def _leave_when_told(signals: AsyncIterator[int], work: trio.CancelScope) -> None:
    async for _ in signals:
        work.cancel(reason="interrupted")
