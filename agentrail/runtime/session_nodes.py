"""Finds the nodes that own sessions of a shared store, without reading a journal."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final, Literal, TypeAlias

import trio

from agentrail.abc.store import Node, SharedSecret, StoredSession
from agentrail.core.values.port_members import offers
from agentrail.errors import OptionError, ProfileUnknown, Unrevivable
from agentrail.messages import SessionId
from agentrail.runtime.persistence import has_other_nodes
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.shared_resources import Shared
from agentrail.runtime.trust import is_living, silent_nodes

OWNER_SECONDS: Final = 5.0
"""Time for which the owner of a session is remembered, in seconds. An owner that has changed refuses the call."""

NODES_SECONDS: Final = 1.0
"""Time for which the nodes are remembered, in seconds."""

MAX_OWNERS: Final = 10_000

SessionPlace: TypeAlias = Node | Literal["here", "nowhere"]
"""The living node that owns a session, or `here`. `nowhere`: it is unknown, has ended, or has no living owner.

Without an owner, a session with records of a newer agentrail is at a node that reads them.
"""


def place_of_session(
    stored: StoredSession | None, nodes: Iterable[Node], own: str, silent: Collection[str] = ()
) -> SessionPlace:
    """Return the place of a session that is not live here.

    Args:
        stored: Its row, or None if it has none.
        nodes: Nodes of the store.
        own: This node.
        silent: Same as in `TakeOver`.
    """
    if stored is None or not stored.node or stored.standing.has_ended:
        return "nowhere"
    if stored.node == own:
        return "here"
    return next((one for one in nodes if one.id == stored.node and is_living(one, silent)), "nowhere")


def node_that_reads(codec: int, nodes: Iterable[Node], silent: Collection[str] = ()) -> Node | None:
    """Return the living node with the lowest load that reads records of a codec, if possible one that accepts calls, or None."""
    able = [one for one in nodes if one.codec >= codec and is_living(one, silent)]
    return min(able, key=lambda one: (not one.address, one.load, one.id), default=None)


class SessionNodes:
    """Places of the sessions of one supervisor. Costs nothing unless its store is shared."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._owners: dict[str, tuple[Node, float]] = {}
        self._nodes: tuple[Node, ...] = ()
        self._nodes_at = float("-inf")
        self._reading = trio.Lock()

    @property
    def node(self) -> Node | None:
        """This node. None if no other node can share its store."""
        keeping = self._shared.keeping
        return keeping.node if keeping is not None and has_other_nodes(keeping.store) else None

    async def secret(self) -> bytes:
        """Return the secret of the nodes. See `SharedSecret.secret`.

        Raises:
            OptionError: Your move: the store keeps none.
            StoreUnavailable: It cannot be read now.
        """
        keeping = self._shared.store_of("secret")
        if not offers(keeping.store, SharedSecret):
            message = (
                "nodes share this store, and it keeps no secret for their signatures: implement SharedSecret"
            )
            raise OptionError([message])
        return await keeping.read(keeping.store.secret)

    async def owner_of(
        self, session_id: str, *, scope: str, is_fresh: bool = False, is_read: bool = False
    ) -> SessionPlace:
        """Return the place of a session.

        Args:
            session_id: Its id.
            scope: Its scope.
            is_fresh: Whether to read its row even if its owner is remembered.
            is_read: Whether its state is only read. A node that may have lost it does not answer from memory: its row decides.

        Raises:
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        key, node, keeping = key_of(scope, session_id), self.node, self._shared.keeping
        # A hibernated session has no owner in the store, so another node may have woken it.
        entry = self._shared.live(key)
        if node is None or keeping is None:
            return "here"
        if entry is not None:
            journal, heartbeat = entry.cell.journal, keeping.heartbeat
            if not is_read or journal is None or heartbeat is None or heartbeat.may_answer(journal):
                return "here"
        known, until = self._owners.get(key, (None, 0.0))
        if known is not None and not is_fresh and trio.current_time() < until:
            return known
        stored = await keeping.read(partial(keeping.store.get, scope, SessionId(session_id)))
        nodes, silent = await self._read_nodes(is_fresh=is_fresh), self._silent()
        place = place_of_session(stored, nodes, node.id, silent)
        if place == "nowhere" and stored is not None and stored.codec > node.codec:
            place = node_that_reads(stored.codec, nodes, silent) or place
        self._owners.pop(key, None)
        if isinstance(place, Node):
            self._owners[key] = (place, trio.current_time() + OWNER_SECONDS)
            if len(self._owners) > MAX_OWNERS:
                del self._owners[next(iter(self._owners))]
        return place

    async def place_of_node(self, node_id: str) -> SessionPlace:
        """Return a node that counts as alive, as far as this node knows. Reads the store about once a second, for all callers."""
        if self.node is not None and node_id == self.node.id:
            return "here"
        nodes, silent = await self._read_nodes(), self._silent()
        return next((one for one in nodes if one.id == node_id and is_living(one, silent)), "nowhere")

    async def other_for(self, error: ProfileUnknown | Unrevivable) -> Node:
        """Return the living node with the lowest load among those whose profiles differ. Raise the error if there is none."""
        keeping, nodes = self._shared.store_of("nodes"), await self._read_nodes(is_fresh=True)
        own = keeping.node if keeping.heartbeat is None else keeping.heartbeat.node
        others = [one for one in nodes if one.address and one.id != own.id and one.digest != own.digest]
        other = node_that_reads(0, others, self._silent())
        if other is None:
            raise error
        return other

    async def is_alive(self, node_id: str) -> bool:
        """Whether a node counts as alive."""
        return await self.place_of_node(node_id) != "nowhere"

    async def _read_nodes(self, *, is_fresh: bool = False) -> tuple[Node, ...]:
        asked_at = trio.current_time()
        async with self._reading:
            if self._nodes_at < asked_at - (0.0 if is_fresh else NODES_SECONDS):
                keeping = self._shared.store_of("nodes")
                began_at = trio.current_time()
                self._nodes = await keeping.read(keeping.store.nodes)
                self._nodes_at = began_at
            return self._nodes

    def _silent(self) -> Collection[str]:
        return silent_nodes(self._shared.store_of("nodes").silence)
