"""A stranger's end of a connection: bytes as they are wanted, and all that comes back. No library tidies them up in between."""

import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import define

from agentrail.host import Principal
from agentrail.host.quotas import Limits
from tests.gateway.web import Web

HOST = b"Host: 127.0.0.1\r\n"
ANN = HOST + b"Authorization: Bearer acme/ann\r\n"
JSON = b"Content-Type: application/json\r\n"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Protocol: agentrail.v1\r\nSec-WebSocket-Version: 13\r\n"
)
_RATES = ("messages_per_minute", "messages_burst", "calls_per_minute", "calls_burst", "commands_per_second")
FREE = Limits(**dict.fromkeys((*_RATES, "failed_authentications_per_minute"), 1_000_000))
"""No attack is stopped by having been tried too often."""


def by_header(headers: Any) -> Principal | None:
    """Who calls says so: `tenant/user`, and `+` behind it for who may inspect."""
    tenant_id, _, user_id = headers.get("authorization", "").removeprefix("Bearer ").partition("/")
    if not user_id:
        return None
    scopes = ("use", "inspect") if user_id.endswith("+") else ("use",)
    return Principal(tenant_id=tenant_id, user_id=user_id.rstrip("+"), scopes=scopes)


async def tell(web: Web, sent: bytes, *, seconds: float = 3.0) -> tuple[bytes, bool]:
    """Send bytes on a connection of their own; gives what came back, and whether the server closed it.

    It is done when nothing more comes for so many seconds. A first byte may take longer: a table is told at once, on a
    machine that is busy besides.
    """
    stream = await trio.open_tcp_stream(*web.address)
    held = bytearray()
    try:
        with trio.move_on_after(5 * seconds) as scope:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_send, stream, sent)
                    async for piece in stream:
                        held += piece
                        scope.deadline = trio.current_time() + seconds
                    nursery.cancel_scope.cancel()
            except* trio.BrokenResourceError:
                pass
        return bytes(held), not scope.cancelled_caught
    finally:
        await trio.aclose_forcefully(stream)


async def _send(stream: trio.SocketStream, sent: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # refused in the middle of it
        await stream.send_all(sent)


async def at_once(rows: Iterable[str], check: Callable[[str], Awaitable[None]]) -> None:
    """Check all rows of a table side by side: a server for each would cost more than what is attacked."""
    async with trio.open_nursery() as nursery:
        for row in rows:
            nursery.start_soon(check, row)


def statuses(answer: bytes) -> list[int]:
    """The status of each answer among what came back."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", answer)]


def head(line: bytes, *headers: bytes) -> bytes:
    """The head of a request, with an empty line behind it."""
    return line + b" HTTP/1.1\r\n" + b"".join(headers) + b"\r\n"


def post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    return head(b"POST " + path, ANN, JSON, *headers, b"Content-Length: %d\r\n" % len(body)) + body


CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def frame(kind: int, payload: bytes = b"", *, last: bool = True, bits: int = 0, masked: bool = True) -> bytes:
    """A frame as a client sends it; the mask is four zeros."""
    first = (0x80 if last else 0) | bits << 4 | kind
    size, flag = len(payload), 0x80 if masked else 0
    if size < 126:
        begin = struct.pack(">BB", first, flag | size)
    elif size < 1 << 16:
        begin = struct.pack(">BBH", first, flag | 126, size)
    else:
        begin = struct.pack(">BBQ", first, flag | 127, size)
    return begin + (bytes(4) if masked else b"") + payload


@define(eq=False)
class Peer:
    """The other end of a WebSocket that was opened."""

    stream: trio.SocketStream
    agreed: bytes
    held: bytes = b""

    async def to_end(self, seconds: float = 3.0) -> int | None:
        """Read until the server closes the connection, and give the code in its last frame; None for none."""
        with trio.fail_after(seconds):
            try:
                async for piece in self.stream:
                    self.held += piece
            except trio.BrokenResourceError:
                pass
        place = self.held.rfind(b"\x88\x02")
        return None if place < 0 else int.from_bytes(self.held[place + 2 : place + 4], "big")


@asynccontextmanager
async def peer_of(web: Web, *headers: bytes) -> AsyncIterator[Peer]:
    stream = await trio.open_tcp_stream(*web.address)
    try:
        await stream.send_all(head(b"GET /ws", *(headers or (ANN,)), UPGRADE))
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = await stream.receive_some()
            assert piece, answer
            answer += piece
        agreed, _, rest = answer.partition(b"\r\n\r\n")
        assert agreed.startswith(b"HTTP/1.1 101"), agreed
        yield Peer(stream, agreed, bytes(rest))
    finally:
        await trio.aclose_forcefully(stream)


async def send_quietly(peer: Peer, sent: bytes) -> None:
    await _send(peer.stream, sent)
