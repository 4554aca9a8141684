"""`agentrail check-plugins`: exit codes, what is printed, and what bad input hears."""

import signal
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.cli.check_plugins import NotThere, describe_tally, load_machine
from agentrail.testing import stacks
from tests.cli.rig import PATIENCE_SECONDS, command, environment, run_agentrail

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
    (tmp_path / "mine.py").write_text(STACK, encoding="utf-8")
    return tmp_path


async def test_a_stack_in_which_nothing_breaks_exits_with_zero(folder):
    """The stack may stand in the current directory; what was tried is said."""
    ran = await run_agentrail("check-plugins", "mine:GOOD", "--examples", "3", "--seed", "1", cwd=folder)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Nothing broke: ")


async def test_a_side_effect_is_reported_with_its_line(folder):
    """A plugin that looks at a clock fails the check, and the line is named."""
    ran = await run_agentrail("check-plugins", "mine:IMPURE", "--examples", "20", cwd=folder)
    assert ran.code == 1
    assert "plugins_are_pure: clock, on BeforePrompt" in ran.out
    assert "time.time at mine.py:11" in ran.out
    assert "plugin mine:IMPURE[1]" in ran.out


async def test_combinations_find_what_two_of_a_pool_do():
    """With --combinations parts of the stack are tried, in any order."""
    ran = await run_agentrail(
        *(
            "check-plugins",
            f"{PLANTED}:APPROVAL_SKIPPED",
            "--combinations",
            "--examples",
            "400",
            "--seed",
            "1",
        )
    )
    assert ran.code == 1
    assert "no_call_gets_past_a_judge" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mine:GOOD", "--examples", "0"), "--examples is 0: expected 1 or more"),
        (("mine",), "expected package.module:NAME"),
        (("mine:NOBODY",), "'mine' has no 'NOBODY'"),
        (("nowhere:STACK",), "'nowhere' cannot be imported: ModuleNotFoundError"),
        (("mine:NUMBER",), "is a int, expected a list of plugins"),
        (("mine:BROKEN",), "two plugins are named 'quiet'"),
    ],
)
async def test_bad_input_is_told_before_anything_is_tried(folder, arguments, words):
    """Each exits with 2, and a sentence says what was expected."""
    ran = await run_agentrail("check-plugins", *arguments, cwd=folder)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


async def test_control_c_prints_what_was_found_so_far(folder):
    """An interrupted check says how far it came, and exits with 130."""
    # The module itself tells that the check has begun: when its first plugin is asked.
    begun = folder / "begun"
    module = folder / "mine.py"
    touch = f"    open({str(begun)!r}, 'a').close()\n"
    waiting = STACK.replace("    return p.Continue(state)\n", touch + "    return p.Continue(state)\n")
    module.write_text(
        waiting + "\nfrom agentrail.testing import stacks\n"
        "LOOSE = stacks.stack_machine(GOOD, without=['plugins_are_pure'])\n",
        encoding="utf-8",
    )
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    command("check-plugins", "mine:LOOSE", "--examples", "100000"),
                    capture_stdout=True,
                    check=False,
                    cwd=folder,
                    env=environment(),
                )
            )
            while not begun.exists():  # noqa: ASYNC110 - a file tells nobody when it is made
                await trio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            code = await process.wait()
    assert code == 130


def test_what_was_found_before_an_interrupt_is_printed():
    """The counter-example that was there already is told, with the remark that it may be long."""
    tally = stacks.Tally(lives=3, signals=20)
    assert (
        describe_tally(tally, is_whole=False)
        == "Interrupted; nothing broke so far: 3 sessions, 20 signals.\n"
    )
    machine = load_machine(f"{PLANTED}:APPROVAL_SKIPPED", combinations=False)
    found = stacks.check_stack(machine, examples=1, seed=1)
    told = describe_tally(found, is_whole=False)
    assert told.startswith("Interrupted, before this could be made shorter; broken after")
    assert f"plugin {PLANTED}:APPROVAL_SKIPPED[0]" in told


def test_a_class_of_ones_own_is_checked_with_its_invariants():
    """What `stack_machine` made can be named instead of a list."""
    assert load_machine(f"{PLANTED}:Spending", combinations=False).__name__ == "Spending"
    with pytest.raises(NotThere, match="names no stack"):
        load_machine("planted", combinations=False)
