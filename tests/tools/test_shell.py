"""`shell`: how an end of a command reads."""

import pytest

from agentrail.abc import Error, ExecuteResult, Ok, Refusal
from agentrail.tools.shell import shell
from tests.tools.rig import StubSandbox, context


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (ExecuteResult(output="no\n\n", exit_code=1, duration_ms=0), Ok(text="no\n[exit code 1 · 0.0 s]")),
        (ExecuteResult(output="", exit_code=0, duration_ms=99), Ok(text="[exit code 0 · 0.1 s]")),
        (
            ExecuteResult(output="", exit_code=None, signal=9, duration_ms=10),
            Ok(text="[ended by SIGKILL · 0.0 s]"),
        ),
        (
            ExecuteResult(output="", exit_code=None, signal=45, duration_ms=10),
            Ok(text="[ended by signal 45 · 0.0 s]"),
        ),
        (
            ExecuteResult(output="a\n", exit_code=0, duration_ms=10, stopped_processes=1),
            Ok(text="a\n[1 background process was stopped]\n[exit code 0 · 0.0 s]"),
        ),
        (
            ExecuteResult(output="a\n", exit_code=0, duration_ms=10, stopped_processes=2),
            Ok(text="a\n[2 background processes were stopped]\n[exit code 0 · 0.0 s]"),
        ),
        (
            ExecuteResult(output="a\n", exit_code=None, duration_ms=10, timed_out=True),
            Error(text="a\nTimed out after 2.5 s. It may have taken effect; check before repeating."),
        ),
        (
            ExecuteResult(output="a\n[too much]", exit_code=None, duration_ms=3100),
            Error(text="a\n[too much]\n[stopped · 3.1 s]"),
        ),
        (
            ExecuteResult(error=Refusal(code="invalid_path", message="Invalid path.")),
            Error(text="Invalid path."),
        ),
    ],
)
async def test_every_end_has_its_words(result, outcome):
    """A command that ended by itself is information, whatever its exit code; one that was stopped is an error."""
    sandbox = StubSandbox(result=result)
    assert await shell.execute({"command": "x", "timeout_seconds": 2.5}, context(sandbox)) == outcome
