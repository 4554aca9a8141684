"""`make bench-peers`: what it compares with is left out where it cannot be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bars import target_of
from benchmarks.peers.__main__ import WORK
from benchmarks.peers.table import BARE, LINES, OURS, Taken, render, verdict
from tests.thinned import nightly

ROOT = Path(__file__).parents[2]


def taken(late_seconds: float) -> Taken:
    """A run of the growing conversation, between two bare ones."""
    bare = {"early_seconds": 0.0001, "late_seconds": 0.0001}
    return Taken(sample={"early_seconds": 0.0005, "late_seconds": late_seconds}, before=bare, after=bare)


def test_the_table_has_a_column_for_each_and_a_dash_where_nothing_was_measured():
    """A figure stands with its ratio to the bare runs around it; who was left out of a workload has a dash. Every workload has a line."""
    assert {line.workload for line in LINES} == set(WORK)
    results = {"growth": {OURS: [taken(0.0004)], "autogen": [taken(0.0008)]}}
    table = render(results, [BARE, OURS, "autogen", "agno"], {"autogen": "autogen 1", "agno": "agno 2"})
    head, _, early, late = table.splitlines()
    assert head == "|  | bare loop | agentrail | autogen 1 | agno 2 |"
    assert early == "| turn 10 | 100 µs | 500 µs (5 ×) | 500 µs (5 ×) | – |"
    assert late == "| turn 200 | 100 µs | 400 µs (4 ×) | 800 µs (8 ×) | – |"


def test_turn_200_is_held_against_the_fastest_peer_of_the_same_run():
    """The verdict is that of the two medians; without that peer there is none."""
    must = target_of("cycle 200 to peer").must
    growth = {OURS: [taken(0.0118 * must * 0.9)], "agent-framework": [taken(0.0118)]}
    assert f"{must * 0.9:.3f} ×, must {must} ×: within" in verdict({"growth": growth})
    growth = {OURS: [taken(0.0118 * must * 1.2)], "agent-framework": [taken(0.0118)]}
    assert "misses" in verdict({"growth": growth})
    assert verdict({"growth": {OURS: [taken(0.0004)]}}) == ""
    assert verdict({}) == ""


@nightly
@pytest.mark.check
def test_a_peer_that_cannot_be_installed_is_left_out(tmp_path):
    """Without an index the run says who is missing and why, and goes on with the others."""
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}
    ran = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.peers", "--quick", "--only", "starts", "--peer", "autogen",
            "--home", str(tmp_path / "peers"), "--json", str(tmp_path / "peers.json"),
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "left out: autogen cannot be installed:" in ran.stderr
    assert ran.stdout.splitlines()[0] == "|  | bare loop | agentrail |"
    assert (tmp_path / "peers.json").is_file()
