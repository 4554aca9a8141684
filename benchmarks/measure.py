"""How a figure is taken: bare, ours, bare, and the ratio to the mean of the two. No workload enters this file.

The machine is shared and its clock rate wanders, so nothing is compared with a figure of another run, and nothing here
is ever asserted.
"""

import gc
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Literal, TypeAlias

import trio
from attrs import frozen

Sample: TypeAlias = Mapping[str, float]
"""What one run of one side measured, by metric."""
Side: TypeAlias = Callable[[], Sample]

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
    """

    workload: str
    what: str
    unit: str
    ours: Spread
    bare: Spread | None = None
    ratio: Spread | None = None
    target: Target | None = None

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
    """

    ours: Sequence[Sample]
    bare: Sequence[Sample]

    def row(  # noqa: PLR0913 - the columns of a table
        self,
        workload: str,
        metric: str,
        what: str,
        *,
        unit: str,
        factor: float = 1.0,
        target: Target | None = None,
    ) -> Row:
        """Make the line of one metric; one that the bare loop has not stands alone."""
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


def interleave(bare: Side, ours: Side, rounds: int) -> Rounds:
    """Take a workload `rounds` times, ours between two bare runs, after one run of each that warms up."""
    bare()
    ours()
    mine: list[Sample] = []
    theirs: list[Sample] = []
    for _ in range(rounds):
        theirs.append(_clean(bare))
        mine.append(_clean(ours))
        theirs.append(_clean(bare))
    return Rounds(ours=mine, bare=theirs)


def repeat(ours: Side, rounds: int) -> Rounds:
    """Take a workload that no bare loop has: `rounds` times, after one that warms up."""
    ours()
    return Rounds(ours=[_clean(ours) for _ in range(rounds)], bare=())


def percentile(values: Iterable[float], percent: float) -> float:
    """Read a percentile, between the two values around it."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _clean(side: Side) -> Sample:
    gc.collect()  # what the run before left behind is not this run's to clear away
    return side()
