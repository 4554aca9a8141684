"""What is compared with the peers, and how it is set."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from benchmarks.bars import target_of
from benchmarks.measure import Sample

BARE: Final = "bare"
OURS: Final = "ours"
JUDGED_BY: Final = "agent-framework"
"""The peer that is best at a short turn, and against whom our turn 200 is held."""


@frozen(kw_only=True)
class Line:
    """One line of the table.

    Attributes:
        what: In words.
        workload: Of `drive.py`.
        metric: What it measured.
        unit: Of the figures.
        factor: From seconds to the unit.
        has_ratio: Whether a ratio to the bare loop says something.
    """

    what: str
    workload: str
    metric: str
    unit: str = "µs"
    factor: float = 1e6
    has_ratio: bool = True


LINES: Final = (
    Line(what="a cycle with a tool, fresh session, start included", workload="fresh", metric="seconds"),
    Line(what="turn 2 of a conversation", workload="turns", metric="unread_turn_2_seconds"),
    Line(what="turn 3", workload="turns", metric="unread_turn_3_seconds"),
    Line(what="turn 5", workload="turns", metric="unread_turn_5_seconds"),
    Line(what="turn 2, with a subscriber here and in the bare loop", workload="turns", metric="turn_2_seconds"),
    Line(what="turn 3, with a subscriber", workload="turns", metric="turn_3_seconds"),
    Line(what="turn 5, with a subscriber", workload="turns", metric="turn_5_seconds"),
    Line(what="turn 10", workload="growth", metric="early_seconds"),
    Line(what="turn 200", workload="growth", metric="late_seconds"),
    Line(what="20 no-op tools in one batch, the whole cycle", workload="batch", metric="seconds"),
    Line(what="one more no-op tool in a batch", workload="batch", metric="more_seconds"),
    Line(what="start of a session", workload="starts", metric="seconds", has_ratio=False),
    Line(
        what="start of a session with an agent and a tool of its own", workload="starts", metric="own_seconds",
        has_ratio=False,
    ),
    Line(what="1,000 sessions, CPU", workload="crowd", metric="cpu_seconds", unit="s", factor=1.0),
    Line(what="10,000 sessions, CPU", workload="crowd-10k", metric="cpu_seconds", unit="s", factor=1.0),
    Line(what="10,000 sessions, wall", workload="crowd-10k", metric="wall_seconds", unit="s", factor=1.0),
    Line(
        what="10,000 sessions with our collector policy for each of them, CPU", workload="tuned-10k",
        metric="cpu_seconds", unit="s", factor=1.0,
    ),
    Line(what="1,000 deltas in a burst, CPU", workload="burst", metric="seconds", unit="ms", factor=1e3),
    Line(
        what="first delta of such a burst", workload="burst", metric="first_seconds", unit="ms", factor=1e3,
        has_ratio=False,
    ),
)  # fmt: skip


@frozen(kw_only=True)
class Taken:
    """What one run of a peer measured, with the bare runs around it.

    Attributes:
        sample: Its own.
        before: Of the bare loop.
        after: Of the bare loop, once more.
    """

    sample: Sample
    before: Sample
    after: Sample


Results = Mapping[str, Mapping[str, Sequence[Taken]]]
"""By workload, and by who."""


def render(results: Results, names: Sequence[str], versions: Mapping[str, str]) -> str:
    """Set the table of Markdown: a line for each figure, a column for each of us."""
    titles = ["", "bare loop", "agentrail", *(versions[name] for name in names if name not in {BARE, OURS})]
    rows = [titles, ["---"] * len(titles)]
    for line in LINES:
        taken = results.get(line.workload)
        if taken:
            others = [_cell(line, taken.get(name, ())) for name in names if name != BARE]
            rows.append([line.what, _bare_cell(line, taken), *others])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def verdict(results: Results) -> str:
    """Hold our turn 200 against that of the peer that is fastest at a short turn, in this very run; empty without both."""
    growth = results.get("growth", {})
    ours, theirs = (
        [taken.sample["late_seconds"] for taken in growth.get(name, ())] for name in (OURS, JUDGED_BY)
    )
    if not ours or not theirs:
        return ""
    target = target_of("cycle 200 to peer")
    ratio = statistics.median(ours) / statistics.median(theirs)
    said = "within" if ratio <= target.must else "misses"
    return f"turn 200 against {JUDGED_BY}: {ratio:.3f} ×, must {target.must:g} ×: {said}"


def _cell(line: Line, taken: Sequence[Taken]) -> str:
    if not taken:
        return "–"
    figure = statistics.median(run.sample[line.metric] for run in taken)
    said = f"{number(figure * line.factor)} {line.unit}"
    if not line.has_ratio:
        return said
    ratio = statistics.median(
        2 * run.sample[line.metric] / (run.before[line.metric] + run.after[line.metric]) for run in taken
    )
    return f"{said} ({number(ratio)} ×)"


def _bare_cell(line: Line, taken: Mapping[str, Sequence[Taken]]) -> str:
    runs = [run for one in taken.values() for run in one]
    if not runs:
        return "–"
    figures = [sample[line.metric] for run in runs for sample in (run.before, run.after)]
    return f"{number(statistics.median(figures) * line.factor)} {line.unit}"


def number(value: float) -> str:
    """Say a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits say enough
