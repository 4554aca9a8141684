"""Seeds for programs: ids, clocks, chance and threads (`SeededMachine`), and the order of tasks in Trio.

machine = SeededMachine(7)
with seeded_order(7), outside.installed(machine):
    trio.run(main, clock=FakeClock())
"""

import contextvars
import random
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

import outcome
import trio
from attrs import define, field
from trio._core import _run

from agentrail.outside import Command, ProcessDoor, RealMachine

# The order of tasks.
#
# Trio shuffles ready tasks with its own random generator, which callers can influence only through the first two names.
# Hypothesis and pytest-trio use the same two. An order that leaves tasks for later also needs the queue of ready tasks. All may change with any release. So the tested releases are listed, and a
# run under another one reports that it is not repeatable.

TRIO_RELEASES: Final = frozenset({"0.31", "0.32", "0.33", "0.34", "0.35"})
"""Releases in which `tests/testing/test_schedule.py` passes. Run it under a new release before you add that."""

_GENERATOR: Final = "_r"
_SORTED_FIRST: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_CURRENT: Final = "GLOBAL_RUN_CONTEXT"
_QUEUE: Final = "runq"


class TaskShuffler(Protocol):
    """Takes the place of Trio's generator."""

    def shuffle(self, batch: list[trio.lowlevel.Task], /) -> None:
        """Order the ready tasks, in place. Trio runs the last one first, and does not run the tasks that are left out."""


class NotRepeatable(Warning):
    """This run cannot be repeated exactly, with the reason.

    A warning if a run is useful nevertheless, an error if it is not.
    """


def why_not_repeatable(release: str = trio.__version__, switches: object = _run) -> str | None:
    """Return why the order of tasks cannot be repeated here. None if it can.

    Args:
        release: Release of Trio.
        switches: Trio's module with the names.
    """
    if not isinstance(getattr(switches, _GENERATOR, None), random.Random) or not isinstance(
        getattr(switches, _SORTED_FIRST, None), bool
    ):
        return (
            f"not repeatable: Trio {release} has no {_GENERATOR} or no {_SORTED_FIRST} in trio._core._run, "
            "so the order of tasks cannot be controlled; use one of " + _known()
        )
    if not hasattr(switches, _CURRENT) or not hasattr(getattr(switches, "Runner", None), _QUEUE):
        return (
            f"not repeatable: Trio {release} has no {_CURRENT} or no Runner.{_QUEUE} in trio._core._run, "
            "so tasks cannot be held back; use one of " + _known()
        )
    if ".".join(release.split(".")[:2]) not in TRIO_RELEASES:
        return (
            f"not repeatable: the order of tasks is unknown for Trio {release}; use one of {_known()}, "
            "or run tests/testing/test_schedule.py under it and add it to TRIO_RELEASES"
        )
    return None


@contextmanager
def seeded_order(seed: object, order: TaskShuffler | None = None) -> Iterator[None]:
    """Seed the order of tasks in each `trio.run` of the block, in this thread. Not inside of a run.

    Args:
        seed: Any object with its own `str`.
        order: Orders the tasks instead of a generator of the seed.

    Warns:
        NotRepeatable: Not repeatable under this release of Trio. The block runs nevertheless.
    """
    fault = why_not_repeatable()
    if fault is not None:
        warnings.warn(fault, NotRepeatable, stacklevel=3)
    switches: Any = _run
    generator: object = getattr(switches, _GENERATOR, None)
    sorted_first: object = getattr(switches, _SORTED_FIRST, None)
    try:
        # A separate generator, so that Trio's own continues after the block as if unused.
        setattr(switches, _GENERATOR, order or random.Random(f"{seed}/order"))  # noqa: S311 - must be repeatable, and is not a secret
        setattr(switches, _SORTED_FIRST, True)
        yield
    finally:
        _put_back(switches, _GENERATOR, generator)
        _put_back(switches, _SORTED_FIRST, sorted_first)


def run_queue() -> deque[trio.lowlevel.Task]:
    """Return Trio's own queue of ready tasks, to which an `TaskShuffler` may return what it left out. Only inside of a run."""
    queue: deque[trio.lowlevel.Task] = getattr(getattr(_run, _CURRENT).runner, _QUEUE)
    return queue


def _put_back(switches: object, name: str, value: object) -> None:
    if value is None:
        delattr(switches, name)
    else:
        setattr(switches, name, value)


def _known() -> str:
    return ", ".join(sorted(TRIO_RELEASES))


T = TypeVar("T")

BEGINNING: Final = 1_700_000_000.0
"""Wall clock at Trio's time 0, in seconds since 1970."""

MAX_STEPS_LATE: Final = 8
"""Maximum delay of an offloaded function, in turns of the loop."""


class _Stopped(BaseException):
    """An offloaded function learned that its caller was cancelled, and let this propagate."""


@define(eq=False)
class _Job:
    """An offloaded function.

    Attributes:
        waiting: The task that waits for it. None once it was abandoned.
    """

    waiting: trio.lowlevel.Task | None
    abandonable: bool
    is_cancelled: bool = False
    context: contextvars.Context = field(factory=contextvars.copy_context)


class NoProcesses:
    """Starts no process: commands need a memory sandbox here."""

    async def run(self, command: Command, **_options: Any) -> Any:
        """Refuse.

        Raises:
            PermissionError: Always.
        """
        await trio.lowlevel.checkpoint()
        raise _no_process(command)

    open = run

    def start(self, command: Command, **_options: Any) -> Any:
        """Refuse.

        Raises:
            PermissionError: Always.
        """
        raise _no_process(command)

    def signal_group(self, group: int, _number: int) -> None:
        """Raise: there are no groups.

        Raises:
            ProcessLookupError: Always.
        """
        message = f"there is no process group {group} in a seeded run"
        raise ProcessLookupError(message)


class SeededMachine(RealMachine):
    """A machine whose every value comes from a seed. For one Trio run, with a virtual clock.

    Each kind of value has its own generator, so that one more retry does not change the ids.

    Attributes:
        barked: Times, on Trio's clock, of expired watchdogs. Their action is not carried out.
    """

    processes: ProcessDoor = NoProcesses()
    # Bounds of the turns that offloaded functions are late.
    steps_late: ClassVar[tuple[int, int]] = (1, MAX_STEPS_LATE)

    def __init__(self, seed: object) -> None:
        """Set the seed: any object with its own `str`."""
        self._ids = random.Random(f"{seed}/ids")  # noqa: S311 - must be repeatable, like all here
        self._jitter = random.Random(f"{seed}/jitter")  # noqa: S311 - see above
        self._late = random.Random(f"{seed}/threads")  # noqa: S311 - see above
        self._running: _Job | None = None
        self.barked: list[float] = []

    def ids(self, size_bytes: int, /) -> str:
        """Draw an id."""
        return self._ids.randbytes(size_bytes).hex()

    def wall(self) -> float:
        """Return Trio's time plus a fixed date. Outside of a run, the date."""
        return BEGINNING + self.stopwatch()

    def stopwatch(self) -> float:
        """Return Trio's time: code takes no time here."""
        return trio.current_time() if trio.lowlevel.in_trio_run() else 0.0

    def jitter(self) -> float:
        """Draw a jitter value."""
        return self._jitter.random()

    async def offload(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Run a function in the loop, some turns later. An abandoned function still runs."""
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _Job(trio.lowlevel.current_task(), abandon_on_cancel)
        if limiter is not None:
            await limiter.acquire_on_behalf_of(job)

        def stop_waiting(_: object) -> trio.lowlevel.Abort:
            job.is_cancelled = True
            if not abandon_on_cancel:
                return trio.lowlevel.Abort.FAILED
            job.waiting = None
            return trio.lowlevel.Abort.SUCCEEDED

        trio.lowlevel.spawn_system_task(
            self._work,
            job,
            lambda: function(*args),
            self._late.randint(*self.steps_late),
            limiter,
            name=f"offloaded {getattr(function, '__qualname__', type(function).__qualname__)}",
        )
        try:
            return cast("T", await trio.lowlevel.wait_task_rescheduled(stop_waiting))
        except _Stopped:
            await trio.lowlevel.checkpoint()  # raises Trio's own
            raise

    def check_cancelled(self) -> None:
        """Raise in an offloaded function whose caller was cancelled.

        Raises:
            RuntimeError: Your move: the caller is not an offloaded function.
        """
        if self._running is None:
            message = "check_cancelled is only for functions in worker threads"
            raise RuntimeError(message)
        if self._running.is_cancelled:
            raise _Stopped

    def watchdog(self, seconds: float, bark: Callable[[], None], /) -> trio.CancelScope:
        """Record in `barked` when it would have ended the process. Cancelling the scope disarms it."""
        scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        trio.lowlevel.spawn_system_task(self._watch, scope, name="watchdog")
        return scope

    async def _work(
        self, job: _Job, call: Callable[[], object], steps_late: int, limiter: trio.CapacityLimiter | None
    ) -> None:
        # Shielded: the end of the run waits for it, so that abandoned work is not cut in the middle.
        with trio.CancelScope(shield=True):
            for _ in range(steps_late):
                await trio.lowlevel.checkpoint()
            await self._wait_before()
        before, self._running = self._running, job
        try:
            done = job.context.run(outcome.capture, call)
        finally:
            self._running = before
        with trio.CancelScope(shield=True):
            await self._wait_after()
        if limiter is not None:
            limiter.release_on_behalf_of(job)
        if job.waiting is not None:
            waiting, job.waiting = job.waiting, None
            trio.lowlevel.reschedule(waiting, done)

    async def _wait_before(self) -> None:
        """Take the time of an offloaded function before it runs. None here; in a simulated world, the way to a store."""

    async def _wait_after(self) -> None:
        """Take the time after it, such as the way back."""

    async def _watch(self, scope: trio.CancelScope) -> None:
        at = scope.deadline
        with scope:
            await trio.sleep_forever()
        if trio.current_time() >= at:
            self.barked.append(at)


def _no_process(command: Command) -> PermissionError:
    return PermissionError(
        1, f"{command[0]!r} was not started: seeded runs start no processes; use a memory sandbox"
    )
