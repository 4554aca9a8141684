"""Tests of `tests/console/js` that compare with what Python computes: cases are written to a file, and run by node's own runner."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed: apt-get install nodejs"
)


def run_in_node(name: str, variable: str, cases: Iterable[bytes], directory: Path) -> str:
    """Run a file of tests over cases, which must pass, and return what it printed."""
    file = directory / "cases.jsonl"
    file.write_bytes(b"".join(cases))
    run = subprocess.run(
        ["node", "--test", f"{HERE}/js/{name}.test.js"],
        env={**os.environ, variable: f"{file}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout
