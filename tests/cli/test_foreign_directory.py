"""A directory of somebody else runs no code because a command is called in it: each module name that is imported is a trap there."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest

import agentrail
from tests.forked import environment
from tests.thinned import sample

TRAP = "import os\nos.write(os.open({marker!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), (__name__ + ' ').encode())\n"
PACKAGE = Path(agentrail.__file__).parent
CODE = "import agentrail\n\n@agentrail.tool\nasync def lookup(word: str) -> str:\n    '''Look a word up.'''\n    return word\n"

COMMANDS = """\
--version
--help
doctor
run hi --model demo:fast --keep
sessions list
sessions show LAST
sessions export LAST
replay LAST.jsonl
cost
cost --by model
store stats
config check
trust
run hi --model demo:fast
prompt show
plugins
plugins explain CostGuard event.json
check-plugins own_stack:STACK --examples 1
permissions explain shell --args '{"command": "ls"}'
skills list
kb list
memory list
sandbox list
token list
serve no_such_module:app
demo --list
chat
init
"""
OPTIONAL = "colorama brotli brotlicffi zstandard socksio uvloop simplejson tomli exceptiongroup"


def _imported_names() -> Iterator[str]:
    """List the first word of each module that we import anywhere, and of each optional one that others look for."""
    for path in PACKAGE.rglob("*.py"):
        yield from re.findall(r"^ *(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    yield from sys.stdlib_module_names
    yield from (
        path.name.removesuffix(".py")
        for path in Path(attrs.__file__).parents[1].iterdir()
        if path.name.isidentifier() or path.suffix == ".py"
    )
    yield from OPTIONAL.split()


@pytest.fixture
def trapped(tmp_path):
    """A directory full of traps, and how to call a command in it; a directory of the user beside it."""
    home, project, marker = tmp_path / "home", tmp_path / "project", tmp_path / "marker"
    home.mkdir()
    project.mkdir()
    for name in {*_imported_names()} - {"agentrail"}:
        (project / f"{name}.py").write_text(TRAP.format(marker=str(marker)))
    (project / "own_stack.py").write_text("from agentrail.plugins import CostGuard\nSTACK = [CostGuard]\n")
    (project / "own_tools.py").write_text(CODE)
    (project / "agentrail.toml").write_text('version = 1\n[defaults]\ntools = ["own_tools:lookup"]\n')
    (project / "event.json").write_text("{}")

    def call(*arguments: str, start: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        variables = environment(HOME=str(home), OPENAI_API_KEY="sk-the-key-12345678")
        given = {"cwd": project, "env": variables, "text": True, "timeout": 120, "stdin": subprocess.DEVNULL}
        return subprocess.run([*start, *arguments], check=False, capture_output=True, **given)

    def ran() -> str:
        return marker.read_text() if marker.exists() else ""

    def without_those_before_us() -> None:
        said = subprocess.run(
            [sys.executable, "-I", "-c", _BEFORE_US], check=True, capture_output=True, text=True
        )
        for name in said.stdout.split():
            (project / f"{name}.py").unlink(missing_ok=True)

    return SimpleNamespace(
        call=call, ran=ran, project=project, without_those_before_us=without_those_before_us
    )


# What Python itself imports before it looks for the module: only `python -P -m agentrail` keeps those of the directory away.
_BEFORE_US = "import runpy, sys; print(*{one.partition('.')[0] for one in sys.modules})"
BY_MODULE = (sys.executable, "-m", "agentrail")
BY_SCRIPT = (str(Path(sys.executable).with_name("agentrail")),)


@pytest.mark.parametrize("start", [BY_MODULE, BY_SCRIPT], ids=["python -m", "script"])
def test_a_run_in_a_directory_of_traps_runs_none(trapped, start):
    """From the first import of the interpreter's own to the last optional package."""
    if start is BY_MODULE:
        trapped.without_those_before_us()
    done = trapped.call("run", "hi", "--model", "demo:fast", start=start)
    assert (done.returncode, trapped.ran()) == (0, ""), done.stderr


@pytest.mark.check
def test_no_command_runs_what_lies_in_the_directory(trapped):
    """Each command, also after the directory was trusted, which is for the modules that its file names and for no others."""
    last, lines = "", COMMANDS.splitlines()
    for command in [*lines[:8], *sample(lines[8:], 6)]:  # the first eight make a session, and use it
        words = shlex.split(command.replace("LAST", last))
        done = trapped.call(*words, start=BY_SCRIPT)
        assert trapped.ran() == "", command
        assert "Traceback" not in done.stderr, (command, done.stderr)
        if command == "sessions list":
            last = next(word for word in done.stdout.split() if word.startswith("s-"))
        if command.startswith("sessions export"):
            (trapped.project / f"{last}.jsonl").write_text(done.stdout)
