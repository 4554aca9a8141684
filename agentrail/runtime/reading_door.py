"""The calls of a supervisor that ask its store and leave sessions as they are: neither woken nor taken, and they may have ended.

For who looks after sessions of others: a look that woke them would be a load, and would let timers and calls go on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import trio

from agentrail.abc.store import Store
from agentrail.core.journal.explaining import ExplainedStep
from agentrail.core.stack.loading import PluginEntry
from agentrail.core.stack.plugin_code import part_entry
from agentrail.errors import SessionNotFound
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.runtime.assembly import Dependencies
from agentrail.runtime.inspecting import (
    InspectedState,
    JournalPage,
    WantedRecords,
    explanation_of_journal,
    page_of_journal,
    state_of_journal,
)
from agentrail.runtime.keeping import Keeping
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
from agentrail.runtime.reviving import PluginFinder, stored_of
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope, key_of
from agentrail.runtime.session import SessionCell

T = TypeVar("T")


class ReadingDoor(ABC):
    """The calls of a supervisor that read what its store has of a session."""

    _dependencies: Dependencies
    _keeping: Keeping | None

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
        keeping = self._store_of("stored_journal")

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
        return await self._look_into(
            "stored_state",
            SessionId(session_id),
            scope,
            plugins,
            lambda journal, _: journal.past_state(journal.stored.tail.seq),
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
        return await self._look_into(
            "find_records",
            SessionId(session_id),
            scope,
            plugins,
            lambda journal, store: page_of_journal(journal, store, wanted),
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
        return await self._look_into(
            "plain_state_at",
            SessionId(session_id),
            scope,
            plugins,
            lambda journal, _: state_of_journal(journal, number, since),
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
        return await self._look_into(
            "explain_record",
            SessionId(session_id),
            scope,
            plugins,
            lambda journal, _: explanation_of_journal(journal, number),
        )

    async def _look_into(
        self,
        call: str,
        session_id: SessionId,
        scope: str,
        plugins: Sequence[PluginEntry],
        look: Callable[[Journal, Store], T],
    ) -> T:
        """Let a function read the journal of a session in a thread, with what its plugins come from; four at a time."""
        await trio.lowlevel.checkpoint()
        keeping = self._store_of(call)
        watch = QuietWatch(session_id, {}, self._dependencies.outside)
        given = [part_entry(entry, watch)[0] for entry in plugins]
        finder = PluginFinder({plugin.name: plugin for plugin in given})
        watch.find_others(finder)

        def work() -> T:
            stored = stored_of(keeping.store, scope, session_id)
            return look(Journal(keeping.store, stored, finder, watch), keeping.store)

        return await keeping.fold(work)

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
        keeping = self._keeping
        kept = () if cell is None else cell.bus.kept
        if keeping is None:
            if cell is None:
                raise SessionNotFound(session_id)
            return page_of_events(asked, cell.bus.last_seq, (), partial(read_kept, kept, cell.bus.last_seq))
        withheld = None if cell is None else cell.ports.withheld
        watch = QuietWatch(SessionId(session_id), {}, self._dependencies.outside, withheld=withheld)
        given = [part_entry(entry, watch)[0] for entry in plugins]
        own = () if cell is None else cell.plugins
        finder = PluginFinder({plugin.name: plugin for plugin in (*given, *own)})
        watch.find_others(finder)
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
        await self._store_of("check_store").check()

    @abstractmethod
    def _seen(self, key: str) -> SessionCell | None: ...

    @abstractmethod
    def _store_of(self, call: str) -> Keeping: ...
