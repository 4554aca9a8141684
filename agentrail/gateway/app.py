"""`create_app`: a host over HTTP, as a Starlette application. Building one does no I/O."""

import importlib.util
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import trio
from attrs import evolve
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute

from agentrail.distribution import install_command
from agentrail.errors import OptionError
from agentrail.gateway import (
    chat_routes,
    console_files,
    event_routes,
    history_routes,
    mcp_login_routes,
    metrics_routes,
    session_routes,
)
from agentrail.gateway.authorization import LOOPBACK_NAMES, AccessRules, Authenticate, CallerCheck
from agentrail.gateway.console_files import CONSOLE_FILE_ROUTES
from agentrail.gateway.event_hub import Hubs, open_hubs
from agentrail.gateway.forwarder import open_forwarding
from agentrail.gateway.node_routes import NODES_PATH, NodeEndpoint
from agentrail.gateway.openapi import interface_route
from agentrail.gateway.path_endpoint import CallRoute, Gateway, UnknownPath, guarded, starlette_routes
from agentrail.gateway.protocols import (
    a2a_routes,
    ag_ui_routes,
    ai_ui_routes,
    mcp_routes,
    openai_response_routes,
    openai_routes,
)
from agentrail.gateway.request_parser import AsgiReceive, AsgiSend
from agentrail.gateway.row_watches import open_watches
from agentrail.gateway.sockets import Sockets
from agentrail.host.host import Host
from agentrail.host.host_lifespan import open_host
from agentrail.host.host_options import HostOptions, decide_host_options
from agentrail.otp.field_rules import Pause, TimeLimit, misfits
from agentrail.otp.guarded_calls import repr_of
from agentrail.protocols.mcp_server import MCP

ROUTES: Final[tuple[CallRoute, ...]] = (
    *chat_routes.CHAT_ROUTES,
    *event_routes.EVENT_ROUTES,
    *session_routes.SESSION_ROUTES,
    *history_routes.PAST_ROUTES,
    *session_routes.COMMAND_ROUTES,
    *console_files.INFO_ROUTES,
    *CONSOLE_FILE_ROUTES,
    *mcp_login_routes.MCP_LOGIN_ROUTES,
    *metrics_routes.METRICS_ROUTES,
)
"""All routes, in the order in which their paths are matched."""


PROTOCOLS: Final[Mapping[str, tuple[CallRoute, ...]]] = MappingProxyType(
    {
        ai_ui_routes.WIRE.name: ai_ui_routes.AI_UI_ROUTES,
        ag_ui_routes.AG_UI_WIRE.name: ag_ui_routes.AG_UI_ROUTES,
        openai_routes.NAME: (*openai_routes.OPENAI_ROUTES, *openai_response_routes.OPENAI_RESPONSE_ROUTES),
        a2a_routes.NAME: a2a_routes.A2A_ROUTES,
        MCP: mcp_routes.MCP_ROUTES,
    }
)
"""Available third-party protocols by name, with their routes. `create_app(protocols=)` selects which are served."""

DEFAULT_PROTOCOLS: Final = tuple([name for name in PROTOCOLS if name not in (a2a_routes.NAME, MCP)])
"""The protocols that need no further extra."""

ALL_ROUTES: Final[tuple[CallRoute, ...]] = (
    *ROUTES,
    *(route for routes_of_one in PROTOCOLS.values() for route in routes_of_one if route.is_described),
)
"""The described routes of a server that serves all protocols."""


class ServedHost:
    """A host over HTTP: `app.state.host` of an application from `create_app`.

    Attributes:
        options: Options of the host.
        gateway: Shared state of its routes.
        routes: Its routes.
        sockets: Its open sockets at `/ws`.
        drain_delay: Seconds that a stopping server continues normally, so that load balancers notice.
        heartbeat: Seconds of silence after which a stream gets a comment.
        protocols: Names of the third-party protocols that are served too.
        base_path: Path prefix of all routes.
        node_ca: File with the certificates that sign those of other nodes, or None for those of the system.
    """

    def __init__(  # noqa: PLR0913 - by keyword, only from `create_app`
        self,
        options: HostOptions,
        gateway: Gateway,
        *,
        drain_delay: float,
        heartbeat: float,
        protocols: tuple[str, ...] = (),
        base_path: str = "",
        node_ca: str | os.PathLike[str] | None = None,
    ) -> None:
        """Called by `create_app`. Opens nothing yet."""
        self.protocols = protocols
        self.base_path = base_path
        self.node_ca: Path | None = None if node_ca is None else Path(node_ca)
        self.options = options
        self.gateway = gateway
        self.routes: tuple[CallRoute, ...] = routes_with(
            inspector=gateway.has_inspector,
            console=gateway.has_console,
            metrics=options.metrics is not None,
        )
        self.sockets: Sockets = Sockets(gateway, self.routes)
        self.drain_delay = drain_delay
        self.heartbeat = heartbeat
        self._is_open = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Host]:
        """Open the host and answer calls for the duration of the block, then end streams, requests and sessions in order.

        The lifespan of the application does this. If the application is mounted in another one, that
        application's lifespan has to.

        Yields:
            The host.

        Raises:
            OptionError: Your move: it is already open; or the same as for `open_host`.
            BaseException: Same as for `open_host`.

        Cancellation: Same as for `open_host`; streams end with a final event, within at most a second.
        """
        if self._is_open:
            raise OptionError(["the host of this application is already open: open it only once"])
        self._is_open = True
        options = self.options
        if self.gateway.callers.rules.needs_token and not options.is_for_several:
            options = evolve(options, is_for_several=True)  # tokens were added on the command line
        try:
            async with open_host(options) as host, open_hubs(heartbeat_seconds=self.heartbeat) as hubs:
                self.gateway.host, self.gateway.hubs, self.gateway.was_open = host, hubs, True
                has_inspector = self.gateway.has_inspector
                async with (
                    open_watches(host, has_inspector=has_inspector) as watches,
                    self.gateway.open_calls.open(),
                    self.sockets.open(),
                    open_forwarding(self.gateway, host, node_ca=self.node_ca),
                    mcp_routes.open_mcp(self.gateway, host, is_served=MCP in self.protocols),
                ):
                    self.gateway.watches = watches
                    try:
                        if options.metrics is not None:
                            options.metrics.sources.append(self._count_subscribers)
                        yield host
                    finally:
                        self.gateway.host = self.gateway.hubs = self.gateway.watches = None
                        with trio.CancelScope(shield=True):
                            await self._end_streams(hubs, within_seconds=1.0)  # noqa: ASYNC102 - bounded
        finally:
            self._is_open = False

    async def _count_subscribers(self) -> Mapping[tuple[str, ...], float]:
        await trio.lowlevel.checkpoint()
        hubs = self.gateway.hubs
        streams = 0 if hubs is None else hubs.statistics().readers
        sockets = self.sockets.statistics().sockets
        return {
            ("agentrail_subscribers", "sse"): streams,
            ("agentrail_subscribers", "websocket"): sockets,
        }

    async def quiet(self) -> None:
        """Wait until no request is open, hooks included. Returns at once if the host is not open.

        Cancellation: Safe.
        """
        await trio.lowlevel.checkpoint()
        if self.gateway.host is not None:
            await self.gateway.host.quiet()

    async def drain(self) -> None:
        """Let calls and streams finish before the server stops.

        `/ready` fails, and for `drain_delay` everything else continues. Then new requests are refused, cycles
        have `drain_timeout` to finish, streams end with `done`, and callers still waiting get an answer.
        Including the rest of the lifespan, this takes at most `shutdown_timeout`.

        Cancellation: The remaining waits are skipped, including those at the end of the lifespan; streams still
            end with a final event.
        """
        await trio.lowlevel.checkpoint()
        host, hubs = self.gateway.host, self.gateway.hubs
        if host is None or hubs is None:
            return
        plan = host.begin_closing()
        try:
            host.fail_readiness()
            with trio.CancelScope(deadline=plan.cycles_by):
                await trio.sleep(self.drain_delay)
            await host.drain()
        except trio.Cancelled:
            host.skip_drain()
            raise
        finally:
            with trio.CancelScope(shield=True):
                await self._end_streams(hubs, within_seconds=plan.stream_seconds)  # noqa: ASYNC102 - bounded
        with trio.CancelScope(deadline=plan.served_by):
            await host.end_requests()

    async def _end_streams(self, hubs: Hubs, *, within_seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(hubs.close, "shutdown", within_seconds=within_seconds))
            nursery.start_soon(partial(self.sockets.close, within_seconds=within_seconds))


def create_app(  # noqa: PLR0913 - the options of a server, by keyword
    options: HostOptions | None = None,
    /,
    *,
    auth: Authenticate | None = None,
    allowed_hosts: Sequence[str] = LOOPBACK_NAMES,
    allowed_origins: Sequence[str] | None = None,
    heartbeat: float = 15.0,
    drain_delay: float = 0.0,
    inspector: bool = True,
    console: bool = True,
    base_path: str = "",
    protocols: Sequence[str] = DEFAULT_PROTOCOLS,
    node_ca: str | os.PathLike[str] | None = None,
    **given: Any,
) -> Starlette:
    """Create an ASGI application that serves a host over HTTP.

        app = create_app(profiles=[AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))])

    Args:
        options: All options of the host as one object. Host options must then not be given as keywords.
        auth: `Tokens`, or a function of the headers that returns a `Principal` or None. None: only this machine
            may call, as `local`.
        allowed_hosts: Host names under which the server may be called.
        allowed_origins: Origins whose pages may call it. None: only the server's own.
        heartbeat: Seconds of silence after which a stream gets a comment.
        drain_delay: Seconds that a stopping server continues normally, so that load balancers notice.
        inspector: Whether `/inspect` is served, for tokens with the scope `inspect`. Otherwise it is reported
            as unknown.
        console: Whether the web console is served at `/console`, with a redirect for browsers that open `/`.
        base_path: Path prefix of all routes, such as `/agents`.
        protocols: Names of the third-party protocols to serve, from `PROTOCOLS`.
        node_ca: File with the certificates that sign those of other nodes, for `advertise` with `https://`. None:
            those of the system.
        **given: Options of the host as keywords; see `HostOptions`.

    Returns:
        The application. Its lifespan opens the host; `app.state.host` is a `ServedHost`.

    Raises:
        OptionError: The operator's or a plugin author's move; all faults of one kind at once.
    """
    if options is None:
        given.setdefault("is_for_several", auth is not None)
    host_options = decide_host_options(options, given, also=OWN_OPTIONS)
    own = {"inspector": inspector, "console": console, "protocols": protocols, "node_ca": node_ca}
    own |= {"heartbeat": heartbeat, "drain_delay": drain_delay, "base_path": base_path}
    OptionError.raise_for(faults_of_own_options(own))
    host_options = _advertised_below(base_path, host_options)
    rules = AccessRules(allowed_hosts=tuple(allowed_hosts), allowed_origins=_listed(allowed_origins))
    limits = host_options.limits
    gateway = Gateway(
        callers=CallerCheck(auth, rules, max_failures_per_minute=limits.failed_authentications_per_minute),
        limits=limits,
        chat_timeout=host_options.chat_timeout,
        has_console=console,
        has_inspector=inspector,
    )
    served = ServedHost(
        host_options,
        gateway,
        drain_delay=drain_delay,
        heartbeat=heartbeat,
        protocols=tuple(protocols),
        base_path=base_path,
        node_ca=node_ca,
    )
    return _application(served, base_path)


OWN_OPTIONS: Final = tuple(
    one.name for one in signature(create_app).parameters.values() if one.kind is one.KEYWORD_ONLY
)
"""Options of `create_app` in addition to those of the host."""


def _advertised_below(base_path: str, options: HostOptions) -> HostOptions:
    """Return the options with an address at which other nodes find `/nodes/…`."""
    advertise = options.advertise.rstrip("/")
    if not advertise or advertise.endswith(base_path):
        return options
    return evolve(options, advertise=f"{advertise}{base_path}")


def _application(served: ServedHost, base_path: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with served.open():
            yield

    app = Starlette(routes=routes(served, base_path=base_path), lifespan=lifespan)
    app.router.redirect_slashes = False  # answered by our own code, after all checks
    app.router.default = _Nowhere(served, base_path)
    app.state.host = served
    app.state.drain = served.drain
    return app


def routes(served: ServedHost, *, base_path: str = "") -> list[BaseRoute]:
    """Return all routes, for an application that mounts some of them.

    Args:
        served: `app.state.host` of an application from `create_app`.
        base_path: Prefix of each path.
    """
    of_protocols = [route for name in dict.fromkeys(served.protocols) for route in PROTOCOLS[name]]
    all_routes = (*served.routes, *of_protocols)
    described = [route for route in all_routes if route.is_described]
    shown = (*all_routes, interface_route(described, base_path=base_path, known=ALL_ROUTES))
    return [
        *starlette_routes(served.gateway, shown, base_path=base_path),
        WebSocketRoute(f"{base_path}/ws", served.sockets, name="/ws"),
        Route(f"{base_path}{NODES_PATH}", NodeEndpoint(served.gateway, served.drain)),
    ]


def routes_with(*, inspector: bool, console: bool, metrics: bool = True) -> tuple[CallRoute, ...]:
    """Return the routes without those of the inspector, the console or the metrics, if these are off.

    Socket commands are routes too.
    """
    kept = ROUTES if console else tuple([route for route in ROUTES if route not in CONSOLE_FILE_ROUTES])
    off = {scope for scope, is_on in (("inspect", inspector), ("metrics", metrics)) if not is_on}
    return tuple([route for route in kept if route.scope not in off])


class _Nowhere:
    """ASGI application for all other paths. Below one of a protocol, an error has its shape: the router splits ids at `%2F`."""

    def __init__(self, served: ServedHost, base_path: str) -> None:
        routes, gateway = [one for name in served.protocols for one in PROTOCOLS[name]], served.gateway
        shapes = {route.path.partition("/{")[0]: route.encode_error for route in routes}
        below = [
            Route(f"{base_path}{start}/{{rest:path}}", guarded(UnknownPath(gateway, encode), gateway))
            for start, encode in shapes.items()
        ]
        self._unknown = Router(below, redirect_slashes=False, default=guarded(UnknownPath(gateway), gateway))

    async def __call__(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "websocket":
            # Before the handshake, so that it becomes a 403 response.
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._unknown(scope, receive, send)


def _listed(origins: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if origins is None else tuple(origins)


_KINDS: Final = (
    *(("inspector", bool), ("console", bool), ("heartbeat", TimeLimit), ("drain_delay", Pause)),
    ("node_ca", str | os.PathLike | None),
)


def faults_of_own_options(given: Mapping[str, Any]) -> list[str]:
    """Return the faults in the options of `create_app`, each with its name. `auth` and host names are not checked."""
    faults = [fault for name, kind in _KINDS if name in given for fault in misfits(name, given[name], kind)]
    protocols, base_path = given.get("protocols", ()), given.get("base_path", "")
    if isinstance(protocols, str) or not isinstance(protocols, Sequence):
        faults.append(f"protocols is {repr_of(protocols):.80}: expected names, such as ('ai-ui',)")
    else:
        there_are = ", ".join(map(repr, PROTOCOLS))
        faults += [
            f"protocols has {repr_of(name):.80}, which is not served: expected one of {there_are}"
            for name in protocols
            if name not in tuple(PROTOCOLS)
        ]
        if a2a_routes.NAME in protocols and (fault := a2a_routes.fault_of_a2a()) is not None:
            faults.append(f"protocols has {fault}")
        if MCP in protocols and importlib.util.find_spec("mcp") is None:
            faults.append(f"protocols has 'mcp', and the library is missing: {install_command('mcp')}")
    if not isinstance(base_path, str) or (
        base_path and (not base_path.startswith("/") or base_path.endswith("/"))
    ):
        faults.append(f"base_path is {repr_of(base_path):.80}: expected a path such as '/agents', or nothing")
    return faults
