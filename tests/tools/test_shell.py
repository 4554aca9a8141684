"""`shell`: how an end of a command reads."""

from agentrail.abc import Error, ExecuteResult, Ok, Refusal
from agentrail.tools.shell import shell
from tests.tools.rig import StubSandbox, context

DONE = {"output": "a\n", "exit_code": 0, "duration_ms": 10}
TIMED_OUT = "Timed out after 2.5 s. It may have taken effect; check before repeating."
INVALID = Refusal(code="invalid_path", message="Invalid path.")


async def test_every_end_has_its_words():
    """A command that ended by itself is information, whatever its exit code; one that was stopped is an error."""
    for result, outcome in (
        ({"output": "no\n\n", "exit_code": 1}, Ok(text="no\n[exit code 1 · 0.0 s]")),
        ({"output": "", "duration_ms": 99}, Ok(text="[exit code 0 · 0.1 s]")),
        ({"output": "", "exit_code": None, "signal": 9}, Ok(text="[ended by SIGKILL · 0.0 s]")),
        ({"output": "", "exit_code": None, "signal": 45}, Ok(text="[ended by signal 45 · 0.0 s]")),
        ({"stopped_processes": 1}, Ok(text="a\n[1 background process was stopped]\n[exit code 0 · 0.0 s]")),
        (
            {"stopped_processes": 2},
            Ok(text="a\n[2 background processes were stopped]\n[exit code 0 · 0.0 s]"),
        ),
        ({"exit_code": None, "timed_out": True}, Error(text=f"a\n{TIMED_OUT}")),
        ({"exit_code": None, "duration_ms": 3100}, Error(text="a\n[stopped · 3.1 s]")),
        ({"error": INVALID}, Error(text="Invalid path.")),
    ):
        sandbox = StubSandbox(result=ExecuteResult(**result if "error" in result else DONE | result))
        assert await shell.execute({"command": "x", "timeout_seconds": 2.5}, context(sandbox)) == outcome
