"""Which rows of the acceptance list some tests are marked with, as pytest sees it: parameters, classes and modules too.

A plugin for a pytest that only collects; `rows_of` starts it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OUTPUT = "AGENTRAIL_MARKED_ROWS"


def rows_of(tests: Iterable[str]) -> dict[str, frozenset[int]]:
    """The rows that each test is marked with; a test without its parameters has those of all of them.

    Args:
        tests: As pytest names them, from the root of the checkout.

    Raises:
        ValueError: One of them is not there; pytest's words follow.
    """
    wanted = sorted(set(tests))
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        environment = {**os.environ, OUTPUT: output.name, "PYTHONPATH": str(ROOT)}
        plugins = ("-p", "scripts.marked_rows", "-p", "no:randomly", "-p", "no:cacheprovider", "-n", "0")
        command = (sys.executable, "-m", "pytest", "--collect-only", "-q", *plugins, *wanted)
        ended = subprocess.run(  # noqa: S603 - pytest, on tests of ours
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            message = f"pytest cannot collect the tests that mutants name:\n{ended.stdout[-2000:]}"
            raise ValueError(message)
        collected: dict[str, list[int]] = json.loads(Path(output.name).read_text(encoding="utf-8"))
    return {
        test: frozenset(
            row
            for node, rows in collected.items()
            if node == test or node.startswith((f"{test}[", f"{test}::"))
            for row in rows
        )
        for test in wanted
    }


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down what was collected."""
    if OUTPUT in os.environ:
        rows = {
            item.nodeid: [row for mark in item.iter_markers("at") for row in mark.args]
            for item in session.items
        }
        Path(os.environ[OUTPUT]).write_text(json.dumps(rows), encoding="utf-8")
