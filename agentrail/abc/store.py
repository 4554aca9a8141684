"""The port of a journal store: ordered records for each session, and the session's owner.

One thread writes, any thread may read. Calls block. An append succeeds if its first number is free and the record before it has the same epoch. All times come
from the store's clock. Test a store with `agentrail.testing.check_store`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import msgspec

from agentrail.core.journal.record import Record, Tail
from agentrail.errors import AgentrailError, Fenced, JournalBehind, StoreUnavailable
from agentrail.messages import SessionId

T = TypeVar("T")

Cause: TypeAlias = Literal["start", "lease_over", "gone", "drain", "restored"]
"""Reason for a change of owner: the session's start, an expired lease, a vanished owner, a release by the owner, or a restored backup."""

Heartbeats: TypeAlias = Mapping[str, int]
"""Times of heartbeats on the store's clock, in milliseconds, by the id of the node."""

NODE_LEASE_SECONDS: Final = 15.0
"""Default time after its last heartbeat after which other nodes may take the sessions of a node."""


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that owns sessions.

    Attributes:
        id: New at each start.
        address: Address for other nodes, empty if it accepts no calls.
        version: Version of agentrail.
        pid: Process id.
        boot: Boot id of the machine, within which the pid is meaningful.
        load: Number of its sessions that are in memory.
        codec: Highest codec of records that it can read.
        digest: Fingerprint of its profiles: names, versions and schemas. Different ones in one cluster are reported.
        lease_ms: Its setting of the lease in milliseconds, or 0 if unknown. Different ones in one cluster are reported.
        seen_at_ms: Time of its last heartbeat, on the store's clock in milliseconds, 0 before it is stored.
        gone_at_ms: Time at which its process was reported to have ended, on that clock, or 0.
    """

    id: str
    address: str = ""
    version: str = ""
    pid: int = 0
    boot: str = ""
    load: int = 0
    codec: int = 0
    digest: str = ""
    lease_ms: int = 0
    seen_at_ms: int = 0
    gone_at_ms: int = 0


class Beat(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The store's answer to a heartbeat.

    Attributes:
        at_ms: Time of this heartbeat, on the store's clock in milliseconds.
        before_ms: Time of the one before, on that clock, or 0 for the first.
        was_gone: Whether the node had been reported gone in between. This heartbeat ended that, but its sessions may have other owners. Not
            repeated: after a heartbeat whose outcome is unknown, the answer that reported it may be lost.
    """

    at_ms: int
    before_ms: int = 0
    was_gone: bool = False


class SharedDraw(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The store's answer to `take_allowance`.

    Attributes:
        is_allowed: Whether it was taken.
        full_at_ms: Time at which everything is available again, on the store's clock in milliseconds.
        now_ms: Time of the answer, on that clock.
    """

    is_allowed: bool
    full_at_ms: float
    now_ms: float


class Standing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Status of a session after its last record.

    Attributes:
        is_working: Whether work is open or queued. Such a session is resumed if its owner vanishes.
        has_ended: Whether no further record follows.
        waits_for: Number of pending approvals and questions.
        due_at_ms: Time of its next timer, on the signal clock in milliseconds, or None.
        title: Title for lists, empty if it has none.
    """

    is_working: bool = False
    has_ended: bool = False
    waits_for: int = 0
    due_at_ms: int | None = None
    title: str = ""

    @property
    def has_open_work(self) -> bool:
        """Whether it is working, or waits for a user or a timer."""
        return self.is_working or self.waits_for > 0 or self.due_at_ms is not None


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Records to append to one session, all or none.

    Attributes:
        records: One or more records of one epoch, numbered without gaps.
        standing: Status of the session after the last of them.
        codec: Highest codec of these records.
        blobs: Large values of the records, by hexadecimal SHA-256.
    """

    records: tuple[Record, ...]
    codec: int = 0
    standing: Standing = Standing()
    blobs: Mapping[str, bytes] = {}

    @property
    def scope(self) -> str:
        """Scope of the session."""
        return self.records[0].scope

    @property
    def session(self) -> SessionId:
        """Id of the session."""
        return self.records[0].session


class Opening(Append, frozen=True, kw_only=True, gc=False):
    """The beginning of a journal.

    Attributes:
        records: The first records, of epoch 1: `opened` is number 1. An imported journal has all, with ascending epochs.
        root: Root of the session's tree, or its own id.
        parent: Parent session, empty for a root.
        forked_from: Session and record number of the fork, or None.
        node: Owner, empty for none.
        owner: Key of the session's user, from `session_owner_key`, empty for none.
        max_of_owner: Refuse a root if its user has this many roots that have not ended. None for no limit.
    """

    root: SessionId
    parent: str = ""
    forked_from: tuple[SessionId, int] | None = None
    node: str
    owner: str = ""
    max_of_owner: int | None = None


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State of a session after one record: a cache of the fold.

    Attributes:
        scope: Scope of the session.
        session: Id of the session.
        seq: Number of the record.
        hash: Hash of that record, which ties the snapshot to this journal.
        state: State encoded by `encode_session`.
        check: BLAKE2b-128 of hash and state.
    """

    scope: str
    session: SessionId
    seq: int
    hash: bytes
    state: bytes
    check: bytes


class StoredSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A store's row about a session.

    Attributes:
        scope: Scope of the session.
        session: Id of the session.
        root: Root of its tree.
        parent: Parent session, empty for a root.
        forked_from: Session and record number of the fork, or None.
        node: Owner, empty if it has none.
        opened_at_ms: Time of its creation, on the store's clock in milliseconds.
        written_at_ms: Time of its last record, on that clock.
        first_seq: First remaining record: 1 unless trimmed.
        tail: End of its journal.
        events: Number of its last event.
        standing: Status of the session.
        codec: Highest codec of its records. Only a node whose codec is at least that of a whole tree may take it.
        deaths: For a root: how many owners vanished in a row without a record in between, apart from those of a recovery (`RECOVERY_KINDS`). See `Store.claim`.
    """

    scope: str
    session: SessionId
    root: SessionId
    parent: str
    forked_from: tuple[SessionId, int] | None
    node: str
    opened_at_ms: int
    written_at_ms: int
    first_seq: int
    tail: Tail
    events: int
    standing: Standing
    codec: int = 0
    deaths: int = 0


class Taken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tree with a new owner.

    Attributes:
        sessions: Sessions that have not ended, with the status after their `taken` record, and always the root first.
    """

    sessions: tuple[StoredSession, ...]


class TakeOver(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tree to take over, as in `Store.take`.

    Attributes:
        scope: Scope of the tree.
        root: Root of the tree.
        node: The new owner, empty for none.
        cause: Reason of the change.
        force: Whether to fence a live owner too.
        silent: Nodes whose heartbeat the taker itself has not seen change for a whole lease of its own clock, each with that heartbeat's `seen_at_ms`.
            Only they can lose a tree to an expired lease, and only while it is still their last one. None if the store's clock alone decides, for a
            store of one process.
        tail: End of the root's journal as the taker folded it. None for any.
    """

    scope: str
    root: SessionId
    node: str
    cause: Cause
    force: bool = False
    silent: Heartbeats | None = None
    tail: Tail | None = None


class Filters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Filters of a session query. None matches any value.

    Attributes:
        scope: In this scope.
        root: In this tree.
        owner: Of this user (`session_owner_key`), empty for none. Erased sessions have none.
        node: Owned by this node, empty for none.
        is_working: Working, or not.
        has_ended: Ended, or not.
        only_roots: Root sessions only.
        written_before_ms: Last record older than this, on the store's clock in milliseconds.
        written_after_ms: Last record at this time or later, on that clock.
    """

    scope: str | None = None
    root: SessionId | None = None
    owner: str | None = None
    node: str | None = None
    is_working: bool | None = None
    has_ended: bool | None = None
    only_roots: bool = False
    written_before_ms: int | None = None
    written_after_ms: int | None = None


class Erasure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Amount of content removed by an erasure.

    Attributes:
        sessions: Number of affected sessions.
        records: Number of records replaced by `erased`.
        snapshots: Number of deleted snapshots.
        blobs: Number of deleted large values that no other session uses.
    """

    sessions: int = 0
    records: int = 0
    snapshots: int = 0
    blobs: int = 0

    def __add__(self, other: "Erasure") -> "Erasure":
        return Erasure(
            sessions=self.sessions + other.sessions,
            records=self.records + other.records,
            snapshots=self.snapshots + other.snapshots,
            blobs=self.blobs + other.blobs,
        )


class OwedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An outstanding obligation outside sessions, such as an undelivered message.

    Attributes:
        kind: Component that owns the row and alone reads its body.
        id: Unique within the kind.
        body: Content, in the component's own format.
        node: Node that fulfils it, empty for any.
    """

    kind: str
    id: str
    body: bytes
    node: str = ""


@runtime_checkable
class SharedSecret(Protocol):
    """Optional interface of a store: a secret of the nodes that share it. See `agentrail.gateway.node_token.derived_key`."""

    def secret(self) -> bytes:
        """Return 32 random bytes, the same for every node and in every life of the store. A reading call."""
        ...


TEMPORARY_SESSIONS: Final = "temporary_session"
"""Kind of owed rows about sessions that a host deletes when they end. The ids are `SCOPE/SESSION`."""

JOURNAL_BEHIND: Final = "journal_behind"
"""Kind of owed rows about sessions that lost acknowledged records. The ids are `SCOPE/SESSION`, the bodies `HAVE ACKNOWLEDGED`, or empty if unknown."""


@runtime_checkable
class OwedStore(Protocol):
    """Optional interface of a store: keeps obligations across processes.

    `change_owed` is a writing call, `owed` a reading one. Both may raise `StoreUnavailable`.
    """

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Store rows, replacing those of equal kind and id, and drop others, all or nothing. Idempotent.

        Args:
            put: Rows to store.
            drop: Kind and id of the rows to drop, after the `put`. Unknown ones are ignored.
        """
        ...

    def owed(
        self, kind: str, after: str = "", limit: int = 1000, *, node: str | None = None
    ) -> tuple[OwedRow, ...]:
        """Return rows of a kind, sorted by id, starting after an id: of one node, or of all if it is None."""
        ...

    def adopt_owed(
        self, kind: str, node: str, silent: Heartbeats | None = None, limit: int = 100
    ) -> tuple[OwedRow, ...]:
        """Make a node the owner of rows whose node is empty or dead, as in `Store.claim`. A writing call. No row goes to two nodes.

        Returns:
            The adopted rows, sorted by id.
        """
        ...


def owed_rows(store: OwedStore, kind: str, after: str = "", limit: int = 1000) -> Iterator[OwedRow]:
    """Yield all rows of a kind after an id, sorted by id. They are read in pages."""
    while page := store.owed(kind, after, limit):
        yield from page
        after = page[-1].id


def decoded_rows(
    rows: Iterable[OwedRow],
    decode: Callable[[OwedRow], T],
    warn: Callable[[str, str, object], None],
    what: str,
) -> Iterator[T]:
    """Yield decoded rows. A damaged row, or one of a newer version, is skipped with a warning, and stays in the store."""
    for row in rows:
        try:
            yield decode(row)
        except (TypeError, ValueError, RecursionError) as error:  # the first for another type of column
            warn("%s cannot be read, and is skipped: %s", what, error)


def owed_row(store: OwedStore, kind: str, row_id: str) -> OwedRow | None:
    """Return one owed row, or None."""
    near = owed_rows(store, kind, row_id[:-1], 100)  # few rows lie between the id without its end and the id
    found = next((one for one in near if one.id >= row_id), None)
    return found if found is not None and found.id == row_id else None


class ManyTaker(Protocol):
    """Optional interface of a store: takes many trees in one transaction.

    `take_all` looks for it on the class, so that a wrapper's `__getattr__` does not bypass its own `take`.
    """

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Make nodes the owners of trees, each as in `Store.take` and independently. A writing call.

        Returns:
            For each tree the result of `take`, or the exception it would raise: `SessionNotFound`, `OptionError`, `HeldBy`.

        Raises:
            StoreUnavailable: The outcome of all trees is unknown. Each is then retried by itself.
        """
        ...


class ManyGetter(Protocol):
    """Optional interface of a store: reads many sessions with one query. `get_all` looks for it on the class, as `take_all` does."""

    def get_many(self, places: Sequence[tuple[str, SessionId]]) -> tuple[StoredSession | None, ...]:
        """Return sessions by scope and id, each as in `Store.get`. A reading call. May raise `StoreUnavailable`."""
        ...


class Store(Protocol):
    """Keeps journals. Every call but `close` may raise `StoreUnavailable`: its outcome is unknown.

    One thread at a time calls the writing methods: `create`, `take`, `claim`, `release`, `append`, `put_snapshot`, `gone`,
    `take_allowance`, `trim`, `overwrite_removed`; `beat`, `delete` and `erase` too unless the store is shared. In a shared one they come from other
    threads meanwhile, and wait for none of its calls. Any thread may read meanwhile.
    """

    @property
    def is_immediate(self) -> bool:
        """Whether appends are durable on return and take no time, so that no writer thread is needed."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether processes of several machines write to it at once."""
        ...

    def now_ms(self) -> int:
        """Return the time of the store's clock, in milliseconds since 1970."""
        ...

    def create(self, opening: Opening) -> None:
        """Create a journal. Repeating it from the same node succeeds while its epoch is the newest.

        Raises:
            AlreadyExists: Your move: the journal exists, with other or trimmed first records, or another node.
            Fenced: Another owner took the session, or its tree has another owner or none. Nothing is written.
            SessionNotFound: Your move: its tree does not exist.
            QuotaReached: `max_of_owner` is reached. Nothing is written.
        """
        ...

    def take(  # noqa: PLR0913 - each decides who gets the tree
        self,
        scope: str,
        root: SessionId,
        node: str,
        cause: Cause,
        *,
        force: bool = False,
        silent: Heartbeats | None = None,
        tail: Tail | None = None,
    ) -> Taken:
        """Make a node the owner of a tree, and refuse appends of older epochs. In one transaction, each session that has not ended gets a `taken` record.

        Args:
            scope: Scope of the tree.
            root: Root of the tree.
            node: The new owner, empty for none.
            cause: Reason of the change.
            force: Whether to fence a live owner too.
            silent: Same as in `TakeOver`.
            tail: Same as in `TakeOver`.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: not the root of its tree, which the message names.
            HeldBy: Another node owns it and is not dead, with or without a claim. Or the owner is dead, and another node that is not has claimed it.
                Or the journal does not end with `tail`.
        """
        ...

    def claim(  # noqa: PLR0913 - each decides which trees
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
        """Reserve roots of dead owners that have open work or a due timer, for `take`. Writes no record. No tree is reserved by two nodes.

        An owner is dead if it is unknown or reported gone, or if its lease has expired by the store's clock and `silent` has its last
        heartbeat. If this heartbeat is in the future, the store's clock was set back, and `silent` decides alone. Trees without an owner count
        too. A reservation ends with `take`, with `release`, or when the node that made it is dead. It gives nothing while the owner lives again.

        Each reserved tree that had an owner or a reservation gets `deaths + 1`. Trees with fewer deaths come first.

        Args:
            node: Node that takes them.
            silent: Same as in `TakeOver`.
            codec: Highest codec that it reads. Trees with a higher one are left out.
            within_ms: How early a timer counts as due, in milliseconds.
            skip: Scope and root of trees to leave out: this node could not resume them, and others may.
            limit: Maximum number of trees.
            again: Whether to return the trees that this node has reserved and not taken too, after a call whose outcome is unknown.
                Its reservations of trees whose owners live again end.

        Returns:
            The roots, with `deaths` as before they were reserved.
        """
        ...

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """Clear the owner and the reservation of a tree, if this node owns it. If it has only reserved the tree, clear the reservation alone.

        A death of the owner that the reservation has counted is taken back, so the next `claim` counts it once.
        """
        ...

    def owned(self, node: str) -> Mapping[tuple[str, SessionId], int]:
        """Return the epoch of each session that a node owns and that has not ended, by scope and id. A reading call."""
        ...

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | JournalBehind | None, ...]:
        """Append records to many sessions: all or nothing for each, independently and in order.

        Repeating the same records succeeds while their epoch is the newest, and changes nothing. A refused append refuses the rest of its session.

        Returns:
            For each append None once durable, or the reason that it never will be. For an unknown session, `Fenced` after record 0.
            After a refusal, the same one for the rest of the session. `JournalBehind` if the store lacks earlier records of the same owner, as after a failover that lost some.
        """
        ...

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records from number `after + 1`, in order. Hashes are not checked.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            Trimmed: The requested records were dropped.
        """
        ...

    def find(
        self, filters: Filters = ..., *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> tuple[StoredSession, ...]:
        """Return sessions after a position, sorted by scope and id. Reads no journal."""
        ...

    def newest(
        self, filters: Filters = ..., *, before: tuple[int, str] | None = None, limit: int = 100
    ) -> tuple[StoredSession, ...]:
        """Return sessions in descending order of their opening, then of their ids. Reads no journal.

        Args:
            filters: Conditions on the sessions. For pages, with a scope: ids are unique only within one.
            before: `opened_at_ms` and id of the last known session. None to begin with the newest.
            limit: Maximum number of sessions.
        """
        ...

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """Return one session, or None if the id is unknown."""
        ...

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Store a snapshot, keeping the last two of each session. Ignored for an unknown or erased session."""
        ...

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """Return unchecked snapshots up to a number, newest first."""
        ...

    def blob(self, digest: str) -> bytes | None:
        """Return a large value by its SHA-256, or None."""
        ...

    def beat(self, node: Node) -> Beat:
        """Record a node's heartbeat at the store's time."""
        ...

    def gone(self, node: str) -> bool:
        """Report that the process of a node has ended. Idempotent. Its next heartbeat, if it lives after all, ends that.

        Returns:
            Whether the node is known.
        """
        ...

    def nodes(self) -> tuple[Node, ...]:
        """Return nodes that own or have reserved sessions, own owed rows, or have a heartbeat within the lease."""
        ...

    def take_allowance(self, key: str, step_ms: float, limit_ms: float) -> SharedDraw:
        """Draw one piece of a shared allowance: a GCRA (ATM Forum TM 4.1), on the store's clock.

        With `full_at` as stored, or 0, the next is `max(full_at, now) + step_ms`. It is stored and allowed unless it is later than `now + limit_ms`.

        Args:
            key: Whose allowance of what. Unused keys are removed.
            step_ms: Milliseconds in which one piece becomes available again.
            limit_ms: `step_ms` times the largest burst.
        """
        ...

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """Return roots with open work and no live owner: none, or no heartbeat within the lease.

        Sorted by scope and id, after a position, as in `find`.
        """
        ...

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """Return sessions without a live owner whose timer is due on the store's clock, longest overdue first.

        Live is as in `orphans`.

        Args:
            within_ms: How early a timer counts as due, in milliseconds.
            limit: Maximum number of sessions.
        """
        ...

    def size(self, scope: str, session: SessionId) -> int:
        """Return the bytes of one session: records, snapshots, and each blob that it uses, even if shared.

        Returns:
            Bytes without the store's overhead, or 0 for an unknown session.
        """
        ...

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Delete a root with its tree: records, snapshots and unshared blobs. Bytes are overwritten, see `overwrite_removed`.

        Args:
            scope: Scope of the tree.
            session: Root of the tree.
            written_before_ms: Delete only if each session's last record is older than this, on the store's clock. None for any age. Checked inside the
                transaction.

        Returns:
            Number of bytes deleted.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: not a root. The message names the root.
            StillNeeded: Your move: a fork depends on it, a live node owns it unended (`Node.lease_ms` counts if longer), or it was written since.
        """
        ...

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Drop the records before a number that has a snapshot.

        Returns:
            Number of records dropped.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: no intact snapshot at or after that number, or beyond the end.
            StillNeeded: Your move: a fork depends on the records.
        """
        ...

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Erase the content of a tree, but not its existence. Idempotent.

        Each record becomes its `erased_record`, which preserves the chain of hashes. Snapshots, unshared large values and the title are removed. A `closed`
        record of a higher epoch (`closing_record`) ends the session without owner. Bytes are overwritten, see `overwrite_removed`. Forks stay.

        Args:
            scope: Scope of the tree.
            session: Root of the tree.
            why: Reason stored in the records. Must not repeat content.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: not a root. The message names the root.
            StillNeeded: Your move: a live node owns it unended, as in `delete`.
        """
        ...

    def overwrite_removed(self) -> bool:
        """Overwrite all erased, deleted or trimmed bytes in every file of the store. Idempotent.

        Returns:
            Whether that is done. If not, a reader prevented it (repeat the call), or this store never does it.
        """
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


def get_all(store: Store, places: Sequence[tuple[str, SessionId]]) -> tuple[StoredSession | None, ...]:
    """Return many sessions, with one query if supported (`ManyGetter`)."""
    if hasattr(type(store), "get_many"):
        return cast("ManyGetter", store).get_many(places)
    return tuple([store.get(*place) for place in places])


def take_all(store: Store, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
    """Take many trees over, in one transaction if supported.

    Returns, Raises: Same as `ManyTaker.take_many`.
    """
    if hasattr(type(store), "take_many"):
        return cast("ManyTaker", store).take_many(wanted)
    return tuple([_take_one(store, one) for one in wanted])


def _take_one(store: Store, one: TakeOver) -> Taken | AgentrailError:
    try:
        return store.take(
            one.scope, one.root, one.node, one.cause, force=one.force, silent=one.silent, tail=one.tail
        )
    except StoreUnavailable:
        raise
    except AgentrailError as error:
        return error
