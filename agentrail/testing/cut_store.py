"""`CutStore`: any store behind a connection that is cut, before a call took effect or after it. No other fault enters."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from agentrail.abc.store import (
    Append,
    Cause,
    Erasure,
    Filters,
    Node,
    Opening,
    OwedRow,
    OwedStore,
    Store,
    StoredSession,
    StoredSnapshot,
    Taken,
    TakeOver,
    take_all,
)
from agentrail.core.journal.record import Record
from agentrail.core.values.offered import offers
from agentrail.errors import AgentrailError, Fenced, StoreUnavailable
from agentrail.messages import SessionId

A = TypeVar("A")

Cut: TypeAlias = Literal["before", "after"]
"""Whether a call is lost on its way, or its answer is."""

DecideCut: TypeAlias = Callable[[str], Cut | None]
"""Told the name of a call, says whether it is cut."""


class CutStore:
    """Hands each call on, and raises `StoreUnavailable` where it is told to: the caller cannot tell which of both it was."""

    def __init__(self, store: Store, decide: DecideCut) -> None:
        """Stand in front of a store.

        Args:
            store: Which one.
            decide: Asked once for each call but `is_immediate` and `close`.
        """
        self._store = store
        self._decide = decide

    @property
    def is_immediate(self) -> bool:
        """As the store behind it; what is cut is retried, so a test may want to hide it."""
        return self._store.is_immediate

    def _cut(self, name: str, call: Callable[[], A]) -> A:
        cut = self._decide(name)
        if cut is None:
            return call()
        if cut == "after":
            call()
        message = f"the connection was cut in {name}"
        raise StoreUnavailable(message)

    def now_ms(self) -> int:
        """As `Store.now_ms`."""
        return self._cut("now_ms", self._store.now_ms)

    def create(self, opening: Opening) -> None:
        """As `Store.create`."""
        self._cut("create", lambda: self._store.create(opening))

    def take(self, scope: str, root: SessionId, node: str, cause: Cause, *, force: bool = False) -> Taken:
        """As `Store.take`."""
        return self._cut("take", lambda: self._store.take(scope, root, node, cause, force=force))

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """As `ManyTaker.take_many`, also in front of a store that takes trees one by one."""
        return self._cut("take_many", lambda: take_all(self._store, wanted))

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """As `Store.release`."""
        self._cut("release", lambda: self._store.release(node, scope, root))

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """As `Store.append`."""
        return self._cut("append", lambda: self._store.append(batch))

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """As `Store.read`."""
        return self._cut("read", lambda: self._store.read(scope, session, after, limit))

    def find(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> tuple[StoredSession, ...]:
        """As `Store.find`."""
        return self._cut("find", lambda: self._store.find(filters, after=after, limit=limit))

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """As `Store.get`."""
        return self._cut("get", lambda: self._store.get(scope, session))

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """As `Store.put_snapshot`."""
        self._cut("put_snapshot", lambda: self._store.put_snapshot(snapshot))

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """As `Store.snapshots`."""
        return self._cut("snapshots", lambda: self._store.snapshots(scope, session, at_most))

    def blob(self, digest: str) -> bytes | None:
        """As `Store.blob`."""
        return self._cut("blob", lambda: self._store.blob(digest))

    def beat(self, node: Node) -> None:
        """As `Store.beat`."""
        self._cut("beat", lambda: self._store.beat(node))

    def nodes(self) -> tuple[Node, ...]:
        """As `Store.nodes`."""
        return self._cut("nodes", self._store.nodes)

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """As `Store.orphans`."""
        return self._cut("orphans", lambda: self._store.orphans(limit, after=after))

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """As `Store.due`."""
        return self._cut("due", lambda: self._store.due(within_ms, limit))

    def size(self, scope: str, session: SessionId) -> int:
        """As `Store.size`."""
        return self._cut("size", lambda: self._store.size(scope, session))

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """As `Store.delete`."""
        return self._cut(
            "delete", lambda: self._store.delete(scope, session, written_before_ms=written_before_ms)
        )

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """As `Store.trim`."""
        return self._cut("trim", lambda: self._store.trim(scope, session, before))

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """As `Store.erase`."""
        return self._cut("erase", lambda: self._store.erase(scope, session, why))

    def overwrite_removed(self) -> bool:
        """As `Store.overwrite_removed`."""
        return self._cut("overwrite_removed", self._store.overwrite_removed)

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """As `OwedStore.change_owed`."""
        store = self._owing()
        self._cut("change_owed", lambda: store.change_owed(put, drop))

    def owed(self, kind: str, after: str = "", limit: int = 1000) -> tuple[OwedRow, ...]:
        """As `OwedStore.owed`."""
        store = self._owing()
        return self._cut("owed", lambda: store.owed(kind, after, limit))

    def _owing(self) -> OwedStore:
        assert offers(self._store, OwedStore), "this store keeps nothing that is owed"
        return self._store

    def close(self) -> None:
        """As `Store.close`; it is never cut."""
        self._store.close()
