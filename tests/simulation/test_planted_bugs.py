"""The distributed bugs that `make planted` measures apply to the library as it is, and the measurement finds one of them."""

import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from scripts.planted import live_until_broken, plant
from tests.simulation.planted_bugs import PLANTED
from tests.simulation.planting import FOLDER, planted

ROOT = Path(__file__).parent.parent.parent


def test_every_planted_bug_applies():
    """The text of each hunk is in its module exactly once, and what it leaves is Python. All patches of the folder are measured."""
    assert len({bug.file for bug in PLANTED}) == len(PLANTED) >= 30
    assert {path.stem for path in FOLDER.glob("*.patch")} <= {bug.file for bug in PLANTED}
    for bug in PLANTED:
        mutant = bug.read()
        source = (ROOT / "agentrail" / mutant.file).read_text(encoding="utf-8")
        mutated = mutant.apply(source)
        assert mutated not in {None, source}, bug.file
        compile(mutated or "(", bug.file, "exec")


@pytest.mark.check  # git
def test_git_applies_every_planted_bug(tmp_path):
    """A person can apply the patches too."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for bug in PLANTED:
        file = Path("agentrail", bug.read().file)
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((ROOT / file).read_text(encoding="utf-8"), encoding="utf-8")
    for bug in PLANTED:
        subprocess.run(["git", "apply", "--check", bug.path], cwd=tmp_path, check=True)


@pytest.mark.check  # a copy of the library
def test_a_bug_is_planted_in_a_copy_only(tmp_path):
    """The copy has the mutated module, and this checkout has its own."""
    bug = PLANTED[0]
    file = Path("agentrail", bug.read().file)
    before = (ROOT / file).read_text(encoding="utf-8")
    assert plant(bug, tmp_path) is None
    assert (tmp_path / file).read_text(encoding="utf-8") == bug.read().apply(before)
    assert (ROOT / file).read_text(encoding="utf-8") == before


@pytest.mark.check  # many lives
@pytest.mark.simulation("V-027")
def test_a_checker_that_is_switched_off_lets_a_bug_pass():
    """The life in which `liveness` finds a lost reply breaks no promise of the other checkers."""
    with planted("slot-is-registered-after-the-send"):
        found = live_until_broken(
            "single", "hybrid", 0, Namespace(rate=0.0, hours=0.02, seconds=60.0, without="")
        )
        assert (found["outcome"], found["checker"]) == ("found", "liveness")
        without = live_until_broken(
            "single",
            "hybrid",
            found["seed"],
            Namespace(rate=0.0, hours=0.02, seconds=0.0, without="liveness"),
        )
    assert without["outcome"] == "not found"
