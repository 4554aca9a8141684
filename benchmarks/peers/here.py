"""The workloads of `drive.py` for the bare loop and for us, in a process of their own, with the same keys.

    python -m benchmarks.peers.here ours fresh 300

As in `drive.py`, what a cycle costs has the start of its session in it.
"""

import gc
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import trio

from benchmarks.crowds import take_side
from benchmarks.cycles import (
    BATCH,
    bare_cycles,
    bare_first_turns,
    bare_growth,
    bare_own_tools,
    one_more,
    our_cycles,
    our_first_turns,
    our_growth,
    our_own_tools,
)
from benchmarks.measure import Sample
from benchmarks.streams import bare_burst, our_burst

_WARM_UP: Final = 20
_BURSTS: Final = 5


def _settle(cycles: Callable[[int, int], Sample], calls: int) -> None:
    """Warm up as `drive.py` does, and have the collector look at all that was imported: in so short a run one such look is half of it."""
    cycles(_WARM_UP, calls)
    gc.collect()


def _fresh(cycles: Callable[[int, int], Sample], count: int) -> Sample:
    _settle(cycles, 1)
    taken = cycles(count, 1)
    return {"seconds": taken["start_seconds"] + taken["cycle_seconds"]}


def _batch(cycles: Callable[[int, int], Sample], count: int) -> Sample:
    _settle(cycles, BATCH)
    taken = one_more(cycles, count)
    return {
        "seconds": taken["start_seconds"] + taken["cycle_seconds"],
        "more_seconds": taken["more_seconds"],
    }


def _starts(
    cycles: Callable[[int, int], Sample], own_tools: Callable[[int], Awaitable[Sample]], count: int
) -> Sample:
    _settle(cycles, 1)
    owned: Sample = trio.run(own_tools, count)
    return {
        "seconds": cycles(count, 1)["start_seconds"],
        "own_seconds": owned["start_seconds"],
    }


def _burst(read: Callable[[str, int, int], Awaitable[Sample]], count: int) -> Sample:
    taken: Sample = trio.run(read, os.environ["BENCH_SERVER"], count, _BURSTS)
    return {**taken, "seconds": taken["cpu_seconds"] * count}


_SIDES: Final[Mapping[str, Mapping[str, Callable[[int], Sample]]]] = {
    "bare": {
        "fresh": partial(_fresh, bare_cycles),
        "batch": partial(_batch, bare_cycles),
        "turns": bare_first_turns,
        "growth": bare_growth,
        "starts": partial(_starts, bare_cycles, bare_own_tools),
        "crowd": partial(take_side, "bare"),
        "tuned-crowd": partial(take_side, "tuned-bare"),
        "burst": partial(_burst, bare_burst),
    },
    "ours": {
        "fresh": partial(_fresh, our_cycles),
        "batch": partial(_batch, our_cycles),
        "turns": our_first_turns,
        "growth": our_growth,
        "starts": partial(_starts, our_cycles, our_own_tools),
        "crowd": partial(take_side, "ours"),
        "tuned-crowd": partial(take_side, "tuned"),
        "burst": partial(_burst, our_burst),
    },
}


if __name__ == "__main__":
    print(json.dumps(_SIDES[sys.argv[1]][sys.argv[2]](int(sys.argv[3]))))
