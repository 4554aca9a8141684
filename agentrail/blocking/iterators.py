"""Events and reports read from another thread, a few at a time."""

import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar, cast

import trio

from agentrail.blocking.supervisor_thread import SupervisorThread
from agentrail.core.session.views import Snapshot
from agentrail.errors import AgentrailError, ReplyTimeout, SubscriberTooSlow, SupervisorClosed, YourMove
from agentrail.events import Event
from agentrail.messages import PromptRef
from agentrail.runtime.arguments import fault_of_wait, refuse
from agentrail.runtime.cycle_reply import CycleReply
from agentrail.runtime.cycle_stream import CycleStream as AsyncStream
from agentrail.runtime.event_subscription import Subscription as AsyncSubscription
from agentrail.runtime.session_reports import SessionReport, SessionReports as AsyncReports

MAX_TAKEN: Final = 64
"""Maximum number of waiting events fetched along with a requested one: the trip to the other thread costs more than they do."""

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
        self._later = later

    def next(self, *, timeout_seconds: float | None = None) -> "Future[T | None]":
        """Return the next event, like the blocking call of this name. Cancelling the future loses no event."""
        return self._later(timeout_seconds)


class Pulled(Generic[T]):
    """A feed from another thread, to iterate over."""

    def __init__(self, thread: SupervisorThread, source: _Next[T]) -> None:
        self._thread = thread
        self._source = source
        self._taken: deque[T] = deque()
        self.is_at_end: bool = False  # and not only closed
        self._is_given_up = False  # an event of the last trip may still be put back

    @property
    def futures(self) -> NextFuture[T]:
        """The same calls as futures, for asyncio: `await asyncio.wrap_future(events.futures.next())`."""
        return NextFuture(self._later)

    def __iter__(self) -> Self:
        """Return itself: there is a single position, which two readers would share."""
        return self

    def __next__(self) -> T:
        item = self.next()
        if item is None:
            raise StopIteration
        return item

    def next(self, *, timeout_seconds: float | None = None) -> T | None:
        """Wait for the next event.

        Args:
            timeout_seconds: Time limit. None waits indefinitely.

        Returns:
            The event. None at the end of the feed.

        Raises:
            ReplyTimeout: The time limit has passed. No event is lost: call again.
            SubscriberTooSlow: Your move: the buffer was full. Its content was delivered. Continue from `resume_after`.
            SupervisorClosed: The supervisor has crashed, or runs in a parent process. Its published events were delivered before.
            YourMove: Its block was not entered, or another thread is already waiting here.
            OptionError: Your move: an invalid time limit.
            HoldsLoop, CallingSelf: Your move: this thread must not wait. The message says which calls are allowed here.

        Cancellation: Ctrl-C ends the wait, and no event is lost.
        """
        if not self._has_next:
            self._thread.refuse_to_hold("events.next")
        try:
            return self._thread.wait(self._later(timeout_seconds))
        except SupervisorClosed:
            return self._next_left()

    def _later(self, timeout_seconds: float | None) -> "Future[T | None]":
        refuse(fault_of_wait(timeout_seconds))
        if not (self._has_next or self._thread.is_over):
            pulled = self._thread.submit(partial(self._pull, timeout_seconds), self._put_back)
            pulled.add_done_callback(self._note_end)
            return pulled
        future: Future[T | None] = Future()
        try:
            future.set_result(self._next_left())
        except AgentrailError as error:
            future.set_exception(error)
        return future

    @property
    def _has_next(self) -> bool:
        return bool(self._taken) and not self._is_given_up

    def _note_end(self, pulled: "Future[T | None]") -> None:
        self._is_given_up = pulled.cancelled()

    async def _pull(self, timeout_seconds: float | None) -> T | None:
        if self._taken:  # put back, after its caller had called again
            return self._taken.popleft()
        seconds = math.inf if timeout_seconds is None else timeout_seconds
        with trio.move_on_after(seconds):
            try:
                item = await self._source.__anext__()
            except StopAsyncIteration:
                self.is_at_end = True
                return None
            except trio.BusyResourceError:
                message = "another thread already reads this subscription: subscribe again, each subscription receives all events"
                raise YourMove(message) from None
            self._take_waiting()
            return item
        message = f"no event came within {seconds:g} s; later events are not lost, call this again"
        raise ReplyTimeout(message)

    def _take_waiting(self) -> None:
        with suppress(SubscriberTooSlow):  # raised again once all of it is read
            while len(self._taken) < MAX_TAKEN and (item := self._take_nowait()) is not None:
                self._taken.append(item)

    def _take_nowait(self) -> T | None:
        return None

    def _put_back(self, item: T | None) -> None:
        if item is not None:
            self._taken.appendleft(item)

    def _next_left(self) -> T | None:
        """Take an event that was fetched before, or left when the thread ended. These no longer change."""
        with suppress(IndexError):
            return self._taken.popleft()
        item = self._take_nowait()
        closed = self._thread.closed()
        if item is None and (closed.__cause__ is not None or self._thread.is_forked):
            raise closed
        return item


class Feed(Pulled[T]):
    """A feed that lives in another thread for the duration of a block, which is entered once."""

    def __init__(self, thread: SupervisorThread, source: _Source[T]) -> None:
        super().__init__(thread, source)
        self._block = source

    def __enter__(self) -> Self:
        """Start the feed: later events are read.

        Raises:
            AgentrailError: The errors of entering its twin.
            CallingSelf: Your move: called in the thread of the supervisor.
        """
        self._thread.refuse_inside("reading")
        self._thread.wait(self._thread.submit(self._block.__aenter__, self._leave_unread))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(SupervisorClosed):
            self._thread.wait(self._thread.submit(partial(self._block.__aexit__, None, None, None)))

    def _leave_unread(self, _: object) -> None:
        self._thread.submit(partial(self._block.__aexit__, None, None, None))


class Subscription(Feed[Event]):
    """The events of one subscriber: a block, entered once, to iterate over in one thread. Ends with the session."""

    def __init__(self, thread: SupervisorThread, source: AsyncSubscription) -> None:
        """Created by `Session.subscribe`, `Supervisor.subscribe_all` and `subscribe_group`."""
        super().__init__(thread, source)
        self._events = source

    @property
    def snapshot(self) -> Snapshot | None:
        """State of the session when the block was entered, like its twin. None before."""
        return self._thread.look(lambda: self._events.snapshot)

    @property
    def dropped_deltas(self) -> int:
        """Number of ephemeral events dropped because the buffer was full."""
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
        """Created by `Supervisor.reports`."""
        super().__init__(thread, source)
        self._reports = source

    @property
    def dropped(self) -> int:
        """Number of reports dropped because the buffer was full, oldest first."""
        return self._reports.dropped


class CycleStream(Feed[Event]):
    """The events of one cycle: a block, entered once, which sends the prompt. Ends with the cycle."""

    def __init__(self, thread: SupervisorThread, source: AsyncStream) -> None:
        """Created by `Session.stream`."""
        super().__init__(thread, source)
        self._stream = source

    @property
    def ref(self) -> PromptRef:
        """Reference of this prompt, the same as in `AgentStart`."""
        return self._stream.ref

    @property
    def reply(self) -> CycleReply[str]:
        """The outcome of the cycle. Raises like its twin."""
        return self._thread.look(lambda: self._stream.reply)

    def text(self) -> Iterator[str]:
        """Iterate over the model's spoken text as it arrives. Without deltas, one response at a time.

        The texts of two responses are separated by an empty line, as in `CycleReply.all_text`.

        Raises:
            CycleFailed: The cycle failed; raised after the text so far.
            CycleAborted: The cycle was aborted.
            SupervisorClosed: The supervisor was closed before the end of the text was read.
            SessionDown, SubscriberTooSlow: The same as in iteration.
        """
        pieces = cast("AsyncGenerator[str, None]", self._stream.text())
        pulled = Pulled(self._thread, pieces)
        try:
            yield from pulled
            if not pulled.is_at_end:
                raise self._thread.closed()
        finally:  # not waited for: the garbage collector can come here in the supervisor's thread
            self._thread.submit(pieces.aclose)
