"""Several servers over one store in one process, each a node with a port of its own, as a client without stickiness sees them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import trio
from attrs import define, field

from agentrail.gateway.app import create_app
from agentrail.gateway.serving import addresses_of, open_listeners, serve_app
from agentrail.host import HostPlugin
from agentrail.messages import SessionId
from agentrail.stores.memory import MemoryStore
from tests.gateway.callers import auth, by
from tests.gateway.interface import PageCheck
from tests.gateway.web import HURRY, Web
from tests.host.hosting import profile

_CLIENT_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2)


class Seen(HostPlugin):
    """Writes down the messages that the plugins of one node judge."""

    name = "seen"

    def __init__(self) -> None:
        self.messages: list[str] = []

    async def intercept_chat_request(self, ctx: Any) -> None:
        self.messages.append(ctx.request.message)


@define(eq=False)
class Wire:
    """What stands between the other nodes and one node: it passes bytes on, unless it is cut."""

    port: int = 0
    is_cut: bool = False
    _open: dict[trio.CancelScope, None] = field(factory=dict)

    def cut(self) -> None:
        """Break all connections, and close new ones at once."""
        self.is_cut = True
        for scope in tuple(self._open):
            scope.cancel()

    async def serve(self, listeners: list[trio.SocketListener], target: int) -> None:
        async def carry(near: trio.SocketStream) -> None:
            scope = trio.CancelScope()
            async with near:
                if self.is_cut:
                    return
                async with await trio.open_tcp_stream("127.0.0.1", target) as far:
                    self._open[scope] = None
                    with scope:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(_copy, near, far, nursery.cancel_scope)
                            nursery.start_soon(_copy, far, near, nursery.cancel_scope)
                    del self._open[scope]

        await trio.serve_listeners(carry, listeners)


async def _copy(source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
    try:
        async for piece in source:
            await sink.send_all(piece)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


@define(eq=False)
class ServedNode(Web):
    """A node. `wire` is its connection to the others, which its clients do not use."""

    seen: Seen
    wire: Wire
    store: MemoryStore

    @property
    def id(self) -> str:
        node = self.host.supervisor.nodes.node
        assert node is not None
        return node.id

    def owner(self, session_id: str = "s", scope: str = "acme") -> tuple[str, int]:
        """The node of a session in the store, and the epoch of its last record."""
        row = self.store.get(scope, SessionId(session_id))
        assert row is not None
        return row.node, row.tail.epoch


@asynccontextmanager
async def serving_nodes(
    count: int, model: Any, *, store: MemoryStore | None = None, **options: Any
) -> AsyncIterator[list[ServedNode]]:
    """Serve nodes over one store. Options are those of `create_app`, and `session_…` those of the profile."""
    shared = MemoryStore(is_shared=True) if store is None else store
    session = {key[8:]: options.pop(key) for key in tuple(options) if key.startswith("session_")}
    given = {"auth": auth, "drain_timeout": 0.5, "profiles": [profile(model, **session)], **options}
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        nodes = [await _start(stack, nursery, shared, given) for _ in range(count)]
        yield nodes
        for one in nodes:
            one.stop.set()
            one.check.check()
        nursery.cancel_scope.deadline = trio.current_time() + 5


async def _start(
    stack: AsyncExitStack, nursery: trio.Nursery, store: MemoryStore, given: dict[str, Any]
) -> ServedNode:
    listeners, between = await open_listeners("127.0.0.1", 0), await open_listeners("127.0.0.1", 0)
    ((host, port),), ((_, own),) = addresses_of(listeners), addresses_of(between)
    seen, wire, stop = Seen(), Wire(port=own), trio.Event()
    app = create_app(store=store, advertise=f"http://127.0.0.1:{own}", plugins=[seen], **given)
    check = PageCheck(app, given.get("base_path", ""), lambda: False)

    async def wait_stop() -> None:
        await stop.wait()
        await app.state.drain()
        carrying.cancel()

    carrying = trio.CancelScope()

    async def carry() -> None:
        with carrying:
            await wire.serve(between, port)

    async def run(task_status: Any) -> None:
        await serve_app(check, listeners, wait_stop, limits=HURRY, task_status=task_status)

    client = await stack.enter_async_context(
        httpx.AsyncClient(
            base_url=f"http://{host}:{port}",
            verify=False,  # noqa: S501 - no TLS here
            timeout=20,
            headers=by("ann"),
            limits=_CLIENT_LIMITS,
        )
    )
    nursery.start_soon(carry)
    await nursery.start(run)
    return ServedNode(
        client=client,
        served=app.state.host,
        address=(host, port),
        stop=stop,
        check=check,
        seen=seen,
        wire=wire,
        store=store,
    )
