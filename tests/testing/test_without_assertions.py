"""Under `python -O` the test kit cannot check anything, and says so."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHECKS = """
import trio
from agentrail.cli.journals_command import journals
from agentrail.errors import OptionError
from agentrail.evals.journal_rules import check_scenario
from agentrail.testing import stacks
from agentrail.testing.cancelling import cancel_everywhere
from agentrail.testing.check_notes import check_notes
from agentrail.testing.check_plugin import check_plugin
from agentrail.testing.check_provider import check_provider
from io import StringIO

for check in (
    lambda: check_plugin(None),
    lambda: stacks.check_stack(None),
    lambda: check_notes(StringIO),
    lambda: check_scenario("session"),
    lambda: journals(holds="os:getcwd"),  # prints the error
    lambda: trio.run(check_provider, None),
    lambda: trio.run(cancel_everywhere, None),
):
    try:
        check()
    except OptionError as error:
        print(error)
"""


@pytest.mark.check  # an interpreter of its own
def test_a_check_refuses_to_run_without_assertions():
    """`PYTHONOPTIMIZE=1` removes them, and a broken plugin, store or provider would pass."""
    command = [sys.executable, "-O", "-c", CHECKS]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = "Python ignores assertions, so every check would pass: remove -O or PYTHONOPTIMIZE"
    assert (ran.stdout.splitlines(), ran.stderr) == ([said] * 6, f"agentrail: {said}.\n")
