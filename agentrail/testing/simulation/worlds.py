"""The worlds that come with the simulation. Each is a scenario: it says what a world has, and who lives in it.

They have the usual people, models and tools, and every fault. What differs is what they do most.
"""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import cycle
from types import MappingProxyType, ModuleType
from typing import Any, Final, get_args

import trio
from attrs import define, evolve, frozen

from agentrail.abc import ToolContext
from agentrail.actors import ActorHandle, Behaviour, ChildSpec, SupervisorFlags, machine, open_supervisor
from agentrail.actors.reply_slots import ReplyTo
from agentrail.core.policy.budget import Budget
from agentrail.errors import AgentrailError, CallTimeout, CursorAhead
from agentrail.named_modules import NAMED_MODULES
from agentrail.otp.statem import Call, Cast, EventTimeout, Init, Keep, NamedTimeout, Reply, TimedOut
from agentrail.plugins.human_approval import HumanApproval
from agentrail.remote.link import open_links
from agentrail.remote.remote_session import RemoteSession
from agentrail.runtime.agent import Agent
from agentrail.testing.simulation import office as office_room
from agentrail.testing.simulation.chatty_model import chatty_model
from agentrail.testing.simulation.facts import WORLD_LEASE_SECONDS, Read, ReaderSubscribed
from agentrail.testing.simulation.faults import (
    CATALOGUE,
    CONGESTION,
    DAMAGE,
    EVERYTHING,
    FAILED_SYNC,
    KILL,
    SLEEP,
    SLOW_STORE,
    STORE,
    Fault,
    FaultFamily,
    FaultPlace,
)
from agentrail.testing.simulation.inhabited_world import Client
from agentrail.testing.simulation.life import WorldScenario
from agentrail.testing.simulation.past import read_past
from agentrail.testing.simulation.people import people
from agentrail.testing.simulation.web_people import web_people
from agentrail.testing.simulation.world import RESTART_SECONDS, StoreKind, World
from agentrail.tools.function import tool
from agentrail.tools.task import TaskTool

HONEST: Final = EVERYTHING - DAMAGE
"""All faults under which every promise holds. On a disk that lies or loses, those of one machine end."""


def _shop(world: World, *tools: Any, **options: Any) -> None:
    """Serve a profile whose tools change an outside world, one of each effect class."""
    shop = world.ledger("shop")
    own = [
        shop.tool("pay", "once"),
        shop.tool("look_up", "pure"),
        shop.tool("store_order", "idempotent"),
        shop.tool("ship", "reconcilable"),
    ]
    world.profile("shop", model=chatty_model(), tools=[*own, *tools], **options)
    world.faults(HONEST)


BYTES: Final = 0.1
"""Part of the lives of `cluster` whose network carries bytes."""


BUSY: Final = (1.0, 15.0)
"""Pause of busy people, in seconds."""

APPROVAL_SECONDS: Final = 30.0
"""Time in which people of `desk` decide. Some never do."""

TREE_TOKENS: Final = 1_200
"""Budget of a session of `tree`, which busy ones reach."""


def cluster(world: World) -> None:
    """Serve a shop on several nodes, with people who change nodes and their minds."""
    if world.tape.chance("network.bytes", BYTES):
        world.use_network("bytes")
    _shop(world)
    people(world, 5, "shop", sessions=4, pause=world.tape.choice("people.pause", ((5.0, 60.0), BUSY, BUSY)))


def single(world: World) -> None:
    """Serve a shop on one node, whose sessions are in a `SqliteStore` on its disk. In half of the lives a sync fails, and soon the power."""
    world.use_store("sqlite")
    _shop(world)
    nth, later = world.tape.integer("aimed.nth", 1, 30), world.tape.integer("aimed.later", 2, 20)
    append = FaultPlace(kind="store", word="append", nth=nth)
    aimed = {
        evolve(FAILED_SYNC, place=append, seconds=0.5),
        evolve(KILL, place=evolve(append, nth=nth + later), seconds=RESTART_SECONDS),
    }
    world.faults(HONEST - STORE | (aimed if world.tape.chance("aimed", 0.5) else set()))
    people(world, 3, "shop", sessions=2)


def desk(world: World) -> None:
    """Let two people share a session in which payments and parcels need an approval, from two nodes at once."""
    approval = (HumanApproval, {"require_approval_for": ("pay", "ship")})
    _shop(world, plugins=[approval], approval_timeout_seconds=APPROVAL_SECONDS)
    people(world, 2, "shop", sessions=1, pause=(2.0, 20.0))
    people(world, 1, "shop", pause=(2.0, 20.0))


@tool(name="run_helper", effect_class="pure")
async def _run_helper(what: str, ctx: ToolContext) -> str:
    """Let a copy of the session think about a task."""
    return await ctx.run_session(what, tools=())  # a child that acted and was given up would have no result


def delegating_tree(world: World) -> None:
    """Serve a shop whose sessions delegate to agents, as do their tools, and have a budget with them together."""
    clerk = Agent(name="clerk", description="Does small tasks.", max_turns=4)
    budget = Budget(max_total_tokens=TREE_TOKENS)
    _shop(world, TaskTool(), _run_helper, agents=[clerk], budget=budget, max_output_tokens=200)
    people(world, 4, "shop", sessions=3, pause=(2.0, 20.0))


def moves(world: World) -> None:
    """Serve a shop whose busy sessions are moved to other nodes all the time, by two operators."""
    _shop(world)
    people(world, 5, "shop", sessions=4, pause=BUSY)
    for name in ("operator-0", "operator-1"):
        world.inhabit(name, partial(_keep_moving, world, name))


async def _keep_moving(world: World, name: str) -> None:
    """Move a session that has work, or any other if none has, until the calm end. On an empty tape, move none."""
    tape = world.tape
    while not world.is_calm:
        await trio.sleep(tape.number(f"{name}.pause", 1.0, 4.0))
        owned = world.owned_roots()
        owned = [one for one in owned if one[0].standing.is_working] or owned
        if owned and tape.chance(f"{name}.moves", 0.9):
            row, index = tape.choice(f"{name}.session", owned)
            code = await world.on_node(index, partial(_move, row.session, row.scope))
            world.note(f"move of {row.session}: {'its node ended' if code is None else code or 'done'}")


async def _move(session_id: str, scope: str, host: Any) -> None:
    await host.supervisor.move_session(session_id, scope=scope)


def drain_nodes(world: World) -> None:
    """Serve a shop while one node after the other leaves and starts anew, again and again. One of them in most lives meets a fault."""
    _shop(world)
    seconds, nth = 2 * WORLD_LEASE_SECONDS, world.tape.integer("aimed.nth", 1, 3)
    leaving = FaultPlace(kind="node", word="leaving", nth=nth)
    paying = evolve(leaving, kind="tool", word="pay")
    aimed = [
        evolve(one, place=leaving, seconds=seconds, amount=0.25)
        for one in (SLOW_STORE, SLOW_STORE, CONGESTION)
    ]
    aimed += [evolve(one, place=paying, seconds=seconds) for one in (KILL, SLEEP)]
    one = world.tape.choice("aimed", (None, *aimed))
    world.faults(HONEST if one is None else HONEST | {one})
    people(world, 5, "shop", sessions=4, pause=BUSY)
    world.inhabit("operator", partial(_keep_upgrading, world))


async def _keep_upgrading(world: World) -> None:
    """Let nodes leave and start, each after the one before is up again, until the calm end. On an empty tape, let all stay."""
    for index in cycle(range(len(world.nodes))):
        await trio.sleep(world.tape.number("operator.pause", 1.0, 10.0))
        if world.is_calm:
            return
        node = world.nodes[index]
        if not node.is_up or not world.tape.chance("operator.upgrades", 0.9):
            continue
        world.leave(index)
        await node.down.wait()
        await trio.sleep(RESTART_SECONDS)
        world.restart(index)
        with trio.move_on_after(WORLD_LEASE_SECONDS):
            await world.nodes[index].up.wait()


def actors(world: World) -> None:
    """Let callers use actors at the very end of their time limits, next to a node with nothing to do."""
    _shop(world)
    busy = BusyActors(world)
    world.always(busy.every_caller_gets_its_answer)
    world.inhabit("caller", busy.live)


def fleet(world: World) -> None:
    """Serve a shop on many nodes, with many sessions that sleep as soon as they are idle, and people who return to them."""
    _shop(world)
    world.serve(idle_after=2.0)
    people(world, 10 * len(world.nodes), "shop", pause=(10.0, 120.0))


STORM: Final = 200
GREAT_STORM: Final = 1_000
"""Numbers of readers in the worlds `storm` and `great_storm`."""


def storm(world: World, readers: int = STORM) -> None:
    """Let many readers detach and connect again at once, over bytes, while people use the shop."""
    world.use_network("bytes")
    _shop(world)
    people(world, 4, "shop", sessions=4)
    storm_readers(world, readers, sessions=4, storms=2)


def great_storm(world: World) -> None:
    """Let five times as many do so. A life of it takes minutes."""
    storm(world, GREAT_STORM)


def protocols(world: World) -> None:
    """Serve the shop over bytes to people who use HTTP, server-sent events, OpenAI's protocol, or the remote one."""
    world.use_network("bytes")
    _shop(world)
    web_people(world, 4, "shop")
    people(world, 2, "shop")


def office(world: World) -> None:
    """Serve a shop whose sessions use all that a session has: agents in the background, questions, forms, context. An operator changes them."""
    _shop(world, *office_room.tools_of_office(), **office_room.options_of_office())
    world.serve(plugins=[office_room.Attendant])
    people(world, 4, "shop", sessions=3, pause=BUSY)
    world.inhabit("operator", partial(office_room.keep_changing, world))


class Against:
    """The shop, with plugins of a user in its sessions."""

    __module__ = "against"

    def __init__(self, name: str, module: ModuleType) -> None:
        """Store the module of the plugins, and the `module:NAME` under which other processes find them."""
        self.__qualname__ = name
        self._module = module

    def __call__(self, world: World) -> None:
        """Serve it, and let people use it."""
        # Anew for each life: what the module keeps would tie a life to those before it, and no seed would show it again.
        module = importlib.reload(self._module)
        found: Any = getattr(module, self.__qualname__.partition(":")[2])
        _shop(world, plugins=tuple(found) if isinstance(found, Sequence) else (found,))
        people(world, 4, "shop", sessions=3)


class Renamed:
    """A scenario without the name by which it is found, such as a partial function."""

    def __init__(self, scenario: WorldScenario, module: str, name: str) -> None:
        """Give it that name."""
        self._scenario, self.__module__, self.__qualname__ = scenario, module, name

    def __call__(self, world: World) -> Any:
        """Set it up."""
        return self._scenario(world)


class Varied:
    """A scenario with another store, or with other faults."""

    __module__ = "with"

    def __init__(self, store: Any, faults: str, name: str, folder: str) -> None:
        """Find the scenario, and check the rest. Empty: as the scenario says."""
        self._scenario: Any = find_scenario(name, folder)
        is_from = name.startswith("from:")  # it must stay the same in all lives
        self.__qualname__ = f"{store}:{faults}:{f'from:{self._scenario.__qualname__}' if is_from else name}"
        if store and store not in get_args(StoreKind):
            message = f"store {store!r} is unknown: expected one of {', '.join(get_args(StoreKind))}"
            raise LookupError(message)
        if store == "memory" and name == "drain":
            message = "world 'drain' restarts its nodes, and sessions in memory end with them: choose postgres or sqlite"
            raise LookupError(message)
        self._store, self._faults = store, _faults_of(faults) if faults else None

    async def __call__(self, world: World) -> None:
        """Set the scenario up, then change its store and its faults."""
        setting_up = self._scenario(world)
        if inspect.isawaitable(setting_up):
            await setting_up
        if self._store:
            world.use_store(self._store)
        if self._faults is not None:
            world._faults = self._faults  # noqa: SLF001 - one room: their rate stays


def _faults_of(names: str) -> tuple[Fault, ...]:
    """Return the faults of these families and names. A family is without `DAMAGE`."""
    wanted = names.split(",")
    unknown = {*wanted} - {*get_args(FaultFamily), *(one.action for one in CATALOGUE), "none"}
    if unknown:
        message = (
            f"fault {min(unknown)!r} is unknown: expected none, or families and names of "
            "agentrail simulate --list-faults, separated by commas"
        )
        raise LookupError(message)
    return tuple(
        one for one in CATALOGUE if one.action in wanted or (one.family in wanted and one not in DAMAGE)
    )


@frozen
class WorldKind:
    """A world with its usual number of nodes, and the time of a life."""

    scenario: WorldScenario
    nodes: int = 3
    hours: float = 0.05


WORLDS: Final[Mapping[str, WorldKind]] = MappingProxyType(
    {
        "actors": WorldKind(actors, nodes=1),
        "cluster": WorldKind(cluster),
        "desk": WorldKind(desk),
        "drain": WorldKind(drain_nodes),
        "fleet": WorldKind(fleet, nodes=20),
        "great_storm": WorldKind(great_storm, hours=0.02),
        "moves": WorldKind(moves),
        "office": WorldKind(office),
        "protocols": WorldKind(protocols),
        "single": WorldKind(single, nodes=1),
        "storm": WorldKind(storm, hours=0.02),
        "tree": WorldKind(delegating_tree),
    }
)


def named_world(name: str, folder: str) -> WorldKind:
    """Return the scenario of a name with its usual number of nodes and hours. Nodes that share no store are one.

    Raises:
        LookupError, ImportError, AgentrailError: Your move: see `find_scenario`.
    """
    found = find_scenario(name, folder)
    if not name.startswith("with:"):
        own: dict[str, Any] = {one: getattr(found, one) for one in ("nodes", "hours") if hasattr(found, one)}
        return WORLDS.get(name) or WorldKind(found, **own)
    _, store, _, scenario = name.split(":", 3)
    kind = evolve(named_world(scenario, folder), scenario=found)
    return evolve(kind, nodes=1) if store in {"sqlite", "memory"} else kind


def find_scenario(name: str, folder: str) -> WorldScenario:
    """Return the scenario of a name.

    That is a world, `module:NAME`, `against:module:NAME` for plugins in the usual world, `from:STORE:ID`, or
    `with:STORE:FAULTS:NAME` for any of these with another store or other faults, either of which may be empty.

    Args:
        name: The name. That of a saved life is one, too.
        folder: Directory whose modules can be named.

    Raises:
        LookupError: Your move: the world or the name in the module does not exist.
        ImportError: Your move: the module cannot be imported.
        AgentrailError: Your move: see `read_past`.
    """
    if name in WORLDS:
        return WORLDS[name].scenario
    if name.startswith("from:"):
        return read_past(name.removeprefix("from:"))
    if name.startswith("with:") and name.count(":") > 2:  # noqa: PLR2004 - as said above
        _, store, faults, scenario = name.split(":", 3)
        return Varied(store, faults, scenario, folder)
    path = name.removeprefix("against:")
    module, colon, attribute = path.partition(":")
    if not colon:
        message = f"world {name!r} is unknown: expected one of {', '.join(WORLDS)}, or module:NAME"
        raise LookupError(message)
    loaded = NAMED_MODULES.load(module, folder)
    found: Any = getattr(loaded, attribute, None)
    if found is None or (path == name and not callable(found)):
        message = f"{module!r} has no {attribute!r}" + ("" if found is None else " that can be called")
        raise LookupError(message)
    if path == name:
        is_named = "<" not in getattr(found, "__qualname__", "<")
        return found if is_named else Renamed(found, module, attribute)
    return Against(path, loaded)


# --- readers, who all detach and connect again at the same instants

READS_ON_SECONDS: Final = 15.0
"""How long readers stay after all faults have ended."""

_AGAIN_SECONDS: Final = 1.0


def storm_readers(world: World, n: int, *, sessions: int, storms: int) -> None:
    """Let readers live in a world.

    Args:
        world: The world, whose people have the sessions `s0`, `s1` and so on.
        n: Number of readers. On an empty tape there is one.
        sessions: Number of sessions.
        storms: Number of instants, drawn, at which all of them detach and connect again.
    """
    tape, calm = world.tape, world.calm_at
    count = n if tape.chance("storm.everybody", 1.0) else 1
    instants = sorted(tape.number(f"storm[{number}].at", calm / 4, calm) for number in range(storms))
    for index in range(count):
        reader = StormReader(world, index, index % sessions, (*instants, calm + READS_ON_SECONDS))
        world.inhabit(reader.name, reader.live)


@define(eq=False)
class StormReader(Client):
    """A client that only reads one session, and keeps its number."""

    own: int
    instants: tuple[float, ...]
    read_up_to: int = 0

    @property
    def name(self) -> str:
        return f"reader-{self.index}"

    async def live(self) -> None:
        """Read, and connect again at each instant but the last."""
        for instant in self.instants:
            with trio.CancelScope(deadline=instant):
                while True:
                    try:
                        async with open_links(self._dial) as links:
                            await self._read(RemoteSession(links, f"s{self.own}"))
                    except* AgentrailError as group:
                        self._note(f"cannot read: {group.exceptions[0]}", None)
                    await trio.sleep(_AGAIN_SECONDS)

    def _dial(self, within_seconds: float) -> AbstractAsyncContextManager[Any]:
        self.counts["dials"] += 1
        place = self._place(self._draw, self.counts["dials"])
        headers = [(b"authorization", f"Bearer person-{self.own}".encode())]
        return self.world.network.dial(place, headers=headers, within_seconds=within_seconds)

    def _draw(self, what: str, options: tuple[str, ...]) -> str:
        return self.world.tape.choice(f"readers[{self.index}].{what}", options)

    async def _read(self, session: RemoteSession) -> None:
        reader = f"{self.name}/{self.counts['readers']}"
        self._note(f"reads after {self.read_up_to}", ReaderSubscribed(reader, self.read_up_to))
        try:
            async with session.subscribe(after=self.read_up_to, deltas=False) as events:
                async for event in events:
                    if event.meta is not None and not event.meta.ephemeral:
                        self.read_up_to = event.meta.seq
                    said = f"reads {self.read_up_to} {type(event).__name__}"
                    self._note(said, Read(reader, event))
        except CursorAhead:  # the store lost events: this is another reader
            self.read_up_to = 0
            self.counts["readers"] += 1

    def _note(self, said: str, facts: Any) -> None:
        self.world.log.note("read", said, session=f"s{self.own}", place=self.name, facts=facts)


# --- actors: machines that answer just in time, and callers that count what they get

CALLERS: Final = 3
_CALL_SECONDS: Final = 1.0
"""Time limit of calls, and of a machine without news."""

_ANSWER_SECONDS: Final = 30.0
_MARGIN_SECONDS: Final = 0.001
"""How long before its caller's deadline a machine answers, and the spread of messages around its time limit."""


class _Machine(Behaviour[str, None]):
    """Answers calls after some seconds, which may be none, and counts messages. After each it waits for the next one with a time limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.answered: set[object] = set()
        self.casts = 0

    async def init(self) -> Init[str, None]:
        return Init("open", None)

    def handle(self, event: Any, state: str, data: None) -> Keep[None]:
        del state, data
        match event:
            case Call(to=to, request=request) if self.seconds:
                return Keep(actions=[NamedTimeout(request, self.seconds, content=to)])
            case Call(to=to):
                return Keep(actions=[Reply(to, "now")])
            case TimedOut(kind="named", name=request, content=ReplyTo() as to):
                if to.is_open:
                    self.answered.add(request)
                return Keep(actions=[Reply(to, "late")])
            case Cast():
                self.casts += 1
            case _:
                pass
        return Keep(actions=[EventTimeout(_CALL_SECONDS)])


class BusyActors:
    """Machines and their callers. They live until the calm end of a world, in one process that no fault strikes.

    Attributes:
        broken: Broken promises, as sentences.
    """

    def __init__(self, world: World) -> None:
        """Create them. Pauses are drawn from the world's seed."""
        self.broken: list[str] = []
        self._world = world
        self._chance = world.tape.generator("busy actors")
        self._prompt, self._late, self._timed = (
            _Machine(seconds) for seconds in (0.0, _CALL_SECONDS - _MARGIN_SECONDS, 0.0)
        )

    def every_caller_gets_its_answer(self) -> None:
        """Raise AssertionError if a call was not answered, an answer did not reach its caller, or a message was lost."""
        assert not self.broken, self.broken[0]

    async def live(self) -> None:
        """Call both machines and send messages to the third, until the calm end."""
        specs = [
            ChildSpec(name, machine(lambda made=made: made))
            for name, made in (("prompt", self._prompt), ("late", self._late), ("timed", self._timed))
        ]
        async with open_supervisor(SupervisorFlags("one_for_one"), specs) as supervisor:
            handles: Any = [child.handle for child in await supervisor.which_children()]
            async with trio.open_nursery() as nursery:
                for number in range(CALLERS):
                    nursery.start_soon(self._call_often, f"caller {number}", *handles[:2])
                nursery.start_soon(self._cast_often, handles[2])

    async def _call_often(self, caller: str, prompt: ActorHandle, late: ActorHandle) -> None:
        number = 0
        while not self._world.is_calm:
            number += 1
            for handle in (prompt, late):
                request = f"call {number} of {caller}"
                try:
                    # Tasks that are held back twice may take longer than the second that the late machine has.
                    patience = _ANSWER_SECONDS if handle is prompt else _CALL_SECONDS
                    await handle.call(request, timeout_seconds=patience)
                except CallTimeout:
                    if handle is prompt:
                        self._note(f"{request} was not answered")
                    elif request in self._late.answered:
                        self._note(f"{request} was answered in time, and timed out")
            await trio.sleep(self._chance.uniform(0, 0.1))

    async def _cast_often(self, timed: ActorHandle) -> None:
        sent = 0
        while not self._world.is_calm:
            timed.cast(sent)
            sent += 1
            await trio.sleep(_CALL_SECONDS + self._chance.uniform(-_MARGIN_SECONDS, _MARGIN_SECONDS))
        await trio.sleep(_ANSWER_SECONDS)
        if self._timed.casts != sent:
            self._note(f"{sent - self._timed.casts} of {sent} messages to a machine were lost")

    def _note(self, broken: str) -> None:
        self.broken.append(broken)
        self._world.note(broken)
