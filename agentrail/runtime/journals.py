"""The stored sessions of a supervisor: find, read, inspect, export, trim and delete them."""

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, TypeVar

import trio
from attrs import define, field
from msgspec import MsgspecError
from msgspec.structs import replace

from agentrail.abc.living_nodes import Departures
from agentrail.abc.store import Filters, OwedRow, OwedStore, SharedDraw, Store, StoredSession
from agentrail.core.journal.step_explanation import ExplainedStep
from agentrail.core.stack.loaded_stack import PluginEntry
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_code import part_entry
from agentrail.core.values.port_members import offers
from agentrail.errors import AgentrailError, OptionError, SessionNotFound, StillNeeded, StoreUnavailable
from agentrail.events import Event
from agentrail.frozen import EMPTY
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import repr_of
from agentrail.runtime.arguments import fault_of, fault_of_whole, faults_of_key, refuse
from agentrail.runtime.event_history import PageAsked, PageOfEvents, fault_of_page, page_of_events, read_kept
from agentrail.runtime.event_subscription import decide_kinds
from agentrail.runtime.journal_inspection import (
    InspectedState,
    JournalPage,
    WantedRecords,
    explanation_of_journal,
    page_of_journal,
    state_of_journal,
)
from agentrail.runtime.journal_state import (
    Journal,
    JournalEntry,
    PastState,
    fault_of_after,
    fault_of_limit,
    fault_of_number,
    journal_entries,
)
from agentrail.runtime.persistence import Keeping
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_export import (
    ExportFormat,
    export_spans,
    export_stored,
    import_stored,
    leaving_export,
    render_markdown,
)
from agentrail.runtime.session_facts import SessionFacts, facts_of_cell, stored_facts
from agentrail.runtime.session_keys import NO_SCOPE, fault_of_scope, key_of
from agentrail.runtime.session_loader import PluginFinder, check_may_trim, stored_of
from agentrail.runtime.session_stores import OWED_NOTES, OwnNotes, owed_notes, settle_left_notes, settle_notes
from agentrail.runtime.shared_resources import Shared
from agentrail.runtime.spending_book import SessionSpending, SpendingBook
from agentrail.runtime.tree_secrets import Withheld
from agentrail.runtime.trust import silent_nodes

T = TypeVar("T")

MAX_ADOPTED: Final = 100_000
"""Rows of dead nodes adopted at once. All of a kind go to one node, so that messages of one request keep their order."""


@define(eq=False)
class Journals:
    _shared: Shared
    _known: Callable[[str], SessionCell | None] = field(kw_only=True)
    _seen: Callable[[str], SessionCell | None] = field(kw_only=True)
    _book: SpendingBook | None = field(init=False, default=None)
    _booking: trio.Lock = field(init=False, factory=trio.Lock)
    _adopting: set[str] = field(init=False, factory=set)

    async def _store_for(self, call: str) -> Keeping:
        await trio.lowlevel.checkpoint()
        return self._shared.store_of(call)

    async def find(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> Sequence[StoredSession]:
        """Search the store for sessions, live or not, without reading their journals.

        Args:
            filters: Conditions on the sessions.
            after: Scope and id after which to continue. None to begin.
            limit: Maximum number of sessions.

        Returns:
            The sessions, ordered by scope and id.

        Raises:
            OptionError: Your move: there is no store, or an invalid argument.
            StoreUnavailable: It cannot be read now.

        Cancellation: At once.
        """
        refuse(
            fault_of("filters", filters, Filters),
            _fault_of_place("after", after, "scope and id", str),
            fault_of_whole("limit", limit, 0, sys.maxsize),
        )
        keeping = await self._store_for("find")
        return await keeping.read(partial(keeping.store.find, filters, after=after, limit=limit))

    async def newest(
        self, filters: Filters, *, before: tuple[int, str] | None = None, limit: int = 100
    ) -> Sequence[StoredSession]:
        """Return the stored sessions that were opened last, newest first. As `find`, but see `Store.newest`."""
        refuse(
            fault_of("filters", filters, Filters),
            _fault_of_place("before", before, "time and id", int),
            fault_of_whole("limit", limit, 0, sys.maxsize),
        )
        keeping = await self._store_for("newest")
        return await keeping.read(partial(keeping.store.newest, filters, before=before, limit=limit))

    @property
    def keeps_owed(self) -> bool:
        return self._owed_store is not None

    @property
    def shared_node(self) -> str:
        """Id of this node if other nodes may use the same store, otherwise empty."""
        keeping = self._shared.keeping
        return "" if keeping is None or keeping.heartbeat is None else keeping.node.id

    async def look_at_nodes(self, departures: Departures) -> frozenset[str]:
        """Read the nodes of the store, and return the dead ones that this node has to deal with.

        Raises:
            OptionError: Your move: there is no store.
            StoreUnavailable: It cannot be read now.

        Cancellation: At once.
        """
        keeping = await self._store_for("look_at_nodes")
        store = keeping.store
        nodes, now_ms = await keeping.read(lambda: (store.nodes(), store.now_ms()))
        return departures.look(nodes, now_ms, silent_nodes(keeping.silence))

    async def owed(
        self, kind: str, *, after: str = "", limit: int = 1000, own: bool = False
    ) -> tuple[OwedRow, ...]:
        """Return the owed rows of the store, of all nodes or only of this one. See `OwedStore.owed`.

        Raises:
            OptionError: Your move: there is no store that keeps owed rows.
            StoreUnavailable: It cannot be read now.

        Cancellation: At once.
        """
        refuse(fault_of_whole("limit", limit, 0, sys.maxsize))
        await trio.lowlevel.checkpoint()
        store = self._owing("owed")
        node = (self.shared_node or None) if own else None
        return await self._shared.store_of("owed").read(partial(store.owed, kind, after, limit, node=node))

    async def change_owed(
        self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = (), *, own: bool = False
    ) -> None:
        """Add and remove owed rows in the store. See `OwedStore.change_owed`.

        Args:
            put: Rows to store.
            drop: Kind and id of the rows to remove.
            own: Whether the rows become those of this node, if other nodes may use the same store.

        Raises:
            OptionError: Your move: there is no store that keeps owed rows.
            StoreUnavailable: The store accepts no writes for now. The outcome is unknown. Try again.

        Cancellation: A change that has not begun is not made.
        """
        await trio.lowlevel.checkpoint()
        store = self._owing("change_owed")
        node = self.shared_node
        rows = tuple(replace(row, node=node) for row in put) if own and node else tuple(put)
        await self._shared.store_of("change_owed").write(partial(store.change_owed, rows, tuple(drop)))

    async def adopt_owed(self, kind: str) -> int:
        """Adopt all rows of a kind of dead nodes. Return their number, plus one if the call before had no answer. See `OwedStore.adopt_owed`.

        Raises: Same as `change_owed`.

        Cancellation: Same as `change_owed`.
        """
        refuse(fault_of("kind", kind, str))
        await trio.lowlevel.checkpoint()
        store, keeping = self._owing("adopt_owed"), self._shared.store_of("adopt_owed")
        adopt = partial(
            store.adopt_owed, kind, keeping.node.id, silent_nodes(keeping.silence), limit=MAX_ADOPTED
        )
        unanswered = kind in self._adopting
        self._adopting.add(kind)
        adopted = len(await keeping.write(adopt))
        self._adopting.discard(kind)
        return adopted + unanswered

    def limit_sessions(self, max_of_owner: int) -> None:
        """Limit the sessions of each user that have not ended, over all nodes of a shared store. `start_session` raises `QuotaReached` above it."""
        if self._shared.keeping is not None:
            self._shared.keeping.max_of_owner = max_of_owner

    def describe_profiles(self, digest: str) -> None:
        """Report a fingerprint of the profiles to other nodes of a shared store, with the next heartbeat. Nodes with another one are logged."""
        keeping = self._shared.keeping
        if keeping is not None and keeping.heartbeat is not None:
            keeping.heartbeat.describe(digest=digest)

    async def take_allowance(self, key: str, step_ms: float, limit_ms: float) -> SharedDraw:
        """Draw from an allowance that all nodes of the store share. See `Store.take_allowance`.

        Raises:
            OptionError: Your move: there is no store.
            StoreUnavailable: The store accepts no writes for now. The outcome is unknown.

        Cancellation: It may still be drawn.
        """
        keeping = await self._store_for("take_allowance")
        return await keeping.write(partial(keeping.store.take_allowance, key, step_ms, limit_ms))

    @property
    def _owed_store(self) -> OwedStore | None:
        store: object = None if self._shared.keeping is None else self._shared.keeping.store
        return store if offers(store, OwedStore) else None

    def _owing(self, call: str) -> OwedStore:
        store = self._owed_store
        if store is None:
            message = f"{call} needs a store with an outbox, such as agentrail's own stores"
            raise OptionError([message])
        return store

    async def facts_of(self, session_id: str, *, scope: str = NO_SCOPE) -> SessionFacts | None:
        """Return the facts of a session, live or stored. It is neither woken nor taken over.

        Args:
            session_id: Its id.
            scope: Scope that it was started in.

        Returns:
            None if no such session is known here, or if all its data was erased.

        Raises:
            OptionError: Your move: the id is not a string, or an invalid scope.
            StoreUnavailable: It is not live here, and the store cannot be read now.

        Cancellation: Always a checkpoint.
        """
        refuse(*faults_of_key(scope, session_id))
        await trio.lowlevel.checkpoint()
        cell = self._known(key_of(scope, session_id))
        if cell is not None:
            return facts_of_cell(cell)
        if self._shared.keeping is None:
            return None
        return await self._shared.keeping.read(
            partial(stored_facts, self._shared.keeping, scope, SessionId(session_id))
        )

    async def stored_journal(
        self, session_id: str, after: int = 0, limit: int = 1_000, *, scope: str = NO_SCOPE
    ) -> tuple[JournalEntry, ...]:
        """Read the durable part of a session's journal. The session is neither woken nor taken over, and may have ended.

        Args:
            session_id: Its id.
            after: Record number after which to begin.
            limit: Maximum number of records, up to 10,000.
            scope: Scope that it was started in.

        Returns:
            Records in order, from number `after + 1`. Empty after the last one.

        Raises:
            OptionError: Your move: there is no store, or an invalid argument.
            SessionNotFound: Your move: the store has no session with this id.
            Trimmed: The requested records were dropped. `first` is the first remaining one.
            StoreUnavailable, CodecError: It cannot be read.

        Cancellation: At once.
        """
        refuse(*faults_of_key(scope, session_id), fault_of_after(after), fault_of_limit(limit))
        keeping = await self._store_for("stored_journal")

        def work() -> tuple[JournalEntry, ...]:
            stored = stored_of(keeping.store, scope, SessionId(session_id))
            return journal_entries(keeping.store, stored, after, limit)

        return await keeping.read(work)

    async def stored_state(
        self, session_id: str, *, scope: str = NO_SCOPE, plugins: Sequence[PluginEntry] = ()
    ) -> PastState:
        """Fold the durable part of a session's journal to its state. It is neither woken nor taken over, and may have ended.

        Args:
            session_id: Its id.
            scope: Scope that it was started in.
            plugins: Code of its plugins, same as `resume_session`.

        Returns:
            The state after its last record, and its conversation.

        Raises:
            OptionError: Your move: there is no store, or an invalid argument.
            PluginError: Your move: an invalid plugin.
            SessionNotFound: Your move: the store has no session with this id.
            Unrevivable: Your move: one of its plugins cannot be found.
            Trimmed, Erased, JournalCorrupt, CodecError, StoreUnavailable: It cannot be read.

        Cancellation: At once. The work runs in a thread, at most four at a time.
        """
        refuse(*faults_of_key(scope, session_id))
        return await self._fold(
            "stored_state",
            session_id,
            scope,
            plugins,
            lambda journal: journal.past_state(journal.stored.tail.seq),
        )

    async def find_records(
        self,
        session_id: str,
        wanted: WantedRecords,
        *,
        scope: str = NO_SCOPE,
        plugins: Sequence[PluginEntry] = (),
    ) -> JournalPage:
        """Search the durable part of a session's journal. The session is neither woken nor taken over, and may have ended.

        Args:
            session_id: Its id.
            wanted: Conditions on the records.
            scope: Scope that it was started in.
            plugins: Code of its plugins, same as `stored_state`. Used only for records of a plugin.

        Returns:
            Records in order, with the currently known secrets redacted, and where to continue. One call reads at most 20,000
            records, so it may return fewer than there are. A search for the records of a plugin folds the whole requested range.

        Raises:
            OptionError: Your move: there is no store, or an invalid argument.
            SessionNotFound: Your move: the store has no session with this id.
            Trimmed: The requested records were dropped. `first` is the first remaining one.
            Unrevivable, Erased: Same as `stored_state`, for records of a plugin.
            JournalCorrupt: A record is missing, or damaged for a search by plugin.
            StoreUnavailable, CodecError: It cannot be read.

        Cancellation: At once. The work runs in a thread, at most four at a time.
        """
        refuse(fault_of("wanted", wanted, WantedRecords))
        refuse(
            *faults_of_key(scope, session_id),
            fault_of_after(wanted.after),
            fault_of_limit(wanted.limit),
            None if wanted.before is None else fault_of_number("before", wanted.before),
        )
        return await self._fold(
            "find_records",
            session_id,
            scope,
            plugins,
            lambda journal: page_of_journal(journal, wanted),
        )

    async def plain_state_at(
        self,
        session_id: str,
        number: int,
        *,
        since: int | None = None,
        scope: str = NO_SCOPE,
        plugins: Sequence[PluginEntry] = (),
    ) -> InspectedState:
        """Return the state of a session after a record as plain data, and the changes since another one.

        The session is neither woken nor taken over.

        Args:
            session_id: Its id.
            number: Number of the record, from 1.
            since: Number of the record whose state the JSON Patch starts from. None for no patch.
            scope: Scope that it was started in.
            plugins: Same as `stored_state`.

        Returns:
            The state, with the currently known secrets redacted, and the patch.

        Raises:
            OptionError: Your move: there is no store, or no such record. The message has the range.
            SessionNotFound: Your move: the store has no session with this id.
            Trimmed: The records needed were dropped. `first` is the first number that still works.
            Unrevivable, Erased, JournalCorrupt, CodecError, StoreUnavailable: Same as `stored_state`.

        Cancellation: At once. The work runs in a thread, at most four at a time.
        """
        refuse(
            *faults_of_key(scope, session_id),
            fault_of_number("number", number, needed=True),
            fault_of_number("since", since),
        )
        return await self._fold(
            "plain_state_at",
            session_id,
            scope,
            plugins,
            lambda journal: state_of_journal(journal, number, since),
        )

    async def explain_record(
        self, session_id: str, number: int, *, scope: str = NO_SCOPE, plugins: Sequence[PluginEntry] = ()
    ) -> ExplainedStep:
        """Explain the outcome of a record: hooks called, winning answers, decisions. The session is neither woken nor taken over.

        Args:
            session_id: Its id.
            number: Number of the record, from 1.
            scope: Scope that it was started in.
            plugins: Same as `stored_state`.

        Returns:
            The output of `agentrail sessions replay --explain`, with the currently known secrets redacted.

        Raises:
            AgentrailError: Same as `plain_state_at`. Also `Trimmed` if only the records before this one were dropped.

        Cancellation: At once. The work runs in a thread, at most four at a time.
        """
        refuse(*faults_of_key(scope, session_id), fault_of_number("number", number, needed=True))
        return await self._fold(
            "explain_record",
            session_id,
            scope,
            plugins,
            lambda journal: explanation_of_journal(journal, number),
        )

    async def _fold(
        self,
        call: str,
        session_id: str,
        scope: str,
        plugins: Iterable[PluginEntry],
        read: Callable[[Journal], T],
    ) -> T:
        """Read the journal of a session in a worker thread, with the code of its plugins. At most four at a time."""
        keeping = await self._store_for(call)
        finder, watch = self._code_of(session_id, plugins)
        return await keeping.fold(
            partial(_read_stored, keeping.store, scope, session_id, finder, watch, read)
        )

    def _code_of(
        self,
        session_id: str,
        given: Iterable[PluginEntry] = (),
        *,
        own: Iterable[Plugin] = (),
        user_data: Mapping[str, object] = EMPTY,
        withheld: Withheld | None = None,
    ) -> tuple[PluginFinder, QuietWatch]:
        """Return the code of plugins: from `own`, the given code, or where it was defined. A thread may own both results."""
        watch = QuietWatch(
            SessionId(session_id), user_data, self._shared.dependencies.outside, withheld=withheld
        )
        if not isinstance(given, Iterable):
            raise OptionError([f"plugins is {repr_of(given):.200}: expected a sequence of plugins"])
        parts = [part_entry(entry, watch)[0] for entry in given]
        finder = PluginFinder({plugin.name: plugin for plugin in (*parts, *own)})
        watch.find_others(finder)
        return finder, watch

    async def events_page(  # noqa: PLR0913 - the range, the filters and the session
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 200,
        kinds: Iterable[type[Event]] | None = None,
        scope: str = NO_SCOPE,
        plugins: Sequence[PluginEntry] = (),
        undone: bool = False,
    ) -> PageOfEvents:
        """Read part of a session's published events, forwards or backwards. It is neither woken nor taken over, and may have ended.

        Args:
            session_id: Its id.
            before: Event number before which to end. Without `before` and `after`, the last part is returned.
            after: Event number after which to begin.
            limit: Maximum number of events, up to 5,000.
            kinds: Only events of these classes. None for all.
            scope: Scope that it was started in.
            plugins: Code of its plugins, same as `stored_state`. A session that is here uses its own.
            undone: Whether to include events that a rewind has undone.

        Returns:
            The events in order, with the bounds of the page. Without a store, only events in memory are available.

        Raises:
            OptionError: Your move: an invalid argument.
            SessionNotFound: Your move: there is no session with this id.
            Erased, JournalCorrupt, CodecError, PluginError, StoreUnavailable: It cannot be read.

        Cancellation: At once. Events not in memory are computed in a thread, at most four at a time.
        """
        wanted = decide_kinds(kinds)
        asked = PageAsked(before=before, after=after, limit=limit, kinds=wanted, undone=undone)
        refuse(*faults_of_key(scope, session_id), fault_of_page(asked), fault_of("undone", undone, bool))
        await trio.lowlevel.checkpoint()
        cell = self._seen(key_of(scope, session_id))
        keeping = self._shared.keeping
        if cell is not None and keeping is not None and (cell.rested is not None or cell.has_moved):
            cell = None  # it may have continued on another node
        if keeping is None:
            if cell is None:
                raise SessionNotFound(session_id)
            read = partial(read_kept, cell.bus.kept, cell.bus.last_seq)
            return page_of_events(asked, cell.bus.last_seq, (), read)
        # A hibernated session may have continued on another node, and the id of an ended one may be that of a new one there.
        live = None if cell is None or cell.is_asleep or cell.ending is not None else cell.bus
        kept, last = ((), None) if live is None else (live.kept, live.last_seq)
        withheld = None if cell is None else cell.ports.withheld
        own = () if cell is None else cell.plugins
        finder, watch = self._code_of(session_id, plugins, own=own, withheld=withheld)
        past = keeping.past_events

        def work() -> PageOfEvents:
            stored = stored_of(keeping.store, scope, SessionId(session_id))
            return past.page(stored, asked, kept, last, finder, watch)

        return await keeping.fold(work)

    async def check_store(self) -> None:
        """Check that the store can be written and read, for readiness checks. Writes a record at most once a second.

        Raises:
            OptionError: Your move: there is no store.
            StoreUnavailable: The check failed for now.

        Cancellation: At once.
        """
        keeping = await self._store_for("check_store")
        await keeping.check()

    async def spendings(
        self, *, scope: str | None = None, since_ms: int | None = None, root: str | None = None
    ) -> tuple[SessionSpending, ...]:
        """Return the usage of sessions from their journals, including ended ones. Child sessions are listed separately.

        Args:
            scope: Same as `sessions`.
            since_ms: Only sessions written since then, in milliseconds since 1970. None for all.
            root: Only this session and its children. None for all.

        Raises:
            OptionError: Your move: there is no store, or an invalid argument.
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once. Usage read by then is cached. The work runs in a thread, one call at a time.
        """
        refuse(
            None if scope is None else fault_of_scope("scope", scope),
            None if since_ms is None else fault_of_whole("since_ms", since_ms, 0),
            fault_of("root", root, str | None),
        )
        keeping = await self._store_for("spendings")
        live = {
            entry.cell.ports.key: tuple(entry.cell.plugins)
            for entry in self._shared.entries.values()
            if not entry.cell.is_asleep
        }
        if since_ms is not None:  # the clock of the store may have been set back
            since_ms -= max(now_ms() - await keeping.read(keeping.store.now_ms), 0)
        async with self._booking:
            # A cancelled call may still run in its thread, so its book is left to it.
            book, self._book = self._book or SpendingBook(keeping.store), None
            book.find_code = lambda of, session: self._code_of(session, own=live.get(key_of(of, session), ()))
            told = await keeping.fold(
                partial(book.look, scope, since_ms, None if root is None else SessionId(root))
            )
            self._book = book
        return told

    async def export_session(
        self,
        session_id: str,
        *,
        format: ExportFormat = "jsonl",  # noqa: A002 - same name as on the command line
        content: bool = True,
        scope: str = NO_SCOPE,
    ) -> bytes:
        """Export the durable part of a stored session as a file. The session may be live.

        Args:
            session_id: Its id.
            format: `jsonl` is complete, includes child sessions, and can be imported. `markdown` is the conversation,
                for people. `otlp` is OpenTelemetry spans, one line of JSON per session, in the format of its file
                exporter: for cycles, requests, calls and children.
            content: Whether to include the content of messages. Otherwise only kinds, numbers, times and sizes.
            scope: Scope that it was started in.

        Returns:
            UTF-8.

        Raises:
            OptionError: Your move: there is no store, or an invalid argument.
            SessionNotFound: Your move: the store has no session with this id.
            Trimmed: Its first records were dropped, so the export could not be imported.
            Erased, JournalCorrupt, CodecError, PluginError, StoreUnavailable: It cannot be read.

        Cancellation: At once.
        """
        refuse(
            *faults_of_key(scope, session_id),
            fault_of("format", format, Literal["jsonl", "markdown", "otlp"]),
            fault_of("content", content, bool),
        )

        def export(journal: Journal) -> bytes:
            store, stored = journal.store, journal.stored
            if format == "jsonl":
                data = b"".join(export_stored(store, stored, content=content))
                return leaving_export(data, is_exact=content)
            if format == "otlp":
                spans = b"".join(export_spans(store, stored, journal.ask, content=content))
                return leaving_export(spans, is_exact=False)
            state = journal.state_behind(stored.tail.seq)
            text = render_markdown(state.data.history.messages[:], content=content)
            return leaving_export(text.encode(), is_exact=False)

        return await self._fold("export_session", session_id, scope, (), export)

    async def import_session(self, data: bytes) -> tuple[SessionId, ...]:
        """Write the sessions of a `jsonl` export into the store, bit for bit. None of them starts to run.

        Identical sessions that are already stored stay unchanged. A session that is resumed runs the calls that were approved in
        it, and keeps the rules of its user: import what you trust. A fork has none of the open calls.

        Returns:
            The ids, root first. `resume_session` resumes it.

        Raises:
            OptionError: Your move: there is no store, the data is not an export, or the export has no content.
            JournalCorrupt: The export was changed. The error has the number of the first changed record. Nothing was written.
            AlreadyExists: Your move: the store has a different session with this id.
            StoreUnavailable: The store accepts no writes for now.

        Cancellation: A write that has not begun is not made. Completed writes stay.
        """
        if not isinstance(data, bytes):
            raise OptionError([f"data is {repr_of(data):.80}: expected the bytes of an export"])
        keeping = await self._store_for("import_session")
        return await keeping.write(partial(import_stored, keeping.store, data))

    async def trim_session(self, session_id: str, *, before: int, scope: str = NO_SCOPE) -> int:
        """Drop the first records of a stored session. Its state before the snapshot can no longer be read.

        Args:
            session_id: Its id.
            before: Number of the first record to keep. A snapshot must exist there or later.
            scope: Scope that it was started in.

        Returns:
            The number of dropped records.

        Raises:
            OptionError: Your move: there is no store, no snapshot, or no such record.
            SessionNotFound: Your move: the store has no session with this id.
            StillNeeded: Your move: a fork begins at one of the records, or the session was rewound to one. `by` names it.
            StoreUnavailable: The store accepts no writes for now.

        Cancellation: A write that has not begun is not made. Completed writes stay.
        """
        refuse(*faults_of_key(scope, session_id), fault_of_whole("before", before, 1))
        keeping = await self._store_for("trim_session")
        store, wanted = keeping.store, SessionId(session_id)
        # Most records are read next to the writer. The writer reads only those added meanwhile.
        seen = await keeping.read(partial(check_may_trim, store, scope, wanted, before))

        def trim() -> int:
            check_may_trim(store, scope, wanted, before, seen=seen)
            return store.trim(scope, wanted, before)

        return await keeping.write(trim)

    async def delete_session(self, session_id: str, *, scope: str = NO_SCOPE, purge: bool = False) -> int:
        """Delete a stored session and its children: records, snapshots, working notes, and large values that no other session uses.

        Args:
            session_id: Id of a root session that is not live here.
            scope: Scope that it was started in.
            purge: Whether to leave no trace in any file. Deleted data is overwritten in place. Copies in pages of a
                file disappear when it is rewritten: half a minute after the last purge, at the latest when the
                supervisor closes, or by the next process after a crash. Sessions wait meanwhile,
                one second for a few hundred MB.

        Returns:
            The number of deleted bytes.

        Raises:
            OptionError: Your move: there is no store, or the id of a child.
            SessionNotFound: Your move: the store has no session with this id.
            StillNeeded: Your move: it is live, here or on another node, or a fork names it. `by` says which.
            StoreUnavailable: The store accepts no writes for now.

        Cancellation: A write that has not begun is not made. Completed writes stay.
        """
        refuse(*faults_of_key(scope, session_id))
        keeping = await self._store_for("delete_session")
        key = key_of(scope, session_id)
        async with self._shared.beginnings.hold(key):
            if self._known(key) is not None:
                raise StillNeeded(session_id, by=["this process, in which it is running: stop it first"])
            wanted = SessionId(session_id)
            remove = partial(keeping.store.delete, scope, wanted)
            is_purge = purge and keeping.heartbeat is None  # nodes overwrite nothing
            await self._shared.fan_in.settle(scope, session_id)
            async with self.clearing_notes(scope, wanted):
                deleted = await (
                    keeping.overwriter.purge(remove) if is_purge else keeping.remove(scope, wanted, remove)
                )
                self._shared.ended.drop_tree(scope, session_id)
            return deleted

    @asynccontextmanager
    async def clearing_notes(self, scope: str, session_id: SessionId) -> AsyncIterator[None]:
        """Remove the notes of a session that the block deletes, and the row about its lost records. The notes later, if the outcome is not known."""
        notes = await self._notes_of(scope, session_id)
        keeping = self._shared.store_of("delete_session")
        if notes is None:
            yield
            keeping.forget_behind(scope, session_id)
            return
        row = owed_notes(scope, session_id, notes.owner, notes.session)
        # Owed, then deleted, then cleared: after a crash at any point, the session has its notes, or the next process clears them.
        if offers(keeping.store, OwedStore):
            await keeping.write(partial(keeping.store.change_owed, (row,)))
        settle = partial(notes.settle, keeping.store, row)
        try:
            yield
            keeping.forget_behind(scope, session_id)
            await notes.clear()
            settle = partial(settle_notes, keeping.store, row, None)
        finally:
            keeping.writer.repeat(OWED_NOTES, row.id, settle)

    def settle_left_notes(self) -> None:
        """Clear notes that an earlier process left when it deleted their sessions, before any session starts."""
        desks, keeping = self._shared.dependencies.desks, self._shared.keeping
        if keeping is not None and desks is not None and desks.notes is not None:
            settle = partial(settle_left_notes, keeping.store, desks.notes.store)
            keeping.writer.repeat(OWED_NOTES, "", settle)

    async def _notes_of(self, scope: str, session_id: SessionId) -> OwnNotes | None:
        """Return the working notes of a session. Its journal names their owner."""
        desks = self._shared.dependencies.desks
        try:
            if desks is not None and (facts := await self.facts_of(session_id, scope=scope)) is not None:
                return desks.notes_of(session_id, scope, facts.user_data)
        except (AgentrailError, MsgspecError) as error:  # a session that cannot be read can be deleted
            if isinstance(error, StoreUnavailable):  # only its journal names its notes
                raise
        return None

    async def look_back(self, cell: SessionCell, read: Callable[[Journal], T]) -> T:
        keeping, ports = self._shared.store_of("journal"), cell.ports
        finder, watch = self._code_of(
            ports.session_id,
            () if cell.options is None else cell.options.plugins,
            own=cell.plugins,
            user_data=ports.user_data,
            withheld=ports.withheld,
        )
        return await keeping.fold(
            partial(_read_stored, keeping.store, ports.scope, ports.session_id, finder, watch, read)
        )


def _fault_of_place(name: str, value: object, parts: str, first: type) -> str | None:
    if value is None or (isinstance(value, tuple) and tuple(map(type, value)) == (first, str)):
        return None
    return f"{name} is {repr_of(value):.200}: expected {parts} as a tuple, or None"


def _read_stored(  # noqa: PLR0913, PLR0917 - the session, and the code of its plugins
    store: Store,
    scope: str,
    session_id: str,
    finder: PluginFinder,
    watch: QuietWatch,
    read: Callable[[Journal], T],
) -> T:
    return read(Journal(store, stored_of(store, scope, SessionId(session_id)), finder, watch))
