"""Sites on sockets of this machine, which count the connections that are made to them."""

from contextlib import asynccontextmanager, suppress
from functools import partial

import h11
import trio


class Site:
    """A server with pages, which counts connections and keeps method and target, headers and body of each request."""

    def __init__(self, **pages):
        """Answer `/name` with `pages[name]`, and any other path with `pages["any"]`: (status, headers, body), or a body alone."""
        self.connections = 0
        self.asked, self.headers, self.bodies = [], [], []
        self.port = 0
        self.pages = pages

    @property
    def origin(self):
        """As an operator allows it, and a page's address begins."""
        return f"http://site.example:{self.port}"

    async def serve(self, stream):
        self.connections += 1
        with suppress(h11.RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError):
            await self._take(stream)

    async def _take(self, stream):
        reader = h11.Connection(h11.SERVER)
        body = b""
        async with stream:
            while True:
                event = reader.next_event()
                if event is h11.NEED_DATA:
                    reader.receive_data(await stream.receive_some())
                elif isinstance(event, h11.Request):
                    self.asked.append((event.method.decode(), event.target.decode()))
                    self.headers.append({name.decode(): value.decode() for name, value in event.headers})
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self.bodies.append(body)
                    body = b""
                    await self._answer(stream)
                    reader.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                    reader.send(h11.EndOfMessage())
                    if reader.our_state is h11.MUST_CLOSE:
                        return
                    reader.start_next_cycle()
                else:
                    return

    async def _answer(self, stream):
        path = self.asked[-1][1].partition("?")[0]
        page = self.pages.get(path.strip("/") or "any", self.pages.get("any", (404, {}, b"")))
        if callable(page):
            page = page(self)
        status, headers, content = (
            page if isinstance(page, tuple) else (200, {"Content-Type": "text/html"}, page)
        )
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await stream.send_all(
            f"HTTP/1.1 {status} So\r\n{lines}Content-Length: {len(content)}\r\n\r\n".encode()
        )
        await stream.send_all(content)


@asynccontextmanager
async def open_sites(*sites, at="127.0.0.1", port=0):
    """Serve sites, each on a port of its own, or on one port of several addresses of this machine."""
    async with trio.open_nursery() as nursery:
        for site in sites:
            listeners = await nursery.start(partial(trio.serve_tcp, site.serve, port, host=at))
            site.port = listeners[0].socket.getsockname()[1]
        yield
        nursery.cancel_scope.cancel()


class Names:
    """Answers for names, each time with the next of what it was given; the last one stays."""

    def __init__(self, *answers):
        self.asked = []
        self._answers = [*answers]

    async def __call__(self, host, _port):
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


HERE = ("127.0.0.1",)
