"""The collector: set where a program asks, and nowhere else."""

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrail.gc_settings import THRESHOLDS, many_sessions, no_looks, short_looks
from tests.forked import environment, in_a_process

ROOT = Path(__file__).parents[1]

# In an interpreter of its own: the test runner's collector is not as Python makes it.
RUN_SESSIONS = """
import gc, importlib, json, pkgutil
seen = []

def look():
    seen.append((gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)))

look()
import trio
import agentrail
for module in pkgutil.walk_packages(agentrail.__path__, prefix="agentrail."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
look()
from agentrail.testing.models import ScriptedModel, calls, says

@agentrail.tool
def add(a: int, b: int) -> int:
    "Add two integers."
    look()
    return a + b

async def main():
    async with agentrail.open_supervisor(environ={}) as supervisor:
        for _ in range(3):
            model = ScriptedModel([calls(("add", '{"a": 2, "b": 3}')), says("5")])
            session = await supervisor.start_session(model=model, tools=[add])
            look()
            assert await session.ask("add") == "5"
            look()
        await session.abort()
    look()

trio.run(main)
look()
print(json.dumps(seen))
"""

# Looks at the collector where the command has started, and does not go on.
RUN_THE_COMMAND = """
import gc, sys
import trio

def look(main, *arguments):
    print(main.__name__, gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 10_000)

trio.run = look
from agentrail.cli import main
main()
"""


@contextmanager
def a_collector(thresholds: tuple[int, int, int] = (700, 10, 10)) -> Iterator[None]:
    """A collector that is set so, in a process in which nothing is frozen, whatever the test does to it; as it was afterwards."""
    was, was_enabled = gc.get_threshold(), gc.isenabled()
    assert gc.get_freeze_count() < 1_000  # Python 3.12.1 has frozen some when it starts
    gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*was)
        (gc.enable if was_enabled else gc.disable)()


@pytest.mark.check  # imports every module in a process of its own
def test_a_program_that_did_not_ask_keeps_its_collector():
    """Importing every module and running sessions leaves thresholds, frozen objects and callbacks as they were, all the while."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_SESSIONS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen) > 10
    assert [state for state in seen if state != seen[0]] == []


# The same for a chat, which imports what holds the conversation when there is a prompt already.
RUN_THE_CHAT = """
import gc
import agentrail.cli.chat_session
from agentrail.cli.exit_codes import Exit

async def look(*_):
    print("hold", gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 10_000)
    return Exit.DONE, None

agentrail.cli.chat_session.hold = look
from agentrail.cli import main
main()
"""


@pytest.mark.parametrize(
    ("program", "arguments", "main"),
    [
        (RUN_THE_COMMAND, ("run", "hello"), "serve_run"),
        pytest.param(RUN_THE_CHAT, ("chat",), "hold", marks=pytest.mark.check),
    ],
    ids=["run", "chat"],
)
def test_the_commands_ask(program, arguments, main):
    """`agentrail run` and `agentrail chat` have the thresholds, and all that was imported is frozen, before anything is asked of a model."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout == f"{main} True (10000, 100, 50) True\n", done.stderr


@in_a_process
def test_many_sessions_raises_the_thresholds_and_freezes_what_is_there():
    """What is set is what the page says, and the result names both states. Python 3.12.1 starts with 375 frozen objects: they are thawed."""
    with a_collector():
        change = many_sessions()
        assert gc.get_threshold() == THRESHOLDS == (10_000, 100, 50)
        assert gc.get_freeze_count() > 1_000
        assert change.before.thresholds == (700, 10, 10)
        assert change.before.frozen < 1_000
        assert change.after.thresholds == THRESHOLDS
        assert change.after.frozen > 1_000
    with a_collector():
        count = gc.get_freeze_count
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gc, "get_freeze_count", lambda: count() + 375)
            change = many_sessions(collect=False)
            assert count() > 1_000
            change.undo()
            assert count() == 0


@in_a_process
def test_garbage_is_freed_before_the_rest_is_frozen():
    """A cycle that is garbage already is not kept for ever; with `collect=False` it is, until `undo`."""

    class Node:
        itself: "Node"

    def make_garbage() -> None:
        node = Node()
        node.itself = node

    def left() -> int:
        gc.collect()  # does not look at what is frozen
        return sum(1 for found in gc.get_objects() if type(found) is Node)

    for collect, freed_by_the_call in ((True, True), (False, False)):
        with a_collector():
            gc.disable()
            make_garbage()
            change = many_sessions(collect=collect)
            change.undo()
            found = sum(1 for found in gc.get_objects() if type(found) is Node)
            assert (found == 0) is freed_by_the_call
            assert left() == 0


@in_a_process
def test_undo_sets_the_collector_as_it_was():
    """Thresholds and frozen objects are those of before; a second `undo` changes nothing, and leaving a block is one, by an exception too."""
    with a_collector((900, 11, 12)):
        change = many_sessions(collect=False)
        change.undo()
        assert gc.get_threshold() == (900, 11, 12)
        assert gc.get_freeze_count() == 0
        later = many_sessions(collect=False)
        change.undo()
        assert gc.get_threshold() == later.after.thresholds == THRESHOLDS
        assert gc.get_freeze_count() > 0

    def fail_in_the_block() -> None:
        with many_sessions(collect=False) as change:
            assert gc.get_threshold() == change.after.thresholds == THRESHOLDS
            raise ValueError

    with a_collector():
        with pytest.raises(ValueError, match=r"^$"):
            fail_in_the_block()
        assert gc.get_threshold() == (700, 10, 10)
        assert gc.get_freeze_count() == 0


@in_a_process
def test_a_second_call_changes_nothing_and_undoes_nothing():
    """What was asked for twice is there once, and the call that changed it undoes it."""
    with a_collector():
        first = many_sessions(collect=False)
        kept = [[] for _ in range(1_000)]
        frozen = gc.get_freeze_count()
        second = many_sessions(collect=False)
        assert 0 < gc.get_freeze_count() <= frozen  # less, where something of it was freed
        assert second.before.thresholds == second.after.thresholds
        second.undo()
        assert gc.get_threshold() == THRESHOLDS
        assert 0 < gc.get_freeze_count() <= frozen
        first.undo()
        assert gc.get_threshold() == (700, 10, 10)
        assert len(kept) == 1_000


@in_a_process
def test_what_the_program_has_chosen_stays():
    """Thresholds only rise, and a collector that is off stays off; `undo` takes back our thresholds, not those of somebody who came later."""
    for was, becomes in (
        ((100_000, 5, 5), (100_000, 100, 50)),
        ((700, 200, 1_000), (10_000, 200, 1_000)),
        ((60_000, 100, 50), (60_000, 100, 50)),
        ((0, 10, 10), (0, 10, 10)),
    ):
        with a_collector(was):
            many_sessions(collect=False)
            assert gc.get_threshold() == becomes, was

    with a_collector():
        gc.disable()
        with many_sessions(collect=False):
            assert not gc.isenabled()
        assert not gc.isenabled()

    with a_collector():
        gc.freeze()
        change = many_sessions(collect=False)
        gc.set_threshold(1, 2, 3)
        change.undo()
        assert gc.get_threshold() == (1, 2, 3)
        assert gc.get_freeze_count() > 0


def leave(block):
    with block:
        raise KeyboardInterrupt


def test_looks_are_short_or_none_for_a_block():
    """However it is left. A collector that is off stays off."""
    found, is_enabled = gc.get_threshold(), gc.isenabled()
    try:
        for before, meanwhile in ((700, 5_000), (50_000, 5_000), (0, 0)):
            gc.set_threshold(before, 10, 10)
            with short_looks():
                assert gc.get_threshold() == (meanwhile, 10, 10)
            with pytest.raises(KeyboardInterrupt):
                leave(short_looks())
            assert gc.get_threshold() == (before, 10, 10)
        for is_on in (True, False):
            (gc.enable if is_on else gc.disable)()
            with no_looks():
                assert not gc.isenabled()
            with pytest.raises(KeyboardInterrupt):
                leave(no_looks())
            assert gc.isenabled() is is_on
    finally:
        gc.set_threshold(*found)
        (gc.enable if is_enabled else gc.disable)()


_TELLS_AT_ITS_END = """
import atexit, gc, os

def tell():
    with open(os.environ["TOLD_IN"], "a") as file:
        print(gc.get_threshold(), gc.get_freeze_count() > 10_000, file=file)

atexit.register(tell)
"""


@pytest.mark.check  # five processes
def test_short_processes_of_ours_scan_little_and_not_at_their_ends(tmp_path):
    """A third of the time of short lives went to scans: of what their processes imported, and of all that at their ends."""
    work, code = tmp_path / "work", tmp_path / "code"
    work.mkdir()
    code.mkdir()
    (code / "sitecustomize.py").write_text(_TELLS_AT_ITS_END)
    variables = {"PYTHONPATH": f"{code}:{ROOT}", "TOLD_IN": str(tmp_path / "told"), "HOME": str(tmp_path)}
    line = ["simulate", "--seeds", "0-1", "--jobs", "2", "--world", "single", "--hours", "0.001"]
    command = [sys.executable, "-P", "-m", "agentrail", *line]
    ran = subprocess.run(command, env=environment(**variables), cwd=work, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    told = (tmp_path / "told").read_text().splitlines()
    # The command, and two that compare seed 0. A process of lives may be killed before it ends, when all lives are told.
    assert told.count(f"{THRESHOLDS} True") == 3
    assert {*told} <= {f"{THRESHOLDS} True", f"{THRESHOLDS} False"}
