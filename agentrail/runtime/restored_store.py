"""Preparation of a store that was restored from a backup, before its first node starts. Blocks."""

from typing import Final

from attrs import frozen

from agentrail.abc.store import NODE_LEASE_SECONDS, Filters, Store, StoredSession, TakeOver, take_all
from agentrail.errors import AgentrailError, StoreInUse
from agentrail.runtime.persistence import has_other_nodes

_ROOTS: Final = Filters(only_roots=True, has_ended=False)
_PAGE: Final = 100


@frozen(kw_only=True)
class RestoredSessions:
    """Trees of a restored store, each by its root.

    Attributes:
        parked: Trees with open work, which may have been done in the lost time.
        idle: Number of the others, which continue with their next message.
    """

    parked: tuple[StoredSession, ...]
    idle: int


def note_restored(store: Store) -> RestoredSessions:
    """Raise the epoch of each session, so that no earlier owner writes to it, and park trees with open work until someone resumes them.

    Can be repeated.

    Raises:
        StoreInUse: Your move: a node is alive. Sessions may already have been changed if it started meanwhile.
        StoreUnavailable: It cannot be written now. Repeat the call.
    """
    _check_unused(store)
    parked: list[StoredSession] = []
    idle, after = 0, None
    while page := store.find(_ROOTS, after=after, limit=_PAGE):
        after = (page[-1].scope, page[-1].session)
        wanted = [
            TakeOver(scope=one.scope, root=one.session, node="", cause="restored", force=True) for one in page
        ]
        for taken in take_all(store, wanted):
            if isinstance(taken, AgentrailError):
                raise taken
            if any(one.standing.has_open_work for one in taken.sessions):
                parked.append(taken.sessions[0])
            else:
                idle += 1
    _check_unused(store)
    return RestoredSessions(parked=tuple(parked), idle=idle)


def _check_unused(store: Store) -> None:
    now_ms = store.now_ms()
    for node in store.nodes() if has_other_nodes(store) else ():
        lease_ms = node.lease_ms or round(NODE_LEASE_SECONDS * 1000)
        left_seconds = (lease_ms - (now_ms - node.seen_at_ms)) / 1000
        if not node.gone_at_ms and left_seconds > 0:
            message = f"node {node.id} at {node.address or 'no address'} (process {node.pid}) uses this store: stop all nodes first. If the backup was made while it ran, repeat this in {left_seconds:.0f} s"
            raise StoreInUse(message, pid=node.pid or None)
