"""An MCP server with OAuth, and its authorization server, in the process of the test: small, and as strict as a test wants it."""

import base64
import hashlib
import json
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import trio
from attrs import Factory, define

from agentrail.gateway.serving import addresses_of, open_listeners, serve_app

TOOLS = [{"name": "echo", "description": "Does echo.", "inputSchema": {"type": "object"}}]
SECRET = "the-clients-secret"  # noqa: S105 - of a test


@define
class Guarded:
    """State of both servers.

    Attributes:
        origin: Their address.
        lifetime: Seconds that an access token is said to live.
        valid: Access tokens that the MCP server accepts.
        refresh: Refresh tokens that the authorization server takes, once each.
        issued: All tokens ever issued.
        asked: Grants of the token requests, in their order.
        registered: Registrations.
        unavailable: Whether the token endpoint answers 503.
        malformed: Whether the token endpoint answers without a token type that is known.
        levels: Nesting of an answer of the token endpoint that refuses.
        told: Members of its answer that replace the usual ones.
        headers: Names of all headers, of requests to both servers.
        metas: Method and `_meta` of each message to the MCP server.
        wanted: Scope that calls of tools demand.
        documents: Whether an address of a client metadata document is an id.
        elsewhere: The resource in the metadata, if it is that of another server.
    """

    origin: str = ""
    lifetime: int = 3600
    valid: set[Any] = Factory(set)
    refresh: set[Any] = Factory(set)
    issued: list[Any] = Factory(list)
    asked: list[Any] = Factory(list)
    registered: list[Any] = Factory(list)
    challenges: dict[Any, Any] = Factory(dict)
    scopes: list[Any] = Factory(list)
    clients: list[Any] = Factory(list)
    called: list[Any] = Factory(list)
    hosts: set[Any] = Factory(set)
    headers: set[Any] = Factory(set)
    metas: list[Any] = Factory(list)
    unavailable: bool = False
    malformed: bool = False
    levels: int = 0
    told: dict[Any, Any] = Factory(dict)
    refuses_login: bool = False
    documents: bool = False
    wanted: str | None = None
    elsewhere: str | None = None

    async def __call__(self, scope, receive, send):
        """Answer one request."""
        if scope["type"] == "lifespan":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        self.headers |= set(headers)
        status, more, answer = self.answer(
            scope["method"], scope["path"], scope["query_string"], headers, body
        )
        told = [(name.encode(), value.encode()) for name, value in more.items()]
        told.append((b"content-type", b"application/json"))
        await send({"type": "http.response.start", "status": status, "headers": told})
        body = answer if isinstance(answer, bytes) else b"" if answer is None else json.dumps(answer).encode()
        await send({"type": "http.response.body", "body": body})

    def answer(self, method, path, query, headers, body):
        """Return status, headers and JSON."""
        match path:
            case "/mcp":
                return self.call(method, headers, body)
            case "/.well-known/oauth-protected-resource/mcp":
                resource = self.elsewhere or f"{self.origin}/mcp"
                return 200, {}, {"resource": resource, "authorization_servers": [f"{self.origin}/"]}
            case "/.well-known/oauth-authorization-server":
                return 200, {}, self.metadata()
            case "/register":
                self.registered.append(json.loads(body))
                return 201, {}, {**json.loads(body), "client_id": f"client-{len(self.registered)}"}
            case "/authorize":
                return self.authorize(dict(parse_qsl(query.decode())))
            case "/token":
                return self.token(dict(parse_qsl(body.decode())), headers)
        return 404, {}, {}

    def metadata(self):
        return {
            "issuer": f"{self.origin}/",
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": self.documents,
        }

    def authorize(self, asked):
        """Log the user in without a question, and send the browser back."""
        self.scopes.append(asked.get("scope"))
        self.clients.append(asked["client_id"])
        answer = (
            {"error": "access_denied"} if self.refuses_login else {"code": f"code-{len(self.challenges)}"}
        )
        if not self.refuses_login:
            self.challenges[answer["code"]] = (asked["code_challenge"], asked["redirect_uri"])
        back = f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"
        return 302, {"location": back}, {}

    def token(self, form, headers):
        """Answer a token request, as its grant allows."""
        self.asked.append(form["grant_type"])
        if self.unavailable:
            return 503, {}, {}
        if self.levels:
            return 400, {}, b"[" * self.levels + b"]" * self.levels
        match form["grant_type"]:
            case "authorization_code":
                challenge, redirect = self.challenges.pop(form["code"], ("", ""))
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                is_right = base64.urlsafe_b64encode(digest).decode().rstrip("=") == challenge
                is_right = is_right and redirect == form["redirect_uri"]
            case "refresh_token":
                is_right = form["refresh_token"] in self.refresh
                self.refresh.discard(form["refresh_token"])
            case _:
                basic = base64.b64encode(f"machine:{SECRET}".encode()).decode()
                is_right = headers.get("authorization") == f"Basic {basic}"
        if not is_right:
            return 400, {}, {"error": "invalid_grant"}
        access, refresh = (f"{kind}-{len(self.issued)}-t0k3n" for kind in ("access", "refresh"))
        self.issued += [access, refresh]
        self.valid.add(access)
        told = {"access_token": access, "token_type": "mac" if self.malformed else "Bearer"}
        if form["grant_type"] != "client_credentials":
            self.refresh.add(refresh)
            told["refresh_token"] = refresh
        return 200, {}, {**told, "expires_in": self.lifetime, **self.told}

    def call(self, method, headers, body):
        """Answer as an MCP server of the older revision, with JSON."""
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            metadata = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            return 401, {"www-authenticate": f'Bearer resource_metadata="{metadata}"'}, {}
        if method != "POST":
            return 405, {}, {}
        asked = json.loads(body)
        self.metas.append([asked["method"], (asked.get("params") or {}).get("_meta")])
        if "id" not in asked:
            return 202, {}, None
        match asked["method"]:
            case "initialize":
                told = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "guarded", "version": "1"},
                }
            case "tools/list":
                told = {"tools": TOOLS}
            case "tools/call" if self.wanted is not None:
                challenge = f'Bearer error="insufficient_scope", scope="{self.wanted}"'
                return 403, {"www-authenticate": challenge}, {}
            case "tools/call":
                self.called.append(token)
                told = {"content": [{"type": "text", "text": "echoed"}]}
            case _:
                error = {"code": -32601, "message": "unknown method"}
                return 200, {}, {"jsonrpc": "2.0", "id": asked["id"], "error": error}
        return 200, {}, {"jsonrpc": "2.0", "id": asked["id"], "result": told}


class ScriptedBrowser:
    """Follows the link at once, and says where it was sent back to, with changes of the test's choice."""

    redirect_uri = "http://127.0.0.1:9/callback"

    def __init__(self, **changed):
        self.changed = changed
        self.answer = {}

    async def show(self, url):
        """Log in."""
        async with httpx.AsyncClient(trust_env=False) as client:
            back = (await client.get(url)).headers["location"]
        self.answer = dict(parse_qsl(urlsplit(back).query)) | self.changed

    async def wait_answer(self):
        """Return the parameters of the address it was sent back to."""
        return self.answer


@asynccontextmanager
async def guarded_server(**given):
    """Serve both, and yield their state."""
    guarded = Guarded(**given)
    stop = trio.Event()
    listeners = await open_listeners("127.0.0.1", 0)
    ((host, port),) = addresses_of(listeners)
    guarded.origin = f"http://{host}:{port}"
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_app, guarded, listeners, stop.wait))
        try:
            yield guarded
        finally:
            stop.set()
            nursery.cancel_scope.cancel()
