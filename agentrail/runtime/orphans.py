"""Takeover of sessions of dead nodes over a shared store. Twice a second, a node finds silent nodes, reserves trees of dead owners, and resumes them."""

import statistics
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

import trio
from attrs import field, frozen

from agentrail.abc.store import Cause, Node, Store, StoredSession
from agentrail.errors import AgentrailError, HeldBy, JournalBehind, JournalDrifted, StoreUnavailable
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.outside import jitter
from agentrail.runtime.node_heartbeat import NodeHeartbeat
from agentrail.runtime.persistence import Keeping
from agentrail.runtime.trust import after_look, beat_seconds, is_living, silent_nodes

LOGGER: Final = Logger("agentrail.runtime")

_LOOK_SECONDS: Final = 0.5
"""Mean time between two looks. Each is drawn between half and one and a half of it, so that nodes do not look together."""

_MAX_FOLDS: Final = 16
"""Limit of trees of dead nodes resumed at a time."""

MAX_CLAIMED: Final = 8
"""Limit of trees reserved at a time."""

_STUCK_SECONDS: Final = 60.0
"""Time for which a tree that cannot be resumed here is left to other nodes, in seconds."""

_TAKE_SECONDS: Final = 2.0

PARKED_SECONDS: Final = 3_600.0
"""Time after which a parked tree is reported again, in seconds."""

TELL_SECONDS: Final = 60.0
"""Interval between log entries about nodes with other profiles, in seconds."""

MAX_DEATHS: Final = 2
"""A tree whose owner ended this often in a row, without a record in between, is parked instead of resumed."""

PARKED: Final = "parked: {deaths} nodes in a row ended with it; when the cause is fixed, continue it with resume_session or `agentrail sessions resume {session}`"


class _Recovery(Protocol):
    """Resumes the trees that a look has found."""

    @property
    def takes_more(self) -> bool:
        """Whether this node takes sessions. Not while it drains."""

    async def resume_claimed(self, row: StoredSession, cause: Cause) -> AgentrailError | None:
        """Resume a reserved tree. Return why it could not be resumed, or None."""

    def park_claimed(self, row: StoredSession, reason: str) -> None: ...

    async def give_back_claimed(self, row: StoredSession) -> None: ...

    async def drop_moved(self) -> None:
        """Forget hibernated sessions that another node has woken."""


@frozen(kw_only=True)
class ClusterFacts:
    """Facts about the nodes of a shared store, for operators.

    Attributes:
        nodes: Nodes at the last look, with this one.
        clock_difference_seconds: How far the store's clock is ahead of this machine's. None if unknown.
        other_leases: Nodes with another lease than this one, with theirs in seconds.
        other_digests: Living nodes with other profiles than this one.
        needs_newer: Working trees without a living owner that only a newer version of agentrail can read, and the codec that each needs.
    """

    nodes: tuple[Node, ...] = ()
    clock_difference_seconds: float | None = None
    other_leases: dict[str, float] = field(factory=dict)
    other_digests: tuple[str, ...] = ()
    needs_newer: dict[tuple[str, SessionId], int] = field(factory=dict)


def decide_looks_to_wait(own: Node, nodes: Iterable[Node], died: Iterable[Node]) -> int:
    """Return the number of looks for which this node leaves the trees of dead nodes to others.

    One if its load is above the median, and one if a dead node had another version, so that a crash seldom meets other code.
    """
    loads = [node.load for node in nodes] or [own.load]
    return (own.load > statistics.median(loads)) + any(node.version != own.version for node in died)


def cause_of(row: StoredSession, nodes: Iterable[Node], silent: Collection[str]) -> Cause:
    """Return why a reserved tree changes its owner. One that is not silent was reported gone, perhaps after the nodes were read."""
    if not row.node:
        return "drain"  # its node has released it
    is_gone = any(node.id == row.node and node.gone_at_ms for node in nodes)
    return "lease_over" if row.node in silent and not is_gone else "gone"


class Orphans:
    """Finds and resumes sessions of dead nodes, for one node."""

    def __init__(self, keeping: Keeping, heartbeat: NodeHeartbeat, recovery: _Recovery) -> None:
        self._keeping, self._heartbeat, self._recovery = keeping, heartbeat, recovery
        self._store: Store = keeping.store
        self._nodes: tuple[Node, ...] = ()
        self._dead: frozenset[str] = frozenset()
        self._waits = 0
        self._stuck: dict[tuple[str, SessionId], float] = {}
        self._moving: dict[tuple[str, SessionId], trio.Event] = {}
        self._folds = 0
        self._has_room = trio.Event()
        self._is_claiming = self._is_unsure = False
        self._dropped_at = float("-inf")
        self._began_ms = 0
        self._told: set[tuple[str, str]] = set()
        self._told_digests_at = float("-inf")

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    if await self._look() and not self._is_claiming:
                        self._is_claiming = True
                        nursery.start_soon(self._claim, nursery, name="claims of sessions")
                    if trio.current_time() - self._dropped_at >= self._beat_seconds:
                        self._dropped_at = trio.current_time()
                        await self._recovery.drop_moved()
                except StoreUnavailable as error:
                    LOGGER.debug("the nodes cannot be read now: %s", error)
                await trio.sleep(_LOOK_SECONDS * (0.5 + jitter()))

    @contextmanager
    def left_to_others(self, scope: str, session_id: SessionId) -> Iterator[None]:
        """Do not claim a tree within this block, nor resume it for a caller at once: this node releases it for another one."""
        if (scope, session_id) in self._moving:  # another caller moves it
            yield
            return
        is_over = self._moving[scope, session_id] = trio.Event()
        try:
            yield
        finally:
            del self._moving[scope, session_id]
            is_over.set()

    async def wait_moved(self, scope: str, session_id: SessionId) -> None:
        """Wait until another node has taken a tree that this node releases, but not for long: it may have died."""
        if (is_over := self._moving.get((scope, session_id))) is not None:
            with trio.move_on_after(_TAKE_SECONDS):
                await is_over.wait()

    @property
    def _beat_seconds(self) -> float:
        return beat_seconds(self._keeping.node.lease_ms / 1000)

    async def _look(self) -> bool:
        """Look at the nodes. Return whether to claim trees now."""
        keeping, own = self._keeping, self._heartbeat.node
        sent_at = trio.current_time()
        nodes = await keeping.read(self._store.nodes)
        others = [node for node in nodes if node.id != own.id]
        keeping.silence = after_look(keeping.silence, sent_at, trio.current_time(), others)
        self._nodes = nodes
        self._began_ms = self._began_ms or sum(node.seen_at_ms for node in nodes if node.id == own.id)
        self._tell_settings(others)
        silent = silent_nodes(keeping.silence)
        dead = frozenset(node.id for node in others if not is_living(node, silent))
        self._tell_digests(others, dead)
        died = [node for node in others if node.id in dead - self._dead]
        self._dead = dead
        if died:
            self._waits = decide_looks_to_wait(own, [node for node in nodes if node.id not in dead], died)
        if self._waits:
            self._waits -= 1
            return False
        return self._heartbeat.is_trusted and self._recovery.takes_more

    def _tell_settings(self, others: Collection[Node]) -> None:
        """Name nodes with another lease, or with the address of this one."""
        own = self._keeping.node
        leases = [node.id for node in others if node.lease_ms not in (0, own.lease_ms)]
        told = "nodes of this store have other leases than the %g s of this one: %s; use one lease for all"
        self._tell_once(leases, told, own.lease_ms / 1000)
        # Without a heartbeat since this one began, it may be a crashed predecessor on this machine.
        living = [node for node in others if not node.gone_at_ms and node.seen_at_ms > self._began_ms]
        alike = [node.id for node in living if node.address == own.address != ""]
        told = "calls to this node can reach others, which advertise %s too: %s; give each node an address of its own"
        self._tell_once(alike, told, own.address)

    def _tell_once(self, nodes: Collection[str], told: str, setting: object) -> None:
        fresh = {(told, node) for node in nodes} - self._told
        if fresh:
            LOGGER.warning(told, setting, ", ".join(sorted(nodes)))
        self._told |= fresh

    def _tell_digests(self, others: Iterable[Node], dead: frozenset[str]) -> None:
        """Name living nodes with other profiles, once a minute: perhaps two clusters use one database by mistake."""
        own, now = self._heartbeat.node.digest, trio.current_time()
        unlike = [node.id for node in others if own and node.digest not in {"", own} and node.id not in dead]
        if unlike and now - self._told_digests_at >= TELL_SECONDS:
            self._told_digests_at = now
            LOGGER.warning(
                "nodes of this store serve other profiles than this one: %s; give all nodes the same files, or each cluster a database of its own",
                ", ".join(sorted(unlike)),
            )

    async def _claim(self, nursery: trio.Nursery) -> None:
        try:
            while await self._claim_some(nursery):
                pass
        except StoreUnavailable as error:
            LOGGER.debug("no sessions can be claimed now: %s", error)
            self._is_unsure = True  # whether any are reserved now
        finally:
            self._is_claiming = False

    async def _claim_some(self, nursery: trio.Nursery) -> bool:
        """Claim and resume a few trees. Return whether there may be more."""
        await self._wait_folds(0 if self._is_unsure else _MAX_FOLDS - MAX_CLAIMED)
        now = trio.current_time()
        self._stuck = {key: until for key, until in self._stuck.items() if until > now}
        keeping = self._keeping
        again = self._is_unsure and not self._folds  # reservations that are in use are not returned
        self._is_unsure = self._is_unsure and not again
        claim = partial(
            self._store.claim,
            keeping.node.id,
            silent_nodes(keeping.silence),
            codec=keeping.node.codec,
            skip=(*self._stuck, *self._moving),
            limit=MAX_CLAIMED,
            again=again,
        )
        rows = await keeping.write(claim)
        for row in rows:
            if row.deaths >= MAX_DEATHS:
                reason = PARKED.format(deaths=row.deaths, session=row.session)
                self._recovery.park_claimed(row, reason)
                await self._leave(row, PARKED_SECONDS)
            elif row.deaths:  # alone: it may be the cause
                await self._wait_folds(0)
                await self._resume(row)
            else:
                self._folds += 1
                nursery.start_soon(self._fold, row, name="takeover")
        return len(rows) == MAX_CLAIMED

    async def _wait_folds(self, at_most: int) -> None:
        while self._folds > at_most:
            self._has_room = trio.Event()
            await self._has_room.wait()

    async def _fold(self, row: StoredSession) -> None:
        try:
            await self._resume(row)
        finally:
            self._folds -= 1
            self._has_room.set()

    async def _resume(self, row: StoredSession) -> None:
        cause = cause_of(row, self._nodes, silent_nodes(self._keeping.silence))
        error = await self._recovery.resume_claimed(row, cause)
        match error:
            case None:
                return
            case HeldBy():
                seconds = _LOOK_SECONDS
            case StoreUnavailable():
                seconds = 0.0
                self._is_unsure = True  # the reservation may not be cleared either
            case JournalDrifted() | JournalBehind():
                seconds = PARKED_SECONDS
            case _:
                seconds = _STUCK_SECONDS
        await self._leave(row, seconds)

    async def _leave(self, row: StoredSession, seconds: float) -> None:
        """Leave a tree to other nodes for a time."""
        self._stuck[row.scope, row.session] = trio.current_time() + seconds
        await self._recovery.give_back_claimed(row)


async def cluster_facts(keeping: Keeping, heartbeat: NodeHeartbeat) -> ClusterFacts:
    own, store = heartbeat.node, keeping.store
    nodes = await keeping.read(store.nodes)
    waiting = await keeping.read(partial(store.orphans, 1_000))
    others = [node for node in nodes if node.id != own.id and is_living(node)]
    return ClusterFacts(
        nodes=nodes,
        clock_difference_seconds=heartbeat.clock_difference_seconds,
        other_leases={one.id: one.lease_ms / 1000 for one in others if one.lease_ms not in (0, own.lease_ms)},
        other_digests=tuple([one.id for one in others if one.digest not in ("", own.digest)]),
        needs_newer={(one.scope, one.session): one.codec for one in waiting if one.codec > own.codec},
    )
