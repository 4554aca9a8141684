"""What sessions do is what they did: random lives come out, step by step, as they were recorded."""

import sys
from pathlib import Path

import pytest

from tests.core.drawn_lives import Told, live
from tests.thinned import first, sampled

RECORD = Path(__file__).parent / "recorded_lives.txt"
SIGNALS = 60
LIVES = 60
RECORDED = dict(line.split(" ", 1) for line in RECORD.read_text().splitlines()) if RECORD.exists() else {}


@pytest.mark.parametrize("seed", sampled(first(range(LIVES), 20), every=4))
def test_a_life_comes_out_as_it_was_recorded(seed):
    """The same signals give the same effects and the same events, in the same order, whatever `step` looks like inside."""
    before: list[Told] = []
    for digest, told in zip(RECORDED[str(seed)].split(), live(seed, SIGNALS), strict=True):
        assert told.digest == digest, "\n".join(
            (*map(repr, (one.signal for one in before)), repr(told.signal), told.phase, *told.effects)
        )
        before.append(told)


def test_the_record_is_whole():
    """One line for each life."""
    assert len(RECORDED) == LIVES


if __name__ == "__main__" and "--rewrite" in sys.argv:
    lines = (f"{seed} {' '.join(told.digest for told in live(seed, SIGNALS))}\n" for seed in range(LIVES))
    RECORD.write_text("".join(lines))
