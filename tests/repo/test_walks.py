"""The walks in docs/explanation/architecture.md, held to what the code really does."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
import trio
import trio.testing

import agentrail
from agentrail.testing.models import ScriptedModel, calls, says
from benchmarks.bars import build_in_use

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agentrail"
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()


def walk(title: str) -> list[str]:
    text = PAGE.split(f"### {title}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"`([\w/]+\.py::[\w.]+)`", text)


@contextmanager
def seen() -> Iterator[list[str]]:
    """What of the package is called meanwhile, in order."""
    calls_so_far: list[str] = []

    def look(frame: FrameType, what: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if what == "call" and path.is_relative_to(PACKAGE):
            calls_so_far.append(f"{path.relative_to(PACKAGE).as_posix()}::{frame.f_code.co_qualname}")

    if build_in_use() == "compiled":
        pytest.skip("a walk goes by the frames of the interpreter, and compiled code has none")
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield calls_so_far
    finally:
        sys.setprofile(before)


def is_walked(stations: list[str], really: list[str]) -> list[str]:
    """The stations that did not come in their order."""
    left = iter(really)
    return [station for station in stations if station not in left]


@agentrail.tool
async def weather(city: str) -> str:
    """Current weather of a city."""
    return f"{city}: clear"


@agentrail.tool
async def hang() -> None:
    """Wait for ever."""
    await trio.sleep_forever()


async def prompt_and_tool(session: agentrail.Session) -> list[str]:
    """One cycle with a call."""
    with seen() as really:
        assert await session.ask("What is the weather in Lisbon?") == "Clear."
    return really


async def abort(session: agentrail.Session) -> list[str]:
    """An abort while a tool hangs."""
    async with session.subscribe() as events:
        await session.prompt("Wait.")
        async for event in events:
            if isinstance(event, agentrail.ToolExecutionStart):
                break
    await trio.testing.wait_all_tasks_blocked()
    with seen() as really:
        receipt = await session.abort("enough")
    assert receipt.tasks_ended == 1
    return really


WALKS = {
    "A prompt": (prompt_and_tool, [calls(("weather", {"city": "Lisbon"})), says("Clear.")]),
    "A tool call": (prompt_and_tool, [calls(("weather", {"city": "Lisbon"})), says("Clear.")]),
    "An abort": (abort, [calls(("hang", {}))]),
}


@pytest.mark.parametrize("title", WALKS)
async def test_a_walk_goes_where_the_page_says(title):
    """Every station is one, and they come in this order."""
    go, turns = WALKS[title]
    async with agentrail.open_supervisor() as supervisor:
        session = await supervisor.start_session(model=ScriptedModel(turns), tools=[weather, hang])
        really = await go(session)
    stations = walk(title)
    assert len(stations) >= 8
    assert is_walked(stations, really) == []
