"""The MCP server of a host. Needs the extra `mcp`: only `mcp_routes` imports this."""

import hashlib
import json
import shlex
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias, cast

import anyio
import mcp_types
import msgspec
import trio
from attrs import define
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.caching import CACHEABLE_METHODS, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateSecurity,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentrail import outside
from agentrail.abc.store import OwedRow
from agentrail.commands.slash_command import CommandDesk, SlashCommand
from agentrail.core.values.question_forms import read_form
from agentrail.errors import AgentrailError, AlreadyExists, StoreUnavailable
from agentrail.events import AgentEnd, Approval, AskUser, Question
from agentrail.frozen import thawed
from agentrail.gateway.calls import session_calls
from agentrail.gateway.chat_routes import own_request
from agentrail.gateway.error_responses import CallRefused, answer_to, refuse_call
from agentrail.gateway.node_token import derived_key
from agentrail.gateway.path_endpoint import LEFT_SECONDS, Gateway, RouteCall
from agentrail.gateway.protocols.response_stream import ResponseStream, SseWire, break_of, watched_stream
from agentrail.gateway.protocols.wire_calls import (
    check_decisions,
    own_session,
    refuse_end,
    stream_decided,
    stream_request,
)
from agentrail.gateway.request_parser import check_id, named_by_client
from agentrail.gateway.stream_watchdog import ForeignStream
from agentrail.gateway.whole_answer import header_pairs
from agentrail.host.admission import mint_session
from agentrail.host.agent_profiles import AgentProfile, ProfileContext, options_of_profile
from agentrail.host.hook_payloads import HandledResponse
from agentrail.host.identity import SessionOwner, is_derived, metadata_of_session, session_id_for
from agentrail.protocols import mcp_server as shapes
from agentrail.protocols.decisions import WireRefused
from agentrail.protocols.error_shapes import INVALID_PARAMS, NOT_FOUND, json_rpc_error
from agentrail.protocols.mcp_server import McpQuestion, McpState
from agentrail.protocols.response_state import PendingAnswer, Response
from agentrail.runtime.assembly import toolbox_of
from agentrail.runtime.journal_events import read_in_the_end
from agentrail.runtime.session_handle import Session
from agentrail.runtime.supervisor import CALL_ID, SessionSupervisor
from agentrail.wire.plain import encode_plain

_Context: TypeAlias = ServerRequestContext[Any, Any]
_Answer: TypeAlias = Mapping[str, Any]

_WIRE: Final[SseWire[None]] = SseWire(
    name=shapes.MCP, bridge=shapes.MCP_SERVER, on_disconnect="continue", encode=lambda _: b"\n", last="end"
)
_CALL: Final = "agentrail.call"
_KEYS: Final = "mcp_key"
_PROGRESS_SECONDS: Final = 0.25
_MAX_WATCHED: Final = 64
MAX_CONNECTIONS_OF_EACH: Final = 100
"""Limit on kept connections of one caller. One more ends the one that was unused for the longest time."""

_MAX_CALLERS: Final = 10_000


async def read_state_key(supervisor: SessionSupervisor) -> bytes:
    """Return the key that seals the state of waiting calls. A store keeps it for the next process, and all nodes derive the same one."""
    if supervisor.shared_node:
        return derived_key(await supervisor.nodes.secret(), "state of MCP calls")
    if not supervisor.keeps_owed:
        return outside.ids(32).encode()
    while not (rows := await supervisor.owed(_KEYS, after="", limit=1)):
        await supervisor.change_owed([OwedRow(kind=_KEYS, id=_KEYS, body=outside.ids(32).encode())])
    return rows[0].body


class _FixedLists(Server[Any]):
    """A server that announces changes of sessions only: profiles and commands are fixed while a host runs."""

    def get_capabilities(self, *args: Any, **kwargs: Any) -> mcp_types.ServerCapabilities:
        able = super().get_capabilities(*args, **kwargs)
        for one in (able.tools, able.prompts, able.resources):
            if one is not None:
                one.list_changed = False
        return able


class _Tool(msgspec.Struct, frozen=True):
    """A tool in the list: a profile, or with `own` one of its tools."""

    profile: AgentProfile
    shown: _Answer
    own: str | None = None


class McpService:
    def __init__(
        self, gateway: Gateway, key: bytes, local: RouteCall | None = None, *, node: str = ""
    ) -> None:
        """Serve calls of `/mcp`, or with `local` those of one user over other streams. `node` is this one, if there are others."""
        self._local = local
        self._node = node
        self._codec = AESGCMRequestStateCodec([key])
        hints: Any = dict.fromkeys(sorted(CACHEABLE_METHODS), CacheHint())
        self.server: Server[Any] = _FixedLists("agentrail", version=gateway.version, cache_hints=hints)
        security = RequestStateSecurity(
            codec=self._codec, ttl=shapes.STATE_SECONDS, bind_principal=self._principal_of
        )
        # In place of the tracing of the library, whose spans would begin traces of their own.
        self.server.middleware[:] = [RequestStateBoundary(security, default_audience="agentrail")]
        handlers: Mapping[str, tuple[type[Any], Callable[..., Awaitable[_Answer]]]] = {
            "tools/list": (mcp_types.PaginatedRequestParams, self._list_tools),
            "tools/call": (mcp_types.CallToolRequestParams, self._call_tool),
            "resources/list": (mcp_types.PaginatedRequestParams, _list_resources),
            "resources/templates/list": (mcp_types.PaginatedRequestParams, _list_templates),
            "resources/read": (mcp_types.ReadResourceRequestParams, self._read_resource),
            "prompts/list": (mcp_types.PaginatedRequestParams, _list_prompts),
            "prompts/get": (mcp_types.GetPromptRequestParams, _get_prompt),
            "subscriptions/listen": (mcp_types.SubscriptionsListenRequestParams, _listen),
        }
        for method, (params, handler) in handlers.items():
            self.server.add_request_handler(method, params, partial(self._handle, handler))
        most = 2 * gateway.limits.max_body_with_attachments_bytes  # the route has checked it
        self._manager = StreamableHTTPSessionManager(self.server, max_request_body_size=most)
        self._stateless = StreamableHTTPSessionManager(
            self.server, max_request_body_size=most, stateless=True
        )
        self._connections: dict[SessionOwner, dict[bytes, None]] = {}  # the least recently used ones first
        self._running: set[tuple[str, str]] = set()  # connections, each with the id of a request

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep connections of the older revision for the duration of the block."""
        async with self._manager.run(), self._stateless.run():
            yield

    def session_of_state(self, sealed: str) -> str | None:
        """Return the session of a waiting call, or None for a foreign state. The library checks all else in it."""
        with suppress(InvalidRequestState, ValueError, LookupError, TypeError):
            claims = json.loads(self._codec.unseal(sealed))
            return shapes.MCP_STATES.decode(claims["s"]).session_id
        return None

    async def answer(self, call: RouteCall, *, names_session: bool) -> None:
        """Answer a request over HTTP. A connection of the older revision belongs to its principal, and is kept by one node.

        A call about a session of another node than that of its connection is answered without it: no question reaches its client.
        """
        body = b"" if call.body is None else encode_plain(call.body.plain)
        pieces = [{"type": "http.request", "body": body}]

        async def receive() -> MutableMapping[str, Any]:
            # The library notices a disconnect, which cancels a call of the current revision only.
            return pieces.pop() if pieces else await call.receive()

        async def send(message: MutableMapping[str, Any]) -> None:
            if call.is_over:  # the library fails to take a notification that it has answered
                return
            if message["type"] == "http.response.start":
                await self._note_connection(scope, message)
                if self._node:
                    message["headers"] = [*map(self._name_node, message["headers"])]
            await call.write(dict(message))

        who, head = call.principal, call.head
        headers = {**head.headers, "content-length": f"{len(body)}"}
        manager = self._manager
        node, _, own = headers.get(shapes.CONNECTION_HEADER, "").rpartition(".")
        if node and node == self._node:
            headers[shapes.CONNECTION_HEADER] = own
        elif node and names_session:
            del headers[shapes.CONNECTION_HEADER]
            manager = self._stateless
        token = AccessToken(token="-", client_id=who.tenant_id, subject=who.user_id, scopes=[])  # noqa: S106
        scope = {
            "type": "http",
            "method": head.method,
            "path": head.path,
            "query_string": b"",
            "headers": header_pairs(headers),
            "user": AuthenticatedUser(token),
            _CALL: call,
        }
        kept = own if manager is self._manager else ""
        # Suppressed: the error of a connection that ended meanwhile.
        with self._holding_id(kept, call), suppress(anyio.ClosedResourceError):
            await manager.handle_request(scope, receive, send)

    @contextmanager
    def _holding_id(self, connection: str, call: RouteCall) -> Iterator[None]:
        """Refuse a request with the id of one that has no answer yet. The library would answer the wrong one, and never the other."""
        asked = {} if call.body is None else call.body.plain
        is_request = connection and "method" in asked and "id" in asked
        held = {(connection, str(asked["id"]))} if is_request else set()
        if held & self._running:
            refuse_call(
                "id_invalid", f"the request {asked['id']!r:.80} has no answer yet: give each an id of its own"
            )
        self._running |= held
        try:
            yield
        finally:
            self._running -= held

    async def _note_connection(self, scope: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Note that a connection is used. The library limits them too, but for all callers together."""
        name = dict(answer["headers"]).get(shapes.CONNECTION_HEADER.encode())
        if name is None or answer["status"] >= HTTPStatus.BAD_REQUEST:
            return
        owner = SessionOwner.of(scope[_CALL].principal)
        own = self._connections[owner] = self._connections.pop(owner, {})
        own.pop(name, None)
        if scope["method"] != "DELETE":
            own[name] = None
        if len(own) > MAX_CONNECTIONS_OF_EACH:
            oldest = next(iter(own))
            del own[oldest]
            ended = {**scope, "method": "DELETE", "headers": [(shapes.CONNECTION_HEADER.encode(), oldest)]}
            await self._manager.handle_request(ended, _receive_nothing, discard)
        if not own or len(self._connections) > _MAX_CALLERS:
            del self._connections[owner if not own else next(iter(self._connections))]

    def _name_node(self, header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        name, value = header
        is_connection = name.decode("latin-1").lower() == shapes.CONNECTION_HEADER
        return (name, f"{self._node}.".encode() + value) if is_connection else header

    def _call_of(self, ctx: _Context) -> RouteCall:
        call: RouteCall = self._local or cast("Any", ctx.request).scope[_CALL]
        return call

    def _principal_of(self, ctx: _Context) -> str:
        who = self._call_of(ctx).principal
        return json.dumps([who.tenant_id, who.user_id])

    async def _handle(self, handler: Callable[..., Awaitable[_Answer]], ctx: _Context, params: Any) -> Any:
        try:
            answer = await handler(self._call_of(ctx), ctx, params)
        except (AgentrailError, CallRefused, WireRefused) as raised:
            refused = answer_to(raised)
            is_current = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            if ctx.method != "tools/call":
                more = {"uri": params.uri} if hasattr(params, "uri") else None
                error = json_rpc_error(refused.code, refused.message, refused.status, more=more)
                is_gone = is_current and error["code"] == NOT_FOUND
                raise MCPError(**{**error, **({"code": INVALID_PARAMS} if is_gone else {})}) from None
            if is_current and refused.code == "cycle_waiting" and not _can_ask(ctx):
                needed: dict[str, Any] = {**refused.more, "requiredCapabilities": {"elicitation": {}}}
                raise MCPError(
                    mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, refused.message, needed
                ) from None
            answer = shapes.call_failure(refused.code, refused.message, refused.more)
        return {"resultType": "complete", **answer}

    # --- tools

    async def _tools(self, call: RouteCall) -> Mapping[str, _Tool]:
        profiles = call.host.options.checked_profiles
        found: dict[str, _Tool] = {}
        for profile in profiles.by_id.values():
            if "agent" in profile.expose:
                shown = shapes.tool_of_profile(profile.id, profile.name, profile.description)
                found.setdefault(shown["name"], _Tool(profile, shown))
            if "tools" in profile.expose:
                context = ProfileContext(
                    tenant_id=call.principal.tenant_id,
                    user_id=call.principal.user_id,
                    session_id=mint_session(),
                    agent_id=profile.id,
                )
                for spec in toolbox_of(await options_of_profile(profiles, profile, context)).specs:
                    if spec.answered_by == "code":
                        found.setdefault(spec.name, _Tool(profile, shapes.tool_of_spec(spec), spec.name))
        return found

    async def _list_tools(self, call: RouteCall, _ctx: _Context, _params: Any) -> _Answer:
        return {"tools": [one.shown for one in (await self._tools(call)).values()]}

    async def _call_tool(self, call: RouteCall, ctx: _Context, params: Any) -> _Answer:
        tool = (await self._tools(call)).get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"no tool is named {params.name!r:.200}")
        return await self._run(call, ctx, tool, params.arguments or {}, params)

    async def _read_resource(self, call: RouteCall, ctx: _Context, params: Any) -> _Answer:
        found = shapes.read_session_uri(params.uri)
        if found is not None:
            check_id("session_id", found[0], of_session=True)
            read = session_calls.read_messages if found[1] else session_calls.read_snapshot
            text = (await read(call.host, call.principal, found[0])).body.decode()
            return {"contents": [{"uri": params.uri, "mimeType": "application/json", "text": text}]}
        read_by = ((one, name, shapes.read_template(uri, params.uri)) for one, uri, name in _resources(call))
        profile, name, arguments = next((row for row in read_by if row[2] is not None), (None, "", None))
        if profile is None or arguments is None:
            refuse_call("session_unknown", "no resource has this address")
        answer = await self._run(call, ctx, _Tool(profile, {}, name), arguments, params)
        if answer.get("isError"):
            raise MCPError(INVALID_PARAMS, answer["content"][0]["text"], {"uri": params.uri})
        return answer if "inputRequests" in answer else shapes.contents_of_result(params.uri, answer)

    async def _run(
        self, call: RouteCall, ctx: _Context, tool: _Tool, arguments: Mapping[str, Any], params: Any
    ) -> _Answer:
        if params.request_state is not None:
            state = shapes.MCP_STATES.decode(params.request_state)
            session_id: str | None = state.session_id
            answers = {name: one.model_dump() for name, one in (params.input_responses or {}).items()}
            answering = partial(_answer, call, ctx, tool, state, answers)
        else:
            if tool.own is None:
                said, session_id = _read_call(arguments)
                if session_id is not None:
                    await own_session(call, session_id, tool.profile.id)
            else:
                said = f"Call the tool {tool.own}."
                session_id = await _begin_call(call, tool.profile, (tool.own, arguments))
            answering = partial(_ask, call, ctx, tool, said, session_id)
        if tool.own is None:
            return await answering()
        has_ended, is_kept = True, is_derived(session_id or "")
        try:
            answer = await answering()
            has_ended = "inputRequests" not in answer
        except MCPError:  # its questions are still open
            has_ended = False
            raise
        except CallRefused as refused:
            is_kept = is_kept and refused.answer.code != "cycle_waiting"
            raise
        finally:
            if has_ended and not is_kept:  # also if it was cancelled
                with trio.move_on_after(LEFT_SECONDS, shield=True), suppress(AgentrailError, CallRefused):
                    await call.host.delete_session(session_id or "", call.principal, purge=True)  # noqa: ASYNC102
        return answer


async def _receive_nothing() -> MutableMapping[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"type": "http.request", "body": b""}


async def discard(_: MutableMapping[str, Any]) -> None:
    await trio.lowlevel.checkpoint()


# --- a call


def _read_call(arguments: Mapping[str, Any]) -> tuple[str, str | None]:
    faults = shapes.faults_of_call(arguments)
    if faults:
        refuse_call("field_invalid", "; ".join(faults))
    return arguments["prompt"], arguments.get("session_id")


async def _begin_call(call: RouteCall, profile: AgentProfile, tool_call: tuple[str, _Answer]) -> str:
    """Create the session of a call of a tool itself. With an idempotency key it stays, for the same call sent again."""
    key = named_by_client(None, call.client_id)
    noted = {} if key is None else {"call": hashlib.sha256(encode_plain(tool_call)).hexdigest()}
    create = partial(call.host.create, agent_id=profile.id, tool_call=tool_call, keep=False)
    try:
        return (await create(call.principal, client_id=key, metadata=noted)).session_id
    except AlreadyExists:
        owner = SessionOwner.of(call.principal)
        known = await call.host.session(session_id_for(owner, f"{key}"), call.principal, only_root=True)
        if metadata_of_session(known.facts.user_data) != noted:
            refuse_call("client_id_reused", "this key was already used for another call: give each its own")
        return known.session_id


async def _ask(call: RouteCall, ctx: _Context, tool: _Tool, said: str, session_id: str | None) -> _Answer:
    name = named_by_client(None, call.client_id)
    request = own_request(call, said, session_id, agent_id=tool.profile.id, client_id=name)
    meta: Mapping[str, Any] = ctx.meta or {}
    trace = {name: meta[name] for name in ("traceparent", "tracestate") if name in meta}
    submitted = await call.host.submit(
        request, call.principal, on_disconnect="abort", via=shapes.MCP, trace=trace or call.trace
    )
    if isinstance(submitted, HandledResponse):
        named = None if tool.own is not None else session_id or ""
        return shapes.handled_answer(thawed(submitted.body), submitted.status, named)
    return await _follow(call, ctx, stream_request(_WIRE, submitted, None), tool, submitted.receipt.ref)


async def _answer(
    call: RouteCall, ctx: _Context, tool: _Tool, state: McpState, answers: Mapping[str, _Answer]
) -> _Answer:
    session = await call.host.session(state.session_id, call.principal, only_root=True)
    stream = await _decide(call, session, state.asked, answers)
    return await _follow(call, ctx, stream, tool, state.ref)


async def _follow(
    call: RouteCall, ctx: _Context, stream: ResponseStream[None], tool: _Tool, ref: str
) -> _Answer:
    request = stream.request
    try:
        return await _follow_to_end(call, ctx, stream, tool, ref)
    except trio.Cancelled:
        # A client of the current revision closes the response, and one of the older revision sends a notification. Its
        # lost connection cancels nothing, and neither does a call that was sent twice and is still followed.
        if request is None or request.release():
            with trio.move_on_after(LEFT_SECONDS, shield=True), suppress(AgentrailError):
                await stream.session.abort("the client cancelled the call", ref=ref, wait=False)  # noqa: ASYNC102
        raise
    finally:
        if request is not None:
            request.release()


async def _follow_to_end(
    call: RouteCall, ctx: _Context, stream: ResponseStream[None], tool: _Tool, ref: str
) -> _Answer:
    """Follow a response to its end, or to questions that the client has to answer in another call."""
    session = stream.session
    while True:
        watched = _Watched(ctx)
        frames, end = await stream.collect(call, watched.look)
        if end.kind != "paused":
            break
        asked = watched.asked
        questions = shapes.mcp_questions(asked)
        if not questions or not _can_ask(ctx, *questions):
            _refuse_waiting(session.session_id, asked, questions, is_tool=tool.own is not None)
        digests = {one.id: one.digest for one in questions}
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            state = McpState(session_id=session.session_id, ref=ref, asked=digests)
            return shapes.input_required(state, questions)
        stream = await _decide(call, session, digests, await _elicit(call, ctx, questions))
    if not isinstance(end.event, AgentEnd):
        refuse_end(end)
    if tool.own is not None:
        return shapes.result_of_call(frames, CALL_ID)
    return shapes.call_answer(session.reads_answers()(end.event.messages), session.session_id, end)


@define
class _Watched:
    """A call as its client sees it."""

    ctx: _Context
    asked: Mapping[str, tuple[str, PendingAnswer]] = MappingProxyType({})
    seen: int = 0
    count: int = 0
    last_at: float = -_PROGRESS_SECONDS

    async def look(self, frames: Sequence[_Answer], response: Response) -> bool:
        """Report progress, and return whether a running tool asks its user. Other questions suspend the cycle."""
        self.asked = response.asked
        if self.ctx.meta and "progress_token" in self.ctx.meta:
            lines = [frame["line"] for frame in frames[self.seen :] if "line" in frame]
            self.seen = len(frames)
            if trio.current_time() - self.last_at >= _PROGRESS_SECONDS and (
                text := shapes.text_so_far(frames)
            ):
                self.last_at = trio.current_time()
                lines.append(text)
            for line in lines:
                self.count += 1
                await self.ctx.session.report_progress(self.count, message=line)
        return response.end is None and any(isinstance(one, AskUser) for _, one in self.asked.values())


def _can_ask(ctx: _Context, *questions: McpQuestion) -> bool:
    able = ctx.session.client_capabilities
    asks = None if able is None else able.elicitation
    return asks is not None and (asks.url is not None or all(one.url is None for one in questions))


async def _elicit(call: RouteCall, ctx: _Context, questions: Sequence[McpQuestion]) -> Mapping[str, _Answer]:
    answers, scope = {}, trio.CancelScope()
    stream = ForeignStream(scope.cancel)
    with watched_stream(call, stream), scope:
        for one in questions:
            if one.url is not None:
                result = await ctx.session.elicit_url(one.message, one.url, one.id, ctx.request_id)
            else:
                schema = one.form["requestedSchema"]
                result = await ctx.session.elicit_form(one.message, schema, ctx.request_id)
            answers[one.id] = result.model_dump()
    if scope.cancelled_caught:
        refuse_call(*break_of(stream.reason))
    return answers


async def _decide(
    call: RouteCall, session: Session, asked: Mapping[str, str], answers: Mapping[str, _Answer]
) -> ResponseStream[None]:
    status = await session.status()
    waiting: tuple[Approval | Question, ...] = (*status.all_approvals, *status.all_questions)
    pending = tuple(map(shapes.mcp_question, waiting))
    try:
        decided = shapes.decide_mcp_answers(asked, pending, answers)
    except WireRefused as refused:
        raise MCPError(INVALID_PARAMS, refused.message, {"code": refused.code}) from None
    if not decided and answers:
        _refuse_waiting(session.session_id, asked, pending)
    check_decisions(session, decided)
    return await stream_decided(call, _WIRE, session, None, decisions=decided, status=status, response_id="")


def _refuse_waiting(
    session_id: str, asked: Iterable[str], questions: Sequence[McpQuestion], *, is_tool: bool = False
) -> NoReturn:
    words = shapes.waiting_words(session_id, questions, is_tool=is_tool)
    refuse_call("cycle_waiting", words, more={"session_id": session_id, "pending": [*asked]})


# --- resources, prompts and changes


async def _list_resources(call: RouteCall, _ctx: _Context, params: Any) -> _Answer:
    asked = session_calls.AskedSessions(cursor=params.cursor)
    page = msgspec.json.decode((await session_calls.list_own_sessions(call.host, call.principal, asked)).body)
    found = [(one["session_id"], one.get("title") or one["session_id"]) for one in page["sessions"]]
    more = {"nextCursor": page["next_cursor"]} if page.get("next_cursor") else {}
    fixed = [] if params.cursor else [(uri, name) for _, uri, name in _resources(call) if "{" not in uri]
    listed: list[_Answer] = [{"uri": uri, "name": name} for uri, name in fixed]
    return {"resources": listed + [one for pair in found for one in shapes.resources_of(*pair)], **more}


async def _list_templates(call: RouteCall, _ctx: _Context, _params: Any) -> _Answer:  # noqa: RUF029 - a handler
    own = [{"uriTemplate": uri, "name": name} for _, uri, name in _resources(call) if "{" in uri]
    return {"resourceTemplates": [*shapes.RESOURCE_TEMPLATES, *own]}


def _resources(call: RouteCall) -> Iterator[tuple[AgentProfile, str, str]]:
    for profile in call.host.options.checked_profiles.by_id.values():
        for template, name in profile.resources.items():
            yield profile, template, name


def _prompts(call: RouteCall) -> Mapping[str, SlashCommand]:
    commands = call.host.commands.registry.commands
    return {one.name: one for one in commands if one.in_history and not one.needs_session}


async def _list_prompts(call: RouteCall, _ctx: _Context, _params: Any) -> _Answer:  # noqa: RUF029 - a handler
    found = _prompts(call).values()
    return {"prompts": [shapes.shown_prompt(one.name, one.description, one.arguments) for one in found]}


async def _get_prompt(call: RouteCall, ctx: _Context, params: Any) -> _Answer:
    command = _prompts(call).get(params.name)
    if command is None:
        raise MCPError(INVALID_PARAMS, f"no prompt is named {params.name!r:.200}")
    declared, given = shapes.prompt_arguments(command.arguments), dict(params.arguments or {})
    missing = [name for name, is_needed in declared.items() if is_needed and name not in given]
    if (
        missing
        and "arguments" not in given
        and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        and _can_ask(ctx)
    ):
        form = shapes.form_of_arguments(command.name, missing)
        answer = (params.input_responses or {}).get(params.name)
        if answer is None:
            asked = {"method": "elicitation/create", "params": form}
            return {"resultType": "input_required", "inputRequests": {params.name: asked}}
        read = read_form(form["requestedSchema"], answer.model_dump().get("content"))
        if isinstance(read, str):
            raise MCPError(INVALID_PARAMS, read)
        given |= read
    ordered = {name: given[name] for name in (*declared, *given) if name in given}
    text = given["arguments"] if given.keys() == {"arguments"} else shlex.join(ordered.values())
    desk = CommandDesk(agent=call.host.options.checked_profiles.default_id)
    answered = await call.host.commands.registry.run(params.name, text, desk)
    return {"messages": [{"role": "user", "content": {"type": "text", "text": answered.prompt or ""}}]}


async def _listen(call: RouteCall, ctx: _Context, params: Any) -> _Answer:
    bus = InMemorySubscriptionBus()
    handler = ListenHandler(bus)
    stream = ForeignStream(handler.close)
    began: list[trio.Event] = []
    async with trio.open_nursery() as nursery:
        for uri in (params.notifications.resource_subscriptions or [])[:_MAX_WATCHED]:
            found = shapes.read_session_uri(uri)
            if found is not None:
                began.append(trio.Event())
                nursery.start_soon(_publish, call, found[0], uri, bus, began[-1])
        for one in began:  # so that no change after the answer is missed
            await one.wait()
        with watched_stream(call, stream):
            answer = await handler(ctx, params)
        nursery.cancel_scope.cancel(reason="the client listens no longer")
    return answer.model_dump(by_alias=True, exclude_none=True)


async def _publish(
    call: RouteCall, session_id: str, uri: str, bus: InMemorySubscriptionBus, began: trio.Event
) -> None:
    """Publish changes of a session, once per burst. An unknown one never changes. A late start, after the store was away, counts as a change."""
    find = partial(call.host.session, session_id, call.principal)
    with suppress(AgentrailError):
        try:
            session = await find()
        except StoreUnavailable:
            began.set()
            session = await read_in_the_end(find)
        async with session.subscribe(deltas=False) as events:
            if began.is_set():
                await bus.publish(ResourceUpdated(uri))
            began.set()
            async for _ in events:
                with suppress(trio.WouldBlock, trio.EndOfChannel):
                    while True:
                        events.next_nowait()
                await bus.publish(ResourceUpdated(uri))
    began.set()
