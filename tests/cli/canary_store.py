"""A store of SQLite with one session of two cycles, and its sub-agent."""

import trio

from agentrail.stores.sqlite import SqliteStore
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.testing.supervisors import open_nameless
from agentrail.testing.tools import RecordingTool
from agentrail.tools.task import TaskTool
from tests.runtime.rig import NoSandbox


def write_canary_store(path):
    async def live():
        kept = SqliteStore(path)
        task = calls(("task", {"description": "A canary below."}))
        model = ScriptedModel([task, says("It sings below."), says("A canary sings."), says("Twice.")])
        try:
            async with open_nameless(lambda _name, _root: NoSandbox(), store=kept) as supervisor:
                session = await supervisor.start_session(
                    model=model, tools=[TaskTool(), RecordingTool()], session_id="s-1"
                )
                await session.ask("What does the canary do?")
                await session.ask("How often, canary?")
        finally:
            kept.close()

    trio.run(live)
    return path
