"""Calls of slash commands: the list, and running one."""

from agentrail.gateway.chat_routes import user_message
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.request_bodies import CommandBody
from agentrail.gateway.response_bodies import CommandDone, CommandItem, CommandList
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host import HandledResponse, Host, Principal
from agentrail.host.identity import SessionOwner
from agentrail.runtime.session_facts import SessionFacts
from agentrail.structs import struct_from


async def list_commands(host: Host, principal: Principal, session_id: str | None) -> WholeAnswer:
    owner, facts = await _whose(host, principal, session_id)
    rows = await host.commands.rows(owner, facts)
    listed = tuple(struct_from(CommandItem, row) for row in rows)
    return answer_json(CommandList(commands=listed))


async def run_slash_command(
    host: Host, principal: Principal, name: str, body: CommandBody, *, via: str
) -> WholeAnswer | HandledResponse:
    owner, facts = await _whose(host, principal, body.session_id)
    command = (await host.commands.registry_for(name, owner, facts)).find(name)
    if command.in_history:
        if body.session_id is None:
            refuse_call("command_error", f"/{command.name} sends a prompt to a session: give session_id")
        words = f"/{command.name} {body.text}"
        said = user_message(principal, words, body.session_id, client_id=body.client_id)
        request = await host.submit(said, principal, kind="prompt", via=via)
        if isinstance(request, HandledResponse):  # a plugin has answered it
            return request
        done = CommandDone(command=command.name, session_id=request.session_id, request_id=request.request_id)
        return answer_json(done, 202, {"x-session-id": request.session_id})
    answer = await host.commands.run(command.name, body.text, owner, facts)
    return answer_json(CommandDone(command=command.name, lines=answer.lines))


async def _whose(
    host: Host, principal: Principal, session_id: str | None
) -> tuple[SessionOwner, SessionFacts | None]:
    owner = SessionOwner.of(principal)
    if session_id is None:
        return owner, None
    return owner, (await host.session(session_id, principal, only_root=True)).facts
