"""Many WebSockets that read one session, in the loop of `readers`: the frames of the client are written by hand, without a library."""

import json
from collections.abc import Sequence
from typing import Final

from benchmarks.gateway.readers import Load, Reader

_UPGRADE: Final = (
    "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    "origin: http://127.0.0.1:{port}\r\nauthorization: Bearer anyone\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: agentrail.v1\r\n\r\n"
)
_SHORT: Final = 126


def text_frame(text: bytes) -> bytes:
    """Make a text frame of a client, with a mask of zeros."""
    size = bytes([0x80 | len(text)]) if len(text) < _SHORT else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + text


class SocketReader(Reader):
    """One WebSocket, which reads a session, or the board where there is none; it is up when that has begun."""

    session_id: str | None = None

    def ask(self) -> None:
        """Send the upgrade, and what is asked for right behind it."""
        assert self.peer is not None  # noqa: S101 - it is connected
        path = "/bare/ws" if self.session_id is None else "/ws"
        self.peer.send(_UPGRADE.format(path=path, port=self._address[1]).encode())
        self._wanted = b"retry: " if self.session_id is None else b'"subscribed"'
        self._is_asked = self.session_id is None

    def receive(self) -> bool:
        """Take what came; False where the connection has ended."""
        assert self.peer is not None  # noqa: S101 - it is connected
        try:
            came = self.peer.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self._rest = (self._rest + came)[-4_096:]
        if not self._is_asked and b"\r\n\r\n" in self._rest:
            self._is_asked = True
            asked = {"type": "subscribe", "id": 1, "session_id": self.session_id}
            self.peer.send(text_frame(json.dumps(asked).encode()))
        self.is_up = self.is_up or self._wanted in self._rest
        return bool(came)


class SocketLoad(Load):
    """Many of them."""

    def __init__(self, address: tuple[str, int], session_id: str | None, paths: Sequence[str]) -> None:
        """Open none yet; one for each path, which does not matter."""
        super().__init__(address, ())
        for _ in paths:
            reader = SocketReader(address, "/ws", self.lags)
            reader.session_id = session_id
            self.readers.append(reader)
