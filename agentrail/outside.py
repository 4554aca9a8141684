"""The only source of nondeterminism: ids, clocks, random numbers, threads, processes, the watchdog.

`ids`, `wall`, `stopwatch`, `jitter`, `offload` (with `check_cancelled`), `processes` and `watchdog` use the installed machine. `monotonic` is Trio's clock.
Elsewhere only `agentrail.testing` calls the machine, which `make lint` checks.

    with outside.installed(SeededMachine(7)):
        async with agentrail.open_supervisor() as supervisor:
            ...

A context variable holds the machine, so child tasks and offloaded functions inherit it. This module must not import anything of agentrail.
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
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import outcome
import trio

T = TypeVar("T")

Command: TypeAlias = Sequence[str | bytes | os.PathLike[str]]
ChildProcess: TypeAlias = "subprocess.Popen[bytes]"


class Watchdog(Protocol):
    def cancel(self) -> None: ...


class ProcessDoor(Protocol):
    """Source of child processes, with the options of `subprocess.Popen`."""

    async def open(self, command: Command, **options: Any) -> trio.Process:
        """Start one from a worker thread, like `trio.lowlevel.open_process`."""
        ...

    async def run(self, command: Command, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run one to its end, like `trio.run_process`. Cancellation ends it."""
        ...

    def start(self, command: Command, **options: Any) -> "subprocess.Popen[bytes]":
        """Start one from the current thread, to end with it."""
        ...

    def signal_group(self, group: int, number: int) -> None:
        """Signal a process group. 0 only checks that it exists."""
        ...


class Outside(Protocol):
    """The machine, or its replacement as a whole."""

    @property
    def processes(self) -> ProcessDoor: ...

    def ids(self, size_bytes: int, /) -> str:
        """Create an id of this many bytes, in hexadecimal: unique, and unguessable on a real machine."""
        ...

    def wall(self) -> float:
        """Return seconds since 1970. May be wrong and go backwards."""
        ...

    def stopwatch(self) -> float:
        """Return seconds of a clock for differences only."""
        ...

    def jitter(self) -> float:
        """Return a random number from 0 up to 1."""
        ...

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Run a blocking function, like `trio.to_thread.run_sync`."""
        ...

    def check_cancelled(self) -> None:
        """Raise in an offloaded function once its waiting task is cancelled."""
        ...

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> Watchdog:
        """Call a function after this many seconds, even if the event loop is blocked."""
        ...


class MachineProcesses:
    __slots__ = ()

    async def open(self, command: Command, **options: Any) -> trio.Process:
        return await trio.lowlevel.open_process(command, **options)

    async def run(self, command: Command, **options: Any) -> "subprocess.CompletedProcess[bytes]":
        return await trio.run_process(command, **options)

    def start(self, command: Command, **options: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, **options)  # noqa: S603 - the caller decides on the command

    def signal_group(self, group: int, number: int) -> None:
        os.killpg(group, number)


class RealMachine:
    """The real machine. Subclass it to replace some functions."""

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
        box: list[outcome.Outcome[T]] = []  # frames of Trio would keep an error, which keeps them
        await trio.to_thread.run_sync(
            lambda: box.append(outcome.capture(function, *args)),
            abandon_on_cancel=abandon_on_cancel,
            limiter=limiter,
            thread_name=f"{getattr(function, '__name__', None)} from {trio.lowlevel.current_task().name}",  # as Trio names it
        )
        return box.pop().unwrap()

    def check_cancelled(self) -> None:
        trio.from_thread.check_cancelled()

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> Watchdog:
        """Wait in a thread, independent of the event loop."""
        waiting = threading.Timer(seconds, bark)
        waiting.daemon = True
        waiting.start()
        return waiting


MAX_PROCESS_TURNS: Final = 8
_TURNS: Final[trio.lowlevel.RunVar[dict[str, trio.CapacityLimiter]]] = trio.lowlevel.RunVar(
    "agentrail_process_turns"
)

MACHINE: Final[Outside] = RealMachine()

_IN_PLACE: Final[ContextVar[Outside]] = ContextVar("agentrail_outside", default=MACHINE)


# The method itself, not a function around it: it is called for each read of a clock.
current: Final[Callable[[], Outside]] = _IN_PLACE.get
"""Return the installed machine: the real one, unless another was installed."""
current_run: Final = trio.lowlevel.current_trio_token
"""Return the token of this Trio run, which is only compared."""


@contextmanager
def installed(outside: Outside) -> Iterator[None]:
    """Install a machine for the block, and for all tasks and supervisors started in it."""
    token = _IN_PLACE.set(outside)
    try:
        yield
    finally:
        _IN_PLACE.reset(token)


def ids(size_bytes: int) -> str:
    return _IN_PLACE.get().ids(size_bytes)


def wall() -> float:
    """Read the wall clock. Signals use `runtime.session_clock.now_ms`, which never goes backwards."""
    return _IN_PLACE.get().wall()


def monotonic() -> float:
    """Read Trio's clock, in its run or an offloaded function."""
    if trio.lowlevel.in_trio_run():
        return trio.current_time()
    return trio.from_thread.run_sync(trio.current_time)


def stopwatch() -> float:
    return _IN_PLACE.get().stopwatch()


def jitter() -> float:
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
        raises because it called `check_cancelled()`.
    """
    return await _IN_PLACE.get().offload(
        function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter
    )


def check_cancelled() -> None:
    _IN_PLACE.get().check_cancelled()


def way_back() -> Callable[..., object]:
    """Return a function with which offloaded code schedules a call in the event loop. Create it there."""
    return trio.lowlevel.current_trio_token().run_sync_soon


def processes() -> ProcessDoor:
    return _IN_PLACE.get().processes


def process_turns(kind: Literal["starting", "leaving"]) -> trio.CapacityLimiter:
    """Return the turns of long-lived processes that start, or leave, in this Trio run: eight at a time.

    Each takes the processor from the loop. Two hundred that left together held it for half a second.
    """
    try:
        turns = _TURNS.get()
    except LookupError:
        turns = {name: trio.CapacityLimiter(MAX_PROCESS_TURNS) for name in ("starting", "leaving")}
        _TURNS.set(turns)
    return turns[kind]


def watchdog(seconds: float, bark: Callable[[], None]) -> Watchdog:
    return _IN_PLACE.get().watchdog(seconds, bark)
