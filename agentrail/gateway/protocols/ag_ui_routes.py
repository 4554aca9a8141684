"""`/ag-ui`, called by AG-UI clients such as CopilotKit: a thread is a session, and a run is a prompt or its answers."""

from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio
from attrs import evolve
from msgspec.structs import replace

from agentrail.core.session.views import Status
from agentrail.errors import SessionUnknown
from agentrail.events import (
    TERMINAL,
    AgentStart,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
)
from agentrail.gateway.chat_routes import own_request
from agentrail.gateway.path_endpoint import CallAim, CallRoute, Result, RouteCall
from agentrail.gateway.protocols.response_stream import SseWire
from agentrail.gateway.protocols.wire_calls import (
    answer_first,
    find_session,
    fork_once,
    nearest_event,
    say_handled,
    stream_request,
    unless_refused,
)
from agentrail.gateway.request_parser import check_id
from agentrail.gateway.route_errors import BRANCHING, DECIDING, MESSAGE
from agentrail.host.hook_payloads import HandledResponse
from agentrail.host.identity import profile_of_session
from agentrail.messages import AssistantMessage, Text
from agentrail.protocols.ag_ui import AG_UI, AgUiRun, custom_frame, with_first_frame
from agentrail.protocols.ag_ui_messages import (
    AgUiBody,
    AgUiPlan,
    check_ag_ui_messages,
    decide_ag_ui_request,
    foreign_texts,
    last_known,
    open_ag_ui_run,
)
from agentrail.protocols.decisions import refuse_request
from agentrail.runtime.arguments import decide_settings
from agentrail.runtime.event_history import PageAsked
from agentrail.runtime.event_subscription import number_of
from agentrail.runtime.session_handle import Session

AG_UI_WIRE: Final[SseWire[AgUiRun]] = SseWire(name="ag-ui", bridge=AG_UI, on_disconnect="abort")


async def _answer_run(call: RouteCall) -> Result:
    body: AgUiBody = call.body
    check_id("threadId", body.threadId, of_session=True)
    check_id("runId", body.runId)
    check_ag_ui_messages(body.messages)
    session = await _find(call, body.threadId)
    if session is None or not body.is_branch:
        return await _run(call, session)
    fork, is_new = await _branch(call, session)
    return await unless_refused(call, fork if is_new else None, partial(_run, call, fork))


async def _run(call: RouteCall, session: Session | None) -> Result:
    body: AgUiBody = call.body
    status = None if session is None else await session.status()
    said: tuple[str, ...] = ()
    sent, differs = None, False
    if session is not None and status is not None:
        said, sent = await _prompts(session, body, status)
        foreign = foreign_texts(body.messages, status)
        if foreign:
            known = {one.text for one in await session.messages() if isinstance(one, AssistantMessage)}
            differs = not foreign <= known
    plan = decide_ag_ui_request(body, status, said, sent)
    wire, run = evolve(AG_UI_WIRE, on_disconnect=body.on_disconnect), open_ag_ui_run(body, plan)
    if differs:
        run = with_first_frame(run, custom_frame("history_differs", {}))
    if session is not None and status is not None and plan.answers:
        answer = partial(answer_first, status=status, has_words=bool(plan.words), response_id=body.runId)
        answered = await answer(call, wire, session, run, plan.answers)
        if answered is not None:
            return answered
    result = await _say(call, wire, session, run, plan)
    return say_handled(wire, result, run, status) if isinstance(result, HandledResponse) else result


async def _say(
    call: RouteCall, wire: SseWire[AgUiRun], session: Session | None, run: AgUiRun, plan: AgUiPlan
) -> Result:
    body: AgUiBody = call.body
    agent_id, state = call.params.get("agent_id", ""), {"ag_ui_state": body.state} if body.state else {}
    request = own_request(
        call, plan.words, body.threadId, agent_id=agent_id, client_id=body.runId, metadata=state
    )
    submitted = await call.host.submit(
        request,
        call.principal,
        kind="stream",
        on_disconnect=wire.on_disconnect,
        via=wire.name,
        settings=decide_settings(await _settings_of(call, session)),
        history=plan.history,
        trace=call.trace,
    )
    if isinstance(submitted, HandledResponse):
        return submitted
    if submitted.repairs:
        run = with_first_frame(
            run, custom_frame("history_repaired", {"codes": [one.code for one in submitted.repairs]})
        )
    return stream_request(wire, submitted, run)


async def _settings_of(call: RouteCall, session: Session | None) -> dict[str, Any] | None:
    """Return the settings of the run. The profile decides on the context, because it is in the system prompt."""
    body: AgUiBody = call.body
    if not body.context:
        return body.settings
    own = "" if session is None else profile_of_session(session.facts.user_data)
    agent_id = call.params.get("agent_id") or own or call.host.options.checked_profiles.default_id
    profile = await call.host.profile_for(call.principal, agent_id)
    if profile.client_system == "refuse":
        refuse_request("context", "is refused: this profile has its own system prompt")
    return body.settings if profile.client_system == "append" else replace(body, context=None).settings


async def _find(call: RouteCall, thread_id: str) -> Session | None:
    agent_id = call.params.get("agent_id")
    if agent_id is not None:
        return await find_session(call, thread_id, agent_id)
    with suppress(SessionUnknown):  # the default profile is for new threads: others keep theirs
        return await call.host.session(thread_id, call.principal, only_root=True)
    return None


async def _branch(call: RouteCall, session: Session) -> tuple[Session, bool]:
    """Fork a session after the cycle of the last message in common, and move the run there. Return whether the fork is new."""
    body: AgUiBody = call.body
    _, number = last_known(body.messages, await session.status())
    find = partial(nearest_event, call, session.session_id)
    # A command's output has the number of the last event before it, perhaps the end of the cycle.
    end = await find(PageAsked(before=number + 1, kinds=TERMINAL | {AgentStart}))
    if isinstance(end, AgentStart):
        end = await find(PageAsked(after=number, kinds=TERMINAL))
    if end is None:
        message = "asks for a branch, but has no finished message in common with the session"
        refuse_request("forwardedProps", message)
    fork, is_new = await fork_once(call, session, number_of(end), body.runId)
    call.body = replace(body, threadId=fork.session_id)
    return fork, is_new


async def _prompts(
    session: Session, body: AgUiBody, status: Status
) -> tuple[tuple[str, ...], tuple[int, str] | None]:
    """Return the texts of the prompts that the client may not have an answer to, and the run's own one."""
    receipt = await session.receipt_of(body.runId)
    _, after = last_known(body.messages, status)
    after = after if receipt is None else min(after, receipt.seq - 1)
    kinds = (PromptReceived, PromptQueued, PromptDropped, PromptRejected)
    texts: dict[str, str] = {}
    gone: set[str] = set()
    async with session.subscribe(kinds=kinds, deltas=False, after=after) as events:
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                match events.next_nowait():
                    case PromptReceived(ref=ref, content=content) | PromptQueued(ref=ref, content=content):
                        texts[ref] = "".join(block.text for block in content if isinstance(block, Text))
                    case PromptDropped(ref=ref) | PromptRejected(ref=ref):
                        gone.add(ref)
                    case _:
                        pass
    said = tuple(text for ref, text in texts.items() if ref not in gone)
    return said, None if receipt is None else (receipt.seq, texts.get(receipt.ref, ""))


def _route(path: str, does: str) -> CallRoute:
    return CallRoute(
        "POST",
        path,
        _answer_run,
        does=does,
        operation="stream",
        body=AgUiBody,
        aim=lambda call: CallAim(call.body.threadId, call.body.runId),
        is_stream=True,
        frames="AgUiEvent",
        replies={},
        refusals=f"{MESSAGE} {DECIDING} {BRANCHING} approval_expired invalid_response invalid_arguments",
        asks_plugins=True,
    )


AG_UI_ROUTES: Final = (
    _route("/ag-ui/{agent_id}", "runs a profile for an AG-UI client and streams the events of the run"),
    _route("/ag-ui", "runs the default profile for an AG-UI client, or the profile of the thread"),
)
