"""What a missed row is explained with: the five functions with the most CPU time, or the five lines that hold the most memory.

The stack is looked at each time the process has had so much more CPU, so nothing becomes dearer by being called often, waiting
is no work, and a busy machine does no harm. What C functions take belongs to the Python function that calls them, since
those have a file and a line.
"""

import gc
import signal
import sys
import sysconfig
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, thread_time
from types import CodeType, FrameType
from typing import Final

from attrs import frozen

_ROOT: Final = Path(__file__).parents[1]
_PLACES: Final = 5
_KIB: Final = 1024
_EVERY_SECONDS: Final = 0.001  # the kernel makes it 4 ms on most machines
_ENOUGH_SECONDS: Final = 4.0
_PATIENCE_SECONDS: Final = 20.0  # for sides that mostly wait
# Those of `sys.path` too: an environment may borrow the packages of another one.
_LIBRARIES: Final = tuple(
    f"{folder}/"
    for folder in (
        *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")),
        *(folder for folder in sys.path if folder.endswith("site-packages")),
    )
)


@frozen(kw_only=True)
class Place:
    """Where something goes.

    Attributes:
        where: File and line.
        name: The function; empty for a line of memory.
        share: Of the whole, 0 to 1.
        amount: How much that is, in `unit`.
        unit: `s` or `KiB`.
    """

    where: str
    name: str
    share: float
    amount: float
    unit: str


@frozen(kw_only=True)
class Explanation:
    """Why a row may have missed.

    Attributes:
        places: The first five, the largest first.
        collector: The share of the cyclic collector, which is in nobody's time.
    """

    places: Sequence[Place]
    collector: float = 0.0

    def lines(self) -> Iterator[str]:
        """Say it in lines."""
        for place in self.places:
            name = f"  {place.name}" if place.name else ""
            yield f"{place.share:6.1%}  {place.amount:8.3g} {place.unit}  {place.where}{name}"
        if self.collector:
            yield f"{self.collector:6.1%}  in the cyclic collector"


class Sampler:
    """Looks at the stack of the main thread each time the process has had so much more CPU, until it is told to end."""

    def __init__(self) -> None:
        """Begin with `begin`."""
        self._samples: Counter[CodeType] = Counter()
        self._stack = ExitStack()
        self._collected = [0.0]
        self._began_at = 0.0

    @property
    def spent(self) -> float:
        """How much CPU the process has had since the beginning, in seconds."""
        return process_time() - self._began_at

    def begin(self) -> None:
        """Begin. Only in the main thread."""
        was = signal.signal(signal.SIGPROF, self._look)
        self._stack.callback(signal.signal, signal.SIGPROF, was)
        self._stack.callback(signal.setitimer, signal.ITIMER_PROF, 0)
        self._began_at = process_time()
        self._collected = self._stack.enter_context(_clock_the_collector())
        signal.setitimer(signal.ITIMER_PROF, _EVERY_SECONDS, _EVERY_SECONDS)

    def end(self) -> Explanation:
        """End, and give the functions that had the most."""
        spent = self.spent
        self._stack.close()
        collector = self._collected[0] / spent if spent else 0.0  # what fails at once spends none
        samples = self._samples
        # What ticks during a collection arrives once, in the callback that follows it: its own clock knows better.
        for code in [code for code in samples if code.co_filename == __file__]:
            del samples[code]
        working = (1 - collector) / (samples.total() or 1)
        places = [
            Place(
                where=f"{place_of(code.co_filename)}:{code.co_firstlineno}",
                name=code.co_qualname,
                share=count * working,
                amount=count * working * spent,
                unit="s",
            )
            for code, count in samples.most_common(_PLACES)
        ]
        return Explanation(places=places, collector=collector)

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        if frame is not None:
            self._samples[frame.f_code] += 1


def slowest_functions(side: Callable[[], object], *, enough_seconds: float = _ENOUGH_SECONDS) -> Explanation:
    """Run it until so much CPU was spent, and give the functions that had the most of it. Only in the main thread."""
    give_up_at = perf_counter() + _PATIENCE_SECONDS
    sampler = Sampler()
    sampler.begin()
    try:
        side()
        while sampler.spent < enough_seconds and perf_counter() < give_up_at:
            side()
    finally:
        explanation = sampler.end()
    return explanation


@contextmanager
def _clock_the_collector() -> Iterator[list[float]]:
    collected = [0.0]
    began_at = 0.0

    def look(phase: str, _info: dict[str, int]) -> None:
        nonlocal began_at
        if phase == "start":
            began_at = thread_time()
        else:
            collected[0] += thread_time() - began_at

    gc.callbacks.append(look)
    try:
        yield collected
    finally:
        gc.callbacks.remove(look)


def explain_in_a_folder(fill: Callable[[str], None], side: Callable[[str], object]) -> Explanation:
    """Explain a miss in a folder of its own: rows are explained when all have run, and that of the run is gone by then."""
    with TemporaryDirectory() as root:
        fill(root)
        return slowest_functions(partial(side, root))


async def largest_holders(hold: Callable[[], Awaitable[None]], count: int) -> Explanation:
    """Let something be held so many times, and give the lines that made most of what is held, for one of them."""
    tracemalloc.start()
    try:
        await hold()
        gc.collect()
        held = tracemalloc.take_snapshot().statistics("lineno")
    finally:
        tracemalloc.stop()
    whole = sum(line.size for line in held) or 1
    places = [
        Place(
            where=f"{place_of(line.traceback[0].filename)}:{line.traceback[0].lineno}",
            name="",
            share=line.size / whole,
            amount=line.size / count / _KIB,
            unit="KiB",
        )
        for line in held[:_PLACES]
    ]
    return Explanation(places=places)


def place_of(file: str) -> str:
    """Name a file without the machine: below the repository, or as it is imported."""
    for folder in (*_LIBRARIES, f"{_ROOT}/"):
        if file.startswith(folder):
            return file.removeprefix(folder)
    return Path(file).name
