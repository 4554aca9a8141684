"""`shrink(report)`: finds a smaller life that breaks the same promise, with fewer users, faults, deviations and sessions.

First, draws are left out of the tape: whole kinds, then single users and faults, then single draws. What is left out is calm.
Then Hypothesis makes the remaining values plain: an early place, a round number.
"""

import hashlib
import math
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import define, evolve, field

from agentrail.distribution import install_command
from agentrail.runtime.crashes import raise_what_travels
from agentrail.testing.seeded import NotRepeatable
from agentrail.testing.simulation.facts import CallAsked, FaultChange
from agentrail.testing.simulation.gods_eye import Checker
from agentrail.testing.simulation.log import LifeLog, LogLine
from agentrail.testing.simulation.tape import Drawn

if TYPE_CHECKING:
    from agentrail.testing.simulation.life import Report

MAX_LIVES: Final = 2_000
MAX_SHRINKING_SECONDS: Final = 300.0

Live: TypeAlias = Callable[[Mapping[str, Drawn]], "Report"]
"""Lives a life with the draws of a tape."""

_NUMBER: Final = re.compile(r"(?<=[\[#])(\d+)")


def shrink(
    report: "Report",
    live: Live | None = None,
    *,
    max_lives: int = MAX_LIVES,
    max_seconds: float = MAX_SHRINKING_SECONDS,
) -> "Report":
    """Return the smallest life found that breaks the same promise. An interrupt by the keyboard ends the search.

    Args:
        report: A life with a broken promise.
        live: Lives it again with other draws. None: the same scenario, seed and options, judged by all standard checkers.
        max_lives: Number of lives to try at most.
        max_seconds: Time of the processor to try at most, so that a busy machine does not end the search early.

    Returns:
        The report of that life. `shrunk` says what it was shrunk from.

    Raises:
        ValueError: Your move: all promises held.
        NotRepeatable: Your move: the same draws do not lead to the same life, so nothing can be left out. Find the difference with
            `check_deterministic`.
        ImportError: Your move: Hypothesis is not installed.
    """
    from agentrail.testing.simulation.life import Shrunk  # noqa: PLC0415 - it imports all parts of a world

    if report.broken is None:
        message = f"seed {report.seed} breaks no promise; shrink the report of a life that does"
        raise ValueError(message)
    search = _Search(report, live or again(report), max_lives, max_seconds)
    try:
        search.check_repeatable()
        smallest = None
        while smallest is not search.best:
            smallest = search.best
            search.leave_out()
            search.renumber()
            search.simplify()
    except (_Enough, KeyboardInterrupt):
        pass
    shrunk = Shrunk(
        faults=count_faults(report.log),
        prompts=count_prompts(report.log),
        lives=search.lives,
        seconds=search.seconds,
    )
    return evolve(search.best, shrunk=shrunk)


def again(report: "Report") -> Live:
    """Return a function that lives a life again, with other draws. It ends a life that breaks nothing for long after the first did."""
    from agentrail.testing.simulation.checkers import standard_checkers  # noqa: PLC0415 - as below
    from agentrail.testing.simulation.life import run  # noqa: PLC0415 - it imports all parts of a world

    latest = math.inf if report.broken is None else 1.5 * report.broken.at + 10.0

    def live(given: Mapping[str, Drawn]) -> "Report":
        return run(
            report.scenario,
            report.seed,
            nodes=report.nodes,
            hours=report.seconds / 3600,
            schedule=report.schedule,
            given=given,
            checkers=lambda world: (*standard_checkers(world), _TimeLimit(latest=latest)),
        )

    return live


@define(eq=False)
class _TimeLimit(Checker):
    name = "time limit of shrinking"

    _latest: float = field(kw_only=True)

    def see(self, line: LogLine) -> str | None:
        return "the life takes too long" if line.at > self._latest else None


def count_faults(log: LifeLog) -> int:
    """Return how many faults struck."""
    return sum(isinstance(line.facts, FaultChange) and not line.facts.is_over for line in log.lines)


def count_prompts(log: LifeLog) -> int:
    """Return how many prompts users sent, each counted once however often it was sent again."""
    asked = [line.facts for line in log.lines if isinstance(line.facts, CallAsked)]
    return len({one.key for one in asked if one.request == "prompt"})


class _Enough(BaseException):
    """The limit of lives or of time is reached."""


class _Search:
    """The search for a smaller life.

    Attributes:
        best: The smallest life so far.
        lives: Number of lives.
    """

    def __init__(self, report: "Report", live: Live, max_lives: int, max_seconds: float) -> None:
        assert report.broken is not None
        self.best = report
        self.lives = 0
        self._live = live
        self._checker = report.broken.checker
        self._max_lives = max_lives
        self._begun_at = time.process_time()
        self._max_seconds = max_seconds
        self._known: dict[bytes, bool] = {}

    @property
    def seconds(self) -> float:
        return time.process_time() - self._begun_at

    def check_repeatable(self) -> None:
        self.lives += 1
        other = self._live(self.best.drawn)
        if other.digest != self.best.digest:
            message = (
                f"not repeatable: seed {self.best.seed} broke {self._checker!r} after {self.best.steps} steps, and its replay "
                f"{other.broken.checker if other.broken else 'nothing'!r} after {other.steps}; "
                "find the difference with check_deterministic"
            )
            raise NotRepeatable(message)

    def breaks(self, given: Mapping[str, Drawn]) -> bool:
        """Whether a life with these draws breaks the same promise."""
        key = hashlib.blake2b(repr(sorted(given.items())).encode(), digest_size=16).digest()
        if key not in self._known:
            if self.lives >= self._max_lives or self.seconds > self._max_seconds:
                raise _Enough
            self.lives += 1
            self._known[key] = self._breaks_anew(given)
        return self._known[key]

    def _breaks_anew(self, given: Mapping[str, Drawn]) -> bool:
        try:
            report = self._live(given)
        except BaseException as error:  # noqa: ASYNC103, BLE001 - no loop runs here; another bug is not the broken promise
            raise_what_travels(error)
            return False  # noqa: ASYNC104 - as above
        if report.broken is None or report.broken.checker != self._checker:
            return False
        if _size(report.drawn) < _size(self.best.drawn):
            self.best = report
        return True

    def leave_out(self) -> None:
        """Leave draws out, the most numerous first, in ever smaller groups."""
        for part_of in (_kind, _owner, _item, str):
            parts: dict[str, int] = {}
            for name in self.best.drawn:
                parts[part_of(name)] = parts.get(part_of(name), 0) + 1
            self._leave_out(part_of, sorted(parts, key=lambda part: -parts[part]))

    def _leave_out(self, part_of: Callable[[str], str], parts: list[str]) -> None:
        size = len(parts)
        while size:
            start = 0
            while start < len(parts):
                gone = set(parts[start : start + size])
                given = {name: value for name, value in self.best.drawn.items() if part_of(name) not in gone}
                if len(given) < len(self.best.drawn) and self.breaks(given):
                    left = set(map(part_of, self.best.drawn))
                    # What stands before may have gone with it, as draws of a fault that no longer strikes.
                    start = sum(part in left for part in parts[:start])
                    parts = [part for part in parts if part in left]
                else:
                    start += size
            size //= 2

    def renumber(self) -> None:
        """Number the remaining draws from 0, so that the only prompt of a user becomes the first one."""
        prefixes = [name[: found.start(1)] for name in self.best.drawn for found in _NUMBER.finditer(name)]
        for prefix in dict.fromkeys(prefixes):
            number = re.compile(f"(?<=^{re.escape(prefix)})[0-9]+")
            numbers = sorted({int(found) for name in self.best.drawn for found in number.findall(name)})
            given = {
                number.sub(lambda found, numbers=numbers: f"{numbers.index(int(found[0]))}", name): value  # type: ignore[misc]
                for name, value in self.best.drawn.items()
            }
            if given != self.best.drawn:
                self.breaks(given)

    def simplify(self) -> None:
        """Let Hypothesis lower values and leave single draws out."""
        start = dict(self.best.drawn)

        def life(data: Any) -> None:
            given: dict[str, Drawn] = {}
            for name, value in start.items():
                is_kept = data.draw_boolean()
                lowest, highest = min(value, type(value)(0)), max(value, type(value)(0))
                if isinstance(value, int):
                    drawn: Drawn = data.draw_integer(lowest, highest)
                else:
                    drawn = data.draw_float(min_value=lowest, max_value=highest, allow_nan=False)
                if is_kept:
                    given[name] = drawn
            if self.breaks(given):
                data.mark_interesting(self._checker)

        _shrink_choices(life, [choice for value in start.values() for choice in (True, value)])


def _shrink_choices(life: Callable[[Any], None], choices: list[Drawn]) -> None:
    """Run Hypothesis' shrinker from known choices. It has no public call for that: only its own generator may find the failure."""
    try:
        from hypothesis import Phase, settings  # noqa: PLC0415 - an extra of the test kit
        from hypothesis.internal.conjecture.engine import ConjectureRunner, RunIsComplete  # noqa: PLC0415
    except ImportError as error:
        message = f"shrinking needs Hypothesis: {install_command('test')}"
        raise ImportError(message) from error
    options = settings(phases=[Phase.shrink], database=None, deadline=None)
    runner = ConjectureRunner(life, settings=options, random=random.Random(0))  # noqa: S311 - must be repeatable
    try:
        first: Any = runner.cached_test_function(choices)
        runner.shrink(first, lambda data: data.status == first.status)
    except RunIsComplete:
        return


def _kind(name: str) -> str:
    return re.split(r"[\[.#]", name, maxsplit=1)[0]


def _owner(name: str) -> str:
    return re.split(r"[.#]", name, maxsplit=1)[0]


def _item(name: str) -> str:
    return name.rpartition(".")[0] or name


def _size(drawn: Mapping[str, Drawn]) -> tuple[int, int, int, float]:
    """What a smaller life has less of: draws, numbers in their names, digits, amounts."""
    return (
        len(drawn),
        sum(int(found) for name in drawn for found in _NUMBER.findall(name)),
        sum(len(f"{value:g}") for value in drawn.values()),
        float(sum(map(abs, drawn.values()))),
    )
