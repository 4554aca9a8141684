"""The benchmarks run and report; what they measure is never asserted."""

import gc
import json
import re
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest

from benchmarks import explain
from benchmarks.__main__ import GROUPS, WORKLOADS, explain_missed
from benchmarks.bars import TABLE, target_of
from benchmarks.explain import Explanation, Place, largest_holders, place_of, slowest_functions
from benchmarks.gateway.serving import serve_bench
from benchmarks.measure import Effort, Rounds, Row, Spread, Target, interleave, percentile, repeat
from benchmarks.ours import expect
from benchmarks.report import render_missed, render_table
from tests.thinned import nightly, sample

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
    assert document["format"] == 2
    assert {"python", "cores", "packages", "build"} <= document["machine"].keys()
    command_of_gc = [sys.executable, "-c", "import gc, json; print(json.dumps(gc.get_threshold()))"]
    usual = json.loads(subprocess.run(command_of_gc, capture_output=True, check=True).stdout)
    collector = {"is_enabled": True, "thresholds": usual, "frozen": 0}
    assert document["machine"]["collector"] == collector
    assert document["missed"] == {}  # what a quick run misses means nothing
    assert [row["workload"] for row in document["rows"]] == ["cycle", "cycle"]
    for row in document["rows"]:
        assert row["verdict"] in {"ahead", "within", "misses", "-"}
        for side in ("ours", "bare", "ratio"):
            assert 0 < row[side]["least"] <= row[side]["median"] <= row[side]["most"]
        assert row["cpu_seconds"]["median"] > 0
        assert row["wall_seconds"]["median"] > 0
    table, _, told = ran.stdout.partition("\n\n")
    header, rule, *lines = table.splitlines()
    assert [cell.strip() for cell in header.strip("|").split("|")][:4] == ["workload", "what", "ours", "bare"]
    assert set(rule) == set("|- ")
    assert [line.split("|")[1].strip() for line in lines] == ["cycle", "cycle"]
    assert "collector: on, thresholds " in told
    # A wrong name is wrong usage, and the message lists the right ones.
    ran = subprocess.run(
        [*command[:3], "--only", "cycles"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "growth" in ran.stderr


@pytest.mark.check  # what is measured has no garbage to clear away, and that is much where ten thousand tests ran
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


def cells_of(row: Row) -> list[str]:
    return [cell.strip() for cell in render_table([row]).splitlines()[-1].strip("|").split("|")]


@pytest.mark.parametrize(
    ("median", "aim", "verdict"),
    [
        (0.9, 1.0, "ahead"), (1.0, 1.0, "ahead"), (1.2, 1.0, "within"), (1.3, 1.0, "misses"),
        (0.1, None, "within"), (1.2, None, "within"), (1.3, None, "misses"),
    ],
)  # fmt: skip
def test_a_verdict_is_that_of_the_median(median, aim, verdict):
    """At the aim is ahead of it, at what must be is within it, above is a miss; without an aim its cell is empty."""
    target = Target(of="ratio", must=1.2, aim=aim)
    row = Row(workload="w", what="x", unit="µs", ours=spread(500), ratio=spread(median), target=target)
    assert row.verdict == verdict
    assert cells_of(row)[5:] == ["–", "–", "1.2 ×", "–" if aim is None else "1 ×", verdict]


# CI runs one workload above, as a smoke test; `make bench-quick` of the same night runs all.
@nightly
@pytest.mark.check
@pytest.mark.parametrize("name", ["children", "restart", "appends", "kept", "idle-start", "mcp"])
def test_a_workload_of_actors_and_stores_does_its_work(name):
    """Each of them runs to its end, where it holds its own work to the result, and tells of something."""
    rows = WORKLOADS[name](Effort(rounds=1, scale=0.01))
    assert {row.workload for row in rows} == {name}
    assert all(row.ours.median > 0 for row in rows)


@nightly
@pytest.mark.check
@pytest.mark.parametrize("name", GROUPS["gateway"])
def test_a_workload_of_the_gateway_does_its_work(name):
    """With a server of its own where it needs one, which is gone behind it."""
    rows = WORKLOADS[name](Effort(rounds=1, scale=0.01))
    assert {row.workload for row in rows} == {name}
    children = psutil.Process().children(recursive=True)
    alive = [
        one for one in children if one.status() != psutil.STATUS_ZOMBIE
    ]  # a dead browser has no command line
    assert not [one for one in alive if "benchmarks.gateway.server" in " ".join(one.cmdline())]


@nightly
@pytest.mark.check
def test_the_server_of_a_benchmark_ends_with_who_started_it():
    """Also where that one is killed: its standard input ends, and so does it."""
    with serve_bench() as server:
        found = psutil.Process(server.pid)
        raised = pytest.raises(KeyboardInterrupt)
    assert not found.is_running()
    with raised, serve_bench() as server:
        found = psutil.Process(server.pid)
        raise KeyboardInterrupt
    assert not found.is_running()


def test_what_no_bare_loop_does_stands_alone():
    """Without a bare side there is no ratio, and a target for it alone can still be judged."""
    rounds = Rounds(ours=[{"seconds": 0.004}], bare=())
    row = rounds.row("w", "seconds", "x", unit="ms", factor=1000, target=Target(of="ours", must=5, aim=3))
    assert (row.bare, row.ratio, row.verdict) == (None, None, "within")
    assert cells_of(row)[2:] == ["4 ms", "–", "–", "–", "–", "5 ms", "3 ms", "within"]


def test_figures_sizes_and_results():
    """Percentiles lie between values, a quick run does a little of each size, a wrong answer is no figure, and a group has its rows."""
    assert [percentile([3.0, 1.0], percent) for percent in (0, 50, 100)] == [1.0, 2.0, 3.0]
    assert [Effort(scale=0.05).of(size) for size in (1000, 100, 5)] == [50, 10, 5]
    with pytest.raises(RuntimeError, match=r"did not do its work: the answer is '4', expected '5'"):
        expect("the answer", "4", "5")
    assert set(GROUPS["gateway"]) == {name for name in WORKLOADS if name.startswith("gateway-")}
    assert len(GROUPS["gateway"]) > 5


def test_every_bar_judges_a_row():
    """The table of bars and the workloads name the same rows; `cycle 200 to peer` is judged by the run with the peers."""
    texts = [path.read_text() for path in sorted((ROOT / "benchmarks").rglob("*.py"))]
    used = {name for text in texts for name in re.findall(r'target_of\(\s*"([^"]+)"', text)}
    assert used == set(TABLE)


def test_a_compiled_build_has_bars_that_are_at_least_as_hard():
    """An aim is no easier than what must be, and compiling makes nothing easier."""
    for name in TABLE:
        pure, compiled = target_of(name, "pure"), target_of(name, "compiled")
        assert pure.aim is not None
        assert compiled.aim is not None
        assert pure.of == compiled.of
        assert compiled.must <= pure.must >= pure.aim >= compiled.aim <= compiled.must


@pytest.mark.check  # collects as often
def test_cpu_and_wall_of_a_run_stand_in_its_row():
    """Each row says what one whole run of ours took, on both clocks."""

    def spend() -> dict[str, float]:
        return {"seconds": float(len(range(10)))}

    row = repeat(spend, 3).row("w", "seconds", "x", unit="s")
    assert row.cpu_seconds is not None
    assert row.wall_seconds is not None
    assert "–" not in cells_of(row)[5:7]


@pytest.mark.check  # runs a workload
def test_a_workload_that_leaves_the_collector_changed_ends_the_run():
    """What comes after it would be measured with another collector."""
    was = gc.get_threshold()

    def tune() -> dict[str, float]:
        gc.set_threshold(was[0] + 1, *was[1:])
        return {"seconds": 1.0}

    with pytest.raises(RuntimeError, match="a workload left the collector as"):
        interleave(lambda: {"seconds": 1.0}, tune, 1, warm_up=False)
    gc.set_threshold(*was)


def burn() -> int:
    """Compute for a while."""
    total = 0
    for number in range(2_000_000):
        total += number % 7
    return total


@pytest.mark.check  # runs a workload
def test_a_profile_names_the_function_that_computes():
    """The first place is the busy function, with file and line, without the machine's own path."""
    found = slowest_functions(burn, enough_seconds=0.2)
    first = found.places[0]
    assert (first.name, first.where) == (
        "burn", f"tests/repo/test_benchmarks.py:{burn.__code__.co_firstlineno}"
    )  # fmt: skip
    assert first.share > 0.5
    assert any("burn" in line for line in found.lines())


@pytest.mark.check  # as above
@pytest.mark.parametrize("workload", sample(["config", "folds", "recall", "skills"], 1))
def test_a_row_of_files_is_explained_when_its_folder_is_gone(monkeypatch, workload):
    """All rows are explained behind the last workload, so each does its work again, in a folder of its own."""
    again: list[object] = []
    monkeypatch.setattr(explain, "slowest_functions", lambda side: again.append(side()))
    for row in WORKLOADS[workload](Effort(rounds=1, scale=0.02)):
        assert row.explain is not None
        row.explain()
    assert again
    assert all(isinstance(sample, dict) for sample in again)


async def test_of_memory_the_line_that_holds_it_is_named():
    """What is held so many times is told for one of them, in KiB, with the line that made it, and no path of the machine."""
    held: list[bytearray] = []

    async def hold() -> None:
        held.extend(bytearray(10 * 1024) for _ in range(100))

    found = await largest_holders(hold, 100)
    assert found.places[0].where.startswith("tests/repo/test_benchmarks.py:")
    assert 10 < found.places[0].amount < 11
    machine = "agentrail/core/session/machine.py"
    files = (str(ROOT / machine), pytest.__file__, json.__file__, "/elsewhere/x.py")
    assert [*map(place_of, files)] == [machine, "pytest/__init__.py", "json/__init__.py", "x.py"]


def test_missed_rows_are_explained_and_the_same_run_only_once():
    """What is within its bar needs no explanation."""
    asked: list[str] = []

    def explain() -> Explanation:
        asked.append("explain")
        return Explanation(places=[Place(where="a.py:1", name="f", share=0.5, amount=1.0, unit="s")])

    target = Target(of="ours", must=1.0)
    rows = [
        Row(workload="w", what=what, unit="µs", ours=spread(value), target=target, explain=explain)
        for what, value in (("good", 0.5), ("bad", 2.0), ("worse", 3.0))
    ]
    explained = explain_missed(rows)
    assert list(explained) == ["w: bad", "w: worse"]
    assert asked == ["explain"]
    assert "a.py:1  f" in render_missed(explained)
