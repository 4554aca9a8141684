"""`FaultPlan(seed)`: models that fail, tools that crash, subscribers that lag. The same seed repeats the same run.

plan = FaultPlan(7)

async def main():
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model=plan.model(model), tools=[plan.tool(tool)])
        ...

plan.run(main)
print(plan.faults)
"""

import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

import trio

from agentrail.abc import Capabilities, Provider, Tool, ToolContext, ToolOutcome
from agentrail.abc.held_secrets import secrets_held_by
from agentrail.core.protocol.request import Chunk, ModelRequest
from agentrail.errors import Overloaded, ProviderError, RateLimited, SubscriberTooSlow, Transport
from agentrail.events import Event
from agentrail.messages import JsonObject
from agentrail.otp.field_rules import Share, checks_arguments
from agentrail.outside import RealMachine, installed
from agentrail.runtime.session_handle import Session
from agentrail.testing.clock import FakeClock
from agentrail.testing.seeded import SeededMachine, seeded_order

T = TypeVar("T")

_ERRORS: Final[tuple[Callable[[str], ProviderError], ...]] = (Overloaded, RateLimited, Transport)
_MAX_CHUNKS_BEFORE: Final = 4
_MAX_PAUSE_SECONDS: Final = 20.0
_MAX_BUFFER: Final = 8


class FaultPlan:
    """A plan of faults, drawn from a seed.

    Attributes:
        faults: Faults so far, one line each, in order.
    """

    @checks_arguments
    def __init__(self, seed: int, *, rate: Share = 0.3) -> None:
        """Create a plan.

        Args:
            seed: Any number. The same seed gives the same faults.
            rate: Fraction of the chances that are taken, from 0 to 1.
        """
        self._seed = seed
        self._rate = rate
        self._counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run a program like `trio.run`, on virtual time, with all chance drawn from the seed."""
        with seeded_order(self._seed), installed(_DrawnMachine(self._seed)):
            return trio.run(main, clock=FakeClock())

    def model(self, provider: Provider) -> Provider:
        """Wrap a provider so that it is slow, or fails before, between or after its chunks."""
        return _FaultyModel(self, provider)

    def tool(self, tool: Tool) -> Tool:
        """Wrap a tool so that it is slow, or crashes before or after its work."""
        return _FaultyTool(self, tool)

    async def follow(self, session: Session) -> list[Event]:
        """Subscribe with irregular reads and disconnections, resuming by number each time.

        Returns:
            All committed events from the first one to the end of the session.

        Cancellation: Stops reading, without a result.
        """
        seen: list[Event] = []
        after = 0
        while True:
            chance = self.draw("subscriber")
            try:
                async with session.subscribe(
                    after=after, deltas=False, buffer=chance.randint(1, _MAX_BUFFER)
                ) as events:
                    async for event in events:
                        seen.append(event)
                        after += 1
                        if chance.random() < self._rate:
                            await trio.sleep(chance.uniform(0, _MAX_PAUSE_SECONDS))
                return seen
            except SubscriberTooSlow as error:
                self.faults.append(f"subscriber cut off after {error.resume_after}")

    def draw(self, name: str) -> random.Random:
        """Return the random source of the next action under a name, for faults of your own."""
        self._counts[name] += 1
        return random.Random(f"{self._seed}/{name}/{self._counts[name]}")  # noqa: S311 - must be repeatable, and is not a secret

    def strikes(self, chance: random.Random) -> bool:
        """Return whether this chance is taken."""
        return chance.random() < self._rate


class _DrawnMachine(RealMachine):
    """Chance and ids from the seed. Threads and processes are real, because tools under test may need them."""

    def __init__(self, seed: int) -> None:
        self._drawn = SeededMachine(seed)

    def ids(self, size_bytes: int, /) -> str:
        return self._drawn.ids(size_bytes)

    def jitter(self) -> float:
        return self._drawn.jitter()


class _FaultyModel:
    def __init__(self, plan: FaultPlan, provider: Provider) -> None:
        self._plan = plan
        self._provider = provider
        self.name = provider.name

    @property
    def secrets(self) -> tuple[str, ...]:
        return secrets_held_by(self._provider)

    def capabilities(self, model: str) -> Capabilities:
        return self._provider.capabilities(model)

    def encode(self, request: ModelRequest) -> bytes:
        return self._provider.encode(request)

    @asynccontextmanager
    async def open_stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Chunk]]:
        chance = self._plan.draw(request.model)
        async with (
            self._provider.open_stream(request) as chunks,
            aclosing(self._spoil(request.model, chance, chunks)) as spoilt,
        ):
            yield spoilt

    async def _spoil(
        self, model: str, chance: random.Random, chunks: AsyncIterator[Chunk]
    ) -> AsyncGenerator[Chunk, None]:
        fails = self._plan.strikes(chance)
        left = chance.randint(0, _MAX_CHUNKS_BEFORE)
        error = chance.choice(_ERRORS)(f"a fault of {model}")
        async for chunk in chunks:
            if fails and left == 0:
                self._plan.faults.append(f"{model} fails: {error.code}")
                raise error
            left -= 1
            if self._plan.strikes(chance):
                await trio.sleep(chance.uniform(0, _MAX_PAUSE_SECONDS))
            yield chunk


class _FaultyTool:
    def __init__(self, plan: FaultPlan, tool: Tool) -> None:
        self._plan = plan
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        # All other attributes of the tool, including those of only some tools.
        return getattr(self._tool, name)

    async def execute(self, arguments: JsonObject, ctx: ToolContext) -> ToolOutcome:
        name = self._tool.name
        chance = self._plan.draw(name)
        if self._plan.strikes(chance):
            await trio.sleep(chance.uniform(0, _MAX_PAUSE_SECONDS))
        when = chance.choice(("before", "behind")) if self._plan.strikes(chance) else "never"
        if when == "before":
            self._crash(f"{name} crashes before its work")
        outcome = await self._tool.execute(arguments, ctx)
        if when == "behind":
            self._crash(f"{name} crashes after its work")
        return outcome

    def _crash(self, message: str) -> None:
        self._plan.faults.append(message)
        raise RuntimeError(message)
