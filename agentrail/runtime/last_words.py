"""How sessions ended, for those who come later: the last ten thousand, and for five minutes what is left of them to read.

Nothing here keeps a session alive: what is kept is data, and for a while its handle, whose events can still be read.
"""

from collections import deque
from typing import Final, Literal, TypeAlias

import trio
from attrs import evolve, frozen

from agentrail.errors import SessionDown, SessionRested
from agentrail.messages import SessionId
from agentrail.runtime.clock import now_ms
from agentrail.runtime.handle import Session
from agentrail.runtime.resting import Rested
from agentrail.runtime.scopes import key_of
from agentrail.runtime.session import SessionCell

MAX_LAST_WORDS: Final = 10_000
"""Of how many sessions it is known how they ended."""

MAX_HANDLES: Final = 1_000
"""Of how many of these there is a handle at most: it keeps the conversation and the events, and many end in five minutes."""

HANDLE_SECONDS: Final = 300.0
"""How long there is a handle: who lost the connection comes back within that time, or not at all."""

MAX_REASON: Final = 2_000
"""How much of a reason is kept, in characters: it may be the words of a caller."""

HowEnded: TypeAlias = Literal["ended", "parked", "rested"]


@frozen(kw_only=True)
class LastWords:
    """How a session ended.

    Attributes:
        session_id: Which one.
        scope: Of which scope; empty for one without.
        how: `ended`: it was stopped, refused, or its supervisor closed; `parked`: it crashed too often, and was given up;
            `rested`: it was put to rest, which is no end.
        reason: How it ended, one line, as in `SessionDown`; cut to 2,000 characters.
        crash: What it crashed with last, one line; None of one that ended by itself.
        incarnation: The last one; one more than it was restarted.
        last_seq: The number of its last event.
        ended_at_ms: When, in milliseconds since 1970.
        session: Its handle, for five minutes, unless 1,000 others ended meanwhile; then None. What it published can be read
            with `subscribe(after=…)`; anything that is asked of it raises `SessionDown`.
        rested: What it left behind, as long as there is a handle: for a caller of `rest` that was cancelled meanwhile.
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
    """The sessions of one supervisor that have ended, the last ones by their keys."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """Begin without any."""
        self._words: dict[str, LastWords] = {}
        self._handles: dict[str, SessionCell] = {}
        # Oldest first. A key may stand there twice, when its id was taken anew: the cell tells which of both is meant.
        self._due: deque[tuple[float, str, SessionCell]] = deque()
        self._is_closed = False
        self._has_come = trio.Event()
        nursery.start_soon(self._forget, name="forget handles of sessions")

    def add(self, cell: SessionCell) -> None:
        """Note how a session ended; what was known of an earlier one of its id is forgotten."""
        key = key_of(cell.ports.scope, cell.ports.session_id)
        self._words.pop(key, None)  # so that it stands last
        self._words[key] = LastWords(
            session_id=cell.ports.session_id,
            scope=cell.ports.scope,
            how="rested" if cell.rested is not None else "ended" if cell.crash is None else "parked",
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
        """Give what is known of the last session of this key that ended."""
        words, cell = self._words.get(key), self._handles.get(key)
        return (
            words
            if words is None or cell is None
            else evolve(words, session=Session(cell), rested=cell.rested)
        )

    def drop_tree(self, scope: str, root: str) -> None:
        """Forget a tree that ended, and let go of its handles: what its sessions published is to be read no more."""
        handles = [*self._handles.items()]
        of_tree = [key for key, one in handles if (one.ports.scope, one.bus.path[0]) == (scope, root)]
        for key in (*of_tree, key_of(scope, root)):
            self._words.pop(key, None)
            self._handles.pop(key, None)

    def error_for(self, scope: str, session_id: str, down: str | None) -> SessionDown:
        """Say why there is no live session of this id: it may be at rest, and then that is no end."""
        words = self._words.get(key_of(scope, session_id))
        if words is not None and words.how == "rested":
            return SessionRested(session_id, words.reason)
        return SessionDown(session_id, down or "there is no live session of this id")

    def close(self) -> None:
        """Forget all handles: no task will do it any more. What is known of the ends stays."""
        self._is_closed = True
        self._handles.clear()
        self._due.clear()

    async def _forget(self) -> None:
        """Forget handles when their time is over.

        Cancellation: With the supervisor.
        """
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
