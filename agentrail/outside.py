"""The only room that takes from the machine what a seed should give: ids, clocks, chance, threads, processes, the watchdog.

Eight doors. `ids`, `wall`, `stopwatch`, `jitter`, `offload` (with `check_cancelled`), `processes` and `watchdog` go through the
value that is in place; `monotonic` is Trio's clock, which `trio.run(clock=…)` replaces. Below `agentrail.testing` no other code
of ours asks the machine; `make lint` says where one does.

    with outside.installed(SeededMachine(7)):
        async with agentrail.open_supervisor() as supervisor:
            ...

A context variable holds the value, and nothing process-wide does: tasks inherit it from the task that starts them, and
functions in worker threads from the one that offloads them. So two supervisors in two threads have two, and so have
two in one Trio run. Nothing of agentrail may be imported here.
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
    """An end that is set, and can be called off."""

    def cancel(self) -> None:
        """Call it off; again if you like, and when it is over."""
        ...


class ProcessDoor(Protocol):
    """Where child processes come from. Options are those of `subprocess.Popen`."""

    async def open(self, command: Command, **options: Any) -> trio.Process:
        """Start one, from a worker thread; as `trio.lowlevel.open_process`."""
        ...

    async def run(self, command: Command, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run one to its end; as `trio.run_process`.

        Cancellation: Ends it.
        """
        ...

    def start(self, command: Command, **options: Any) -> "subprocess.Popen[bytes]":
        """Start one from this very thread, for those that are to end with it."""
        ...

    def signal_group(self, group: int, number: int) -> None:
        """Send a signal to a process group; 0 only asks whether there is one."""
        ...


class Outside(Protocol):
    """The machine, or what stands for it. Replaced as a whole: half a simulation does not repeat."""

    @property
    def processes(self) -> ProcessDoor:
        """Where child processes come from."""
        ...

    def ids(self, size_bytes: int, /) -> str:
        """Mint an id of so many bytes, in hexadecimal digits: unlike all others, and on a machine beyond guessing."""
        ...

    def wall(self) -> float:
        """Read the clock on the wall: seconds since 1970. It may be wrong, and may go back."""
        ...

    def stopwatch(self) -> float:
        """Read a clock that only differences mean something of, in seconds: how long a piece of code took."""
        ...

    def jitter(self) -> float:
        """Draw a number from 0 up to 1, to spread retries over time."""
        ...

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Run a function that blocks where it does not hold the loop; as `trio.to_thread.run_sync`."""
        ...

    def check_cancelled(self) -> None:
        """Raise in an offloaded function when the task that waits for it was cancelled; let it travel."""
        ...

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> Watchdog:
        """Call a function after so many seconds, whatever the loop does meanwhile, unless it is called off."""
        ...


class MachineProcesses:
    """Real child processes."""

    __slots__ = ()

    async def open(self, command: Command, **options: Any) -> trio.Process:
        """Start one, from a worker thread."""
        return await trio.lowlevel.open_process(command, **options)

    async def run(self, command: Command, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run one to its end."""
        return await trio.run_process(command, **options)

    def start(self, command: Command, **options: Any) -> "subprocess.Popen[bytes]":
        """Start one from this very thread."""
        return subprocess.Popen(command, **options)  # noqa: S603 - who calls decides what runs

    def signal_group(self, group: int, number: int) -> None:
        """Send a signal to a process group."""
        os.killpg(group, number)


class RealMachine:
    """The machine as it is. Derive from it to replace some doors and leave the others open."""

    __slots__ = ()

    processes: ProcessDoor = MachineProcesses()

    def ids(self, size_bytes: int, /) -> str:
        """Mint an id from the randomness of the operating system."""
        return secrets.token_hex(size_bytes)

    def wall(self) -> float:
        """Read the clock of the operating system."""
        return time.time()

    # The function itself, and no method around it: it is asked twice for each plugin and hook.
    stopwatch: "staticmethod[[], float]" = staticmethod(time.perf_counter)

    def jitter(self) -> float:
        """Draw from the random numbers of this process."""
        return random.random()  # noqa: S311 - spreads retries over time; no secret

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Run a function in a worker thread."""
        return await trio.to_thread.run_sync(
            function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
        )

    def check_cancelled(self) -> None:
        """Ask Trio, from one of its worker threads."""
        trio.from_thread.check_cancelled()

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> Watchdog:
        """Let a thread wait, which goes on when the loop does not."""
        waiting = threading.Timer(seconds, bark)
        waiting.daemon = True
        waiting.start()
        return waiting


MACHINE: Final[Outside] = RealMachine()

_IN_PLACE: Final[ContextVar[Outside]] = ContextVar("agentrail_outside", default=MACHINE)


# The method itself, and no function around it: each look at the clock asks.
current: Final[Callable[[], Outside]] = _IN_PLACE.get
"""Give what is in place here: the machine, unless something else was installed."""


@contextmanager
def installed(outside: Outside) -> Iterator[None]:
    """Put something in the place of the machine: for the block, and for all tasks that begin in it, as long as they last.

    A supervisor that is opened in the block keeps it too, with all its sessions, also for calls that come from elsewhere.
    """
    token = _IN_PLACE.set(outside)
    try:
        yield
    finally:
        _IN_PLACE.reset(token)


def ids(size_bytes: int) -> str:
    """Mint an id; see `Outside.ids`."""
    return _IN_PLACE.get().ids(size_bytes)


def wall() -> float:
    """Read the clock on the wall; see `Outside.wall`. What becomes part of a signal is `runtime.clock.now_ms`, which never goes back."""
    return _IN_PLACE.get().wall()


def monotonic() -> float:
    """Read Trio's clock, in its run or in a function that was offloaded from it."""
    if trio.lowlevel.in_trio_run():
        return trio.current_time()
    return trio.from_thread.run_sync(trio.current_time)


def stopwatch() -> float:
    """Read a clock for differences; see `Outside.stopwatch`."""
    return _IN_PLACE.get().stopwatch()


def jitter() -> float:
    """Draw a number from 0 up to 1; see `Outside.jitter`."""
    return _IN_PLACE.get().jitter()


async def offload(
    function: Callable[..., T],
    /,
    *args: Any,
    abandon_on_cancel: bool = False,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Run a function that blocks where it does not hold the loop, and wait for it.

    Cancellation: A checkpoint. Takes effect at once where it may be left behind; else when the function returns, or raises
        because it asked `check_cancelled()`.
    """
    return await _IN_PLACE.get().offload(
        function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
    )


def check_cancelled() -> None:
    """Raise in an offloaded function when the task that waits for it was cancelled."""
    _IN_PLACE.get().check_cancelled()


def way_back() -> Callable[..., object]:
    """Give the way from an offloaded function back into the loop: it calls a function there, soon. Ask for it in the loop.

    Where functions are offloaded into the loop itself it is not needed: they are there already.
    """
    return trio.lowlevel.current_trio_token().run_sync_soon


def processes() -> ProcessDoor:
    """Give the place where child processes come from."""
    return _IN_PLACE.get().processes


def watchdog(seconds: float, bark: Callable[[], None]) -> Watchdog:
    """Call a function after so many seconds, whatever the loop does meanwhile; see `Outside.watchdog`."""
    return _IN_PLACE.get().watchdog(seconds, bark)
