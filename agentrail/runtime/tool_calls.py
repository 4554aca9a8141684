"""The calls of one incarnation that run: what each is given, what it says on its way, and the signal that it ends with."""

import contextlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import trio

from agentrail.abc import ChildRequest, ToolContext, is_threaded, timeout_seconds_of
from agentrail.core.budget import NOTHING_SPENT
from agentrail.core.effects import RunTool
from agentrail.core.request import EffectId
from agentrail.core.signals import Signal, ToolAsked, ToolEmitted, ToolFinished, ToolProgressed
from agentrail.messages import JsonValue
from agentrail.runtime.clock import jitter, now_ms
from agentrail.runtime.crew import Crew
from agentrail.runtime.ports import ChildWish, Ports, Tab
from agentrail.runtime.processes import Processes
from agentrail.runtime.progress import Progress
from agentrail.runtime.slots import Slots
from agentrail.runtime.tool_runner import Attempt, Ended, run_tool
from agentrail.runtime.tool_threads import TOO_MANY


class Voice:
    """What one running call says. What it says after its end is dropped by the core, which counts it."""

    __slots__ = ("_crew", "_deliver", "_effect_id", "_flushing", "_progress", "_token")

    def __init__(self, effect_id: EffectId, crew: Crew, deliver: Callable[[Signal], None]) -> None:
        """Begin silent; inside of the Trio run that the call belongs to."""
        self._effect_id = effect_id
        self._crew = crew
        self._deliver = deliver
        self._token = trio.lowlevel.current_trio_token()
        self._progress = Progress(self._send)
        self._flushing: trio.CancelScope | None = None

    def progress(self, text: str) -> None:
        """Take what `ctx.report_progress` is given, from any thread."""
        self._in_trio(self._say, text)

    def event(self, name: str, payload: JsonValue) -> None:
        """Take what `ctx.emit` is given, from any thread."""
        self._in_trio(self._emit, name, payload)

    def close(self) -> None:
        """Say what still waits: the call has ended."""
        if self._flushing is not None:
            self._flushing.cancel(reason="the call has ended")
        self._progress.flush()

    def _in_trio(self, function: Callable[..., None], *args: Any) -> None:
        if trio.lowlevel.in_trio_run():
            function(*args)
        else:
            # A thread that was left behind may outlive the run; nobody is there to hear it then.
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function, *args)

    def _say(self, text: str) -> None:
        flush_at = self._progress.say(text, trio.current_time())
        if flush_at is not None:
            scope = self._flushing = trio.CancelScope()
            self._crew.start_soon(self._flush, flush_at, scope, scope=scope, name="progress")

    async def _flush(self, at_seconds: float, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep_until(at_seconds)
            self._progress.flush(at_seconds)

    def _send(self, text: str) -> None:
        self._deliver(ToolProgressed(at_ms=now_ms(), effect_id=self._effect_id, text=text))

    def _emit(self, name: str, payload: JsonValue) -> None:
        self._deliver(ToolEmitted(at_ms=now_ms(), effect_id=self._effect_id, name=name, payload=payload))


class ToolCalls:
    """Runs the calls of one incarnation."""

    __slots__ = ("_children", "_crew", "_deliver", "_ports", "_slots")

    def __init__(self, ports: Ports, slots: Slots, crew: Crew, deliver: Callable[[Signal], None]) -> None:
        """Take what calls need.

        Args:
            ports: What the session was given to work with.
            slots: Where callers wait; a tool that calls its own session would wait for itself.
            crew: For what outlasts a step of a call.
            deliver: Takes what calls say on their way.
        """
        self._ports = ports
        self._slots = slots
        self._crew = crew
        self._deliver = deliver
        self._children = itertools.count(1)

    async def run(
        self, effect: RunTool, scope: trio.CancelScope, processes: Processes, tabs: list[Tab]
    ) -> ToolFinished:
        """Run one attempt at a call, and give the outcome that the effect owes.

        Args:
            effect: The call.
            scope: Of this call alone; who cancels it stops the call.
            processes: Those that the call opens; gone when this returns, or listed as stuck.
            tabs: Gets one for each session that the call lets work.
        """
        started_at_ms = now_ms()
        voice = Voice(effect.effect_id, self._crew, self._deliver)
        try:
            ended = await self._run(effect, scope, voice, processes, tabs)
        finally:
            voice.close()
            await processes.aclose()  # noqa: ASYNC102 - shielded and bounded inside
        return ToolFinished(
            at_ms=now_ms(),
            effect_id=effect.effect_id,
            text=ended.text,
            is_error=ended.is_error,
            details=ended.details,
            started_at_ms=started_at_ms,
            crashed=ended.crashed,
            jitter=jitter() if ended.crashed else 0.0,
            changes=ended.changes,
            late=ended.late,
            spent=sum((tab.spent for tab in tabs), NOTHING_SPENT) if tabs else None,
        )

    async def _run(
        self,
        effect: RunTool,
        scope: trio.CancelScope,
        voice: Voice,
        processes: Processes,
        tabs: list[Tab],
    ) -> Ended:
        ports = self._ports
        tool = ports.tools[effect.name, effect.generation]
        if is_threaded(tool) and ports.threads.is_full:
            return Ended(text=TOO_MANY, is_error=True)
        timeout_seconds = timeout_seconds_of(tool) or ports.tool_timeout_seconds
        scope.deadline = trio.current_time() + timeout_seconds
        context = ToolContext(
            session_id=ports.session_id,
            group_id=ports.group_id,
            path=effect.path,
            call_id=effect.call_id,
            operation_id=effect.operation_id,
            attempt=effect.attempt,
            arguments=effect.arguments,
            working_dir=ports.working_dir,
            open_sandbox=ports.open_sandbox,
            model=effect.model,
            turn=effect.turn,
            total_tokens=effect.total_tokens,
            cost_usd=effect.cost_usd,
            todos=effect.todos,
            memory=effect.memory,
            user_data=ports.user_data,
            deadline=scope.deadline,
            progress=voice.progress,
            event=voice.event,
            run_in_thread=partial(ports.threads.run, effect.name, scope),
            process=partial(processes.open, ports.open_sandbox, scope),
            question=partial(self._ask_user, effect),
            child=partial(self._run_session, effect, tabs),
        )
        attempt = Attempt(tool=tool, context=context, timeout_seconds=timeout_seconds)
        with self._slots.inside():
            return await run_tool(effect, attempt, scope)

    async def _ask_user(
        self, effect: RunTool, question: str, options: tuple[str, ...], timeout_seconds: float | None
    ) -> str | None:
        asked = ToolAsked(
            at_ms=now_ms(),
            signal_id=self._slots.mint(),
            effect_id=effect.effect_id,
            question=question,
            options=options,
            timeout_ms=None if timeout_seconds is None else round(timeout_seconds * 1000),
        )
        return cast("str | None", await self._slots.ask(asked, lambda _: self._deliver(asked)))

    async def _run_session(self, effect: RunTool, tabs: list[Tab], request: ChildRequest) -> str:
        wish = ChildWish(
            effect_id=effect.effect_id,
            call_id=effect.call_id,
            request=request,
            number=next(self._children),
        )
        tab = Tab()
        tabs.append(tab)
        return await self._ports.ask_child(wish, self._ports, self._deliver, tab)
