"""The stored sessions of a supervisor: found, read, inspected, exported, trimmed and deleted.

Nothing here wakes a session or takes it over, and most of them may have ended. For operators: a read that woke sessions would be a load.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import trio

from agentrail.abc.store import Filters, OwedRow, OwedStore, Store, StoredSession
from agentrail.core.journal.explaining import ExplainedStep
from agentrail.core.stack.loading import PluginEntry
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_code import part_entry
from agentrail.core.values.offered import offers
from agentrail.errors import OptionError, SessionNotFound, StillNeeded
from agentrail.events import Event
from agentrail.frozen import EMPTY
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_choice, fault_of_flag, fault_of_text, refuse
from agentrail.runtime.exporting import (
    ExportFormat,
    export_spans,
    export_stored,
    import_stored,
    leaving_export,
    render_markdown,
)
from agentrail.runtime.inspecting import (
    InspectedState,
    JournalPage,
    WantedRecords,
    explanation_of_journal,
    page_of_journal,
    state_of_journal,
)
from agentrail.runtime.past import (
    Journal,
    JournalEntry,
    PastState,
    fault_of_after,
    fault_of_limit,
    fault_of_number,
    journal_entries,
)
from agentrail.runtime.past_events import PageAsked, PageOfEvents, fault_of_page, page_of_events, read_kept
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.reviving import PluginFinder, check_may_trim, stored_of
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope, key_of
from agentrail.runtime.session import SessionCell
from agentrail.runtime.session_facts import SessionFacts, facts_of_cell, stored_facts
from agentrail.runtime.shared import Shared
from agentrail.runtime.spending_book import SessionSpending, SpendingBook
from agentrail.runtime.withheld import Withheld

T = TypeVar("T")


class Journals:
    """The part of a supervisor that reads and writes stored sessions."""

    def __init__(
        self,
        shared: Shared,
        *,
        known: Callable[[str], SessionCell | None],
        seen: Callable[[str], SessionCell | None],
    ) -> None:
        """Read nothing yet."""
        self._shared = shared
        self._known, self._seen = known, seen
        self._book: SpendingBook | None = None
        self._booking = trio.Lock()

    async def find(
        self,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        *,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> Sequence[StoredSession]:
        """Look for sessions in the store, alive or not, without reading their journals.

        Args:
            filters: Which ones.
            after: Behind which scope and id to go on; None to begin.
            limit: How many at most.

        Returns:
            In the order of their scopes and ids.

        Raises:
            OptionError: Your move: there is no store.
            StoreUnavailable: It cannot be read now.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("find")
        return await keeping.read(partial(keeping.store.find, filters, after=after, limit=limit))

    @property
    def keeps_owed(self) -> bool:
        """Whether there is a store, and it keeps what is owed to others too."""
        return self._owed_store is not None

    async def owed(self, kind: str, *, after: str = "", limit: int = 1000) -> tuple[OwedRow, ...]:
        """Give what the store keeps of what is owed; see `OwedStore.owed`.

        Raises:
            OptionError: Your move: there is no store that keeps it.
            StoreUnavailable: It cannot be read now.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        store = self._owing("owed")
        return await self._shared.store_of("owed").read(partial(store.owed, kind, after, limit))

    async def change_owed(self, put: Sequence[OwedRow], drop: Sequence[tuple[str, str]] = ()) -> None:
        """Let the store keep what is owed, and forget what is owed no longer; see `OwedStore.change_owed`.

        Raises:
            OptionError: Your move: there is no store that keeps it.
            StoreUnavailable: It takes nothing for now, and nothing is known of what it did: do it again.

        Cancellation: What has not begun is not done.
        """
        await trio.lowlevel.checkpoint()
        store = self._owing("change_owed")
        await self._shared.store_of("change_owed").write(partial(store.change_owed, tuple(put), tuple(drop)))

    @property
    def _owed_store(self) -> OwedStore | None:
        store: object = None if self._shared.keeping is None else self._shared.keeping.store
        return store if offers(store, OwedStore) else None

    def _owing(self, call: str) -> OwedStore:
        store = self._owed_store
        if store is None:
            message = f"{call} needs a store that keeps what is owed, as those of agentrail do"
            raise OptionError([message])
        return store

    async def facts_of(self, session_id: str, *, scope: str = NO_SCOPE) -> SessionFacts | None:
        """Say what is known of a session, alive or in the store. It is neither woken nor taken.

        Args:
            session_id: Its id.
            scope: The one that it was started in.

        Returns:
            None: there is none, as far as is known here; or all that was known of it was erased.

        Raises:
            OptionError: Your move: an id that is no text, or a scope that can be none.
            StoreUnavailable: It is not alive here, and the store cannot be read now.

        Cancellation: Always a checkpoint.
        """
        refuse(fault_of_text("session_id", session_id), fault_of_scope("scope", scope))
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
        """Read the journal of a session, as far as it is durable. It is neither woken nor taken, and may have ended.

        Args:
            session_id: Its id.
            after: The number behind which to begin.
            limit: How many records at most, up to 10,000.
            scope: The one that it was started in.

        Returns:
            Records in order, from number `after + 1`; none behind the last one.

        Raises:
            OptionError: Your move: there is no store, or an argument that cannot be.
            SessionNotFound: Your move: the store has none of this id.
            Trimmed: What was asked for was dropped; `first` is there.
            StoreUnavailable, CodecError: It cannot be read.

        Cancellation: At once.
        """
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_after(after),
            fault_of_limit(limit),
        )
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("stored_journal")

        def work() -> tuple[JournalEntry, ...]:
            stored = stored_of(keeping.store, scope, SessionId(session_id))
            return journal_entries(keeping.store, stored, after, limit)

        return await keeping.read(work)

    async def stored_state(
        self, session_id: str, *, scope: str = NO_SCOPE, plugins: Sequence[PluginEntry] = ()
    ) -> PastState:
        """Fold the journal of a session to what it is, as far as that is durable. It is neither woken nor taken, and may have ended.

        Args:
            session_id: Its id.
            scope: The one that it was started in.
            plugins: The code of its plugins, as of `resume_session`; others are looked for where they were defined.

        Returns:
            How it stands behind its last record, and its conversation.

        Raises:
            OptionError: Your move: there is no store, or an argument that cannot be.
            PluginError: Your move: a plugin that is none.
            SessionNotFound: Your move: the store has none of this id.
            Unrevivable: Your move: a plugin that it had is not there.
            Trimmed, Erased, JournalCorrupt, CodecError, StoreUnavailable: It cannot be read.

        Cancellation: At once. It is worked out in a thread, four at a time.
        """
        refuse(fault_of_text("session_id", session_id), fault_of_scope("scope", scope))
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
        """Find records in the journal of a session, as far as it is durable. It is neither woken nor taken, and may have ended.

        Args:
            session_id: Its id.
            wanted: Which records.
            scope: The one that it was started in.
            plugins: The code of its plugins, as of `stored_state`; asked only where those of a plugin are wanted.

        Returns:
            Records in order, without secrets that are known by now, and where to go on. One call looks through 20,000 records at most, so
            it may give fewer than there are; where those of a plugin are wanted it is worked out from all that was asked for.

        Raises:
            OptionError: Your move: there is no store, or an argument that cannot be.
            SessionNotFound: Your move: the store has none of this id.
            Trimmed: What was asked for was dropped; `first` is there.
            Unrevivable, Erased, JournalCorrupt: As of `stored_state`, where those of a plugin are wanted.
            StoreUnavailable, CodecError: It cannot be read.

        Cancellation: At once. It is worked out in a thread, four at a time.
        """
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_after(wanted.after),
            fault_of_limit(wanted.limit),
            None if wanted.before is None else fault_of_number("before", wanted.before),
        )
        return await self._fold(
            "find_records",
            session_id,
            scope,
            plugins,
            lambda journal: page_of_journal(journal, journal.store, wanted),
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
        """Say what a session was behind a record as plain data, and what changed since another one. It is neither woken nor taken.

        Args:
            session_id: Its id.
            number: Of the record, from 1.
            since: Of the record whose state the JSON Patch begins with; None for no patch.
            scope: The one that it was started in.
            plugins: As of `stored_state`.

        Returns:
            The state without secrets that are known by now, and the patch.

        Raises:
            OptionError: Your move: there is no store, or no such record; the message has the range.
            SessionNotFound: Your move: the store has none of this id.
            Trimmed: The records that it takes were dropped; `first` is the first number that can be asked for.
            Unrevivable, Erased, JournalCorrupt, CodecError, StoreUnavailable: As of `stored_state`.

        Cancellation: At once. It is worked out in a thread, four at a time.
        """
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
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
        """Say what a record came to, and why: who was asked, what won, what was decided. The session is neither woken nor taken.

        Args:
            session_id: Its id.
            number: Of the record, from 1.
            scope: The one that it was started in.
            plugins: As of `stored_state`.

        Returns:
            What `agentrail sessions replay --explain` tells of it, without secrets that are known by now.

        Raises:
            AgentrailError: As of `plain_state_at`; a number is `Trimmed`, too, where only what stands in front of it was dropped.

        Cancellation: At once. It is worked out in a thread, four at a time.
        """
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_number("number", number, needed=True),
        )
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
        """Read the journal of a session in a worker thread, with the code of its plugins; four at a time.

        Cancellation: At once; what was read is thrown away.
        """
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of(call)
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
        """Find the code of plugins: `own`, else as it was given, else where it was defined. A thread may own both results."""
        watch = QuietWatch(
            SessionId(session_id), user_data, self._shared.dependencies.outside, withheld=withheld
        )
        parts = [part_entry(entry, watch)[0] for entry in given]
        finder = PluginFinder({plugin.name: plugin for plugin in (*parts, *own)})
        watch.find_others(finder)
        return finder, watch

    async def events_page(  # noqa: PLR0913 - which part of which session
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 200,
        kinds: Iterable[type[Event]] | None = None,
        scope: str = NO_SCOPE,
        plugins: Sequence[PluginEntry] = (),
    ) -> PageOfEvents:
        """Read a part of what a session has published, forth or back. It is neither woken nor taken, and may have ended.

        Args:
            session_id: Its id.
            before: The number in front of which to end. With neither this nor `after` it is the last part.
            after: The number behind which to begin.
            limit: How many events at most, up to 5,000.
            kinds: Only of these classes; None for all.
            scope: The one that it was started in.
            plugins: The code of its plugins, as of `stored_state`; of one that is here its own is taken.

        Returns:
            The events in order, with where the page begins and ends. Without a store there are only those that are kept in memory.

        Raises:
            OptionError: Your move: an argument that cannot be.
            SessionNotFound: Your move: there is none of this id.
            Erased, JournalCorrupt, CodecError, PluginError, StoreUnavailable: It cannot be read.

        Cancellation: At once. What is not in memory is worked out in a thread, four at a time.
        """
        wanted = None if kinds is None else frozenset(kinds)
        asked = PageAsked(before=before, after=after, limit=limit, kinds=wanted)
        refuse(fault_of_text("session_id", session_id), fault_of_scope("scope", scope), fault_of_page(asked))
        await trio.lowlevel.checkpoint()
        cell = self._seen(key_of(scope, session_id))
        keeping = self._shared.keeping
        kept = () if cell is None else cell.bus.kept
        if keeping is None:
            if cell is None:
                raise SessionNotFound(session_id)
            return page_of_events(asked, cell.bus.last_seq, (), partial(read_kept, kept, cell.bus.last_seq))
        withheld = None if cell is None else cell.ports.withheld
        own = () if cell is None else cell.plugins
        finder, watch = self._code_of(session_id, plugins, own=own, withheld=withheld)
        last = None if cell is None else cell.bus.last_seq
        past = keeping.past_events

        def work() -> PageOfEvents:
            stored = stored_of(keeping.store, scope, SessionId(session_id))
            return past.page(stored, asked, kept, last, finder, watch)

        return await keeping.fold(work)

    async def check_store(self) -> None:
        """Find out whether the store takes records and gives them: for checks of readiness. Something is written, once a second at most.

        Raises:
            OptionError: Your move: there is no store.
            StoreUnavailable: It does not, for now.

        Cancellation: At once.
        """
        await trio.lowlevel.checkpoint()
        await self._shared.store_of("check_store").check()

    async def spendings(
        self, *, scope: str | None = None, since_ms: int | None = None
    ) -> tuple[SessionSpending, ...]:
        """Say what sessions have used, from their journals: also those that have ended, and each that works for another by itself.

        Args:
            scope: Only sessions of this scope, `""` for those without one; None for all.
            since_ms: Only sessions that were written since, in milliseconds since 1970; None for all.

        Raises:
            OptionError: Your move: there is no store, or a scope that can be none.
            StoreUnavailable: The store cannot be read now.

        Cancellation: At once; what was read by then is kept for the next look. It is worked out in a thread, one look at a time, and of
            what was read before only what was written since is read.
        """
        refuse(fault_of_scope("scope", scope) if scope else None)
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("spendings")
        live = {
            entry.cell.ports.key: tuple(entry.cell.plugins)
            for entry in self._shared.entries.values()
            if not entry.cell.is_asleep
        }
        async with self._booking:
            # A look that was cancelled may still be at it, in its thread: its book is left to it.
            book, self._book = self._book or SpendingBook(keeping.store), None
            book.find_code_with(
                lambda of, session: self._code_of(session, own=live.get(key_of(of, session), ()))
            )
            told = await keeping.fold(partial(book.look, scope, since_ms))
            self._book = book
        return told

    async def export_session(
        self,
        session_id: str,
        *,
        format: ExportFormat = "jsonl",  # noqa: A002 - its name at the command line, too
        content: bool = True,
        scope: str = NO_SCOPE,
    ) -> bytes:
        """Write a stored session as a file, alive or not, as far as it is durable.

        Args:
            session_id: Its id.
            format: `jsonl` has all, with the sessions that work for it, and can be imported; `markdown` is the conversation, for people;
                `otlp` is spans for OpenTelemetry, a line of JSON for each session, as its file exporter writes them: of cycles,
                requests, calls and children. The same journal gives the same spans.
            content: Whether what was said goes along; else kinds, numbers, times and sizes.
            scope: The one that it was started in.

        Returns:
            UTF-8.

        Raises:
            OptionError: Your move: there is no store, or an argument that cannot be.
            SessionNotFound: Your move: the store has none of this id.
            Trimmed: Its first records were dropped, so that it could not be imported.
            JournalCorrupt, CodecError, PluginError, StoreUnavailable: It cannot be read.

        Cancellation: At once.
        """
        refuse(
            fault_of_text("session_id", session_id),
            fault_of_scope("scope", scope),
            fault_of_choice("format", format, ("jsonl", "markdown", "otlp")),
            fault_of_flag("content", content),
        )
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("export_session")
        finder, watch = self._code_of(session_id)

        def export(journal: Journal) -> bytes:
            store, stored = journal.store, journal.stored
            if format == "jsonl":
                data = b"".join(export_stored(store, stored, content=content))
                return leaving_export(data, is_exact=content)
            if format == "otlp":
                return leaving_export(
                    b"".join(export_spans(store, stored, watch, content=content)), is_exact=False
                )
            state = journal.state_behind(stored.tail.seq)
            text = render_markdown(state.data.history.messages[:], content=content)
            return leaving_export(text.encode(), is_exact=False)

        return await keeping.fold(
            partial(_read_stored, keeping.store, scope, session_id, finder, watch, export)
        )

    async def import_session(self, data: bytes) -> tuple[SessionId, ...]:
        """Write the sessions of a `jsonl` export into the store, bit for bit as they were; none of them begins to work.

        What is there already and is the same stays as it is.

        Returns:
            Which sessions, the root first; `resume_session` brings it back.

        Raises:
            OptionError: Your move: there is no store, it is no export, or one without content.
            JournalCorrupt: It was changed; the number of the first record that was is there. Nothing was written.
            AlreadyExists: Your move: the store has another session of this id.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: What has not begun is not done; what has is.
        """
        if not isinstance(data, bytes):
            raise OptionError([f"data is {data!r:.80}: expected the bytes of an export"])
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("import_session")
        return await keeping.write(partial(import_stored, keeping.store, data))

    async def trim_session(self, session_id: str, *, before: int, scope: str = NO_SCOPE) -> int:
        """Drop the first records of a stored session: what it was before a snapshot can be seen no more.

        Args:
            session_id: Its id.
            before: The number of the first record that stays. A snapshot has to stand there, or behind.
            scope: The one that it was started in.

        Returns:
            How many records that were.

        Raises:
            OptionError: Your move: there is no store, no snapshot, or no such record.
            SessionNotFound: Your move: the store has none of this id.
            StillNeeded: Your move: a fork begins at one of them, or the session went back to one; `by` says which.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: What has not begun is not done; what has is.
        """
        refuse(fault_of_text("session_id", session_id), fault_of_scope("scope", scope))
        if type(before) is not int or before < 1:
            raise OptionError([f"before is {before!r}: expected a whole number from 1"])
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("trim_session")
        store, wanted = keeping.store, SessionId(session_id)
        # Most is read beside the writer, and by it only what came meanwhile.
        seen = await keeping.read(partial(check_may_trim, store, scope, wanted, before))

        def trim() -> int:
            check_may_trim(store, scope, wanted, before, seen=seen)
            return store.trim(scope, wanted, before)

        return await keeping.write(trim)

    async def delete_session(self, session_id: str, *, scope: str = NO_SCOPE, purge: bool = False) -> int:
        """Remove a stored session with all that works for it: records, snapshots, and large values that no other has.

        Args:
            session_id: Its id; of a root that is not alive here.
            scope: The one that it was started in.
            purge: Whether nothing of it is to be left in any file. What is deleted is overwritten where it stood; the copies that pages of a
                file may keep go when the file is written anew, half a minute after the last purge, and at the latest when the supervisor
                is closed. Sessions wait for that as for any commit, a second for some hundred MB. It is owed in the store: where the process dies, the next one does it.

        Returns:
            How many bytes that were.

        Raises:
            OptionError: Your move: there is no store, or a child is meant.
            SessionNotFound: Your move: the store has none of this id.
            StillNeeded: Your move: it is alive, here or on another node, or a fork names it; `by` says what.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: What has not begun is not done; what has is.
        """
        refuse(fault_of_text("session_id", session_id), fault_of_scope("scope", scope))
        await trio.lowlevel.checkpoint()
        keeping = self._shared.store_of("delete_session")
        key = key_of(scope, session_id)
        async with self._shared.beginnings.reserve(key):
            if self._known(key) is not None:
                raise StillNeeded(session_id, by=["this process, where it is alive: stop it first"])
            remove = partial(keeping.store.delete, scope, SessionId(session_id))
            return await (keeping.overwriter.purge(remove) if purge else keeping.write(remove))

    async def look_back(self, cell: SessionCell, read: Callable[[Journal], T]) -> T:
        """Read the journal of a session that is here; see `_fold`.

        Cancellation: At once; what was read is thrown away.
        """
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


def _read_stored(  # noqa: PLR0913, PLR0917 - of which session, and with which code
    store: Store,
    scope: str,
    session_id: str,
    finder: PluginFinder,
    watch: QuietWatch,
    read: Callable[[Journal], T],
) -> T:
    return read(Journal(store, stored_of(store, scope, SessionId(session_id)), finder, watch))
