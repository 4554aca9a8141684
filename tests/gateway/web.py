"""A server on a free port for tests, and a client of it: real sockets, because httpx's transport inside a process cannot stream."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import trio
from attrs import define

from agentrail.gateway.app import ServedHost, create_app
from agentrail.gateway.serving import ConnectionLimits, addresses_of, open_listeners, serve_app
from agentrail.host import Host, HostPlugin
from tests.gateway.interface import PageCheck
from tests.gateway.sse import Frame, parse
from tests.host.hosting import profile

# Idle connections are given up before the server does it, or a call may be sent as its connection is closed.
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2)
HURRY = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2)


@define(eq=False)
class Web:
    client: httpx.AsyncClient
    served: ServedHost
    address: tuple[str, int]
    stop: trio.Event
    check: PageCheck

    @property
    def host(self) -> Host:
        host = self.served.gateway.host
        assert host is not None
        return host

    async def post(self, path: str, said: Any = None, **given: Any) -> httpx.Response:
        return await self.client.post(path, json={} if said is None else said, **given)

    async def chat(self, message: str = "Hi", **said: Any) -> httpx.Response:
        """Post to `/chat`."""
        return await self.post("/chat", {"message": message, **said})

    @asynccontextmanager
    async def leaving_when(self, holds: Callable[[], object]) -> AsyncIterator[None]:
        """Cancel the block as soon as the condition holds: a client that leaves in the middle, however slow the machine is."""

        async def leave() -> None:
            while not holds():  # noqa: ASYNC110 - what is waited for has no event
                await trio.sleep(0.005)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            yield
            nursery.cancel_scope.cancel()

    async def stream(self, path: str = "/stream", said: Any = None, **given: Any) -> list[Frame]:
        """Read a stream to its end; there is one `done`, and it stands last."""
        method = "GET" if said is None else "POST"
        async with self.client.stream(method, path, json=said, **given) as response:
            assert response.status_code == 200, await response.aread()
            frames = parse(b"".join([piece async for piece in response.aiter_bytes()]))
        assert [frame.event for frame in frames].count("done") == 1
        assert frames[-1].event == "done"
        return frames


@asynccontextmanager
async def serving(model: Any = None, *plugins: HostPlugin, **options: Any) -> AsyncIterator[Web]:
    """Serve an application of one profile `desk`, and give what calls it; leaving the block drains and stops it."""
    session = {key[8:]: options.pop(key) for key in tuple(options) if key.startswith("session_")}
    headers = options.pop("headers", None)
    options.setdefault("store", None)
    options.setdefault("drain_timeout", 0.5)
    if "profiles" not in options:
        options["profiles"] = [profile(model, **session)]
    app = create_app(plugins=plugins, **options)
    check = PageCheck(app, options.get("base_path", ""), lambda: _may_answer(app.state.host.gateway.host))
    listeners = await open_listeners("127.0.0.1", 0)
    (address,) = addresses_of(listeners)
    stop = trio.Event()

    async def wait_stop() -> None:
        await stop.wait()
        await app.state.drain()

    base = f"http://{address[0]}:{address[1]}"
    async with (
        httpx.AsyncClient(base_url=base, verify=False, timeout=10, headers=headers, limits=_LIMITS) as client,  # noqa: S501 - no TLS here
        trio.open_nursery() as nursery,
    ):
        await nursery.start(partial(serve_app, check, listeners, wait_stop, limits=HURRY))
        yield Web(client, app.state.host, address, stop, check)
        stop.set()
    check.check()


def _may_answer(host: Host | None) -> bool:
    return host is not None and bool(host.plugins.having["intercept_chat_request"])


def error_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer, which has this status and code."""
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == code, error
    assert set(error) >= {"code", "message", "hint"}
    return error
