"""`create_app`: a host behind HTTP, as a Starlette application, and its life: opened by the lifespan, drained and closed in order.

Which routes there are is said here, by the modules that have them; what each does is theirs. Building an application does no I/O.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import trio
from attrs import evolve
from starlette.applications import Starlette
from starlette.routing import BaseRoute, WebSocketRoute

from agentrail.errors import OptionError
from agentrail.gateway import (
    chat_routes,
    command_routes,
    console_files,
    event_routes,
    past_routes,
    session_routes,
)
from agentrail.gateway.access import LOOPBACK_NAMES, AccessRules, Authenticate, CallerCheck
from agentrail.gateway.console_files import CONSOLE_FILE_ROUTES
from agentrail.gateway.endpoint import CallRoute, Gateway, UnknownPath, guarded, starlette_routes
from agentrail.gateway.hub import Hubs, open_hubs
from agentrail.gateway.openapi import interface_route
from agentrail.gateway.protocols import ai_ui_routes
from agentrail.gateway.reading import AsgiReceive, AsgiSend
from agentrail.gateway.sockets import Sockets
from agentrail.gateway.streams import write_stream
from agentrail.gateway.watches import open_watches
from agentrail.host.host import Host
from agentrail.host.host_options import HostOptions, decide_host_options, is_seconds
from agentrail.host.opening import open_host

ROUTES: Final[tuple[CallRoute, ...]] = (
    *chat_routes.CHAT_ROUTES,
    *event_routes.EVENT_ROUTES,
    *session_routes.SESSION_ROUTES,
    *past_routes.PAST_ROUTES,
    *command_routes.COMMAND_ROUTES,
    *console_files.INFO_ROUTES,
    *CONSOLE_FILE_ROUTES,
)
"""All routes, in the order in which their paths are looked at."""


PROTOCOLS: Final[Mapping[str, tuple[CallRoute, ...]]] = MappingProxyType(
    {ai_ui_routes.NAME: ai_ui_routes.AI_UI_ROUTES}
)
"""The protocols of others that there are, by name, and the routes of each; `create_app(protocols=)` says which are served."""

ALL_ROUTES: Final[tuple[CallRoute, ...]] = (
    *ROUTES,
    *(route for routes_of_one in PROTOCOLS.values() for route in routes_of_one),
)
"""The routes of a server that serves all protocols."""

OWN_OPTIONS: Final = (
    "auth",
    "allowed_hosts",
    "allowed_origins",
    "heartbeat",
    "drain_delay",
    "inspector",
    "console",
    "base_path",
    "protocols",
)
"""What `create_app` takes besides the options of the host."""


class ServedHost:
    """A host behind HTTP: `app.state.host` of an application that `create_app` made.

    Attributes:
        options: What the host is opened with.
        gateway: What its routes share.
        routes: Those that it has.
        sockets: What is open at `/ws`.
        drain_delay: How many seconds a server that is told to stop goes on, so that balancers notice.
        heartbeat: After how many seconds a silent stream gets a comment.
        protocols: The names of the protocols of others that are served too.
        base_path: Below which path all of it stands.
    """

    def __init__(  # noqa: PLR0913 - by keyword, from `create_app` alone
        self,
        options: HostOptions,
        gateway: Gateway,
        *,
        drain_delay: float,
        heartbeat: float,
        inspector: bool = True,
        console: bool = True,
        protocols: tuple[str, ...] = (),
        base_path: str = "",
    ) -> None:
        """Made by `create_app`; nothing is open yet."""
        self.protocols = protocols
        self.base_path = base_path
        self.options = options
        self.gateway = gateway
        self.routes: tuple[CallRoute, ...] = routes_with(inspector=inspector, console=console)
        self.sockets: Sockets = Sockets(gateway, self.routes)
        self.drain_delay = drain_delay
        self.heartbeat = heartbeat
        self._is_open = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Host]:
        """Open the host, and answer calls as long as the block lasts; then end streams, requests and sessions in order.

        The lifespan of the application does this. Mounted in another application it is that one's lifespan that has to.

        Yields:
            The host.

        Raises:
            OptionError: Your move: it is open already; or as of `open_host`.
            BaseException: As of `open_host`.

        Cancellation: As of `open_host`; streams are ended with a word, for at most a second.
        """
        if self._is_open:
            raise OptionError(["the host of this application is open already: open it once"])
        self._is_open = True
        options = self.options
        if self.gateway.callers.rules.needs_token and not options.is_for_several:
            options = evolve(options, is_for_several=True)  # tokens came with the command line
        try:
            async with open_host(options) as host, open_hubs(heartbeat_seconds=self.heartbeat) as hubs:
                self.gateway.host, self.gateway.hubs, self.gateway.was_open = host, hubs, True
                has_inspector = self.gateway.has_inspector
                async with (
                    open_watches(host, has_inspector=has_inspector) as watches,
                    self.gateway.open_calls.open(),
                    self.sockets.open(),
                ):
                    self.gateway.watches = watches
                    try:
                        yield host
                    finally:
                        self.gateway.host = self.gateway.hubs = self.gateway.watches = None
                        with trio.CancelScope(shield=True):
                            await self._end_streams(hubs, within_seconds=1.0)  # noqa: ASYNC102 - bounded
        finally:
            self._is_open = False

    async def quiet(self) -> None:
        """Wait until no request is open, hooks included; at once where the host is not open.

        Cancellation: Nothing is lost by it.
        """
        await trio.lowlevel.checkpoint()
        if self.gateway.host is not None:
            await self.gateway.host.quiet()

    async def drain(self) -> None:
        """Let calls and streams come to an end, in front of the end of the server.

        `/ready` fails, and for `drain_delay` all goes on. Then no new request is taken, cycles have `drain_timeout` to come to an end,
        streams end with `done`, and what still waits for an answer gets one. With what follows, up to the end of the lifespan, it takes
        no longer than `shutdown_timeout`.

        Cancellation: The rest of the waiting is left out, also at the end of the lifespan; streams still end with a word.
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
        """End all streams and sockets, each with a last word."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(hubs.close, "shutdown", within_seconds=within_seconds))
            nursery.start_soon(partial(self.sockets.close, within_seconds=within_seconds))


def create_app(  # noqa: PLR0913 - what an operator may say of a server, by keyword
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
    protocols: Sequence[str] = tuple(PROTOCOLS),
    **given: Any,
) -> Starlette:
    """Make an application that answers HTTP for a host.

    app = create_app(profiles=[AgentProfile(id="desk", name="Desk", options=SessionOptions(model="demo:"))])

    Args:
        options: All options of the host in one value; then none may be given as a keyword.
        auth: `Tokens`, or a function of the headers that gives a `Principal` or None. None: this machine alone may call, as `local`.
        allowed_hosts: By which names the server may be called.
        allowed_origins: Whose pages may call it; None for the server's own.
        heartbeat: After how many seconds a silent stream gets a comment.
        drain_delay: How many seconds a server that is told to stop goes on, so that balancers notice.
        inspector: Whether there is anything below `/inspect`, for tokens with the scope `inspect`; else it is as unknown as any path.
        console: Whether the web console is served below `/console`, and browsers that open `/` are led there.
        base_path: Below which path all routes stand, such as `/agents`.
        protocols: Which protocols of others are served, by name: those of `PROTOCOLS`.
        **given: The options of the host as keywords; see `HostOptions`.

    Returns:
        The application. Its lifespan opens the host; `app.state.host` is a `ServedHost`.

    Raises:
        OptionError: The operator's or a plugin author's move; all faults of one kind at once.
    """
    if options is None:
        given.setdefault("is_for_several", auth is not None)
    host_options = decide_host_options(options, given, also=OWN_OPTIONS)
    _check(heartbeat, drain_delay, {"inspector": inspector, "console": console}, base_path, protocols)
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
        inspector=inspector,
        console=console,
        protocols=tuple(protocols),
        base_path=base_path,
    )
    return _application(served, base_path)


def _application(served: ServedHost, base_path: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with served.open():
            yield

    app = Starlette(routes=routes(served, base_path=base_path), lifespan=lifespan)
    app.router.redirect_slashes = False  # an answer of its own, in front of all checks
    app.router.default = _Nowhere(served.gateway)
    app.state.host = served
    app.state.caller_check = served.gateway.callers
    app.state.drain = served.drain
    return app


def routes(served: ServedHost, *, base_path: str = "") -> list[BaseRoute]:
    """Give all routes one by one, for an application that mounts some of them.

    Args:
        served: `app.state.host` of what `create_app` made.
        base_path: What stands in front of each path.
    """
    of_protocols = [route for name in dict.fromkeys(served.protocols) for route in PROTOCOLS[name]]
    all_routes = (*served.routes, *of_protocols)
    shown = (*all_routes, interface_route(all_routes, base_path=base_path, known=ALL_ROUTES))
    return [
        *starlette_routes(served.gateway, shown, write_stream, base_path=base_path),
        WebSocketRoute(f"{base_path}/ws", served.sockets, name="/ws"),
    ]


def routes_with(*, inspector: bool, console: bool) -> tuple[CallRoute, ...]:
    """Leave out what is for who may inspect, on sockets too, whose commands are routes; and the console."""
    kept = ROUTES if console else tuple([route for route in ROUTES if route not in CONSOLE_FILE_ROUTES])
    return kept if inspector else tuple([route for route in kept if route.scope != "inspect"])


class _Nowhere:
    """Where no path leads, as an ASGI application."""

    def __init__(self, gateway: Gateway) -> None:
        self._unknown = guarded(UnknownPath(gateway), gateway)

    async def __call__(self, scope: Any, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "websocket":
            await send(
                {"type": "websocket.close", "code": 1000}
            )  # in front of its beginning: it becomes a 403
        else:
            await self._unknown(scope, receive, send)


def _listed(origins: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if origins is None else tuple(origins)


def _check(
    heartbeat: Any, drain_delay: Any, switches: Mapping[str, Any], base_path: Any, protocols: Any
) -> None:
    given = {"heartbeat": heartbeat, "drain_delay": drain_delay, "base_path": base_path}
    faults = faults_of_own_options({**switches, "protocols": protocols, **given})
    if faults:
        raise OptionError(faults)


def faults_of_own_options(given: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with options that `create_app` takes besides those of the host, each by its name; `auth` and names are not looked at."""
    faults = [
        f"{name} is {given[name]!r:.80}: expected True or False"
        for name in ("inspector", "console")
        if name in given and type(given[name]) is not bool
    ]
    protocols, base_path = given.get("protocols", ()), given.get("base_path", "")
    if isinstance(protocols, str) or not isinstance(protocols, Sequence):
        faults.append(f"protocols is {protocols!r:.80}: expected names, such as ('ai-ui',)")
    else:
        there_are = ", ".join(map(repr, PROTOCOLS))
        faults += [
            f"protocols has {name!r:.80}, which is not served: there are {there_are}"
            for name in protocols
            if name not in tuple(PROTOCOLS)
        ]
    if "heartbeat" in given and not is_seconds(given["heartbeat"], zero=False):
        faults.append(f"heartbeat is {given['heartbeat']!r:.80}: expected seconds above 0")
    if "drain_delay" in given and not is_seconds(given["drain_delay"], zero=True):
        faults.append(f"drain_delay is {given['drain_delay']!r:.80}: expected seconds from 0")
    if not isinstance(base_path, str) or (
        base_path and (not base_path.startswith("/") or base_path.endswith("/"))
    ):
        faults.append(f"base_path is {base_path!r:.80}: expected a path such as '/agents', or nothing")
    return faults
