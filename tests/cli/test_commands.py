"""The tree of commands."""

import signal
import subprocess
import sys

import pytest

import agentrail.cli
from tests.cli.rig import run_agentrail
from tests.forked import ROOT, environment


async def test_help_names_every_command_and_is_quick_to_import():
    """It says what there is without importing what only a run needs; nor does the first prompt of a chat. That of `run` says what shell may do when nothing confines it."""
    ran = await run_agentrail("--help")
    assert ran.code == 0
    for name in ("run", "chat", "doctor"):
        assert name in ran.out
    heavy = "{'httpx', 'jsonschema', 'apsw', 'trio_websocket', 'agentrail.app', 'agentrail.abc', 'agentrail.core.protocol'}"
    program = (
        "import sys; from agentrail.cli.command_tree import run_command_line; run_command_line(['--help']);"
        "print({'trio', 'httpx', 'prompt_toolkit', 'jsonschema'} & set(sys.modules));"
        "import agentrail.cli.chat_command, agentrail.cli.terminal.editor;"
        f"print({heavy} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: ASYNC221 - half a second, with nothing else to do
        [sys.executable, "-c", program],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["set()", "set()"]

    ran = await run_agentrail("run", "--help")
    assert ran.code == 0
    words = " ".join(ran.out.replace("│", " ").split())
    assert "unconfined, with all your rights" in words
    assert "0 done, 1 the cycle failed, 2 wrong usage, 130 interrupted" in words


def test_the_room_has_nothing_but_its_two_names():
    """`agentrail.cli` gives `main` and `app`, and says so about anything else."""
    assert {"run", "chat", "doctor"} <= set(agentrail.cli.app)
    with pytest.raises(AttributeError, match="has no attribute 'programs'"):
        agentrail.cli.programs  # noqa: B018 - reading it is the test


def test_control_c_while_the_command_is_imported_prints_nothing():
    """An interrupt before there is anything to stop ends the process with 130 and without a traceback."""
    program = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'cyclopts':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from agentrail.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert signal.SIGINT == 2


def test_control_c_while_the_path_of_imports_is_cleaned_prints_nothing():
    """It is the first step of a command, and takes longer where directories are on a network."""
    program = (
        "import os, signal\n"
        "from agentrail.cli import main\n"
        "os.getcwd = lambda: signal.raise_signal(signal.SIGINT)\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
