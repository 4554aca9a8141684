"""`agentrail check-plugins`: exit codes, what is printed, and what bad input hears."""

import re
import signal
from pathlib import Path

import pytest

from agentrail.cli import check_plugins_command
from agentrail.cli.check_plugins_command import describe_progress, describe_tally, load_machine
from agentrail.cli.exit_codes import Exit
from agentrail.errors import OptionError
from agentrail.testing import stacks
from tests.cli.rig import open_process, read_all, run_line, wait_until

PLANTED = "tests.testing.planted"

STACK = """
import time
from agentrail import plugins as p

@p.plugin(init=int, hooks=(p.BeforePrompt,))
def quiet(event, state, ctx):
    return p.Continue(state)

@p.plugin(init=int, hooks=(p.BeforePrompt,))
def clock(event, state, ctx):
    return p.Continue(int(time.time()))

GOOD = [quiet]
IMPURE = [quiet, clock]
BROKEN = [quiet, quiet]
NUMBER = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a module of stacks that is installed nowhere."""
    modules = {
        "mine": STACK,
        "raises": "1 / 0",
        "no_python": "STACK = [",
        "leaves": "raise SystemExit(0)",
        "misspelt": "import math\nSTACK = [math.pie]",
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


async def test_what_a_check_finds_decides_its_exit_code(folder):
    """Nothing breaks: 0, and what was tried is said. A plugin that looks at a clock, an invariant that raises: 1, with the line, or with what it raised and no word against the stack."""
    ran = await run_line("check-plugins mine:GOOD --examples 3 --seed 1", cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Nothing broke: ")

    ran = await run_line("check-plugins mine:IMPURE --examples 20", cwd=folder)
    assert (ran.code, "plugins_are_pure: clock, on BeforePrompt" in ran.out) == (1, True)
    assert "time.time at mine.py:11" in ran.out
    assert "plugin mine:IMPURE[1]" in ran.out

    (folder / "mine.py").write_text(f"{STACK}{INVARIANT}", encoding="utf-8")
    ran = await run_line("check-plugins mine:Wrong --examples 5 --seed 1", cwd=folder)
    assert (ran.code, ran.err) == (1, "")
    assert "spent_nothing: raised AttributeError: 'SessionView' object has no attribute 'cost'" in ran.out
    assert "an invariant asserts, and raises nothing else" in ran.out


async def test_a_plugin_that_exits_is_no_success(folder):
    """On a hook there is a counter-example. Without a session, as on `init`, the line is named. Both with code 1."""
    head = "import sys\nfrom agentrail import plugins as p\n\n@p.plugin(hooks=(p.BeforePrompt,), init="
    body = ")\ndef leaving(event, state, ctx):\n    sys.exit(0)\n\nSTACK = [leaving]\n"
    (folder / "leaving.py").write_text(f"{head}int{body}")
    ran = await run_line("check-plugins leaving:STACK --examples 5 --seed 1", cwd=folder)
    assert (ran.code, ran.err) == (1, "")
    assert "plugins_do_not_fail: plugin 'leaving' failed on BeforePrompt" in ran.out
    assert "this one raised SystemExit: 0 (" in ran.out
    assert "plugin leaving:STACK[0]" in ran.out
    (folder / "leaving.py").write_text(f"{head}sys.exit{body}")
    ran = await run_line("check-plugins leaving:STACK --examples 5", cwd=folder)
    assert (ran.code, ran.out) == (1, "")
    assert "the code of leaving:STACK ends the process: SystemExit" in ran.err


@pytest.mark.check
async def test_without_a_number_it_looks_for_as_long_as_was_said(folder, monkeypatch, capfd):
    """The default is a time; portion after portion is run until it is over, each with a seed of its own."""
    monkeypatch.setattr(check_plugins_command, "DEFAULT_SECONDS", 0.0)
    monkeypatch.setattr(check_plugins_command, "PORTION", 10)
    monkeypatch.chdir(folder)
    assert check_plugins_command.check_plugins("mine:GOOD", seed=1) is Exit.DONE
    runs = int(capfd.readouterr().out.split()[2])
    assert runs >= 10
    assert check_plugins_command.check_plugins("mine:GOOD") is Exit.DONE
    assert check_plugins_command.check_plugins("mine:IMPURE", seed=1) is Exit.FAILED


def test_the_bar_says_how_much_time_is_left():
    """Of the time that was said; or of what the sessions that were asked for will take at this pace."""
    tally = stacks.Tally(runs=100, signals=700)
    told = describe_progress(tally, None, 10.0)
    assert told == "█" * 10 + "·" * 20 + " 100 sessions, 700 signals, 20 s left"
    told = describe_progress(tally, 400, 10.0)
    assert told == "█" * 8 + "·" * 22 + " 100/400 sessions, 700 signals, 30 s left"
    assert describe_progress(stacks.Tally(), None, 31.0).endswith(" 0 s left")
    assert describe_progress(stacks.Tally(), 5, 0.0).endswith("0/5 sessions, 0 signals, 0 s left")


async def test_combinations_find_what_two_of_a_pool_do():
    """With --combinations parts of the stack are tried, in any order."""
    ran = await run_line(f"check-plugins {PLANTED}:APPROVAL_SKIPPED --combinations --examples 400 --seed 1")
    assert (ran.code, "no_call_gets_past_a_guard" in ran.out) == (1, True)


async def test_bad_input_is_told_before_anything_is_tried(folder):
    """Each exits with 2, and a sentence says what was expected."""
    for line, words in (
        ("mine:GOOD --examples 0", "--examples is 0: expected 1 or more"),
        ("mine", "'mine' is not package.module:NAME"),
        ("mine:NOBODY", "'mine' has no 'NOBODY'"),
        ("nowhere:STACK", " and among installed packages: No module named 'nowhere'.\n"),
        ("raises:STACK", "module 'raises' cannot be imported: ZeroDivisionError: division by zero"),
        (
            "misspelt:STACK",
            "module 'misspelt' cannot be imported: AttributeError: module 'math' has no attribute 'pie'",
        ),
        ("no_python:STACK", "module 'no_python' cannot be imported: SyntaxError: "),
        (
            "leaves:STACK",
            "module 'leaves' cannot be imported: ImportError: it exits the interpreter on import (SystemExit: 0)",
        ),
        ("mine:NUMBER", "is a int, expected a list of plugins"),
        ("agentrail.plugins:Planning", "is the class Planning, expected a list of plugins"),
        ("mine:BROKEN", "two plugins are named 'quiet'"),
    ):
        ran = await run_line(f"check-plugins {line}", cwd=folder)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err


INVARIANT = """
from agentrail.testing import stacks

class Wrong(stacks.stack_machine(GOOD)):
    @stacks.invariant
    def spent_nothing(self, session):
        assert session.cost == 0
"""

# The module itself tells that the check is in the middle of a session: when its plugin is asked.
TOLD = """
from agentrail.testing import stacks

@p.plugin(init=int, hooks=(p.BeforePrompt,))
def telling(event, state, ctx):
    open("begun", "a").close()
    return p.Continue(state)

SOUND = stacks.stack_machine([telling], without=["plugins_are_pure"])

class Slow(stacks.stack_machine(GOOD)):
    @stacks.invariant
    def never_answers(self, session):
        if len(session.messages) < 2:
            return
        # The first time is the counter-example; when it is made shorter, Ctrl-C comes.
        asked = globals().setdefault("ASKED", [])
        asked.append(1)
        if len(asked) > 1:
            open("begun", "a").close()
            time.sleep(60)
        assert False, "it answered"
"""


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("SOUND", r"(?s)Interrupted; nothing broke so far: \d+ sessions, \d+ signals\.\nTools ran in .*"),
        (
            "Slow",
            r"(?s)Interrupted, before this could be made shorter; broken after .*never_answers: it answered.*",
        ),
    ],
)
async def test_control_c_prints_what_was_found_so_far(folder, stack, words):
    """An interrupted check says how far it came, with the counter-example if there is one, and exits with 130."""
    (folder / "mine.py").write_text(f"{STACK}{TOLD}", encoding="utf-8")
    async with open_process("check-plugins", f"mine:{stack}", "--examples", "100000", cwd=folder) as process:
        await wait_until((folder / "begun").exists)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert await read_all(process.stderr) == ""
        assert re.fullmatch(words, await read_all(process.stdout))


def test_what_was_found_before_an_interrupt_is_printed():
    """The counter-example that was there already is told, with the remark that it may be long; a class that `stack_machine` made can be named instead of a list."""
    tally = stacks.Tally(runs=3, signals=20)
    assert (
        describe_tally(tally, is_whole=False)
        == "Interrupted; nothing broke so far: 3 sessions, 20 signals.\n"
    )
    machine = load_machine(f"{PLANTED}:APPROVAL_SKIPPED", combinations=False)
    found = stacks.check_stack(machine, examples=1, seed=1)
    told = describe_tally(found, is_whole=False)
    assert told.startswith("Interrupted, before this could be made shorter; broken after")
    assert f"plugin {PLANTED}:APPROVAL_SKIPPED[0]" in told

    assert load_machine(f"{PLANTED}:Spending", combinations=False).__name__ == "Spending"
    with pytest.raises(OptionError, match="'planted' is not package"):
        load_machine("planted", combinations=False)
