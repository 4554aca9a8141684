"""Pending calls: where the callers of one session wait. Each reply goes to the one call that it answers, or nowhere."""

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final

import trio
from attrs import define, field

from agentrail.core.protocol.signals import (
    AbortCycle,
    AbortTool,
    Asked,
    Prompt,
    SignalId,
    StopSession,
    ToolAsked,
    ToolWantsChild,
)
from agentrail.errors import (
    AgentrailError,
    CallingSelf,
    SessionDown,
    SessionRested,
    StopNotWritten,
    StoreUnavailable,
)
from agentrail.outside import Outside, current

_STOPS: Final = (AbortCycle, AbortTool, StopSession)


class _Mark:
    """A call that a task, or one that it comes from, works for. Tasks may outlive the call; the mark does not."""

    __slots__ = ("_token", "key", "lasts")

    def __init__(self, key: str) -> None:
        self.key = key
        self.lasts = True
        self._token: Token[tuple[_Mark, ...]] | None = None

    def __enter__(self) -> None:
        self._token = _INSIDE.set((*_INSIDE.get(), self))

    def __exit__(self, *_: object) -> None:
        # Not the reset alone: sessions and tasks that the call started have copies of the variable for ever.
        self.lasts = False
        token, self._token = self._token, None
        assert token is not None  # noqa: S101 - it was entered
        _INSIDE.reset(token)


_INSIDE: Final[ContextVar[tuple[_Mark, ...]]] = ContextVar("agentrail_calls_this_task_works_for", default=())


@define(eq=False)
class PendingCall:
    """A call that waits for its reply.

    Attributes:
        error: What it was refused with, in place of one.
        on_answered: Called in the very step that answers, or None.
    """

    answered: trio.Event = field(factory=trio.Event)
    value: object = None
    error: AgentrailError | None = None
    on_answered: Callable[[], None] | None = None
    asked: Asked | None = None

    def settle(self, value: object, error: AgentrailError | None) -> None:
        """Take the reply, and wake who waits."""
        self.value, self.error = value, error
        self.answered.set()
        if self.on_answered is not None:
            self.on_answered()


# One for all sessions that no caller waits for, and never written to: an empty table of its own, or one that was emptied, would
# weigh in ten thousand idle ones.
_NO_CALLS: Final[dict[SignalId, PendingCall]] = {}


class PendingCalls:
    """The callers who wait for one session, across its restarts."""

    # One for each of ten thousand idle sessions.
    __slots__ = (
        "__weakref__",
        "_count",
        "_down",
        "_is_rested",
        "_key",
        "_outside",
        "_prefix",
        "_session_id",
        "_waiting",
    )

    def __init__(self, session_id: str, outside: Outside | None = None, *, key: str | None = None) -> None:
        """Begin without any."""
        self._session_id = session_id
        self._key = key or session_id
        self._outside = outside or current()
        self._waiting = _NO_CALLS
        self._down: str | None = None
        self._is_rested = False
        self._prefix = ""
        self._count = 0

    def mint(self) -> SignalId:
        """Make the next signal id: unlike any other of this session, in this process or an earlier one."""
        self._prefix = self._prefix or self._outside.ids(4)  # not for the many that are never asked
        self._count += 1
        return SignalId(f"{self._prefix}-{self._count}")

    async def ask(
        self,
        signal: Asked,
        send: Callable[[Asked], None],
        *,
        unread: Callable[[Any], None] | None = None,
    ) -> object:
        """Send a signal and wait for its reply.

        Cancellation: Only the reply is lost; the session does what it was asked.
        """
        call = self.open(signal, send)
        try:
            await call.answered.wait()
        except trio.Cancelled:
            if unread is not None and call.answered.is_set() and call.error is None:
                unread(call.value)
            raise
        finally:
            self.drop(signal.signal_id)
        if call.error is not None:
            raise call.error
        return call.value

    def open(
        self, signal: Asked, send: Callable[[Asked], None], *, on_answered: Callable[[], None] | None = None
    ) -> PendingCall:
        """Send a signal whose reply is not waited for here; `drop` it when it is not wanted any more."""
        if self._down is not None:
            raise self._gone()
        call = self._register(signal.signal_id, PendingCall(on_answered=on_answered, asked=signal))
        try:
            send(signal)
        except BaseException:
            self.drop(signal.signal_id)
            raise
        return call

    @contextmanager
    def waiting(self, on_answered: Callable[[], None]) -> Iterator[PendingCall]:
        """Register a caller that reads events instead of a reply. It is never answered, but it is refused whenever the others are."""
        name = self.mint()
        call = self._register(name, PendingCall(on_answered=on_answered))
        if self._down is not None:
            call.error = self._gone()
            call.answered.set()
        try:
            yield call
        finally:
            self.drop(name)

    def _register(self, signal_id: SignalId, call: PendingCall) -> PendingCall:
        if not self._waiting:
            self._waiting = {}
        self._waiting[signal_id] = call
        return call

    def drop(self, signal_id: SignalId) -> None:
        """Wait no more: a reply that comes later is thrown away."""
        self._waiting.pop(signal_id, None)
        if not self._waiting:
            self._waiting = _NO_CALLS

    def answer(self, to: SignalId, value: object) -> bool:
        """Give a caller its value, and say whether that is so; one who has gone away, or has an answer, gets nothing."""
        call = self._waiting.get(to)
        if call is None or call.answered.is_set():
            return False
        call.settle(value, None)
        return True

    def refuse(self, to: SignalId, error: AgentrailError) -> None:
        """Raise an error where a caller waits."""
        call = self._waiting.get(to)
        if call is not None and not call.answered.is_set():
            call.settle(None, error)

    @property
    def is_waited_for(self) -> bool:
        """Whether any caller waits, or has not yet gone on with its answer."""
        return bool(self._waiting)

    def refuse_all(self, error: AgentrailError) -> None:
        """Raise an error where callers wait; those that come later are heard."""
        for to in list(self._waiting):
            self.refuse(to, error)

    def give_up(self, error: StoreUnavailable, answered: Container[SignalId]) -> None:
        """Raise an error where callers wait, since the store keeps them waiting for longer than its patience.

        Tools wait on: that is their session's own affair, of which no cycle may fail. The caller of a stop waits until the stop is
        complete, which needs no store.
        """
        for to, call in list(self._waiting.items()):
            asked = call.asked
            if isinstance(asked, ToolAsked | ToolWantsChild):
                continue
            if not isinstance(asked, _STOPS):
                self.refuse(to, _told_to_sender(error, asked))
            elif to in answered:
                message = f"the work has been stopped, and this is not written down yet: {error}"
                self.refuse(to, StopNotWritten(message))

    def close(self, reason: str, *, is_rested: bool = False) -> None:
        """The session has ended: callers that wait, or come later, get `SessionDown`. None hangs."""
        self._down, self._is_rested = reason, is_rested
        for to in list(self._waiting):
            self.refuse(to, self._gone())

    def _gone(self) -> SessionDown:
        return (SessionRested if self._is_rested else SessionDown)(self._session_id, self._down or "ended")

    def inside(self) -> AbstractContextManager[None]:
        """Mark the task, and all it starts, as work of a call of this session, until the call is over."""
        return _Mark(self._key)

    def refuse_self(self, call: str) -> None:
        """Refuse a call that would wait for the very tool that makes it."""
        if any(mark.lasts and mark.key == self._key for mark in _INSIDE.get()):
            message = f"{call} from inside a tool of session {self._session_id!r} would wait for itself: return first"
            raise CallingSelf(message)


def _told_to_sender(error: StoreUnavailable, asked: Asked | None) -> StoreUnavailable:
    """Warn the sender of a prompt without a name against sending it again."""
    if not isinstance(asked, Prompt) or asked.client_id is not None:
        return error
    message = (
        f"{error}; this prompt had none, and may have been taken: wait for its answer with collect_reply(), "
        "because sending it again may do it twice"
    )
    return StoreUnavailable(message)
