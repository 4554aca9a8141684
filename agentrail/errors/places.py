"""Calls that were made from the wrong place: where no Trio runs, or in a thread whose loop they would hold."""

from agentrail.errors.base import YourMove


class NoTrioRun(YourMove):
    """A call that waits was made where no Trio runs: under asyncio, or without a loop at all."""

    code = "no_trio_run"

    def __init__(
        self,
        message: str = (
            "agentrail needs Trio: trio.run(main), or run your ASGI app with hypercorn -k trio (docs/how-to/behind-fastapi); "
            "for asyncio programs, threads and notebooks there is agentrail.blocking (docs/how-to/from-asyncio)"
        ),
    ) -> None:
        """Say where to go."""
        super().__init__(message)


class HoldsLoop(YourMove):
    """A call that blocks its thread was made where a loop runs, which would stand still for as long."""

    code = "holds_loop"
