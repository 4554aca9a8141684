"""Access control: pure decisions about the head of a call, in the order in which they are made.

None reads a clock, body or socket, and no error text repeats input of the call.
"""

import inspect
import ipaddress
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import quote, unquote_plus

import attrs
import trio
from attrs import field, frozen

from agentrail import outside
from agentrail.config.key_filter import shown_address
from agentrail.errors import OptionError
from agentrail.gateway.error_responses import CallRefused, EncodeError, ErrorAnswer, error_answer
from agentrail.gateway.followed_files import follow_token_file
from agentrail.gateway.node_token import ANSWER_HEADER, NODE_HEADER, NodeCall, NodeCalls
from agentrail.gateway.request_parser import AsgiApp, AsgiReceive, AsgiSend, judge_headers
from agentrail.gateway.tokens import PREFIX, SCOPES, Tokens
from agentrail.gateway.whole_answer import WholeAnswer, header_pairs, send_whole
from agentrail.host.hook_payloads import Principal
from agentrail.host.identity import fault_of_name, faults_of_principal
from agentrail.logs import Logger
from agentrail.runtime.crashes import raise_what_travels
from agentrail.runtime.session_clock import now_ms, store_now_ms

LOCAL: Final = "local"
"""Tenant and user of calls to a server without tokens."""

LOOPBACK_NAMES: Final[tuple[str, ...]] = ("127.0.0.1", "localhost", "[::1]")
"""Names of the local machine."""

REQUEST_HEADERS: Final = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Agentrail-User"
"""Headers that a page of an allowed origin may send, unless its preflight names others."""

READABLE_HEADERS: Final = (
    "X-Session-Id, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, X-Should-Retry, X-History-Repairs,"
    " X-Agentrail-Ignored, X-Agentrail-History-Differs, Mcp-Session-Id"
)
"""Headers that a page of an allowed origin may read."""

PREFLIGHT_SECONDS: Final = 600

_TOKEN_NAMES: Final = frozenset(
    {
        "token",
        "accesstoken",
        "authtoken",
        "bearertoken",
        "bearer",
        "authorization",
        "apikey",
        "xapikey",
        "jwt",
    }
)
"""Names of a token in a query, reduced to letters and digits."""

_NO_NAME: Final = re.compile(r"[^a-z0-9]")
_TOKEN: Final = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{16,}")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::([0-9]{1,5}))?")
_FORWARDED_FOR: Final = re.compile(r"""(?:^|[;,])\s*for\s*=\s*"?([^",;\s]+)""", re.IGNORECASE)
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

T = TypeVar("T")


UNAUTHORIZED: Final = error_answer(
    "unauthorized", "this request needs a valid token of this server", headers={"www-authenticate": "Bearer"}
)
"""The only response to a missing, malformed, unknown or expired token."""


_FOREIGN_PAGE: Final = error_answer(
    "origin_refused",
    "pages of this origin must not call this server",
    hint="its operator lists origins with --allowed-origin, or `allowed_origins`",
)


NOT_OF_A_NODE: Final = error_answer(
    "forbidden", "this header is only for nodes of this server", hint=f"omit {NODE_HEADER}"
)


@frozen(kw_only=True)
class CallHead:
    """Facts about a call before its body.

    Attributes:
        peer: Address of the other end of the connection; empty if unknown.
        root_path: Path at which the application is mounted in another one, or empty.
        is_http_1: Whether it came over HTTP/1, which has headers about the connection.
    """

    method: str
    path: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default=_NOTHING, repr=False)
    peer: str = ""
    is_websocket: bool = False
    root_path: str = ""
    scheme: str = "http"
    is_http_1: bool = True


def head_of(scope: Mapping[str, Any]) -> CallHead:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    client = scope.get("client")
    return CallHead(
        method=str(scope.get("method", "GET")).upper(),
        path=scope["path"],
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=MappingProxyType(headers),
        peer=client[0] if client else "",
        is_websocket=scope["type"] == "websocket",
        root_path=scope.get("root_path", ""),
        scheme=scope.get("scheme", "http"),
        is_http_1=str(scope.get("http_version", "1.1")).startswith("1"),
    )


# --- hosts and origins


def _lowered(given: str | Iterable[str]) -> tuple[str, ...]:
    several = (given,) if isinstance(given, str) else given
    return tuple([str(one).lower() for one in several])


@frozen(kw_only=True)
class AccessRules:
    """Hosts, origins and machines from which a server may be called.

    Attributes:
        allowed_hosts: Allowed values of `Host`, with a port or for any port; never a wildcard.
        allowed_origins: Allowed values of `Origin`, such as `https://app.example`. None: the server's own
            origin, with the `Host` under which it was called.
    """

    allowed_hosts: tuple[str, ...] = field(default=LOOPBACK_NAMES, converter=_lowered)
    allowed_origins: tuple[str, ...] | None = field(
        default=None, converter=attrs.converters.optional(_lowered)
    )
    needs_token: bool = False

    def __attrs_post_init__(self) -> None:
        """Raise OptionError for values that no header can have."""
        faults = [
            f"allowed_hosts has {shown_address(host)!r:.80}: expected a name or an address, with or without a port, and no wildcard"
            for host in self.allowed_hosts
            if _HOST.fullmatch(host) is None
        ]
        faults += [
            f"allowed_origins has {shown_address(origin)!r:.80}: expected scheme and host, such as https://app.example, without a path or wildcard"
            for origin in self.allowed_origins or ()
            if not is_origin(origin)
        ]
        if not self.allowed_hosts:
            faults.append(
                "allowed_hosts is empty, so no call would be answered: name the hosts of this server"
            )
        OptionError.raise_for(faults)

    def judge(self, head: CallHead) -> ErrorAnswer | None:
        return (
            self.judge_host(head)
            or self.judge_origin(head)
            or judge_query(head)
            or (None if self.needs_token else judge_peer(head))
        )

    def judge_host(self, head: CallHead) -> ErrorAnswer | None:
        """Check the host name, so that an attacker's name resolving to this server is refused."""
        found = _HOST.fullmatch(head.headers.get("host", "").lower())
        if found is not None and (found[0] in self.allowed_hosts or found[1] in self.allowed_hosts):
            return None
        return error_answer(
            "host_refused",
            "this server does not answer to this name",
            hint="its operator lists names with --allowed-host, or `allowed_hosts`",
        )

    def judge_origin(self, head: CallHead) -> ErrorAnswer | None:
        """Check the origin of the calling page. Other clients need one only for a WebSocket."""
        origin = head.headers.get("origin")
        if origin is None and is_fetched_from_elsewhere(head.headers):
            return _FOREIGN_PAGE
        if origin is None:
            if not head.is_websocket or (self.needs_token and "authorization" in head.headers):
                return None
            return error_answer(
                "origin_refused",
                "a WebSocket without an Origin needs a token",
                hint="send the header `Authorization: Bearer …`, or the Origin of this server",
            )
        host = head.headers.get("host", "").lower()
        # A proxy may terminate TLS, so the server's own scheme is unknown.
        own = (f"http://{host}", f"https://{host}") if host else ()
        allowed = own if self.allowed_origins is None else self.allowed_origins
        return None if origin.lower() in allowed else _FOREIGN_PAGE

    # --- pages of other origins

    def listed_origin(self, head: CallHead) -> str | None:
        origin = head.headers.get("origin")
        listed = (
            origin is not None and self.allowed_origins is not None and origin.lower() in self.allowed_origins
        )
        return origin if listed else None

    def cors_headers(self, head: CallHead) -> Mapping[str, str]:
        origin = self.listed_origin(head)
        if origin is None:
            return {"vary": "Origin"}
        return {
            "vary": "Origin",
            "access-control-allow-origin": origin,
            "access-control-expose-headers": READABLE_HEADERS,
        }

    def answer_preflight(self, head: CallHead, methods: Sequence[str]) -> Mapping[str, str] | None:
        """Return the headers of a 204 response, or None unless this is a preflight of an explicitly allowed origin."""
        origin = self.listed_origin(head)
        is_preflight = head.method == "OPTIONS" and "access-control-request-method" in head.headers
        if not is_preflight or origin is None or not methods:
            return None
        return {
            "vary": "Origin",
            "access-control-allow-origin": origin,
            "access-control-allow-methods": ", ".join(methods),
            # The client libraries of foreign protocols send their own headers, some of which depend on the call.
            "access-control-allow-headers": head.headers.get("access-control-request-headers")
            or REQUEST_HEADERS,
            "access-control-max-age": str(PREFLIGHT_SECONDS),
        }


def is_fetched_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Return whether another site loads this as an image, script or style. Following a link is allowed."""
    is_foreign = headers.get("sec-fetch-site", "") in {"cross-site", "same-site"}
    return is_foreign and headers.get("sec-fetch-mode", "") != "navigate"


def is_origin(given: str) -> bool:
    scheme, separator, host = given.partition("://")
    if not separator or scheme not in {"http", "https"} or _HOST.fullmatch(host) is None:
        return False
    # The default port is never sent, so an entry with it would match no page.
    return not host.endswith({"http": ":80", "https": ":443"}[scheme])


def judge_query(head: CallHead) -> ErrorAnswer | None:
    """Refuse a token in the query string or the path, which end up in logs and proxies."""
    spelled = re.split("[&;]", head.query)
    names = {_NO_NAME.sub("", _decoded(pair.partition("=")[0]).lower()) for pair in spelled}
    if names.isdisjoint(_TOKEN_NAMES) and not _TOKEN.search(f"{_decoded(head.query)} {head.path}"):
        return None
    return error_answer(
        "token_in_url",
        "a token must not be in a query string, where others can read it later",
        hint="send the header `Authorization: Bearer …`, and create a new token, because this one was exposed",
    )


def _decoded(text: str) -> str:
    return unquote_plus(unquote_plus(text))  # encoding by hand may have happened twice


def judge_peer(head: CallHead) -> ErrorAnswer | None:
    if is_loopback(head.peer) and all(map(is_loopback, _forwarded_for(head.headers))):
        return None
    return error_answer(
        "forbidden",
        "without tokens, this server accepts only local requests",
        hint="its operator allows others with --token-file, or `auth`",
    )


def is_loopback(address: str) -> bool:
    found = _address(address)
    return found is not None and found.is_loopback


def _forwarded_for(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the client addresses reported by a proxy. Unreadable ones count as another machine."""
    for name in ("x-forwarded-for", "x-real-ip"):
        if name in headers:
            yield from (one.strip() for one in headers[name].split(","))
    if "forwarded" in headers:
        found = _FORWARDED_FOR.findall(headers["forwarded"])
        yield from found or [""]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    bare = text.partition("%")[0]  # without the zone of a link
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ipaddress.ip_address(bare)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


# --- users


ANYONE_HERE: Final = Principal(tenant_id=LOCAL, user_id=LOCAL, scopes=SCOPES)
"""Caller of a server without tokens."""


def name_user(
    principal: Principal,
    headers: Mapping[str, str] = _NOTHING,
    *,
    tenant_id: str | None = None,
    user_id: str | None = None,
) -> Principal | ErrorAnswer:
    if tenant_id is not None and tenant_id != principal.tenant_id:
        return _contradicts("tenant_id")
    for given, name in ((headers.get("x-agentrail-user"), "X-Agentrail-User"), (user_id, "user_id")):
        if given is None:
            continue
        if principal.user_id:
            if given != principal.user_id:
                return _contradicts(name)
            continue
        fault = fault_of_name(name, given)
        if fault is not None:
            return error_answer("id_invalid", fault)
        principal = attrs.evolve(principal, user_id=given)
    return principal


def require_user(principal: Principal) -> ErrorAnswer | None:
    if principal.user_id:
        return None
    return error_answer(
        "field_invalid",
        "this token is for a whole tenant, and the request does not name a user",
        hint="send the header X-Agentrail-User, or `user_id` in the body",
    )


def require_scope(principal: Principal, scope: str, also: str | None = None) -> ErrorAnswer | None:
    if scope in principal.scopes or (also is not None and also in principal.scopes):
        return None
    wanted = repr(scope) if also is None else f"{scope!r} or {also!r}"
    return error_answer(
        "forbidden",
        f"this call needs a token with the scope {wanted}",
        hint=f"`agentrail token new --scopes {scope}` makes one",
    )


def checked(outcome: T | ErrorAnswer) -> T:
    """Return the outcome of a check, or refuse the call."""
    if isinstance(outcome, ErrorAnswer):
        raise CallRefused(outcome)
    return outcome


def _contradicts(name: str) -> ErrorAnswer:
    return error_answer(
        "principal_mismatch",
        f"{name} differs from that of the token",
        hint=f"omit {name}: the token identifies the caller",
    )


# --- failed authentications


class FailedAuthentications:
    """Failed authentications per address, bounded. Times are monotonic seconds. An IPv6 network counts as one address."""

    def __init__(self, *, limit: int = 10, within_seconds: float = 60.0, max_addresses: int = 10_000) -> None:
        self._limit = limit
        self._within = within_seconds
        self._max_addresses = max_addresses
        self._failed: dict[str, tuple[float, ...]] = {}  # in the order of the last failure

    def __len__(self) -> int:
        return len(self._failed)

    def wait_of(self, peer: str, now: float) -> float:
        """Return the seconds until another failure of an address is counted."""
        times = self._failed.get(network_of(peer), ()) if self._failed else ()
        if len(times) < self._limit:
            return 0.0
        return max(0.0, times[0] + self._within - now)

    def failed(self, peer: str, now: float) -> ErrorAnswer:
        """Count a failure and return its response: 401 or 429."""
        wait = self.wait_of(peer, now)
        if wait > 0:
            return too_many_failures(wait)  # not counted: retries would extend the block
        network = network_of(peer)
        self._failed[network] = (*self._failed.pop(network, ()), now)[-self._limit :]
        self._forget(now)
        return UNAUTHORIZED

    def _forget(self, now: float) -> None:
        # Each failure adds at most one address and removes up to two: old ones disappear, and no call pays
        # for many.
        for _ in range(2):
            oldest = next(iter(self._failed))
            is_over = now - self._failed[oldest][-1] >= self._within
            if not is_over and len(self._failed) <= self._max_addresses:
                return
            del self._failed[oldest]


def too_many_failures(wait_seconds: float) -> ErrorAnswer:
    return ErrorAnswer(
        status=429,
        code="too_many_requests",
        message="too many calls without a valid token came from this address",
        hint="wait for the time in Retry-After, then send a valid token",
        headers={"retry-after": str(max(1, math.ceil(wait_seconds)))},
    )


def network_of(peer: str) -> str:
    """Return the key under which an address is counted: an IPv6 network, or the address itself."""
    found = _address(peer)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
    return peer if found is None else str(found)


# Authentication: calls `auth` and counts failures per address. Decisions about a call are above.
#
# If the application's `authenticate` raises, only the fact is reported: the exception may contain the call's
# headers.

LOGGER: Final = Logger("agentrail.gateway")

Authenticate: TypeAlias = Callable[[Mapping[str, str]], Principal | Awaitable[Principal | None] | None]
"""Returns the caller for the headers of a call, names in lower case, or None. Sync or async.

A principal with an empty `user_id` is valid for its tenant, and the call names the user.
"""


class CallerCheck:
    """Access control of one server."""

    def __init__(
        self,
        auth: Authenticate | None,
        rules: AccessRules,
        *,
        timeout_seconds: float = 10.0,
        max_failures_per_minute: int = 10,
    ) -> None:
        """Create the check.

        Raises:
            OptionError: Your move: `auth` is not callable.
        """
        if auth is not None and not callable(auth):
            raise OptionError(
                [f"auth is {type(auth).__name__}: expected Tokens, or authenticate(headers), or None"]
            )
        self.rules: AccessRules = attrs.evolve(rules, needs_token=auth is not None)
        self._auth = auth
        self._timeout_seconds = timeout_seconds
        self._failures = FailedAuthentications(limit=max_failures_per_minute)

    def admit_more(
        self, *, auth: Authenticate | None = None, hosts: Sequence[str] = (), origins: Sequence[str] = ()
    ) -> None:
        """Add the operator's settings. OptionError: both set `auth`."""
        if auth is not None and self._auth is not None:
            raise OptionError(["the application has its own `auth`: remove --token-file or `auth`"])
        asked = self._auth if auth is None else auth
        listed = (*(self.rules.allowed_origins or ()), *origins)
        self.rules = attrs.evolve(
            self.rules,
            allowed_hosts=(*self.rules.allowed_hosts, *hosts),
            allowed_origins=listed or self.rules.allowed_origins,
            needs_token=asked is not None,
        )
        self._auth = asked

    async def admit(self, head: CallHead) -> Principal | ErrorAnswer:
        refused = self.rules.judge(head)
        if refused is not None:
            return refused
        found = ANYONE_HERE if self._auth is None else await self._ask(self._auth, head)
        return found if isinstance(found, ErrorAnswer) else name_user(found, head.headers)

    async def check_again(self, head: CallHead, principal: Principal) -> Principal | ErrorAnswer:
        """Check the caller of an open socket or stream again. An expired token is no failed authentication."""
        if self._auth is None:
            return principal
        found = await self._ask_application(self._auth, head)
        if isinstance(found, ErrorAnswer):
            return found
        if found is None or found.tenant_id != principal.tenant_id:
            return UNAUTHORIZED
        if found.user_id not in ("", principal.user_id):
            return UNAUTHORIZED
        return attrs.evolve(principal, scopes=found.scopes)

    async def caller_of_page(self, head: CallHead) -> Principal | None:
        """Return the caller of a page that needs no token, if the headers name one. Counts no failure."""
        if self._auth is None:
            return ANYONE_HERE
        found = await self._ask_application(self._auth, head)
        return found if isinstance(found, Principal) else None

    def expires_at(self, head: CallHead) -> float | None:
        """Return when the token expires, in seconds since 1970. None if never, or if only `auth` knows."""
        return self._auth.expires_at(head.headers) if isinstance(self._auth, Tokens) else None

    async def follow_tokens(self, changed: Callable[[], object]) -> None:
        if isinstance(self._auth, Tokens):
            await follow_token_file(self._auth, changed)

    async def _ask(self, auth: Authenticate, head: CallHead) -> Principal | ErrorAnswer:
        # These tokens cannot be guessed, so a valid one is admitted after any number of failures.
        if isinstance(auth, Tokens):
            return auth(head.headers) or self._failures.failed(head.peer, outside.monotonic())
        wait = self._failures.wait_of(head.peer, outside.monotonic())
        if wait > 0:
            return too_many_failures(wait)
        answer = await self._ask_application(auth, head)
        return answer or self._failures.failed(head.peer, outside.monotonic())

    async def _ask_application(self, auth: Authenticate, head: CallHead) -> Principal | ErrorAnswer | None:
        found: Any = None
        try:
            found = auth(head.headers)
            if inspect.isawaitable(found):
                with trio.move_on_after(self._timeout_seconds) as scope:
                    found = await found
                if scope.cancelled_caught:
                    return _failed(f"it took longer than {self._timeout_seconds:g} s")
        except BaseException as raised:  # noqa: ASYNC103, BLE001 - an edge; cancellation is raised again
            raise_what_travels(raised)
            return _failed(f"it raised {type(raised).__name__}")  # noqa: ASYNC104 - cancellation was raised above
        fault = None if found is None else fault_of_caller(found)
        return found if fault is None else _failed(fault)


def fault_of_caller(found: object) -> str | None:
    """Return the fault in the result of an `authenticate`, without repeating it."""
    if isinstance(found, Principal) and found.user_id == "":
        found = attrs.evolve(found, user_id=found.tenant_id)
    return "; ".join(faults_of_principal(found)) or None


def _failed(why: str) -> ErrorAnswer:
    LOGGER.error("authenticate failed, so a request was refused: %s", why)
    return error_answer("plugin_failed", "the server could not identify the caller")


# ASGI middleware for the checks that every call passes before routing, so that no route can omit them.
#
# Routes read the caller from the state of the scope.

OPEN_PATHS: Final = frozenset({"/health", "/ready"})
"""Paths for monitoring, which knows neither the server's name nor a token."""

_CALLER: Final = "agentrail.caller"
_HEAD: Final = "agentrail.head"
_NODE_CALL: Final = "agentrail.node_call"
_REFUSED_UPGRADE: Final = "websocket.http.response"


def caller_of(scope: MutableMapping[str, Any]) -> Principal | None:
    """Return the caller. None if the path needs no token, or the token comes with a `hello`."""
    return cast("Principal | None", scope.get("state", {}).get(_CALLER))


def admitted_head(scope: MutableMapping[str, Any]) -> CallHead:
    """Return the head of a call, as the guard has read it if there is one."""
    return scope.get("state", {}).get(_HEAD) or head_of(scope)


def node_call_of(scope: MutableMapping[str, Any]) -> NodeCall | None:
    """Return the signed facts of a call that another node has passed on, or None for a client's own call."""
    return cast("NodeCall | None", scope.get("state", {}).get(_NODE_CALL))


def target_of(scope: Mapping[str, Any]) -> bytes:
    """Return the path of a call with its query, as in its request line."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path


def judge_node_call(calls: NodeCalls, token: str, method: str, target: bytes) -> NodeCall | None:
    return calls.judge(token, method, target, store_ms=store_now_ms(), now_ms=now_ms())


@frozen
class AccessGuard:
    """ASGI middleware that lets admitted calls through."""

    app: AsgiApp
    check: CallerCheck
    methods_of: Callable[[str], Sequence[str]]
    is_public: Callable[[str], bool]
    encode_error: EncodeError = ErrorAnswer.encode
    node_calls: Callable[[], NodeCalls | None] = lambda: None

    async def __call__(self, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        too_many = judge_headers(scope)  # before any code iterates over them
        if too_many is not None:
            await send_refusal(scope, send, too_many, self.encode_error)
            return
        head, path = head_of(scope), path_of(scope)
        if NODE_HEADER in head.headers:
            await self._pass_signed(scope, receive, send, head)
            return
        if path in OPEN_PATHS and not head.is_websocket:
            await self.app(scope, receive, send)
            return
        preflight = self.check.rules.answer_preflight(head, self.methods_of(path))
        if preflight is not None:
            await send_whole(send, WholeAnswer(status=204, headers=preflight))
            return
        readable = _adding(send, self.check.rules.cors_headers(head))
        outcome = await self._judge(head, path)
        if isinstance(outcome, ErrorAnswer):
            await send_refusal(scope, readable, outcome, self.encode_error)
            return
        # A copy: the server may share the state across a connection, whose next call may have another caller.
        scope["state"] = {**scope.get("state", {}), _CALLER: outcome, _HEAD: head}
        await self.app(scope, receive, readable)

    async def _pass_signed(
        self, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend, head: CallHead
    ) -> None:
        """Pass a call of another node, which has judged its caller. Only the signature counts, so no other check is repeated."""
        calls = self.node_calls()
        token = head.headers[NODE_HEADER]
        call = None if calls is None else judge_node_call(calls, token, head.method, target_of(scope))
        if calls is None or call is None:
            await send_refusal(scope, send, NOT_OF_A_NODE, self.encode_error)
            return
        scope["state"] = {**scope.get("state", {}), _CALLER: call.principal, _NODE_CALL: call}
        await self.app(scope, receive, _adding(send, {ANSWER_HEADER: calls.sign_answer(call)}))

    async def _judge(self, head: CallHead, path: str) -> Principal | ErrorAnswer | None:
        is_later = head.is_websocket and self.check.rules.needs_token and "authorization" not in head.headers
        if is_later or (self.is_public(path) and not head.is_websocket):
            return self.check.rules.judge(head)
        return await self.check.admit(head)


def path_of(scope: MutableMapping[str, Any]) -> str:
    path, root = scope["path"], scope.get("root_path", "")
    below = path.removeprefix(root)
    return str(below if below.startswith("/") else path)


async def send_refusal(
    scope: MutableMapping[str, Any],
    send: AsgiSend,
    answer: ErrorAnswer,
    encode: EncodeError = ErrorAnswer.encode,
) -> None:
    """Send an error response. For a WebSocket, before its upgrade if possible."""
    refusal = partial(WholeAnswer, status=answer.status, headers=answer.headers)
    if scope["type"] == "http":
        await send_whole(send, refusal(body=encode(answer)))
    elif _REFUSED_UPGRADE in scope.get("extensions", {}):
        await send_whole(send, refusal(body=answer.encode()), _REFUSED_UPGRADE)
    else:
        await send({"type": "websocket.close"})  # the server answers 403


def _adding(send: AsgiSend, headers: Mapping[str, str]) -> AsgiSend:
    encoded = header_pairs(headers)

    async def adding(message: MutableMapping[str, Any]) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            message = {**message, "headers": [*message.get("headers", ()), *encoded]}
        await send(message)

    return adding
