"""Pending calls: the callers waiting for one session. Each reply goes to the call that it answers, or is dropped."""

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final

import trio
from attrs import define, field

from agentrail.actors.trio_check import need_trio
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
from agentrail.outside import Outside, current_run

_STOPS: Final = (AbortCycle, AbortTool, StopSession)


@define(eq=False, repr=False)
class _Mark:
    """Marks a task, and the tasks it starts, as work of a call. Tasks may outlive the call. The mark does not."""

    calls: "PendingCalls | None"
    _token: "Token[tuple[_Mark, ...]]" = field(init=False)

    def __enter__(self) -> None:
        self._token = _INSIDE.set((*_INSIDE.get(), self))

    def __exit__(self, *_: object) -> None:
        # A reset alone is not enough: sessions and tasks started by the call keep copies of the variable.
        self.calls = None
        _INSIDE.reset(self._token)
        del self._token  # it keeps the whole context alive


_INSIDE: Final[ContextVar[tuple[_Mark, ...]]] = ContextVar("agentrail_calls_this_task_works_for", default=())


@define(eq=False)
class PendingCall:
    answered: trio.Event = field(factory=trio.Event)
    value: object = None
    error: AgentrailError | None = None
    on_answered: Callable[[], None] | None = None
    asked: Asked | None = None

    def settle(self, value: object, error: AgentrailError | None) -> None:
        self.value, self.error = value, error
        self.answered.set()
        if self.on_answered is not None:
            self.on_answered()

    def take_error(self, otherwise: AgentrailError) -> AgentrailError:
        """Return its error, or another, and let go of it: the traceback of a raised error refers to frames that hold the call."""
        error, self.error = self.error or otherwise, None
        return error


# Shared by all sessions without pending calls, and never written to: an empty or emptied dict per session would add up
# in ten thousand idle ones.
_NO_CALLS: Final[dict[SignalId, PendingCall]] = {}


def _run() -> trio.lowlevel.TrioToken | None:
    return current_run() if trio.lowlevel.in_trio_run() else None


@define(eq=False)  # with slots: there is one for each of ten thousand idle sessions
class PendingCalls:
    """The pending calls of one session. Survives its restarts."""

    session_id: str
    _outside: Outside
    _waiting: dict[SignalId, PendingCall] = field(init=False, default=_NO_CALLS)
    run: trio.lowlevel.TrioToken | None = field(init=False, factory=_run)
    _down: str | None = field(init=False, default=None)
    _is_rested: bool = field(init=False, default=False)
    _prefix: str = field(init=False, default="")
    _count: int = field(init=False, default=0)
    waiters: tuple[list[_Mark], ...] = field(init=False, default=())
    """The marks of each caller inside a tool that waits for the end of a cycle."""

    def mint(self) -> SignalId:
        """Generate the next signal id, unique for this session across processes."""
        self._prefix = self._prefix or self._outside.ids(4)  # not for the many sessions that are never called
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

        Cancellation: Only the reply is lost. The session still processes the signal.
        """
        call = self.open(signal, send)
        try:
            await call.answered.wait()
            if call.error is not None:
                raise call.error
            return call.value
        except trio.Cancelled:
            if unread is not None and call.answered.is_set() and call.error is None:
                unread(call.value)
            raise
        finally:
            self.drop(signal.signal_id)
            del call  # the traceback of its error refers to this frame: a cycle, freed by the collector only

    async def ask_through(
        self,
        signal: Asked,
        send: Callable[[Asked], None],
        hold: Callable[[], None],
        forget: Callable[[], None],
    ) -> object:
        """Send a signal, call `hold`, and wait for the reply. `forget` is called with the reply, even if the caller was cancelled."""

        def end() -> None:
            self.drop(signal.signal_id)
            forget()

        call = self.open(signal, send, on_answered=end)
        hold()  # before the session reads the signal, but not if it takes none
        await call.answered.wait()
        if call.error is not None:
            raise call.take_error(call.error)
        return call.value

    def open(
        self, signal: Asked, send: Callable[[Asked], None], *, on_answered: Callable[[], None] | None = None
    ) -> PendingCall:
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
        name = self.mint()
        call = self._register(name, PendingCall(on_answered=on_answered))
        if self._down is not None:
            call.error = self._gone()
            call.answered.set()
        try:
            yield call
        finally:
            self.drop(name)
            call.on_answered = None  # it may refer to the call: a cycle, which only the collector would free

    def _register(self, signal_id: SignalId, call: PendingCall) -> PendingCall:
        if self.run is not None and current_run() is not self.run:
            need_trio(self.run)  # it raises; compared here, because the usual call costs no function
        if not self._waiting:
            self._waiting = {}
        self._waiting[signal_id] = call
        return call

    def drop(self, signal_id: SignalId) -> None:
        self._waiting.pop(signal_id, None)
        if not self._waiting:
            self._waiting = _NO_CALLS

    def answer(self, to: SignalId, value: object) -> bool:
        call = self._waiting.get(to)
        if call is None or call.answered.is_set():
            return False
        call.settle(value, None)
        return True

    def refuse(self, to: SignalId, error: AgentrailError) -> None:
        call = self._waiting.get(to)
        if call is not None and not call.answered.is_set():
            call.settle(None, error)

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def refuse_all(self, error: AgentrailError) -> None:
        for to in list(self._waiting):
            self.refuse(to, error)

    def give_up(self, error: StoreUnavailable, answered: Container[SignalId]) -> None:
        """Raise an error in waiting callers, because the store has been unavailable for longer than its patience."""
        for to, call in list(self._waiting.items()):
            asked = call.asked
            if isinstance(asked, ToolAsked | ToolWantsChild):
                continue
            if not isinstance(asked, _STOPS):
                self.refuse(to, _told_to_sender(error, asked))
            elif to in answered:
                message = f"the work was stopped, but this is not recorded yet: {error}"
                self.refuse(to, StopNotWritten(message))

    def close(self, reason: str, *, is_rested: bool = False) -> None:
        """End the calls of a session that has ended: present and later callers get `SessionDown`, so that none hangs."""
        self._down, self._is_rested, self.run = reason, is_rested, None
        for to in list(self._waiting):
            self.refuse(to, self._gone())

    def _gone(self) -> SessionDown:
        return (SessionRested if self._is_rested else SessionDown)(self.session_id, self._down or "ended")

    def inside(self) -> AbstractContextManager[None]:
        """Mark the current task, and all tasks it starts, as work of a call of this session until the call ends."""
        return _Mark(self)

    def refuse_self(self, call: str, *, in_rings: bool = False) -> None:
        """Refuse a call from inside a tool of this session, or also of one for which a tool of this session waits."""
        # Not compared by id: another supervisor of this process may have a session of the same id.
        paths: list[tuple[PendingCalls, ...]] = [(one.calls,) for one in _INSIDE.get() if one.calls]
        seen = set[PendingCalls]()
        for path in paths:  # from a session through those that it waits for to that of the caller
            if path[0] is self:
                ids = [one.session_id for one in (path[-1], *path)]
                ring = f", in the ring {' → '.join(ids)}" if len(path) > 1 else ""
                message = f"{call} from inside a tool of session {path[-1].session_id!r} would wait for itself{ring}: call it after the tool has returned"
                raise CallingSelf(message)
            if in_rings and path[0] not in seen:
                seen.add(path[0])
                waiting = [mark.calls for marks in path[0].waiters for mark in marks]
                paths += [(calls, *path) for calls in waiting if calls]

    @contextmanager
    def waited_for(self, call: str | None = None) -> Iterator[None]:
        """Wait for the end of a cycle in this block. A call is refused if this session waits for the caller, or for one that does."""
        marks = [*_INSIDE.get()]
        if not marks:
            yield
            return
        if call is not None:
            self.refuse_self(call, in_rings=True)
        self.waiters = (*self.waiters, marks)
        try:
            yield
        finally:
            self.waiters = tuple([one for one in self.waiters if one is not marks])


def _told_to_sender(error: StoreUnavailable, asked: Asked | None) -> StoreUnavailable:
    if not isinstance(asked, Prompt) or asked.client_id is not None:
        return error
    message = f"{error}; this prompt had none and may have been accepted: wait for its answer with collect_reply(), because sending it again may run it twice"
    return StoreUnavailable(message)
