"""One connection to a server: its transport, and a session of the library over it.

Imports `mcp`, which takes half a second and 60 MiB, so only `source.py` loads it, when a server is connected.
"""

import functools
import ipaddress
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio
import httpcore2
import httpx2
import mcp_types as types
import trio
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry import context as ambient
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from pydantic import TypeAdapter, ValidationError

from agentrail import outside
from agentrail.abc import OpenServerProcess, Secret, ServerProcess
from agentrail.core.values.trace_carriers import traceparent_of
from agentrail.distribution import NAME
from agentrail.frozen import too_large
from agentrail.tools.mcp.call_result import (
    CallFailed,
    absent_server,
    listed_resources,
    lost_call,
    refused_call,
)
from agentrail.tools.mcp.input_rounds import MAX_QUESTION_ROUNDS, OUR_ANSWERS, InputRounds, asks_for_input
from agentrail.tools.mcp.message_lines import BadServer, ErrorTail, MessageReader, line_cutter
from agentrail.tools.mcp.oauth_login import LOGIN_CODE, NOT_SENT_CODE, REFUSAL, ServerLogin, first_fault_of
from agentrail.tools.mcp.server_options import McpServer, is_loopback_url
from agentrail.tools.mcp.tool_listing import MAX_PAGES
from agentrail.web.backend import GuardedBackend, context_of_system
from agentrail.web.dns import SystemNames
from agentrail.web.url_policy import is_public

# --- standard streams. Not the library's transport: that one sleeps on when its server is dead, leaves grandchildren of an obedient
# server alive, and has no limit on a line.

_PIECE_BYTES: Final = 1 << 16
_LARGE_BYTES: Final = 1 << 18
"""Lines of this size are decoded in a thread: a megabyte takes milliseconds."""

_MAX_UNSENT: Final = 1_000
"""Messages that may wait for a server that does not read. The sender of the next one waits. Also a limit on its open requests."""

_MAX_LINES: Final = 32
"""Messages in one write."""

_LAST_WORDS_SECONDS: Final = 0.5


class StdioTransport:
    """Messages from and to one process. `run` carries them until the process ends."""

    def __init__(self, process: ServerProcess, max_message_bytes: int) -> None:
        self._process = process
        self._max_bytes = max_message_bytes
        self._to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, self._to_server = anyio.create_memory_object_stream[SessionMessage](_MAX_UNSENT)
        self.streams: Final = (received, sent)
        self.errors: Final = ErrorTail()
        self.reader: Final = MessageReader()

    async def run(self) -> None:
        """Carry messages.

        Raises:
            BadServer: The process ended, or broke the protocol. Callers were notified first.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                nursery.start_soon(self._read_errors)
                await self._read()
                nursery.cancel_scope.cancel(reason="the server has closed its output")
        finally:
            self._to_session.close()  # wakes all callers
            self._to_server.close()
        # Shielded, because the session, which fails in consequence, cancels this task before the reason is known.
        with trio.CancelScope(shield=True):
            raise BadServer(await self._last_words())

    async def _read(self) -> None:
        cutter, reader = line_cutter(self._max_bytes), self.reader
        while data := await self._receive():
            for line in cutter.feed(data):
                is_large = len(line) > _LARGE_BYTES
                value = await outside.offload(reader.read, line) if is_large else reader.read(line)
                message = None if value is None else _message_of(value)
                if message is not None:
                    await self._to_session.send(SessionMessage(message))
                elif value is not None:
                    reader.dropped += 1

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._process.stdout.receive_some(_PIECE_BYTES))
        except trio.BrokenResourceError:
            return b""

    async def _write(self) -> None:
        async for first in self._to_server:
            lines = [_line_of(first)]
            # One write for all that wait: each wakes the server, which takes the processor from the loop.
            while len(lines) < _MAX_LINES and self._to_server.statistics().current_buffer_used:
                lines.append(_line_of(self._to_server.receive_nowait()))
            try:
                await self._process.stdin.send_all(b"".join(lines))
            except trio.BrokenResourceError:  # the reader learns of the end
                return

    async def _read_errors(self) -> None:
        while data := await self._process.stderr.receive_some(_PIECE_BYTES):
            self.errors.add(bytes(data))

    async def _last_words(self) -> str:
        with trio.move_on_after(_LAST_WORDS_SECONDS):
            await self._read_errors()
        with trio.move_on_after(_LAST_WORDS_SECONDS):
            code = await self._process.wait()
            return f"it was ended by signal {-code}" if code < 0 else f"it exited with code {code}"
        return "it closed its output"


def _line_of(sent: SessionMessage) -> bytes:
    return f"{sent.message.model_dump_json(by_alias=True, exclude_unset=True)}\n".encode()


def _message_of(value: Mapping[str, Any]) -> Any:
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return None  # an answer to nothing, or no JSON-RPC at all: dropped, as the library does
    if isinstance(message, types.JSONRPCError):
        message.error.data = _FROM_PROCESS
    return message


# --- HTTP. The library's client closes for good on the first broken connection, with all calls in flight. So a broken connection
# becomes an answer.

LOST_CODE: Final = -32_000
"""The library's own code of a closed connection."""

_FROM_PROCESS: Final = "from the process"
_FROM_TRANSPORT: Final = "from the transport"
"""Mark errors by their origin: a server may use each code of ours."""

_UNREADABLE: Final = "Failed to parse "
_LOST_WORDS: Final = ("Connection closed", "SSE stream ", _UNREADABLE)
"""How the library's own errors of a lost answer begin. It marks them in no other way."""

LISTING_FAULTS: Final = (MCPError, BadServer)
"""Raised for a list that a server does not give, or gives in an invalid form."""

_CONNECT_SECONDS: Final = 5.0
_shared_tls: Final = functools.cache(context_of_system)
"""One context for all servers: a context takes 0.8 MiB."""

_READ_SECONDS: Final = 300.0
_WITHOUT_ACCESS: Final = frozenset({401, 403})
_OF_GATEWAYS: Final = frozenset({502, 504})  # sent in place of an answer: the server may have taken the call
_SESSION_ID: Final = "mcp-session-id"

_STREAM_SECONDS: Final = 0.02
_MAX_STREAM_SECONDS: Final = 30.0
"""Pause before a stream is opened, times the streams that its task opened. The library itself waits as long as the server says."""

_STREAMS: Final = ContextVar("streams", default=0)


def _network_of(server: McpServer) -> Any:
    """Connect only to addresses that were judged. Of the type that httpcore has, and httpcore2 takes for its own."""
    takes_all = server.allow_private or is_loopback_url(server.url or "")

    def judge(host: str, _port: int, found: Sequence[str]) -> Sequence[str]:
        public = [one for one in found if is_public(ipaddress.ip_address(one.partition("%")[0]))]
        if not (takes_all or public):
            message = f"{host} leads to a private address: allow_private = true accepts that"
            raise httpcore2.ConnectError(message)
        return found if takes_all else public

    failures = (httpcore2.ConnectError, httpcore2.ConnectTimeout)
    return GuardedBackend(judge, SystemNames(), httpcore2.TrioBackend(), failures)


class _Body(httpx2.AsyncByteStream):
    """A decompressed body that ends where its connection breaks, and has a size limit. In a stream, the library limits each event."""

    def __init__(self, response: httpx2.Response, max_bytes: int, note_cut: Callable[[], None]) -> None:
        self._response = response
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        self._left = math.inf if is_stream else max_bytes
        if "," in response.headers.get("content-encoding", ""):
            self._left = 0  # compressed twice, a few bytes become millions of lines
        self._note_cut = note_cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._response.aiter_bytes():
                self._left -= len(part)
                if self._left < 0:
                    return
                for start in range(0, len(part), _PIECE_BYTES):
                    yield part[start : start + _PIECE_BYTES]
                    await trio.lowlevel.checkpoint()  # a compressed stream of comments would hold the loop
        except (httpx2.TimeoutException, httpx2.DecodingError):
            return
        except httpx2.TransportError:
            self._note_cut()

    async def aclose(self) -> None:
        await self._response.aclose()


class GuardedHttp(httpx2.AsyncBaseTransport):
    """Sends requests to one origin, and answers a broken connection with an error of that request alone."""

    def __init__(
        self, server: McpServer, tls: ssl.SSLContext, broken: trio.Event, *, takes_all_origins: bool = False
    ) -> None:
        self._broken = broken
        self.note_gap: Callable[[], None] = lambda: None  # called when a stream that brings changes was cut
        self._max_bytes = server.max_message_bytes
        self._origin = None if takes_all_origins else _origin_of(httpx2.URL(server.url or ""))
        # With logins, these answers begin one.
        self._explained = frozenset() if server.auth == "oauth" else _WITHOUT_ACCESS
        self._inner = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False)
        # The library offers no public way to give a pool its network.
        self._inner._pool._network_backend = _network_of(server)  # noqa: SLF001 - see above

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if REFUSAL in request.extensions:
            return _failed(request, *request.extensions[REFUSAL])
        if self._origin not in {None, _origin_of(request.url)}:
            return _failed(request, NOT_SENT_CODE, "the address is of another origin")
        if request.method == "DELETE":  # ends a session, and the next one waits for it
            request.extensions["timeout"]["read"] = _CONNECT_SECONDS
        if request.method == "GET" and self._origin is not None:
            _STREAMS.set(_STREAMS.get() + 1)
            await trio.sleep(min(_STREAMS.get() * _STREAM_SECONDS, _MAX_STREAM_SECONDS))
        # No call depends on the stream of a GET, and the library opens it again.
        note_cut = self.note_gap if request.method == "GET" else self._broken.set
        try:
            response = await self._inner.handle_async_request(request)
        except (OSError, httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            self._broken.set()
            return _failed(request, NOT_SENT_CODE, str(error) or type(error).__name__)
        except httpx2.TransportError as error:
            note_cut()
            return _failed(request, LOST_CODE, str(error) or type(error).__name__)
        status = response.status_code
        names_session = request.method == "POST" and _SESSION_ID in request.headers
        is_gone = names_session and status == httpx2.codes.NOT_FOUND
        if is_gone or (status in _OF_GATEWAYS and self._origin is not None):
            await response.aclose()
            if is_gone:
                self._broken.set()
            return _failed(request, LOST_CODE, f"it answered HTTP {status}")
        if status in self._explained:
            await response.aclose()
            said = f"it answered HTTP {status}: check auth and headers of this server"
            return _failed(request, types.INTERNAL_ERROR, said)
        headers = [one for one in response.headers.multi_items() if one[0] != "content-encoding"]
        body = _Body(response, self._max_bytes, note_cut)
        answer = httpx2.Response(status, headers=headers, stream=body, extensions=response.extensions)
        answer.encoding = "utf-8"  # whatever it says: Python knows character sets that take quadratic time
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


def http_client(server: McpServer, transport: GuardedHttp, login: ServerLogin | None) -> httpx2.AsyncClient:
    """Create the HTTP client of a server. It follows no redirect by itself and reads no environment variable."""
    given = {
        name: value if isinstance(value, str) else value.reveal() for name, value in server.headers.items()
    }
    if isinstance(server.auth, Secret):
        given["Authorization"] = f"Bearer {server.auth.reveal()}"
    return httpx2.AsyncClient(
        transport=transport,
        headers=given,
        auth=login,
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=max(_READ_SECONDS, server.timeout_seconds)),
        trust_env=False,
    )


def _login_client(server: McpServer, tls: ssl.SSLContext) -> httpx2.AsyncClient:
    """Create the HTTP client of the authorization server, without headers and tokens of the MCP server."""
    transport = GuardedHttp(server, tls, trio.Event(), takes_all_origins=True)
    return httpx2.AsyncClient(transport=transport, timeout=_CONNECT_SECONDS, trust_env=False)


def _failed(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    error = {"code": code, "message": message, "data": _FROM_TRANSPORT}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


def _origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


# --- the session

AskForm: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Asks the user of a call, given the parameters of an elicitation, or its model, given those of a sampling, and returns the result."""

ReportProgress: TypeAlias = Callable[[str], None]

_RAW: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])


@contextmanager
def _explained() -> Iterator[None]:
    """Report an answer that the library cannot read in one sentence, where it quotes the answer in many lines."""
    try:
        yield
    except ValidationError as error:
        message = f"its answer is invalid: {first_fault_of(error)}"
        raise BadServer(message) from None
    except MCPError as error:
        if not error.message.startswith(_UNREADABLE):
            raise
        message = "its answer is not a message of JSON-RPC"
        raise BadServer(message) from None


class _Dispatcher(JSONRPCDispatcher[Any]):
    """Keeps the tools as the server lists them: the library refuses a whole page for one bad schema."""

    version: str = ""
    page: Sequence[tuple[Any, bool]] = ()  # each tool, and whether the library takes it
    dropped: int = 0
    asked: int = 0  # requests of the server that are not answered yet

    async def send_raw_request(
        self, method: str, params: Any, opts: Any = None, **more: Any
    ) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **more)
        if method == "tools/list":
            tools = raw["tools"] if isinstance(raw.get("tools"), list) else []
            are_taken = self._takes(tools)
            self.page = [(one, are_taken or self._takes([one])) for one in tools]
            return {**raw, "tools": [one for one, is_taken in self.page if is_taken]}
        return raw

    def _takes(self, tools: list[Any]) -> bool:
        """Return whether the library takes these tools: they fit its own types, and those of the revision if it has any."""
        listed = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            types.ListToolsResult.model_validate(listed, by_name=False)
            with suppress(KeyError):
                validate_server_result("tools/list", self.version, listed)
        except ValidationError:
            return False
        return True

    async def _dispatch_request(self, *request: Any) -> None:
        # Each one is a task of the library until its answer is sent. A server that reads no answers gets no more of them.
        if self.asked < _MAX_UNSENT:
            self.asked += 1
            await super()._dispatch_request(*request)
        else:
            self.dropped += 1

    async def _handle_request(self, *request: Any) -> None:
        try:
            await super()._handle_request(*request)
        finally:
            self.asked -= 1

    def _dispatch_notification(self, *notification: Any) -> None:
        try:
            super()._dispatch_notification(*notification)
        except OverflowError:  # a progress that no float holds
            self.dropped += 1

    def _resolve_pending(self, request_id: Any, outcome: Any) -> None:
        # The library drops an unknown answer, and a second one, without a count.
        self.dropped += request_id is None or coerce_request_id(request_id) not in self._pending
        super()._resolve_pending(request_id, outcome)


class ServerConnection:
    """A connected server.

    Attributes:
        workspaces: The workspaces that a server with `roots` is told.
        log: Called with the level and the data of each log message.
        changed: Set when the tools or prompts of the server may have changed. Replaced before they are listed.
    """

    def __init__(
        self, dispatcher: _Dispatcher, stdio: StdioTransport | None, gone: trio.Event, server: McpServer
    ) -> None:
        self._dispatcher = dispatcher
        self._server = server
        self.workspaces: Sequence[str] = ()
        self.log: Callable[[str, object], None] = lambda _level, _data: None
        self._asking: dict[AskForm, int] = {}  # calls in flight, with the questions that each has asked
        self.session: Final = ClientSession(
            dispatcher=dispatcher,
            client_info=types.Implementation(name="agentrail", version=metadata.version(NAME)),
            elicitation_callback=self._elicit,
            sampling_callback=self._sample if server.sampling else None,
            list_roots_callback=self._list_roots if server.roots else None,
            logging_callback=self._log,
            message_handler=self._hear,
        )
        self.changed: trio.Event = trio.Event()
        self._gone = gone
        self._stdio = stdio
        self.errors: Final = None if stdio is None else stdio.errors

    async def connect(self) -> None:
        """Try the current revision, then the older handshake. The caller has the deadline.

        Raises:
            BadServer: An answer is invalid.
        """
        try:
            await self.session.discover()
        except (MCPError, RuntimeError, ValidationError):
            with _explained():
                await self.session.initialize()
        self._dispatcher.version = self.session.protocol_version or ""

    @property
    def is_current(self) -> bool:
        """Whether it speaks the current revision, in which a question is the answer of a call."""
        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def dropped(self) -> int:
        """Lines that were no message, and answers to nothing."""
        lines = 0 if self._stdio is None else self._stdio.reader.dropped
        return self._dispatcher.dropped + lines

    @property
    def instructions(self) -> str:
        """The server's instructions for the model, if they are wanted."""
        return (self.session.instructions or "") if self._server.instructions else ""

    def offers(self, name: str) -> bool:
        """Return whether the server declared a capability: `tools`, `resources` or `prompts`."""
        return getattr(self.session.server_capabilities, name, None) is not None

    async def list_tools(self) -> list[Any]:
        """Return all tools as the server lists them, of at most a hundred pages.

        Raises:
            BadServer: A page is invalid.
        """
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            with _explained():
                listed = await self.session.list_tools(params=params)
            kept = {one.name for one in listed.tools}
            # The library refuses tools whose headers the revision forbids. Others that it refuses are named by our own reading.
            found += [
                {**one, "inputSchema": None} if is_taken and one["name"] not in kept else one
                for one, is_taken in self._dispatcher.page
            ]
            cursor = listed.next_cursor
            if cursor is None:
                break
        return found

    async def wait_gone(self) -> None:
        """Wait until the session is gone: with a broken request in the older revision, never in the current one."""
        if self.is_current:
            await trio.sleep_forever()
        await self._gone.wait()

    async def list_resources(self) -> Mapping[str, Any]:
        """Return all resources, then all templates, of at most a hundred pages each, as the result of a call."""
        resources = await self._listed(types.ListResourcesRequest, "resources")
        templates = await self._listed(types.ListResourceTemplatesRequest, "resourceTemplates")
        return listed_resources([*resources, *templates])

    async def list_prompts(self) -> list[Mapping[str, Any]]:
        """Return all prompts, of at most a hundred pages. None if the server's list is invalid."""
        try:
            return await self._listed(types.ListPromptsRequest, "prompts") if self.offers("prompts") else []
        except CallFailed:
            return []

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the messages of a prompt. Raises as `call` does."""
        params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
        got = await self._send(types.GetPromptRequest(params=params))
        if "messages" not in got:
            raise refused_call(types.INVALID_REQUEST, "it asks back, which prompts cannot answer")
        return got

    async def _send(self, request: Any) -> Mapping[str, Any]:
        with self._translated():
            result: Mapping[str, Any] = await self.session.send_request(request, _RAW)
            return result

    async def _listed(self, request: Any, key: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            try:
                page = await self._send(request(params=params))
            except CallFailed as failed:
                if failed.code == types.METHOD_NOT_FOUND:  # a server may have resources and no templates
                    break
                raise
            found += page.get(key) or []
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        return found

    async def read_resource(self, uri: str) -> Mapping[str, Any]:
        """Read a resource, and return its contents as blocks of a call's result. Raises as `call` does."""
        read = await self._send(types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri)))
        return {"content": [{"type": "resource", "resource": one} for one in read.get("contents") or []]}

    async def follow_changes(self) -> bool:
        """Follow the stream of changes until it ends. Return whether it can be opened again: the older revision has none."""
        if not self.is_current:
            return False
        try:
            async with listen(self.session, tools_list_changed=True, prompts_list_changed=True) as changes:
                async for _ in changes:
                    self.changed.set()
        except SubscriptionLost:
            return True
        except MCPError as error:
            return error.code != types.METHOD_NOT_FOUND
        return True

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        rounds: InputRounds,
        *,
        report: ReportProgress,
        ask: AskForm,
    ) -> Mapping[str, Any]:
        """Call a tool, with the answers to the questions of its last result. Return its result, which may ask again.

        Raises:
            ServerLost: The connection broke, and the call may have taken effect.
            CallFailed: There is no result for another reason.

        Cancellation: The server is told before the cancellation propagates.
        """

        async def progressed(progress: float, total: float | None, message: str | None) -> None:  # noqa: RUF029 - a callback of the library
            share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            report(share if message is None else f"{message} ({share})")

        params: dict[str, Any] = {"name": name, "arguments": dict(arguments), "requestState": rounds.sealed}
        params["inputResponses"] = dict(rounds.answers) or None
        self._asking[ask] = 0
        try:
            with self._translated():
                request = types.CallToolRequest(params=types.CallToolRequestParams.model_validate(params))
                raw: Mapping[str, Any] = await self.session.send_request(
                    request, _RAW, progress_callback=progressed
                )
                return {**raw, OUR_ANSWERS: await self._answers(raw, ask)} if asks_for_input(raw) else raw
        finally:
            del self._asking[ask]

    async def _answers(self, raw: Mapping[str, Any], ask: AskForm) -> dict[str, Any]:
        """Return the answers that need no user."""
        wanted = types.InputRequiredResult.model_validate(raw, by_name=False).input_requests or {}
        others = {key: one for key, one in wanted.items() if not isinstance(one, types.ElicitRequest)}
        return {key: _plain(await self._answer(one, ask)) for key, one in others.items()}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ValidationError as error:
            raise refused_call(
                types.INTERNAL_ERROR, f"its answer is invalid: {first_fault_of(error)}"
            ) from None
        except MCPError as error:
            is_ours = error.data == _FROM_TRANSPORT
            if is_ours and error.code in {LOGIN_CODE, NOT_SENT_CODE}:
                state = "needs_login" if error.code == LOGIN_CODE else "restarting"
                raise absent_server(self._server.name, state) from None
            is_lost = is_ours or (error.data is None and error.message.startswith(_LOST_WORDS))
            if is_lost and error.code in {LOST_CODE, types.PARSE_ERROR}:
                raise lost_call(self._server.name) from None
            raise refused_call(error.code, error.message) from None

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Answer a question of the older revision, or decline it."""
        plain = _plain(params)
        ask = self._asker(plain)
        if ask is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult.model_validate(await ask(plain))

    def _asker(self, plain: Mapping[str, Any]) -> AskForm | None:
        """Return the only call in flight, as the older revision names none. None for a call that asks too much."""
        asking = [*self._asking]
        if len(asking) != 1 or too_large(plain) is not None:
            return None
        self._asking[asking[0]] += 1
        return asking[0] if self._asking[asking[0]] <= MAX_QUESTION_ROUNDS else None

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Answer a request of the older revision for the model's words, by the rules of `_elicit`."""
        ask = self._asker(_plain(params))
        if ask is None:
            message = "several calls are in flight, or none, or it asks too much"
            return types.ErrorData(code=types.INVALID_REQUEST, message=message)
        try:
            return await _sampled(params, ask)
        except CallFailed as failed:
            return types.ErrorData(code=failed.code, message=str(failed))

    async def _list_roots(self, context: ClientRequestContext | None) -> types.ListRootsResult:  # noqa: RUF029 - a callback of the library
        roots = [types.Root.model_validate({"uri": Path(one).as_uri()}) for one in self.workspaces]
        return types.ListRootsResult(roots=roots)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:  # noqa: RUF029 - a callback of the library
        self.log(params.level, params.data)

    async def _answer(
        self, request: object, ask: AskForm
    ) -> types.CreateMessageResult | types.ListRootsResult:
        match request:
            case types.CreateMessageRequest() if self._server.sampling:
                return await _sampled(request.params, ask)
            case types.ListRootsRequest() if self._server.roots:
                return await self._list_roots(None)
            case _:
                raise refused_call(types.INVALID_REQUEST, "it asked for something that was not offered to it")

    async def _hear(self, message: object) -> None:  # noqa: RUF029 - a callback of the library
        if isinstance(message, types.ToolListChangedNotification | types.PromptListChangedNotification):
            self.changed.set()


def _plain(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    return plain


async def _sampled(params: Any, ask: AskForm) -> types.CreateMessageResult:
    return types.CreateMessageResult.model_validate(await ask(_plain(params)))


@contextmanager
def in_trace(traceparent: str) -> Iterator[None]:
    """Let requests of the block carry this trace, and nothing else of the caller's OpenTelemetry context.

    Without it the library would send the caller's baggage to every server, and begin traces of its own.
    """
    _, trace, span, flags = (int(part, 16) for part in traceparent.split("-"))
    parent = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags))
    token = ambient.attach(set_span_in_context(NonRecordingSpan(parent), ambient.Context()))
    try:
        yield
    finally:
        ambient.detach(token)


def new_trace() -> str:
    """Return the trace of a request that belongs to no call."""
    return traceparent_of(outside.ids(16), outside.ids(8), sampled=False)


@asynccontextmanager
async def open_connection(
    server: McpServer, open_process: OpenServerProcess, login: ServerLogin | None = None
) -> AsyncIterator[ServerConnection]:
    """Open the transport of a server, and a session over it. Leaving the block ends its process.

    Raises:
        BadServer: It ended. Also from within the block, in a group with what else was raised.
        OSError: Its program cannot be started.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(in_trace(new_trace()))
        stdio: StdioTransport | None = None
        gone = trio.Event()
        if server.command:
            given = {name: one if isinstance(one, str) else one.reveal() for name, one in server.env.items()}
            network = server.network if server.sandbox else None
            opening = open_process(server.command, directory=str(server.cwd), env=given, network=network)
            process = await stack.enter_async_context(opening)
            nursery = await stack.enter_async_context(trio.open_nursery())
            stack.callback(nursery.cancel_scope.cancel, reason="the connection is closed")
            stdio = StdioTransport(process, server.max_message_bytes)
            nursery.start_soon(stdio.run)
            streams: Any = stdio.streams
        else:
            tls = await outside.offload(_shared_tls)
            if login is not None:
                login.send = (await stack.enter_async_context(_login_client(server, tls))).send
            transport = GuardedHttp(server, tls, gone)
            transport.note_gap = lambda: connection.changed.set()  # noqa: PLW0108 - of the event of that time
            client = await stack.enter_async_context(http_client(server, transport, login))
            carrying = streamable_http_client(
                cast("str", server.url), http_client=client, max_sse_event_size=server.max_message_bytes
            )
            streams = await stack.enter_async_context(carrying)
        connection = ServerConnection(_Dispatcher(*streams), stdio, gone, server)
        async with connection.session:
            yield connection
