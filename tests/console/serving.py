"""A real gateway on the loopback for tests of the console, in a thread of its own with a Trio run of its own; tests call into it by `run`."""

import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import trio
from attrs import define, field
from starlette.applications import Starlette

from agentrail.gateway.app import create_app
from agentrail.gateway.request_parser import AsgiApp
from agentrail.gateway.serving import ConnectionLimits, addresses_of, open_listeners, serve_app
from agentrail.host import Host
from tests.host.hosting import profile

T = TypeVar("T")

HURRY = ConnectionLimits(grace_seconds=0.2, cut_seconds=0.2)
START_SECONDS = 20
PATIENCE_SECONDS = 30.0
"""How long a page is waited for: twenty times as long as it takes beside three other workers, since only what fails waits so long."""


class JumpingClock(trio.abc.Clock):
    """Trio's own clock, which a test can put forward: what a server waits for then has come, and nothing was waited for."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0

    def jump(self, seconds: float) -> None:
        """Put it forward; called in its run, which then looks what is due."""
        self._ahead_seconds += seconds

    def start_clock(self) -> None:
        """It goes already."""

    def current_time(self) -> float:
        return time.perf_counter() + self._ahead_seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


class AppThread:
    def __init__(self, app: AsgiApp, *, port: int = 0, tls: Any = None, drain: Any = None) -> None:
        """Begin to serve; returns when calls are answered, or raises what the application raised. `drain` is awaited before the end."""
        self._app, self._asked_port, self._tls, self._drain = app, port, tls, drain
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop: trio.Event | None = None
        self._clock = JumpingClock()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="console server", daemon=True)
        self._thread.start()
        assert self._is_ready.wait(START_SECONDS), "the server did not begin"
        if self._failure is not None:
            raise self._failure

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        return trio.from_thread.run_sync(function, *args, trio_token=self._token)

    def jump(self, seconds: float) -> None:
        """Put the server's clock forward, and with it the dates of what it does."""
        self.call(self._clock.jump, seconds)

    def stop(self) -> None:
        """End it; calls that are open have a moment."""
        if self._thread.is_alive() and self._stop is not None:
            self.call(self._stop.set)
            self._thread.join(START_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            trio.run(self._serve, clock=self._clock)
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
            self._failure = raised
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        listeners = await open_listeners("127.0.0.1", self._asked_port)
        ((_, self.port),) = addresses_of(listeners)
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(serve_app, self._app, listeners, self._wait_stop, limits=HURRY, tls=self._tls)
            )
            self._is_ready.set()

    async def _wait_stop(self) -> None:
        assert self._stop is not None
        await self._stop.wait()
        if self._drain is not None:
            await self._drain()


@define(eq=False)
class ConsoleServer:
    """A gateway with its console, begun by the first thing that is asked of it."""

    app: Starlette | None = None
    _thread: AppThread | None = None
    _base_path: str = ""
    _scheme: str = field(default="http")

    def start(
        self, model: Any = "demo:", *, port: int = 0, tls: Any = None, **options: Any
    ) -> "ConsoleServer":
        """Begin with options of `create_app`; without `profiles`, `desk` has the model and the options that begin with `session_`."""
        session = {key[8:]: options.pop(key) for key in tuple(options) if key.startswith("session_")}
        options.setdefault("store", None)
        options.setdefault("drain_timeout", 0.2)
        if "profiles" not in options:
            options["profiles"] = [profile(model, **session)]
        self._base_path = options.get("base_path", "")
        self._scheme = "http" if tls is None else "https"
        self.app = create_app(**options)
        self._thread = AppThread(self.app, port=port, tls=tls, drain=self.app.state.drain)
        return self

    @property
    def thread(self) -> AppThread:
        if self._thread is None:
            self.start()
        assert self._thread is not None
        return self._thread

    @property
    def base(self) -> str:
        """Where its routes stand, without a slash at the end."""
        return f"{self._scheme}://127.0.0.1:{self.thread.port}{self._base_path}"

    @property
    def host(self) -> Host:
        """The host behind it; its methods are called by `run`."""
        if self.app is None:
            self.start()
        assert self.app is not None
        found: Host = self.app.state.host.gateway.opened()[0]
        return found

    def link(self, fragment: str = "#/", *, query: str = "") -> str:
        """Give the address of a page of the console."""
        return f"{self.base}/console/{query}{fragment}"

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        return self.thread.run(function, *args)

    def cut_sockets(self) -> None:
        """End all WebSockets without a word, as a network does that fails."""
        assert self.app is not None
        sockets = self.app.state.host.sockets
        self.thread.call(lambda: [one.cut() for one in tuple(sockets._open) if one.cut])  # noqa: SLF001 - a failure has no door

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.stop()
