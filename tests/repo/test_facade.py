"""The façade is small, lazy, and touches nothing."""

import json
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import agentrail
from benchmarks.bars import build_in_use

ROOT = Path(__file__).parents[2]
MAX_PUBLIC_NAMES = 64

# Notes what an import does to the machine. Modules themselves are opened too, which is what an import is.
WATCHED_IMPORT = """
import json, sys
touched = []

def note(event, args):
    if event == "open" and not str(args[0]).endswith((".py", ".pyc")):
        touched.append(f"open {args[0]}")
    elif event.startswith(("socket.", "subprocess.", "os.mkdir", "os.remove", "os.system", "sqlite3.")):
        touched.append(event)

sys.dont_write_bytecode = True
sys.addaudithook(note)
import agentrail
print(json.dumps([touched, sorted(sys.modules)]))
"""


def test_importing_touches_nothing_and_brings_no_trio():
    """`import agentrail` opens no file (but those of a compiled build) and no socket, starts no process, and imports no room."""
    command = [sys.executable, "-c", WATCHED_IMPORT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    touched, modules = json.loads(done.stdout)
    looks = []
    if build_in_use() == "compiled":  # what was compiled is held against its record first
        assert any(one.endswith("compiled.json") for one in touched)
        touched = [one for one in touched if not one.endswith((*EXTENSION_SUFFIXES, "compiled.json"))]
        looks = ["agentrail.builds", "agentrail.structs"]  # which is not compiled
    assert touched == []
    assert "trio" not in modules
    assert [name for name in modules if name.startswith("agentrail.")] == looks


def test_the_facade_is_small_and_every_name_resolves():
    """There are at most 64 public names, each of them once, in order, and `dir()` shows it; a misspelt one fails."""
    assert 0 < len(agentrail.__all__) <= MAX_PUBLIC_NAMES
    assert list(agentrail.__all__) == sorted(set(agentrail.__all__))
    assert [name for name in agentrail.__all__ if not hasattr(agentrail, name)] == []
    assert set(agentrail.__all__) <= set(dir(agentrail))
    assert not hasattr(agentrail, "open_superviser")
