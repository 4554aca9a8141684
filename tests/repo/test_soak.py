"""The soak runs, prints each figure, and knows what is not flat."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak import Figures, decide_faults, decide_growth
from tests.thinned import nightly

ROOT = Path(__file__).parents[2]


def figures(**grown: int) -> Figures:
    quiet = {"rss_kb": 50_000, "descriptors": 11, "tasks": 6, "threads": 7, "objects": 60_000}
    return Figures(**{name: value + grown.get(name, 0) for name, value in quiet.items()})


def run(module, *arguments):
    """Run one for a second, and give its exit code, its first line and the others."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--seconds", "1", "--seed", "7", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    return ran.returncode, *ran.stdout.split("\n", 1)


@nightly  # what a soak runs is run by other tests of CI
@pytest.mark.check
def test_a_short_soak_is_flat():
    """It prints the seed and each figure of each round, and ends with 0; that of readers is too short to be flat."""
    code, first, rounds = run("soak")
    assert code == 0, rounds
    assert first.startswith("seed 7, 1 s")
    assert len([line for line in rounds.splitlines() if "descriptors" in line and "sessions" in line]) >= 4
    assert rounds.splitlines()[-1] == "flat"
    _, first, rounds = run("readers_soak", "--sessions", "8")
    assert first.startswith("seed 7, 1 s, 8 sessions")
    assert len([line for line in rounds.splitlines() if "asked" in line and "descriptors" in line]) >= 4
    assert "said something else" not in rounds


@pytest.mark.parametrize(
    ("name", "each"), [("rss_kb", 500), ("descriptors", 1), ("tasks", 1), ("threads", 1), ("objects", 300)]
)
def test_what_grows_with_the_rounds_is_found(name, each):
    """A little in each round is a leak; the words say what and how much."""
    samples = [figures(**{name: number * each}) for number in range(60)]
    (fault,) = decide_faults(samples)
    assert fault.startswith(f"{name} grew by ")
    assert decide_growth(samples)[name] > 0
    # Caches fill, and then it is flat; one sample out of line is nothing either.
    samples = [figures(rss_kb=min(number, 10) * 5_000, descriptors=number == 20) for number in range(60)]
    assert decide_faults(samples) == []
