"""The programs of docs/examples have types. That they work, and that mypy accepts them, is tested by `make examples`."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.thinned import nightly

ROOT = Path(__file__).parents[2]


@nightly  # beside `make examples`
@pytest.mark.check
def test_pyright_has_nothing_to_say(tmp_path):
    """Strictly too (14.5); of programs whose imports are installed: web frameworks are for `make examples` alone."""
    if find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install pyright, which needs Node")
    for program in (ROOT / "docs" / "examples").glob("*/*.py"):
        if program.parent.name != "web_server" or find_spec("fastapi"):
            shutil.copy(program, tmp_path)
    settings = {"typeCheckingMode": "strict", "include": ["."], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
