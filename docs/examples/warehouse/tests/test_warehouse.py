"""The clerk is killed in the middle of its work, and started again."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import clerk
import pytest
from agentrail.testing.models import FunctionModel

import warehouse

HERE = Path(__file__).parent
UNKNOWN = "[Outcome unknown: the process stopped while this ran]"


@pytest.fixture
def start(tmp_path):
    """Start the program; what does not end by itself is killed."""
    started = []

    def begin(carrier_seconds):
        paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        program = subprocess.Popen(
            [sys.executable, str(HERE / "clerk.py"), str(tmp_path)],
            env={**os.environ, "CARRIER_SECONDS": str(carrier_seconds), "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(program)
        return program

    yield begin
    for program in started:
        program.kill()
        program.communicate()


def read_until(program, *wanted):
    """Read lines until all of these were there, in any order."""
    seen = []
    while not all(any(one in line for line in seen) for one in wanted):
        line = program.stdout.readline()
        assert line, seen
        seen.append(line.strip())
    return seen


def test_killed_while_a_tool_runs_and_a_person_is_asked(start):
    """The conversation is there, the very approval is asked again, and the parcel is not shipped twice: the model is told."""
    first = start(carrier_seconds=600)
    seen = read_until(first, "ship 17", "asked: ")
    assert "find_order: order 17: a kettle, postage 4.90 EUR" in seen
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL

    second = start(carrier_seconds=0)
    again = read_until(second, "asked: ")
    assert again[0] == "user: Order 17 is lost: ship it anew, and pay the postage back."
    assert again[1] == "assistant: calls find_order"
    assert again[2].endswith("order 17: a kettle, postage 4.90 EUR")
    assert again[-1] == next(line for line in seen if line.startswith("asked: "))
    rest, _ = second.communicate("yes\n")
    lines = again + rest.splitlines()
    assert lines.count(f"ship: {UNKNOWN}") == 1
    assert "ship 17" not in lines
    assert "refund: 4.90 EUR of order 17 are paid back" in lines
    assert lines[-1] == f"assistant: Done: {UNKNOWN}; 4.90 EUR of order 17 are paid back"
    assert second.returncode == 0


@pytest.mark.parametrize(
    ("said", "last"),
    [("yes\n", "Done: order 17 is on its way; 4.90 EUR of order 17 are paid back"), ("no\n", "tools: ")],
)
async def test_not_killed(said, last, tmp_path, monkeypatch, capsys):
    """It ships, and pays back where a person says yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    await warehouse.main(str(tmp_path), FunctionModel(clerk.answer))
    lines = capsys.readouterr().out.splitlines()
    assert last in lines[-1]
    assert ("4.90 EUR of order 17 are paid back" in lines[-1]) is (said == "yes\n")
    assert "order 17 is on its way" in lines[-1]
