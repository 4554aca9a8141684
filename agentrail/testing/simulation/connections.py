"""Connections between the places of a simulated world, with latencies and faults. They carry messages of ASGI, or bytes."""

import heapq
import math
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import trio
from attrs import define, field, frozen

from agentrail.testing.simulation.log import place_of_caller
from agentrail.testing.simulation.tape import Tape

WINDOW: Final = 32
"""Unread messages of one direction. Further ones wait at their sender."""

CONNECTED: Final = object()
LATENCY_SECONDS: Final = 0.004
"""Longest latency of most messages. One in fifty is late, by up to 25 times as much."""

_SHORTEST: Final = 0.05
_LATE: Final = 25
_LATE_RATE: Final = 0.02
_RETRY_SECONDS: Final = 1.0


@frozen
class LastMessage:
    """The last message of a connection. `how` is `closed`, `reset` or `refused`."""

    how: str


@frozen
class _Open:
    """A request for a connection. Without room for it, it is sent again after this time, as by TCP (RFC 6298)."""

    retry_seconds: float = _RETRY_SECONDS


@define(eq=False)
class Way:
    """The way of all messages from one place to another.

    Attributes:
        is_cut: Whether messages are held.
        slow_seconds: Additional latency.
        bytes_per_second: Bandwidth of each connection.
        buffer_bytes: A proxy collects so many bytes of an answer before it sends them on.
        repeats: Number of the next requests, other than GET and HEAD, that arrive twice.

    The last two are faults of a network of messages.
    """

    name: str
    chance: random.Random
    latency_seconds: float = LATENCY_SECONDS
    is_cut: bool = False
    slow_seconds: float = 0.0
    bytes_per_second: float = math.inf
    buffer_bytes: int = 0
    repeats: int = 0

    def due(self) -> float:
        longest = self.latency_seconds * (_LATE if self.chance.random() < _LATE_RATE else 1)
        latency = self.chance.uniform(_SHORTEST * self.latency_seconds, longest)
        return trio.current_time() + self.slow_seconds + latency


@define(eq=False)
class ConnectionEnd:
    """One end of a connection. Messages arrive in the order in which they were sent.

    Attributes:
        way: The way of messages to this end.
        post: Sends a message to an end, whether there is room or not.
        end: How the connection ended, as far as this end knows.
        is_read: Whether arriving messages are kept.
        changed: Tasks that wait for a message, or for room.
    """

    place: str
    way: Way
    post: Callable[["ConnectionEnd", Any], None]
    peer: "ConnectionEnd" = field(init=False)
    under_way: deque[tuple[float, Any]] = field(factory=deque)
    inbox: deque[Any] = field(factory=deque)
    end: str | None = None
    is_read: bool = True
    last_due: float = 0.0
    changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    async def send(self, message: Any) -> None:
        """Send a message as soon as there is room.

        Raises:
            trio.BrokenResourceError: The connection has ended.
        """
        await trio.lowlevel.checkpoint()
        while self.end is None and len(self.peer.under_way) + len(self.peer.inbox) >= WINDOW:
            await self.changed.park()
        if self.end is not None:
            raise trio.BrokenResourceError(self.end)
        self.post(self.peer, message)

    async def receive(self) -> Any:
        """Return the next message, or None after the last one. See `end`."""
        await trio.lowlevel.checkpoint()
        while not self.inbox and self.end is None:
            await self.changed.park()
        self.peer.changed.unpark_all()
        return self.inbox.popleft() if self.inbox else None

    def arrive(self, message: Any) -> None:
        if isinstance(message, LastMessage):
            self.end = self.end or message.how
        elif self.end is None and self.is_read:
            self.inbox.append(message)
        else:
            self.peer.changed.unpark_all()
        self.changed.unpark_all()

    def close(self) -> None:
        """End the connection after what was sent. Nothing is read any more. Idempotent."""
        if self.end is None:
            self.post(self.peer, LastMessage("closed"))
            self.arrive(LastMessage("closed"))
        self.inbox.clear()


class Connections:
    """Connects places, and breaks their connections. Faults are not noted in the log here.

    Attributes:
        watchers: Called with the name of the way and each message that arrives.
        delivered: Number of messages that have arrived.
    """

    def __init__(self, tape: Tape, *, latency_seconds: float = LATENCY_SECONDS) -> None:
        """Create connections for one Trio run."""
        self.watchers: list[Callable[[str, Any], None]] = []
        self.delivered: int = 0
        self._tape, self._latency_seconds = tape, latency_seconds
        self._listening: dict[str, tuple[Callable[[ConnectionEnd], object], Callable[[], bool]]] = {}
        self._refusing: dict[str, None] = {}
        self._addresses: dict[str, str] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._ends: dict[ConnectionEnd, None] = {}
        self._due: list[tuple[float, int, ConnectionEnd]] = []
        self._scheduled = 0
        self._sleep: trio.CancelScope | None = None

    @property
    def open_connections(self) -> int:
        """Number of connections that have not ended."""
        return len(self._ends) // 2

    def way(self, source: str, target: str) -> Way:
        """Return the way from one place to another."""
        if (source, target) not in self._ways:
            name = f"{source} > {target}"
            chance = self._tape.generator(f"network/{name}")
            self._ways[source, target] = Way(name, chance, self._latency_seconds)
        return self._ways[source, target]

    def address_of(self, place: str) -> str:
        """Return the IP address of a place. They are numbered, as places appear."""
        number = len(self._addresses) + 1
        return self._addresses.setdefault(place, f"127.0.{number >> 8}.{number & 255}")

    def listen(
        self,
        place: str,
        accept: Callable[[ConnectionEnd], object],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """Call a function with the server's end of each connection to a place, while there is room. It must not wait."""
        self._listening[place] = accept, has_room

    def leave(self, place: str) -> None:
        """Refuse connections to a place, and reset those that it has, as the system does for a process that has ended."""
        self._listening.pop(place, None)
        for end in self._between(place):
            self._post(end.peer, LastMessage("reset"))
            end.arrive(LastMessage("reset"))

    def open(self, place: str) -> ConnectionEnd:
        """Begin a connection of the current place to another. Its first message is `CONNECTED`, unless it ends."""
        here = place_of_caller()
        client = ConnectionEnd(here, self.way(place, here), self._post)
        server = ConnectionEnd(place, self.way(here, place), self._post)
        client.peer, server.peer = server, client
        self._ends |= {client: None, server: None}
        self._post(server, _Open())
        return client

    # --- faults

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Hold all messages from one place to another, and also those back unless `one_way`."""
        self.way(source, target).is_cut = True
        self.way(target, source).is_cut |= not one_way

    def slow(self, one: str, other: str, seconds: float) -> None:
        """Delay all messages between two places."""
        self.way(one, other).slow_seconds = self.way(other, one).slow_seconds = seconds

    def buffer(self, client: str, server: str, size_bytes: int) -> None:
        """Put a proxy that collects so many bytes between a server and its client. 0 ends it."""
        self.way(server, client).buffer_bytes = size_bytes

    def repeat(self, client: str, server: str, requests: int = 1) -> None:
        """Let the next requests arrive twice, on two connections."""
        self.way(client, server).repeats = requests

    def reset(self, one: str, other: str) -> None:
        """Reset all connections between two places. Messages that have not arrived are lost."""
        for end in (*self._between(one, other), *self._between(other, one)):
            end.under_way.clear()
            self._post(end, LastMessage("reset"))

    def refuse(self, place: str) -> None:
        """Refuse new connections to a place until `accept`."""
        self._refusing[place] = None

    def accept(self, place: str) -> None:
        """Accept connections to a place again."""
        self._refusing.pop(place, None)

    def mend(self, one: str, other: str) -> None:
        """End all faults between two places. Held messages arrive after another latency."""
        for way in (self.way(one, other), self.way(other, one)):
            self._mend(way, [end for end in self._ends if end.way is way])

    def mend_all(self) -> None:
        """End all faults."""
        self._refusing.clear()
        ends: dict[Way, list[ConnectionEnd]] = defaultdict(list)
        for end in self._ends:
            ends[end.way].append(end)
        for one, other in tuple(self._ways):
            for way in (self.way(one, other), self.way(other, one)):
                self._mend(way, ends[way])

    def _mend(self, way: Way, ends: Sequence[ConnectionEnd]) -> None:
        way.is_cut, way.slow_seconds, way.bytes_per_second = False, 0.0, math.inf
        way.buffer_bytes = way.repeats = 0
        for end in ends:
            if end.under_way:
                due = max(end.under_way[0][0], way.due())
                end.under_way = deque((max(at, due), message) for at, message in end.under_way)
                end.last_due = max(end.last_due, due)
                self._schedule(due, end)

    def _between(self, place: str, other: str | None = None) -> Iterator[ConnectionEnd]:
        for end in tuple(self._ends):
            if end.end is None and end.place == place and other in (None, end.peer.place):
                yield end

    # --- messages

    def _post(self, to: ConnectionEnd, message: Any) -> None:
        to.last_due = max(to.last_due, to.way.due()) + _size_of(message) / to.way.bytes_per_second
        to.under_way.append((to.last_due, message))
        self._schedule(to.last_due, to)

    def _schedule(self, due: float, to: ConnectionEnd) -> None:
        self._scheduled += 1
        heapq.heappush(self._due, (due, self._scheduled, to))
        if self._sleep is None:
            self._sleep = trio.CancelScope()
            # Of the system, so that messages arrive whatever became of the tasks of their senders.
            trio.lowlevel.spawn_system_task(self._carry, name="network")
        self._sleep.deadline = min(self._sleep.deadline, due)

    async def _carry(self) -> None:
        while self._due or self._ends:
            with trio.CancelScope(deadline=self._due[0][0] if self._due else math.inf) as self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            while self._due and self._due[0][0] <= now:
                self._deliver(heapq.heappop(self._due)[2], now)
        self._sleep = None

    def _deliver(self, to: ConnectionEnd, now: float) -> None:
        there = [message for due, message in to.under_way if due <= now]
        if to.way.is_cut or _is_collected(there, to.way.buffer_bytes):
            return
        while to.under_way and to.under_way[0][0] <= now and not to.way.is_cut:
            _, message = to.under_way.popleft()
            self.delivered += 1
            for watch in self.watchers:
                watch(to.way.name, message)
            if isinstance(message, _Open):
                self._accept(to, message)
            else:
                to.arrive(message)
        if to.end is not None and to.peer.end is not None:
            self._ends.pop(to, None)
            self._ends.pop(to.peer, None)

    def _accept(self, server: ConnectionEnd, asked: _Open) -> None:
        listening = self._listening.get(server.place)
        if listening is None or server.place in self._refusing:
            self._post(server.peer, LastMessage("refused"))
            server.arrive(LastMessage("refused"))
        elif server.end is None:
            accept, has_room = listening
            if has_room():
                self._post(server.peer, CONNECTED)
                accept(server)
            else:
                server.last_due = max(server.last_due, trio.current_time() + asked.retry_seconds)
                self._post(server, _Open(2 * asked.retry_seconds))


def _size_of(message: Any) -> int:
    data = message if isinstance(message, bytes | dict) else b""
    if isinstance(data, dict):
        data = data.get("body") or data.get("text") or data.get("bytes") or b""
    return len(data)


def _is_collected(messages: Sequence[Any], buffer_bytes: int) -> bool:
    """Return whether a proxy holds all of these: pieces of an answer that continues."""
    pieces = [one for one in messages if isinstance(one, dict) and one.get("more_body")]
    return len(pieces) == len(messages) < WINDOW and sum(map(_size_of, pieces)) < buffer_bytes
