"""What a supervisor needs to keep its sessions in a store: the writer, the node that it is, and how a journal begins."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import trio

from agentrail.abc.store import Cause, Filters, Node, Opening, Standing, Store, Taken, TakeOver
from agentrail.core.journal.record import Record, Tail, sealed, split_draft
from agentrail.core.journal.recording import opened_draft
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.core.protocol.signals import Recovered
from agentrail.distribution import NAME
from agentrail.errors import AgentrailError, CodecError, OptionError, StoreUnavailable
from agentrail.left_processes import ProcessList, end_left_processes, keep_list, list_beside
from agentrail.messages import SessionId
from agentrail.outside import Outside, current
from agentrail.runtime.clock import now_ms
from agentrail.runtime.old_events import OldEvents
from agentrail.runtime.overwriting import Overwriter
from agentrail.runtime.past_events import PastEvents
from agentrail.runtime.retention import KeepLimits, Retention
from agentrail.runtime.session import SessionCell
from agentrail.runtime.session_journal import SessionJournal
from agentrail.runtime.standing import stored_standing
from agentrail.runtime.store_writer import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Writer

T = TypeVar("T")

OnDrift: TypeAlias = Literal["park", "go_on"]
"""What becomes of a stored session that the code here folds to other operations than it began: it stays as it is until an operator decides,
or continues with the state of the newer code."""

STORE_PATIENCE_SECONDS: Final = 5.0
"""How long a commit may take before the store counts as unavailable."""


class _Unheard:
    """Stands for a session that does not come back, and hears of nothing."""

    def written(self, up_to: int) -> None:
        """Hear nothing."""

    def refused(self, error: AgentrailError) -> None:
        """Hear nothing: another has it."""

    def kept_waiting(self, error: StoreUnavailable) -> None:
        """Hear nothing."""

    def standing(self) -> Standing:
        """Say that it has ended."""
        return Standing(has_ended=True)


_BEAT_SECONDS: Final = 5.0
_CHECK_EVERY_SECONDS: Final = 1.0

MAX_FOLDS: Final = 4
"""How many journals are folded at a time for those who look back: each takes a thread, and a processor."""


def _engine() -> str:
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:  # run from a folder that was never installed
        return ""


ENGINE: Final = _engine()
"""The version of agentrail, for records and nodes."""


class Keeping:
    """A store, and what keeps sessions in it.

    Attributes:
        store: Which one.
        writer: Who writes to it.
        node: Who owns what is started here; new at each start.
        on_drift: What becomes of a session that the code here folds to other operations.
        retention: What deletes sessions that are too old or too many; None where all are kept.
        overwriter: What sees to it that nothing of what was purged or swept is left in a file.
        past_events: Gives pages of what sessions have published.
    """

    def __init__(
        self,
        store: Store,
        *,
        patience_seconds: float = STORE_PATIENCE_SECONDS,
        on_drift: OnDrift = "park",
        limits: KeepLimits | None = None,
        outside: Outside | None = None,
    ) -> None:
        """Begin; nothing is asked of the store before `open`."""
        self._outside = outside or current()
        self.store: Store = store
        self.on_drift: OnDrift = on_drift
        self.writer: Writer = Writer(store, patience_seconds=patience_seconds, outside=self._outside)
        self._processes: ProcessList | None = None
        self._folds = trio.CapacityLimiter(MAX_FOLDS)
        self.past_events: PastEvents = PastEvents(store)
        self._old_events = OldEvents(store, self._outside, self._folds)
        self.node: Node = Node(id=f"n-{self._outside.ids(8)}", version=ENGINE)
        self.overwriter: Overwriter = Overwriter(store, self.write)
        self.retention: Retention | None = (
            None
            if limits is None
            else Retention(
                store,
                limits,
                self.node.id,
                self._outside,
                self.write,
                after_removing=self.overwriter.after_sweep,
            )
        )
        self._may_sweep = trio.Event()
        self._checked_at = float("-inf")

    async def open(self, nursery: trio.Nursery) -> None:
        """Say that this node is alive, and begin to write, in tasks of a nursery that outlives all sessions.

        Beside a store in a file, processes are ended that a run which died has left there; and those of this one are noted.
        """
        path = getattr(self.store, "path", None)
        if isinstance(path, Path):
            await self.read(partial(end_left_processes, path))
            self._processes = list_beside(path, self.node.id)
            keep_list(self._processes)
        beat = partial(self.store.beat, self.node)
        if self.store.is_immediate:
            beat()
        else:
            await self.read(beat)
        nursery.start_soon(self.writer.run, name="writer of the store")
        nursery.start_soon(self._beat_on, name="beats of the node")
        if not self.store.is_immediate:  # else what is removed is nowhere else
            nursery.start_soon(self.overwriter.run, name="overwriting in the store")
        if self.retention is not None:
            nursery.start_soon(self._sweep_on, self.retention, name="sweeps of the store")

    def let_sweep(self) -> None:
        """Say that what was to be resumed by itself is back, and so owned by this node: what is too old may go."""
        self._may_sweep.set()

    def forget_processes(self) -> None:
        """Note that the run ends in order: no other has to look for its processes."""
        if self._processes is not None:
            self._processes.close()

    async def close(self) -> None:
        """Wait until all is written that was handed over; nothing is swept any more.

        Cancellation: What is not written by then is lost, and nothing of it was acknowledged.
        """
        if self.retention is not None:
            self.retention.stop()
        await self.writer.wait_empty()
        if not self.store.is_immediate:
            await self.overwriter.finish()

    async def begin(self, cell: SessionCell, *, forked_from: tuple[SessionId, int] | None = None) -> None:
        """Begin the journal of a session, which returns when that is durable.

        Cancellation: Nothing was begun; what the store may have of it is deleted.
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
        gone_tools: tuple[str, ...] = (),
    ) -> None:
        """Let a session record what it does from here on."""
        cell.journal = SessionJournal(
            cell.state,
            tail,
            self.writer,
            cell.mailbox,
            cell,
            first=first,
            snapshot=snapshot,
            gone_tools=gone_tools,
            old_events=self._old_events,
            scrub=cell.scrub,
        )

    def close_journal(self, records: Sequence[Record]) -> None:
        """Write the last records of a session that does not come back."""
        self.writer.put(_Unheard(), records)

    async def write(self, function: Callable[[], T]) -> T:
        """Let the store do something that writes, and wait for it; as of `Writer.call`."""
        return function() if self.store.is_immediate else await self.writer.call(function)

    async def take(self, scope: str, root: SessionId, cause: Cause, *, force: bool = False) -> Taken:
        """Make this node the owner of a tree; trees that are wanted side by side are taken in one call of the store.

        Cancellation: It may be taken all the same; `give_back` is for that.
        """
        if self.store.is_immediate:
            return self.store.take(scope, root, self.node.id, cause, force=force)
        wanted = TakeOver(scope=scope, root=root, node=self.node.id, cause=cause, force=force)
        return await self.writer.take(wanted)

    def give_back(self, scope: str, root: SessionId) -> None:
        """Let a tree have no owner, behind all that the store was asked for before; nothing is done where this node is not it."""
        self.writer.post(partial(self.store.release, self.node.id, scope, root))

    async def read(self, function: Callable[[], T]) -> T:
        """Let the store do something that reads, beside the writer.

        Cancellation: At once; what is read is thrown away.
        """
        if self.store.is_immediate:
            return function()
        return await self._outside.offload(function, abandon_on_cancel=True)

    async def fold(self, function: Callable[[], T]) -> T:
        """Let a function read and fold a journal in a worker thread, a few at a time.

        Cancellation: At once; what it comes to is thrown away.
        """
        return await self._outside.offload(function, abandon_on_cancel=True, limiter=self._folds)

    def leave(self, cell: SessionCell) -> None:
        """Let go of a session of which nothing acts any more: a tree has no owner then, when all of its records are written."""
        journal = cell.journal
        if journal is not None and cell.rested is not None:
            journal.put_last_snapshot(cell.state)
        elif journal is not None and cell.is_leaving:
            journal.put_snapshot(cell.state)
        config = cell.state.data.config
        if len(config.path) == 1:
            self.give_back(config.scope, config.session_id)

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
            )
        except CodecError as error:
            fault = f"session {config.session_id!r} cannot be kept in a store: {error}"
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
            standing=stored_standing(cell.state),
            blobs=blobs,
        )
        return opening, tail

    async def _create(self, opening: Opening) -> None:
        create = partial(self.store.create, opening)
        if self.store.is_immediate:
            create()
            return
        is_done = False
        try:
            with trio.move_on_after(self.writer.patience_seconds):
                await self._create_in_the_end(create)
                is_done = True
        finally:
            if not is_done:
                self._take_back(opening)
        if not is_done:
            raise self.writer.unavailable_error()

    async def _create_in_the_end(self, create: Callable[[], None]) -> None:
        """Try until it is done: the same opening again is fine, and what an attempt did that failed is not known."""
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

    def _take_back(self, opening: Opening) -> None:
        """Delete what the store may have of a session that was not begun. Not of one that it had before."""
        first = opening.records[0]
        if opening.parent:
            return  # it goes with its root, and does nothing until then

        def take_back() -> None:
            if self.store.read(first.scope, first.session, limit=1)[:1] != opening.records:
                return
            self.store.release(self.node.id, first.scope, first.session)
            self.store.delete(first.scope, first.session)

        self.writer.post(take_back)

    async def _sweep_on(self, retention: Retention) -> None:
        await self._may_sweep.wait()
        await retention.run()

    async def check(self) -> None:
        """Find out whether the store takes what it is given and gives it back: by a beat of this node, and a look for a session.

        A beat is written anyway, so it does no harm; at most one a second is, because strangers may ask how a server is.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        if not self.writer.is_available:
            raise self.writer.unavailable_error()
        if trio.current_time() - self._checked_at < _CHECK_EVERY_SECONDS:
            return
        if self.store.is_immediate:
            self.store.beat(self.node)
        else:
            await self.write(partial(self.store.beat, self.node))
        await self.read(partial(self.store.find, Filters(), limit=1))
        self._checked_at = trio.current_time()

    async def _beat_on(self) -> None:
        while True:
            await trio.sleep(_BEAT_SECONDS)
            if self.store.is_immediate:
                self.store.beat(self.node)
            else:
                self.writer.post(partial(self.store.beat, self.node))
