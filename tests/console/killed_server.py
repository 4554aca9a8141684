"""A server that is killed: `python -m tests.console.killed_server DIRECTORY PORT ROUNDS`. Its model goes by what stands in the conversation, so it goes on where it was.

Its one tool goes on as far as the numbers say that are written to its input, one in a line: so a test knows how far the cycle is, however fast the machine is.
"""

import sys
from functools import partial
from pathlib import Path

import trio
from attrs import define, field

from agentrail import tool
from agentrail.abc import ModelRequest
from agentrail.gateway.app import create_app
from agentrail.gateway.serving import open_listeners, serve_app
from agentrail.messages import ToolMessage
from agentrail.testing.models import FunctionModel, Turn, calls, says
from tests.host.hosting import profile


@define(eq=False)
class Gate:
    """How far the cycle may go."""

    _reached: int = 0
    _moved: trio.Event = field(factory=trio.Event)

    async def read(self) -> None:
        """Read how far, until nobody writes any more."""
        rest = b""
        async with trio.lowlevel.FdStream(sys.stdin.fileno()) as lines:
            async for chunk in lines:
                *numbers, rest = (rest + chunk).split(b"\n")
                for number in numbers:
                    self._reached = int(number)
                    self._moved.set()
                    self._moved = trio.Event()

    async def wait_for(self, number: int) -> None:
        while number >= self._reached:
            await self._moved.wait()


def model_of(rounds: int) -> FunctionModel:
    """Make one that calls for the next number, as long as there is one."""

    def answer(request: ModelRequest) -> Turn:
        done = sum(1 for message in request.messages if isinstance(message, ToolMessage))
        return says("done") if done >= rounds else calls(("tick", {"n": done}), text=f"step {done}")

    return FunctionModel(answer)


async def serve(directory: Path, port: int, rounds: int) -> None:
    """Serve until the end of the process."""
    gate = Gate()

    @tool
    async def tick(n: int) -> str:
        """Say a number."""
        await gate.wait_for(n)
        await trio.lowlevel.checkpoint()
        return f"tick {n}"

    app = create_app(
        profiles=[profile(model_of(rounds), tools=[tick], max_turns=10 * rounds)],
        store=f"sqlite:{directory / 'kept.db'}",
        data_dir=directory,
    )
    listeners = await open_listeners("127.0.0.1", port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.read)
        await serve_app(app, listeners, trio.sleep_forever)


if __name__ == "__main__":
    trio.run(partial(serve, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
