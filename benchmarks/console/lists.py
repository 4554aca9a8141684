"""The workload of large lists: each is scrolled as a conversation is, on a processor made four times slower, while those that are watched change.

A hundred of their rows change in each second. Frames are counted as a person has them, so others on the machine count too: each figure is the best of three
runs. The control draws every row and is the side called bare; of the journal it has none, since a hundred thousand rows are too many to be drawn at all.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from benchmarks.bars import target_of
from benchmarks.console import large
from benchmarks.console.browser import LongPage, is_there, open_long_page
from benchmarks.console.drawing import LATE_MS, SLOW, best_of, late_share, no_profile
from benchmarks.console.history import SESSION
from benchmarks.measure import Effort, Rounds, Row, Sample

_TAKES: Final = 3
_PHASE_SECONDS: Final = 4.0
_DRAWN_SECONDS: Final = 5.0
_MANNERS: Final = {
    "end": "late frames at the end",
    "sweep": "late frames sweeping",
    "jump": "late frames jumping",
}
_WORDS: Final = {"end": "as it stands", "sweep": "sweeping", "jump": "jumping"}

_CHANGING: Final = ("sessions", "tree")
"""The lists whose rows are watched."""

_Open: TypeAlias = Callable[[LongPage], None]
"""Brings the list of a page on the screen, whole."""


def _open_sessions(page: LongPage) -> None:
    page.goto("#/")
    page.wait("() => document.querySelector('.sessions-list .session-line')")


def _open_tree(page: LongPage) -> None:
    page.goto("#/tree")
    page.wait("() => document.querySelector('.tree-body [role=row]')")


def _open_spans(page: LongPage) -> None:
    page.goto(f"#/s/{SESSION}")
    page.wait("() => document.querySelector('[data-tab=timeline]')")
    page.page.click("[data-tab=timeline]")
    page.wait("() => document.querySelector('.timeline .tree-body [role=row]')")
    while page.page.is_visible("text=Earlier events"):
        page.page.click("text=Earlier events")
        page.page.wait_for_timeout(50)


def _open_records(page: LongPage) -> None:
    page.goto(f"#/s/{SESSION}/journal?at={large.RECORDS // 2}")
    page.wait("() => document.querySelector('.records-list .record-row.is-chosen')")


_LISTS: Final[Mapping[str, tuple[str, str, _Open]]] = {
    "sessions": (f"{large.SESSIONS:,} sessions, 100 changes a second", ".sessions-list", _open_sessions),
    "tree": (f"{large.NODES:,} nodes, 100 changes a second", ".tree-page .tree-body", _open_tree),
    "spans": (f"{large.SPANS:,} spans of a session", ".timeline .tree-body", _open_spans),
    "records": (f"{large.RECORDS:,} records of a journal", ".records-list", _open_records),
}


def _take(scale: float, *, draws_all: bool = False) -> Sample:
    figures: dict[str, float] = {}
    with open_long_page(0, lists=True, draws_all=draws_all) as page:
        for name, (_, box, open_list) in _LISTS.items():
            if draws_all and name == "records":
                continue
            page.throttle(1)
            open_list(page)
            page.tell(do="change", on=name in _CHANGING)
            page.throttle(SLOW)
            for manner in _MANNERS:
                frames = page.phase(manner, max(0.5, _PHASE_SECONDS * scale), box=box, types=False)["frames"]
                figures[f"{name} {manner}"] = late_share(frames)
                figures[f"{name} {manner} worst"] = max(frames)
            figures[f"{name} nodes"] = page.nodes()
            if name in _CHANGING:
                figures[f"{name} draws"] = page.draws(box, max(1.0, _DRAWN_SECONDS * scale))
            page.tell(do="change", on=False)
    return figures


def lists(effort: Effort) -> list[Row]:
    """How large lists scroll while rows of them change, beside all rows drawn."""
    if (missing := is_there()) is not None:
        print(f"console-lists: {missing}", file=sys.stderr)
        return []
    takes = _TAKES if effort.rounds > 1 else 1
    ours = best_of([_take(effort.scale) for _ in range(takes)])
    # A smoke test goes without the control, which draws five thousand rows again and again.
    control = [_take(effort.scale, draws_all=True)] * 2 if effort.rounds > 1 else []
    rounds = Rounds(ours=[ours], bare=control, explain=partial(no_profile, "a page in a browser"))
    alone = Rounds(ours=[ours], bare=(), explain=partial(no_profile, "a page in a browser"))
    rows: list[Row] = []
    for name, (what, _, _) in _LISTS.items():
        row = partial((alone if name == "records" else rounds).row, "console-lists")
        for manner, target in _MANNERS.items():
            words = f"{what}, processor {SLOW} times slower, {_WORDS[manner]}"
            rows.append(
                row(
                    f"{name} {manner}",
                    f"{words}: frames above {LATE_MS} ms",
                    unit="%",
                    target=target_of(target),
                )
            )
            rows.append(row(f"{name} {manner} worst", f"{words}: the longest frame", unit="ms"))
        rows.append(
            row(f"{name} nodes", f"{what}: elements of the document", unit="", target=target_of("nodes"))
        )
        if f"{name} draws" in ours:
            words = f"{what}: draws a second, of what feeds tell and clocks"
            rows.append(row(f"{name} draws", words, unit="", target=target_of("draws of a list")))
    return rows
