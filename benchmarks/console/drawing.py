"""The workloads of drawing: a session of ten thousand events on a processor that is made four times slower, and beside it the same with all rows drawn.

Frames are counted as a person has them, so others on the machine count too: each figure is the best of three runs. The control draws every row of the
conversation and is the side called bare. It has to miss what ours has to reach, or the figures tell nothing apart.
"""

import gzip
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from agentrail.gateway.console_files import CONTENT_TYPES, ROOT
from benchmarks.bars import target_of
from benchmarks.console.browser import LongPage, is_there, open_long_page
from benchmarks.console.history import SESSION
from benchmarks.explain import Explanation
from benchmarks.measure import Effort, Rounds, Row, Sample, percentile

_EVENTS: Final = 10_000
_PAGE: Final = 200
_LEAST: Final = 2_000  # fewer are on the page before it is scrolled
_MISSED: Final = 1_000
SLOW: Final = 4
LATE_MS: Final = 50
_TAKES: Final = 3
_PHASE_SECONDS: Final = 6.0
_REST_SECONDS: Final = 10.0
_AGE_SECONDS: Final = 60.0
_TEN_MINUTES: Final = 600.0
_PHASES: Final = {
    "end": ("at the end", target_of("late frames at the end")),
    "sweep": ("sweeping", target_of("late frames sweeping")),
    "jump": ("jumping", target_of("late frames jumping")),
}
_TO_END: Final = "() => { const box = document.querySelector('.feed'); box.scrollTop = box.scrollHeight; }"
_LINK: Final = f"#/s/{SESSION}"


def _whole(page: LongPage, events: int) -> Sample:
    """Open the session and scroll back to its start; how long the first page took, and the slowest of the others."""
    opened = page.open_session(_LINK, f"event:{events}")
    pages = page.pages_back()
    return {"opened": opened, "page": max(pages), "page median": percentile(pages, 50)}


def _phases(page: LongPage, seconds: float, mark: str) -> Sample:
    """Stream, and note the frames of the three phases."""
    figures: dict[str, float] = {}
    keys: list[float] = []
    for manner in _PHASES:
        page.page.evaluate(_TO_END)
        page.tell(do="stream", on=True)
        page.page.wait_for_timeout(1_000)
        found = page.phase(manner, seconds)
        figures[f"{mark} {manner}"] = 100 * sum(ms > LATE_MS for ms in found["frames"]) / len(found["frames"])
        figures[f"{mark} {manner} worst"] = max(found["frames"])
        figures[f"{mark} {manner} task"] = max(found["long"], default=0.0)
        keys += found["keys"]
        figures[f"{mark} nodes"] = max(page.nodes(), figures.get(f"{mark} nodes", 0))
        page.tell(do="stream", on=False)
    return {**figures, f"{mark} keys": percentile(keys, 99)}


def _take_drawing(events: int, seconds: float, *, draws_all: bool = False) -> Sample:
    with open_long_page(events, draws_all=draws_all) as page:
        figures = dict(_whole(page, events))
        if not draws_all:
            figures |= _phases(page, seconds, "fast")
        page.throttle(SLOW)
        figures |= _phases(page, seconds, "slow")
        return figures


def _take_age(events: int, seconds: float) -> Sample:
    """Look at an end that streams for a while; what the heap holds behind it, and by how much it grew in the second half."""
    with open_long_page(events) as page:
        _whole(page, events)
        page.tell(do="stream", on=True)
        page.page.wait_for_timeout(seconds * 500)
        half = page.heap_bytes()
        page.page.wait_for_timeout(seconds * 500)
        page.tell(do="stream", on=False)
        return {"heap": page.heap_bytes() / 2**20, "growth": (page.heap_bytes() - half) / 2**20}


def _take_back(events: int, missed: int) -> Sample:
    with open_long_page(events) as page:
        page.open_session(_LINK, f"event:{events}")
        sockets = page.sockets()
        last = page.tell(do="cut", events=missed - 1)
        return {"back": page.back(sockets, f"event:{last}")}


def _take_first() -> Sample:
    with open_long_page(_PAGE) as page:
        return {"first": page.first_load()}


def _take_rest(seconds: float) -> Sample:
    with open_long_page(_PAGE) as page:
        page.page.wait_for_timeout(2_000)
        before, began = page.cpu_seconds(), time.perf_counter()
        page.page.wait_for_timeout(seconds * 1_000)
        return {"rest": 100 * (page.cpu_seconds() - before) / (time.perf_counter() - began)}


def late_share(frames: Sequence[float]) -> float:
    """Say which share of frames was late, in percent: a frame of three refreshes is noted as 50 ms and some microseconds, and is not above 50 ms."""
    return 100 * sum(round(ms) > LATE_MS for ms in frames) / len(frames)


def best_of(samples: Sequence[Sample]) -> Sample:
    """Give the least of each figure."""
    return {name: min(sample[name] for sample in samples) for name in samples[0]}


def _files() -> Sample:
    sizes = [path.read_bytes() for path in ROOT.rglob("*") if path.suffix in CONTENT_TYPES]
    return {
        "raw": sum(map(len, sizes)) / 1_024,
        "packed": sum(len(gzip.compress(content, 9)) for content in sizes) / 1_024,
    }


def drawing(effort: Effort) -> list[Row]:
    """What is drawn of ten thousand events while two hundred deltas a second come, beside all rows drawn."""
    if (missing := is_there()) is not None:
        print(f"console-drawing: {missing}", file=sys.stderr)
        return []
    events, seconds = (
        max(_LEAST, effort.of(_EVENTS) // _PAGE * _PAGE),
        max(0.5, _PHASE_SECONDS * effort.scale),
    )
    takes = _TAKES if effort.rounds > 1 else 1
    ours = best_of([_take_drawing(events, seconds) for _ in range(takes)])
    control = _take_drawing(events, seconds, draws_all=True)
    rounds = Rounds(ours=[ours], bare=[control, control], explain=partial(no_profile, "a page in a browser"))
    row = partial(rounds.row, "console-drawing")
    rows = [
        row(
            "opened",
            f"a session of {events:,} events is opened: its end is on the screen",
            unit="ms",
            target=target_of("session opened"),
        ),
        row(
            "page",
            f"scrolled back to its start: the slowest page of {_PAGE}",
            unit="ms",
            target=target_of("page back"),
        ),
        row("page median", f"scrolled back to its start: the median page of {_PAGE}", unit="ms"),
    ]
    for manner, (words, target) in _PHASES.items():
        what = f"200 deltas a second, processor {SLOW} times slower, {words}"
        rows.append(
            row(
                f"slow {manner}",
                f"{what}: frames above {LATE_MS} ms",
                unit="%",
                target=target,
            )
        )
        rows.append(row(f"slow {manner} worst", f"{what}: the longest frame", unit="ms"))
    rows += [
        row(
            "slow keys",
            "the same, all three: a key typed is on the screen, p99",
            unit="ms",
            target=target_of("key to paint"),
        ),
        row(
            "fast end task",
            "200 deltas a second, at the end, not slowed: the longest task",
            unit="ms",
            target=target_of("longest task"),
        ),
        row("slow nodes", "elements of the document then", unit="", target=target_of("nodes")),
    ]
    return rows


def ageing(effort: Effort) -> list[Row]:
    """What the heap holds when an end has streamed for a minute, or for ten with `--full`; the way back after a cut; a page at rest; the files."""
    files = Rounds(ours=[_files()], bare=())
    rows = [
        files.row(
            "console-files",
            "raw",
            "all files of the console",
            unit="KiB",
            target=target_of("files of the console"),
        ),
        files.row(
            "console-files",
            "packed",
            "the same, packed",
            unit="KiB",
            target=target_of("packed files of the console"),
        ),
    ]
    if (missing := is_there()) is not None:
        print(f"console-page: {missing}", file=sys.stderr)
        return rows
    events = max(_LEAST, effort.of(_EVENTS) // _PAGE * _PAGE)
    seconds = _TEN_MINUTES if effort.full else max(1.0, _AGE_SECONDS * effort.scale)
    takes = _TAKES if effort.rounds > 1 else 1
    missed = effort.of(_MISSED)
    figures = {
        **_take_age(events, seconds),
        **best_of([_take_back(events, missed) for _ in range(takes)]),
        **best_of([_take_first() for _ in range(takes)]),
        **best_of([_take_rest(max(1.0, _REST_SECONDS * effort.scale)) for _ in range(takes)]),
    }
    rounds = Rounds(ours=[figures], bare=(), explain=partial(no_profile, "a page in a browser"))
    row = partial(rounds.row, "console-page")
    return [
        *rows,
        row(
            "heap",
            f"all {events:,} events loaded, and {seconds:g} s of deltas: the heap",
            unit="MiB",
            target=target_of("heap of a page"),
        ),
        row("growth", "by how much it grew in the second half of that", unit="MiB"),
        row(
            "first",
            "the first load, nothing kept: the list of sessions is drawn",
            unit="ms",
            target=target_of("first load"),
        ),
        row(
            "back",
            f"a socket is there again, {missed:,} events later: all of them are drawn",
            unit="ms",
            target=target_of("back after a cut"),
        ),
        row(
            "rest",
            "a page with ten sessions that rest: of one core",
            unit="%",
            target=target_of("page at rest"),
        ),
    ]


def no_profile(what: str) -> Explanation:
    """There is no profile of another program."""
    del what
    return Explanation(places=[])
