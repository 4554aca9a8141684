"""The thread of a supervisor, and calls into it: a call goes in, and a future delivers its outcome."""

import atexit
import math
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar

import trio

from agentrail.actors.deferred_error import Kept, ungrouped
from agentrail.errors import AgentrailError, CallingSelf, HoldsLoop, SupervisorClosed, YourMove
from agentrail.otp.crash_text import describe_bug
from agentrail.runtime.fan_in import EVERY
from agentrail.runtime.supervisor import SessionSupervisor

T = TypeVar("T")


class InterruptibleFuture(Future[T]):
    """A future that can be waited for without its lock, which Ctrl-C could leave taken."""

    def __init__(self, home: "SupervisorThread") -> None:
        super().__init__()
        self.home = home
        self.scope: trio.CancelScope = trio.CancelScope()
        self.unsettled: threading.Lock = threading.Lock()
        self.unsettled.acquire()

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        super().add_done_callback(partial(self.home.call_back, fn))

    def on_done(self) -> None:
        if self.cancelled():
            self.set_running_or_notify_cancel()  # otherwise `concurrent.futures.wait` would wait indefinitely
            self.home.soon(self.scope.cancel)
        self.unsettled.release()


class _Call(Generic[T]):
    def __init__(
        self, home: "SupervisorThread", make: Callable[[], Awaitable[T]], unread: Callable[[T], None] | None
    ) -> None:
        # Never set to running: a running future cannot be cancelled, and here a cancellation must stop the work.
        self.future: InterruptibleFuture[T] = InterruptibleFuture(home)
        self._make = make
        self._unread = unread
        # Copies the caller's context: a tool that calls its own session would wait for itself, in both threads.
        self._context = copy_context()

    def begin(self, nursery: trio.Nursery) -> None:
        self._context.run(_RUNS_IN.set, (*self._context.get(_RUNS_IN, ()), self.future.home))
        self._context.run(nursery.start_soon, self._work)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    async def _work(self) -> None:
        failure = Kept()
        with self.future.scope:
            with failure:
                self._give(await self._make())
            if isinstance(failure.error, Exception):
                self.fail(failure.error)
            else:  # a cancellation, or an exception that ends the run: the run settles the remaining calls, and knows the cause
                failure.release()
        self.future.home.forget(self)
        del self, failure  # the traceback of the error refers to this frame, which would refer back to it

    def _give(self, value: T) -> None:
        try:
            self.future.set_result(value)
        except InvalidStateError:  # its caller gave up in this very moment
            if self._unread is not None:
                self._unread(value)


class SupervisorThread:
    """The thread of a supervisor, and calls into it."""

    def __init__(self, open_one: Callable[[], AbstractAsyncContextManager[SessionSupervisor]]) -> None:
        self._open_one = open_one
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._way_in: Callable[..., object] | None = None
        self._calls: dict[_Call[Any], None] = {}
        self._is_leaving = False
        self._come, self._begun = trio.open_memory_channel[_Call[Any]](math.inf)
        self._leave = trio.Event()
        self._opening = trio.CancelScope()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._untold: BaseException | None = None
        self._supervisor: SessionSupervisor | None = None
        self.is_forked: bool = False

    # --- life cycle

    def open(self) -> None:
        if trio.lowlevel.in_trio_run():
            message = (
                "a blocking.Supervisor would block the Trio run of this thread: "
                "use `async with agentrail.open_supervisor() as supervisor:`, whose calls are awaited"
            )
            raise HoldsLoop(message)
        if self._thread is not None:
            message = "this supervisor was already opened: create another blocking.Supervisor()"
            raise YourMove(message)
        ready: Future[None] = Future()
        context = copy_context()
        # A daemon, because a program may end without closing it. Then the interpreter calls `close`.
        self._thread = threading.Thread(
            target=context.run, args=(self._live, ready), name="agentrail supervisor", daemon=True
        )
        atexit.register(self.close)
        _OPEN[self] = None
        try:
            self._thread.start()
            ready.result()
        except BaseException as error:
            if self._thread.ident is None:  # the system starts no more threads
                self._thread = None
            self.close(tell=False, interrupt=error)
            raise

    def close(self, *, tell: bool = True, interrupt: BaseException | None = None) -> None:
        if self in _RUNS_IN.get(()):
            message = "a tool that closes its own supervisor would wait for itself: return, and close it outside the tool"
            raise CallingSelf(message)
        with self._lock:
            self._is_leaving = self._thread is not None
        try:
            self.soon(self._end)
        except (KeyboardInterrupt, SystemExit) as error:  # perhaps before it was told
            interrupt = error
            self.soon(self._end)
        try:
            self._wait_over(interrupt)
        finally:
            atexit.unregister(self.close)
            _OPEN.pop(self, None)
        failure, self._untold = self._untold, None
        if failure is not None and tell:
            raise failure

    def end_in_child(self) -> None:
        """End in a forked process, which has no copy of the thread. Its locks may be held indefinitely, so replace them."""
        self._lock, self._over = threading.Lock(), threading.Event()
        self._way_in, self.is_forked = None, True
        self._over.set()
        left, self._calls = self._calls, {}
        for call in left:
            InterruptibleFuture.__init__(call.future, self)  # without the callbacks of the first process
            call.fail(self.closed())

    def _wait_over(self, interrupt: BaseException | None = None) -> None:
        if self._thread is None:
            return
        # Not `join`: after an interruption, it considers the thread ended (CPython, before 3.13).
        while not self._over.is_set():
            try:
                self._over.wait()
            except (KeyboardInterrupt, SystemExit) as error:  # from signal handlers, in the main thread
                if interrupt is not None:  # the second one is final, also if a tool cannot be stopped
                    raise
                interrupt = error  # the sessions end in order, which takes at most ten seconds
        self._thread.join()
        if interrupt is not None:
            raise interrupt

    def _live(self, ready: "Future[None]") -> None:
        _RUNS_IN.set((*_RUNS_IN.get(()), self))
        run = Kept()
        with run:
            # Ctrl-C does not arrive here. The main thread receives it, and cancels the call that it waits for.
            trio.run(self._main, ready)
        with self._lock:
            self._way_in = None
            self._failure = self._untold = run.error
            left, self._calls = self._calls, {}
        for call in left:
            call.fail(self.closed())
        if not ready.done():
            self._untold = None
            ready.set_exception(self._failure or self.closed())
        self._over.set()

    async def _main(self, ready: "Future[None]") -> None:
        failure = Kept()
        # Outside of the supervisor: sessions end first, which answers most waiting callers. Only then is the rest cancelled.
        with self._opening:
            with ungrouped():
                async with trio.open_nursery() as nursery:
                    with self._lock:
                        self._way_in = trio.lowlevel.current_trio_token().run_sync_soon
                    if self._is_leaving:
                        self._end()
                    with failure:
                        async with self._open_one() as self._supervisor:
                            nursery.start_soon(
                                self._begin_calls, nursery, name="begin calls of other threads"
                            )
                            ready.set_result(None)
                            await self._leave.wait()
                    nursery.cancel_scope.cancel(reason="the supervisor was closed")
            failure.release()

    def _end(self) -> None:
        if self._supervisor is None:
            self._opening.cancel(reason="the supervisor was closed while it was opened")
        self._leave.set()

    async def _begin_calls(self, nursery: trio.Nursery) -> None:
        """Start calls in order of arrival, so that two calls of one thread are sent in that order."""
        async for call in self._begun:  # a checkpoint each time
            call.begin(nursery)
            del call  # otherwise it and its result are kept until the next one comes

    # --- calls

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def state(self) -> str:
        if self._thread is None:
            return "new"
        if not self.is_over:
            return "open"
        return "closed" if self._failure is None else "crashed"

    def near(self) -> SessionSupervisor:
        """Return the supervisor, for use in its thread. Queries may use it after the end."""
        if self._supervisor is None:
            raise self.closed()
        return self._supervisor

    def closed(self) -> AgentrailError:
        if self._thread is None:
            return YourMove(
                "this supervisor is not open: `with blocking.Supervisor() as supervisor:`, or open()"
            )
        cause = self._failure
        how = "was closed" if cause is None else f"has crashed ({describe_bug(cause)})"
        if self.is_forked:
            how = "runs in the process that this one was forked from: open another one here"
        error = SupervisorClosed(EVERY, f"the supervisor {how}")
        error.__cause__ = cause
        return error

    def submit(
        self, make: Callable[[], Awaitable[T]], unread: Callable[[T], None] | None = None
    ) -> "Future[T]":
        call = _Call(self, make, unread)
        # First: Ctrl-C in it can leave the lock of the future taken, and then no other thread must use the future.
        call.future.add_done_callback(InterruptibleFuture.on_done)
        with self._lock:
            is_open = self._way_in is not None
            if is_open:
                self._calls[call] = None
        if not is_open:
            call.fail(self.closed())
            return call.future
        self.soon(self._come.send_nowait, call)
        return call.future

    def soon(self, function: Callable[..., object], *args: object) -> None:
        way_in = self._way_in
        if way_in is not None:
            with suppress(trio.RunFinishedError):
                way_in(function, *args)

    def call_back(self, function: Callable[["Future[T]"], object], future: "Future[T]") -> None:
        try:
            function(future)
        except BaseException as error:
            if isinstance(error, Exception) or not self.is_here():
                raise
            message = "a callback of a future may not end the thread of its supervisor"
            raise RuntimeError(message) from error  # noqa: ASYNC104 - logged by the future; no checkpoint is in here

    def forget(self, call: "_Call[Any]") -> None:
        with self._lock:
            self._calls.pop(call, None)

    def wait(self, future: "Future[T]") -> T:
        try:
            if isinstance(future, InterruptibleFuture):
                future.unsettled.acquire()
            return future.result()
        except BaseException:
            future.cancel()  # no effect if it raised this error
            raise
        finally:
            del future  # its error refers to this frame, which would refer back to it

    def look(self, look: Callable[[], T]) -> T:
        """Run a query that does not wait: in the thread, or right here if the thread has ended."""

        async def looked() -> T:
            await trio.lowlevel.checkpoint_if_cancelled()
            return look()

        if self._way_in is None or self.is_here():
            return look()
        try:
            return self.wait(self.submit(looked))
        except SupervisorClosed:
            return look()

    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def refuse_inside(self, call: str) -> None:
        if self.is_here():
            message = (
                f"{call} in the thread of its own supervisor, such as in a tool, would wait for itself: "
                "await a method of the tool's context, or call .futures without waiting for it"
            )
            raise CallingSelf(message)

    def refuse_to_hold(self, call: str) -> None:
        self.refuse_inside(call)
        if trio.lowlevel.in_trio_run():
            message = f"{call}(…) would block the Trio run of this thread: use agentrail.open_supervisor(), whose calls are awaited"
            raise HoldsLoop(message)
        if _asyncio_runs():
            where, _, name = call.rpartition(".")
            message = (
                f"{call}(…) would block the asyncio loop of this thread: "
                f"await asyncio.wrap_future({where}.futures.{name}(…))"
            )
            raise HoldsLoop(message)


_RUNS_IN: Final[ContextVar[tuple[SupervisorThread, ...]]] = ContextVar(
    "agentrail_blocking_supervisors_that_run_this"
)
"""Tasks inherit it, and functions in worker threads inherit it from the task that started them."""


_OPEN: Final[dict[SupervisorThread, None]] = {}


def _end_all_in_child() -> None:
    for home in tuple(_OPEN):
        home.end_in_child()


os.register_at_fork(after_in_child=_end_all_in_child)


def _asyncio_runs() -> bool:
    """Whether an asyncio loop is running in this thread. Uses asyncio only if the program has imported it."""
    asyncio = sys.modules.get("asyncio")
    # In a notebook, a loop runs each cell and waits for it anyway.
    if asyncio is None or "ipykernel" in sys.modules:
        return False
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - the function that does not raise
