"""The calls of a supervisor about the journals of its store: look back, branch off, trim, delete."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import trio

from agentrail.core.session.state import SessionState
from agentrail.errors import AlreadyStarted, OptionError, SessionDown, SessionRefused, StillNeeded
from agentrail.messages import SessionId
from agentrail.otp.child_specs import Restart
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.runtime.assembly import Dependencies, assemble, decide_refusal
from agentrail.runtime.branching import (
    finder_for,
    options_of_fork,
    ports_of_fork,
    state_of_fork,
    take_code,
)
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session
from agentrail.runtime.keeping import Keeping
from agentrail.runtime.looking_back import check_root
from agentrail.runtime.options import SessionOptions
from agentrail.runtime.past import Journal
from agentrail.runtime.plugin_watch import PluginWatch
from agentrail.runtime.reviving import stored_of
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope, key_of
from agentrail.runtime.session import SessionCell
from agentrail.runtime.workspace import Workspace

T = TypeVar("T")


class BranchingDoor(ABC):
    """The calls of a supervisor that read journals, begin forks, and drop what is not needed."""

    _keeping: Keeping | None
    _dependencies: Dependencies
    _down: str | None

    async def delete_session(self, session_id: str, *, scope: str = NO_SCOPE) -> int:
        """Remove a stored session with all that works for it: records, snapshots, and large values that no other has.

        Args:
            session_id: Its id; of a root that is not alive here.
            scope: The one that it was started in.

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
        keeping = self._store_of("delete_session")
        if self._known(key_of(scope, session_id)) is not None:
            raise StillNeeded(session_id, by=["this process, where it is alive: stop it first"])
        return await keeping.write(partial(keeping.store.delete, scope, SessionId(session_id)))

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
            StillNeeded: Your move: a fork begins at one of them; `by` says which.
            StoreUnavailable: The store takes nothing for now.

        Cancellation: What has not begun is not done; what has is.
        """
        refuse(fault_of_text("session_id", session_id), fault_of_scope("scope", scope))
        if type(before) is not int or before < 1:
            raise OptionError([f"before is {before!r}: expected a whole number from 1"])
        await trio.lowlevel.checkpoint()
        keeping = self._store_of("trim_session")
        return await keeping.write(partial(keeping.store.trim, scope, SessionId(session_id), before))

    # --- what handles ask for

    async def look_back(self, cell: SessionCell, read: Callable[[Journal], T]) -> T:
        """Let a function read the journal of a session, in a worker thread; four at a time.

        Raises:
            OptionError: Your move: there is no store.

        Cancellation: At once; what is read is thrown away.
        """
        keeping, options = self._store_of("journal"), _options_of(cell)
        watch = PluginWatch(cell.ports.session_id, cell.ports.user_data, self._dependencies.outside)
        finder = finder_for(cell, options, watch)
        watch.find_others(finder)

        def work() -> T:
            stored = stored_of(keeping.store, cell.ports.scope, cell.ports.session_id)
            return read(Journal(keeping.store, stored, finder, watch))

        return await keeping.fold(work)

    async def fork_cell(
        self, cell: SessionCell, at: int | None, turn: int | None, given: Mapping[str, Any]
    ) -> SessionCell:
        """Begin a fork of a session.

        Raises:
            Exception: As of `Session.fork`.

        Cancellation: Until its journal is begun nothing was done.
        """
        keeping = self._store_of("fork")
        check_root(cell, "fork")
        parent, scope = cell.ports.session_id, cell.ports.scope
        wanted = given.get("session_id") or f"s-{self._dependencies.outside.ids(6)}"
        options = options_of_fork(_options_of(cell), SessionId(wanted), given)
        session_id = SessionId(options.session_id or "")
        self._check_free(scope, session_id)
        fresh, workspace = assemble(session_id, options, self._dependencies)
        watch = fresh.state.data.stack.ask
        assert isinstance(watch, PluginWatch)  # noqa: S101 - `assemble` made it
        finder = finder_for(cell, options, watch)
        watch.find_others(finder)
        at_ms = now_ms()

        def work() -> tuple[int, SessionState]:
            stored = stored_of(keeping.store, scope, parent)
            journal = Journal(keeping.store, stored, finder, watch)
            number = journal.number_of(at, turn)
            return number, state_of_fork(journal.state_behind(number), fresh.state, given, at_ms)

        number, state = await keeping.fold(work)
        fork = SessionCell(state, ports_of_fork(state, fresh.ports, cell.ports))
        watch.report_to(fork.mailbox.put_notice)
        refused = decide_refusal(state, now_ms())
        if refused is not None:
            raise SessionRefused(session_id, refused)
        self._check_free(scope, session_id)
        await keeping.begin(fork, forked_from=(parent, number))
        if self._down is not None:
            raise SessionDown(session_id, self._down)
        fork.options = options
        self._begin(fork, workspace, options.restart)
        return fork

    def make_ready(self, cell: SessionCell, then: SessionState) -> None:
        """Let a session have the code that an earlier state of it needs.

        Raises:
            Unrevivable: Your move: it is not there any more.
        """
        take_code(then, cell)

    def _check_free(self, scope: str, session_id: SessionId) -> None:
        if self._down is not None:
            raise SessionDown(session_id, self._down)
        known = self._known(key_of(scope, session_id))
        if known is not None:
            message = f"session {session_id!r} is alive already: give the fork another id, or none"
            raise AlreadyStarted(message, handle=Session(known))

    @abstractmethod
    def _store_of(self, call: str) -> Keeping: ...

    @abstractmethod
    def _known(self, key: str) -> SessionCell | None: ...

    @abstractmethod
    def _begin(self, cell: SessionCell, workspace: Workspace, restart: Restart) -> Session: ...


def _options_of(cell: SessionCell) -> SessionOptions:
    assert cell.options is not None  # noqa: S101 - a session with a store has them
    return cell.options
