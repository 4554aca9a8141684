"""Persistence of a supervisor's sessions: the writer, the node, and the start of journals."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import trio
from attrs import frozen

from agentrail.abc.store import (
    JOURNAL_BEHIND,
    NODE_LEASE_SECONDS,
    Cause,
    Filters,
    Node,
    Opening,
    OwedRow,
    OwedStore,
    Standing,
    Store,
    StoredSession,
    Taken,
    TakeOver,
    owed_row,
)
from agentrail.core.journal.record import CODEC, Record, Tail, codec_of, sealed, split_draft
from agentrail.core.journal.recorder import opened_draft
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.core.protocol.signals import ChangeTools, Recovered
from agentrail.core.values.port_members import offers
from agentrail.distribution import NAME
from agentrail.errors import (
    AgentrailError,
    CodecError,
    JournalBehind,
    OptionError,
    StillNeeded,
    StoreUnavailable,
    YourMove,
)
from agentrail.logs import Logger
from agentrail.messages import SessionId
from agentrail.orphaned_processes import ProcessList, end_left_processes, keep_list, list_beside
from agentrail.outside import current
from agentrail.runtime.event_history import PastEvents
from agentrail.runtime.journal_events import OldEvents
from agentrail.runtime.node_heartbeat import NodeHeartbeat, fault_of_address
from agentrail.runtime.overwriter import Overwriter
from agentrail.runtime.retention import KeepLimits, Retention
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_journal import SessionJournal
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.store_summary import stored_standing
from agentrail.runtime.store_writer import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Writer
from agentrail.runtime.trust import SAFE_LEASE_SECONDS, NodeSilence, beat_seconds, is_living, silent_nodes
from agentrail.runtime.witness import Witness

LOGGER: Final = Logger("agentrail.runtime")

T = TypeVar("T")

OnDrift: TypeAlias = Literal["park", "go_on"]
"""What happens to a stored session that the code here folds to different operations. It stays unchanged until an operator decides,
or continues with the state of the newer code.
"""

Durability: TypeAlias = Literal["grouped", "strict"]
"""Order of a step's record and its effects. `grouped`: a request to a model may leave before its record, and records that no caller and no tool
waits for share a commit within 5 ms. `strict`: each effect waits for its own record.
"""

STORE_PATIENCE_SECONDS: Final = 5.0
"""Seconds that a commit may take before the store counts as unavailable."""

_READ_SECONDS: Final = 30.0
"""Seconds that a read may take. More than a commit, since it may have to look at a long journal."""

_MAX_OTHERS: Final = 40
"""Maximum number of threads that use the store at once, apart from its writer and from folds."""


class _Unheard:
    def written(self, up_to: int) -> None: ...

    def refused(self, error: AgentrailError) -> None:
        """Do nothing: another owner has it."""

    def kept_waiting(self) -> None: ...

    def standing(self) -> Standing:
        return Standing(has_ended=True)


_CHECK_EVERY_SECONDS: Final = 1.0

MAX_FOLDS: Final = 4
"""How many journals are folded at a time for readers: each takes a thread and a processor."""


def _engine() -> str:
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:  # run from a folder that was never installed
        return ""


ENGINE: Final = _engine()
"""Version of agentrail, for records and nodes."""


def has_other_nodes(store: object) -> bool:
    """Whether processes of several machines write to a store, of sessions or of memories. Stores that do not say so have one writer."""
    return getattr(store, "is_shared", False) is True


@frozen(kw_only=True)
class DurabilityOptions:
    """How a store keeps sessions.

    Attributes:
        patience: Seconds that the store may take for a commit before it counts as unavailable.
        on_drift: For a stored session that the code here folds to different operations: leave it unchanged (`park`), or
            continue.
        durability: Whether requests to models may leave before their record (`grouped`), or not (`strict`).
        keep: Limits on age and size of stored sessions. None to keep all.
        advertise: Address under which other nodes of a shared store reach this one, empty if it accepts no calls.
        lease: Seconds after its last heartbeat after which other nodes may take the sessions of a node, the same for all nodes.
        state_directory: Local directory in which a later process finds out whether this node of a shared store has ended. None for none.
    """

    patience: float = STORE_PATIENCE_SECONDS
    on_drift: OnDrift = "park"
    durability: Durability = "grouped"
    keep: KeepLimits | None = None
    advertise: str = ""
    lease: float = NODE_LEASE_SECONDS
    state_directory: Path | None = None


class Keeping:
    """A store, and the services that keep sessions in it.

    Attributes:
        node: Owner of the sessions started here. New at each start.
        max_of_owner: Sessions that a user may have over all nodes of a shared store that have not ended. None for no limit.
        heartbeat: Heartbeats and trust of this node over a shared store. None for a store of one process.
    """

    def __init__(self, store: Store, options: DurabilityOptions) -> None:
        self._outside = current()
        self.store: Store = store
        self.on_drift: OnDrift = options.on_drift
        self.writer: Writer = Writer(store, patience_seconds=options.patience, outside=self._outside)
        self.max_of_owner: int | None = None
        self._processes: ProcessList | None = None
        self._folds = trio.CapacityLimiter(MAX_FOLDS)
        # Not the shared threads, which would all wait for a store that hangs.
        self._others = trio.CapacityLimiter(_MAX_OTHERS)
        self.past_events: PastEvents = PastEvents(store)
        self._old_events = OldEvents(store, self._outside, self._folds, options.patience)
        self.node: Node = Node(
            id=f"n-{self._outside.ids(8)}",
            address=options.advertise,
            version=ENGINE,
            codec=CODEC,
            lease_ms=round(options.lease * 1000),
        )
        self.heartbeat: NodeHeartbeat | None = (
            NodeHeartbeat(self.node, store, self.writer, self.read, self._outside)
            if has_other_nodes(store)
            else None
        )
        # Only an answered append shows an owner of a shared store that it still is one, so there no request leaves before.
        self._is_grouped = (
            options.durability == "grouped" and self.heartbeat is None and not store.is_immediate
        )
        self._beat_seconds = beat_seconds(options.lease)
        self._state_directory = options.state_directory
        self._witness: Witness | None = None
        self._was_reported = False
        self.overwriter: Overwriter = Overwriter(store, self.write)
        self.retention: Retention | None = (
            None
            if options.keep is None
            else Retention(
                store,
                options.keep,
                self.node.id,
                self._outside,
                self.remove,
                after_removing=self.overwriter.after_sweep if self.heartbeat is None else None,
            )
        )
        self.silence: NodeSilence = NodeSilence(lease_seconds=options.lease)
        self._vain: dict[tuple[str, SessionId], list[Record]] = {}
        self._checked_at = float("-inf")

    async def open(self, nursery: trio.Nursery) -> None:
        """Register this node as alive, and start writing, in tasks of a nursery that outlives all sessions.

        With a store in a file, processes left behind by a crashed run are ended, and those of this run are recorded.
        """
        path = getattr(self.store, "path", None)
        if isinstance(path, Path):
            await self.read(partial(end_left_processes, path))
            self._processes = list_beside(path, self.node.id)
            keep_list(self._processes)
        if self.heartbeat is not None:
            await self._open_shared(nursery, self.heartbeat)
        else:
            await self.read(partial(self.store.beat, self.node))
            nursery.start_soon(self.writer.run, name="writer of the store")
            nursery.start_soon(self._beat_on, name="beats of the node")
        if not self.store.is_immediate and self.heartbeat is None:  # otherwise nothing can be overwritten
            nursery.start_soon(self.overwriter.run, name="overwriting in the store")

    async def _open_shared(self, nursery: trio.Nursery, heartbeat: NodeHeartbeat) -> None:
        if self.node.lease_ms < SAFE_LEASE_SECONDS * 1000:
            told = "the lease is %g s: a third of it is the margin for pauses of this process, so use %g s or more"
            LOGGER.warning(told, self.node.lease_ms / 1000, SAFE_LEASE_SECONDS)
        nursery.start_soon(self.writer.run, name="writer of the store")
        if self._state_directory is not None:
            # First end what earlier processes of this machine left, then report them: others take their sessions at once.
            self._witness = Witness(self._state_directory, self.node.id)
            ended = await self.read(self._witness.find_ended)
            for node in ended:
                await self.write(partial(self.store.gone, node))
            await self.read(partial(self._witness.forget, ended))
            await self.read(self._witness.open)
            self._processes = self._witness.processes
            keep_list(self._processes)
        if self.node.address:
            others, now = await self.read(self.store.nodes), await self.read(self.store.now_ms)
            fault = fault_of_address(self.node, others, now)
            if fault is not None:
                raise OptionError([fault])
        await heartbeat.beat()
        heartbeat.check()
        nursery.start_soon(heartbeat.run, name="heartbeats of the node")

    def forget_processes(self) -> None:
        if self._processes is not None:
            self._processes.close()
        if self._witness is not None:
            self._witness.close(was_reported=self._was_reported)

    async def close(self) -> None:
        self._old_events.is_closed = True
        await self.writer.wait_empty()
        if self.heartbeat is not None:  # its sessions were released
            await self.heartbeat.stop()
            with suppress(StoreUnavailable):
                await self.write(partial(self.store.gone, self.node.id))
                self._was_reported = True
        if not self.store.is_immediate and self.heartbeat is None:
            await self.overwriter.finish()

    async def begin(self, cell: SessionCell, *, forked_from: tuple[SessionId, int] | None = None) -> None:
        """Begin the journal of a session, and return when that is durable.

        Cancellation: Nothing was begun. Data that the store may have is deleted.
        """
        opening, tail = self._opening_of(cell, forked_from)
        await self._create(opening)
        self.keep(cell, tail)

    def keep(
        self,
        cell: SessionCell,
        tail: Tail,
        *,
        first: Recovered | None = None,
        snapshot: int = 0,
        tool_change: ChangeTools | None = None,
    ) -> None:
        cell.journal = SessionJournal(
            cell.state,
            tail,
            self.writer,
            cell.mailbox,
            cell,
            first=first,
            snapshot=snapshot,
            tool_change=tool_change,
            old_events=self._old_events,
            scrub=cell.scrub,
            guard=self.heartbeat,
            is_grouped=self._is_grouped,
        )

    def close_journal(self, records: Sequence[Record]) -> None:
        self.writer.put(_Unheard(), records)

    async def write(self, function: Callable[[], T]) -> T:
        return function() if self.store.is_immediate else await self.writer.call(function)

    async def remove(self, scope: str, root: SessionId, function: Callable[[], T]) -> T:
        """Make a call that deletes or erases a tree, after all earlier calls. Over a shared store, appends continue meanwhile.

        Raises:
            StillNeeded: It belongs to another node, which this one has not seen silent for a lease. The store's clock alone may be wrong.
        """
        if self.heartbeat is None:
            return await self.write(function)
        is_watching, silent = self.silence.looked_at is not None, silent_nodes(self.silence)

        def remove_left() -> T:
            row = self.store.get(scope, root) if is_watching else None
            if row is not None and row.node != self.node.id and not row.standing.has_ended:
                for one in self.store.nodes():
                    if one.id == row.node and is_living(one) and silent.get(one.id) != one.seen_at_ms:
                        raise StillNeeded(root, by=[f"node {one.id}"])
            return function()

        await self.write(lambda: None)
        return await self._carry(remove_left)

    async def take(
        self, scope: str, root: SessionId, cause: Cause, *, force: bool = False, tail: Tail | None = None
    ) -> Taken:
        """Make this node the owner of a tree. Concurrent requests are combined in one call of the store."""
        silent = None if self.heartbeat is None else silent_nodes(self.silence)
        if self.store.is_immediate:
            return self.store.take(scope, root, self.node.id, cause, force=force, silent=silent, tail=tail)
        wanted = TakeOver(
            scope=scope,
            root=root,
            node=self.node.id,
            cause=cause,
            force=force,
            silent=silent,
            tail=tail,
        )
        return await self.writer.take(wanted)

    def give_back(self, scope: str, root: SessionId) -> None:
        """Release the ownership of a tree, after all earlier calls of the store. Does nothing if this node is not the owner."""
        self.writer.repeat(scope, root, partial(self.store.release, self.node.id, scope, root))

    async def read(self, function: Callable[[], T]) -> T:
        """Run a function that reads the store where it may block.

        Raises:
            StoreUnavailable: It did not answer.
        """
        seconds = _READ_SECONDS if self.writer.is_available else self.writer.patience_seconds
        with trio.move_on_after(seconds):
            return await self._carry(function)
        message = f"the store did not answer within {seconds:g} s: try again later"
        raise StoreUnavailable(message)

    async def _carry(self, function: Callable[[], T]) -> T:
        if self.store.is_immediate:
            return function()
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._others)

    async def fold(self, function: Callable[[], T]) -> T:
        """Run a function that reads and folds a journal in a worker thread, a few at a time."""
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._folds)

    def leave(self, cell: SessionCell) -> None:
        journal = cell.journal
        if journal is not None and isinstance(journal.refusal, JournalBehind):
            if offers(self.store, OwedStore):
                body = f"{journal.refusal.have} {journal.refusal.acknowledged}".encode()
                row = OwedRow(kind=JOURNAL_BEHIND, id=cell.ports.key, body=body)
                self.writer.repeat(JOURNAL_BEHIND, cell.ports.key, partial(self.store.change_owed, (row,)))
            return  # not released, or the next look would continue it without the lost records
        if journal is not None and cell.rested is not None:
            journal.put_last_snapshot(cell.state)
        elif journal is not None and cell.is_leaving:
            journal.put_snapshot(cell.state)
        config = cell.state.data.config
        if len(config.path) == 1:
            self.give_back(config.scope, config.session_id)

    def behind_of(self, stored: StoredSession) -> JournalBehind | None:
        """Return the loss of acknowledged records that any node or a salvage noted for a session, or None. Blocks."""
        if not offers(self.store, OwedStore):
            return None
        row = owed_row(self.store, JOURNAL_BEHIND, key_of(stored.scope, stored.session))
        if row is None:
            return None
        have: int = stored.tail.seq
        acknowledged: int | None = None
        with suppress(ValueError):  # an empty or damaged row: it is unknown how many records are lost
            have, acknowledged = map(int, row.body.split())
        return JournalBehind(stored.session, have=have, acknowledged=acknowledged)

    def forget_behind(self, scope: str, session_id: SessionId) -> None:
        if offers(self.store, OwedStore):
            key = key_of(scope, session_id)
            self.writer.repeat(JOURNAL_BEHIND, key, partial(_drop_behind, self.store, key))

    def _opening_of(
        self, cell: SessionCell, forked_from: tuple[SessionId, int] | None
    ) -> tuple[Opening, Tail]:
        config = cell.state.data.config
        path = config.path
        try:
            draft = opened_draft(
                cell.state,
                at_ms=now_ms(),
                engine=ENGINE,
                parent=path[-2] if len(path) > 1 else "",
                forked_from=forked_from,
                node=self.node.id,
            )
        except CodecError as error:
            fault = f"session {config.session_id!r} cannot be stored: {error}"
            raise OptionError([fault]) from None
        draft, blobs = split_draft(draft)
        records, tail = sealed((draft,), Tail(), scope=config.scope, session=config.session_id)
        opening = Opening(
            records=records,
            root=path[0],
            parent=path[-2] if len(path) > 1 else "",
            forked_from=forked_from,
            node=self.node.id,
            owner=session_owner_key(config.user_data),
            max_of_owner=self.max_of_owner if len(path) == 1 and self.heartbeat is not None else None,
            codec=codec_of(records),
            standing=stored_standing(cell.state),
            blobs=blobs,
        )
        return opening, tail

    async def _create(self, opening: Opening) -> None:
        if self.store.is_immediate:
            self.store.create(opening)
            return
        first = opening.records[0]
        scope, session = first.scope, first.session
        self.writer.unanswered.pop((scope, opening.root), None)  # of an earlier session with this id

        # Each side sets its flag before it reads the other's, so one of them sees a caller that gives up meanwhile.
        is_done = has_begun = has_left = False

        def create() -> None:
            nonlocal has_begun
            has_begun = True
            if not has_left:
                self._delete_vain(scope, session)
                self.store.create(opening)

        try:
            with trio.move_on_after(self.writer.patience_seconds):
                await self._create_in_the_end(create)
                is_done = True
        finally:
            has_left = True
            # What is stored of it is deleted, but not an earlier session with its id. A child ends with its root.
            if has_begun and not is_done and not opening.parent:
                self._vain.setdefault((scope, session), []).append(first)
                self.writer.repeat(scope, session, partial(self._delete_vain, scope, session))
        if not is_done:
            raise self.writer.unavailable_error()

    async def _create_in_the_end(self, create: Callable[[], None]) -> None:
        """Retry until it succeeds. Repeating the same opening is safe, and the effect of a failed attempt is unknown."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self.writer.call(create)
                return
            except StoreUnavailable:
                if not self.writer.is_available:
                    raise
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _delete_vain(self, scope: str, session: SessionId) -> None:
        if self.is_vain(scope, session):
            with suppress(YourMove):  # it is not there, or needed
                self.store.release(self.node.id, scope, session)
                self.store.delete(scope, session)
        self._vain.pop((scope, session), None)

    def is_vain(self, scope: str, session: SessionId) -> bool:
        """Whether a stored session was not begun, and will be deleted: its caller was told so. This blocks."""
        openings = self._vain.get((scope, session))
        try:
            return openings is not None and (*self.store.read(scope, session, limit=1), None)[0] in openings
        except StoreUnavailable:
            raise
        except AgentrailError:  # it is not there, or was trimmed
            return False

    async def check(self) -> None:
        """Check that the store can be written and read: by a heartbeat of this node, and a lookup of a session."""
        await trio.lowlevel.checkpoint()
        if not self.writer.is_available:
            raise self.writer.unavailable_error()
        if trio.current_time() - self._checked_at < _CHECK_EVERY_SECONDS:
            return
        if self.heartbeat is not None:
            self.heartbeat.check()
        else:
            await self.write(partial(self.store.beat, self.node))
        await self.read(partial(self.store.find, Filters(), limit=1))
        self._checked_at = trio.current_time()

    async def _beat_on(self) -> None:
        while True:
            await trio.sleep(self._beat_seconds)
            self.writer.post(partial(self.store.beat, self.node))


def _drop_behind(store: OwedStore, key: str) -> None:
    # There rarely is one, and a write would wait for the disk.
    if owed_row(store, JOURNAL_BEHIND, key) is not None:
        store.change_owed((), ((JOURNAL_BEHIND, key),))
