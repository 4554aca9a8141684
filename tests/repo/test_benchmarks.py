"""The benchmarks run and report; what they measure is never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import WORKLOADS
from benchmarks.measure import Effort, Rounds, Row, Spread, Target, interleave, percentile
from benchmarks.ours import expect
from benchmarks.report import render_table

ROOT = Path(__file__).parents[2]


def spread(value: float) -> Spread:
    """A figure that came out the same each time."""
    return Spread(least=value, median=value, most=value)


@pytest.mark.check  # `make bench-quick` is of the same kind
def test_a_quick_run_prints_its_table_and_writes_its_json(tmp_path):
    """`python -m benchmarks --quick --only cycle` reports each metric of that workload, beside the bare loop."""
    written = tmp_path / "new" / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "cycle", "--json", str(written)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    document = json.loads(written.read_text())
    assert document["format"] == 1
    assert {"python", "cores", "packages"} <= document["machine"].keys()
    assert [row["workload"] for row in document["rows"]] == ["cycle", "cycle"]
    for row in document["rows"]:
        assert row["verdict"] in {"ahead", "within", "misses", "-"}
        for side in ("ours", "bare", "ratio"):
            assert 0 < row[side]["least"] <= row[side]["median"] <= row[side]["most"]
    header, rule, *lines = ran.stdout.splitlines()
    assert [cell.strip() for cell in header.strip("|").split("|")][:4] == ["workload", "what", "ours", "bare"]
    assert set(rule) == set("|- ")
    assert [line.split("|")[1].strip() for line in lines] == ["cycle", "cycle"]


def test_an_unknown_workload_is_refused_with_the_names_that_there_are():
    """A wrong name is wrong usage, and the message lists the right ones."""
    command = [sys.executable, "-m", "benchmarks", "--only", "cycles"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "growth" in ran.stderr


def test_ours_runs_between_two_bare_runs():
    """Each round is bare, ours, bare, after one of each that does not count; a ratio is to the mean of its own two."""
    ran: list[str] = []
    bare_figures = iter([99.0, 2.0, 4.0, 1.0, 1.0])
    our_figures = iter([99.0, 6.0, 3.0])

    def bare() -> dict[str, float]:
        ran.append("bare")
        return {"seconds": next(bare_figures)}

    def ours() -> dict[str, float]:
        ran.append("ours")
        return {"seconds": next(our_figures)}

    rounds = interleave(bare, ours, 2)
    assert ran == ["bare", "ours", "bare", "ours", "bare", "bare", "ours", "bare"]
    row = rounds.row("w", "seconds", "time", unit="ms", factor=1000)
    assert row.ratio == Spread(least=2.0, median=2.5, most=3.0)
    assert row.bare == Spread(least=1000.0, median=1500.0, most=4000.0)


@pytest.mark.parametrize(
    ("median", "verdict"), [(0.9, "ahead"), (1.0, "ahead"), (1.2, "within"), (1.3, "misses")]
)
def test_a_verdict_is_that_of_the_median(median, verdict):
    """At the aim is ahead of it, at what must be is within it, above is a miss."""
    target = Target(of="ratio", must=1.2, aim=1.0)
    row = Row(workload="w", what="x", unit="µs", ours=spread(500), ratio=spread(median), target=target)
    assert row.verdict == verdict


@pytest.mark.parametrize(("median", "verdict"), [(0.1, "within"), (1.2, "within"), (1.3, "misses")])
def test_without_an_aim_nothing_is_ahead(median, verdict):
    """A target that says only what must be is kept or missed, and its table cell for the aim is empty."""
    target = Target(of="ratio", must=1.2)
    row = Row(workload="w", what="x", unit="µs", ours=spread(500), ratio=spread(median), target=target)
    assert row.verdict == verdict
    cells = [cell.strip() for cell in render_table([row]).splitlines()[-1].strip("|").split("|")]
    assert cells[5:] == ["1.2 ×", "–", verdict]


@pytest.mark.check
@pytest.mark.parametrize("name", ["children", "child", "restart", "cast", "call", "actor-memory", "timers"])
def test_a_workload_of_actors_does_its_work(name):
    """Each of them runs to its end, where it holds its own work to the result, and tells of something."""
    rows = WORKLOADS[name](Effort(rounds=1, scale=0.01))
    assert {row.workload for row in rows} == {name}
    assert all(row.ours.median > 0 for row in rows)


def test_what_no_bare_loop_does_stands_alone():
    """Without a bare side there is no ratio, and a target for it alone can still be judged."""
    rounds = Rounds(ours=[{"seconds": 0.004}], bare=())
    row = rounds.row("w", "seconds", "x", unit="ms", factor=1000, target=Target(of="ours", must=5, aim=3))
    assert (row.bare, row.ratio, row.verdict) == (None, None, "within")
    cells = [cell.strip() for cell in render_table([row]).splitlines()[-1].strip("|").split("|")]
    assert cells[2:] == ["4 ms", "–", "–", "5 ms", "3 ms", "within"]


def test_percentiles_lie_between_the_values_around_them():
    """The 0th is the least, the 100th the most, the 50th of two their mean."""
    assert [percentile([3.0, 1.0], percent) for percent in (0, 50, 100)] == [1.0, 2.0, 3.0]


def test_an_effort_scales_sizes_but_not_to_nothing():
    """A smoke test does little, never nothing, and never more than asked for."""
    assert [Effort(scale=0.05).of(size) for size in (1000, 100, 5)] == [50, 10, 5]


def test_work_that_was_not_done_is_not_reported():
    """A wrong answer ends the run instead of giving a good figure."""
    with pytest.raises(RuntimeError, match=r"did not do its work: the answer is '4', expected '5'"):
        expect("the answer", "4", "5")
