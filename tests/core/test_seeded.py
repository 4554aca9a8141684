"""Numbers that are a function of a seed."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.seeded_random import SeededRandom


@given(seed=st.integers(), stop=st.integers(1, 50))
def test_draws_stay_in_their_bounds_and_repeat(seed, stop):
    """Two generators of one seed agree, and no draw leaves its range."""
    one, two = SeededRandom(seed), SeededRandom(seed)
    drawn = [(one.random(), one.randrange(stop), one.choice("abc")) for _ in range(5)]
    assert drawn == [(two.random(), two.randrange(stop), two.choice("abc")) for _ in range(5)]
    assert all(0 <= number < 1 and 0 <= below < stop for number, below, _ in drawn)
    one.begin(5)
    again = one.next_bits()
    one.begin(5)
    assert one.next_bits() == again
    assert repr(one) == f"SeededRandom({seed % 2**64})"


def test_nothing_can_be_drawn_from_nothing():
    """A bound below one is refused."""
    with pytest.raises(ValueError, match="needs a positive bound, got 0"):
        SeededRandom(1).choice(())
