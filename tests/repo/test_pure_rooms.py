"""The pure rooms run where Trio is not installed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.thinned import sample

ROOT = Path(__file__).parents[2]
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][1]

# Runs in an interpreter of its own, because this one has imported Trio long ago.
IMPORT_WITHOUT_TRIO = """
import importlib, importlib.abc, pkgutil, sys

BLOCKED = {"trio", "outcome", "sniffio", "anyio", "httpx"}

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {fullname!r} (blocked)", name=fullname)

sys.meta_path.insert(0, Absent())
room = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(getattr(room, "__path__", ()), prefix=f"{room.__name__}."):
    importlib.import_module(module.name)
assert not BLOCKED & {name.partition(".")[0] for name in sys.modules}
print(len([name for name in sys.modules if name.startswith(room.__name__)]))
"""


def import_without_trio(module: str) -> subprocess.CompletedProcess[str]:
    """Import a module and all below it in a fresh interpreter that has no Trio."""
    command = [sys.executable, "-c", IMPORT_WITHOUT_TRIO, module]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.check  # a process for each; `make lint` says it of the source
@pytest.mark.parametrize("room", sample(CONTRACT["source_modules"], 3))
def test_pure_room_imports_without_trio(room):
    """Every module of a pure room imports while Trio and its companions are blocked (architecture, layers)."""
    done = import_without_trio(room)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


def test_the_machine_imports_without_trio():
    """It needs no Trio, though it runs the façade first; a room of the shell does not import that way, so this can fail."""
    done = import_without_trio("agentrail.core.session.machine")
    assert done.returncode == 0, done.stderr
    done = import_without_trio("agentrail.runtime")
    assert done.returncode != 0
    assert "(blocked)" in done.stderr
