"""A client of the conformance suite: a session with the tools of the server whose address it gives, and calls of them.

    python -m tests.mcp.conformance_client http://localhost:PORT/mcp

The scenario says in the environment which calls it wants. Without that, each tool is called once.
"""

import json
import os
import sys

import trio

import agentrail
from agentrail.events import AskUser
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools.mcp import McpServer

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
GIVEN = {"add_numbers": {"a": 5, "b": 3}}
VALUES = {"string": "us-west1", "integer": 1, "number": 1, "boolean": True}


def arguments_of(tool):
    """Return a value for each required argument."""
    properties = tool.parameters.get("properties", {})
    return {name: VALUES[properties[name]["type"]] for name in tool.parameters.get("required", ())}


def wanted(tools):
    """Return the calls that a scenario wants, by session name."""
    by_name = {tool.listed.remote_name: tool for tool in tools}
    if "toolCalls" in CONTEXT:
        return [
            (
                by_name[one["name"]].name,
                {key: value for key, value in one["arguments"].items() if value is not None},
            )
            for one in CONTEXT["toolCalls"]
        ]
    if SCENARIO == "json-schema-2020-12-preservation":
        focal = by_name["json_schema_2020_12_tool"]
        return [(tool.name, {"schema": focal.parameters}) for tool in tools if tool is not focal]
    return [
        (tool.name, GIVEN.get(name) or arguments_of(tool))
        for name, tool in by_name.items()
        if not tool.listed.is_ours
    ]


async def answer(session):
    """Answer each question with the defaults of its form."""
    async with session.subscribe(kinds=[AskUser]) as events:
        async for event in events:
            if isinstance(event, AskUser):
                await session.respond(event.ref, "Done" if event.schema is None else {})


async def main(url):
    """Connect, and call."""
    server = McpServer("c", url=url, required=True, timeout_seconds=20)
    async with agentrail.open_supervisor(mcp=[server]) as supervisor:
        await supervisor.start_session(model="demo:")
        chosen = wanted(supervisor.sources.running["c"].source.tools)
        answers = [calls(one) for one in chosen]
        session = await supervisor.start_session(model=ScriptedModel([*answers, says("done")]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, session)
            await session.ask("go")
            nursery.cancel_scope.cancel()


trio.run(main, sys.argv[1])
