"""Counts of plugins: exact in number, near enough in time, and bounded whatever happens."""

import math
import random

import pytest

from agentrail.runtime.hook_times import Durations

WIDEST = 2 ** (1 / 8)  # a class ends so much above where it begins


def filled(seconds):
    """Durations that were noted."""
    durations = Durations()
    for one in seconds:
        durations.note(one)
    return durations


def nearest(seconds, share):
    """The percentile as it is, in milliseconds."""
    return sorted(seconds)[math.ceil(len(seconds) * share) - 1] * 1000


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1.0])
def test_a_percentile_is_never_too_little_and_hardly_too_much(share):
    """Held against a sorted list, over nine powers of ten."""
    draw = random.Random(15)  # noqa: S311 - the same numbers each time
    seconds = [10 ** draw.uniform(-6, 2.9) for _ in range(2_000)]
    told, real = filled(seconds).percentile_ms(share), nearest(seconds, share)
    assert real * 0.999_999 <= told <= real * WIDEST


def test_nothing_and_next_to_nothing_and_for_ever_have_a_place():
    """No duration raises, none makes more than a fixed number of classes."""
    assert Durations().percentile_ms(0.99) == 0.0
    durations = filled([0.0, 1e-12, 1e9])
    assert durations.count == 3
    assert durations.percentile_ms(0.5) == 0.001
    assert durations.percentile_ms(1.0) >= 1_000_000
    many = filled([draw * 1e-7 for draw in range(100_000)])
    assert len(many.classes) < 200
