"""Ended sessions: how the last ten thousand ended, and for five minutes a handle to read the rest."""

from collections import deque
from typing import Final, Literal, TypeAlias

import trio
from attrs import evolve, frozen

from agentrail.errors import SessionDown, SessionRested
from agentrail.messages import SessionId
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_keys import key_of
from agentrail.runtime.session_rest import Rested

MAX_LAST_WORDS: Final = 10_000
"""Maximum number of ended sessions that are remembered."""

MAX_HANDLES: Final = 1_000
"""Maximum number of their handles: each keeps the conversation and the events, and many sessions end in five minutes."""

HANDLE_SECONDS: Final = 300.0
"""Seconds that a handle is kept: a client that lost its connection returns within that time, or not at all."""

MAX_REASON: Final = 2_000
"""Maximum number of characters kept of a reason, which may come from a caller."""

HowEnded: TypeAlias = Literal["ended", "parked", "rested"]


@frozen(kw_only=True)
class LastWords:
    """The end of a session.

    Attributes:
        scope: Its scope. Empty for none.
        how: `ended`: it was stopped or refused, or its supervisor closed. `parked`: it crashed too often and was given up.
            `rested`: it was put to rest, or another node took it over, which does not end it.
        reason: Reason for the end, on one line, as in `SessionDown`. Cut to 2,000 characters.
        crash: Its last crash, on one line. None if it ended without one.
        incarnation: The last one: the number of restarts plus one.
        ended_at_ms: Time, in milliseconds since 1970.
        session: Its handle, for five minutes, unless 1,000 others ended meanwhile. In that case None. Only
            `subscribe(after=…)` works on it.
        rested: Its final state, as long as there is a handle: for a caller of `rest` that was cancelled meanwhile.
    """

    session_id: SessionId
    scope: str
    how: HowEnded
    reason: str
    crash: str | None
    incarnation: int
    last_seq: int
    ended_at_ms: int
    session: Session | None = None
    rested: Rested | None = None


class EndedSessions:
    def __init__(self, nursery: trio.Nursery) -> None:
        self._words: dict[str, LastWords] = {}
        self._handles: dict[str, SessionCell] = {}
        # Oldest first. A key may occur twice, if its id was used again: the cell tells the two apart.
        self._due: deque[tuple[float, str, SessionCell]] = deque()
        self._is_closed = False
        self._has_come = trio.Event()
        nursery.start_soon(self._forget, name="forget handles of sessions")

    def add(self, cell: SessionCell) -> None:
        key = key_of(cell.ports.scope, cell.ports.session_id)
        self._words.pop(key, None)  # so that it is last
        self._words[key] = LastWords(
            session_id=cell.ports.session_id,
            scope=cell.ports.scope,
            how="rested"
            if cell.rested is not None or cell.has_moved
            else "ended"
            if cell.crash is None
            else "parked",
            reason=(cell.ending or "")[:MAX_REASON],
            crash=cell.crash,
            incarnation=cell.state.data.incarnation,
            last_seq=cell.bus.last_seq,
            ended_at_ms=now_ms(),
        )
        if len(self._words) > MAX_LAST_WORDS:
            del self._words[next(iter(self._words))]
        if self._is_closed:
            return
        self._handles[key] = cell
        self._due.append((trio.current_time() + HANDLE_SECONDS, key, cell))
        if len(self._due) > MAX_HANDLES:
            self._forget_oldest()
        self._has_come.set()

    def find(self, key: str) -> LastWords | None:
        words, cell = self._words.get(key), self._handles.get(key)
        if words is None or cell is None:
            return words
        return evolve(words, session=Session(cell), rested=cell.rested)

    def drop_tree(self, scope: str, root: str) -> None:
        """Keep nothing of a session and its children, however they ended."""
        self._words.pop(key_of(scope, root), None)
        for due in [one for one in self._due if (one[2].ports.scope, one[2].bus.path[0]) == (scope, root)]:
            self._due.remove(due)
            self._words.pop(due[1], None)
            self._handles.pop(due[1], None)
            due[2].let_go()

    def error_for(self, scope: str, session_id: str, down: str | None) -> SessionDown:
        """Return the error for a missing session: it may be at rest, which is not an end."""
        words = self._words.get(key_of(scope, session_id))
        if words is not None and words.how == "rested":
            return SessionRested(session_id, words.reason)
        return SessionDown(session_id, down or "there is no live session with this id")

    def close(self) -> None:
        """Forget all handles, because no task will do so later. The data about the ends stays."""
        self._is_closed = True
        self._handles.clear()
        self._due.clear()

    async def _forget(self) -> None:
        while True:
            while not self._due:
                self._has_come = trio.Event()
                await self._has_come.wait()
            await trio.sleep_until(self._due[0][0])
            while self._due and self._due[0][0] <= trio.current_time():
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, key, cell = self._due.popleft()
        if self._handles.get(key) is cell:
            del self._handles[key]
        cell.let_go()
