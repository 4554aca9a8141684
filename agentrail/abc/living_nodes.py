"""Living nodes of a store, and the one of them that does what only one node has to do. Plain data and functions."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from agentrail.abc.store import Node

LONGEST_LEASE_MS: Final = 60_000
"""A node without a heartbeat for this long, by the store's clock, counts as dead here. No lease is longer."""

LOOK_AT_NODES_SECONDS: Final = 5.0
"""Interval between two looks at the nodes of a shared store, in seconds."""


def living_nodes(nodes: Iterable[Node], now_ms: int, silent: Collection[str] = ()) -> tuple[str, ...]:
    """Return the ids of living nodes, sorted.

    Args:
        nodes: Nodes of the store.
        now_ms: Time on the store's clock, in milliseconds.
        silent: Nodes whose heartbeat has not changed for a whole lease, as in `Store.take`.
    """
    return tuple(
        sorted(
            one.id
            for one in nodes
            if not one.gone_at_ms and one.id not in silent and now_ms - one.seen_at_ms <= LONGEST_LEASE_MS
        )
    )


def is_first(node: str, living: Sequence[str]) -> bool:
    """Whether a node does the work that one node does for all: its id sorts first. Two at once do no harm."""
    return not living or node <= living[0]


def is_first_alike(node: str, nodes: Iterable[Node], now_ms: int, silent: Collection[str] = ()) -> bool:
    """Whether a node is the first of those with its profiles. Others, such as the node of a chat, may not do such work."""
    known = [*nodes]
    digest = next((one.digest for one in known if one.id == node), "")
    return is_first(node, living_nodes([one for one in known if one.digest == digest], now_ms, silent))


class Departures:
    """Remembers which nodes have died, and whether this node has dealt with them.

    Attributes:
        living: Ids of living nodes at the last look.
        is_first: Whether this node deals with dead ones. See `is_first_alike`.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._seen: set[str] = set()
        self._settled: set[str] = set()
        self.living: tuple[str, ...] = ()
        self.is_first: bool = True

    def look(self, nodes: Iterable[Node], now_ms: int, silent: Collection[str] = ()) -> frozenset[str]:
        """Return the dead nodes that this node has to deal with now: none unless `is_first`."""
        known = [*nodes]
        self.living = living_nodes(known, now_ms, silent)
        self._seen.update(one.id for one in known)
        self.is_first = is_first_alike(self._node, known, now_ms, silent)
        dead = self._seen - {*self.living, self._node} - self._settled
        return frozenset(dead if self.is_first else ())

    def settle(self, dead: Iterable[str]) -> None:
        """Note that the work about these nodes is done."""
        self._settled.update(dead)
