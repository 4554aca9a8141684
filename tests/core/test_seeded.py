"""Numbers that are a function of a seed."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.seeded import SeededRandom, seed_of


def test_the_numbers_are_those_of_splitmix64():
    """The first outputs for seed 1234567 are the published test vector of SplitMix64 (Rosetta Code)."""
    generator = SeededRandom(1234567)
    assert [generator.next_bits() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


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


def test_a_seed_depends_on_all_its_parts():
    """Another session, signal or time is another seed, also with a lone surrogate in it."""
    assert len({seed_of("s", 1), seed_of("s", 2), seed_of("t", 1), seed_of("s1"), seed_of("\ud800")}) == 5
