"""The port for what keeps journals: an ordered set of records for each session, and who may write it.

A store is called from one thread to write, and from any to read; each call blocks, and none needs a loop. Who owns a session is
decided by its journal: an append goes in where its first number is free and the record before it carries the epoch that it writes
with. Times are the store's own, never a node's. `agentrail.testing.check_store` holds an implementation to all that stands here.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from agentrail.core.journal.record import Record, Tail
from agentrail.errors import AgentrailError, Fenced, StoreUnavailable
from agentrail.messages import SessionId

Cause: TypeAlias = Literal["start", "lease_over", "gone", "drain"]
"""Why a session has a new owner: its own start, the time of the old one was over, it was gone, or it gave it up."""


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that owns sessions.

    Attributes:
        id: New at each start.
        address: Where others reach it; empty for one that they do not.
        version: Of agentrail.
        pid: Its process.
        boot: Which start of the machine; a pid means something within one only.
        seen_at_ms: When it was last heard of, on the clock of the store; 0 before it is stored.
    """

    id: str
    address: str = ""
    version: str = ""
    pid: int = 0
    boot: str = ""
    seen_at_ms: int = 0


class Standing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a session stands behind its last record, for those who look for sessions without reading journals.

    Attributes:
        is_working: Whether something is open or waits to begin, so that it is resumed by itself when its owner is gone.
        has_ended: Whether nothing follows.
        waits_for: How many approvals and questions wait for people.
        due_at_ms: When its next timer is due, on the clock of signals; None without one.
        title: What it is about, for lists; empty while it has none.
    """

    is_working: bool = False
    has_ended: bool = False
    waits_for: int = 0
    due_at_ms: int | None = None
    title: str = ""


class Opening(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The beginning of a journal.

    Attributes:
        records: The first ones, `opened` in front, from number 1, all of epoch 1; of a journal that is imported all of them, of rising
            epochs.
        root: The session on top of its tree; its own id for one without a parent.
        parent: The session above it; empty for a root.
        forked_from: The session that it was forked from, and at which number; None for none.
        node: Who owns it; empty for none, as of one that is imported.
        owner: The user it belongs to, as of `session_owner_key`; empty for none.
        standing: How it stands behind the last of them.
        blobs: Large values of the records, by their SHA-256 in hexadecimal digits.
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
    """Records that are to follow, of one session: all of them go in, or none.

    Attributes:
        records: One or more, dense, all of one epoch.
        standing: How the session stands behind the last of them.
        blobs: As of `Opening`.
    """

    records: tuple[Record, ...]
    standing: Standing = Standing()
    blobs: Mapping[str, bytes] = {}

    @property
    def scope(self) -> str:
        """The scope of the session."""
        return self.records[0].scope

    @property
    def session(self) -> SessionId:
        """The session."""
        return self.records[0].session


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a session knew behind one record: a cache of the fold, and never truth.

    Attributes:
        scope: Of the session.
        session: Whose.
        seq: Behind which record.
        hash: The hash of that record, which says whether the snapshot is of this journal.
        state: As of `encode_session`.
        check: BLAKE2b-128 over the hash and the state.
    """

    scope: str
    session: SessionId
    seq: int
    hash: bytes
    state: bytes
    check: bytes


class StoredSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a store says of a session.

    Attributes:
        scope: Of the session.
        session: Its id.
        root: The session on top of its tree.
        parent: The one above it; empty for a root.
        forked_from: Which session it was forked from, and at which number; None for none.
        node: Who owns it; empty while it has no owner.
        opened_at_ms: When it was opened, on the clock of the store.
        written_at_ms: When its last record was written, on that clock.
        first_seq: The first record that is there: 1, unless it was trimmed.
        tail: Where its journal ends.
        events: The number of its last event.
        standing: How it stands.
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
    """A tree that has a new owner.

    Attributes:
        sessions: Each session of it that has not ended, as it stands with its `taken` record, the root first; of one that had ended
            only where it is the root.
    """

    sessions: tuple[StoredSession, ...]


class TakeOver(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tree that is to have a new owner; as of `Store.take`.

    Attributes:
        scope: Of the tree.
        root: Its root.
        node: Who takes it.
        cause: Why.
        force: Whether a living owner is fenced too.
    """

    scope: str
    root: SessionId
    node: str
    cause: Cause
    force: bool = False


class Filters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which sessions are looked for; None means any.

    Attributes:
        scope: Of this scope.
        root: Of this tree.
        owner: Of this user, as of `session_owner_key`; empty for those of no user. What was erased has no user.
        node: Owned by this node; empty for those without an owner.
        is_working: Working, or not.
        has_ended: Ended, or not.
        only_roots: Without the sessions below others.
        written_before_ms: Whose last record is older, on the clock of the store.
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
    """What was removed of journals whose content is not to be kept any more.

    Attributes:
        sessions: How many sessions that concerned.
        records: How many records have `erased` in their place.
        snapshots: How many snapshots were dropped.
        blobs: How many large values were dropped: those that no other session has.
    """

    sessions: int = 0
    records: int = 0
    snapshots: int = 0
    blobs: int = 0

    def __add__(self, other: "Erasure") -> "Erasure":
        """Add up what was removed of both."""
        return Erasure(
            sessions=self.sessions + other.sessions,
            records=self.records + other.records,
            snapshots=self.snapshots + other.snapshots,
            blobs=self.blobs + other.blobs,
        )


class OwedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a process owes to others beside its sessions, such as a message that no receiver has taken yet.

    Attributes:
        kind: Which part of the program owes it: that one alone reads the body.
        id: Unlike all others of its kind.
        body: What is owed, in a form of that part's own.
    """

    kind: str
    id: str
    body: bytes


@runtime_checkable
class OwedStore(Protocol):
    """What a store may do besides: keep what is owed, so that it outlives the process. One without it is a `Store` all the same.

    `change_owed` writes, and is called as what writes there; `owed` reads. Both may raise `StoreUnavailable`.
    """

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Keep rows, each in place of the one of its kind and id, and drop others: all of it, or nothing. Again is fine.

        Args:
            put: What is owed from now on.
            drop: Kind and id of what is owed no longer; fine for what is not there. It is done behind `put`.
        """
        ...

    def owed(self, kind: str, after: str = "", limit: int = 1000) -> tuple[OwedRow, ...]:
        """Give rows of a kind in the order of their ids, from behind one."""
        ...


class ManyTaker(Protocol):
    """What a store may do besides: take many trees in one transaction. One without it is a `Store` all the same, and takes them one by one.

    It is looked for in the class of the store (`take_all`): what a wrapper passes on by `__getattr__` goes past what it does in its own
    `take`, so it does not count.
    """

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Make nodes the owners of trees, each as `Store.take` does, and each by itself: one that is refused keeps no other from it.

        It writes, and is called as what writes there.

        Returns:
            For each tree what `take` returns, or what it raises: `SessionNotFound`, `OptionError`, `HeldBy`.

        Raises:
            StoreUnavailable: Nothing is known of any of them. Where one of them may be the reason, each is tried by itself.
        """
        ...


class Store(Protocol):
    """Keeps journals. Every call but `close` may raise `StoreUnavailable`; then nothing is known of what it did.

    One thread at a time calls what writes: `create`, `take`, `release`, `append`, `put_snapshot`, `beat`, `delete`, `trim`, `erase`,
    `overwrite_removed`. What reads may be called from any thread beside it.
    """

    @property
    def is_immediate(self) -> bool:
        """Whether an append is as durable as it ever gets when the call returns, and takes no time: then no writer is needed."""
        ...

    def now_ms(self) -> int:
        """Read the store's clock: milliseconds since 1970."""
        ...

    def create(self, opening: Opening) -> None:
        """Begin a journal. The same opening again, by the same node, is fine while its epoch is the newest.

        Raises:
            AlreadyExists: Your move: there is one of this scope and id, and its first records are others, or another node's.
            Fenced: Another owner has taken the session over since; or the tree that it is to belong to has another owner than
                its node, or none, and then nothing is written.
            SessionNotFound: Your move: it is to belong to a tree that is not there.
        """
        ...

    def take(self, scope: str, root: SessionId, node: str, cause: Cause, *, force: bool = False) -> Taken:
        """Make a node the owner of a tree: a `taken` record in each of its sessions that have not ended, in one transaction.

        An append with an older epoch is refused from here on.

        Args:
            scope: Of the tree.
            root: Its root.
            node: Who takes it.
            cause: Why.
            force: Whether a living owner is fenced too.

        Raises:
            SessionNotFound: Your move: there is no such session.
            OptionError: Your move: it is not the root of its tree; the message names that.
            HeldBy: Another node owns it, and was seen within the lease.
        """
        ...

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """Let a tree have no owner, if this node is it."""
        ...

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """Write records of many sessions: for each session all or nothing, and no session depends on another.

        The same records again are fine while their epoch is the newest of their session, also with more behind them; what is there
        already changes nothing, and leaves the standing as it is. Appends of one session in one batch are taken in order; where one
        is refused those behind it are.

        Returns:
            For each append None when it is durable, or why it never will be; of a session that is not there, `Fenced` behind 0.
        """
        ...

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Give records in order, from number `after + 1`; what is damaged stands there as it is, and who reads looks at the hashes.

        Raises:
            SessionNotFound: Your move: there is no such session.
            Trimmed: What was asked for is not there any more.
        """
        ...

    def find(
        self, filters: Filters = ..., *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> tuple[StoredSession, ...]:
        """Give sessions in the order of their scopes and ids, from behind a place in it. By index; no journal is read."""
        ...

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """Give one session; None where there is none of this id."""
        ...

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Keep a snapshot. Of each session the last two are kept; one of a session that is not there, or was erased, is ignored."""
        ...

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """Give what snapshots there are up to a number, the newest first; they may be damaged, and who reads looks."""
        ...

    def blob(self, digest: str) -> bytes | None:
        """Give a large value by its SHA-256; None where there is none."""
        ...

    def beat(self, node: Node) -> None:
        """Say that a node is alive; it is kept with the time of the store."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """Give the nodes that were heard of and own something, or were heard of within the lease."""
        ...

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """Give roots of trees in which something is working and whose owner is gone: none, or one not heard of within the lease.

        They come in the order of their scopes and ids, from behind a place in it, as of `find`.
        """
        ...

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """Give sessions whose timer is due on the store's own clock, and whose owner is gone; those due longest first.

        Gone as in `orphans`: a node that died took the timers of its sleeping sessions with it.

        Args:
            within_ms: How much sooner than its time a timer counts as due.
            limit: How many at most.
        """
        ...

    def size(self, scope: str, session: SessionId) -> int:
        """Say how many bytes one session alone has: records, snapshots, and each blob that it names, also where others have it too.

        Returns:
            Bytes of content, without what the store needs besides; 0 where there is no such session.
        """
        ...

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Remove a root with its tree: records, snapshots, and blobs that no other has. What stood there is overwritten; see `overwrite_removed`.

        Args:
            scope: Of the tree.
            session: Its root.
            written_before_ms: Only where the last record of each of its sessions is older, on the clock of the store; None for whenever
                that was. It is looked at in the transaction that deletes: what wakes meanwhile stays.

        Returns:
            How many bytes that were.

        Raises:
            SessionNotFound: Your move: there is none.
            OptionError: Your move: it is no root; the message names that.
            StillNeeded: Your move: a fork needs it, or a node owns it that was heard of within the lease, and something of it has
                not ended; or it was written since.
        """
        ...

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Drop records before a number, of which there must be a snapshot.

        Returns:
            How many records that were.

        Raises:
            SessionNotFound: Your move: there is none.
            OptionError: Your move: no sound snapshot stands at that number or behind it; or it is beyond the end.
            StillNeeded: Your move: a fork needs what would be dropped.
        """
        ...

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Remove what was said in a tree, and keep that there was something: again is fine.

        In place of each record stands what `erased_record` makes of it, so the chain of hashes goes on. Snapshots go, large values that no
        other session has, and the title. Behind the last record stands a `closed` one of a higher epoch (`closing_record`): the session
        has ended, has no owner, and a process that appends with an older epoch is refused. What stood there is overwritten; see
        `overwrite_removed`. Forks are journals of their own, and stay.

        Args:
            scope: Of the tree.
            session: Its root.
            why: What the records say of it; no content.

        Raises:
            SessionNotFound: Your move: there is none.
            OptionError: Your move: it is no root; the message names that.
            StillNeeded: Your move: a node owns it that was heard of within the lease, and something of it has not ended.
        """
        ...

    def overwrite_removed(self) -> bool:
        """See to it that nothing of what was erased, deleted or trimmed stands in any file of the store. Again is fine.

        Returns:
            Whether that is done. Else a reader stood in the way, and it is to be called again; or this store never does it. Who forgets a
            user is told of either.
        """
        ...

    def close(self) -> None:
        """Let go of the store; again if you like."""
        ...


def take_all(store: Store, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
    """Take many trees: at once where the store can, else one by one.

    Returns, Raises: As of `ManyTaker.take_many`.
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
