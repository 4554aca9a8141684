"""Statistics of scores: bootstrap intervals, pass@k, pass^k and agreement. Pure: equal seeds give equal intervals.

The standard library suffices: SciPy, which has the same, is 100 MB.
"""

import math
import random
from collections.abc import Sequence
from typing import Final

from agentrail.structs import Value

RESAMPLES: Final = 2_000


class Interval(Value, frozen=True):
    """A mean with its 95 % percentile-bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interval_of(values: Sequence[float], seed: int = 0) -> Interval:
    """Return the mean of some values, at least one, and its interval from resamples with replacement."""
    count = len(values)
    draw = random.Random(seed)  # noqa: S311 - must be repeatable, and is not a secret
    means = sorted([math.fsum(draw.choices(values, k=count)) / count for _ in range(RESAMPLES)])
    return Interval(math.fsum(values) / count, means[RESAMPLES // 40], means[-1 - RESAMPLES // 40])


def pass_at(k: int, runs: int, passed: int) -> float:
    """Return the probability that at least one of k runs passes, drawn without replacement."""
    return 1 - math.comb(runs - passed, k) / math.comb(runs, k)


def pass_all(k: int, runs: int, passed: int) -> float:
    """Return pass^k: the probability that all of k runs pass, drawn without replacement."""
    return math.comb(passed, k) / math.comb(runs, k)


def kappa_of(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Return Cohen's kappa: the agreement of two raters beyond chance. None if both always agree on one label."""
    count = len(pairs)
    agreed = sum(one == other for one, other in pairs) / count
    first, second = (sum(pair[which] for pair in pairs) / count for which in (0, 1))
    by_chance = first * second + (1 - first) * (1 - second)
    return None if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)
