"""The calls of a supervisor that ask its store and leave sessions as they are: neither woken nor taken, and they may have ended.

For who looks after sessions of others: a look that woke them would be a load, and would let timers and calls go on.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import trio

from agentrail.core.stack.loading import PluginEntry
from agentrail.core.stack.plugin_code import part_entry
from agentrail.messages import SessionId
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.runtime.assembly import Dependencies
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.past import (
    Journal,
    JournalEntry,
    PastState,
    fault_of_after,
    fault_of_limit,
    journal_entries,
)
from agentrail.runtime.plugin_watch import QuietWatch
from agentrail.runtime.reviving import PluginFinder, stored_of
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope


class ReadingDoor(ABC):
    """The calls of a supervisor that read what its store has of a session."""

    _dependencies: Dependencies

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
        await trio.lowlevel.checkpoint()
        keeping, wanted = self._store_of("stored_state"), SessionId(session_id)
        watch = QuietWatch(wanted, {}, self._dependencies.outside)
        given = [part_entry(entry, watch)[0] for entry in plugins]
        finder = PluginFinder({plugin.name: plugin for plugin in given})
        watch.find_others(finder)

        def work() -> PastState:
            stored = stored_of(keeping.store, scope, wanted)
            return Journal(keeping.store, stored, finder, watch).past_state(stored.tail.seq)

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
    def _store_of(self, call: str) -> Keeping: ...
