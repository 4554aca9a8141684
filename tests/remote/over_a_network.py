"""A supervisor whose sessions are reached over the WebSocket of a gateway, its own or that of a node that owns nothing: what the tests of `Session` run over a `RemoteSession` with.

All of the gateway and of the client is at work but the bytes between them: messages of ASGI go over memory, so that tests run on virtual
time too. What is started has the owner that a host gives to its sessions; all else is as the test wants it.
"""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import trio
from attrs import evolve
from trio.lowlevel import current_clock
from trio.testing import MockClock
from trio_websocket import CloseReason, ConnectionClosed

from agentrail.abc.store import Store
from agentrail.gateway.app import create_app
from agentrail.host import Principal
from agentrail.host.identity import SessionOwner, user_data_of
from agentrail.remote.link import Links, open_links
from agentrail.remote.remote_session import RemoteSession
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_handle import Session
from agentrail.runtime.session_options import SessionOptions
from agentrail.runtime.supervisor import SessionSupervisor
from agentrail.stores.memory import MemoryStore
from agentrail.testing import supervisors
from agentrail.testing.simulation.log import LifeLog
from agentrail.testing.simulation.network import SimulatedNetwork
from agentrail.testing.simulation.tape import Tape
from tests.gateway.attacks.wire import FREE
from tests.host.hosting import answering, profile

OWNER: Final = SessionOwner("acme", "ann")
LIMITS: Final = evolve(FREE, max_frame_bytes=1 << 25, max_message_bytes=1_000_000)
"""As wide as a session in this process is: what is looked at is what a session does, and limits have tests of their own."""

VIRTUAL_SECONDS: Final = 1_200.0
REAL_SECONDS: Final = 4.0

_SCOPED: Final = frozenset(
    {"rest", "trim_session", "last_words", "resume_session", "delete_session", "facts_of", "export", "erase"}
)

MAX_FRAMES: Final = 3_000
"""What a test sends at most: one that asks until something is so, and that never is, fails and does not hang."""

_NEVER: Final[Iterator[int]] = iter(())
_HEADERS: Final = [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer ann")]


class CountedConnection:
    """A connection that breaks when the client has so many frames, and on which it does not send for ever."""

    def __init__(self, connection: Any, frames_left: float) -> None:
        self._connection = connection
        self._frames_left = frames_left
        self.sent = 0

    async def send_message(self, text: str) -> None:
        self.sent += 1
        if self.sent > MAX_FRAMES:
            message = f"a test has sent {MAX_FRAMES} frames: it asks for ever"
            raise AssertionError(message)
        await self._connection.send_message(text)

    async def get_message(self) -> str:
        if self._frames_left <= 0:
            raise ConnectionClosed(CloseReason(1006, ""))
        self._frames_left -= 1
        text: str = await self._connection.get_message()
        return text


@asynccontextmanager
async def network_to(app: Any) -> AsyncIterator[SimulatedNetwork]:
    """Serve an application at `owner`, on a network without latency."""
    network = SimulatedNetwork(Tape(0), LifeLog(), latency_seconds=0.0)
    async with trio.open_nursery() as nursery:
        network.serve("owner", app, nursery.start_soon)
        yield network
        network.leave("owner")
        nursery.cancel_scope.cancel(reason="the application is no longer served")


@asynccontextmanager
async def dial_to(
    network: SimulatedNetwork, lives: Iterator[int], within_seconds: float
) -> AsyncIterator[Any]:
    """Open a connection to the application; `lives` says after how many frames each breaks, and those behind last."""
    async with network.dial("owner", headers=_HEADERS, within_seconds=within_seconds) as connection:
        yield CountedConnection(connection, next(lives, math.inf))


class RemoteSupervisor:
    """A supervisor that gives remote handles of its sessions; all else is that supervisor itself."""

    def __init__(self, supervisor: SessionSupervisor, links: Links) -> None:
        self._supervisor = supervisor
        self._links = links

    def __getattr__(self, name: str) -> Any:
        """Give what is not looked at here; where a scope can be said it is that of the caller."""
        found = getattr(self._supervisor, name)
        if name in _SCOPED:
            return partial(found, scope=OWNER.tenant_id)
        return found

    async def start_session(self, options: SessionOptions | None = None, /, **given: Any) -> RemoteSession:
        """Start a session that belongs to a caller of the gateway."""
        if options is not None:
            own = {**options.user_data, **user_data_of(OWNER, "desk")}
            options = evolve(options, scope=options.scope or OWNER.tenant_id, user_data=own)
            return self._handle(await self._supervisor.start_session(options, **given))
        own = {**(given.pop("user_data", None) or {}), **user_data_of(OWNER, "desk")}
        given = {"scope": OWNER.tenant_id, **given, "user_data": own}
        return self._handle(await self._supervisor.start_session(**given))

    def session(self, session_id: str, *, scope: str = OWNER.tenant_id) -> RemoteSession:
        return self._handle(self._supervisor.session(session_id, scope=scope))

    def sessions(self, **given: Any) -> tuple[RemoteSession, ...]:
        return tuple(self._handle(one) for one in self._supervisor.sessions(**given))

    async def stop_session(self, session_id: str, *given: Any, scope: str = OWNER.tenant_id) -> None:
        await self._supervisor.stop_session(session_id, *given, scope=scope)

    def monitor(self, session: Any, *, scope: str = OWNER.tenant_id) -> Any:
        if isinstance(session, RemoteSession):
            session = session.session_id
        return self._supervisor.monitor(session, scope=scope)

    def _handle(self, session: Session) -> RemoteSession:
        return RemoteSession(self._links, session.session_id)


def app_over(supervisor: SessionSupervisor) -> Any:
    """Make an application whose host is opened over a supervisor."""
    return _app(supervisor=supervisor)


def _app(**given: Any) -> Any:
    owner = Principal(tenant_id=OWNER.tenant_id, user_id=OWNER.user_id, scopes=("use", "inspect"))
    return create_app(
        profiles=[profile(answering())],
        **given,
        auth=lambda _headers: owner,
        limits=LIMITS,
        drain_timeout=0.0,
    )


@asynccontextmanager
async def over_a_network(
    opened: AbstractAsyncContextManager[SessionSupervisor], behind: Store | None = None
) -> AsyncIterator[RemoteSupervisor]:
    """Put a gateway and a client in front of a supervisor. `behind`: its store, if the client calls another node."""
    async with opened as supervisor:
        app = app_over(supervisor)
        async with app.state.host.open(), network_to(app) as network, trio.open_nursery() as nursery:
            nursery.start_soon(_end_what_hangs)
            async with (
                _in_front_of(network, behind) as front,
                open_links(partial(dial_to, front, _NEVER)) as links,
            ):
                yield RemoteSupervisor(supervisor, links)
            nursery.cancel_scope.cancel(reason="the test is over")


@asynccontextmanager
async def _in_front_of(network: SimulatedNetwork, behind: Store | None) -> AsyncIterator[SimulatedNetwork]:
    """The network on which the client calls: that of the gateway, or of a node that owns nothing."""
    if behind is None:
        yield network
        return
    with network.installed():
        front = _app(store=behind)
        async with front.state.host.open(), network_to(front) as its_own:
            yield its_own


async def _end_what_hangs() -> None:
    is_virtual = isinstance(current_clock(), MockClock)
    await trio.sleep(VIRTUAL_SECONDS if is_virtual else REAL_SECONDS)
    message = "a test over a network takes too long: something is not answered"
    raise AssertionError(message)


@contextmanager
def every_supervisor_remote(*, is_forwarded: bool = False) -> Iterator[None]:
    """Let each supervisor that a test opens within the block be one whose sessions are reached over a network.

    `is_forwarded`: through another node, where its store can be shared.
    """
    plain = vars(supervisors)["open_sessions"]

    def opening(*given: Any, store: Store | None = None, **options: Any) -> Any:
        behind = None
        if is_forwarded and store is None:
            behind = store = MemoryStore(now_ms=now_ms, is_shared=True)
            options["options"] = evolve(options["options"], advertise="http://owner")
        return over_a_network(plain(*given, store=store, **options), behind)

    with patch.object(supervisors, "open_sessions", opening):
        yield
