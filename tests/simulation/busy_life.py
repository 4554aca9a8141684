"""One short life of actors, and of sessions over a store, in an order of tasks from a tape, with the promises that it broke."""

from typing import Any

import trio

from agentrail import tool
from agentrail.actors import ActorHandle, open_supervisor
from agentrail.core.protocol.request import ModelRequest
from agentrail.errors import CallTimeout
from agentrail.events import AgentEnd
from agentrail.messages import UserMessage
from agentrail.otp.child_specs import ChildSpec, SupervisorFlags
from agentrail.otp.statem import Call, EventTimeout, Keep, NamedTimeout, Reply, TimedOut
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
from tests.actors.rig import Tabled
from tests.runtime.rig import open_over

CALLERS = 3
CALLS = 8
PROMPTS = 12
WORK_EVERY = 3
READERS = 2
TIMEOUT_SECONDS = 1.0
MARGIN_SECONDS = 0.001
"""How long before its caller's deadline a machine answers, and the spread of a tool's time around its time limit."""

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
        answers: Number of answers that callers received.
        events: Number of events that readers received.
    """

    def __init__(self, tape: Tape) -> None:
        self.chance = tape.generator("busy life")
        self.broken: list[str] = []
        self.answers = 0
        self.events = 0
        self._answered: set[object] = set()

    async def live(self) -> None:
        """Do all of it."""
        with trio.move_on_after(MAX_SECONDS) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.use_actors)
                nursery.start_soon(self.use_sessions)
        if scope.cancelled_caught:
            self.broken.append("it did not end")

    # --- actors

    async def use_actors(self) -> None:
        """Call a machine that answers at once, and one that answers just in time; send casts to a third as its timer is due."""
        prompt = Tabled({"s1": lambda event: Keep(actions=[Reply(event.to, "now")])})
        late = Tabled({"s1": self.answer_later})
        timed = Tabled({"s1": lambda _: Keep(actions=[EventTimeout(TIMEOUT_SECONDS)])})
        specs = [
            ChildSpec(name, made.start)
            for name, made in (("prompt", prompt), ("late", late), ("timed", timed))
        ]
        async with open_supervisor(SupervisorFlags("one_for_one"), specs) as supervisor:
            handles: Any = [child.handle for child in await supervisor.which_children()]
            async with trio.open_nursery() as nursery:
                for number in range(CALLERS):
                    nursery.start_soon(self.call_often, f"caller {number}", *handles[:2])
                nursery.start_soon(self.cast_often, handles[2])

    def answer_later(self, event: Any) -> Any:
        if isinstance(event, Call):
            seconds = TIMEOUT_SECONDS - MARGIN_SECONDS
            return Keep(actions=[NamedTimeout(event.request, seconds, content=event.to)])
        assert isinstance(event, TimedOut)
        to: Any = event.content
        if to.is_open:
            self._answered.add(event.name)
        return Keep(actions=[Reply(to, "late")])

    async def call_often(self, caller: str, prompt: ActorHandle, late: ActorHandle) -> None:
        for number in range(CALLS):
            for handle in (prompt, late):
                request = f"call {number} of {caller}"
                try:
                    # Tasks that are held back twice may take longer than the second that the late machine has.
                    patience = PATIENCE_SECONDS if handle is prompt else TIMEOUT_SECONDS
                    await handle.call(request, timeout_seconds=patience)
                    self.answers += 1
                except CallTimeout:
                    if handle is prompt:
                        self.broken.append(f"{request} was not answered")
                    elif request in self._answered:
                        self.broken.append(f"{request} was answered in time, and timed out")
            await trio.sleep(self.chance.uniform(0, 0.1))

    async def cast_often(self, timed: ActorHandle) -> None:
        for number in range(CALLS):
            timed.cast(number)
            await trio.sleep(TIMEOUT_SECONDS + self.chance.uniform(-MARGIN_SECONDS, MARGIN_SECONDS))

    # --- sessions

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
