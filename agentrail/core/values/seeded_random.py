"""Pseudo-random numbers as a function of a seed: SplitMix64.

The core has no randomness, so that a replay gives the same result.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = 2**64 - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


class SeededRandom:
    """A generator. Two of one seed give the same numbers."""

    __slots__ = ("_named", "_salt", "_seed", "_state")

    def __init__(self, seed: int | tuple[str | int, ...]) -> None:
        """Start from the lowest 64 bits of a number, or from the name of a moment, same as for `seed_of`.

        The seed of a name is computed at the first draw: a session makes a generator for each hook, and hardly any
        is used.
        """
        self._named = seed
        self._seed: int | None = None
        self._salt = 0
        self._state: int | None = None

    @property
    def seed(self) -> int:
        """The number from which all others are derived."""
        if self._seed is None:
            named = self._named
            self._seed = (seed_of(*named) if isinstance(named, tuple) else named) & _MASK
        return self._seed

    def next_bits(self) -> int:
        """Return 64 random bits."""
        state = self.seed ^ self._salt if self._state is None else self._state
        mixed = self._state = (state + _GOLDEN) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return (self.next_bits() >> 11) / 2**53

    def randrange(self, stop: int) -> int:
        """Return a whole number from 0 to below `stop`.

        Raises:
            ValueError: Your move: `stop` is not positive.
        """
        if stop < 1:
            message = f"randrange needs a positive bound, got {stop}"
            raise ValueError(message)
        return self.next_bits() * stop >> 64

    def choice(self, items: Sequence[T]) -> T:
        """Return one of some items.

        Raises:
            ValueError: Your move: there are none.
        """
        return items[self.randrange(len(items))]

    def begin(self, salt: int) -> None:
        """Restart at a position that depends on the seed and the salt, not on earlier draws.

        The pipeline does this before it calls a plugin, so each has numbers of its own, whatever the other plugins
        of the stack.
        """
        self._salt, self._state = salt, None

    def __repr__(self) -> str:
        return f"SeededRandom({self.seed})"


def seed_of(*parts: str | int) -> int:
    """Return a seed made from the name of a moment: a session, a signal, a time.

    >>> seed_of("s1", 1_700_000_000_000) == seed_of("s1", 1_700_000_000_000)
    True
    """
    digest = hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8])
