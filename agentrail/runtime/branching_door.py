"""The calls of a supervisor about the journals of its store: look back, branch off, trim, delete."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import trio

from agentrail.abc import Sandbox
from agentrail.core.journal.files import FilesBehind
from agentrail.core.journal.folding import asked_by
from agentrail.core.session.state import SessionState
from agentrail.errors import OptionError, SessionDown, SessionRefused, StillNeeded
from agentrail.messages import SessionId
from agentrail.otp.child_specs import Restart
from agentrail.runtime.arguments import fault_of_text, refuse
from agentrail.runtime.assembly import Dependencies, assemble, decide_refusal
from agentrail.runtime.beginnings import Beginnings
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
from agentrail.runtime.plugin_watch import PluginWatch, QuietWatch
from agentrail.runtime.restoring import (
    RestoredFiles,
    copy_files,
    directory_of_fork,
    put_files_back,
    versioned_of,
)
from agentrail.runtime.reviving import check_may_trim, stored_of
from agentrail.runtime.scopes import NO_SCOPE, fault_of_scope, key_of
from agentrail.runtime.session import SessionCell
from agentrail.runtime.workspace import Workspace

T = TypeVar("T")


class BranchingDoor(ABC):
    """The calls of a supervisor that read journals, begin forks, and drop what is not needed."""

    _keeping: Keeping | None
    _dependencies: Dependencies
    _down: str | None
    _beginnings: Beginnings

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
        keeping = self._store_of("delete_session")
        key = key_of(scope, session_id)
        async with self._beginnings.reserve(key):
            if self._known(key) is not None:
                raise StillNeeded(session_id, by=["this process, where it is alive: stop it first"])
            remove = partial(keeping.store.delete, scope, SessionId(session_id))
            return await (keeping.overwriter.purge(remove) if purge else keeping.write(remove))

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
        keeping = self._store_of("trim_session")
        store, wanted = keeping.store, SessionId(session_id)
        # Most is read beside the writer, and by it only what came meanwhile.
        seen = await keeping.read(partial(check_may_trim, store, scope, wanted, before))

        def trim() -> int:
            check_may_trim(store, scope, wanted, before, seen=seen)
            return store.trim(scope, wanted, before)

        return await keeping.write(trim)

    # --- what handles ask for

    async def _look_back(self, cell: SessionCell, read: Callable[[Journal], T]) -> T:
        """Let a function read the journal of a session, in a worker thread; four at a time.

        Raises:
            OptionError: Your move: there is no store.

        Cancellation: At once; what is read is thrown away.
        """
        keeping, options = self._store_of("journal"), _options_of(cell)
        watch = QuietWatch(
            cell.ports.session_id,
            cell.ports.user_data,
            self._dependencies.outside,
            withheld=cell.ports.withheld,
        )
        finder = finder_for(cell, options, watch)
        watch.find_others(finder)

        def work() -> T:
            stored = stored_of(keeping.store, cell.ports.scope, cell.ports.session_id)
            return read(Journal(keeping.store, stored, finder, watch))

        return await keeping.fold(work)

    async def _restore_files(self, cell: SessionCell, number: int, *, force: bool) -> RestoredFiles:
        """Let the files of a session be what they were behind a record.

        Raises:
            Exception: As of `Session.rewind`.

        Cancellation: As of `put_files_back`.
        """
        keeping, sandbox = self._store_of("rewind"), versioned_of(cell, "rewind")
        behind = await self._look_back(cell, lambda journal: journal.files_behind(number))
        return await put_files_back(cell, sandbox, behind, keeping.store.blob, force=force)

    async def _begin_fork(
        self,
        cell: SessionCell,
        at: int | None,
        turn: int | None,
        given: Mapping[str, Any],
        *,
        files: bool = False,
    ) -> SessionCell:
        """Begin a fork of a session.

        Raises:
            Exception: As of `Session.fork`.

        Cancellation: Until its journal is begun nothing was done.
        """
        keeping = self._store_of("fork")
        check_root(cell, "fork")
        scope = cell.ports.scope
        wanted = given.get("session_id") or f"s-{self._dependencies.outside.ids(6)}"
        if not files:
            return await self._fork_cell(cell, at, turn, {**given, "session_id": wanted})
        sandbox = versioned_of(cell, "fork")
        directory = directory_of_fork(given, _options_of(cell), cell.ports.working_dir, wanted)
        elsewhere = {name: value for name, value in given.items() if name != "working_dir"}
        options_of_fork(_options_of(cell), SessionId(wanted), elsewhere)  # before anything is copied
        self._check_free(scope, SessionId(wanted))

        def look(journal: Journal) -> tuple[int, FilesBehind]:
            number = journal.number_of(at, turn)
            return number, journal.files_behind(number)

        number, behind = await self._look_back(cell, look)
        copied = await copy_files(sandbox, directory, behind, keeping.store.blob, wanted)
        fork: SessionCell | None = None
        try:
            place = await copied.place_for(_options_of(cell).sandbox)
            given = {**given, "session_id": wanted, "working_dir": directory, "sandbox": place}
            fork = await self._fork_cell(cell, number, None, given, own=copied.sandbox)
        finally:
            if fork is None:
                await copied.remove()  # noqa: ASYNC102 - shielded inside
        return fork

    async def _fork_cell(
        self,
        cell: SessionCell,
        at: int | None,
        turn: int | None,
        given: Mapping[str, Any],
        *,
        own: Sandbox | None = None,
    ) -> SessionCell:
        keeping, parent, scope = self._store_of("fork"), cell.ports.session_id, cell.ports.scope
        wanted = given["session_id"]
        options = options_of_fork(_options_of(cell), SessionId(wanted), given)
        session_id = SessionId(options.session_id or "")
        self._check_free(scope, session_id)
        fresh, workspace = assemble(session_id, options, self._dependencies)
        if own is not None and options.sandbox is own:
            workspace.take(own)
        watch = fresh.state.data.stack.ask
        assert isinstance(watch, PluginWatch)  # noqa: S101 - `assemble` made it
        finder = finder_for(cell, options, watch)
        watch.find_others(finder)
        quiet = watch.quiet()
        at_ms = now_ms()

        def work() -> tuple[int, SessionState]:
            stored = stored_of(keeping.store, scope, parent)
            journal = Journal(keeping.store, stored, finder, quiet)
            number = journal.number_of(at, turn)
            return number, state_of_fork(journal.state_behind(number), fresh.state, given, at_ms)

        number, state = await keeping.fold(work)
        state = asked_by(state, watch)
        fork = SessionCell(state, ports_of_fork(state, fresh.ports, cell.ports))
        watch.report_to(fork.mailbox)
        refused = decide_refusal(state, now_ms())
        if refused is not None:
            raise SessionRefused(session_id, refused)
        async with self._beginnings.reserve(fork.ports.key):
            self._check_free(scope, session_id)
            await keeping.begin(fork, forked_from=(parent, number))
            if self._down is not None:
                raise SessionDown(session_id, self._down)
            fork.options = options
            self._begin(fork, workspace, options.restart)
        return fork

    def _make_ready(self, cell: SessionCell, then: SessionState) -> None:
        """Let a session have the code that an earlier state of it needs.

        Raises:
            Unrevivable: Your move: it is not there any more.
        """
        take_code(then, cell)

    @abstractmethod
    def _check_free(self, scope: str, session_id: SessionId) -> None: ...

    @abstractmethod
    def _store_of(self, call: str) -> Keeping: ...

    @abstractmethod
    def _known(self, key: str) -> SessionCell | None: ...

    @abstractmethod
    def _begin(self, cell: SessionCell, workspace: Workspace, restart: Restart) -> Session: ...


def _options_of(cell: SessionCell) -> SessionOptions:
    assert cell.options is not None  # noqa: S101 - a session with a store has them
    return cell.options
