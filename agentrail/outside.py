"""The only module with access to sources of nondeterminism: ids, clocks, random numbers, threads, processes, the watchdog.

There are eight functions. `ids`, `wall`, `stopwatch`, `jitter`, `offload` (with `check_cancelled`), `processes` and
`watchdog`
use the installed machine; `monotonic` is Trio's clock, which `trio.run(clock=…)` replaces. Outside of `agentrail.testing` no
other
code of ours calls the machine, which `make lint` checks.

    with outside.installed(SeededMachine(7)):
        async with agentrail.open_supervisor() as supervisor:
            ...

A context variable holds the machine, rather than a global of the process. Tasks inherit it from the task that starts them,
and
functions in worker threads from the one that offloads them. So two supervisors in two threads have two machines, and so can
two in one Trio run. This module must not import anything of agentrail.
"""

import os
import random
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio

T = TypeVar("T")

Command: TypeAlias = Sequence[str | bytes | os.PathLike[str]]
ChildProcess: TypeAlias = "subprocess.Popen[bytes]"


class Watchdog(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it. Safe to repeat, and after the call."""
        ...


class ProcessDoor(Protocol):
    """Source of child processes. Options are those of `subprocess.Popen`."""

    async def open(self, command: Command, **options: Any) -> trio.Process:
        """Start one, from a worker thread, like `trio.lowlevel.open_process`."""
        ...

    async def run(self, command: Command, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run one to its end, like `trio.run_process`.

        Cancellation: Ends it.
        """
        ...

    def start(self, command: Command, **options: Any) -> "subprocess.Popen[bytes]":
        """Start one from the current thread, for processes that must end with it."""
        ...

    def signal_group(self, group: int, number: int) -> None:
        """Send a signal to a process group. 0 only checks whether the group exists."""
        ...


class Outside(Protocol):
    """The machine, or its replacement. Replaced as a whole: half a simulation is not repeatable."""

    @property
    def processes(self) -> ProcessDoor: ...

    def ids(self, size_bytes: int, /) -> str:
        """Create an id of this many bytes, in hexadecimal digits: unique, and on a real machine unguessable."""
        ...

    def wall(self) -> float:
        """Read the wall clock: seconds since 1970. It may be wrong, and may go backwards."""
        ...

    def stopwatch(self) -> float:
        """Read a clock for differences only, in seconds: the duration of a piece of code."""
        ...

    def jitter(self) -> float:
        """Return a random number from 0 up to 1, to spread retries over time."""
        ...

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Run a blocking function without blocking the event loop, like `trio.to_thread.run_sync`."""
        ...

    def check_cancelled(self) -> None:
        """Raise in an offloaded function when the task that waits for it was cancelled. Let the exception propagate."""
        ...

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> Watchdog:
        """Call a function after this many seconds, even if the event loop is blocked, unless it is cancelled."""
        ...


class MachineProcesses:
    __slots__ = ()

    async def open(self, command: Command, **options: Any) -> trio.Process:
        """Start one, from a worker thread."""
        return await trio.lowlevel.open_process(command, **options)

    async def run(self, command: Command, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        return await trio.run_process(command, **options)

    def start(self, command: Command, **options: Any) -> "subprocess.Popen[bytes]":
        """Start one from the current thread."""
        return subprocess.Popen(command, **options)  # noqa: S603 - the caller decides on the command

    def signal_group(self, group: int, number: int) -> None:
        os.killpg(group, number)


class RealMachine:
    """The real machine. Subclass it to replace some functions and keep the others."""

    __slots__ = ()

    processes: ProcessDoor = MachineProcesses()

    def ids(self, size_bytes: int, /) -> str:
        return secrets.token_hex(size_bytes)

    def wall(self) -> float:
        return time.time()

    # The function itself, not a method around it: it is called twice for each plugin and hook.
    stopwatch: "staticmethod[[], float]" = staticmethod(time.perf_counter)

    def jitter(self) -> float:
        return random.random()  # noqa: S311 - spreads retries over time, not a secret

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        return await trio.to_thread.run_sync(
            function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
        )

    def check_cancelled(self) -> None:
        trio.from_thread.check_cancelled()

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> Watchdog:
        """Wait in a thread, which runs even if the event loop does not."""
        waiting = threading.Timer(seconds, bark)
        waiting.daemon = True
        waiting.start()
        return waiting


MACHINE: Final[Outside] = RealMachine()

_IN_PLACE: Final[ContextVar[Outside]] = ContextVar("agentrail_outside", default=MACHINE)


# The method itself, not a function around it: it is called for each read of a clock.
current: Final[Callable[[], Outside]] = _IN_PLACE.get
"""Return the installed machine: the real one, unless another was installed."""


@contextmanager
def installed(outside: Outside) -> Iterator[None]:
    """Install a machine for the block, and for all tasks that start in it, for their lifetime.

    A supervisor that is opened in the block keeps it too, with all its sessions, even for calls from elsewhere.
    """
    token = _IN_PLACE.set(outside)
    try:
        yield
    finally:
        _IN_PLACE.reset(token)


def ids(size_bytes: int) -> str:
    """Create an id. See `Outside.ids`."""
    return _IN_PLACE.get().ids(size_bytes)


def wall() -> float:
    """Read the wall clock. See `Outside.wall`. Signals use `runtime.session_clock.now_ms`, which never goes backwards."""
    return _IN_PLACE.get().wall()


def monotonic() -> float:
    """Read Trio's clock, in its run or in a function that was offloaded from it."""
    if trio.lowlevel.in_trio_run():
        return trio.current_time()
    return trio.from_thread.run_sync(trio.current_time)


def stopwatch() -> float:
    """Read a clock for differences. See `Outside.stopwatch`."""
    return _IN_PLACE.get().stopwatch()


def jitter() -> float:
    """Return a random number from 0 up to 1. See `Outside.jitter`."""
    return _IN_PLACE.get().jitter()


async def offload(
    function: Callable[..., T],
    /,
    *args: Any,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Run a blocking function without blocking the event loop, and wait for it.

    Cancellation: A checkpoint. Takes effect at once if the function may be abandoned. Otherwise when the function returns, or
        raises
        because it called `check_cancelled()`.
    """
    return await _IN_PLACE.get().offload(
        function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
    )


def check_cancelled() -> None:
    """Raise in an offloaded function when the task that waits for it was cancelled."""
    _IN_PLACE.get().check_cancelled()


def way_back() -> Callable[..., object]:
    """Return a function for offloaded code that schedules a call in the event loop. Create it in the event loop.

    A machine that offloads functions into the event loop itself does not need it: they are there already.
    """
    return trio.lowlevel.current_trio_token().run_sync_soon


def processes() -> ProcessDoor:
    return _IN_PLACE.get().processes


def watchdog(seconds: float, bark: Callable[[], None]) -> Watchdog:
    """Call a function after this many seconds, even if the event loop is blocked. See `Outside.watchdog`."""
    return _IN_PLACE.get().watchdog(seconds, bark)
