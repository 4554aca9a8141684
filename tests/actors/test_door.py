"""The door of the room: what pages import stands in it, and where no Trio runs it says so, in words that name the ways out."""

import ast
import asyncio
import re
from pathlib import Path

import pytest
import trio

import agentrail
from agentrail import actors
from agentrail.errors import NoTrioRun, YourMove
from agentrail.testing.models import ScriptedModel, says
from scripts.names_pages import names_of_module

ROOT = Path(__file__).parents[2]


def test_all_that_the_pages_import_stands_in_the_door():
    """Nobody who follows a page has to know which file a name lives in."""
    names = set(names_of_module("agentrail.actors"))
    assert all(hasattr(actors, name) for name in names)
    inside = {
        alias.name
        for page in (ROOT / "docs" / "how-to").glob("*.md")
        for fence in page.read_text(encoding="utf-8").split("```python\n")[1:]
        for node in ast.walk(ast.parse(fence.split("\n```")[0]))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).startswith(("agentrail.actors", "agentrail.otp"))
        for alias in node.names
    }
    assert inside
    assert inside <= names


WORDS = (
    "agentrail needs Trio: trio.run(main), or run your ASGI app with hypercorn -k trio (docs/how-to/behind-fastapi)",
    "agentrail.blocking",
)


async def open_sessions() -> None:
    """What a program does first."""
    async with agentrail.open_supervisor():
        pass


async def open_actors() -> None:
    """What a program of actors does first."""
    async with actors.open_supervisor(actors.SupervisorFlags("one_for_one")):
        pass


@pytest.mark.parametrize("main", [open_sessions, open_actors])
@pytest.mark.parametrize(
    "run", [asyncio.run, lambda coroutine: coroutine.send(None)], ids=["asyncio", "no loop"]
)
def test_opening_a_supervisor_without_trio_says_what_to_do(main, run):
    """Under asyncio, and under nothing at all (14.1)."""
    with pytest.raises(NoTrioRun) as raised:
        run(main())
    assert [word for word in WORDS if word not in str(raised.value)] == []
    assert (raised.value.code, isinstance(raised.value, YourMove)) == ("no_trio_run", True)
    assert raised.value.__cause__ is None


async def _start() -> tuple[agentrail.SessionSupervisor, agentrail.Session]:
    async with agentrail.open_supervisor() as supervisor:
        return supervisor, await supervisor.start_session(model=ScriptedModel([says("one")]))


def test_a_call_of_a_session_without_trio_says_what_to_do():
    """Of a handle that was carried out of its run, into asyncio; nor could reports ever be read there."""
    supervisor, session = trio.run(_start)

    async def main(call) -> None:
        await call()

    for call in (
        lambda: session.ask("Hi"),
        lambda: session.prompt("Hi"),
        session.status,
        session.abort,
        session.stop,
        session.attach_tools,
        lambda: session.subscribe().__aenter__(),
        lambda: session.monitor().wait(),
        lambda: supervisor.reports().__aenter__(),
    ):
        with pytest.raises(NoTrioRun, match=re.escape(WORDS[0])):
            asyncio.run(main(call))
