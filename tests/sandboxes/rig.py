"""Sandboxes as the tests want them: with bubblewrap, or as where there is none."""

import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentrail.sandboxes import confinement, programs
from agentrail.sandboxes.confinement import Trial
from agentrail.sandboxes.local import LocalSandbox
from agentrail.sandboxes.programs import find_program

WITHOUT = "bubblewrap was taken away by a test"


@cache
def why_no_bubblewrap() -> str:
    """Say why commands cannot be confined on this machine; nothing when they can."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed: scripts/install_bubblewrap.sh does it"
    argv = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {tried.stderr.strip()}" if tried.returncode else ""


def need_bubblewrap() -> None:
    """Skip the test where commands cannot be confined; in CI, fail it where only bubblewrap is missing."""
    why = why_no_bubblewrap()
    if shutil.which("bwrap") is None and os.environ.get("AGENTRAIL_REQUIRE_SERVICES"):
        pytest.fail(why, pytrace=False)
    if why:
        pytest.skip(why)


def need_an_interpreter_for_everybody() -> None:
    """Skip the test where the interpreter lies in a directory that an ordinary user may not enter, such as root's home."""
    for path in (Path(sys.executable), Path(sys.executable).resolve()):
        for parent in path.parents:
            if not parent.stat().st_mode & stat.S_IXOTH:
                pytest.skip(f"an ordinary user may not enter {parent}, in which the interpreter is")


def make_sandbox(mode: str, root: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> LocalSandbox:
    """Make a sandbox whose commands are `confined` or `unconfined`, and carry `TEST_TREE`."""
    if mode == "confined":
        need_bubblewrap()
    else:
        take_bubblewrap_away(monkeypatch)
    return LocalSandbox(root, shell_fallback="unconfined", env={"TEST_TREE": str(root)}, **options)


def take_bubblewrap_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it as on a machine that has none."""

    async def find_none(_program: str | None) -> Trial:
        return Trial(why=WITHOUT)

    monkeypatch.setattr(confinement, "_try_bubblewrap", find_none)


def take_ripgrep_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it as on a machine that has none, for sandboxes that are made from now on."""

    def find_others(name: str, root: Path | None = None) -> str | None:
        return None if name == "rg" else find_program(name, root)

    monkeypatch.setattr(programs, "find_program", find_others)


def count_alive(variable: str) -> int:
    """Count the processes with this variable in their environment, such as `TEST_TREE=/its/root`."""
    found = 0
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += variable.encode() in environ.read_bytes().split(b"\0")
    return found
