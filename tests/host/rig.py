"""Plugins for the tests of the host: they write down what they hear, and fail as they are told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from agentrail.host.hook_payloads import (
    AfterToolCall,
    BeforeToolCall,
    ChatRequest,
    ChatRequestContext,
    Principal,
    RequestContext,
    ToolCallContext,
)
from agentrail.host.host_plugin import HostPlugin, check_host_plugins
from agentrail.host.plugin_chain import Chain, HookRunner, PluginOrder
from agentrail.messages import CallId, SessionId

CONTEXT = RequestContext(
    kind="chat",
    tenant_id="t",
    user_id="u",
    session_id=SessionId("s-1"),
    agent_id="a",
    request_id="r-1",
    started_at_ms=5,
)
CHAT = ChatRequestContext(
    kind="chat",
    request=ChatRequest(message="Hi", tenant_id="t", user_id="u", agent_id="a"),
    agent_id="a",
    principal=Principal(tenant_id="t", user_id="u"),
)
AROUND = ToolCallContext(
    tenant_id="t",
    user_id="u",
    session_id=SessionId("s-1"),
    root_session_id=SessionId("s-1"),
    agent_id="a",
    request_id="r-1",
)


def before(given: Any, tool: str = "book") -> BeforeToolCall:
    return BeforeToolCall(tool_name=tool, call_id=CallId("c-1"), input=given, context=AROUND)


def after(given: Any) -> AfterToolCall:
    return AfterToolCall(
        tool_name="book",
        call_id=CallId("c-1"),
        input=given,
        result="done",
        is_error=False,
        duration_ms=7,
        context=AROUND,
    )


def plugin(name: str, *, heard: list[Any] | None = None, **members: Any) -> HostPlugin:
    """Make a plugin: what is async is a hook and gets its argument alone, all else an attribute.

    Args:
        name: Of the plugin.
        heard: Gets `(name, hook)` of each of its hooks that is called.
        **members: Hooks, which are functions of their argument, and attributes.
    """
    made: dict[str, Any] = {"name": name}
    for member, value in members.items():
        made[member] = _noted(name, member, value, heard) if callable(value) else value
    made_of: type[HostPlugin] = type(f"Plugin{name.title()}", (HostPlugin,), made)
    return made_of()


def _noted(name: str, hook: str, function: Callable[..., Any], heard: list[Any] | None) -> Callable[..., Any]:
    async def call(_self: HostPlugin, *given: Any) -> Any:
        if heard is not None:
            heard.append((name, hook))
        return await function(*given)

    return call


def raising(error: BaseException) -> Callable[..., Any]:
    async def hook(*_given: Any) -> None:
        raise error

    return hook


def saying(value: Any) -> Callable[..., Any]:
    async def hook(*_given: Any) -> Any:
        return value

    return hook


async def hang(*_given: Any) -> None:
    await trio.sleep_forever()


def shielded(seconds: float) -> Callable[..., Any]:
    """A hook that cannot be cancelled for so long."""

    async def hook(*_given: Any) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)

    return hook


def order(*plugins: HostPlugin) -> PluginOrder:
    return PluginOrder.of(check_host_plugins(plugins))


class Reports(list[tuple[str, str, str]]):
    """What the application was told of failures: plugin, hook, and the class of the error."""

    async def hear(self, name: str, hook: str, error: BaseException) -> None:
        self.append((name, hook, type(error).__name__))


@asynccontextmanager
async def open_runner(**options: Any) -> AsyncIterator[HookRunner]:
    """Open a runner of hooks, and cancel what still runs at the end."""
    async with trio.open_nursery() as nursery:
        yield HookRunner(nursery, **options)
        nursery.cancel_scope.cancel()


async def run(chain: Chain[Any], **options: Any) -> Chain[Any]:
    """Walk along a chain with a runner of its own."""
    async with open_runner(**options) as runner:
        await runner.run(chain)
    return chain
