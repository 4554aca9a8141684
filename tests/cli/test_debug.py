"""A crash, as who runs the command sees it: a line without `--debug`, its traceback with it, once."""

import re

import pytest
from attrs import evolve

from agentrail.cli.command_tree import run_command_line
from agentrail.cli.log_output import send_logs_to_stderr
from agentrail.errors import OptionError
from agentrail.logs import Logger
from tests.cli.rig import WARM
from tests.forked import Ran, run_forked

PROGRAM = evolve(WARM, module="tests.program")
PLANTED = "ZeroDivisionError: planted"
PROVIDER = (
    "from agentrail.providers.demo import Demo\n"
    "def fall(self, request): raise ZeroDivisionError('planted')\n"
    "Demo.open_stream = fall\n"
)
SANDBOX = (
    "from agentrail.sandboxes.local import LocalSandbox\n"
    "async def fall(self): raise ZeroDivisionError('planted')\n"
    "LocalSandbox.aclose = fall\n"
)
STEP = (
    "import agentrail.runtime.session_actor as session\n"
    "from agentrail.core.protocol.signals import Prompt\n"
    "real = session.step\n"
    "def fall(state, signal):\n"
    "    if isinstance(signal, Prompt): raise ZeroDivisionError('planted')\n"
    "    return real(state, signal)\n"
    "session.step = fall\n"
)
COMMAND = "import agentrail.cli.doctor_command as doctor\ndef fall(): raise ZeroDivisionError('planted')\ndoctor.look_at_installation = fall\n"
RUN = ("run", "hello", "--model", "demo:fast", "--tools", "none")
LOOK = ("run", "What is here?", "--model", "demo:fast")  # a sandbox is opened by the first tool


async def run_planted(bug: str, *arguments: str) -> Ran:
    program = (
        f"import sys\n{bug}"
        f"from agentrail.cli.command_tree import run_command_line\nsys.exit(run_command_line({list(arguments)!r}))\n"
    )
    return await run_forked(PROGRAM, program)


@pytest.mark.experience("X-006")
@pytest.mark.parametrize(
    ("bug", "arguments", "code"),
    [(PROVIDER, RUN, 1), (STEP, RUN, 2), (SANDBOX, LOOK, 0), (COMMAND, ("doctor",), 1)],
    ids=["a provider", "step", "a sandbox", "the command itself"],
)
async def test_a_crash_is_a_line_and_with_debug_its_traceback(bug, arguments, code):
    """On stderr, and once; without `--debug` the line says that there is one."""
    short = await run_planted(bug, *arguments)
    assert short.code == code
    assert "Traceback" not in short.out + short.err
    (line,) = [line for line in short.err.splitlines() if "(--debug shows the traceback)" in line]
    assert f"{PLANTED} (" in line
    assert " in fall)" in line
    whole = await run_planted(bug, *arguments, "--debug")
    assert whole.code == code
    assert whole.err.count("Traceback (most recent call last)") == 1
    assert re.search(r'File "<string>", line \d+, in fall', whole.err)
    assert "(--debug shows the traceback)" not in whole.err
    assert "Traceback" not in whole.out


def test_warnings_are_lines_in_both_ways(capsys):
    """They have no traceback; what is told of each start of a task is no concern of the user's."""
    for debug in (False, True):
        send_logs_to_stderr(debug=debug)
        Logger("agentrail.some").warning("it may break")
        Logger("agentrail.some").debug("it goes on")
        captured = capsys.readouterr()
        assert captured.out == ""
        assert re.fullmatch(r"\S+ \S+ \[warning *\] it may break\s*\n", captured.err)


def test_what_the_command_line_says_wrong_is_no_crash_and_an_error_of_ours_that_nothing_caught_is(
    monkeypatch, capfd
):
    """Wrong usage has sentences of its own; an error of any class should have been said in one by its command."""
    assert run_command_line(["run", "--modle", "x"]) == 2
    assert "bug" not in capfd.readouterr().err

    def fall(*_args, **_options):
        raise OptionError(["x is 1"])

    monkeypatch.setattr("agentrail.cli.command_tree._import_and_run", fall)
    assert run_command_line(["run", "serve"]) == run_command_line(["doctor"]) == 1
    assert "agentrail has a bug, please report it: OptionError: x is 1" in capfd.readouterr().err
