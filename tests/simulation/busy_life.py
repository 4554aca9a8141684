"""One short life of sessions over a store, in an order of tasks from a tape, with the promises that it broke."""

import trio

from agentrail import tool
from agentrail.core.protocol.request import ModelRequest
from agentrail.events import AgentEnd
from agentrail.messages import UserMessage
from agentrail.outside import installed
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from agentrail.testing.clock import FakeClock
from agentrail.testing.models import FunctionModel, Turn, calls, says
from agentrail.testing.seeded import BEGINNING, seeded_order
from agentrail.testing.simulation.machine import NodeMachine, is_held
from agentrail.testing.simulation.schedule import Deadlock, Schedule, TaskOrder
from agentrail.testing.simulation.tape import Tape
from agentrail.testing.taken import Lost, no_lost_items
from tests.runtime.rig import open_over

PROMPTS = 12
WORK_EVERY = 3
READERS = 2
TIMEOUT_SECONDS = 1.0
MARGIN_SECONDS = 0.001
"""Spread of a tool's time around its time limit."""

PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 20.0
MAX_LATE_SECONDS = 10.0
"""Longest time between an event and its reader, with all delays of tasks and of the store. Shorter than the pause between prompts."""


MAX_SECONDS = 3_600.0


class DistantStore(MemoryStore):
    """A store in memory that is called as a distant one is: by offloaded functions, which take time."""

    is_immediate = False  # type: ignore[misc]  # final in its parent, so that nobody else does this


class BusyLife:
    """What is done in one life.

    Attributes:
        broken: The broken promises, as sentences.
        events: Number of events that readers received.
    """

    def __init__(self, tape: Tape) -> None:
        self.chance = tape.generator("busy life")
        self.broken: list[str] = []
        self.events = 0

    async def live(self) -> None:
        """Do all of it."""
        with trio.move_on_after(MAX_SECONDS) as scope:
            await self.use_sessions()
        if scope.cancelled_caught:
            self.broken.append("it did not end")

    async def use_sessions(self) -> None:
        """Talk to two sessions, whose tools end about when their time is over, and read their events."""
        async with open_over(DistantStore()) as supervisor, trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(self.talk, supervisor, f"session {number}")

    async def talk(self, supervisor: SessionSupervisor, name: str) -> None:
        @tool(timeout_seconds=TIMEOUT_SECONDS)
        async def work() -> str:
            """Work for about as long as it may."""
            await trio.sleep(TIMEOUT_SECONDS + self.chance.uniform(-MARGIN_SECONDS, MARGIN_SECONDS))
            return "done"

        def answer(request: ModelRequest) -> Turn:
            if isinstance(request.messages[-1], UserMessage) and "work" in str(request.messages[-1]):
                return calls(("work", {}), ("work", {}))
            return says("one ", "two", pause_seconds=self.chance.uniform(0, 0.01))

        session = await supervisor.start_session(model=FunctionModel(answer), tools=[work])
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(self.read, session, name)
            for number in range(PROMPTS):
                with trio.move_on_after(PATIENCE_SECONDS) as scope:
                    await session.prompt("work" if number % WORK_EVERY == 0 else "hello")
                    await session.collect_reply()
                if scope.cancelled_caught:
                    self.broken.append(f"prompt {number} of {name} was not answered")
                if number % WORK_EVERY == 0:
                    await trio.sleep(PAUSE_SECONDS)
        with trio.move_on_after(PATIENCE_SECONDS) as scope:
            await session.stop()
        if scope.cancelled_caught:
            self.broken.append(f"{name} did not stop")

    async def read(self, session: Session, name: str) -> None:
        """Read to the end of the last cycle: without a gap, and soon after each event was published."""
        ended = last = 0
        with trio.move_on_after(PROMPTS * PATIENCE_SECONDS) as scope:
            async with session.subscribe(after=0, deltas=False) as events:
                async for event in events:
                    self.events += 1
                    assert event.meta is not None
                    if event.meta.seq != last + 1:
                        self.broken.append(f"a reader of {name} got event {event.meta.seq} after {last}")
                    last = event.meta.seq
                    late_seconds = trio.current_time() - (event.meta.at_ms / 1000 - BEGINNING)
                    if late_seconds > MAX_LATE_SECONDS:
                        self.broken.append(f"a reader of {name} got event {last} {late_seconds:.0f} s late")
                    ended += isinstance(event, AgentEnd)
                    if ended == PROMPTS:
                        return
        if scope.cancelled_caught:
            self.broken.append(f"a reader of {name} got no event after {last}")


def live(tape: Tape, schedule: Schedule) -> tuple[BusyLife, TaskOrder]:
    """Live one life; all that it broke is in it, lost letters too."""
    order, life = TaskOrder(schedule, tape, is_held), BusyLife(tape)
    try:
        with no_lost_items(), seeded_order(tape.seed, order), installed(NodeMachine(tape.seed, "node-0")):
            trio.run(life.live, clock=FakeClock(), instruments=[order])
    except trio.TrioInternalError as error:
        if not isinstance(error.__cause__, Deadlock):
            raise
        life.broken.append("each task waits for another one")
    except Lost as lost:
        life.broken.append(str(lost))
    return life, order
