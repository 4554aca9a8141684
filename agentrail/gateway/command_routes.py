"""The routes of slash commands; see `calls.commands`."""

from typing import Final

from agentrail.gateway import calls
from agentrail.gateway.bodies import CommandBody
from agentrail.gateway.queries import check_id
from agentrail.gateway.routing import CallRoute, RouteCall, WholeAnswer
from agentrail.gateway.session_routes import answer_of_call


async def _list(call: RouteCall) -> WholeAnswer:
    """List the commands."""
    session_id = call.query.get("session_id")
    if session_id is not None:
        check_id("session_id", session_id, of_session=True)
    return answer_of_call(await calls.list_commands(call.host, call.principal, session_id))


async def _run(call: RouteCall) -> WholeAnswer:
    """Run one."""
    made = await calls.run_slash_command(
        call.host, call.principal, call.params["name"], call.body, via=call.via
    )
    return answer_of_call(made)


COMMAND_ROUTES: Final = (
    CallRoute(
        "GET",
        "/commands",
        _list,
        does="lists the slash commands, and says why one cannot be run",
        query=("session_id",),
    ),
    CallRoute("POST", "/commands/{name}", _run, does="runs a slash command", body=CommandBody),
)
