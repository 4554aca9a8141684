"""The fixtures that agentrail brings along: they work in a project of somebody else, and cost nothing where nobody asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PLUGIN = "agentrail.testing.pytest_plugin"

TESTS = """
import pytest
import trio
from agentrail import plugins as p
from agentrail.testing.models import says

async def test_all_three(supervisor, scripted, clock):
    session = await supervisor.start_session(model=scripted(says("hel", "lo", pause_seconds=40)))
    assert await session.ask("Hi") == "hello"
    assert trio.current_time() > 100

async def test_left_over(supervisor, scripted):
    scripted(says("never said"))

class Counting(p.Plugin):
    asked = 0

    def init(self) -> None:
        pass

    @p.on(p.BeforePrompt)
    def judge(self, event, state, ctx):
        self.asked += 1
        return p.Abort("enough", state) if self.asked == 2 else p.Continue(state)

async def counts(supervisor, scripted):
    session = await supervisor.start_session(model=scripted(says("well")), plugins=[Counting()])
    await session.ask("Hi")

async def test_counting_is_told(supervisor, scripted):
    await counts(supervisor, scripted)

@pytest.mark.unfolded("it counts")
async def test_counting_is_meant(supervisor, scripted):
    await counts(supervisor, scripted)
"""


def run(*arguments, cwd):
    """Run Python in a folder of somebody else."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.check  # pytest in a process of its own
def test_the_fixtures_work(tmp_path):
    """A session in no time, on virtual time; and who writes more of a script than is asked for hears of it."""
    (tmp_path / "test_agent.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    options = (
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "-q",
    )  # the plugin itself comes by its entry point
    ended = run("-m", "pytest", *options, cwd=tmp_path)
    assert "1 of 1 turns of the script were never asked for" in ended.stdout, ended.stdout + ended.stderr
    assert "test_all_three" not in ended.stdout
    assert "FoldDiffers: 1 of 1 sessions" in ended.stdout
    assert "test_counting_is_told" in ended.stdout
    assert "test_counting_is_meant" not in ended.stdout


def test_loading_it_imports_neither_trio_nor_a_session(tmp_path):
    """Pytest loads it at every start, in every project."""
    check = (
        f"import sys, {PLUGIN}; print([name for name in ('trio', 'agentrail.core') if name in sys.modules])"
    )
    ended = run("-c", check, cwd=tmp_path)
    assert (ended.stdout, ended.stderr) == ("[]\n", "")
