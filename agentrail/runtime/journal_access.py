"""The past of a session, through its handle: its journal, the state after each record, forks, and rewinds."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, Self, TypeVar, Unpack, cast

import trio

from agentrail.abc import Provider
from agentrail.core.journal.fold import asked_by
from agentrail.core.journal.turn_index import PastTurn
from agentrail.core.session.fork import without_what_was_open
from agentrail.core.session.state import SessionState
from agentrail.errors import OptionError
from agentrail.runtime.arguments import fault_of, refuse
from agentrail.runtime.file_restore import RestoredFiles, Rewound, versioned_of
from agentrail.runtime.journal_state import (
    Journal,
    JournalEntry,
    PastState,
    fault_of_number,
)
from agentrail.runtime.keywords import SessionKeywords
from agentrail.runtime.rewind_request import RewindRequest
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.session_queries import AskingHandle
from agentrail.wire.operations import fault_of_place

_MAX_TRIES = 5

T = TypeVar("T")


class Branching(Protocol):
    async def look_back(self, cell: SessionCell, read: Callable[[Journal], T]) -> T: ...

    async def begin_fork(
        self,
        cell: SessionCell,
        at: int | None,
        turn: int | None,
        given: Mapping[str, Any],
        *,
        files: bool = False,
    ) -> SessionCell: ...

    async def restore_files(self, cell: SessionCell, number: int, *, force: bool) -> RestoredFiles: ...

    def make_ready(self, cell: SessionCell, then: SessionState) -> None: ...


class LookingBackHandle(AskingHandle):
    """A handle with access to the past of its session, if it has a store."""

    __slots__ = ()

    async def _do_journal(self, after: int, limit: int) -> tuple[JournalEntry, ...]:
        await trio.lowlevel.checkpoint()
        return await _branching(self._cell).look_back(
            self._cell, lambda journal: journal.entries(after, limit)
        )

    async def _do_state_at(self, number: int) -> PastState:
        await trio.lowlevel.checkpoint()
        return await _branching(self._cell).look_back(self._cell, lambda journal: journal.past_state(number))

    async def _do_turns(self, limit: int) -> tuple[PastTurn, ...]:
        await trio.lowlevel.checkpoint()
        return await _branching(self._cell).look_back(self._cell, lambda journal: journal.turns()[-limit:])

    async def fork(
        self,
        at: int | None = None,
        *,
        turn: int | None = None,
        files: bool = False,
        model: str | Provider | None = None,
        **options: Unpack[SessionKeywords],
    ) -> Self:
        """Start a session that continues from a record of this one, in a journal of its own. This one continues unchanged.

        The fork has the conversation, the plugin state and the spending of that point, and this session's code and
        files. Open work ends in it, and queued prompts stay behind. With `files` it gets a copy of the working
        directory, in which later writes by tools are undone, but not those by commands.

        Args:
            at: Record number after which to fork. None for the last durable one.
            turn: Turn after which to fork, counted from 1 over all cycles, instead of a number.
            files: Whether it works in a copy of the working directory: in `working_dir`, which must not exist or must
                be empty, otherwise next to that of this session. The copy is never removed.
            model: Same as `start_session`. None for the model at that point.
            **options: Options of `start_session` that differ from this session, such as `tools`, `budget` or `session_id`.

        Returns:
            The handle of the fork, when its journal has begun.

        Raises:
            OptionError: Your move: there is no store, this is a child session (the message names its root), no such record or
                turn (the
                message has the range), or invalid options; or with `files` a sandbox that does not keep the writes of its
                tools.
            SandboxError: Your move: with `files`, the copy failed. Nothing of it is left.
            Trimmed, Erased, Unrevivable, JournalCorrupt: Same as `state_at`.
            AlreadyExists, AlreadyStarted, SessionRefused, SessionDown, StoreUnavailable: Same as `start_session`.

        Cancellation: Nothing is done until the journal of the fork has begun. After that it is live.
        """
        refuse(
            fault_of_place(at, turn),
            fault_of_number("at", at),
            fault_of_number("turn", turn),
            fault_of("files", files, bool),
        )
        await trio.lowlevel.checkpoint()
        given: dict[str, Any] = {**options, **({} if model is None else {"model": model})}
        fork = await _branching(self._cell).begin_fork(self._cell, at, turn, given, files=files)
        return type(self)(fork)

    async def _do_rewind(
        self,
        to: int | None,
        *,
        turn: int | None,
        files: bool,
        force: bool,
        dry: bool,
    ) -> Rewound:
        await trio.lowlevel.checkpoint()
        cell, branching = self._cell, _branching(self._cell)
        await cell.awake()
        options_of_root(cell, "rewind")
        cell.pending_calls.refuse_self("rewind")
        if files:
            versioned_of(cell, "rewind")
        at_ms = now_ms()
        look = partial(_to_go_back_to, to, turn, cell.state, at_ms)
        number, then = await branching.look_back(cell, look)
        if dry:
            return Rewound(
                number=number,
                calls=await branching.look_back(cell, lambda journal: journal.calls_behind(number)),
            )
        branching.make_ready(cell, then)
        request = RewindRequest(number=number, then=then, at_ms=at_ms)
        await self._go_back(request)
        calls = await branching.look_back(cell, lambda journal: journal.calls_behind(number, request.seq))
        restored = await branching.restore_files(cell, number, force=force) if files else None
        return Rewound(number=number, calls=calls, files=restored)

    async def _go_back(self, request: RewindRequest) -> None:
        cell, session = self._cell, cast("Any", self)
        for _ in range(_MAX_TRIES):  # a prompt may arrive in between
            for call in (await session.status()).running_tools:
                if call.survivor:
                    await session.abort_tool(call.call_id, "rewind")
            await session.abort("rewind", kill_tools="all", clear_queue=True)
            if await cell.rewind(request):
                return
        fault = f"rewind: session {cell.ports.session_id!r} received new work each time it was stopped: stop its callers, and try again"
        raise OptionError([fault])


def _branching(cell: SessionCell) -> Branching:
    found: Branching | None = cell.branching
    if found is None:
        message = "a journal needs a store: open_supervisor(store='sqlite:'), or 'memory:' for tests"
        raise OptionError([message])
    return found


async def record_of_event(session: LookingBackHandle, event: int) -> int:
    refuse(fault_of_number("event", event, needed=True))
    await trio.lowlevel.checkpoint()
    branching = _branching(session._cell)  # noqa: SLF001 - same module
    return await branching.look_back(session._cell, lambda journal: journal.number_of_event(event))  # noqa: SLF001 - same module


def _to_go_back_to(
    to: int | None, turn: int | None, now: SessionState, at_ms: int, journal: Journal
) -> tuple[int, SessionState]:
    """Fold up to a number, and end the work open there. Plugins are called as those of the live session are. This blocks."""
    number = journal.number_of(to, turn)
    then = without_what_was_open(journal.state_behind(number), at_ms, now.data.semantics)
    return number, asked_by(then, now.data.stack.ask)


def options_of_root(cell: SessionCell, call: str) -> SessionOptions:
    path, options = cell.bus.path, cell.options
    if len(path) > 1 or options is None:  # a child session has none
        fault = f"{call}: session {path[-1]!r} is a sub-agent and has no branches of its own: {call} its root, {path[0]!r}"
        raise OptionError([fault])
    return options
