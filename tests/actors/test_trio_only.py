"""Called where no Trio runs: the doors say so, in words that name the ways out. Trio's own error would name neither."""

import asyncio
import re

import pytest
import trio

import agentrail
from agentrail import actors
from agentrail.errors import NoTrioRun, YourMove
from agentrail.testing.models import ScriptedModel, says

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


CALLS = {
    "ask": lambda session: session.ask("Hi"),
    "prompt": lambda session: session.prompt("Hi"),
    "status": lambda session: session.status(),
    "abort": lambda session: session.abort(),
    "stop": lambda session: session.stop(),
    "attach_tools": lambda session: session.attach_tools(),
    "subscribe": lambda session: session.subscribe().__aenter__(),
    "monitor": lambda session: session.monitor().wait(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_of_a_session_without_trio_says_what_to_do(call):
    """A handle that was carried out of its run, into asyncio."""
    _, session = trio.run(_start)

    async def main() -> None:
        await call(session)

    with pytest.raises(NoTrioRun, match=re.escape(WORDS[0])):
        asyncio.run(main())


def test_reports_without_trio_say_what_to_do():
    """They could never be read."""
    supervisor, _ = trio.run(_start)

    async def main() -> None:
        async with supervisor.reports():
            pass

    with pytest.raises(NoTrioRun):
        asyncio.run(main())
