"""The tool sources of a supervisor and of its sessions: started in the tree, and their tools attached to each session that uses them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias
from weakref import WeakSet

import trio
from attrs import define, field

from agentrail import outside
from agentrail.abc import MakeToolSource, Tool, ToolListener, ToolServer, ToolSource, UserLogin
from agentrail.actors.actor_handle import ActorHandle
from agentrail.actors.actor_types import worker
from agentrail.actors.monitor import monitor
from agentrail.actors.supervisor_scope import subtree
from agentrail.core.journal.session_owner import session_owner_key
from agentrail.core.values.source_prompt import SourcePrompt
from agentrail.errors import (
    ActorDown,
    AlreadyStarted,
    MailboxFull,
    OptionError,
    SessionDown,
    SessionRefused,
    ToolDefinitionError,
)
from agentrail.events import ToolSourceState
from agentrail.logs import Logger
from agentrail.otp.child_specs import Backoff, ChildSpec, Spec, SupervisorFlags
from agentrail.otp.supervision_sweeps import GAVE_UP
from agentrail.otp.supervision_types import Started
from agentrail.runtime.live_settings import ChangingHandle
from agentrail.runtime.session_actor import SessionCell
from agentrail.runtime.session_clock import now_ms
from agentrail.runtime.session_keys import NO_SCOPE, is_in, key_of

LOGGER: Final = Logger("agentrail.runtime")

SOURCE_FLAGS: Final = SupervisorFlags(
    "one_for_one",
    intensity=5,
    period_seconds=60.0,
    backoff=Backoff(initial_seconds=0.5, maximum_seconds=30.0),
)
"""One supervisor per source, so that one that is lost too often is parked alone."""

SOURCE_STOP_SECONDS: Final = 8.0
"""Longer than a source takes to stop its process."""

KEEP_UNUSED_SECONDS: Final = 600.0
"""How long the source of a principal is kept at least after its last session has ended or gone to sleep: as long as a link to log in is valid."""

_SHOWN_OWNER: Final = 16
"""Hexadecimal digits of a principal in the name of its source."""

_ATTACH_SECONDS: Final = 5.0
_TRY_AGAIN_SECONDS: Final = 0.1

StartSource: TypeAlias = Callable[[Spec], Awaitable[Started]]
Servers: TypeAlias = Sequence[ToolServer | str] | None
"""Servers of a session: its own by their options, those of its supervisor by name. None: all of its supervisor's."""


class SourceId(str):
    """Id of a source's subtree: `mcp` and its name, and for the source of one principal a part of a hash."""

    __slots__ = ()


@define(eq=False)
class RunningSource:
    """A source with its place in the tree.

    Attributes:
        child_id: Its id there.
        is_running: Whether it was started, and has not given up.
        given_up_at_ms: When its supervisor gave up. None if it did not, or it was started again.
        is_stopped: Whether it was stopped for good.
        users: Sessions that use it.
        left_at: When the last of them left, or it was made.
        handle: Of its subtree, while it runs.
    """

    source: ToolSource
    start: StartSource
    child_id: SourceId
    is_running: bool = False
    given_up_at_ms: int | None = None
    is_stopped: bool = False
    users: int = 0
    left_at: float = field(factory=trio.current_time)
    handle: ActorHandle | None = None

    def join(self, listener: ToolListener) -> Callable[[], None]:
        """Add a session, which gets the present tools at once. Returns the function to call once when it leaves."""
        leave = self.source.join(listener)
        self.users += 1

        def end() -> None:
            self.users, self.left_at = self.users - 1, trio.current_time()
            leave()

        return end

    async def stop(self) -> None:
        """End it for good, if it runs or is being started."""
        self.is_stopped = True
        if self.handle is not None:
            with suppress(ActorDown):
                await self.handle.stop()

    async def run(self) -> None:
        """Start it, and wait for the end of its subtree. Tells it if that gave up."""
        while not await self._run_once() and self.users:
            pass

    async def _run_once(self) -> bool:
        """Run it until its end. Returns whether that was its own, and not that of a subtree which was there before."""
        self.is_running, self.given_up_at_ms = True, None
        spec = ChildSpec(
            self.child_id,
            subtree(
                SOURCE_FLAGS,
                [
                    ChildSpec(
                        self.source.name, worker(self.source.serve), shutdown_seconds=SOURCE_STOP_SECONDS
                    )
                ],
            ),
            "temporary",
        )
        is_own = True
        try:
            handle = (await self.start(spec)).handle
        except AlreadyStarted as there:
            # The session was restarted, and its branch started it again; or the last source of its principal is still ending.
            handle, is_own = there.handle, False
        except ActorDown:
            self.is_running = False
            return True
        assert isinstance(handle, ActorHandle)  # noqa: S101 - a subtree has a handle
        self.handle = handle
        if self.is_stopped:
            await self.stop()
        down = await monitor(handle).wait()
        self.is_running, self.handle = False, None
        if down.reason == GAVE_UP:
            self.given_up_at_ms = now_ms()
            self.source.park()
        return is_own or down.reason == GAVE_UP


def is_shared(child_id: object) -> bool:
    """Return whether it is the id of a source that sessions of all scopes share."""
    return isinstance(child_id, SourceId) and "/" not in child_id


def _id_of(server: ToolServer) -> SourceId:
    return SourceId(f"mcp {server.name}")


class ToolSources:
    """The sources of one supervisor, by name."""

    def __init__(
        self,
        make: MakeToolSource | None,
        servers: Sequence[ToolServer],
        start: StartSource,
        nursery: trio.Nursery,
    ) -> None:
        self._make = make
        self._start = start
        self._nursery = nursery
        self.login_address: str | None = None
        self._made: WeakSet[ToolSource] = WeakSet()
        self.running: Mapping[str, RunningSource] = {
            one.name: RunningSource(self.make(one), start, _id_of(one)) for one in servers
        }
        self.joined: dict[str, SessionTools] = {}
        self._personal: dict[tuple[str, str], RunningSource] = {}
        self._servers: Mapping[str, ToolServer] = {one.name: one for one in servers}
        for one in self.running.values():
            if one.source.is_eager:
                self.start(one)

    def make(self, server: ToolServer, owner: str = "") -> ToolSource:
        if self._make is None:
            message = (
                f"mcp has {server.name!r}: this supervisor makes no sources, use agentrail.open_supervisor"
            )
            raise OptionError([message])
        made = self._make(server, owner)
        if owner and self.login_address is not None:
            made.serve_logins(self.login_address, owner)
            self._made.add(made)
        return made

    def user_logins(self) -> tuple[UserLogin, ...]:
        """Return the logins of all principals that a host serves pages for."""
        return tuple(
            [
                one.user_login
                for one in sorted(self._made, key=attrgetter("name"))
                if one.user_login is not None
            ]
        )

    def of_principal(self, servers: Servers, owner: str, scope: str) -> tuple[RunningSource, ...]:
        """Return the sources that a session shares with others, some only with those of its principal.

        Raises:
            OptionError: Your move: an unknown name.
        """
        shared = (one for one in self.chosen(servers) if one.source.sharing != "session")
        return tuple(
            self._of_owner(one, owner, scope) if owner and one.source.sharing == "principal" else one
            for one in shared
        )

    def of_session(self, servers: Servers, owner: str, start: StartSource) -> tuple[RunningSource, ...]:
        """Create the sources that a session has alone: those of its own options, and of its supervisor's with this scope."""
        own = [one for one in servers or () if not isinstance(one, str)]
        lent = [
            self._servers[one.source.name] for one in self.chosen(servers) if one.source.sharing == "session"
        ]
        return tuple([RunningSource(self.make(one, owner), start, _id_of(one)) for one in (*lent, *own)])

    def _of_owner(self, running: RunningSource, owner: str, scope: str) -> RunningSource:
        key = (running.source.name, owner)
        if key not in self._personal:
            server = self._servers[running.source.name]
            child_id = SourceId(key_of(scope, f"{_id_of(server)} {owner[:_SHOWN_OWNER]}"))
            made = self._personal[key] = RunningSource(self.make(server, owner), self._start, child_id)
            self._nursery.start_soon(self._end_unused, key, made, name=f"end of {child_id}")
        return self._personal[key]

    async def _end_unused(self, key: tuple[str, str], running: RunningSource) -> None:
        """End the source of a principal when none of its sessions has used it for a while. The next one begins with a new source."""
        while running.users or trio.current_time() < running.left_at + KEEP_UNUSED_SECONDS:  # noqa: ASYNC110 - seldom, and an event per session costs more
            await trio.sleep(KEEP_UNUSED_SECONDS)
        if self._personal.get(key) is running:  # otherwise its login was forgotten
            del self._personal[key]
        await running.stop()

    async def forget_logins(self, owner: str) -> list[str]:
        """End the sources of a principal whose sessions have ended, and delete its logins. Return what could not be deleted."""
        left: list[str] = []
        for name, server in self._servers.items():
            running = self._personal.pop((name, owner), None)
            if running is not None:  # it would renew its login
                await running.stop()
            try:
                await outside.offload(self.make(server, owner).forget_login)
            except OSError as error:
                left.append(f"login to MCP server {name!r}: {error.strerror}")
        return left

    def chosen(self, servers: Servers) -> tuple[RunningSource, ...]:
        """Return the supervisor's sources of these names.

        Raises:
            OptionError: Your move: an unknown name.
        """
        if servers is None:
            return tuple(self.running.values())
        names = [one for one in servers if isinstance(one, str)]
        unknown = [name for name in names if name not in self.running]
        if unknown:
            there = f"there are {', '.join(self.running)}" if self.running else "the supervisor has none"
            raise OptionError([f"mcp names {unknown[0]!r}: {there}"])
        return tuple(self.running[name] for name in names)

    async def prompts_of(self, session: ChangingHandle, source: str = "") -> tuple[SourcePrompt, ...]:
        """Return the prompts of a session's sources. Wakes it for a named one, and waits until that was ready or lost once."""
        if source:
            await session._cell.awake()  # noqa: SLF001 - internal access to the cell of a handle
        tools = self.joined.get(session._cell.ports.key)  # noqa: SLF001 - same access
        return () if tools is None else await tools.prompts(source)

    def start(self, running: RunningSource) -> None:
        """Start a source, unless it runs. A parked one begins anew."""
        if not running.is_running:
            running.is_running = True  # at once: the next session may want it before its actor is there
            self._nursery.start_soon(running.run, name=f"mcp {running.source.name}")

    def found(self, scope: str) -> Iterator[tuple[str, RunningSource]]:
        """Yield the sources that sessions of a scope have used: shared ones, and those of one session with its id."""
        for shared in (*self.running.values(), *self._personal.values()):
            was_started = shared.is_running or shared.given_up_at_ms is not None
            if was_started and (is_shared(shared.child_id) or is_in(scope, shared.child_id)):
                yield "", shared
        for tools in self.joined.values():
            ports = tools._cell.ports  # noqa: SLF001 - internal access to the cell of a handle
            if ports.scope == scope:
                yield from [(ports.session_id, one) for one in tools.own]

    def states(self) -> Counter[ToolSourceState]:
        """Count the sources that sessions have used, by state."""
        own = [one for tools in self.joined.values() for one in tools.own]
        used = (*self.running.values(), *self._personal.values(), *own)
        return Counter(one.source.state for one in used if one.is_running or one.given_up_at_ms is not None)

    def restart(self, name: str, *, scope: str = NO_SCOPE, session_id: str = "") -> None:
        """Start a parked source again, or end the present life of another one.

        Args:
            name: Id of its subtree, such as `mcp files`.
            scope: Same as for a session.
            session_id: The session, for a source that it has alone.

        Raises:
            OptionError: Your move: no source has this name.
        """
        found = {
            one.child_id.removeprefix(f"{scope}/"): one
            for session, one in self.found(scope)
            if session == session_id
        }
        if name not in found:
            expected = f"expected one of {', '.join(found)}" if found else "there are none"
            raise OptionError([f"no tool source is named {name!r:.100}: {expected}"])
        if found[name].is_running:
            found[name].source.restart()
        else:
            self.start(found[name])


class SessionTools(ChangingHandle):
    """The tools of sources in one session. Its task runs in each instance of the session and brings the tools up to date."""

    def __init__(self, cell: SessionCell, sources: ToolSources, start: StartSource) -> None:
        super().__init__(cell)
        servers = cell.ports.servers
        self._sources = sources
        owner = session_owner_key(cell.ports.user_data)
        self._shared = sources.of_principal(servers, owner, cell.ports.scope)
        self.own: Final = sources.of_session(servers, owner, start)
        self._wanted: dict[str, Tool] = cell.ports.from_sources
        self._wanted.clear()
        self._attached: dict[str, Tool] = {}
        self._states: list[tuple[str, ToolSourceState, str | None]] = []
        self._leave: list[Callable[[], None]] = []
        self._wake = trio.Event()
        self.settled: trio.Event = trio.Event()

    async def wait_settled(self) -> None:
        """Wait until each source was ready or lost once, and its tools are attached."""
        for one in (*self._shared, *self.own):
            await self._wait_for(one.source)
        await self.wait_attached()

    async def _wait_for(self, source: ToolSource) -> None:
        # A source that its session never started does not settle, so the end of the session ends the wait.
        with trio.CancelScope() as scope, self._cell.pending_calls.waiting(scope.cancel) as call:
            if call.error is None:
                await source.settled.wait()
        if call.error is not None:
            raise call.take_error(call.error)

    async def prompts(self, source: str) -> tuple[SourcePrompt, ...]:
        sources = [one.source for one in (*self._shared, *self.own)]
        for one in sources:
            if one.name == source:
                await self._wait_for(one)
        return tuple([prompt for one in sources for prompt in one.prompts])

    async def wait_required(self) -> None:
        """Wait for the sources without which the session must not begin, and for the tools that are there.

        Raises:
            SessionRefused: A required source is unavailable.
            SessionDown: The session has ended.
        """
        for source in (one.source for one in (*self._shared, *self.own)):
            if not source.is_required:
                continue
            await self._wait_for(source)
            if source.state != "ready":
                reason = (
                    f"the server {source.name!r} is required, and it is {source.state}: {source.reason or ''}"
                )
                raise SessionRefused(self._cell.ports.session_id, reason)
        if self._wanted:
            await self.wait_attached()

    async def wait_attached(self) -> None:
        with trio.move_on_after(_ATTACH_SECONDS):
            await self.settled.wait()

    def join(self) -> None:
        """Use the sources from now on. Idempotent."""
        if self._leave:
            return
        self._sources.joined[self._cell.ports.key] = self
        for one in (*self._shared, *self.own):
            self._leave.append(one.join(_Listener(self, one.source.name)))

    def leave(self) -> None:
        """Use them no more. Idempotent."""
        self._sources.joined.pop(self._cell.ports.key, None)
        for leave in self._leave:
            leave()
        self._leave.clear()

    async def run(self, scope: trio.CancelScope) -> None:
        """Keep the session's tools up to date, until its instance ends."""
        for one in self._shared:
            self._sources.start(one)
        with scope:
            async with trio.open_nursery() as nursery:
                for one in self.own:
                    nursery.start_soon(one.run)
                while await self._bring_up_to_date():
                    await self._wake.wait()
                nursery.cancel_scope.cancel(reason="the session has ended")

    async def _bring_up_to_date(self) -> bool:
        self._wake = trio.Event()
        attach = tuple(one for name, one in self._wanted.items() if self._attached.get(name) is not one)
        detach = tuple(name for name in self._attached if name not in self._wanted)
        states, self._states = self._states, []
        known = self._cell.visible.data.sections
        # Not while a source is connecting: a restored session keeps its prompt if the server says the same again.
        sources = (one.source for one in (*self._shared, *self.own) if one.source.settled.is_set())
        texts = [(f"mcp.{one.name}", one.instructions) for one in sources]
        sections = tuple([(key, text) for key, text in texts if known.get(key) != text])
        try:
            if attach or detach or sections:
                await self._change_tools(attach, detach, replace=False, sections=sections)
                self._attached = {name: one for name, one in self._attached.items() if name not in detach} | {
                    one.name: one for one in attach
                }
            for source, state, reason in states:
                await self.report_tool_source(source, state, reason=reason)
        except MailboxFull:
            self._states = states + self._states
            await trio.sleep(_TRY_AGAIN_SECONDS)
            self._wake.set()
        except SessionDown:
            self.settled.set()
            return False
        except (OptionError, ToolDefinitionError) as fault:
            LOGGER.warning("session %s gets no tools of its sources: %s", self._cell.ports.key, fault)
        finally:
            if not self._wake.is_set():
                self.settled.set()
        return True

    def change(self, attach: Sequence[Tool], detach: Sequence[str]) -> None:
        for name in detach:
            self._wanted.pop(name, None)
        self._wanted |= {one.name: one for one in attach}
        self._awake()

    def report(self, source: str, state: ToolSourceState, reason: str | None) -> None:
        self._states.append((source, state, reason))
        self._awake()

    def _awake(self) -> None:
        self.settled = trio.Event()
        self._wake.set()


class _Listener:
    """A session as seen by one source."""

    def __init__(self, tools: SessionTools, name: str) -> None:
        self.working_dir: Final = tools._cell.ports.working_dir  # noqa: SLF001 - as for `prompts_of`
        self.tools_changed: Final = tools.change
        self.state_changed: Final = partial(tools.report, name)
        self.wait_attached: Final = tools.wait_attached
