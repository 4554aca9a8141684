"""Time travel in the console: the conversation that is folded in the page equals `state_at`, at every record of a journal."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.past_cases import past_cases

HERE = Path(__file__).parent


@pytest.mark.check
@pytest.mark.c(27)
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: apt-get install nodejs")
def test_at_every_record_the_conversation_is_that_of_its_state(tmp_path):
    """Of the golden journals, and of one that goes back several times; in node."""
    file = tmp_path / "journals.jsonl"
    file.write_bytes(b"".join(past_cases()))
    run = subprocess.run(
        ["node", "--test", f"{HERE}/js/past.test.js"],
        env={**os.environ, "CONSOLE_PAST_CASES": f"{file}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "# skipped 0\n" in run.stdout
