"""How a figure is taken: bare, ours, bare, and the ratio to the mean of the two. No workload enters this file.

The machine is shared and its clock rate wanders, so nothing is compared with a figure of another run, and nothing here
is ever asserted.
"""

import gc
import resource
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter, process_time
from typing import Literal, TypeAlias

import trio
from attrs import frozen

from agentrail.gc_settings import CollectorState, collector_state
from benchmarks.explain import Explanation, slowest_functions

Sample: TypeAlias = Mapping[str, float]
"""What one run of one side measured, by metric."""
Side: TypeAlias = Callable[[], Sample]

Explain: TypeAlias = Callable[[], Explanation]
"""Does the work of a side once more, and says where what it costs goes."""

Verdict: TypeAlias = Literal["ahead", "within", "misses", "-"]


@frozen(kw_only=True)
class Effort:
    """How much work a run may be.

    Attributes:
        rounds: How often each workload is taken; bare runs twice in each.
        scale: What sizes are multiplied with, at most 1; for a smoke test, whose figures mean nothing.
        full: Whether the workloads that take minutes run too.
    """

    rounds: int = 5
    scale: float = 1.0
    full: bool = False

    def of(self, size: int) -> int:
        """Scale a size; at least 10 of anything."""
        return max(min(size, 10), round(size * self.scale))


@frozen(kw_only=True)
class Spread:
    """The same thing, measured several times.

    Attributes:
        least: The smallest.
        median: The one to look at.
        most: The largest.
    """

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarize what was measured."""
        return cls(least=min(values), median=statistics.median(values), most=max(values))


@frozen(kw_only=True)
class Target:
    """What a figure is held against.

    Attributes:
        of: Which figure: the ratio to the bare loop, or ours by itself.
        must: The most it may be.
        aim: What a lean loop written by hand would reach; None where nobody has written one.
    """

    of: Literal["ratio", "ours"]
    must: float
    aim: float | None = None


@frozen(kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        workload: Its name for `--only`, and which metric of it.
        what: The metric, in words.
        unit: Of `ours` and `bare`.
        ours: agentrail.
        bare: The bare loop, where there is one that compares.
        ratio: Ours to the bare runs before and after it; round by round, so its median is not the medians' ratio.
        target: What is to be reached; None where a figure is only told.
        cpu_seconds: Of one whole run of ours, set-up included, with the processes that it waited for.
        wall_seconds: Of the same run. Much more than `cpu_seconds` in a workload that only computes: the machine was busy.
        explain: What explains a miss; not a figure.
    """

    workload: str
    what: str
    unit: str
    ours: Spread
    bare: Spread | None = None
    ratio: Spread | None = None
    target: Target | None = None
    cpu_seconds: Spread | None = None
    wall_seconds: Spread | None = None
    explain: Explain | None = None

    @property
    def verdict(self) -> Verdict:
        """Say where the median stands: `ahead` of the aim if there is one, `within` what must be, or it `misses` that."""
        if self.target is None:
            return "-"
        judged = self.ours if self.target.of == "ours" else self.ratio
        if judged is None:
            return "-"
        if self.target.aim is not None and judged.median <= self.target.aim:
            return "ahead"
        return "within" if judged.median <= self.target.must else "misses"


@frozen(kw_only=True)
class Rounds:
    """What all rounds of a workload measured.

    Attributes:
        ours: A sample per round.
        bare: Two per round.
        cost: CPU and wall seconds of each run of ours.
        explain: What explains a miss.
    """

    ours: Sequence[Sample]
    bare: Sequence[Sample]
    cost: Sequence[tuple[float, float]] = ()
    explain: Explain | None = None

    def row(  # noqa: PLR0913 - the columns of a table
        self,
        workload: str,
        metric: str,
        what: str,
        *,
        unit: str,
        factor: float = 1.0,
        target: Target | None = None,
        explain: Explain | None = None,
    ) -> Row:
        """Make the line of one metric; one that the bare loop has not stands alone.

        `explain` is what explains a miss of this line, where a profile of the whole run would not.
        """
        ours = [sample[metric] * factor for sample in self.ours]
        bare = [sample[metric] * factor for sample in self.bare if metric in sample]
        brackets = [(before + after) / 2 for before, after in zip(bare[::2], bare[1::2], strict=True)]
        ratios = [mine / theirs for mine, theirs in zip(ours, brackets, strict=False) if theirs]
        return Row(
            workload=workload,
            what=what,
            unit=unit,
            ours=Spread.of(ours),
            bare=Spread.of(bare) if bare else None,
            ratio=Spread.of(ratios) if ratios else None,
            target=target,
            cpu_seconds=Spread.of([cpu for cpu, _ in self.cost]) if self.cost else None,
            wall_seconds=Spread.of([wall for _, wall in self.cost]) if self.cost else None,
            explain=explain or self.explain,
        )


class Watch:
    """What a subscriber was told to look out for, on either side.

    Attributes:
        come_at: When it came last, in seconds on the clock of the benchmarks.
    """

    def __init__(self) -> None:
        self.come_at = 0.0
        self._come = trio.Event()

    def tell(self) -> None:
        """It came."""
        self.come_at = perf_counter()
        self._come.set()

    async def wait_come(self) -> None:
        """Wait for the next one."""
        await self._come.wait()
        self._come = trio.Event()


def interleave(
    bare: Side, ours: Side, rounds: int, *, explain: Explain | None = None, warm_up: bool = True
) -> Rounds:
    """Take a workload `rounds` times, ours between two bare runs, after one run of each that warms up.

    Args:
        bare: The bare loop.
        ours: agentrail.
        rounds: How often.
        explain: What explains a miss; a profile of `ours` when None. For sides that work in a process of their own.
        warm_up: False for sides that do so themselves.
    """
    if warm_up:
        bare()
        ours()
    mine: list[Sample] = []
    theirs: list[Sample] = []
    cost: list[tuple[float, float]] = []
    for _ in range(rounds):
        theirs.append(_clean(bare)[0])
        sample, spent = _clean(ours)
        mine.append(sample)
        cost.append(spent)
        theirs.append(_clean(bare)[0])
    return Rounds(ours=mine, bare=theirs, cost=cost, explain=explain or partial(slowest_functions, ours))


def repeat(ours: Side, rounds: int, *, warm_up: bool = True) -> Rounds:
    """Take a workload that no bare loop has: `rounds` times, after one that warms up unless it does so itself."""
    if warm_up:
        ours()
    taken = [_clean(ours) for _ in range(rounds)]
    return Rounds(
        ours=[sample for sample, _ in taken],
        bare=(),
        cost=[cost for _, cost in taken],
        explain=partial(slowest_functions, ours),
    )


def percentile(values: Iterable[float], percent: float) -> float:
    """Read a percentile, between the two values around it."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _clean(side: Side) -> tuple[Sample, tuple[float, float]]:
    """Run one side, and say what the whole run took: CPU and wall.

    Raises:
        RuntimeError: Ours: it left the collector of this process other than it was, so what comes next would be wrong.
    """
    gc.collect()  # what the run before left behind is not this run's to clear away
    collector = collector_state()
    began_at, cpu_at = perf_counter(), _cpu_seconds()
    sample = side()
    cost = (_cpu_seconds() - cpu_at, perf_counter() - began_at)
    if not _is_set_alike(collector, collector_state()):
        message = f"a workload left the collector as {describe_collector(collector_state())}, it was {describe_collector(collector)}"
        raise RuntimeError(message)
    return sample, cost


def _is_set_alike(before: CollectorState, after: CollectorState) -> bool:
    """Compare what is set: of what is frozen some may have been freed."""
    return (before.is_enabled, before.thresholds, before.frozen > 0) == (
        after.is_enabled, after.thresholds, after.frozen > 0
    )  # fmt: skip


def _cpu_seconds() -> float:
    """Say how much CPU this process has had, and the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def describe_collector(state: CollectorState) -> str:
    """Say how the collector is set, in words."""
    on = "on" if state.is_enabled else "off"
    thresholds = ", ".join(f"{threshold:,}" for threshold in state.thresholds)
    return f"{on}, thresholds {thresholds}, {state.frozen:,} objects frozen"
