"""Detection of a blocked event loop: a debug mode that names the task whose step blocked all others."""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, thread_time  # bound here: tests replace the clocks of the module
from typing import Final, TypeAlias

import trio
from attrs import frozen

from agentrail.errors import OptionError
from agentrail.logs import Logger
from agentrail.otp.guarded_calls import is_plain_function, show

LOGGER: Final = Logger("agentrail.runtime")

HELD_SECONDS: Final = 0.05
"""Steps longer than this many seconds are reported: users notice them, and they delay the timeouts of all other sessions."""

VARIABLE: Final = "AGENTRAIL_DEBUG"
_MODES: Final = ("loop",)

_MAX_FRAMES: Final = 12
# How much of earlier steps may count as a step's own CPU time. Reading the CPU time of a thread is a system call, longer than
# most steps. Read before each step, it took a tenth of the CPU of a program with many steps.
_GRAIN_SECONDS: Final = 0.002
_WATCHED: Final[trio.lowlevel.RunVar[bool]] = trio.lowlevel.RunVar("agentrail_loop_is_watched", default=False)


@frozen(kw_only=True)
class SlowStep:
    """One step that blocked the event loop.

    Attributes:
        task: Name of the Trio task: for a session's actor its id, for a call the name of its tool.
        seconds: How long all other tasks waited.
        cpu_seconds: CPU time of the thread in that time. If it is much less, the step waited, or the machine was
            busy.
        where: The stack while it was blocked, innermost last. Empty if the step ended before a sample.
    """

    task: str
    seconds: float
    cpu_seconds: float
    where: str = ""


OnHeld: TypeAlias = Callable[[SlowStep], None]


def describe_held(held: SlowStep) -> str:
    """Describe it for people, including unknown parts."""
    said = (
        f"task {held.task!r} blocked the event loop for {held.seconds * 1000:.0f} ms "
        f"({held.cpu_seconds * 1000:.0f} ms of them computing): await, or move the work into a thread"
    )
    where = (
        held.where
        or "the location is unknown: it ended before it could be sampled, or it blocked all threads\n"
    )
    return f"{said}\n{where}"


def log_held(held: SlowStep) -> None:
    """Log it to `agentrail.runtime`, level warning."""
    LOGGER.warning("%s", describe_held(held))


def modes_of(text: str) -> frozenset[str]:
    """Parse `AGENTRAIL_DEBUG`: comma-separated words.

    Raises:
        OptionError: Your move: an unknown mode.
    """
    words = frozenset(word for word in (part.strip() for part in text.split(",")) if word)
    unknown = sorted(words - set(_MODES))
    OptionError.raise_for([f"{VARIABLE} has {word!r}: expected {', '.join(_MODES)}" for word in unknown])
    return words


class LoopWatch(trio.abc.Instrument):
    """The instrument. Pass it to `trio.run(…, instruments=[…])`, or use `watch_loop` inside a run."""

    def __init__(self, on_held: OnHeld = log_held, *, seconds: float = HELD_SECONDS) -> None:
        """Set the callback, and the seconds from which a step is reported."""
        self._on_held = on_held
        self._seconds = seconds
        self._began: float | None = None
        self._cpu_began = 0.0
        self._cpu_asked = float("-inf")
        self._thread = 0
        self._sample: tuple[float, str] | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Record when the step begins."""
        self._thread = threading.get_ident()
        began = perf_counter()
        if began - self._cpu_asked > _GRAIN_SECONDS:
            self._cpu_asked, self._cpu_began = began, thread_time()
        self._began = began

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Report a step that took too long."""
        began, self._began = self._began, None
        if began is None:  # the instrument was added in the middle of this step
            return
        took = perf_counter() - began
        if took <= self._seconds:
            return
        cpu_seconds = min(thread_time() - self._cpu_began, took)
        sample, self._sample = self._sample, None
        where = sample[1] if sample is not None and sample[0] == began else ""
        self._on_held(SlowStep(task=task.name, seconds=took, cpu_seconds=cpu_seconds, where=where))

    def look(self) -> None:
        """Sample the stack of the current step if it takes too long. Called from another thread."""
        began = self._began
        if began is None or perf_counter() - began <= self._seconds:
            return
        if self._sample is not None and self._sample[0] == began:
            return
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the documented way to read another thread's stack
        if frame is not None and self._began == began:
            self._sample = (began, "".join(traceback.format_stack(frame, limit=_MAX_FRAMES)))

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Run the sampling thread for the block. Without it, `where` is always empty."""
        is_over = threading.Event()

        def keep_looking() -> None:
            while not is_over.wait(self._seconds / 2):
                self.look()

        thread = threading.Thread(target=keep_looking, name="agentrail loop watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@contextmanager
def watch_loop(on_held: OnHeld = log_held, *, seconds: float = HELD_SECONDS) -> Iterator[None]:
    """Report blocking steps during the block. Requires a Trio run. A block inside another does nothing.

    Args:
        on_held: Called with each such step, in Trio's thread. Logs it by default.
        seconds: How long a step may take.

    Raises:
        OptionError: Your move: an async function, or no function.
    """
    if not is_plain_function(on_held):
        raise OptionError([f"on_held is {show(on_held)}: expected a function without `async`"])
    if _WATCHED.get():
        yield
        return
    watch = LoopWatch(on_held, seconds=seconds)
    token = _WATCHED.set(True)
    with watch.sampling():
        trio.lowlevel.add_instrument(watch)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(watch)
            _WATCHED.reset(token)
