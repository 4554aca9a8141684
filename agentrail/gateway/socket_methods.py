"""Commands of a socket that no route of HTTP has, or has with less: each calls one method of a session, and nothing else.

Whose a session is, the host says, for each command anew. What is read of a journal asks for the scope `inspect`, as over HTTP.
"""

from typing import Any, Final

from agentrail.abc import Error, Ok
from agentrail.errors import ToolContractError
from agentrail.gateway.bodies import (
    AbortBody,
)
from agentrail.gateway.calls.sessions import record_of_place, record_to_fork
from agentrail.gateway.chat_routes import answer_prompt
from agentrail.gateway.endpoint import CallRoute, Result, RouteCall, WholeAnswer, answer_json
from agentrail.gateway.reading import MAX_CURSOR, refuse_field, whole_number, yes_or_no
from agentrail.gateway.socket_bodies import (
    AbortCommandBody,
    AnswerBody,
    ForkCommandBody,
    PromptCommandBody,
    RewindCommandBody,
)
from agentrail.runtime.handle import Session
from agentrail.wire.forms import encode_past_state, encode_receipt, encode_receipt_found
from agentrail.wire.operations import DeclineBody, GoOnBody, ReceiptBody, StateAtBody, StopBody

MAX_RECORDS_OF_A_COMMAND: Final = 1_000
"""Records of a journal that one command gives."""

MAX_TURNS_OF_A_COMMAND: Final = 1_000
"""Turns that one command names: the last ones."""

_ONE: Final = "/sessions/{session_id}"
_NULL: Final = b"null"


async def _session(call: RouteCall, *, only_root: bool = False) -> Session:
    return await call.host.session(call.params["session_id"], call.principal, only_root=only_root)


async def _prompt(call: RouteCall) -> Result:
    """Take a message, of words or of blocks."""
    body: PromptCommandBody = call.body
    if body.content is not None and (body.message or body.attachments or body.when_busy == "steer"):
        refuse_field("content", "stands for all of the message: leave message, attachments and 'steer' out")
    return await answer_prompt(call)


async def _go_on(call: RouteCall) -> WholeAnswer:
    """Let the model answer what the conversation ends with."""
    body: GoOnBody = call.body
    session = await _session(call, only_root=True)
    receipt = await session.go_on(client_id=body.client_id, via=call.via, settings=body.settings)
    return WholeAnswer(body=encode_receipt(receipt))


async def _receipt_of(call: RouteCall) -> WholeAnswer:
    """Say what was sent before."""
    body: ReceiptBody = call.body
    return WholeAnswer(body=encode_receipt_found(await (await _session(call)).receipt_of(body.client_id)))


async def _abort(call: RouteCall) -> WholeAnswer:
    """Stop what runs, and wait for it where that is asked for."""
    body: AbortCommandBody = call.body
    session = await _session(call)
    receipt = await session.abort(
        body.reason,
        kill_tools=body.kill_tools,
        clear_queue=body.clear_queue,
        wait=yes_or_no("wait", call.query.get("wait")),
        children=body.children,
        ref=body.ref,
    )
    return WholeAnswer(body=encode_receipt(receipt))


async def _abort_tool(call: RouteCall) -> WholeAnswer:
    """Stop one call."""
    body: AbortBody = call.body
    assert body.call_id is not None  # noqa: S101 - it was looked at
    await (await _session(call)).abort_tool(body.call_id, body.reason)
    return answer_json(_NULL)


async def _decline(call: RouteCall) -> WholeAnswer:
    """Say that a question gets no answer."""
    body: DeclineBody = call.body
    session = await call.host.session_to_decide(call.params["session_id"], call.principal)
    await session.decline(body.ref, body.reason, user=call.principal.user_id)
    return answer_json(_NULL)


async def _answer(call: RouteCall) -> WholeAnswer:
    """Give the result of a call that the client ran."""
    body: AnswerBody = call.body
    session = await _session(call)
    outcome: Ok | Error
    if body.is_error:
        if body.images:
            refuse_field("images", "come with a result alone: leave them out of an error")
        outcome = Error(text=body.text, details=body.details)
    else:
        try:
            outcome = Ok(text=body.text, details=body.details, images=body.images)
        except ToolContractError as error:
            refuse_field("images", f"cannot be this: {error}")
    await session.answer(body.ref, outcome)
    return answer_json(_NULL)


async def _status(call: RouteCall) -> WholeAnswer:
    """Say how a session stands; of one that has ended, that it has."""
    return answer_json(await (await _session(call)).status())


async def _fork(call: RouteCall) -> WholeAnswer:
    """Begin a session that goes on from this one."""
    body: ForkCommandBody = call.body
    session_id = call.params["session_id"]
    place = await record_to_fork(call.host, call.principal, session_id, at=body.at, event=body.event)
    fork, at = await call.host.fork_session(
        session_id, call.principal, at=place, turn=body.turn, wanted=body.fork_id
    )
    return answer_json({"session_id": fork.session_id, "at": at})


async def _rewind(call: RouteCall) -> WholeAnswer:
    """Go back, with the files where that is asked for."""
    body: RewindCommandBody = call.body
    session = await _session(call, only_root=True)
    place = await record_of_place(session, "to", body.to, body.event)
    rewound = await session.rewind(place, turn=body.turn, files=body.files, force=body.force, dry=body.dry)
    return answer_json(rewound)


async def _stop(call: RouteCall) -> WholeAnswer:
    """End a session."""
    body: StopBody = call.body
    await (await _session(call, only_root=True)).stop(body.reason)
    return answer_json(_NULL)


async def _journal(call: RouteCall) -> WholeAnswer:
    """Read a page of the journal."""
    after = whole_number("after", call.query.get("after"), 0, most=MAX_CURSOR)
    limit = whole_number(
        "limit", call.query.get("limit"), MAX_RECORDS_OF_A_COMMAND, least=1, most=MAX_RECORDS_OF_A_COMMAND
    )
    session = await call.host.session_to_read(call.params["session_id"], call.principal)
    return answer_json(await session.journal(after, limit))


async def _turns(call: RouteCall) -> WholeAnswer:
    """Name the turns to which a session can go back: who may do that may know them."""
    limit = whole_number(
        "limit", call.query.get("limit"), MAX_TURNS_OF_A_COMMAND, least=1, most=MAX_TURNS_OF_A_COMMAND
    )
    return answer_json(await (await _session(call, only_root=True)).turns(limit))


async def _state_at(call: RouteCall) -> WholeAnswer:
    """Say what the session was."""
    body: StateAtBody = call.body
    session = await call.host.session_to_read(call.params["session_id"], call.principal)
    past = await session.state_at(body.number)
    return answer_json(encode_past_state(past.number, past.at_ms, past.snapshot, past.messages))


def _route(does: str, handler: Any, body: Any = None, **given: Any) -> CallRoute:
    return CallRoute("POST", _ONE, handler, does=does, body=body, **given)


# fmt: off
METHOD_ROUTES: Final = {
    "prompt": _route("takes a message", _prompt, PromptCommandBody, operation="prompt"),
    # It costs what a message does.
    "go_on": _route("lets the model answer without new words", _go_on, GoOnBody, operation="prompt"),
    "receipt_of": _route("says what was sent before under a name", _receipt_of, ReceiptBody),
    "abort": _route("stops what runs", _abort, AbortCommandBody, operation="abort", query=("wait",)),
    "abort_tool": _route("stops one call", _abort_tool, AbortBody, operation="abort"),
    "decline": _route("says that a question gets no answer", _decline, DeclineBody, operation="reject", also="decide"),
    "answer": _route("gives the result of a call that the client ran", _answer, AnswerBody),
    "status": _route("says how a session stands", _status),
    "fork": _route("begins a session that goes on from this one", _fork, ForkCommandBody),
    "rewind": _route("goes back to an earlier moment", _rewind, RewindCommandBody),
    "turns": _route("names the turns that are over", _turns, query=("limit",)),
    "stop": _route("ends a session", _stop, StopBody),
    "journal": _route("shows a journal", _journal, query=("after", "limit"), scope="inspect"),
    "state_at": _route("says what the session was", _state_at, StateAtBody, scope="inspect"),
}
"""The commands that have a way of their own, by name."""
# fmt: on
