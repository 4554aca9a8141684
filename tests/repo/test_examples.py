"""The programs of docs/examples are short, go through the front door, and have types.

That they work, and that mypy has nothing to say of them, is tested where what they use is installed: `make examples`.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*/*.py"))
FROM_DOCS_ALONE = ("structured_answer", "support_bot", "web_server")
SHOWN = {"behind-fastapi": ("web_server/web_server", "web_server/on_starlette")}
DOORS = ("agentrail", "agentrail.plugins", "agentrail.host", "agentrail.gateway")
# Worked examples of agents have models that are played, and stores that they fill: those doors have how-tos of their own.
WORKED = ("coding", "help_desk", "research")
FURTHER_DOORS = (
    *(
        "agentrail.blueprints",
        "agentrail.tools",
        "agentrail.tools.exit_plan",
        "agentrail.stores.knowledge_sqlite",
    ),
    *("agentrail.abc", "agentrail.events", "agentrail.messages", "agentrail.testing.models"),
)
MAX_LINES = 40

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)


def imported_from(text: str) -> set[str]:
    """The modules of ours that a text imports something from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or ".")
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return {name for name in found if name.partition(".")[0] == "agentrail"}


def typed_here() -> list[Path]:
    """Those whose imports are installed: web frameworks are for `make examples` only, which holds those types by mypy."""
    return [program for program in PROGRAMS if program.parent.name != "web_server" or find_spec("fastapi")]


@pytest.mark.parametrize("name", FROM_DOCS_ALONE)
def test_a_program_from_docs_alone_has_at_most_forty_lines(name):
    """A bot, an answer with a type, a server; blank lines and imports included (14.5)."""
    assert len((EXAMPLES / name / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_shows_the_program_that_is_tested(page):
    """Word for word: what a page skips is run where its imports are."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    for program in SHOWN[page]:
        assert f"```python\n{(EXAMPLES / program).with_suffix('.py').read_text(encoding='utf-8')}```" in text


@programs
def test_a_program_imports_from_the_front_doors(program):
    """And from nowhere below them (14.5)."""
    doors = {*DOORS, *(FURTHER_DOORS if program.parent.name in WORKED else ())}
    assert imported_from(program.read_text(encoding="utf-8")) <= doors


def test_the_lengths_side_by_side_are_those_of_the_programs():
    """Ours and theirs."""
    page = ROOT / "docs" / "explanation" / "side-by-side.md"
    said = re.findall(r"\[(\d+) lines\]\((\S+)\)", page.read_text(encoding="utf-8"))
    assert len(said) == 3 * len(FROM_DOCS_ALONE)
    for lines, program in said:
        assert int(lines) == len((page.parent / program).read_text(encoding="utf-8").splitlines()), program


def test_an_import_from_below_is_seen():
    """The reading above is not blind."""
    text = "import trio\nimport agentrail\ndef f():\n    from agentrail.core.session import state\nimport agentrail.otp\n"
    assert imported_from(text) == {"agentrail", "agentrail.core.session", "agentrail.otp"}


@pytest.mark.check
def test_pyright_has_nothing_to_say(tmp_path):
    """Strictly too (14.5)."""
    if find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install pyright, which needs Node")
    for program in typed_here():
        shutil.copy(program, tmp_path)
    settings = {"typeCheckingMode": "strict", "include": ["."], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
