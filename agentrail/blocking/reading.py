"""What is read in one thread and lives in another: events and reports, pulled a handful at a time.

The buffer and its bound are those of the twin in the other thread; so is what becomes of a reader who is too slow.
"""

import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar, cast

import trio

from agentrail.blocking.thread import SupervisorThread
from agentrail.core.session.projection import Snapshot
from agentrail.errors import AgentrailError, ReplyTimeout, SubscriberTooSlow, SupervisorClosed, YourMove
from agentrail.events import Event
from agentrail.messages import PromptRef
from agentrail.runtime.answers import CycleReply
from agentrail.runtime.arguments import fault_of_wait, refuse
from agentrail.runtime.cycle_stream import CycleStream as AsyncStream
from agentrail.runtime.session_reports import SessionReport, SessionReports as AsyncReports
from agentrail.runtime.subscription import Subscription as AsyncSubscription

MAX_TAKEN: Final = 64
"""How many that wait already come along with the one that is asked for: the way to the other thread costs more than they do."""

T = TypeVar("T")
_T_co = TypeVar("_T_co", covariant=True)


class _Next(Protocol[_T_co]):
    def __anext__(self) -> Awaitable[_T_co]: ...


class _Source(_Next[_T_co], Protocol[_T_co]):
    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> object: ...


class NextFuture(Generic[T]):
    """The next event as a future."""

    def __init__(self, later: Callable[[float | None], "Future[T | None]"]) -> None:
        """Made by what is read."""
        self._later = later

    def next(self, *, timeout_seconds: float | None = None) -> "Future[T | None]":
        """Give what comes next, as the call of this name that blocks; cancelled, nothing is lost by it."""
        return self._later(timeout_seconds)


class Pulled(Generic[T]):
    """What is read in one thread and comes from another, to iterate over."""

    def __init__(self, thread: SupervisorThread, source: _Next[T]) -> None:
        self._thread = thread
        self._source = source
        self._taken: deque[T] = deque()

    @property
    def futures(self) -> NextFuture[T]:
        """The same with a future, for asyncio: `await asyncio.wrap_future(events.futures.next())`."""
        return NextFuture(self._later)

    def __iter__(self) -> Self:
        """Iterate over oneself: there is one position, and two readers would share it."""
        return self

    def __next__(self) -> T:
        """Wait for what comes next; see `next`."""
        item = self.next()
        if item is None:
            raise StopIteration
        return item

    def next(self, *, timeout_seconds: float | None = None) -> T | None:
        """Wait for what comes next.

        Args:
            timeout_seconds: How long; None for as long as it takes.

        Returns:
            It; None when nothing comes any more.

        Raises:
            ReplyTimeout: The time was up. Nothing is lost by it: ask again.
            SubscriberTooSlow: Your move: the buffer was full. What it held has been given; go on from `resume_after`.
            SupervisorClosed: The run of the supervisor has crashed. What it had given has been given here too.
            YourMove: Its block was not entered, or another thread waits here already.
            OptionError: Your move: a time that cannot be.
            HoldsLoop, CallingSelf: Your move: this thread may not wait; the message says what may be done here.

        Cancellation: Ctrl-C ends the wait, and nothing is lost by it.
        """
        if not self._taken:
            self._thread.refuse_to_hold("events.next")
        try:
            return self._thread.wait(self._later(timeout_seconds))
        except SupervisorClosed:
            return self._next_left()

    def _later(self, timeout_seconds: float | None) -> "Future[T | None]":
        refuse(fault_of_wait(timeout_seconds))
        if not self._taken and not self._thread.is_over:
            return self._thread.submit(partial(self._pull, timeout_seconds), self._put_back)
        future: Future[T | None] = Future()
        try:
            future.set_result(self._next_left())
        except AgentrailError as error:
            future.set_exception(error)
        return future

    async def _pull(self, timeout_seconds: float | None) -> T | None:
        seconds = math.inf if timeout_seconds is None else timeout_seconds
        with trio.move_on_after(seconds):
            try:
                item = await self._source.__anext__()
            except StopAsyncIteration:
                return None
            except trio.BusyResourceError:
                message = "another thread waits here already: subscribe once more, each sees everything"
                raise YourMove(message) from None
            self._take_waiting()
            return item
        message = f"nothing came within {seconds:g} s; what comes later is not lost, ask again"
        raise ReplyTimeout(message)

    def _take_waiting(self) -> None:
        with suppress(SubscriberTooSlow):  # said again when all of it is read
            while len(self._taken) < MAX_TAKEN and (item := self._take_nowait()) is not None:
                self._taken.append(item)

    def _take_nowait(self) -> T | None:
        """Take what waits; None if there is nothing, or there is no way to know."""
        return None

    def _put_back(self, item: T | None) -> None:
        if item is not None:
            self._taken.appendleft(item)

    def _next_left(self) -> T | None:
        """Take what came along, or was left when the thread ended: nothing changes it any more."""
        with suppress(IndexError):
            return self._taken.popleft()
        item = self._take_nowait()
        closed = self._thread.closed()
        if item is None and closed.__cause__ is not None:
            raise closed
        return item


class Feed(Pulled[T]):
    """What lives in another thread for as long as a block lasts, which is entered once."""

    def __init__(self, thread: SupervisorThread, source: _Source[T]) -> None:
        super().__init__(thread, source)
        self._block = source

    def __enter__(self) -> Self:
        """Begin: what happens from now on is read.

        Raises:
            AgentrailError: As of entering its twin.
            CallingSelf: Your move: this is the thread of the supervisor.
        """
        self._thread.refuse_inside("reading")
        self._thread.wait(self._thread.submit(self._block.__aenter__, self._leave_unread))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go of it."""
        with suppress(SupervisorClosed):
            self._thread.wait(self._thread.submit(partial(self._block.__aexit__, None, None, None)))

    def _leave_unread(self, _: object) -> None:
        self._thread.start(self._block.__aexit__, None, None, None)


class Subscription(Feed[Event]):
    """What one subscriber reads: a block, entered once, to iterate over in one thread. Iteration ends when the session does."""

    def __init__(self, thread: SupervisorThread, source: AsyncSubscription) -> None:
        """Made by `Session.subscribe`, `Supervisor.subscribe_all` and `subscribe_group`."""
        super().__init__(thread, source)
        self._events = source

    @property
    def snapshot(self) -> Snapshot | None:
        """How the session stood when the block was entered; None before. As of its twin."""
        return self._thread.look(lambda: self._events.snapshot)

    @property
    def dropped_deltas(self) -> int:
        """How many ephemeral events were left out because the buffer was full."""
        return self._events.dropped_deltas

    @property
    def is_rested(self) -> bool:
        """Whether it ended because the session was put to rest."""
        return self._events.is_rested

    def _take_nowait(self) -> Event | None:
        try:
            return self._events.next_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return None


class SessionReports(Feed[SessionReport]):
    """The reports of one reader: a block, entered once, to iterate over. Iteration ends when the supervisor closes."""

    def __init__(self, thread: SupervisorThread, source: AsyncReports) -> None:
        """Made by `Supervisor.reports`."""
        super().__init__(thread, source)
        self._reports = source

    @property
    def dropped(self) -> int:
        """How many reports were left out, the oldest first, because the buffer was full."""
        return self._reports.dropped


class CycleStream(Feed[Event]):
    """What one cycle publishes: a block, entered once, which sends the prompt; iteration ends with the cycle, whatever that is."""

    def __init__(self, thread: SupervisorThread, source: AsyncStream) -> None:
        """Made by `Session.stream`."""
        super().__init__(thread, source)
        self._stream = source

    @property
    def ref(self) -> PromptRef:
        """Which prompt this is, as `AgentStart` says."""
        return self._stream.ref

    @property
    def reply(self) -> CycleReply[str]:
        """What came of the cycle; raises as its twin."""
        return self._thread.look(lambda: self._stream.reply)

    def text(self) -> Iterator[str]:
        """Iterate over what the model says aloud, as it says it; without deltas a response at a time.

        The texts of two responses are an empty line apart, as in `CycleReply.all_text`.

        Raises:
            CycleFailed: The cycle failed, with what had been said by then behind it.
            CycleAborted: It was aborted.
            SessionDown, SubscriberTooSlow: As of iteration.
        """
        pieces = cast("AsyncGenerator[str, None]", self._stream.text())
        try:
            yield from Pulled(self._thread, pieces)
        except GeneratorExit:  # left in the middle: nothing is under way there
            with suppress(SupervisorClosed):
                self._thread.wait(self._thread.submit(pieces.aclose))
            raise
