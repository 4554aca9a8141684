"""Stores that fail on request: with a connection that is cut, or hanging, slow, unreachable, crashing."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

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
from agentrail.core.values.port_members import offers
from agentrail.errors import AgentrailError, Fenced, StoreUnavailable
from agentrail.messages import SessionId

# `CutStore`: a store with a connection that is cut, before a call took effect or after it.

A = TypeVar("A")

Cut: TypeAlias = Literal["before", "after"]
"""Whether the call is lost, or its answer."""

DecideCut: TypeAlias = Callable[[str], Cut | None]
"""Receives the name of a call, and returns whether it is cut."""


class CutStore:
    """Passes each call on, and raises `StoreUnavailable` on request: the caller cannot tell whether call or answer was lost."""

    def __init__(self, store: Store, decide: DecideCut) -> None:
        """Wrap a store.

        Args:
            store: The store.
            decide: Called once for each call except `is_immediate` and `close`.
        """
        self._store = store
        self._decide = decide

    @property
    def is_immediate(self) -> bool:
        """The same as in the wrapped store. Cut calls are retried, so a test may want to hide it."""
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
        """Call `Store.now_ms`."""
        return self._cut("now_ms", self._store.now_ms)

    def create(self, opening: Opening) -> None:
        """Call `Store.create`."""
        self._cut("create", lambda: self._store.create(opening))

    def take(self, scope: str, root: SessionId, node: str, cause: Cause, *, force: bool = False) -> Taken:
        """Call `Store.take`."""
        return self._cut("take", lambda: self._store.take(scope, root, node, cause, force=force))

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Call `ManyTaker.take_many`, or take the trees one by one if the store has no such method."""
        return self._cut("take_many", lambda: take_all(self._store, wanted))

    def release(self, node: str, scope: str, root: SessionId) -> None:
        """Call `Store.release`."""
        self._cut("release", lambda: self._store.release(node, scope, root))

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """Call `Store.append`."""
        return self._cut("append", lambda: self._store.append(batch))

    def read(self, scope: str, session: SessionId, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Call `Store.read`."""
        return self._cut("read", lambda: self._store.read(scope, session, after, limit))

    def find(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> tuple[StoredSession, ...]:
        """Call `Store.find`."""
        return self._cut("find", lambda: self._store.find(filters, after=after, limit=limit))

    def get(self, scope: str, session: SessionId) -> StoredSession | None:
        """Call `Store.get`."""
        return self._cut("get", lambda: self._store.get(scope, session))

    def put_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Call `Store.put_snapshot`."""
        self._cut("put_snapshot", lambda: self._store.put_snapshot(snapshot))

    def snapshots(
        self, scope: str, session: SessionId, at_most: int | None = None
    ) -> tuple[StoredSnapshot, ...]:
        """Call `Store.snapshots`."""
        return self._cut("snapshots", lambda: self._store.snapshots(scope, session, at_most))

    def blob(self, digest: str) -> bytes | None:
        """Call `Store.blob`."""
        return self._cut("blob", lambda: self._store.blob(digest))

    def beat(self, node: Node) -> None:
        """Call `Store.beat`."""
        self._cut("beat", lambda: self._store.beat(node))

    def nodes(self) -> tuple[Node, ...]:
        """Call `Store.nodes`."""
        return self._cut("nodes", self._store.nodes)

    def orphans(self, limit: int = 100, *, after: tuple[str, str] | None = None) -> tuple[StoredSession, ...]:
        """Call `Store.orphans`."""
        return self._cut("orphans", lambda: self._store.orphans(limit, after=after))

    def due(self, within_ms: int = 0, limit: int = 100) -> tuple[StoredSession, ...]:
        """Call `Store.due`."""
        return self._cut("due", lambda: self._store.due(within_ms, limit))

    def size(self, scope: str, session: SessionId) -> int:
        """Call `Store.size`."""
        return self._cut("size", lambda: self._store.size(scope, session))

    def delete(self, scope: str, session: SessionId, *, written_before_ms: int | None = None) -> int:
        """Call `Store.delete`."""
        return self._cut(
            "delete", lambda: self._store.delete(scope, session, written_before_ms=written_before_ms)
        )

    def trim(self, scope: str, session: SessionId, before: int) -> int:
        """Call `Store.trim`."""
        return self._cut("trim", lambda: self._store.trim(scope, session, before))

    def erase(self, scope: str, session: SessionId, why: str) -> Erasure:
        """Call `Store.erase`."""
        return self._cut("erase", lambda: self._store.erase(scope, session, why))

    def overwrite_removed(self) -> bool:
        """Call `Store.overwrite_removed`."""
        return self._cut("overwrite_removed", self._store.overwrite_removed)

    def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Call `OwedStore.change_owed`."""
        store = self._owing()
        self._cut("change_owed", lambda: store.change_owed(put, drop))

    def owed(self, kind: str, after: str = "", limit: int = 1000) -> tuple[OwedRow, ...]:
        """Call `OwedStore.owed`."""
        store = self._owing()
        return self._cut("owed", lambda: store.owed(kind, after, limit))

    def _owing(self) -> OwedStore:
        assert offers(self._store, OwedStore), "this store keeps nothing that is owed"
        return self._store

    def close(self) -> None:
        """Call `Store.close`, which is never cut."""
        self._store.close()


Fault: TypeAlias = Literal["none", "hang", "away", "answer_lost", "bug"]


class FaultyStore:
    """A store with faults on request. Its sessions treat it as a slow store, whatever the inner store is.

        store = FaultyStore(MemoryStore())
        store.hang()  # every later call waits, in its thread
        store.mend()  # and continues

    Attributes:
        inner: The wrapped store.
        delay_seconds: Additional time of each call that writes.
        calls: Names of the started calls that write, in order.
    """

    is_immediate: bool = False

    def __init__(self, inner: Store) -> None:
        """Create a store without a fault."""
        self.inner: Store = inner
        self.delay_seconds: float = 0.0
        self.calls: list[str] = []
        self._fault: Fault = "none"
        self._said = "the disk is full"
        self._open = threading.Event()
        self._open.set()

    # --- faults

    def hang(self) -> None:
        """Make each call that writes wait until `mend`."""
        self._open.clear()

    def go_away(self, said: str = "the disk is full") -> None:
        """Make each call that writes raise `StoreUnavailable` without an effect."""
        self._fault, self._said = "away", said

    def lose_answers(self) -> None:
        """Make each call that writes take effect, and then raise `StoreUnavailable`: its outcome is unknown to the caller."""
        self._fault = "answer_lost"

    def crash(self) -> None:
        """Make each call that writes raise an exception that no store may raise."""
        self._fault = "bug"

    def mend(self) -> None:
        """Remove the fault. Hanging calls continue."""
        self._fault = "none"
        self._open.set()

    # --- operations of the store

    def append(self, batch: Sequence[Append]) -> tuple[Fenced | None, ...]:
        """Write records; see `Store.append`."""
        answers: tuple[Fenced | None, ...] = self._write("append", batch)
        return answers

    def take_many(self, wanted: Sequence[TakeOver]) -> tuple[Taken | AgentrailError, ...]:
        """Take many trees, also from a store that takes them one by one; see `ManyTaker.take_many`."""
        answers: tuple[Taken | AgentrailError, ...] = self._write("take_many", wanted)
        return answers

    def __getattr__(self, name: str) -> Any:
        """Return any other method of the store. Writing methods have the fault, reading methods do not."""
        if name not in _WRITING:
            return getattr(self.inner, name)

        def write(*args: Any, **options: Any) -> Any:
            return self._write(name, *args, **options)

        return write

    def close(self) -> None:
        """Close the store, with or without faults."""
        self.inner.close()

    def _write(self, name: str, *args: Any, **options: Any) -> Any:
        self.calls.append(name)
        self._open.wait()
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        if self._fault == "away":
            raise StoreUnavailable(self._said)
        if self._fault == "bug":
            message = "a bug in the store"
            raise ZeroDivisionError(message)
        call = partial(take_all, self.inner) if name == "take_many" else getattr(self.inner, name)
        value = call(*args, **options)
        if self._fault == "answer_lost":
            message = "the connection was cut"
            raise StoreUnavailable(message)
        return value


_WRITING = frozenset(
    "create take release put_snapshot beat delete trim erase overwrite_removed change_owed".split()  # noqa: SIM905 - as a list it would fill a page
)
