"""One world: nodes of the product over one store and one network, and who uses them. `run` lives it from a seed.

The code of the nodes is the product's own: a gateway, its host, its supervisor. Only what they get from outside is replaced.
"""

import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

import trio
from attrs import define, field

from agentrail import outside
from agentrail.abc.store import StoredSession
from agentrail.errors import AgentrailError, StoreUnavailable
from agentrail.gateway.app import create_app
from agentrail.host import AgentProfile, HostPlugin, Limits, Principal
from agentrail.runtime.session_options import SessionOptions
from agentrail.stores.memory import MemoryStore
from agentrail.testing.seams import Seam
from agentrail.testing.simulation.byte_network import ByteNetwork
from agentrail.testing.simulation.chatty_model import ChattyModel
from agentrail.testing.simulation.disk import SimulatedDisk
from agentrail.testing.simulation.disk_store import LoggedStore, open_disk_store
from agentrail.testing.simulation.facts import WORLD_LEASE_SECONDS, Calm, NodeChange
from agentrail.testing.simulation.faults import EVERYTHING, KILL, LEAVE, LOSE, SKEW, Fault
from agentrail.testing.simulation.ledger import EffectLedger
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.machine import NodeMachine
from agentrail.testing.simulation.model_store import ModelStore
from agentrail.testing.simulation.nemesis import Nemesis
from agentrail.testing.simulation.network import SimulatedNetwork
from agentrail.testing.simulation.people import people
from agentrail.testing.simulation.schedule import TaskOrder
from agentrail.testing.simulation.tape import Tape

WORLD_TENANT: Final = "acme"

StoreKind: TypeAlias = Literal["postgres", "sqlite", "memory"]

_ENDS_PROCESSES: Final = frozenset({KILL.action, LOSE.action, LEAVE.action})

CALM: Final = 0.9
"""Part of a life after which all faults end, so that liveness can be judged."""

SETTLING_SECONDS: Final = 60.0
"""Virtual time after the end of a life in which everything accepted has to come to its end."""

ENDING_SECONDS: Final = 600.0
"""Virtual time after that in which all tasks must have ended."""

RESTART_SECONDS: Final = 1.0

ELSEWHERE: Final = 0.4
"""Part of the restarts that are on another computer."""

_CLOCKS: Final = (0.0, 0.0, 60.0, -60.0, 3600.0, -3600.0)
"""Differences between the clock of a node and the world's, in seconds, where clocks may be wrong."""

MAX_RATE: Final = 1_000_000
"""Limits of a caller's messages, unless a scenario sets some: people of a world are few, and ask a lot."""

_RATES: Final = (
    "messages_per_minute",
    "messages_burst",
    "calls_per_minute",
    "calls_burst",
    "commands_per_second",
)


@define(eq=False)
class SimulatedNode:
    """A node: a machine, and the server on it, if it is up.

    Attributes:
        index: Its number, from 0.
        place: Its name in the log and its address on the network: `node-0`.
        machine: Its machine. A restart gets another one.
        served: The host of its application. None before it is up.
        host: The open host of it, while it takes requests.
        disk: Its disk, which outlives restarts. None: it has none.
        spawn: Starts a task on it.
        leaving: It was asked to leave.
        up: It answers.
        down: Its process has ended.
    """

    index: int
    machine: NodeMachine
    served: Any = None
    host: Any = None
    disk: Any = None
    spawn: Callable[..., None] | None = None
    leaving: trio.Event = field(factory=trio.Event)
    up: trio.Event = field(factory=trio.Event)
    down: trio.Event = field(factory=trio.Event)

    @property
    def place(self) -> str:
        """Its name in the log and on the network."""
        return self.machine.place

    @property
    def is_up(self) -> bool:
        """Whether its host is open and takes requests."""
        return self.host is not None and not self.down.is_set()


class World:
    """The world of one life. A scenario receives it and says who lives in it; `run` does the rest.

    Attributes:
        seconds: Virtual time of the life, without its calm end.
        tape: Draws of this life.
        log: What happened.
        network: Between nodes, and between clients and nodes. Of messages, unless the scenario chooses another one.
        store: The store of all nodes.
        nodes: By index.
        machines: Machines of clients, by name.
        seams: Wrappers around members of the product, for the time of the life.
    """

    def __init__(self, tape: Tape, order: TaskOrder, *, nodes: int, seconds: float) -> None:
        """Create a world in which nothing runs yet.

        Args:
            tape: Draws of this life.
            order: Order of tasks, which holds back those of stopped nodes.
            nodes: Number of nodes, from 1.
            seconds: Virtual time of the life.
        """
        self.tape: Tape = tape
        self.log: LifeLog = LifeLog()
        self.seconds: float = seconds
        self.network: SimulatedNetwork = SimulatedNetwork(tape, self.log)
        self.store: ModelStore = ModelStore(tape, self.log, lease_ms=int(WORLD_LEASE_SECONDS * 1000))
        self.nodes: list[SimulatedNode] = [
            SimulatedNode(index, NodeMachine(tape.seed, f"node-{index}")) for index in range(nodes)
        ]
        self.machines: dict[str, NodeMachine] = {}
        self.seams: list[Seam] = []
        self._machines_of_nodes: list[NodeMachine] = []  # of all lives
        self.is_over: bool = False
        self.ended_at: float = 0.0
        self._order = order
        order.ends_by = seconds + SETTLING_SECONDS + ENDING_SECONDS
        self._profiles: dict[str, AgentProfile] = {}
        self._plugins: list[Callable[[], HostPlugin]] = []
        self._options: dict[str, Any] = {
            "lease": WORLD_LEASE_SECONDS,
            "drain_timeout": 2.0,
            "limits": Limits(**dict.fromkeys(_RATES, MAX_RATE)),
        }
        self._is_in_memory = False
        self._faults: tuple[Fault, ...] | None = None
        self._rate: float | None = None
        self._nemesis: Nemesis | None = None
        self._ledgers: dict[str, EffectLedger] = {}
        self._always: list[tuple[str, Callable[[], object]]] = []
        self._finally: list[tuple[str, Callable[[], object]]] = []
        self._inhabitants: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        self._nursery: trio.Nursery | None = None
        self._living = 0
        self._settled = trio.Event()

    # --- what a scenario says

    def profile(self, name: str, **options: Any) -> None:
        """Add a profile that every node serves.

        Args:
            name: Its id.
            options: Those of `SessionOptions`. The sandbox is in memory unless another one is given.
        """
        options.setdefault("sandbox", "memory")
        if isinstance(options["model"], ChattyModel):
            options["model"].join(self)
        self._profiles[name] = AgentProfile(id=name, name=name, options=SessionOptions(**options))

    def serve(self, *, plugins: Iterable[Callable[[], HostPlugin]] = (), **options: Any) -> None:
        """Set options of every node.

        Args:
            plugins: Create the host plugins of a node, anew for each start.
            options: Those of `create_app`.
        """
        self._plugins += plugins
        self._options |= options

    def begin_at(self, seconds: float) -> None:
        """Let the life begin at a date, in seconds since 1970, unless it usually begins later."""
        for machine in (self.store, outside.current(), *(node.machine for node in self.nodes)):
            machine.beginning = max(machine.beginning, seconds)  # type: ignore[attr-defined]

    def use_store(self, name: StoreKind) -> None:
        """Choose where sessions are: in a PostgreSQL of all nodes, or with the only node, in SQLite on its disk or in the memory of its process."""
        check_store_kind(name, len(self.nodes))
        for node in self.nodes:
            node.disk = SimulatedDisk(self.tape, node.place) if name == "sqlite" else None
        self._is_in_memory = name == "memory"

    def use_network(self, name: Literal["messages", "bytes"]) -> None:
        """Choose the network: of messages, which is faster, or of bytes, where the protocols' own implementations run.

        Before anything else uses the network.
        """
        kinds: dict[str, type[SimulatedNetwork]] = {"messages": SimulatedNetwork, "bytes": ByteNetwork}
        self.network = kinds[name](self.tape, self.log)

    def ledger(self, name: str) -> EffectLedger:
        """Return the outside world of this name, whose effects are counted and outlive nodes."""
        if name not in self._ledgers:
            self._ledgers[name] = EffectLedger(name, self.log, self)
        return self._ledgers[name]

    @property
    def ledgers(self) -> tuple[EffectLedger, ...]:
        """The ledgers so far, in their order of creation."""
        return tuple(self._ledgers.values())

    def always(self, check: Callable[[], object]) -> Callable[[], object]:
        """Call a check after each thing that happens. It breaks a promise by an `AssertionError`."""
        self._always.append((getattr(check, "__name__", "a check"), check))
        return check

    def finally_(self, check: Callable[[], object]) -> Callable[[], object]:
        """Call a check at the end of a life that broke no promise before."""
        self._finally.append((getattr(check, "__name__", "a check"), check))
        return check

    def faults(self, faults: Iterable[Fault] = EVERYTHING, *, rate: float | None = None) -> None:
        """Let faults strike until the calm end of the life.

        Args:
            faults: Those that are allowed.
            rate: Faults per hour. None: drawn for each life.
        """
        self._faults, self._rate = tuple(faults), rate

    @property
    def allowed_faults(self) -> tuple[Fault, ...]:
        """The faults that may happen. Empty without `faults`. None ends a process in whose memory sessions are: they would end with it."""
        ends = _ENDS_PROCESSES if self._is_in_memory else ()
        return tuple([one for one in self._faults or () if one.action not in ends])

    def allows(self, fault: Fault) -> bool:
        """Return whether a fault may happen in this life. Without `faults`, models, tools and people are as they are."""
        return self._nemesis is None or self._nemesis.allows(fault)

    def note(self, said: str) -> None:
        """Add a line to the story."""
        self.log.note("note", said)

    def inhabit(self, name: str, live: Callable[[], Awaitable[object]]) -> None:
        """Add a client: an async function that lives on a machine of its own, beginning with the first node."""
        machine = self.machines.setdefault(name, NodeMachine(self.tape.seed, name))
        machine.beginning = self.store.beginning
        self._inhabitants.append((name, live))

    def people(self, n: int, profile: str, **options: Any) -> None:
        """Add people, after their profile. See `agentrail.testing.simulation.people.people`."""
        if profile not in self._profiles:
            message = (
                f"profile {profile!r} is unknown: expected one of {', '.join(self._profiles) or 'none yet'}"
            )
            raise LookupError(message)
        people(self, n, profile, **options)

    @property
    def calm_at(self) -> float:
        """Virtual time at which the calm end begins."""
        return self.seconds * CALM

    @property
    def is_calm(self) -> bool:
        """Whether the last tenth of the life has begun: faults have ended, and people send nothing new."""
        return trio.current_time() >= self.calm_at

    # --- what happens to nodes

    def machine(self, place: str) -> NodeMachine:
        """Return the machine of a node or a client."""
        for node in self.nodes:
            if node.place == place:
                return node.machine
        return self.machines[place]

    def disk(self, index: int) -> Any:
        """Return the disk of a node. None: its sessions are in the store of all nodes."""
        return self.nodes[index].disk

    def clock(self, index: int) -> NodeMachine:
        """Return the machine of a node, whose `wrong_by_seconds` and `drift` are its clock."""
        return self.nodes[index].machine

    def stop(self, index: int, seconds: float) -> None:
        """Let all tasks of a node stand still, as after SIGSTOP, and continue after some time."""
        machine = self.nodes[index].machine
        if machine.is_held:
            return
        machine.is_held = True
        self._order.hold()
        self._tell(f"stands still for {seconds:g} s", "stopped", machine.place)
        self._start(self._continue_later, machine, seconds)

    async def _continue_later(self, machine: NodeMachine, seconds: float) -> None:
        await trio.sleep(seconds)
        if not machine.is_dead:
            machine.is_held = False
            self._tell("continues", "continued", machine.place)
            self._order.release()

    def kill(self, index: int) -> None:
        """End a node at once. None of its tasks runs again, its connections are reset, and what it has not synced is lost."""
        node = self.nodes[index]
        if node.machine.is_dead:
            return
        node.machine.is_held = node.machine.is_dead = node.machine.has_ended = True
        self._order.hold()
        node.down.set()
        self.network.leave(node.place)
        lost = "" if node.disk is None else f"; what it had not synced is {node.disk.crash()}"
        self._tell(f"is killed{lost}", "killed", node.place)

    def leave(self, index: int) -> None:
        """Ask a node to leave, as with SIGTERM: it drains, and hands its sessions over."""
        node = self.nodes[index]
        self._tell("is asked to leave", "leaving", node.place)
        node.leaving.set()

    def restart(self, index: int) -> None:
        """Start a node again whose process has ended. It has the same place and disk, but other ids.

        Without a disk it may start on another computer, where nothing shows how the earlier process ended.
        """
        before = self.nodes[index]
        if not before.down.is_set():
            return
        machine = NodeMachine(self.tape.seed, before.place, before.machine.life + 1)
        machine.beginning = self.store.beginning
        if before.disk is not None or not self.tape.chance(f"nodes[{index}].moves", ELSEWHERE):
            machine.witnesses = before.machine.witnesses
            machine.wrong_by_seconds, machine.drift = before.machine.wrong_by_seconds, before.machine.drift
        else:
            self.log.note("node", "starts on another computer", place=before.place)
        self._start_node(SimulatedNode(index, machine, disk=before.disk))

    def owned_roots(self) -> list[tuple[StoredSession, int]]:
        """Return the root sessions that nodes own which are up, each with its node."""
        owners = {node.host.supervisor.shared_node: node.index for node in self.nodes if node.is_up}
        return [
            (row, owners[row.node])
            for row in self.store.rows()
            if row.session == row.root and row.node in owners
        ]

    async def on_node(self, index: int, call: Callable[[Any], Awaitable[object]]) -> str | None:
        """Call an async function with the host of a node, in a task of that node, and wait for its end.

        Args:
            index: The node.
            call: The function.

        Returns:
            The code of an error, empty if there was none. None: the node is not up, or it ended meanwhile.
        """
        node, codes, ended = self.nodes[index], [], trio.Event()
        host = node.host  # gone once the node no longer takes requests
        if node.spawn is None or not node.is_up:
            return None

        async def work() -> None:
            try:
                await call(host)
                codes.append("")
            except AgentrailError as error:
                codes.append(error.code)
            finally:
                ended.set()

        node.spawn(work)
        async with trio.open_nursery() as nursery:  # a killed node never sets `ended`
            for event in (ended, node.down):
                nursery.start_soon(_cancel_after, event, nursery)
        return codes[0] if codes else None

    def heal(self) -> None:
        """End all faults: every node is up, every way is open, the store answers, clocks are right."""
        self.network.mend_all()
        self.store.mend()
        for node in self.nodes:
            machine = node.machine
            machine.wrong_by_seconds = machine.drift = machine.slow_seconds = 0.0
            if node.disk is not None:
                node.disk.mend()
            if machine.is_dead or node.leaving.is_set():
                self._start(self._restart_when_down, node.index)
            elif machine.is_held:
                machine.is_held = False
                self._order.release()

    async def _restart_when_down(self, index: int) -> None:
        await self.nodes[index].down.wait()
        await trio.sleep(RESTART_SECONDS)
        self.restart(index)

    def _tell(self, said: str, action: Any, place: str) -> None:
        self.log.note("node", said, place=place, facts=NodeChange(action))

    # --- life

    async def live(self, judge_the_end: Callable[[], object]) -> None:
        """Start nodes and clients, and return when the life is over, with its calm end."""
        if self.is_over:  # a promise broke while the scenario was set up
            return
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._end_with_all)
            if self._faults is not None:
                until = self.seconds * CALM
                self._nemesis = Nemesis(
                    self,
                    self.tape,
                    self.allowed_faults,
                    until=until,
                    lease_seconds=WORLD_LEASE_SECONDS,
                    rate=self._rate,
                )
            for node in self.nodes:
                if self._nemesis is not None and self._nemesis.allows(SKEW):
                    node.machine.wrong_by_seconds = self.tape.choice(f"nodes[{node.index}].clock", _CLOCKS)
                self._start_node(node)
            for node in self.nodes:
                await node.up.wait()
            if self._nemesis is not None:
                nursery.start_soon(self._nemesis.run)
            self._living = len(self._inhabitants)
            for name, live in self._inhabitants:
                self._within(self.machines[name], self._inhabit, name, live)
            await trio.sleep_until(self.seconds * CALM)
            self.log.note("note", "all faults end", facts=Calm())
            self.heal()
            with trio.move_on_after(self.seconds * (1 - CALM) + SETTLING_SECONDS):
                await self._settled.wait()
            judge_the_end()  # before tasks are cancelled: the `finally` blocks of a killed node never ran
            self.end()

    def end(self) -> None:
        """End the life now. What runs on dead nodes is cancelled with the rest, and no longer looked at."""
        if not self.is_over:
            self.is_over, self.ended_at = True, trio.current_time()
        self.log.watchers.clear()  # no judge looks at what follows, and no fault strikes in it
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason="the life is over")
        for machine in (*self.machines.values(), *self._machines_of_nodes):
            machine.is_held = False
        self._order.release()

    async def _end_with_all(self) -> None:
        """Continue stopped nodes when a life ends. Their tasks would never be cancelled otherwise."""
        try:
            await trio.sleep_forever()
        finally:
            self.end()

    async def _inhabit(self, name: str, live: Callable[[], Awaitable[object]]) -> None:
        await live()
        self.log.note("note", "has no more to do", place=name)
        self._living -= 1
        if not self._living:
            self._settled.set()

    def _start_node(self, node: SimulatedNode) -> None:
        self.nodes[node.index] = node
        self._machines_of_nodes.append(node.machine)
        self._within(node.machine, self._run_node, node)

    async def _run_node(self, node: SimulatedNode) -> None:
        try:
            async with self._store_of(node) as store, self._opened(node, store):
                await node.leaving.wait()
                await node.served.drain()
        except* StoreUnavailable as group:
            self._tell(f"fails: {group.exceptions[0]}", "failed", node.place)
            self._start(self._restart_when_down, node.index)  # as a service manager does
        else:
            self._tell("has left", "left", node.place)
        finally:
            node.machine.has_ended = True
            node.down.set()

    @asynccontextmanager
    async def _opened(self, node: SimulatedNode, store: Any) -> AsyncIterator[None]:
        app = create_app(
            profiles=list(self._profiles.values()),
            plugins=[create() for create in self._plugins],
            store=store,
            advertise=f"http://{node.place}",
            auth=principal_of,
            allowed_hosts=[each.place for each in self.nodes],
            # Not the user's, so that no life depends on the environment.
            **{"data_dir": f"/{node.place}", **self._options},
        )
        node.served = app.state.host
        async with node.served.open() as host, trio.open_nursery() as nursery:
            context = contextvars.copy_context()

            def spawn(run: Callable[..., Awaitable[object]], *args: object) -> None:
                context.copy().run(partial(nursery.start_soon, run, *args))

            node.host, node.spawn = host, spawn
            self.network.serve(node.place, app, spawn)
            node.up.set()
            self._tell(f"is up for the {node.machine.life + 1}. time", "up", node.place)
            try:
                yield
            finally:
                node.host = None
                self.network.leave(node.place)
                nursery.cancel_scope.cancel(reason="the node leaves")

    @asynccontextmanager
    async def _store_of(self, node: SimulatedNode) -> AsyncIterator[Any]:
        if node.disk is None and not self._is_in_memory:
            yield self.store
            return
        store: Any = MemoryStore() if node.disk is None else None
        while store is None:
            try:
                store = await outside.offload(open_disk_store, node.disk)
            except StoreUnavailable as error:  # a process manager starts such a node again
                self.log.note("node", f"cannot open its store: {error}")
                await trio.sleep(RESTART_SECONDS)
        with closing(LoggedStore(store, self.log)) as logged:
            yield logged

    # --- tasks

    def _start(self, run: Callable[..., Awaitable[object]], *args: object) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(partial(run, *args))

    def _within(self, machine: NodeMachine, run: Callable[..., Awaitable[object]], *args: object) -> None:
        def start() -> None:
            with outside.installed(machine):
                self._start(run, *args)

        contextvars.copy_context().run(start)


def check_store_kind(name: str, nodes: int) -> None:
    """Raise a `ValueError` for an unknown store, or for several nodes that share none."""
    if name not in get_args(StoreKind) or (nodes > 1 and name != "postgres"):
        message = (
            f"store is {name!r} and nodes is {nodes!r}: expected postgres, or sqlite or memory with one node"
        )
        raise ValueError(message)


async def _cancel_after(event: trio.Event, nursery: trio.Nursery) -> None:
    await event.wait()
    nursery.cancel_scope.cancel(reason="one of the events was enough")


def principal_of(headers: Any) -> Principal | None:
    """Return the caller whose name is the token of a request."""
    name = headers.get("authorization", "").removeprefix("Bearer ")
    return (
        Principal(tenant_id=WORLD_TENANT, user_id=name, scopes=("use", "inspect", "decide")) if name else None
    )
