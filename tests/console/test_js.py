"""The pure modules of the console, and its connection, in node's own runner: `tests/console/js/*.test.js`."""

import subprocess

import pytest

from scripts.lint_console import ROOT, commands, node_tests


@pytest.mark.check
@pytest.mark.services("node")
def test_what_node_tests_holds():
    """All of them; `make lint-js` runs them too, beside format and types."""
    assert node_tests()
    (command,) = [command for program, command in commands() if program == "node"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:]
