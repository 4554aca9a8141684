"""The hooks of plugins at the calls of sessions: what a session asks its host becomes a chain of plugins, and their verdict one.

Where no plugin has such a hook there is none, and sessions do not ask. What a verdict does to a call, and what is checked of it, says the
session; nothing here knows of gates.
"""

from collections.abc import Callable
from typing import TypeAlias

from agentrail.abc import NO_HOST, HostCall, HostCallEnd, HostHooks, HostVerdict
from agentrail.host.hooks import HookRunner, Judging, PluginOrder, Reporting
from agentrail.host.payloads import AfterToolCall, BeforeToolCall, SessionReader, ToolCallContext
from agentrail.messages import SessionId

ReaderOf: TypeAlias = Callable[[str, SessionId], SessionReader | None]
"""Gives what reads a session of a tenant; None where there is none any more."""


def _no_reader(_tenant_id: str, _session_id: SessionId) -> None:
    """Give none."""


def tool_hooks(order: PluginOrder, runner: HookRunner, reader_of: ReaderOf = _no_reader) -> HostHooks:
    """Make the hooks of a host for the calls of its sessions.

    Args:
        order: The plugins.
        runner: Calls their hooks.
        reader_of: Gives the `reader` of a call's context.

    Returns:
        For each of both gates a hook, where a plugin has one; `NO_HOST` without any.
    """
    hooks = _ToolHooks(order, runner, reader_of)
    before = hooks.before_tool if order.having["on_before_tool_call"] else None
    after = hooks.after_tool if order.having["on_after_tool_call"] else None
    if before is None and after is None:
        return NO_HOST
    return HostHooks(before_tool=before, after_tool=after)


class _ToolHooks:
    def __init__(self, order: PluginOrder, runner: HookRunner, reader_of: ReaderOf) -> None:
        self._order = order
        self._runner = runner
        self._reader_of = reader_of

    async def before_tool(self, call: HostCall) -> HostVerdict:
        """Let the plugins judge a call.

        Cancellation: The hook that runs is cancelled, and no later one is asked; see `HookRunner.run`.
        """
        event = BeforeToolCall(
            tool_name=call.tool_name, call_id=call.call_id, input=call.input, context=self._around(call)
        )
        chain = Judging(self._order, event)
        await self._runner.run(chain)
        return chain.verdict

    async def after_tool(self, call: HostCallEnd) -> None:
        """Tell the plugins what a call came to.

        Cancellation: As of `before_tool`.
        """
        event = AfterToolCall(
            tool_name=call.tool_name,
            call_id=call.call_id,
            input=call.input,
            result=call.result,
            is_error=call.is_error,
            duration_ms=call.duration_ms,
            context=self._around(call),
        )
        await self._runner.run(Reporting(self._order, event))

    def _around(self, call: HostCall) -> ToolCallContext:
        tenant_id = _said_of(call, "tenant_id")
        return ToolCallContext(
            tenant_id=tenant_id,
            user_id=_said_of(call, "user_id"),
            session_id=call.session_id,
            root_session_id=call.root_session_id,
            agent_id=_said_of(call, "agent_id"),
            request_id=call.request_id,
            reader=self._reader_of(tenant_id, call.session_id),
        )


def _said_of(call: HostCall, key: str) -> str:
    # The host sets them in each session that it starts; one that was started past it says nothing.
    found = call.user_data.get(key)
    return found if isinstance(found, str) else ""
