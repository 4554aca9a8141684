"""Sessions under supervision: start them, find them, bring them back when they crash, end them in order.

A session's crash becomes data inside its own task; it never travels to its siblings. What it knew survives it, so its
handle, its subscribers and the messages it had not read yet go on with the next incarnation.
"""

import os
import secrets
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import trio
from attrs import define, field

from agentrail.abc import ProviderProfiles, ResolveProvider, Sandbox, Tool
from agentrail.core.machine import new_session
from agentrail.core.signals import Parked, Restarted, Signal, Started
from agentrail.core.state import SessionConfig
from agentrail.core.toolbox import Toolbox, ToolSpec
from agentrail.errors import AlreadyStarted, MailboxFull, SessionDown
from agentrail.events import Event
from agentrail.messages import SessionId
from agentrail.runtime.clock import now_ms
from agentrail.runtime.fan_in import FanIn, ManySubscription
from agentrail.runtime.handle import Session
from agentrail.runtime.interpreter import Ports
from agentrail.runtime.models import facts_of, find_provider
from agentrail.runtime.options import SessionOptions, decide_options
from agentrail.runtime.session import SessionCell
from agentrail.runtime.subscription import decide_terms
from agentrail.runtime.tool_runner import describe_crash

INTENSITY: Final = 3
PERIOD_SECONDS: Final = 5.0
STOP_WITHIN_SECONDS: Final = 10.0
"""How long leaving a supervisor waits for its sessions before it cuts what is left."""

CLOSE_WITHIN_SECONDS: Final = 2.0


class OwnSandbox(Sandbox, Protocol):
    """A sandbox that the supervisor made for one session, and closes after it."""

    async def aclose(self) -> None:
        """Release what it holds."""
        ...


MakeSandbox: TypeAlias = Callable[[str, Path], OwnSandbox]
"""Turns a name such as `memory`, and the working directory, into a sandbox."""


class _Workspace:
    """The sandbox of one session, opened by the first tool that wants it.

    Ten thousand sessions that touch no file would otherwise hold ten thousand directories open, and most systems allow
    a tenth of that.
    """

    def __init__(self, make: Callable[[], OwnSandbox]) -> None:
        self._make = make
        self._opened: OwnSandbox | None = None

    def open(self) -> Sandbox:
        if self._opened is None:
            self._opened = self._make()
        return self._opened

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()


class _Specs:
    """What tools say of themselves, checked. Kept, because checking a schema and compiling it cost more than a session."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Tool, ToolSpec] = weakref.WeakKeyDictionary()

    def of(self, tool: Tool) -> ToolSpec:
        spec = _spec_of(tool)
        try:
            kept = self._kept.get(tool)
        except TypeError:  # a tool that cannot be a key is checked for each session
            spec.check()
            return spec
        if kept is None or kept != spec:  # a tool may say something else by now
            spec.check()
            kept = self._kept[tool] = spec
        return kept


@define(eq=False)
class _Entry:
    cell: SessionCell
    workspace: _Workspace
    gone: trio.Event = field(factory=trio.Event)
    # Shielded, because whoever cancels the body of a supervisor must not cut its sessions before their ordered stop.
    # `cut_all` ends it, and nobody but `open_sessions` may leave without.
    scope: trio.CancelScope = field(factory=lambda: trio.CancelScope(shield=True))


class SessionSupervisor:
    """Owns sessions: a crash of one is nobody else's business, and none outlives its supervisor."""

    providers: ProviderProfiles
    """The named profiles that `registry:<profile>:<model>` stands for; put here by `open_supervisor`."""

    def __init__(
        self,
        nursery: trio.Nursery,
        resolve_provider: ResolveProvider,
        make_sandbox: MakeSandbox,
    ) -> None:
        """Made by `open_supervisor`."""
        self._nursery = nursery
        self._resolve_provider = resolve_provider
        self._make_sandbox = make_sandbox
        self._specs = _Specs()
        self._entries: dict[str, _Entry] = {}
        self._fan_in = FanIn()
        self._down: str | None = None

    async def start_session(self, options: SessionOptions | None = None, /, **given: Any) -> Session:
        """Start a session, and return its handle when it can be prompted.

        Args:
            options: All options in one value; then no keyword may be given.
            **given: The same options as keywords; see `SessionOptions`.

        Raises:
            OptionError: Your move: unknown options or wrong values, all faults at once; nothing was started.
            ToolDefinitionError: Your move: two tools of one name, or a schema that is none.
            ModelNotFound: Your move: no such provider; the message has the nearest name.
            Authentication: Your move: no key; the message names the variable, and `demo:` as a way to try.
            AlreadyStarted: A live session has this id; `handle` is its handle.
            SessionDown: The supervisor is closing.

        Cancellation: Always a checkpoint; cancelled here, nothing was started.
        """
        await trio.lowlevel.checkpoint()
        chosen = decide_options(options, given)
        session_id = SessionId(chosen.session_id or f"s-{secrets.token_hex(6)}")
        if self._down is not None:
            raise SessionDown(session_id, self._down)
        live = self._live(session_id)
        if live is not None:
            message = f"session {session_id!r} is alive already: use its handle, or another id"
            raise AlreadyStarted(message, handle=Session(live.cell))
        entry = self._entries[session_id] = self._make_entry(session_id, chosen)
        self._fan_in.join(entry.cell)
        self._nursery.start_soon(self._supervise, entry, name=f"session {session_id}")
        return Session(entry.cell)

    def session(self, session_id: str) -> Session:
        """Find a live session by its id.

        Raises:
            SessionDown: There is none.
        """
        entry = self._live(session_id)
        if entry is None:
            raise SessionDown(session_id, self._down or "there is no live session of this id")
        return Session(entry.cell)

    def sessions(self) -> tuple[Session, ...]:
        """Give all live sessions, oldest first."""
        return tuple(Session(entry.cell) for entry in self._entries.values() if not entry.cell.state.ended)

    def subscribe_all(
        self,
        *,
        after: Mapping[str, int] | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> ManySubscription:
        """Subscribe to all sessions, those that are alive and those that will be started.

        Args:
            after: A number for each session that was followed before, such as `SubscriberTooSlow.positions`; each goes on
                after its own, sessions that are not named come from their start, and those that have ended are not
                replayed. None for live events only.
            kinds: As of `Session.subscribe`.
            deltas: As of `Session.subscribe`.
            buffer: As of `Session.subscribe`; there is one for all sessions together.

        Returns:
            An async context manager to iterate over; `event.meta` says whose an event is. Each session's events come in
            their order. Iteration ends when the supervisor closes.

        Raises:
            OptionError: Your move: an argument that cannot be. A number beyond the last event of its session is refused
                when the block is entered.
        """
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._fan_in.subscribe_all(terms, after)

    def subscribe_group(
        self,
        group_id: str,
        *,
        after: Mapping[str, int] | None = None,
        kinds: Iterable[type[Event]] | None = None,
        deltas: bool = True,
        buffer: int = 1024,
    ) -> ManySubscription:
        """Subscribe to the sessions of a group, as `subscribe_all` does to all; there need not be one yet.

        Args:
            group_id: What the sessions were started with.
            after: As of `subscribe_all`.
            kinds: As of `Session.subscribe`.
            deltas: As of `Session.subscribe`.
            buffer: As of `subscribe_all`.

        Raises:
            OptionError: As of `subscribe_all`.
        """
        terms = decide_terms(kinds=kinds, deltas=deltas, buffer=buffer)
        return self._fan_in.subscribe_group(group_id, terms, after)

    async def stop_session(self, session_id: str, reason: str = "stopped") -> None:
        """Stop a session and wait until it is gone.

        Raises:
            SessionDown: There is none of this id.
        """
        session = self.session(session_id)
        gone = self._entries[session_id].gone
        await session.stop(reason)
        await gone.wait()

    async def stop_all(self, reason: str) -> None:
        """Take no more sessions, and stop those there are, newest first and side by side.

        Cancellation: What has not ended yet is left to whoever cancels.
        """
        self._down = reason
        async with trio.open_nursery() as nursery:
            for session_id in reversed(self._entries):
                nursery.start_soon(self._stop_quietly, session_id, reason)

    def cut_all(self, reason: str) -> None:
        """Cancel what is left of all sessions; what they still hold is freed, but nobody hears from them."""
        for entry in self._entries.values():
            entry.scope.cancel(reason=reason)
        self._fan_in.close(reason)

    async def _stop_quietly(self, session_id: str, reason: str) -> None:
        with suppress(SessionDown):  # it was faster
            while True:
                try:
                    return await self.stop_session(session_id, reason)
                except MailboxFull:  # its callers are many; the end may not depend on who comes first
                    await trio.lowlevel.checkpoint()

    def _live(self, session_id: str) -> _Entry | None:
        entry = self._entries.get(session_id)
        # One that has ended may still wait for a tool that will not stop; its id is free all the same.
        return None if entry is None or entry.cell.state.ended else entry

    def _make_entry(self, session_id: SessionId, options: SessionOptions) -> _Entry:
        tools = {(tool.name, 0): tool for tool in options.tools}
        toolbox = Toolbox(
            self._specs.of(tool) for tool in options.tools
        )  # before the model is looked at: two tools of one name are found first
        model, provider = find_provider(options.model, options.provider_opts, self._resolve_provider)
        providers = {model: provider}
        for name in options.fallback_models:
            providers.setdefault(name, self._resolve_provider(name, {}))
        working_dir = Path(os.path.abspath(options.working_dir))  # noqa: PTH100 - links are the sandbox's business
        config = SessionConfig(
            session_id=session_id,
            path=(session_id,),
            model=facts_of(model, provider),
            system_prompt=options.system_prompt,
            max_turns=options.max_turns,
            max_output_tokens=options.max_output_tokens,
            max_prompt_queue=options.max_prompt_queue,
            max_steering_queue=options.max_steering_queue,
            max_parallel_tools=options.max_parallel_tools,
            immune_tools=frozenset(options.immune_tools),
            tool_max_retries=options.tool_max_retries,
            approval_timeout_ms=round(options.approval_timeout_seconds * 1000) or None,
            fallbacks=tuple(facts_of(name, providers[name]) for name in options.fallback_models),
            max_retries=options.max_retries,
        )
        named = options.sandbox if isinstance(options.sandbox, str) else "local"
        given = None if isinstance(options.sandbox, str) else options.sandbox
        workspace = _Workspace(partial(self._make_sandbox, named, working_dir))
        ports = Ports(
            session_id=session_id,
            providers=providers,
            tools=tools,
            find_provider=self._resolve_provider,
            spec_of=self._specs.of,
            open_sandbox=workspace.open if given is None else lambda: given,
            working_dir=str(working_dir),
            user_data=dict(options.user_data),
            tool_timeout_seconds=options.tool_timeout_seconds,
            event_buffer_size=options.event_buffer_size,
            group_id=options.group_id,
        )
        return _Entry(SessionCell(new_session(config, toolbox), ports), workspace)

    async def _supervise(self, entry: _Entry) -> None:
        """Keep a session until it has ended, then free all that it held."""
        session_id = entry.cell.ports.session_id
        reason = "the supervisor had no more time for it"
        try:
            with entry.scope:
                reason = await _run_to_the_end(entry.cell)
        finally:
            entry.cell.close(reason)
            if self._entries.get(session_id) is entry:  # else the next of this id is there already
                del self._entries[session_id]
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_WITHIN_SECONDS):
                await entry.workspace.aclose()
            entry.gone.set()


async def _run_to_the_end(cell: SessionCell) -> str:
    """Run a session's actor, again after each crash, until it ends or has crashed too often; say how it ended."""
    crashes: tuple[float, ...] = ()
    first: Signal = Started(at_ms=now_ms())
    while True:
        try:
            await cell.run(first)
            return cell.state.data.stopping or "ended"
        except Exception as error:  # noqa: BLE001 - the actor's edge: its crash becomes data
            reason = describe_crash(error)
        crashes, allowed = admit_restart(crashes, trio.current_time())
        if not allowed:
            cell.say_last_words(Parked(at_ms=now_ms(), reason=reason))
            return f"parked: {reason}"
        first = Restarted(at_ms=now_ms(), reason=reason, incarnation=cell.state.data.incarnation + 1)
        await trio.lowlevel.checkpoint()  # a session that crashes at once may not starve the others


@asynccontextmanager
async def open_sessions(
    resolve_provider: ResolveProvider, make_sandbox: MakeSandbox
) -> AsyncIterator[SessionSupervisor]:
    """Open a supervisor over the given adapters; leaving the block ends all its sessions, whatever happened inside.

    An exception of the body leaves as itself, not in a group, after the ordered stop.

    Cancellation: The stop is shielded and bounded: ten seconds, then what is left is cancelled.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        supervisor = SessionSupervisor(nursery, resolve_provider, make_sandbox)
        try:
            try:
                yield supervisor
            except BaseException as error:  # noqa: BLE001, ASYNC103 - kept for a moment and raised again below
                failure = error
            with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_WITHIN_SECONDS):
                await supervisor.stop_all("the supervisor was closed")
        finally:  # whatever the stop ran into: sessions are shielded, and nobody else could ever end them
            supervisor.cut_all("the supervisor was closed")
    if failure is not None:
        raise failure


def admit_restart(crashes: tuple[float, ...], now: float) -> tuple[tuple[float, ...], bool]:
    """Say whether one more restart is allowed: at most three within five seconds, the edge inside."""
    recent = (*(at for at in crashes if now - at <= PERIOD_SECONDS), now)
    return recent, len(recent) <= INTENSITY


def _spec_of(tool: Tool) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        killable=tool.killable,
        effect_class=tool.effect_class,
        timeout_seconds=tool.timeout_seconds,
        max_retries=getattr(tool, "max_retries", None),
        polling=getattr(tool, "polling", False),
        answered_by=getattr(tool, "answered_by", "code"),
    )
