"""Errors of calls without a Trio run, or in a thread with an event loop."""

from agentrail.errors.base import YourMove


class NoTrioRun(YourMove):
    """A waiting call outside the Trio run of its object: under asyncio, without an event loop, or in another run."""

    code = "no_trio_run"

    def __init__(
        self,
        message: str = (
            "agentrail needs Trio: trio.run(main), or run your ASGI app with hypercorn -k trio (docs/how-to/behind-fastapi); "
            "for asyncio programs, threads and notebooks there is agentrail.blocking (docs/how-to/from-asyncio)"
        ),
    ) -> None:
        super().__init__(message)


class HoldsLoop(YourMove):
    """A blocking call in a thread that runs an event loop."""

    code = "holds_loop"
