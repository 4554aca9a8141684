"""The routes of slash commands; see `calls.commands`."""

from typing import Final

from msgspec.structs import replace

from agentrail.gateway import calls
from agentrail.gateway.bodies import CommandBody
from agentrail.gateway.endpoint import CallRoute, RouteCall, WholeAnswer
from agentrail.gateway.reading import check_id, named_by_client
from agentrail.gateway.replies import CommandDone, CommandList
from agentrail.gateway.route_answers import BRANCHING, MESSAGE, ON_SESSION
from agentrail.gateway.session_routes import answer_of_call


async def _list(call: RouteCall) -> WholeAnswer:
    """List the commands."""
    session_id = call.query.get("session_id")
    if session_id is not None:
        check_id("session_id", session_id, of_session=True)
    return answer_of_call(await calls.list_commands(call.host, call.principal, session_id))


async def _run(call: RouteCall) -> WholeAnswer:
    """Run one."""
    client_id = named_by_client(call.body.client_id, call.head.headers.get("idempotency-key"))
    body = replace(call.body, client_id=client_id)
    made = await calls.run_slash_command(call.host, call.principal, call.params["name"], body, via=call.via)
    return answer_of_call(made)


COMMAND_ROUTES: Final = (
    CallRoute(
        "GET",
        "/commands",
        _list,
        does="lists the slash commands, and says why one cannot be run",
        query=("session_id",),
        replies={200: CommandList},
        refusals=f"{ON_SESSION} session_is_child",
    ),
    CallRoute(
        "POST",
        "/commands/{name}",
        _run,
        does="runs a slash command",
        body=CommandBody,
        replies={200: CommandDone, 202: CommandDone},
        refusals=f"{MESSAGE} {BRANCHING} already_exists still_needed unknown_call",
        asks_plugins=True,
    ),
)
