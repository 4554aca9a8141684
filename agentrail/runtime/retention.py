"""Retention: stored sessions beyond the limits of age or size are deleted with their trees, oldest first."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final

import trio
from attrs import define, field, frozen

from agentrail.abc.living_nodes import is_first_alike
from agentrail.abc.store import Filters, Store, StoredSession
from agentrail.errors import AgentrailError, SessionNotFound, StillNeeded
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import call_guarded
from agentrail.outside import Outside
from agentrail.runtime.crashes import PortCrashed, crash_edge, decide_store_crash
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_loader import all_sessions
from agentrail.runtime.store_writer import StoreBug, bug_told

LOGGER: Final = Logger("agentrail.runtime")

FIRST_SWEEP_AFTER_SECONDS: Final = 5.0
"""Seconds before the first sweep of a supervisor: a session that is resumed at the start may be older than the limit."""

SWEEP_EVERY_SECONDS: Final = 3_600.0
"""Seconds between two sweeps."""

DAY_MS: Final = 86_400_000

_NAMED: Final = 5

_TELL_BUG: Final = bug_told("a sweep")


_TreeKey = tuple[str, SessionId]


@frozen(kw_only=True)
class KeepLimits:
    """Limits on stored sessions.

    Attributes:
        days: Days to keep a session after the last record of its tree, on the clock of the store. None for no limit.
        size_bytes: Maximum bytes of the sessions of one scope. None for no limit.
    """

    days: float | None = None
    size_bytes: int | None = None


def keep_limits_of(days: float | None, size_bytes: int | None) -> KeepLimits | None:
    return None if days is None and size_bytes is None else KeepLimits(days=days, size_bytes=size_bytes)


@frozen(kw_only=True)
class StoredTree:
    """A root with its tree, for a sweep.

    Attributes:
        written_at_ms: Time of the last record of any of its sessions, on the clock of the store.
        size_bytes: Size of its sessions. 0 if no limit depends on it.
        is_own: Whether the sweeping node owns it: it is live here.
    """

    scope: str
    root: SessionId
    written_at_ms: int
    size_bytes: int = 0
    is_own: bool = False

    @property
    def key(self) -> _TreeKey:
        return self.scope, self.root


class SweepPlan:
    """Trees to delete, oldest first. A tree that a fork needs is tried again after its forks are deleted.

    A chain of forks, each younger than its source, is deleted from its end, with two attempts for each.
    """

    def __init__(self, trees: Iterable[StoredTree], limits: KeepLimits, now_ms: int) -> None:
        self._limits = limits
        self._keep_from_ms = None if limits.days is None else now_ms - int(limits.days * DAY_MS)
        self._sizes: Counter[str] = Counter()
        self._queue: list[tuple[int, str, SessionId]] = []
        self._trees: dict[_TreeKey, StoredTree] = {}
        self._needs: dict[_TreeKey, set[str]] = {}
        self._needed_by: defaultdict[_TreeKey, list[StoredTree]] = defaultdict(list)
        for one in trees:
            self._sizes[one.scope] += one.size_bytes
            if not one.is_own:
                self._trees[one.key] = one
                self._queue.append((one.written_at_ms, one.scope, one.root))
        heapq.heapify(self._queue)

    def next(self) -> tuple[StoredTree, str] | None:
        while self._queue:
            _, scope, root = heapq.heappop(self._queue)
            one = self._trees[scope, root]
            why = self._why(one)
            if why is not None:
                return one, why
        return None

    def _why(self, one: StoredTree) -> str | None:
        if self._keep_from_ms is not None and one.written_at_ms < self._keep_from_ms:
            return f"its last record is older than keep_days={self._limits.days:g}"
        most = self._limits.size_bytes
        if most is not None and self._sizes[one.scope] > most:
            return f"its scope has {self._sizes[one.scope]} bytes, more than keep_bytes={most}, and this is its oldest session"
        return None

    def deleted(self, one: StoredTree) -> None:
        self._sizes[one.scope] -= one.size_bytes
        self._needs.pop(one.key, None)
        for other in self._needed_by.pop(one.key, ()):
            needs = self._needs.get(other.key)
            if needs is None:
                continue
            needs.discard(one.root)
            if not needs:
                del self._needs[other.key]
                heapq.heappush(self._queue, (other.written_at_ms, other.scope, other.root))

    def refused(self, one: StoredTree, by: Iterable[str]) -> None:
        """Record that a tree stays because others need it: forks or a node, or because it was written meanwhile."""
        needs = self._needs[one.key] = set(by)
        for name in sorted(needs):
            self._needed_by[one.scope, SessionId(name)].append(one)

    def needed(self) -> Mapping[_TreeKey, set[str]]:
        return self._needs

    def too_large(self) -> Iterator[tuple[str, int]]:
        most = self._limits.size_bytes
        return ((scope, size) for scope, size in self._sizes.items() if most is not None and size > most)


@define(eq=False)
class Retention:
    _store: Store
    _limits: KeepLimits
    _node: str
    _outside: Outside
    _remove: Callable[[str, SessionId, Callable[[], None]], Awaitable[None]]
    _after_removing: Callable[[], object] | None = field(default=None, kw_only=True)
    _scope: trio.CancelScope = field(init=False, factory=partial(trio.CancelScope, shield=True))
    # For sessions without an owner, by the hash of their last record: an unchanged size is measured once.
    _measured: dict[tuple[str, str], tuple[bytes, int, int]] = field(init=False, factory=dict)
    _ahead_ms: float = field(init=False, default=float("inf"))  # of the store's clock, compared with Trio's
    clearing_notes: Callable[..., AbstractAsyncContextManager[None]] = field(
        init=False, default=lambda *_: nullcontext()
    )
    deleted: int = field(init=False, default=0)
    deleted_bytes: int = field(init=False, default=0)
    still_needed: int = field(init=False, default=0)
    sweeps: int = field(init=False, default=0)

    async def run(self) -> None:
        """Sweep after some seconds and then each hour, until `stop` is called."""
        with self._scope:
            await trio.sleep(FIRST_SWEEP_AFTER_SECONDS)
            while True:
                await self.sweep()
                await trio.sleep(SWEEP_EVERY_SECONDS)

    def stop(self) -> None:
        self._scope.cancel(reason="the supervisor is closing")

    async def sweep(self) -> None:
        before = self.deleted
        try:
            look = partial(call_guarded, _TELL_BUG, self._look, trio.current_time())
            plan = await self._outside.offload(look, abandon_on_cancel=True)
            while (found := plan.next()) is not None:
                with crash_edge(decide_store_crash, AgentrailError, StoreBug, about="notes"):
                    await self._delete(plan, *found)
        except (AgentrailError, StoreBug, PortCrashed) as error:
            LOGGER.warning(
                "stored sessions could not be swept: %s; retrying in %g s", error, SWEEP_EVERY_SECONDS
            )
            return
        finally:
            if self.deleted > before and self._after_removing is not None:
                self._after_removing()
        self.sweeps += 1
        self._tell(plan)

    def _tell(self, plan: SweepPlan) -> None:
        needed = plan.needed()
        self.still_needed = len(needed)
        for (scope, root), by in sorted(needed.items())[:_NAMED]:
            needs = key_of(scope, root), ", ".join(sorted(by))
            LOGGER.info("session %s is kept for now: it is needed by %s", *needs)
        if len(needed) > _NAMED:
            LOGGER.info("and %d other sessions are kept for similar reasons", len(needed) - _NAMED)
        for scope, size in plan.too_large():
            told = "scope %r has %d bytes, and keep_bytes=%d: the remaining sessions are live or needed"
            LOGGER.info(told, scope, size, self._limits.size_bytes)

    # --- reading, in a worker thread

    def _look(self, at: float) -> SweepPlan:
        # A clock may jump ahead and be set right again. A jump since the last sweep counts from the next one.
        told_ms, at_ms = self._store.now_ms(), round(at * 1000)
        now_ms = int(min(told_ms, self._ahead_ms + at_ms))
        self._ahead_ms = told_ms - at_ms
        # One node sweeps for all that are alike. Two at once do no harm: each deletion is judged in its transaction.
        is_shared = getattr(self._store, "is_shared", False) is True
        if is_shared and not is_first_alike(self._node, self._store.nodes(), told_ms):
            return SweepPlan((), self._limits, now_ms)
        trees = self._all_trees() if self._limits.size_bytes is not None else self._old_trees(now_ms)
        return SweepPlan(trees, self._limits, now_ms)

    def _old_trees(self, now_ms: int) -> Iterator[StoredTree]:
        before = now_ms - int((self._limits.days or 0) * DAY_MS)
        for root in self._pages(Filters(only_roots=True, written_before_ms=before)):
            tree = self._pages(Filters(scope=root.scope, root=root.session))
            written_at_ms = max((one.written_at_ms for one in tree), default=root.written_at_ms)
            yield StoredTree(
                scope=root.scope,
                root=root.session,
                written_at_ms=written_at_ms,
                is_own=root.node == self._node,
            )

    def _all_trees(self) -> Iterator[StoredTree]:
        trees: dict[_TreeKey, StoredTree] = {}
        measured: dict[tuple[str, str], tuple[bytes, int, int]] = {}
        for one in self._pages(Filters()):
            size = self._size_of(one, measured)
            key = (one.scope, one.root)
            before = trees.get(key)
            trees[key] = StoredTree(
                scope=one.scope,
                root=one.root,
                written_at_ms=max(one.written_at_ms, before.written_at_ms if before else 0),
                size_bytes=size + (before.size_bytes if before else 0),
                is_own=one.node == self._node or (before is not None and before.is_own),
            )
        self._measured = measured
        return iter(trees.values())

    def _size_of(self, one: StoredSession, measured: dict[tuple[str, str], tuple[bytes, int, int]]) -> int:
        key = (one.scope, one.session)
        known = self._measured.get(key)
        if known is None or known[:2] != (one.tail.hash, one.first_seq):
            known = (one.tail.hash, one.first_seq, self._store.size(one.scope, one.session))
        if not one.node:  # while it has an owner, a snapshot may be added without a record
            measured[key] = known
        return known[2]

    def _pages(self, filters: Filters) -> Iterator[StoredSession]:
        for one in all_sessions(self._store, filters):
            self._outside.check_cancelled()
            yield one

    # --- deleting, between other writes

    async def _delete(self, plan: SweepPlan, one: StoredTree, why: str) -> None:
        try:
            async with self.clearing_notes(one.scope, one.root):
                delete = partial(call_guarded, _TELL_BUG, self._delete_now, one, why)
                await self._remove(one.scope, one.root, delete)
        except SessionNotFound:
            plan.deleted(one)  # by another node
        except StillNeeded as error:
            plan.refused(one, error.by)
        else:
            plan.deleted(one)

    def _delete_now(self, one: StoredTree, why: str) -> None:
        """Delete a tree, count it and log it, in one call: after the deletion no step may remain."""
        # A tree that woke has a `taken` record since, here as on any other node, and is refused.
        size = self._store.delete(one.scope, one.root, written_before_ms=one.written_at_ms + 1)
        self.deleted += 1
        self.deleted_bytes += size
        LOGGER.info("session %s was deleted, %d bytes: %s", key_of(one.scope, one.root), size, why)
