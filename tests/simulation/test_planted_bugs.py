"""The distributed bugs that `make planted` measures apply to the library as it is, and the measurement finds one of them."""

import json
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from agentrail.testing.simulation.checkers import CHECKERS
from agentrail.testing.simulation.shadow import FoldEqualsLife
from scripts.planted import live_until_broken, main as measure, plant
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


@pytest.mark.check  # two copies of the library, and processes for each row
@pytest.mark.simulation("V-026")
def test_bugs_are_measured_by_strategy_and_seed(capfd, tmp_path):
    """A row for each, with the seconds until a checker broke. `make planted` measures all bugs."""
    file = tmp_path / "rows.json"
    assert measure(["--strategies=portfolio,pct", "--first=1", f"--json={file}", "reply-is-lost"]) == 0
    rows = json.loads(file.read_text())
    assert [row["strategy"] for row in rows] == ["portfolio", "pct"]
    assert all(row["checker"] == "every_caller_gets_its_answer" and row["seconds"] < 60 for row in rows)
    assert measure(["--strategies=fair", "--first=1", "--seeds=2", "--seconds=0", "a-failed-sync"]) == 1
    told = capfd.readouterr().out
    assert told.count("| reply is lost between check and park |") == 2
    assert told.count("| a failed sync is only repeated | fair | not found | 1 |") == 2


ONLY_SEEN_BY = {
    "promises of each step": ("timers-are-not-set-again", "desk", 13),
    "fences": ("prompt-is-acknowledged-before-its-record-is-durable", "cluster", 0),
    "at most once, at least once": ("finished-call-runs-again", "cluster", 0),
    "linearizable acknowledgements": ("a-second-decision-is-told-that-it-was-approved", "desk", 10),
    "gap-free events": ("a-relay-skips-one-number-at-a-move", "moves", 0),
    "approvals": ("deadline-follows-the-clock-of-the-node", "desk", 0),
    "budgets": ("a-child-is-delivered-twice", "tree", 0),
    "abort receipts": ("an-abort-lets-tools-run-on", "cluster", 40),
    "stops": ("abort-waits-for-the-store", "cluster", 18),
    "liveness": ("slot-is-registered-after-the-send", "single", 4),
    "one prompt for each client_id": ("client-ids-are-forgotten-by-the-next-owner", "cluster", 2),
    "no bug is logged": ("a-created-session-is-answered-with-an-error", "cluster", 0),
    "fold equals life": ("half-a-response-is-not-recorded", "cluster", 8),
}
"""For each checker a bug, its world, and the first seed whose life shows it. A later one does after a change of the worlds."""


def test_each_checker_has_a_bug_that_only_it_sees():
    """A new checker needs one, too."""
    assert set(ONLY_SEEN_BY) == {one.name for one in (*CHECKERS, FoldEqualsLife)}


@pytest.mark.check  # two lives each
@pytest.mark.simulation("V-027")
@pytest.mark.parametrize("checker", ONLY_SEEN_BY)
def test_a_checker_that_is_switched_off_lets_a_bug_pass(checker):
    """A short life with the bug breaks its promise, and no promise of the other checkers."""
    bug, world, first = ONLY_SEEN_BY[checker]

    def shown_by(seed, without):
        options = Namespace(rate=0.0, hours=0.02, seconds=0.0, without=without)
        return live_until_broken(world, "portfolio", seed, options).get("checker")

    with planted(bug):
        assert any(
            shown_by(seed, "") == checker and shown_by(seed, checker) is None
            for seed in range(first, first + 40)
        )
