"""One exchange with the server of a remote sandbox: sent, bounded, and read; what goes wrong with it is a refusal that names the address.

Nothing of the port enters here. A request that got no answer is sent again under its number: whatever changes something is carried out once
for a number, so that this is never a second time.
"""

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import httpx
import trio
from attrs import frozen

from agentrail.abc import Refusal, Secret
from agentrail.sandboxes.remote.wire import JSON_TYPE, MAX_SANDBOX_BODY_BYTES, SANDBOX_TOKEN_VARIABLE
from agentrail.wire.sandbox_address import RemoteAddress

SANDBOX_CONNECT_SECONDS: Final = 10.0

PAUSES_SECONDS: Final = (0.05, 0.2)
"""Before a request that got no answer is sent again, each time."""

_OK: Final = 200
_SAID: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: f"it does not take the token: {SANDBOX_TOKEN_VARIABLE} has to be the same there and here",
        404: "it does not know this workspace: its server was started anew, or heard nothing for too long. Its files are gone",
        409: "it does not take this request any more, or not from here",
        429: "it does as much as it may at one time: try again",
        503: "it has no room for more: try again later",
    }
)


class NoAnswer(Exception):
    """There is no answer, or none that can be used.

    Attributes:
        refusal: What the caller of the port hears; fit for a model, and about the connection.
        is_lost: Whether the server does not know us: nothing that is asked later can work either.
    """

    def __init__(self, refusal: Refusal, *, is_lost: bool = False) -> None:
        """Take what is to be said."""
        super().__init__(refusal.message)
        self.refusal = refusal
        self.is_lost = is_lost


@frozen(kw_only=True)
class SandboxReply:
    """What came back.

    Attributes:
        content_type: Of the body.
        body: All of it.
    """

    content_type: str
    body: bytes


def refuse_connection(address: RemoteAddress, why: str) -> NoAnswer:
    """Make what is said of a connection: with the address, and that it is neither the file nor the command."""
    message = f"The sandbox at {address.shown} gave no answer; this is about the connection, and not about what was asked: {why}."
    return NoAnswer(Refusal(code="io_error", message=message))


class Connection:
    """The way to one server."""

    def __init__(
        self,
        address: RemoteAddress,
        token: Secret,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            address: Of the server.
            token: What lets in there.
            tls: Which certificates are believed; None for those of this machine.
        """
        self._address = address
        self._token = token
        self._tls = tls
        self._client: httpx.AsyncClient | None = None

    async def send(  # noqa: PLR0913 - what goes out, and until when an answer is waited for
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON_TYPE,
        headers: Mapping[str, str] = MappingProxyType({}),
        within_seconds: float,
        again: bool = True,
    ) -> SandboxReply:
        """Send a request, and again where it got no answer.

        Args:
            method: Of HTTP.
            path: Behind the address; it has neither token nor name of a file.
            body: What is sent, at most `MAX_BODY_BYTES`.
            content_type: Of that.
            headers: Besides the usual ones.
            within_seconds: How long all of it may take.
            again: Whether it is sent again.

        Raises:
            NoAnswer: The server does not answer, answers too late, or not with what was asked for.

        Cancellation: The connection is closed; whether the request has arrived is not known.
        """
        given = {**headers, "content-type": content_type}
        with trio.move_on_after(within_seconds):
            for pause in (*PAUSES_SECONDS, None):
                try:
                    return await self._send(method, path, body, given)
                except httpx.HTTPError as error:
                    if pause is None or not again:
                        raise refuse_connection(self._address, _reason_of(error)) from None
                    await trio.sleep(pause)
        raise refuse_connection(self._address, f"nothing came within {within_seconds:g} s")

    async def _send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> SandboxReply:
        client = self._open()
        given = {**headers, "authorization": f"Bearer {self._token.reveal()}"}
        async with client.stream(method, path, content=body, headers=given) as response:
            if response.status_code != _OK:
                raise self._refused(response.status_code)
            came = bytearray()
            async for piece in response.aiter_raw():
                came += piece
                if len(came) > MAX_SANDBOX_BODY_BYTES:
                    raise refuse_connection(
                        self._address, f"it answered with more than {MAX_SANDBOX_BODY_BYTES:,} bytes"
                    )
            return SandboxReply(content_type=response.headers.get("content-type", ""), body=bytes(came))

    def _refused(self, status: int) -> NoAnswer:
        if status == 413:  # noqa: PLR2004 - Content Too Large
            message = f"It is too much for one request to the sandbox at {self._address.shown}: at most {MAX_SANDBOX_BODY_BYTES:,} bytes are taken."
            return NoAnswer(Refusal(code="too_large", message=message))
        said = _SAID.get(status, f"it answered with the status {status}")
        refused = refuse_connection(self._address, said)
        refused.is_lost = status == 404  # noqa: PLR2004 - Not Found
        return refused

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            is_tls = self._address.url.startswith("https:")
            trusted: ssl.SSLContext | bool = (self._tls or ssl.create_default_context()) if is_tls else False
            socket = self._address.socket
            self._client = httpx.AsyncClient(
                base_url=self._address.url,
                transport=httpx.AsyncHTTPTransport(
                    verify=trusted,
                    trust_env=False,
                    uds=socket,
                ),
                headers={"accept-encoding": "identity", "user-agent": "agentrail-sandbox"},
                timeout=httpx.Timeout(None, connect=SANDBOX_CONNECT_SECONDS),
                trust_env=False,  # no proxy: it would hear the token
                follow_redirects=False,  # nor another server that this one names
            )
        return self._client

    async def aclose(self) -> None:
        """Close it; again if you like."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None
        await trio.lowlevel.checkpoint()


def _reason_of(error: BaseException) -> str:
    """Say why there was no answer, in words that act on no terminal."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({found.verify_message}); SSL_CERT_FILE names one that is"
        found = found.__cause__ or found.__context__
    said = str(error)
    return f"{said:.200}" if said and said.isprintable() else "it broke off"
