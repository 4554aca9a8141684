"""The port of a journal store: an ordered set of records for each session, and the session's owner.

One thread writes to a store, and any thread may read. Calls block and need no event loop. A session's journal decides its
ownership: an append succeeds if its first number is free and the record before it has the same epoch as the append. All times
come from the store's clock, never from a node's. `agentrail.testing.check_store` tests an implementation against this
contract.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from agentrail.core.journal.record import Record, Tail
from agentrail.errors import AgentrailError, Fenced, StoreUnavailable
from agentrail.messages import SessionId

Cause: TypeAlias = Literal["start", "lease_over", "gone", "drain"]
"""Reason for a change of owner: the session's start, an expired lease, a vanished owner, or a release by the owner."""


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that owns sessions.

    Attributes:
        id: New at each start.
        address: Address for other nodes, empty if it accepts no calls.
        version: Version of agentrail.
        pid: Process id.
        boot: Id of the machine's boot. A pid is meaningful only within one boot.
        seen_at_ms: Time of its last heartbeat, on the store's clock in milliseconds, 0 before it is stored.
    """

    id: str
    address: str = ""
    version: str = ""
    pid: int = 0
    boot: str = ""
    seen_at_ms: int = 0


class Standing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Status of a session after its last record, for queries that read no journals.

    Attributes:
        is_working: Whether work is open or queued, so that the session is resumed automatically if its owner vanishes.
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


class Opening(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The beginning of a journal.

    Attributes:
        records: The first records: `opened` first, numbered from 1, all of epoch 1. For an imported journal, all its records,
            with ascending epochs.
        root: Root of the session's tree, or its own id if it has no parent.
        parent: Parent session, empty for a root.
        forked_from: Session and record number of the fork, or None.
        node: Owner, empty for none, as in an import.
        owner: Key of the session's user, from `session_owner_key`, empty for none.
        standing: Status after the last of these records.
        blobs: Large values of the records, by their SHA-256 in hexadecimal.
    """

    records: tuple[Record, ...]
    root: SessionId
    parent: str = ""
    forked_from: tuple[SessionId, int] | None = None
    node: str
    owner: str = ""
    standing: Standing = Standing()
    blobs: Mapping[str, bytes] = {}


class Append(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Records to append to one session, all or none.

    Attributes:
        records: One or more records, numbered without gaps, all of one epoch.
        standing: Status of the session after the last of them.
        blobs: Same as in `Opening`.
    """

    records: tuple[Record, ...]
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


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State of a session after one record. It is a cache of the fold, never the source of truth.

    Attributes:
        scope: Scope of the session.
        session: Id of the session.
        seq: Number of the record.
        hash: Hash of that record, which shows whether the snapshot belongs to this journal.
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
        first_seq: Number of the first remaining record: 1 unless it was trimmed.
        tail: End of its journal.
        events: Number of its last event.
        standing: Status of the session.
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


class Taken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tree with a new owner.

    Attributes:
        sessions: Its sessions that have not ended, with the status after their `taken` record, root first. The root is
            included even if it has ended.
    """

    sessions: tuple[StoredSession, ...]


class TakeOver(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tree to take over, as in `Store.take`.

    Attributes:
        scope: Scope of the tree.
        root: Root of the tree.
        node: The new owner.
        cause: Reason of the change.
        force: Whether to fence a live owner too.
    """

    scope: str
    root: SessionId
    node: str
    cause: Cause
    force: bool = False


class Filters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Filters of a session query. None matches any value.

    Attributes:
        scope: In this scope.
        root: In this tree.
        owner: Of this user, as a `session_owner_key`. Empty for sessions without a user. Erased sessions have none.
        node: Owned by this node. Empty: for sessions without an owner.
        is_working: Working, or not.
        has_ended: Ended, or not.
        only_roots: Root sessions only.
        written_before_ms: Last record older than this, on the store's clock in milliseconds.
    """

    scope: str | None = None
    root: SessionId | None = None
    owner: str | None = None
    node: str | None = None
    is_working: bool | None = None
    has_ended: bool | None = None
    only_roots: bool = False
    written_before_ms: int | None = None


class Erasure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Amount of content removed by an erasure.

    Attributes:
        sessions: Number of affected sessions.
        records: Number of records replaced by `erased`.
        snapshots: Number of deleted snapshots.
        blobs: Number of deleted large values: those that no other session uses.
    """

    sessions: int = 0
    records: int = 0
    snapshots: int = 0
    blobs: int = 0

    def __add__(self, other: "Erasure") -> "Erasure":
        """Return the sum of both."""
        return Erasure(
            sessions=self.sessions + other.sessions,
            records=self.records + other.records,
            snapshots=self.snapshots + other.snapshots,
            blobs=self.blobs + other.blobs,
        )


class OwedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An outstanding obligation of a process that is not part of a session, such as an undelivered message.

    Attributes:
        kind: Component that owns the row. Only this component reads the body.
        id: Unique within the kind.
        body: Content, in the component's own format.
    """

    kind: str
    id: str
    body: bytes


@runtime_checkable
class OwedStore(Protocol):
    """Optional interface of a store: keeps obligations, so that they survive the process. A `Store` need not have it.

    `change_owed` writes and follows the rules for writing calls. `owed` reads. Both may raise `StoreUnavailable`.
    """

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Store rows, replacing those of the same kind and id, and drop others, all or nothing. Idempotent.

        Args:
            put: Rows to store.
            drop: Kind and id of the rows to drop, after the `put`. Unknown rows are ignored.
        """
        ...

    def owed(self, kind: str, after: str = "", limit: int = 1000) -> tuple[OwedRow, ...]:
        """Return rows of a kind, sorted by id, starting after an id."""
        ...


class ManyTaker(Protocol):
    """Optional interface of a store: takes many trees in one transaction. Without it, trees are taken one by one.

    `take_all` looks for it on the store's class. A wrapper's `__getattr__` does not count, because it would bypass the
    wrapper's own `take`.
    """

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Make nodes the owners of trees, each as in `Store.take`. A refused tree does not affect the others.

        A writing call, with the rules of writing calls.

        Returns:
            For each tree the result of `take`, or the exception it would raise: `SessionNotFound`, `OptionError`, `HeldBy`.

        Raises:
            StoreUnavailable: The outcome of all trees is unknown. If one of them may be the cause, each is retried by itself.
        """
        ...


class Store(Protocol):
    """Keeps journals. Every call but `close` may raise `StoreUnavailable`, after which its outcome is unknown.

    Only one thread at a time may call the writing methods: `create`, `take`, `release`, `append`, `put_snapshot`, `beat`,
    `delete`, `trim`, `erase`, `overwrite_removed`. Reading methods may be called from any thread at the same time.
    """

    @property
    def is_immediate(self) -> bool:
        """Whether an append is fully durable when the call returns, and takes no time. Then no writer thread is needed."""
        ...

    def now_ms(self) -> int:
        """Return the time of the store's clock, in milliseconds since 1970."""
        ...

    def create(self, opening: Opening) -> None:
        """Create a journal. Repeating the same opening from the same node succeeds while its epoch is the newest.

        Raises:
            AlreadyExists: Your move: a journal of this scope and id exists, with other first records or another node.
            Fenced: Another owner has since taken the session over. Or its tree has another owner or none, and nothing is
                written.
            SessionNotFound: Your move: the tree that it should belong to does not exist.
        """
        ...

    def take(self, scope: str, root: SessionId, node: str, cause: Cause, *, force: bool = False) -> Taken:
        """Make a node the owner of a tree. In one transaction, each session that has not ended gets a `taken` record.

        Appends with an older epoch are refused from then on.

        Args:
            scope: Scope of the tree.
            root: Root of the tree.
            node: The new owner.
            cause: Reason of the change.
            force: Whether to fence a live owner too.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: the session is not the root of its tree. The message names the root.
            HeldBy: Another node owns it, and its lease has not expired.
        """
        ...

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """Clear the owner of a tree, if it is this node."""
        ...

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """Append records to many sessions: all or nothing for each session, and independently for each.

        Repeating the same records succeeds while their epoch is the session's newest, even if more records follow. Existing
        records change nothing, and the status stays. Appends of one session in a batch are applied in order. After a refused
        one, the rest of that session is refused.

        Returns:
            For each append None once it is durable, or the reason that it never will be. For an unknown session, `Fenced`
            after record 0.
        """
        ...

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records in order, from number `after + 1`. Damaged records are returned as they are, and the reader checks the hashes.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            Trimmed: The requested records were dropped.
        """
        ...

    def find(
        self, filters: Filters = ..., *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> tuple[StoredSession, ...]:
        """Return sessions sorted by scope and id, starting after a position. Uses an index and reads no journal."""
        ...

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """Return one session, or None if the id is unknown."""
        ...

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Store a snapshot. The last two of each session are kept. A snapshot of an unknown or erased session is ignored."""
        ...

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """Return the snapshots up to a number, newest first. They may be damaged, so the reader checks them."""
        ...

    def blob(self, digest: str) -> bytes | None:
        """Return a large value by its SHA-256, or None."""
        ...

    def beat(self, node: Node) -> None:
        """Record a node's heartbeat, with the time of the store."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that own sessions, and those with a heartbeat within the lease."""
        ...

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """Return roots of trees with open work and no live owner: no owner, or no heartbeat within the lease.

        They are sorted by scope and id, starting after a position, as in `find`.
        """
        ...

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """Return sessions without a live owner whose timer is due on the store's clock, longest overdue first.

        Live is defined as in `orphans`: a node that died took the timers of its hibernated sessions with it.

        Args:
            within_ms: How early a timer counts as due, in milliseconds.
            limit: Maximum number of sessions.
        """
        ...

    def size(self, scope: str, session: SessionId) -> int:
        """Return the size of one session in bytes: records, snapshots, and each blob that it uses, even if shared.

        Returns:
            Bytes of content, without the store's overhead, or 0 if the session does not exist.
        """
        ...

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Delete a root with its tree: records, snapshots, and unshared blobs. Their bytes are overwritten, see `overwrite_removed`.

        Args:
            scope: Scope of the tree.
            session: Root of the tree.
            written_before_ms: Delete only if the last record of each session is older than this, on the store's clock. None
                for any age. Checked inside the transaction, so that a session that wakes meanwhile stays.

        Returns:
            Number of bytes deleted.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: the session is not a root. The message names the root.
            StillNeeded: Your move: a fork depends on it, a live node owns it and it has not ended, or it was written since.
        """
        ...

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Drop the records before a number that has a snapshot.

        Returns:
            Number of records dropped.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: no intact snapshot exists at or after that number, or the number is beyond the end.
            StillNeeded: Your move: a fork depends on the records.
        """
        ...

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Erase the content of a tree, and keep the fact that it existed. Idempotent.

        Each record is replaced by its `erased_record`, so that the chain of hashes stays valid. Snapshots, unshared large
        values and the title are removed. A `closed` record of a higher epoch follows the last record (`closing_record`): the
        session has ended and has no owner, and appends with an older epoch are refused. Erased bytes are overwritten, see
        `overwrite_removed`. Forks are separate journals and stay.

        Args:
            scope: Scope of the tree.
            session: Root of the tree.
            why: Reason stored in the records. It must not repeat any content.

        Raises:
            SessionNotFound: Your move: the session does not exist.
            OptionError: Your move: the session is not a root. The message names the root.
            StillNeeded: Your move: a live node owns it, and part of it has not ended.
        """
        ...

    def overwrite_removed(self) -> bool:
        """Overwrite all erased, deleted or trimmed bytes in every file of the store. Idempotent.

        Returns:
            Whether that is done. If not, a reader prevented it and the call must be repeated, or this store never does it.
            Both cases are reported to a caller that forgets a user.
        """
        ...

    def close(self) -> None:
        """Close the store. Idempotent."""
        ...


def take_all(store: Store, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
    """Take many trees over: in one transaction if the store supports it, otherwise one by one.

    Returns, Raises: Same as `ManyTaker.take_many`.
    """
    if hasattr(type(store), "take_many"):
        return cast("ManyTaker", store).take_many(wanted)
    return tuple([_take_one(store, one) for one in wanted])


def _take_one(store: Store, one: TakeOver) -> Taken | AgentrailError:
    try:
        return store.take(one.scope, one.root, one.node, one.cause, force=one.force)
    except StoreUnavailable:
        raise
    except AgentrailError as error:
        return error
