"""The worked example of research is a package, and `make examples` is what runs it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stands for Python: an environment that it makes has itself in it, and whatever it is to run is a line with the files that are there.
STANDS_FOR_PYTHON = """#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
else
    echo "$(echo *.py pyproject.toml papers/*.md tests/*.py): $*" >> "$SEEN"
fi
"""


@pytest.mark.blueprint("G-022")
def test_the_research_example_is_what_make_examples_runs(tmp_path):
    """G-022: its package is installed, its types are held and its tests are run, offline as they are."""
    python, seen = tmp_path / "python", tmp_path / "seen"
    python.write_text(STANDS_FOR_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    told = subprocess.run(
        ["make", "-n", "examples"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "bash scripts/run_examples.sh" in told
    environment = {**os.environ, "PYTHON": str(python), "SEEN": str(seen), "TMPDIR": str(tmp_path)}
    subprocess.run(["bash", "scripts/run_examples.sh"], cwd=ROOT, env=environment, check=True)
    here = "offline_model.py research.py pyproject.toml papers/heat-pumps.md papers/reading-rooms.md papers/schools.md"
    ran = [
        line.partition(": ")[2]
        for line in seen.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"{here} tests/test_research.py: ")
    ]
    assert ran == ["-m mypy --strict ./offline_model.py ./research.py", "-m pytest -q tests"]
