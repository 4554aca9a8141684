"""The façade is small, lazy, and touches nothing."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import agentrail
from benchmarks.bars import build_in_use

ROOT = Path(__file__).parents[2]
MAX_PUBLIC_NAMES = 64
IMPORTS_THE_CORE = re.compile(r"\s*(>>> )?(from|import) agentrail\.core\b")

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
print(json.dumps({"touched": touched, "modules": sorted(sys.modules)}))
"""


def watch_the_import() -> dict[str, list[str]]:
    """What `import agentrail` touched, and which modules it left behind."""
    command = [sys.executable, "-c", WATCHED_IMPORT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    watched: dict[str, list[str]] = json.loads(done.stdout)
    return watched


def test_importing_touches_nothing():
    """`import agentrail` opens no file (but those of a compiled build) and no socket, starts no process, makes no directory."""
    touched = watch_the_import()["touched"]
    if build_in_use() == "compiled":  # what was compiled is held against its record first
        assert any(one.endswith("compiled.json") for one in touched)
        touched = [one for one in touched if not one.endswith((*EXTENSION_SUFFIXES, "compiled.json"))]
    assert touched == []


def test_importing_brings_no_trio():
    """`import agentrail` imports neither Trio nor any room, so that the pure rooms can be had alone."""
    modules = watch_the_import()["modules"]
    assert "trio" not in modules
    looks = ["agentrail.builds"] if build_in_use() == "compiled" else []
    assert [name for name in modules if name.startswith("agentrail.")] == looks


def test_the_facade_is_small():
    """There are at most 64 public names, each of them once, in order."""
    assert 0 < len(agentrail.__all__) <= MAX_PUBLIC_NAMES
    assert list(agentrail.__all__) == sorted(set(agentrail.__all__))


def test_every_public_name_resolves():
    """Every name that the façade lists is there, and `dir()` shows it."""
    missing = [name for name in agentrail.__all__ if not hasattr(agentrail, name)]
    assert missing == []
    assert set(agentrail.__all__) <= set(dir(agentrail))


def test_type_checkers_are_told_the_same():
    """The names are written three times, once each for type checkers, for the look-up and for `import *`; they are the same ones."""
    tree = ast.parse(Path(agentrail.__file__).read_text(encoding="utf-8"))
    told = {
        (node.module, one.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if one.asname == one.name  # a plain import is none that a type checker hands on
    }
    (homes,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.target) == "_HOMES"
    )
    assert told == {(home, name) for home, names in homes.items() for name in names}
    assert sorted(name for _, name in told) == agentrail.__all__


def test_an_unknown_name_is_an_attribute_error():
    """A misspelt name fails as it does in any module, though names are looked up late."""
    assert not hasattr(agentrail, "open_superviser")


# --- what pages use


def pages() -> list[Path]:
    """The first page, and all below docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def docstrings_in(path: Path) -> Iterator[str]:
    """What is said of a module, and of all that stands in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def test_no_page_imports_from_the_core():
    """What a reader is told to import has a door: the façade, or a room that is for users."""
    told = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in pages()
        for line in page.read_text(encoding="utf-8").splitlines()
        if IMPORTS_THE_CORE.match(line)
    ]
    assert told == []


@pytest.mark.check  # goes through all of the package
def test_no_docstring_sends_a_reader_to_the_core():
    """Outside of the core itself: who reads an API is given names that may be imported."""
    core = ROOT / "agentrail" / "core"
    told = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "agentrail").rglob("*.py"))
        if not path.is_relative_to(core) and path.name != "__init__.py"
        for text in docstrings_in(path)
        for line in text.splitlines()
        if "agentrail.core." in line
    ]
    assert told == []
