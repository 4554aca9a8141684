"""`/v1` for OpenAI clients: a profile is a model, and a token of this server is the API key."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final, TypeVar

import trio
from attrs import evolve

from agentrail import outside
from agentrail.core.session.views import Status
from agentrail.errors import AgentrailError, ProfileUnknown
from agentrail.gateway.chat_routes import own_request
from agentrail.gateway.error_responses import CallRefused, ErrorAnswer, error_answer
from agentrail.gateway.path_endpoint import LEFT_SECONDS, CallAim, CallRoute, OwnStream, Result, RouteCall
from agentrail.gateway.protocols.response_stream import ResponseStream, SseWire
from agentrail.gateway.protocols.wire_calls import (
    SpokenAnswer,
    answer_first,
    find_session,
    known_answer,
    refuse_end,
    say_handled,
    stream_request,
)
from agentrail.gateway.request_bodies import ChatCompletionBody, ResponseBody
from agentrail.gateway.request_parser import check_id, named_by_client
from agentrail.gateway.response_bodies import ModelEntry, ModelList
from agentrail.gateway.route_errors import DECIDING, MESSAGE
from agentrail.gateway.whole_answer import WholeAnswer, answer_json
from agentrail.host.agent_profiles import AgentProfile, takes_images
from agentrail.host.hook_payloads import HandledResponse
from agentrail.messages import Image, Message
from agentrail.protocols.decisions import refuse_request
from agentrail.protocols.error_shapes import openai_error
from agentrail.protocols.openai_chat import (
    CHAT,
    ChatAsked,
    Completion,
    decide_chat,
    read_chat,
    session_of_results,
    whole_completion,
)
from agentrail.protocols.openai_requests import (
    OpenAiAsked,
    OpenAiParameters,
    OpenAiPlan,
    ReadParameters,
    read_parameters,
)
from agentrail.protocols.response_changes import Frame, Frames
from agentrail.protocols.response_state import Own
from agentrail.runtime.arguments import words_in_blocks
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.wire.plain import encode_plain

NAME: Final = "openai"
"""Name of the protocol, and channel of its messages."""

_CHAT: Final = SseWire(name=NAME, bridge=CHAT, on_disconnect="abort", last="[DONE]")


AskedT = TypeVar("AskedT", bound=OpenAiAsked)


# --- any request


def _encode_error(answer: ErrorAnswer) -> bytes:
    message = answer.message if answer.hint is None else f"{answer.message}: {answer.hint}"
    place = answer.more.get("field")
    shaped = openai_error(
        answer.code, message, answer.status, param=place if isinstance(place, str) else None
    )
    # The fields of all our errors stay, so that a program reads them alike.
    return encode_plain({"error": {**answer.more, "hint": answer.hint, **shaped["error"]}})


openai_route: Final = partial(CallRoute, encode_error=_encode_error)


async def answer_openai_call(
    call: RouteCall,
    read: Callable[[Mapping[str, Any], ReadParameters], AskedT],
    carry_out: Callable[[RouteCall, AgentProfile, AskedT], Awaitable[Result]],
) -> Result:
    body: ChatCompletionBody | ResponseBody = call.body
    profile = await _profile_of(call, body.plain.get("model"))
    parameters_of = partial(
        read_parameters, client_system=profile.client_system, allows_settings=profile.client_settings
    )
    asked = await call.gateway.read_aside(partial(read, body.plain, parameters_of), body.size)
    return await carry_out(call, profile, asked)


async def _profile_of(call: RouteCall, model: object) -> AgentProfile:
    if not isinstance(model, str) or not model:
        refuse_request("model", "must be one that GET /v1/models lists", "model_missing")
    try:
        return await call.host.profile_for(call.principal, model)
    except ProfileUnknown as error:
        raise _model_unknown(str(error)) from None


def _model_unknown(message: str) -> CallRefused:
    return CallRefused(evolve(error_answer("model_not_found", message, more={"field": "model"}), status=404))


async def carry_out_plan(  # noqa: PLR0913 - by keyword, where they are not the call's
    call: RouteCall,
    wire: SseWire[Own],
    own_of: Callable[[str, int, str | None], Own],
    *,
    profile: AgentProfile,
    asked: AskedT,
    decide: Callable[[AskedT, Status | None, Sequence[Message]], OpenAiPlan],
    session: Session | None,
) -> ResponseStream[Own] | SpokenAnswer | HandledResponse:
    place = "input" if isinstance(call.body, ResponseBody) else "messages"
    name = named_by_client(None, call.client_id)
    if session is not None and name and known_answer(call, session, name) is not None:
        refuse_request(place, "must be new: what was open has been answered", "already_resolved")
    past = () if session is None else await session.messages()
    status = None if session is None else await session.status()
    plan = decide(asked, status, past)
    parameters = asked.parameters
    said = plan.words or plan.past_words
    if not (said or plan.decisions):
        refuse_request(place, "must have a message of the user with text or an image", "messages_missing")
    has_images = any(isinstance(block, Image) for block in plan.words)
    if has_images and not takes_images(profile):
        refuse_request(place, "must have no image, because this model takes none", "images_unsupported")
    if parameters.ignored:
        call.more_headers["x-agentrail-ignored"] = ", ".join(parameters.ignored)
    if plan.differs:
        call.more_headers["x-agentrail-history-differs"] = "true"
    if session is not None and status is not None and plan.decisions:
        own = own_of(session.session_id, status.last_seq + 1, None)
        answered = await answer_first(
            call, wire, session, own, plan.decisions, status=status, has_words=bool(plan.words)
        )
        if answered is not None:
            return answered
    words, metadata = words_in_blocks(said), dict(parameters.metadata)
    session_id = session.session_id if session is not None else asked.new_id
    request = own_request(call, words, session_id, agent_id=profile.id, client_id=name, metadata=metadata)
    submitted = await call.host.submit(
        request,
        call.principal,
        kind="stream" if parameters.is_stream else "chat",
        # Words after answers join the cycle that continues with them. In the queue they would wait for its next pause.
        when_busy="steer" if plan.decisions else "queue",
        on_disconnect=wire.on_disconnect,
        via=NAME,
        content=plan.words if has_images else None,
        settings=parameters.settings,
        history=plan.history,
        goes_on=plan.goes_on,
        trace=None if plan.decisions else call.trace,
        keep=asked.is_kept,
    )
    if isinstance(submitted, HandledResponse):
        last_seq = 0 if status is None else status.last_seq
        return say_handled(wire, submitted, own_of(session_id or "", last_seq, outside.ids(9)), status)
    receipt, name = submitted.receipt, submitted.request_id
    return stream_request(wire, submitted, own_of(submitted.session_id, receipt.seq, name))


@asynccontextmanager
async def _for_one_response(call: RouteCall, session: Session) -> AsyncIterator[None]:
    """End a nameless session after its response, unless the client owes results of its calls."""
    try:
        yield
    finally:
        with trio.move_on_after(LEFT_SECONDS, shield=True), suppress(AgentrailError):
            status = await session.status()  # noqa: ASYNC102 - shielded and bounded
            if status.phase != "idle":
                await session.abort("the caller left")  # noqa: ASYNC102 - same
                call.on_left = None
            if call.has_left or not status.client_calls:
                await call.host.delete_session(session.session_id, call.principal, purge=True)  # noqa: ASYNC102 - same


async def answer_openai(
    call: RouteCall,
    stream: ResponseStream[Own] | SpokenAnswer | HandledResponse,
    parameters: OpenAiParameters,
    whole: Callable[[Frames], Frame],
    *,
    is_nameless: bool,
) -> Result:
    if isinstance(stream, SpokenAnswer) and not parameters.is_stream:
        return answer_json(whole(stream.frames), headers=stream.headers)
    if not isinstance(stream, ResponseStream):
        return stream
    stream = evolve(stream, is_unattended=is_nameless)

    def lifetime() -> AbstractAsyncContextManager[None]:
        # The response of a request with a name may have other readers: its client sends it again.
        is_of_one = is_nameless and call.client_id is None
        return _for_one_response(call, stream.session) if is_of_one else nullcontext()

    async def write(call: RouteCall) -> None:
        async with lifetime():
            await stream.write(call)

    if parameters.is_stream:
        return OwnStream(write)
    async with lifetime():
        frames, end = await stream.collect(call)
    if end.kind in ("aborted", "failed"):
        # These clients repeat failed requests, and tools have run.
        call.more_headers["x-should-retry"] = "false"
        refuse_end(end)
    return answer_json(whole(frames), headers=stream.headers)


# --- models and Chat Completions


async def _list_models(call: RouteCall) -> WholeAnswer:  # noqa: RUF029 - the handler of a route, which is awaited
    profiles = call.host.options.checked_profiles.by_id
    return answer_json(ModelList(data=tuple([ModelEntry(id=one) for one in profiles])))


async def _show_model(call: RouteCall) -> WholeAnswer:  # noqa: RUF029 - same
    profiles, name = call.host.options.checked_profiles, call.params["agent_id"]
    if name not in profiles.by_id:
        raise _model_unknown(profiles.explain_unknown())
    return answer_json(ModelEntry(id=name))


async def _complete(call: RouteCall) -> Result:
    session_id = call.head.headers.get("x-session-id")
    return await answer_openai_call(call, lambda plain, of: read_chat(plain, session_id, of), _complete_chat)


async def _complete_chat(call: RouteCall, profile: AgentProfile, asked: ChatAsked) -> Result:
    session = None
    if asked.session_id is not None:
        check_id("session_id", asked.session_id, of_session=True)
        session = await find_session(call, asked.session_id, profile.id)
    parameters = asked.parameters

    def own_of(session_id: str, seq: int, request_id: str | None) -> Completion:
        return Completion(
            id=f"chatcmpl-{request_id or f'{session_id}-{seq}'}",
            model=profile.id,
            created=now_ms() // 1_000,
            session_id="" if asked.is_kept else session_id,
            includes_usage=parameters.includes_usage or not parameters.is_stream,
            shows_reasoning=parameters.wants_reasoning,
            shows_tools=profile.show_tools == "reasoning",
        )

    stream = await carry_out_plan(
        call, _CHAT, own_of, profile=profile, asked=asked, decide=decide_chat, session=session
    )
    return await answer_openai(call, stream, parameters, whole_completion, is_nameless=not asked.is_kept)


def _aim_of_chat(call: RouteCall) -> CallAim:
    plain = call.body.plain
    metadata = plain.get("metadata")
    named = metadata.get("session_id") if isinstance(metadata, dict) else None
    given = call.head.headers.get("x-session-id")
    return CallAim(given or named or session_of_results(plain.get("messages")), call.client_id)


CHAT_REFUSALS: Final = (
    "approval_expired invalid_response invalid_arguments approval_mismatch too_large unsupported_parameter unsupported_tool"
    " images_unsupported messages_missing model_missing result_missing aborted cycle_failed provider_error timeout"
)

OPENAI_ROUTES: Final = (
    openai_route(
        "GET",
        "/v1/models",
        _list_models,
        does="lists the profiles as models",
        replies={200: ModelList},
        needs_user=False,
    ),
    openai_route(
        "GET",
        "/v1/models/{agent_id}",
        _show_model,
        does="shows a profile as a model",
        replies={200: ModelEntry},
        needs_user=False,
    ),
    openai_route(
        "POST",
        "/v1/chat/completions",
        _complete,
        does="answers a conversation, as the OpenAI API does",
        operation="stream",
        body=ChatCompletionBody,
        aim=_aim_of_chat,
        is_stream=True,
        frames="ChatCompletionChunk",
        replies={},
        refusals=f"{MESSAGE} {DECIDING} {CHAT_REFUSALS}",
        asks_plugins=True,
    ),
)
