"""An agent with a script, as the program that editors start: a plan, a look around, an edit that needs a permission, an answer."""

import sys
from functools import partial

import trio

from agentrail.gateway.stdio.acp_connection import AcpConnection
from agentrail.gateway.stdio.line_stream import open_line_stream
from agentrail.plugins import HumanApproval
from agentrail.runtime.session_options import SessionOptions
from agentrail.testing.models import ScriptedModel, calls, says
from agentrail.tools import builtin
from tests.gateway.stdio.acp_client import agent_of

EDIT = {"path": "notes.md", "old_string": "one", "new_string": "two"}
SCRIPTS = {
    "edit": (
        calls(("write_todos", {"todos": [{"id": "1", "content": "Edit", "status": "in_progress"}]})),
        calls(("read_file", {"path": "notes.md"})),
        calls(("edit_file", EDIT), text="I change it."),
        says("Changed."),
        says("Again."),
    ),
    "shell": (calls(("shell", {"command": "sleep 60 & echo started; sleep 60"})), says("Slept.")),
}


async def main(script: str, store: str | None) -> None:
    options = SessionOptions(
        model=ScriptedModel([*SCRIPTS[script]]),
        tools=builtin("write_todos", "read_file", "edit_file", "shell"),
        plugins=[(HumanApproval, {"require_approval_for": ["edit_file"]})],
    )
    given = {} if store is None else {"store": store}
    async with open_line_stream() as stream:
        await AcpConnection(stream, partial(agent_of, options, given), version="1").serve()


trio.run(main, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
