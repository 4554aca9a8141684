"""Every attack of docs/explanation/sandbox.md, with real commands: confined and unconfined, as root and as a user."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trio

from tests.forked import Warm, run_forked
from tests.sandboxes.attacks import ATTACKS, PATIENCE_SECONDS, SEARCHES, attack
from tests.sandboxes.rig import need_an_interpreter_for_everybody, why_no_bubblewrap
from tests.thinned import paired

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc"
)
ROOT = Path(__file__).parents[2]
WARM = Warm(
    module="tests.call",
    imports=("tests.sandboxes.attacks",),
    patience_seconds=2 * PATIENCE_SECONDS,
)


@pytest.mark.parametrize(
    ("kind", "mode"),
    paired(ATTACKS, ["confined", "unconfined"]),
    ids=lambda one: getattr(one, "__name__", one),
)
async def test_an_attack_comes_to_nothing(kind, mode, tmp_path):
    """As the docstring of each says."""
    await attack(kind, tmp_path, confined=mode == "confined")


@pytest.mark.check  # the same attacks again, and only where the tests run as root
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
@pytest.mark.parametrize("kind", ATTACKS, ids=lambda kind: kind.__name__)
async def test_and_so_it_does_for_an_ordinary_user(kind):
    """In a process that was root and has become nobody: other rights, and a limit of processes that the kernel keeps."""
    if not all(place.stat().st_mode & 0o001 for place in (ROOT, *ROOT.parents)):
        pytest.skip(f"an ordinary user may not enter {ROOT}: clone to where everybody may")
    if kind in SEARCHES and shutil.which("rg") is None:
        need_an_interpreter_for_everybody()
    place = tempfile.mkdtemp()  # not below tmp_path, which only root may enter
    try:
        ran = await run_forked(
            WARM, "tests.sandboxes.attacks", "as_nobody", repr({"place": place, "name": kind.__name__})
        )
    finally:
        shutil.rmtree(place)
    done = [line for line in ran.out.splitlines() if line.startswith("made: ")]
    assert ran.code == 0, f"after {done[-1:]}: {ran.err[-3000:]}"
    assert len(done) == (1 if why_no_bubblewrap() else 2)


_WRITE = """
import pathlib, sys, trio
from agentrail.sandboxes.local import LocalSandbox

async def main(root):
    sandbox = LocalSandbox(root)
    assert (await sandbox.read("a")).text == "one"
    for done in (await sandbox.write("a", "x"), await sandbox.edit("a", "one", "x"), await sandbox.write("b/c", "x")):
        print(done.error.code, done.error.message)

trio.run(main, pathlib.Path(sys.argv[1]))
"""


async def test_nothing_is_written_to_a_read_only_file_system(tmp_path):
    """In a mount namespace in which the root is read-only: refused with the reason, for root as well."""
    if why_no_bubblewrap():
        pytest.skip(f"no mount namespace: {why_no_bubblewrap()}")
    (tmp_path / "a").write_text("one")
    root = str(tmp_path)
    argv = [
        "bwrap",
        "--bind",
        "/",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
        "--ro-bind",
        root,
        root,
        "--chdir",
        str(ROOT),
    ]
    ran = await trio.run_process(
        [*argv, sys.executable, "-c", _WRITE, root], capture_stdout=True, stdin=subprocess.DEVNULL
    )
    lines = ran.stdout.decode().splitlines()
    assert len(lines) == 3
    assert all(
        line.startswith("permission_denied ") and "the file system is read-only" in line for line in lines
    )
    assert (tmp_path / "a").read_text() == "one"
