"""Processes opened by one call. Each ends with the call, stopped by the code that stops the call rather than by the tool."""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import trio
from attrs import define, field

from agentrail.abc import ProcessOptions, ProcessSandbox, Sandbox, ToolProcess
from agentrail.core.values.port_members import offers
from agentrail.errors import ProcessRefused
from agentrail.otp.exits import keep
from agentrail.process_account import ProcessAccount
from agentrail.runtime.crashes import PortCrashed, TaskGroup, crash_edge, decide_sandbox_crash
from agentrail.runtime.error_scrubber import Scrub

_CLOSE_WITHIN_SECONDS: Final = 6.0
"""Longer than stopping a process may take: the sandbox bounds a stop, and this limit covers the rest."""


@define(eq=False)
class _Opened:
    scope: trio.CancelScope
    is_open: trio.Event = field(factory=trio.Event)
    is_gone: trio.Event = field(factory=trio.Event)
    process: ToolProcess | None = None
    refusal: ProcessRefused | None = None


@define(eq=False)
class Processes:
    _task_group: TaskGroup
    _scrub: Scrub = keep
    _opened: list[_Opened] = field(init=False, factory=list)
    account: ProcessAccount = field(init=False, factory=ProcessAccount)

    async def open(
        self,
        open_sandbox: Callable[[], Sandbox],
        call: trio.CancelScope,
        argv: tuple[str, ...],
        options: ProcessOptions,
    ) -> ToolProcess:
        sandbox = open_sandbox()
        if not offers(sandbox, ProcessSandbox):
            message = f"{type(sandbox).__name__} cannot open processes: use a LocalSandbox"
            raise ProcessRefused(message, code="unsupported")
        if self._task_group.is_dismissed or call.cancel_called:
            message = "the call was stopped: it can no longer open processes"
            raise ProcessRefused(message, code="unsupported")
        opened = _Opened(trio.CancelScope(deadline=call.deadline))
        self._opened.append(opened)
        self._task_group.start_soon(
            self._hold, sandbox, argv, options, opened, scope=opened.scope, name=argv[0]
        )
        try:
            await opened.is_open.wait()
        except trio.Cancelled:
            opened.scope.cancel(reason="the caller that wanted the process was cancelled")
            raise
        if opened.process is None:
            raise opened.refusal or ProcessRefused("the call was stopped", code="unsupported")
        return opened.process

    def stop(self) -> None:
        for opened in self._opened:
            opened.scope.cancel(reason="the call was stopped")

    def lift_deadlines(self) -> None:
        for opened in self._opened:
            opened.scope.deadline = math.inf

    @property
    def has_any(self) -> bool:
        return bool(self._opened)

    async def aclose(self) -> None:
        if not self._opened:
            return
        self.stop()
        with trio.move_on_after(_CLOSE_WITHIN_SECONDS, shield=True):
            for opened in self._opened:
                await opened.is_gone.wait()

    async def _hold(
        self, sandbox: ProcessSandbox, argv: tuple[str, ...], options: ProcessOptions, opened: _Opened
    ) -> None:
        try:
            decide = partial(decide_sandbox_crash, argv[0])
            with crash_edge(decide, ProcessRefused, scrub=self._scrub), opened.scope:
                async with sandbox.open_process(argv, options) as opened.process:
                    opened.is_open.set()
                    await trio.sleep_forever()
        except ProcessRefused as refusal:
            opened.refusal = refusal
        except PortCrashed as crashed:
            # While it opens this is an answer, and at its end no caller waits for it.
            opened.refusal = ProcessRefused(crashed.error.message, code=crashed.error.code)
        finally:
            opened.is_open.set()
            opened.is_gone.set()
