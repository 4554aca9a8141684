"""Sessions under supervision: start them, find them, bring them back when they crash, end them in order.

A session's crash becomes data inside its own task; it never travels to its siblings. What it knew survives it, so its
handle, its subscribers and the messages it had not read yet go on with the next incarnation.
"""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define, field

from agentrail.abc import Provider, ResolveProvider, Sandbox, Tool
from agentrail.core.machine import new_session
from agentrail.core.signals import Parked, Restarted, Signal, Started
from agentrail.core.state import SessionConfig
from agentrail.core.toolbox import Toolbox, ToolSpec
from agentrail.errors import AlreadyStarted, SessionDown
from agentrail.messages import SessionId
from agentrail.runtime.handle import Session
from agentrail.runtime.interpreter import Ports, now_ms
from agentrail.runtime.options import SessionOptions, make_options
from agentrail.runtime.session import SessionCell
from agentrail.runtime.tool_runner import leaves_of

INTENSITY: Final = 3
PERIOD_SECONDS: Final = 5.0
STOP_WITHIN_SECONDS: Final = 10.0
"""How long leaving a supervisor waits for its sessions before it cuts what is left."""


@define(eq=False)
class _Entry:
    cell: SessionCell
    gone: trio.Event = field(factory=trio.Event)


class SessionSupervisor:
    """Owns sessions: a crash of one is nobody else's business, and none outlives its supervisor."""

    def __init__(
        self,
        nursery: trio.Nursery,
        resolve_provider: ResolveProvider,
        make_sandbox: Callable[[Path], Sandbox],
    ) -> None:
        """Made by `open_supervisor`."""
        self._nursery = nursery
        self._resolve_provider = resolve_provider
        self._make_sandbox = make_sandbox
        self._entries: dict[str, _Entry] = {}
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
        chosen = options if options is not None and not given else make_options(given)
        session_id = SessionId(chosen.session_id or f"s-{secrets.token_hex(6)}")
        if self._down is not None:
            raise SessionDown(session_id, self._down)
        live = self._entries.get(session_id)
        if live is not None:
            message = f"session {session_id!r} is alive already: use its handle, or another id"
            raise AlreadyStarted(message, handle=Session(live.cell))
        entry = self._entries[session_id] = _Entry(self._make_cell(session_id, chosen))
        self._nursery.start_soon(self._supervise, entry, name=f"session {session_id}")
        return Session(entry.cell)

    def session(self, session_id: str) -> Session:
        """Find a live session by its id.

        Raises:
            SessionDown: There is none.
        """
        entry = self._entries.get(session_id)
        if entry is None:
            raise SessionDown(session_id, self._down or "there is no live session of this id")
        return Session(entry.cell)

    def sessions(self) -> tuple[Session, ...]:
        """Give all live sessions, oldest first."""
        return tuple(Session(entry.cell) for entry in self._entries.values())

    async def stop_session(self, session_id: str, reason: str = "stopped") -> None:
        """Stop a session and wait until it is gone.

        Raises:
            SessionDown: There is none of this id.
        """
        entry = self._entries.get(session_id)
        await self.session(session_id).stop(reason)
        if entry is not None:
            await entry.gone.wait()

    async def stop_all(self, reason: str) -> None:
        """Take no more sessions, and stop those there are, newest first and side by side.

        Cancellation: What has not ended yet is left to whoever cancels.
        """
        self._down = reason
        async with trio.open_nursery() as nursery:
            for session_id in reversed(self._entries):
                nursery.start_soon(self._stop_quietly, session_id, reason)

    async def _stop_quietly(self, session_id: str, reason: str) -> None:
        with suppress(SessionDown):  # it was faster
            await self.stop_session(session_id, reason)

    def _make_cell(self, session_id: SessionId, options: SessionOptions) -> SessionCell:
        tools: dict[str, Tool] = {tool.name: tool for tool in options.tools}
        specs = [_spec_of(tool) for tool in options.tools]
        for spec in specs:
            spec.check()
        toolbox = Toolbox(specs)  # before the model is looked at: two tools of one name are found first
        model, provider = self._find_provider(options)
        working_dir = Path(options.working_dir).resolve()
        config = SessionConfig(
            session_id=session_id,
            path=(session_id,),
            model=model,
            system_prompt=options.system_prompt,
            max_turns=options.max_turns,
            max_output_tokens=options.max_output_tokens,
            max_prompt_queue=options.max_prompt_queue,
            max_parallel_tools=options.max_parallel_tools,
            immune_tools=frozenset(options.immune_tools),
        )
        ports = Ports(
            session_id=session_id,
            providers={model: provider},
            tools=tools,
            sandbox=options.sandbox if options.sandbox is not None else self._make_sandbox(working_dir),
            working_dir=str(working_dir),
            user_data=dict(options.user_data),
            tool_timeout_seconds=options.tool_timeout_seconds,
        )
        return SessionCell(new_session(config, toolbox), ports)

    def _find_provider(self, options: SessionOptions) -> tuple[str, Provider]:
        if isinstance(options.model, str):
            return options.model, self._resolve_provider(options.model, options.provider_opts)
        return f"{options.model.name}:object", options.model

    async def _supervise(self, entry: _Entry) -> None:
        """Run a session's actor, again after each crash, until it ends or has crashed too often."""
        cell = entry.cell
        crashes: tuple[float, ...] = ()
        first: Signal = Started(at_ms=now_ms())
        reason = "the supervisor was cancelled"
        try:
            while True:
                try:
                    await cell.run(first)
                    reason = cell.state.data.stopping or "ended"
                    return
                except Exception as error:  # noqa: BLE001 - the actor's edge: its crash becomes data
                    reason = describe_crash(error)
                crashes, allowed = admit_restart(crashes, trio.current_time())
                if not allowed:
                    cell.say_last_words(Parked(at_ms=now_ms(), reason=reason))
                    reason = f"parked: {reason}"
                    return
                first = Restarted(at_ms=now_ms(), reason=reason, incarnation=cell.state.data.incarnation + 1)
                await trio.lowlevel.checkpoint()  # a session that crashes at once may not starve the others
        finally:
            cell.close(reason)
            del self._entries[cell.ports.session_id]
            entry.gone.set()


@asynccontextmanager
async def open_sessions(
    resolve_provider: ResolveProvider, make_sandbox: Callable[[Path], Sandbox]
) -> AsyncIterator[SessionSupervisor]:
    """Open a supervisor over the given adapters; leaving the block ends all its sessions, whatever happened inside.

    An exception of the body leaves as itself, not in a group, after the ordered stop.

    Cancellation: The stop is shielded and bounded: ten seconds, then what is left is cancelled.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        supervisor = SessionSupervisor(nursery, resolve_provider, make_sandbox)
        try:
            yield supervisor
        except BaseException as error:  # noqa: BLE001 - kept for a moment and raised again below
            failure = error
        with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_WITHIN_SECONDS):
            await supervisor.stop_all("the supervisor was closed")
        nursery.cancel_scope.cancel(reason="the supervisor was closed")
    if failure is not None:
        raise failure


def admit_restart(crashes: tuple[float, ...], now: float) -> tuple[tuple[float, ...], bool]:
    """Say whether one more restart is allowed: at most three within five seconds, the edge inside."""
    recent = (*(at for at in crashes if now - at <= PERIOD_SECONDS), now)
    return recent, len(recent) <= INTENSITY


def describe_crash(error: BaseException) -> str:
    """Say what crashed an actor in one line; no exception is kept."""
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves_of(error))


def _spec_of(tool: Tool) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        killable=tool.killable,
        effect_class=tool.effect_class,
        timeout_seconds=tool.timeout_seconds,
    )
