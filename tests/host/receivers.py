"""Receivers of webhooks, which count their connections; `tests.web.sites` opens them on sockets of this machine."""

from contextlib import suppress

import h11
import trio

ANSWER = b"HTTP/1.1 %d So\r\nContent-Length: 0\r\n%s\r\n"


class Receiver:
    """A server that counts its connections, and keeps what was sent to it.

    Attributes:
        connections: How many were made.
        heads: The heads that came, by h11.
        bodies: Their bodies.
        names: What TLS was asked for.
        answer: The bytes that it sends.
    """

    def __init__(self, status=204, headers=b"", *, tls=None):
        self.connections = 0
        self.heads, self.bodies, self.names = [], [], []
        self.port = 0
        self.answer = ANSWER % (status, headers)
        self._tls = tls
        if tls is not None:
            tls.sni_callback = lambda _socket, name, _context: self.names.append(name)

    async def serve(self, stream):
        self.connections += 1
        # A caller who does not believe us leaves.
        with suppress(h11.RemoteProtocolError, trio.BrokenResourceError):
            await self._take(stream)

    async def _take(self, stream):
        if self._tls is not None:
            stream = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        reader, body = h11.Connection(h11.SERVER), b""
        async with stream:
            while True:
                event = reader.next_event()
                if event is h11.NEED_DATA:
                    reader.receive_data(await stream.receive_some())
                elif isinstance(event, h11.Request):
                    self.heads.append(event)
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    break
            self.bodies.append(body)
            await stream.send_all(self.answer)
