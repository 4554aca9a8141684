"""`agentrail demo`: wrong input, every scene and its proof, a narrow or plain terminal, and Ctrl-C wherever it comes."""

import re
import signal
import sys
from pathlib import Path

import pytest
import trio
from attrs import define, field

import agentrail
from agentrail.cli.demo_command import TOUR, TourStage, decide_demo_look, give_tour
from agentrail.testing.orphans import no_orphans
from tests.cli.rig import open_process, run_agentrail
from tests.cli.terminal.screens import open_screen
from tests.runtime.rig import on_virtual_time

ROOT = Path(__file__).parents[2]
SHOWN = {
    "A tool": "✓ The next train to Porto leaves at 9:12.",
    "A steer": "You steered: Platform 2 is enough",
    "An abort, and its receipt": "The receipt: 1 task was stopped in 0 ms; 1 call may have taken effect.",
    "An approval": "✓ A seat to Porto is booked.",
    "A crash, and the recovery": "The handle is the same; restarts: 1, messages: 23.",
    "A property test": "no_call_gets_past_a_guard",
}
"""What each scene must have shown, or it has shown nothing."""


@define
class Paper:
    """A screen that keeps what is written, in one text."""

    text: str = ""
    streams: set[str] = field(factory=set)

    async def write(self, pieces):
        """Take pieces, as a terminal does: at a checkpoint."""
        await trio.lowlevel.checkpoint()
        for piece in pieces:
            self.text += piece.text
            self.streams.add(piece.stream)


def stage_of(variables=None, *, is_terminal=False, columns=80, encoding="utf-8", is_fast=False):
    look = decide_demo_look(variables or {}, is_terminal=is_terminal, columns=columns, encoding=encoding)
    return TourStage(screen=Paper(), look=look, is_fast=is_fast)


async def test_what_it_does_not_take_is_wrong_usage():
    """Nothing is shown, and it is said what was wrong."""
    for argument in ("--slow", "A tool", "--fast=perhaps"):
        ran = await run_agentrail("demo", argument)
        assert (ran.code, ran.out, "See agentrail" in ran.err) == (2, "", True)


@on_virtual_time
async def test_every_scene_says_what_it_shows_shows_it_and_names_its_page():
    """In order, on one session, with all its pauses about two minutes; nothing is left behind, and all of it is on stdout."""
    stage, began_at = stage_of(), trio.current_time()
    async with no_orphans():
        await give_tour(stage)
    assert 60 < trio.current_time() - began_at < 180
    assert stage.screen.streams == {"out"}
    parts = re.split(r"^\d of \d: (.*)$", stage.screen.text, flags=re.MULTILINE)[1:]
    shown = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(shown) == list(SHOWN) == [scene.title for scene in TOUR]
    for scene in TOUR:
        text = shown[scene.title]
        assert " ".join(text.split()).startswith(scene.about)
        assert SHOWN[scene.title] in text
        assert f"read on: {scene.page}" in text
        assert (ROOT / scene.page).is_file()
    assert "[Outcome unknown: the session crashed while this ran]" in shown["A crash, and the recovery"]
    assert "next train to Lisbon leaves" in shown["A crash, and the recovery"]


@on_virtual_time
async def test_every_scene_runs_on_the_base_install(monkeypatch):
    """Without hypothesis, which comes with no install that is not for tests: the last one finds the bug all the same, with a scenario."""
    # The import puts its second copy there, and later tests would meet it.
    monkeypatch.setattr(agentrail, "testing", agentrail.testing)
    for name in [name for name in sys.modules if name.startswith(("hypothesis", "agentrail.testing"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    stage = stage_of(is_fast=True)
    await give_tour(stage)
    for shown in SHOWN.values():
        assert shown in stage.screen.text
    assert "Broken in session 2: no_call_gets_past_a_guard" in stage.screen.text
    assert "Prompt s1" in stage.screen.text.rpartition("The shortest way there")[2]
    assert "pip install" not in stage.screen.text


@pytest.mark.check
async def test_at_a_terminal_of_forty_columns_without_colours():
    """The command itself, with its exit code; the log's line of the crash is there too."""
    async with open_screen("demo", "--fast", columns=40, NO_COLOR="1") as watched:
        assert await watched.wait_end() == 0
    assert b"\x1b" not in watched.raw
    told = "".join(watched.text.split())
    assert all("".join(shown.split("in 0 ms")[0].split()) in told for shown in SHOWN.values())
    assert "crashed:RuntimeError:acosmicray" in told


@pytest.mark.check
@pytest.mark.parametrize("awaited", ["1 of 6", "platform 1"])
async def test_control_c_ends_it_without_a_word(awaited):
    """Between two scenes and inside of one; that is no failure."""
    async with open_process("demo", *(["--fast"] if awaited.startswith("p") else [])) as process:
        shown = ""
        with trio.fail_after(60):
            while awaited not in shown:
                shown += (await process.stdout.receive_some()).decode()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
            assert (await process.stderr.receive_some()).decode() == ""
