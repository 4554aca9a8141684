"""`MemoryStore`: journals in dictionaries, with the same fencing as on disk. Nothing survives the process."""

import hashlib
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Final, TypeAlias

from msgspec.structs import replace

from agentrail import outside
from agentrail.abc.store import (
    Append,
    Beat,
    Erasure,
    Filters,
    Heartbeats,
    Node,
    Opening,
    OwedRow,
    SharedDraw,
    Standing,
    StoredSession,
    StoredSnapshot,
    Taken,
    TakeOver,
)
from agentrail.core.journal.erasure import closing_record, erased_record, is_erased
from agentrail.core.journal.record import ERASED, Record, Tail
from agentrail.core.journal.session_owner import NO_OWNER
from agentrail.errors import Fenced, StillNeeded, Trimmed
from agentrail.messages import SessionId
from agentrail.otp.field_rules import CountOrZero, checks_arguments
from agentrail.stores.append_rules import (
    FORGET_NODE_MS,
    KEPT_SNAPSHOTS,
    NEIGHBOURS,
    AppendRefusal,
    NodeLease,
    TreeTaker,
    check_deletion,
    check_dense,
    check_left,
    check_quota,
    check_same_opening,
    check_take,
    check_trim,
    check_trim_has_snapshot,
    checked_root,
    decide_append,
    draw_allowance,
    resets_deaths,
    session_not_found,
    takeover_record,
)
from agentrail.structs import struct_from

# Data of one session in a `MemoryStore`, and decisions that need only this data. No other session, lock or
# clock.


class MemoryJournal:
    """Stored data of one session. Its records have no gaps."""

    __slots__ = (
        "blobs",
        "claimed_by",
        "codec",
        "deaths",
        "first_seq",
        "forked_from",
        "node",
        "opened_at_ms",
        "owner",
        "parent",
        "records",
        "root",
        "scope",
        "session",
        "snapshots",
        "standing",
        "written_at_ms",
    )

    def __init__(self, opening: Opening, now: int) -> None:
        """Create a journal from an opening, at a time of the store's clock."""
        self.scope: str = opening.scope
        self.session: SessionId = opening.session
        self.root: SessionId = opening.root
        self.parent: str = opening.parent
        self.forked_from: tuple[SessionId, int] | None = opening.forked_from
        self.node: str = opening.node
        self.owner: str = opening.owner
        self.codec: int = opening.codec
        self.deaths: int = 0
        self.claimed_by: str = ""
        self.opened_at_ms: int = now
        self.written_at_ms: int = now
        self.first_seq: int = 1
        self.records: list[Record] = list(opening.records)
        self.standing: Standing = opening.standing
        self.snapshots: dict[int, StoredSnapshot] = {}
        self.blobs: dict[str, None] = {}

    @property
    def tail(self) -> Tail:
        """End of the journal, computed from the records."""
        last = self.records[-1]
        return Tail(seq=last.seq, epoch=last.epoch, hash=last.hash)

    @property
    def forks_at(self) -> int:
        """Number of the record at which it was forked, or 0."""
        return 0 if self.forked_from is None else self.forked_from[1]

    def has(self, records: Sequence[Record]) -> bool:
        """Whether these records are stored. See `StoredJournal.has`."""
        return all(
            record.seq < self.first_seq or self.records[record.seq - self.first_seq] == record
            for record in records
        )

    def extend(self, records: Sequence[Record], now: int) -> None:
        """Append records."""
        self.records.extend(records)
        self.written_at_ms = now

    def last_of(self, epoch: int) -> int:
        """Return the number of the last record up to this epoch."""
        return self.first_seq + bisect_right(self.records, epoch, key=lambda record: record.epoch) - 1

    def read(self, after: int, limit: int) -> Sequence[Record]:
        """Return so many records after a number."""
        return self.records[after + 1 - self.first_seq :][:limit]

    def trim(self, before: int) -> int:
        """Drop records before a number and return how many were dropped."""
        dropped = before - self.first_seq
        del self.records[:dropped]
        self.first_seq = before
        return dropped

    def was_erased(self, seq: int) -> bool:
        """Whether the content of a record was erased."""
        place = seq - self.first_seq
        return 0 <= place < len(self.records) and self.records[place].kind == ERASED

    def erase(self, why: str, now: int) -> tuple[int, int]:
        """Erase the content of all records, drop the snapshots, and end the session.

        Returns:
            Numbers of erased records and dropped snapshots.
        """
        snapshots, self.snapshots = len(self.snapshots), {}
        self.standing = Standing(has_ended=True)
        self.owner = NO_OWNER
        if is_erased(self.records[-2:], why):
            return 0, snapshots
        count = sum(record.kind != ERASED for record in self.records)
        end = closing_record(self.records[-1], why, now)
        self.records = [*(erased_record(record, why) for record in self.records), end]
        self.written_at_ms = now
        return count, snapshots

    def size_bytes(self) -> int:
        """Return the size of its records and snapshots in bytes, without blobs."""
        texts = sum(len(record.body) + len(record.does.encode()) for record in self.records)
        return texts + sum(len(one.state) for one in self.snapshots.values())

    def stored(self) -> StoredSession:
        """Return the session as listed by the store."""
        return struct_from(StoredSession, self, events=self.records[-1].events)


def fits(journal: MemoryJournal, filters: Filters) -> bool:
    """Whether a session passes the filters."""
    standing = journal.standing
    return (
        filters.scope in (None, journal.scope)
        and filters.root in (None, journal.root)
        and filters.owner in (None, journal.owner)
        and filters.node in (None, journal.node)
        and filters.is_working in (None, standing.is_working)
        and filters.has_ended in (None, standing.has_ended)
        and not (filters.only_roots and journal.root != journal.session)
        and (filters.written_before_ms is None or journal.written_at_ms < filters.written_before_ms)
        and (filters.written_after_ms is None or journal.written_at_ms >= filters.written_after_ms)
    )


def _opening(journal: MemoryJournal) -> tuple[int, str]:
    return journal.opened_at_ms, journal.session


_Key: TypeAlias = tuple[str, str]


class MemoryStore(TreeTaker):
    """Journals that live as long as the process."""

    is_immediate: Final = True

    @checks_arguments
    def __init__(
        self,
        *,
        now_ms: Callable[[], int] | None = None,
        lease_ms: CountOrZero = 15_000,
        is_shared: bool = False,
    ) -> None:
        """Create an empty store.

        Args:
            is_shared: What it reports to supervisors: with True, several share it as nodes of one cluster, for tests.
            now_ms: Clock of the store, in milliseconds since 1970. Default: the machine's clock.
            lease_ms: Time after its last heartbeat during which a node counts as alive.
        """
        self.is_shared = is_shared
        self._clock = now_ms
        self._lease_ms = lease_ms
        # Between the writing thread and the reading ones. Never held for longer than one call.
        self._lock = threading.Lock()
        self._journals: dict[_Key, MemoryJournal] = {}
        self._keys: list[_Key] = []
        self._trees: dict[_Key, list[_Key]] = {}
        self._forks: dict[_Key, dict[_Key, None]] = {}
        self._of_owner: dict[str, list[_Key]] = {}
        # Dictionaries instead of sets, because their order is reproducible from a seed.
        self._working: dict[_Key, None] = {}
        self._timed: dict[_Key, None] = {}
        self._owned: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        self._nodes: dict[str, Node] = {}
        self._blobs: dict[str, bytes] = {}
        self._holders: Counter[str] = Counter()
        self._owed_rows: dict[tuple[str, str], OwedRow] = {}
        self._secret: bytes = b""
        self._full_at_ms: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"MemoryStore(sessions={len(self._journals)})"

    def now_ms(self) -> int:
        """Return the store's clock: milliseconds since 1970."""
        return int(outside.wall() * 1000) if self._clock is None else self._clock()

    def secret(self) -> bytes:
        """Return the secret of the nodes that share it. See `SharedSecret.secret`."""
        with self._lock:
            self._secret = self._secret or hashlib.sha256(outside.ids(32).encode()).digest()
            return self._secret

    # --- writing

    def create(self, opening: Opening) -> None:
        """Create a journal. See `Store.create`."""
        first = opening.records[0]
        key = (first.scope, first.session)
        # An imported journal had several owners.
        check_dense(opening.records, is_one_epoch=bool(opening.node))
        with self._lock:
            there = self._journals.get(key)
            if there is not None:
                check_same_opening(opening, there.stored(), there)
                return
            self._check_tree(opening)
            check_quota(opening, self._count_open_roots)
            now = self.now_ms()
            self._journals[key] = journal = MemoryJournal(opening, now)
            insort(self._keys, key)
            self._trees.setdefault((first.scope, opening.root), []).append(key)
            if opening.forked_from is not None:
                self._forks.setdefault((first.scope, opening.forked_from[0]), {})[key] = None
            if opening.owner:
                insort(self._of_owner.setdefault(opening.owner, []), key)
            self._owned[opening.node] += 1
            self._keep(journal, opening.blobs)
            self._stand(key, journal, opening.standing)

    def _take(self, wanted: TakeOver) -> Taken:
        scope, root, node, cause = wanted.scope, wanted.root, wanted.node, wanted.cause
        with self._lock:
            top = self._root(scope, root)
            lease = self._lease()
            now = lease.now_ms
            check_take(wanted, top.stored(), top.claimed_by, self._nodes.get, lease)
            engine = self._nodes[node].version if node in self._nodes else ""
            taken: list[StoredSession] = []
            self._claim_for(top, "")
            for key in self._tree(scope, root):
                journal = self._journals[key]
                self._own(journal, node)
                if not journal.standing.has_ended:
                    record = takeover_record(journal.stored(), node=node, cause=cause, engine=engine, now=now)
                    journal.extend([record], now)
                if journal is top or not journal.standing.has_ended:
                    taken.append(journal.stored())
            return Taken(sessions=tuple(taken))

    def claim(  # noqa: PLR0913 - the arguments of the port
        self,
        node: str,
        silent: Heartbeats | None = None,
        *,
        codec: int = 0,
        within_ms: int = 0,
        skip: Collection[tuple[str, SessionId]] = (),
        limit: int = 8,
        again: bool = False,
    ) -> tuple[StoredSession, ...]:
        """Reserve trees of dead owners. See `Store.claim`."""
        with self._lock:
            lease = self._lease()
            alive = {one.id for one in self._nodes.values() if not lease.is_dead(one, silent)} | {node}
            for top in self._journals.values() if again else ():
                if top.claimed_by == node and top.node in alive:
                    self._end_claim(top)
            found: list[MemoryJournal] = []
            for key in self._wanting_owner(lease.now_ms + within_ms):
                if key in skip:
                    continue
                top = self._journals[key]
                is_again = again and top.claimed_by == node
                codecs = (self._journals[one].codec for one in self._tree(top.scope, top.root))
                if top.node not in alive and (is_again or top.claimed_by not in alive):
                    found += [top] if max(codecs) <= codec else []
            found.sort(key=lambda top: top.deaths)
            return tuple(self._reserve(top, node) for top in found[: max(0, limit)])

    def _reserve(self, top: MemoryJournal, node: str) -> StoredSession:
        before = top.stored()
        if top.claimed_by == node:
            return replace(before, deaths=max(0, top.deaths - 1))
        top.deaths += bool(top.node or top.claimed_by)
        self._claim_for(top, node)
        return before

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """Remove the owner or the reservation of a tree. See `Store.release`."""
        with self._lock:
            top = self._journals.get((scope, root))
            if top is None or top.root != root:
                return
            if node not in (top.node, top.claimed_by):
                return
            self._end_claim(top)
            if top.node == node:
                for key in self._tree(scope, root):
                    self._own(self._journals[key], "")

    def _end_claim(self, top: MemoryJournal) -> None:
        if top.node and top.claimed_by:
            top.deaths = max(0, top.deaths - 1)
        self._claim_for(top, "")

    def _claim_for(self, top: MemoryJournal, node: str) -> None:
        self._claims -= Counter((top.claimed_by,))
        top.claimed_by = node
        self._claims[node] += 1

    def append(self, batch: Sequence[Append]) -> tuple[AppendRefusal | None, ...]:
        """Append records of many sessions. See `Store.append`."""
        refused: dict[_Key, AppendRefusal] = {}
        answers: list[AppendRefusal | None] = []
        for one in batch:
            check_dense(one.records)
        with self._lock:
            now = self.now_ms()
            for one in batch:
                key = (one.scope, one.session)
                answer = refused.get(key) or self._append(key, one, now)
                if answer is not None:
                    refused[key] = answer
                answers.append(answer)
        return tuple(answers)

    def _append(self, key: _Key, one: Append, now: int) -> AppendRefusal | None:
        journal = self._journals.get(key)
        new = decide_append(one, journal)
        if not isinstance(new, tuple) or journal is None:
            return new if not isinstance(new, tuple) else None
        # A repeated append changes nothing. In particular it must not restore an older standing of the
        # session.
        if new:
            self._keep(journal, one.blobs)
            self._stand(key, journal, one.standing)
            journal.codec = max(journal.codec, one.codec)
            top = self._journals.get((one.scope, journal.root))
            if top is not None and top.deaths and resets_deaths(new):
                top.deaths = 0
            # Last, so that a thread interrupted before this has written nothing and writes everything the
            # next time.
            journal.extend(new, now)
        return None

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Store a snapshot. Each session keeps its last two."""
        with self._lock:
            journal = self._journals.get((snapshot.scope, snapshot.session))
            if journal is None or journal.was_erased(snapshot.seq):
                return
            journal.snapshots[snapshot.seq] = snapshot
            while len(journal.snapshots) > KEPT_SNAPSHOTS:
                del journal.snapshots[min(journal.snapshots)]

    def beat(self, node: Node) -> Beat:
        """Record that a node is alive. Nodes that own nothing are removed after an hour."""
        with self._lock:
            lease = self._lease()
            before = self._nodes.get(node.id, Node(id=node.id))
            self._nodes[node.id] = replace(node, seen_at_ms=lease.now_ms, gone_at_ms=0)
            known = {one.id for one in self._known_nodes(lease)}
            self._nodes = {
                name: one
                for name, one in self._nodes.items()
                if name in known or before.seen_at_ms - one.seen_at_ms < FORGET_NODE_MS
            }
            return Beat(at_ms=lease.now_ms, before_ms=before.seen_at_ms, was_gone=bool(before.gone_at_ms))

    def gone(self, node: str) -> bool:
        """Report that the process of a node has ended. See `Store.gone`."""
        with self._lock:
            one = self._nodes.get(node)
            if one is not None and not one.gone_at_ms:
                self._nodes[node] = replace(one, gone_at_ms=self.now_ms())
            return one is not None

    def take_allowance(self, key: str, step_ms: float, limit_ms: float) -> SharedDraw:
        """Draw one piece of a shared allowance. See `Store.take_allowance`."""
        with self._lock:
            now = self.now_ms()
            drawn = draw_allowance(
                self._full_at_ms.pop(key, 0.0), step_ms=step_ms, limit_ms=limit_ms, now=now
            )
            for _ in range(2):  # so that unused keys go faster than new ones come
                oldest = next(iter(self._full_at_ms), None)
                if oldest is not None and self._full_at_ms[oldest] <= now:
                    del self._full_at_ms[oldest]
            self._full_at_ms[key] = drawn.full_at_ms
            return drawn

    def size(self, scope: str, session: SessionId) -> int:
        """Return the size of one session in bytes, without its tree. See `Store.size`."""
        with self._lock:
            journal = self._journals.get((scope, session))
            if journal is None:
                return 0
            return journal.size_bytes() + sum(len(self._blobs[digest]) for digest in journal.blobs)

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Delete a root with its tree. See `Store.delete`."""
        with self._lock:
            top = self._root(scope, session)
            keys = self._tree(scope, session)
            forks = [fork for key in keys for fork in self._forks.get(key, ()) if fork not in keys]
            written_at_ms = max(self._journals[key].written_at_ms for key in keys)
            check_deletion(session, (fork for _, fork in forks), written_at_ms, written_before_ms)
            self._check_left(top, keys)
            del self._trees[scope, session]
            return sum(self._remove(key) for key in keys)

    def _remove(self, key: _Key) -> int:
        journal = self._journals.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        self._forks.pop(key, None)
        if journal.forked_from is not None and (others := self._forks.get((key[0], journal.forked_from[0]))):
            others.pop(key, None)
        self._working.pop(key, None)
        self._timed.pop(key, None)
        self._claim_for(journal, "")
        self._own(journal, "")
        self._disown(key, journal.owner)
        return journal.size_bytes() + sum(map(len, self._let_go(journal)))

    def _let_go(self, journal: MemoryJournal) -> list[bytes]:
        dropped: list[bytes] = []
        for digest in journal.blobs:
            self._holders[digest] -= 1
            if not self._holders[digest]:
                del self._holders[digest]
                dropped.append(self._blobs.pop(digest))
        journal.blobs = {}
        return dropped

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Erase the content of a tree. See `Store.erase`."""
        with self._lock:
            top = self._root(scope, session)
            keys = self._tree(scope, session)
            self._check_left(top, keys)
            return sum((self._erase(key, why) for key in keys), Erasure())

    def _erase(self, key: _Key, why: str) -> Erasure:
        journal = self._journals[key]
        self._disown(key, journal.owner)
        records, snapshots = journal.erase(why, self.now_ms())
        self._claim_for(journal, "")
        self._own(journal, "")
        self._stand(key, journal, journal.standing)
        blobs = len(self._let_go(journal))
        return Erasure(sessions=bool(records), records=records, snapshots=snapshots, blobs=blobs)

    def overwrite_removed(self) -> bool:
        """Return True: deleted data exists nowhere else."""
        return True

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Drop records before a number, which needs a snapshot. See `Store.trim`."""
        with self._lock:
            journal = self._get(scope, session)
            check_trim(session, before, journal.tail.seq)
            if before <= journal.first_seq:
                return 0
            check_trim_has_snapshot(session, before, journal.snapshots.values(), journal.read)
            forks = sorted(
                fork
                for _, fork in self._forks.get((scope, session), ())
                if self._journals[scope, fork].forks_at >= journal.first_seq
            )
            if forks:
                raise StillNeeded(session, by=forks)
            return journal.trim(before)

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Insert and delete owed rows. See `OwedStore.change_owed`."""
        with self._lock:
            self._owed_rows.update(((row.kind, row.id), row) for row in put)
            for name in drop:
                self._owed_rows.pop(name, None)

    def adopt_owed(
        self, kind: str, node: str, silent: Heartbeats | None = None, limit: int = 100
    ) -> tuple[OwedRow, ...]:
        """Make a node the owner of rows of dead nodes. See `OwedStore.adopt_owed`."""
        with self._lock:
            lease = self._lease()
            found = [
                row
                for row in self._owed_of(kind)
                if row.node != node and lease.is_dead(self._nodes.get(row.node), silent)
            ]
            adopted = [replace(row, node=node) for row in found[: max(0, limit)]]
            self._owed_rows.update(((row.kind, row.id), row) for row in adopted)
            return tuple(adopted)

    def close(self) -> None:
        """Do nothing. Can be called repeatedly."""

    # --- reading

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records in order. See `Store.read`."""
        with self._lock:
            journal = self._get(scope, session)
            start = after + 1 - journal.first_seq
            if start < 0:
                raise Trimmed(session, first=journal.first_seq)
            return tuple(journal.records[start : start + max(0, limit)])

    def find(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> tuple[StoredSession, ...]:
        """Return sessions ordered by scope and id. See `Store.find`."""
        found: list[StoredSession] = []
        with self._lock:
            for key in self._candidates(filters, after):
                if len(found) >= limit:
                    break
                journal = self._journals[key]
                if fits(journal, filters):
                    found.append(journal.stored())
        return tuple(found)

    def newest(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        before: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> tuple[StoredSession, ...]:
        """Return the sessions that were opened last. See `Store.newest`."""
        with self._lock:
            found = (self._journals[key] for key in self._candidates(filters, None))
            behind = (
                one for one in found if fits(one, filters) and (before is None or _opening(one) < before)
            )
            return tuple(one.stored() for one in nlargest(max(0, limit), behind, key=_opening))

    def _candidates(self, filters: Filters, after: _Key | None) -> Iterator[_Key]:
        few: Iterable[_Key] | None = None
        if filters.scope is not None and filters.root is not None:
            few = self._trees.get((filters.scope, filters.root), ())
        elif filters.is_working:
            few = self._working
        if few is not None:
            yield from sorted(key for key in few if after is None or key > after)
            return
        keys = self._of_owner.get(filters.owner, []) if filters.owner else self._keys
        start = 0 if after is None else bisect_right(keys, after)
        if filters.scope is not None:
            start = max(start, bisect_left(keys, (filters.scope, "")))
        for place in range(start, len(keys)):
            key = keys[place]
            if filters.scope is not None and key[0] != filters.scope:
                return
            yield key

    def owned(self, node: str) -> Mapping[tuple[str, SessionId], int]:
        """Return the epochs of a node's sessions. See `Store.owned`."""
        with self._lock:
            found = (one for one in self._journals.values() if one.node == node)
            return {(one.scope, one.session): one.tail.epoch for one in found if not one.standing.has_ended}

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """Return one session, or None if the id is unknown."""
        with self._lock:
            journal = self._journals.get((scope, session))
            return None if journal is None else journal.stored()

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """Return the snapshots up to a record number, the newest first."""
        with self._lock:
            journal = self._journals.get((scope, session))
            if journal is None:
                return ()
            kept = sorted(journal.snapshots.items(), reverse=True)
            return tuple(one for seq, one in kept if at_most is None or seq <= at_most)

    def blob(self, digest: str) -> bytes | None:
        """Return a large value by its SHA-256, or None if it is unknown."""
        with self._lock:
            return self._blobs.get(digest)

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that own a session or have sent a heartbeat within the lease."""
        with self._lock:
            return tuple(self._known_nodes(self._lease()))

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """Return roots of trees with unfinished work whose owner is not alive, in order, after a position."""
        with self._lock:
            lease = self._lease()
            working = ((key, self._journals[key]) for key in self._working)
            roots = sorted({(key[0], one.root) for key, one in working if not one.standing.has_ended})
            behind = roots[bisect_right(roots, after or ("", "")) :]
            tops = (self._journals[root] for root in behind if root in self._journals)
            gone = [top for top in tops if not self._is_alive(top.node, lease)]
            return tuple(top.stored() for top in gone[: max(0, limit)])

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """Return sessions whose timer is due and whose owner is not alive. See `Store.due`."""
        with self._lock:
            lease = self._lease()
            due = sorted(
                (at, key)
                for key in self._timed
                if (at := self._journals[key].standing.due_at_ms) is not None
                and at <= lease.now_ms + within_ms
                and not self._is_alive(self._journals[key].node, lease)
            )
            return tuple(self._journals[key].stored() for _, key in due[: max(0, limit)])

    def owed(
        self, kind: str, after: str = "", limit: int = 1000, *, node: str | None = None
    ) -> tuple[OwedRow, ...]:
        """Return owed rows ordered by id. See `OwedStore.owed`."""
        with self._lock:
            rows = [row for row in self._owed_of(kind) if row.id > after and node in (None, row.node)]
            return tuple(rows[: max(0, limit)])

    # --- shared helpers, called with the lock held

    def _get(self, scope: str, session: SessionId) -> MemoryJournal:
        journal = self._journals.get((scope, session))
        if journal is None:
            # Only its neighbours in order, so that a wrong id costs the same among ten and among a million.
            place = bisect_left(self._keys, (scope, session))
            beside = self._keys[max(0, place - NEIGHBOURS) : place + NEIGHBOURS]
            raise session_not_found(session, [name for of, name in beside if of == scope])
        return journal

    def _root(self, scope: str, session: SessionId) -> MemoryJournal:
        journal = self._get(scope, session)
        checked_root(journal.stored())
        return journal

    def _wanting_owner(self, due_at_ms: int) -> list[_Key]:
        """Return the roots of trees with unfinished work, or with a timer up to a time, in order."""
        timed = (self._journals[key] for key in self._timed)
        due = [one for one in timed if (one.standing.due_at_ms or 0) <= due_at_ms]
        working = [self._journals[key] for key in self._working]
        return sorted(
            {(one.scope, one.root) for one in (*due, *working) if not one.standing.has_ended}
            & self._journals.keys()
        )

    def _count_open_roots(self, owner: str) -> int:
        journals = (self._journals[key] for key in self._of_owner.get(owner, ()))
        return sum(one.root == one.session and not one.standing.has_ended for one in journals)

    def _owed_of(self, kind: str) -> list[OwedRow]:
        rows = (row for row in self._owed_rows.values() if row.kind == kind)
        return sorted(rows, key=lambda row: row.id)

    def _check_tree(self, opening: Opening) -> None:
        """Refuse a child that an old owner adds to a tree now owned by another node."""
        first = opening.records[0]
        if opening.root != first.session and self._get(first.scope, opening.root).node != opening.node:
            raise Fenced(first.session, durable_up_to=0)

    def _tree(self, scope: str, root: SessionId) -> list[_Key]:
        return sorted(self._trees[scope, root], key=lambda key: (key[1] != root, key))

    def _check_left(self, top: MemoryJournal, keys: Iterable[_Key]) -> None:
        tree, owner = [self._journals[key].standing for key in keys], self._nodes.get(top.node)
        check_left(top.session, tree, owner, self._lease())

    def _is_alive(self, node: str, lease: NodeLease) -> bool:
        return not lease.is_dead(self._nodes.get(node))

    def _lease(self) -> NodeLease:
        return NodeLease(self.now_ms(), self._lease_ms)

    def _known_nodes(self, lease: NodeLease) -> Iterable[Node]:
        owing = {row.node for row in self._owed_rows.values()}
        return (
            one
            for one in self._nodes.values()
            if self._owned[one.id] or self._claims[one.id] or one.id in owing or self._is_alive(one.id, lease)
        )

    def _own(self, journal: MemoryJournal, node: str) -> None:
        self._owned[journal.node] -= 1
        if not self._owned[journal.node]:
            del self._owned[journal.node]
        journal.node = node
        self._owned[node] += 1

    def _disown(self, key: _Key, owner: str) -> None:
        if owner:
            keys = self._of_owner[owner]
            del keys[bisect_left(keys, key)]
            if not keys:
                del self._of_owner[owner]

    def _keep(self, journal: MemoryJournal, blobs: Mapping[str, bytes]) -> None:
        for digest, content in blobs.items():
            if digest not in journal.blobs:
                journal.blobs[digest] = None
                self._holders[digest] += 1
                # A copy if the value is mutable, so that later changes by the caller have no effect.
                self._blobs.setdefault(digest, bytes(content))

    def _stand(self, key: _Key, journal: MemoryJournal, standing: Standing) -> None:
        journal.standing = standing
        for keys, belongs in (
            (self._working, standing.is_working),
            (self._timed, standing.due_at_ms is not None and not standing.has_ended),
        ):
            if belongs:
                keys[key] = None
            else:
                keys.pop(key, None)
