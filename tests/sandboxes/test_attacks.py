"""Every attack of docs/explanation/sandbox.md, with real commands: confined and unconfined, as root and as a user."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio

from tests.sandboxes.attacks import ATTACKS, attack
from tests.sandboxes.rig import why_no_bubblewrap

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc"
)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mode", ["confined", "unconfined"])
@pytest.mark.parametrize("kind", ATTACKS, ids=lambda kind: kind.__name__)
async def test_an_attack_comes_to_nothing(kind, mode, tmp_path):
    """As the docstring of each says."""
    await attack(kind, tmp_path, confined=mode == "confined")


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
async def test_and_so_it_does_for_an_ordinary_user():
    """In a process that was root and has become nobody: other rights, and a limit of processes that the kernel keeps."""
    place = tempfile.mkdtemp()  # not below tmp_path, which only root may enter
    try:
        ran = await trio.run_process(
            [sys.executable, "-m", "tests.sandboxes.attacks", place],
            capture_stdout=True,
            capture_stderr=True,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=ROOT,
        )
    finally:
        shutil.rmtree(place)
    done = [line for line in ran.stdout.decode().splitlines() if line.startswith("made: ")]
    assert ran.returncode == 0, f"after {done[-1:]}: {ran.stderr.decode()[-3000:]}"
    assert len(done) == len(ATTACKS) * (1 if why_no_bubblewrap() else 2)
