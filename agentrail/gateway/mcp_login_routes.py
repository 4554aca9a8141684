"""Pages on which users log in to MCP servers: the link of a session's question, and the way back from the authorization server.

A browser that follows a link sends no token. So the link has a ticket, the page names the user who asked, and only its button begins
the login. A cookie ties the answer to that browser, so a copied link or `state` is of no use in another one.
"""

import hashlib
import hmac
from collections.abc import Callable
from html import escape
from typing import Final
from urllib.parse import parse_qsl

from attrs import evolve

from agentrail import outside
from agentrail.abc import UserLogin
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.gateway.error_responses import refuse_call
from agentrail.gateway.path_endpoint import CallRoute, RouteCall
from agentrail.gateway.route_errors import BY_PLACE
from agentrail.gateway.whole_answer import WholeAnswer

_COOKIE: Final = "agentrail-login"
_HEADERS: Final = {
    # No `form-action`: browsers would apply it to the redirect that follows the form.
    "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
_PAGE: Final = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Log in</title>'
_HTML: Final = "text/html; charset=utf-8"
_MAX_TEXT: Final = 300


async def _begin(call: RouteCall) -> WholeAnswer:
    given = dict(parse_qsl(call.head.query))
    name, ticket = call.params["server"], given.get("ticket", "")
    login = await _find(call, lambda one: one.server == name and one.takes(ticket))
    cookie = _cookie_of(call)
    if not cookie or not hmac.compare_digest(
        given.get("confirm", "").encode(), _confirmation(cookie).encode()
    ):
        return _confirm(login, ticket, _cookie_name(call))
    address = await login.begin(cookie)
    if not address:
        refuse_call("login_refused", "the login could not begin: its authorization server is unavailable")
    return WholeAnswer(status=303, headers={**_HEADERS, "location": address})


def _confirm(login: UserLogin, ticket: str, cookie_name: str) -> WholeAnswer:
    """Show whose sessions get access: the link may come from another user."""
    cookie = outside.ids(16)
    fields = "".join(
        f'<input type="hidden" name="{name}" value="{escape(value)}">'
        for name, value in (("ticket", ticket), ("confirm", _confirmation(cookie)))
    )
    body = (
        f"{_PAGE}<h1>Log in to {escape(login.server)}</h1><p>The sessions of <b>{escape(login.user[:_MAX_TEXT])}</b> will act "
        f"with the rights that you grant. Continue only if this is you, and you asked for it.</p>"
        f"<form>{fields}<button>Continue</button></form>"
    )
    # `Lax`: the cookie must come with the redirect of the authorization server.
    rules = f"Path=/; Max-Age=600; HttpOnly; SameSite=Lax{'; Secure' if cookie_name != _COOKIE else ''}"
    return _page(body, {"set-cookie": f"{cookie_name}={cookie}; {rules}"})


async def _end(call: RouteCall) -> WholeAnswer:
    answer = dict(parse_qsl(call.head.query))
    state, cookie = answer.get("state", ""), _cookie_of(call)
    login = await _find(call, lambda one: one.awaits(state, cookie))
    failed = await login.end(answer)
    if failed is not None:
        refuse_call("login_refused", f"the login failed: {failed[:_MAX_TEXT]}")
    return _page(f"{_PAGE}<p>You are logged in to {escape(login.server)}. You can close this window.</p>", {})


async def _find(call: RouteCall, is_meant: Callable[[UserLogin], bool]) -> UserLogin:
    """Return the login that a browser may continue. A browser that `auth` knows as another user is refused."""
    logins = call.host.supervisor.sources.user_logins()
    found = next(filter(is_meant, logins), None)
    caller = None if found is None else await call.gateway.callers.caller_of_page(call.head)
    if caller is not None and caller.user_id and found is not None:
        known = session_owner_key({"tenant_id": caller.tenant_id, "user_id": caller.user_id})
        found = found if known == found.owner else None
    if found is None:
        refuse_call("login_refused", "this login was not begun in this browser, or was used, or is too old")
    return found


def _page(body: str, headers: dict[str, str]) -> WholeAnswer:
    return WholeAnswer(body=body.encode(), content_type=_HTML, headers={**_HEADERS, **headers})


def _cookie_of(call: RouteCall) -> str:
    pairs = (one.strip().partition("=") for one in call.head.headers.get("cookie", "").split(";"))
    return next((value for name, _, value in pairs if name == _cookie_name(call)), "")


def _cookie_name(call: RouteCall) -> str:
    """Return the cookie's name. Over TLS it has the prefix that keeps neighbouring hosts from setting it."""
    is_secure = (call.host.options.public_url or "").startswith("https:")
    return f"__Host-{_COOKIE}" if is_secure else _COOKIE


def _confirmation(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()[:32]


_CALLBACK: Final = CallRoute(
    "GET",
    "/mcp-login/callback",
    _end,
    does="ends the login of a user to an MCP server",
    query=("state", "code", "iss", "error", "error_description"),
    scope=None,
    is_guarded=True,
    content=(_HTML,),
    replies={},
    refusals=f"{BY_PLACE} login_refused not_started",
)
MCP_LOGIN_ROUTES: Final = (
    _CALLBACK,
    evolve(
        _CALLBACK,
        path="/mcp-login/{server}",
        handler=_begin,
        does="asks a user to confirm a login to an MCP server, and begins it",
        query=("ticket", "confirm"),
        replies={303: ()},
    ),
)
