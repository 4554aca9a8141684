"""The named draws of one life. A seed only fills a tape: each name has its own generator, so removing one draw does not change the others."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Drawn: TypeAlias = int | float
DrawFunction: TypeAlias = Callable[[random.Random], Drawn]


class Tape:
    """Draws by name. The first use of `people[1].pause` is the draw `people[1].pause#0`, the second one `#1`.

    Attributes:
        seed: The seed.
        drawn: All draws so far that differ from the calm value, by name.
    """

    def __init__(self, seed: object, given: Mapping[str, Drawn] | None = None) -> None:
        """Create a tape.

        Args:
            seed: Any object with its own `str`.
            given: Draws of another tape. None: they come from the seed. What is missing in it has its calm value, so an empty
                mapping is the calm and fair life.
        """
        self.seed: object = seed
        self._given = given
        self._counts: dict[str, int] = {}
        self.drawn: dict[str, Drawn] = {}

    def integer(self, name: str, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included. The calm value is `low`."""
        return int(self._draw(name, low, lambda chance: chance.randint(low, high)))

    def number(self, name: str, low: float, high: float) -> float:
        """Return a number between two. The calm value is `low`."""
        return float(self._draw(name, low, lambda chance: max(low, round(chance.uniform(low, high), 4))))

    def choice(self, name: str, options: Sequence[T]) -> T:
        """Return one of the options. The calm one is the first."""
        return options[min(self.integer(name, 0, len(options) - 1), len(options) - 1)]

    def chance(self, name: str, probability: float) -> bool:
        """Return whether something happens. The calm value is that it does not."""
        return bool(self._draw(name, 0, lambda chance: int(chance.random() < probability)))

    def generator(self, name: str) -> random.Random:
        """Return a generator for draws that are too many to be named, such as latencies. They are of the seed, whatever is given."""
        return random.Random(f"{self.seed}/{name}")  # noqa: S311 - must be repeatable

    def numbered(self, name: str) -> dict[int, Drawn] | None:
        """Return the given draws `name[0]`, `name[1]`, … by number. None: none are given, `record` adds those of the seed.

        For draws that are made at every step and seldom differ from the calm value.
        """
        if self._given is None:
            return None
        start = f"{name}["
        found = {
            full: value for full, value in self._given.items() if full.startswith(start) and full[-1] == "]"
        }
        return {int(full[len(start) : -1]): value for full, value in found.items()}

    def record(self, full: str, value: Drawn) -> None:
        """Add a draw that differs from the calm value, and was not made by the tape."""
        self.drawn[full] = value

    def _draw(self, name: str, calm: Drawn, draw: DrawFunction) -> Drawn:
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        full = f"{name}#{number}"
        if self._given is None:
            value = draw(random.Random(f"{self.seed}/{full}"))  # noqa: S311 - must be repeatable
        else:
            value = max(self._given.get(full, calm), calm)  # the calm value is the lowest one
        if value != calm:
            self.drawn[full] = value
        return value
