"""Readers of simulated sessions, who all detach and connect again at the same instants."""

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define

from agentrail.errors import AgentrailError, CursorAhead
from agentrail.remote.link import open_links
from agentrail.remote.remote_session import RemoteSession
from agentrail.testing.simulation.facts import Read, ReaderSubscribed

if TYPE_CHECKING:
    from agentrail.testing.simulation.world import World

READS_ON_SECONDS: Final = 15.0
"""How long readers stay after all faults have ended."""

_AGAIN_SECONDS: Final = 1.0


def storm_readers(world: "World", n: int, *, sessions: int, storms: int) -> None:
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
class StormReader:
    """A client that only reads one session, and keeps its number."""

    world: "World"
    index: int
    own: int
    instants: tuple[float, ...]
    read_up_to: int = 0
    dials: int = 0
    cursors: int = 0

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

    def _dial(self) -> AbstractAsyncContextManager[Any]:
        places = tuple(node.place for node in self.world.nodes)
        first = self.world.tape.choice(f"readers[{self.index}].node", places)
        self.dials += 1
        token = f"Bearer person-{self.own}"
        place = places[(places.index(first) + self.dials) % len(places)]
        return self.world.network.dial(place, headers=[(b"authorization", token.encode())])

    async def _read(self, session: RemoteSession) -> None:
        reader = f"{self.name}/{self.cursors}"
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
            self.cursors += 1

    def _note(self, said: str, facts: Any) -> None:
        self.world.log.note("read", said, session=f"s{self.own}", place=self.name, facts=facts)
