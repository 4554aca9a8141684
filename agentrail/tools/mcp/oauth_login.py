"""OAuth for one server and principal: the library's flow, with tokens in a file, and one refresh at a time.

Imports `mcp`, so it is loaded with `connection.py`.
"""

import logging
import os
import re
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypeVar

import httpx2
import trio
from attrs import define, evolve, field
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, Field, ValidationError

from agentrail import outside
from agentrail.config.key_filter import in_one_line
from agentrail.tools.mcp.login_files import Login, LoginFile
from agentrail.tools.mcp.server_options import McpServer, OAuthClient, is_loopback_url

# Without a handler Python writes the library's warnings to stderr, over the screen of a chat.
logging.getLogger("mcp").addHandler(logging.NullHandler())

REFUSAL: Final = "agentrail.refusal"
"""Extension of a request that is not sent: the code and the message of its error."""

LOGIN_CODE: Final = -32_098
"""Our code of a request that needs a login."""

NOT_SENT_CODE: Final = -32_099
"""Our code of a request that never reached its server."""

_OBTAIN_SECONDS: Final = 30.0
_TRY_AGAIN_SECONDS: Final = 0.02
_WATCH_SECONDS: Final = 1.0
_MAX_REASON: Final = 300
_MAX_TOKEN: Final = 1 << 16
_SCOPE: Final = re.compile(r'scope="?([^",]*)"?')

_Way: TypeAlias = Literal["refresh", "authorize"]
_Model = TypeVar("_Model", bound=BaseModel)


class Browser(Protocol):
    """A user who can log in."""

    redirect_uri: str

    async def show(self, url: str) -> None:
        """Send the user to the authorization server."""
        ...

    async def wait_answer(self) -> Mapping[str, str]:
        """Wait until the authorization server has sent the user back, and return the parameters of that address."""
        ...


class _Unavailable(Exception):
    """The authorization server cannot be reached now."""


class ServerLogin(httpx2.Auth):
    """Adds the access token to each request of a server, and renews it.

    Without a browser it starts no login: a request without usable tokens fails with `LOGIN_CODE`.

    Attributes:
        missing: Set once a login by the user is needed.
        reason: Why the last one failed.
        send: Sends a request to an authorization server. Set by the connection.
    """

    def __init__(self, server: McpServer, file: LoginFile, browser: Browser | None = None) -> None:
        self.missing: Final = trio.Event()
        self.reason: str | None = None
        self.send: Callable[[httpx2.Request], Awaitable[httpx2.Response]] | None = None
        self._server = server
        self._client = server.oauth or OAuthClient()
        self._file = file
        self._browser = browser
        self._login: Login | None = None
        self._turn = trio.Lock()

    @property
    def is_logged_in(self) -> bool:
        return self._login is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The present tokens, which no log may contain."""
        tokens = {} if self._login is None else self._login.tokens
        found = (tokens.get("access_token"), tokens.get("refresh_token"))
        return tuple([one for one in found if isinstance(one, str) and one])

    async def wait_changed(self) -> None:
        """Wait until the file has another login, such as that of `agentrail mcp login`."""
        was = None if self._login is None else self._login.access_token
        while True:
            newest = await outside.offload(self._file.read)
            if newest is not None and newest.access_token != was:
                return
            await trio.sleep(_WATCH_SECONDS)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        answer: httpx2.Response | None = None
        refused: Login | None = None
        tried: set[_Way] = set()
        while True:
            if self._login is None and self._browser is None:
                self._login = await outside.offload(self._file.read)
            used = self._login
            if used is not None and used is not refused and not used.has_expired():
                request.headers["Authorization"] = f"Bearer {used.access_token}"
                answer = yield request
                if not _is_refused(answer):
                    return
                refused = used
            way = self._decide_way(used, answer, tried)
            if way is None:
                yield await self._needs_login(request, used, answer)
                return
            if way == "authorize" and answer is None:
                answer = yield request
                if not _is_refused(answer):  # it needs no login, at least for this request
                    return
            try:
                if await self._obtain(way, request, answer, used):
                    tried.add(way)
            except _Unavailable as error:
                self.reason = str(error)
                yield _refusal(request, NOT_SENT_CODE, str(error))
                return

    def _decide_way(
        self, used: Login | None, answer: httpx2.Response | None, tried: set[_Way]
    ) -> _Way | None:
        lacks_scope = answer is not None and answer.status_code == httpx2.codes.FORBIDDEN
        if used is not None and used.can_refresh and not lacks_scope and "refresh" not in tried:
            return "refresh"
        # The user is asked once, although the library tries two handshakes.
        can_ask = self._browser is not None and self.reason is None
        can_authorize = can_ask or self._client.grant == "client_credentials"
        return "authorize" if can_authorize and "authorize" not in tried else None

    async def _needs_login(
        self, request: httpx2.Request, used: Login | None, answer: httpx2.Response | None
    ) -> httpx2.Request:
        scope = None if answer is None else _scope_of(answer)
        if used is not None and scope is not None and used.wanted_scope != scope:
            self._login = evolve(used, wanted_scope=scope)
            await outside.offload(self._file.write, self._login)
            self.reason = f"the server demands the scope {scope!r:.100}"
        if self._client.grant == "client_credentials":
            return _refusal(request, NOT_SENT_CODE, self.reason or "the server refuses its token")
        self.missing.set()
        return _refusal(request, LOGIN_CODE, self.reason or "there is no login")

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        async with self._turn:
            while (lock := await outside.offload(self._file.try_lock)) is None:  # noqa: ASYNC110 - of another process
                await trio.sleep(_TRY_AGAIN_SECONDS)
            try:
                yield
            finally:
                os.close(lock)

    async def _obtain(
        self, way: _Way, request: httpx2.Request, answer: httpx2.Response | None, used: Login | None
    ) -> bool:
        """Try to obtain tokens. Return whether this was done, and not by another call or process meanwhile.

        Raises:
            _Unavailable: Nothing was refused, but there is no answer.
        """
        if self._browser is not None:
            await self._run_flow(way, request, answer, used)
            return True
        async with self._one_at_a_time():
            newest = await outside.offload(self._file.read)
            if newest != used:
                self._login = newest
                return False
            # Many servers take a refresh token once. A cancelled call must not lose the next one, which is on its way.
            with trio.move_on_after(_OBTAIN_SECONDS, shield=True) as scope:
                await self._run_flow(way, request, answer, used)
        if scope.cancelled_caught:
            message = f"the authorization server did not answer within {_OBTAIN_SECONDS:g} s"
            raise _Unavailable(message)
        return True

    async def _run_flow(
        self, way: _Way, request: httpx2.Request, answer: httpx2.Response | None, used: Login | None
    ) -> None:
        provider = self._provider(used, is_expired=way == "refresh")
        # A copy, because the library writes the header of its own request.
        ours = httpx2.Request(request.method, request.url, headers=request.headers)
        flow = provider.async_auth_flow(ours)
        try:
            outgoing = await anext(flow)
            if way == "authorize" and answer is not None:
                kept = await outside.offload(self._file.read)
                outgoing = await flow.asend(
                    self._with_scopes(answer, None if kept is None else kept.wanted_scope)
                )
            while outgoing is not ours:
                outgoing = await flow.asend(await self._sent(outgoing))
        except (OAuthFlowError, ValidationError, ValueError, OSError) as error:
            self.reason = _described(error)
        finally:
            await flow.aclose()

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        if self.send is None or not (request.url.scheme == "https" or is_loopback_url(str(request.url))):
            message = f"{request.url.host!r:.100} is not https"
            raise OAuthFlowError(message)
        response = await self.send(request)
        if response.status_code >= 500 or response.status_code == 429:  # noqa: PLR2004 - of HTTP
            message = f"{request.url.host} answered {response.status_code}"
            raise _Unavailable(message)
        return _without_secrets(request, response) if request.method == "POST" else response

    def _with_scopes(self, answer: httpx2.Response, earlier: str | None) -> httpx2.Response:
        """Add the configured scopes, and those of an earlier demand. The library reads them there alone."""
        wanted = [*self._client.scopes, *(_scope_of(answer) or "").split(), *(earlier or "").split()]
        header = answer.headers.get("WWW-Authenticate", "Bearer")
        if not wanted:
            return answer
        rest = _SCOPE.sub("", header).rstrip(" ,")
        scope = f'scope="{" ".join(dict.fromkeys(wanted))}"'
        joined = f"{rest} {scope}" if rest == "Bearer" else f"{rest}, {scope}"
        return httpx2.Response(
            answer.status_code, headers={"WWW-Authenticate": joined}, request=answer.request
        )

    def _provider(self, used: Login | None, *, is_expired: bool) -> OAuthClientProvider:
        storage = _Storage(self._client, used, self._keep)
        url = self._server.url or ""
        if self._client.grant == "client_credentials":
            provider: OAuthClientProvider = _machine_of(url, storage, self._client)
        else:
            browser = self._browser
            metadata = OAuthClientMetadata.model_validate(
                {
                    "client_name": "agentrail",
                    "redirect_uris": [_NOWHERE if browser is None else browser.redirect_uri],
                    "token_endpoint_auth_method": self._client.auth_method,
                }
            )
            provider = OAuthClientProvider(
                url,
                metadata,
                storage,
                None if browser is None else browser.show,
                None if browser is None else self._wait_code,
                client_metadata_url=self._client.client_metadata_url,
            )
        context = storage.context = provider.context
        if used is not None:
            context.oauth_metadata = _model(OAuthMetadata, used.authorization_server)
            context.protected_resource_metadata = _model(ProtectedResourceMetadata, used.resource)
            if context.oauth_metadata is not None:
                context.auth_server_url = str(context.oauth_metadata.issuer)
        context.token_expiry_time = 1.0 if is_expired else None
        return provider

    async def _wait_code(self) -> AuthorizationCodeResult:
        answer = {} if self._browser is None else await self._browser.wait_answer()
        if "error" in answer:
            message = (
                f"the authorization server refused: {answer['error']} {answer.get('error_description', '')}"
            )
            raise OAuthFlowError(in_one_line(message))
        return AuthorizationCodeResult(
            code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
        )

    async def _keep(self, login: Login) -> None:
        with trio.CancelScope(shield=True):
            await outside.offload(self._file.write, login)
        self._login = login


class _UsableToken(OAuthToken):
    """A token that a header can carry, and whose expiry has a time. The library takes every text and every number."""

    access_token: Annotated[str, Field(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=_MAX_TOKEN)]
    refresh_token: Annotated[str, Field(max_length=_MAX_TOKEN)] | None = None
    expires_in: Annotated[int, Field(le=2**64)] | None = None


_NOWHERE: Final = "http://127.0.0.1/callback"
"""Redirect address of a client without a browser, which is never used."""


@define(eq=False, repr=False, slots=False)
class _Storage:
    """The library's view of a login. Tokens are written to the file before they are used."""

    _client: OAuthClient
    _used: Login | None
    _keep: Callable[[Login], Awaitable[None]]
    context: Any = field(init=False, default=None)

    async def get_tokens(self) -> OAuthToken | None:  # noqa: ASYNC124 - as the library has it
        return None if self._used is None else _model(OAuthToken, self._used.tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context, client = self.context, self.context.client_info
        expires_at = None if tokens.expires_in is None else outside.wall() + tokens.expires_in
        await self._keep(
            Login(
                tokens=_plain(tokens) or {},
                expires_at=expires_at,
                client=None if self._client.client_id is not None else _plain(client),
                authorization_server=_plain(context.oauth_metadata),
                resource=_plain(context.protected_resource_metadata),
            )
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:  # noqa: ASYNC124 - as the library has it
        client = self._client
        if client.client_id is not None:
            secret = None if client.client_secret is None else client.client_secret.reveal()
            return OAuthClientInformationFull(
                client_id=client.client_id,
                client_secret=secret,
                token_endpoint_auth_method=client.auth_method,
                issuer=client.issuer,
            )
        return None if self._used is None else _model(OAuthClientInformationFull, self._used.client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:  # noqa: ASYNC124 - as the library has it
        """Refuse to register in place of the configured client. Another registration is written with its tokens."""
        del client_info
        if self._client.client_id is not None:
            message = f"the server names another authorization server than {self._client.issuer}"
            raise OAuthFlowError(message)


def _machine_of(url: str, storage: _Storage, client: OAuthClient) -> ClientCredentialsOAuthProvider:
    with warnings.catch_warnings():  # without an issuer the library warns, and so does our page
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return ClientCredentialsOAuthProvider(
            url,
            storage,
            client.client_id or "",
            client.client_secret.reveal() if client.client_secret is not None else "",
            scope=" ".join(client.scopes) or None,
            issuer=client.issuer,
        )


def _is_refused(answer: httpx2.Response) -> bool:
    if answer.status_code == httpx2.codes.FORBIDDEN:
        return "insufficient_scope" in answer.headers.get("WWW-Authenticate", "")
    return answer.status_code == httpx2.codes.UNAUTHORIZED


def _scope_of(answer: httpx2.Response) -> str | None:
    found = _SCOPE.search(answer.headers.get("WWW-Authenticate", ""))
    return found[1] if found else None


def _refusal(request: httpx2.Request, code: int, message: str) -> httpx2.Request:
    return httpx2.Request(
        request.method, request.url, extensions={**request.extensions, REFUSAL: (code, message)}
    )


def _without_secrets(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Replace an unusable answer, of a registration or of a token endpoint: the library writes it into its log."""
    is_token = "urlencoded" in request.headers.get("Content-Type", "")
    kind: type[BaseModel] = _UsableToken if is_token else OAuthClientInformationFull
    try:
        if response.is_success:
            kind.model_validate_json(response.content)
            return response
        error = str(response.json().get("error", ""))[:_MAX_REASON]
    except (ValueError, AttributeError, RecursionError):
        error = ""
    status = response.status_code if response.is_error else 400
    return httpx2.Response(status, json={"error": error or "malformed answer"}, request=request)


def _described(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return f"an answer of the authorization server is malformed: {first_fault_of(error)}"
    return in_one_line(" ".join(str(error).split()), _MAX_REASON) or type(error).__name__


def first_fault_of(error: ValidationError) -> str:
    """Return the first fault of an answer, with its place. The text of the error has the values too, which may be secrets."""
    first = error.errors()[0]
    place = "".join(f"{part}: " for part in first["loc"])
    return in_one_line(f"{place}{first['msg']}", _MAX_REASON)


def _plain(model: BaseModel | None) -> Mapping[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _model(kind: type[_Model], plain: Mapping[str, Any] | None) -> _Model | None:
    try:
        return None if plain is None else kind.model_validate(plain)
    except ValidationError:
        return None
