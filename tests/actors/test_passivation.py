"""Passivation: what an actor had accepted through an address and not handled reaches its next life, once and in order."""

import pytest
import trio

from agentrail.actors import Behaviour, Init, machine
from agentrail.actors.actor_handle import cell_of
from agentrail.actors.actor_registry import Registry
from agentrail.actors.dead_letters import dead_letters
from agentrail.errors import ActorDown, CallTimeout
from agentrail.otp.child_specs import ChildSpec
from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import (
    Call,
    Internal,
    Keep,
    NextEvent,
    NextState,
    Perform,
    Postpone,
    Reply,
    Stop,
)
from agentrail.testing.held import held
from tests.actors.rig import on_virtual_time, settled
from tests.otp.rig import said

PASSIVATED = Shutdown("passivated")


class Sleeper(Behaviour[str, None]):
    """Postpones what begins with `p` until `go`, and is passivated by `nap`; notes what each life handles."""

    def __init__(self, house):
        self.handled = []
        house.lives.append(self.handled)
        self.is_first = len(house.lives) == 1

    async def init(self):
        """Begin in s1."""
        return Init("s1", None)

    def handle(self, event, state, data):
        word = said(event)
        self.handled.append(word)
        match word:
            case "nap":
                return Stop(PASSIVATED)
            case "go":
                return NextState("s2" if state == "s1" else "s1")
            case "insert and nap" if self.is_first:
                return Keep(actions=[Postpone(), NextEvent(Internal("nap"))])
            case str() if word.startswith("p") and state == "s1":
                return Keep(actions=[Postpone()])
            case str() if word.startswith("pp"):
                return Keep(actions=[Postpone()])
        return Keep(actions=[Reply(event.to, word)] if isinstance(event, Call) else [])


class House:
    """A registry and a dynamic supervisor in which `key` is woken when somebody sends to it.

    Attributes:
        lives: What each life handled. It is handed on in here, because a list would be copied for each start.
    """

    def __init__(self, stage, behaviour=Sleeper, restart="temporary", **options):
        self.lives = []
        self.stage = stage
        self.registry = Registry()
        self.activations = 0
        start = machine(behaviour, self).with_options(name=self.registry.name("key"), **options)
        self.template = ChildSpec("m", start, restart)

    async def activate(self):
        self.activations += 1
        await self.supervisor.start_instance()

    async def __aenter__(self):
        self.block = self.stage.open("dynamic", [self.template])
        self.supervisor = await self.block.__aenter__()
        self.address = self.registry.address("key", activate=self.activate)
        return self

    async def __aexit__(self, *error):
        await self.block.__aexit__(*error)
        self.registry.close()

    @property
    def here(self):
        return self.registry.lookup("key")


@pytest.mark.scenario("S-212")
@pytest.mark.parametrize("is_up", [False, True])
@on_virtual_time
async def test_postponed_queued_and_unread_come_in_their_order(stage, is_up):
    """What was postponed long ago comes before what was replayed, and that before what was not read; up or not."""
    async with House(stage) as house:
        if is_up:
            await house.activate()
        async with held(house.here) if is_up else held(house.registry):
            for word in ("pp1", "nap later", "p2", "pp3", "go", "nap", "late"):
                house.address.cast(word)
        await trio.sleep(5)
        first, second = house.lives
        assert first == ["pp1", "nap later", "p2", "pp3", "go", "pp1", "p2", "pp3", "nap"]
        assert second == ["pp1", "pp3", "late"]
        assert house.activations == 2
        assert dead_letters().count == 0


@pytest.mark.parametrize("way", ["itself", "asked from outside"])
@on_virtual_time
async def test_what_came_through_the_handle_goes_with_the_instance(stage, way):
    """A handle is one instance: what it was told does not come to another one. An exit with that reason does the same."""
    async with House(stage) as house:
        await house.activate()
        handle = house.here
        async with held(handle):
            house.address.cast("p1")
            handle.cast("p of the handle")
            house.address.cast("p2")
            if way == "itself":
                house.address.cast("nap")
            else:
                handle.exit(PASSIVATED)
            handle.cast("of the handle")
            house.address.cast("late")
        await trio.sleep(5)
        assert house.lives[1] == ["p1", "p2", "late"]


@on_virtual_time
async def test_calls_are_answered_by_the_next_life(stage):
    """One that was postponed, one that was not read; each caller gets the answer to its own."""
    async with House(stage) as house, trio.open_nursery() as nursery:
        await house.activate()
        answers = {}

        async def ask(word):
            answers[word] = await house.address.call(word, timeout_seconds=100.0)

        async with held(house.here):
            nursery.start_soon(ask, "p1")
            await settled()
            house.address.cast("nap")
            nursery.start_soon(ask, "x")
            await settled()
        await trio.sleep(5)
        assert answers == {"x": "x"}
        house.address.cast("go")
        await settled()
        assert answers == {"x": "x", "p1": "p1"}
        assert house.lives[1] == ["p1", "x", "go", "p1"]


@pytest.mark.parametrize("way", ["send", "call"])
@on_virtual_time
async def test_who_waits_for_room_reaches_the_next_life(stage, way):
    """The mailbox of the one that is passivated was full: who waited for room goes on to whoever comes next."""
    async with House(stage, capacity=1, overflow="block") as house, trio.open_nursery() as nursery:
        await house.activate()
        async with held(house.here):
            house.address.cast("nap")
            nursery.start_soon(getattr(house.address, way), "waited")
            await settled()
            assert house.here.statistics().user.waiting == 1
        await trio.sleep(3)
        assert house.lives == [["nap"], ["waited"]]
        assert dead_letters().count == 0


@on_virtual_time
async def test_a_machine_that_performs_hands_back_too(stage):
    """Its effects are cancelled first; what comes meanwhile, and while it terminates, waits for the next life."""

    class Performing(Sleeper):
        async def init(self):
            return Init("s1", None, [Perform("work")])

        async def perform(self, effect, context):
            await trio.sleep_forever()

        async def terminate(self, reason, state, data):
            await trio.sleep(2)

    async with House(stage, Performing) as house:
        await house.activate()
        house.address.cast("p1")
        house.address.cast("nap")
        house.address.cast("x")
        await trio.sleep(1)
        house.address.cast("while it terminates")
        await trio.sleep(5)
        assert house.lives == [["p1", "nap"], ["p1", "x", "while it terminates"]]


@on_virtual_time
async def test_each_life_is_passivated_before_its_activation_returns(stage):
    """Ten naps before `start_instance` has returned for the first time: nothing is lost, and no two live at a time."""
    async with House(stage) as house:
        for number in range(10):
            house.address.cast(f"x{number}")
            house.address.cast("nap")
        house.address.cast("last")
        await trio.sleep(5)
        assert [word for life in house.lives for word in life if word != "nap"] == [
            *(f"x{number}" for number in range(10)),
            "last",
        ]
        assert house.activations == len(house.lives) == 11


@on_virtual_time
async def test_an_activation_that_fails_after_a_life(stage):
    """Whoever waited is told, as of any activation that fails."""

    class Flaky(House):
        async def activate(self):
            await super().activate()
            await settled()
            raise RuntimeError

    async with Flaky(stage) as house, trio.open_nursery() as nursery:
        asked = []

        async def ask():
            with pytest.raises(ActorDown):
                await house.address.call("x", timeout_seconds=None)
            asked.append("told")

        house.address.cast("nap")
        nursery.start_soon(ask)
        await trio.sleep(1)
        assert asked == ["told"]


@on_virtual_time
async def test_a_held_call_whose_caller_has_gone_is_not_sent(stage):
    """Its place is free again, and the next life is not asked in the name of nobody."""

    class Slow(House):
        async def activate(self):
            await trio.sleep(10)
            await super().activate()

    async with Slow(stage) as house:
        address = house.registry.address("key", activate=house.activate, hold_limit=2)
        address.cast("x")
        with pytest.raises(CallTimeout):
            await address.call("given up", timeout_seconds=1.0)
        address.cast("y")
        await trio.sleep(20)
        assert house.lives == [["x", "y"]]


@on_virtual_time
async def test_what_is_noted_of_postponed_events_is_bounded(stage):
    """While one event stays postponed, thousands that are postponed and handled leave nothing behind."""
    async with House(stage) as house:
        await house.activate()
        loop = cell_of(house.here).loop
        house.address.cast("pp stays")
        for number in range(300):
            for word in (f"p{number}", "go", "go"):
                house.address.cast(word)
            await settled()
        assert len(loop.origins.came) <= 2 * 1 + 32 + 1
        house.address.cast("nap")
        await trio.sleep(5)
        assert house.lives[1] == ["pp stays"]
