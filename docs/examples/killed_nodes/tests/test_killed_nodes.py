"""Nodes are killed, and nothing is missing. Needs PostgreSQL; root runs it as an ordinary user."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from killed_nodes import SESSIONS, Show

PROGRAM = Path(__file__).parents[1] / "killed_nodes.py"

# Root's files stay readable, since its interpreter may be in a directory that others cannot enter.
AS_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
AS_USER += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


@pytest.fixture
def directory():
    """A directory of the user that runs it, with a short path: a socket is in it."""
    if not [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), *filter(None, [shutil.which("initdb")])]:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    made = Path(tempfile.mkdtemp(prefix="killed-"))
    if os.geteuid() == 0:
        os.chown(made, 65534, -1)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_killed_nodes_lose_nothing(directory):
    """Two are killed with SIGKILL while four writers write; each acknowledged message is stored once."""
    prefix = AS_USER if os.geteuid() == 0 else []
    command = [*prefix, sys.executable, str(PROGRAM), "--seconds", "9", "--every", "4"]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=False, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kills" in done.stdout
    assert done.stdout.endswith(" 0 missing, 0 twice\n")
    page = (directory / "killed_nodes.html").read_text()
    assert done.stdout.splitlines()[-1] in page
    assert all(f"<td>{one}<td>" in page for one in SESSIONS)


def test_the_page_shows_what_is_missing_and_what_is_there_twice(tmp_path):
    """It would."""
    show = Show(tmp_path / "page.html")
    show.hear("agentrail: node 1 answers at http://127.0.0.1:8700, process 12.")
    show.acknowledged["ann"] = ["ann-1", "ann-2"]
    show.stored["ann"] = ["ann-1", "ann-1"]
    show.write()
    assert (show.missing("ann"), show.twice("ann")) == (["ann-2"], ["ann-1"])
    assert "2 acknowledged, 2 stored, 1 missing, 1 twice" in show.page.read_text()
    assert "node 1: http://127.0.0.1:8700, process 12" in show.page.read_text()
    show.hear("agentrail: node 1 was ended by SIGKILL: it starts again in 0.2 s.")
    assert show.nodes == {}
