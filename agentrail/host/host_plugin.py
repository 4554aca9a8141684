"""A host plugin: one cross-cutting concern, with hooks that may do I/O. It never runs in a replay."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from agentrail.abc import ContextProvider
from agentrail.errors import OptionError
from agentrail.errors.name_guesses import near_name
from agentrail.host.hook_payloads import (
    AfterToolCall,
    Allow,
    AttachmentFile,
    AttachmentText,
    BeforeToolCall,
    ChatRequestContext,
    DayBudgetWarning,
    Deny,
    HandledResponse,
    RequestContext,
)
from agentrail.otp.child_specs import is_amount
from agentrail.otp.guarded_calls import is_async, repr_of, takes

HOST_HOOKS: Final[tuple[str, ...]] = (
    "start",
    "background",
    "stop",
    "intercept_chat_request",
    "attachment_handler",
    "on_request_start",
    "on_before_tool_call",
    "on_after_tool_call",
    "on_turn_persisted",
    "on_request_end",
    "on_budget_warning",
)
"""Plugin hooks, in the order in which a request meets them."""

_LOOKS_LIKE_A_HOOK: Final = re.compile(r"on_\w+|intercept_\w+|\w+_handler")


class HostPlugin:
    """One cross-cutting concern of a host. Override the hooks you need. The others cost nothing.

    Attributes:
        name: Unique name in the host.
        version: Version such as `1.2.0`, shown in diagnostics.
        priority: Higher runs first and stops last. Plugins of equal priority run in the given order.
        critical: Whether a failing `intercept_chat_request` refuses the request.
        fail_closed: Whether a failing `on_before_tool_call` denies the call.
        timeouts: Hook name → seconds, instead of the host's `hook_timeout`.
        context_providers: Called after those of the host. See `agentrail.abc.ContextProvider`.
    """

    name: str = ""
    version: str = ""
    priority: int = 0
    critical: bool = False
    fail_closed: bool = False
    timeouts: Mapping[str, float] = MappingProxyType({})
    context_providers: Sequence[ContextProvider] = ()

    async def start(self) -> None:
        """Start the plugin. An exception prevents the host from starting."""

    async def background(self) -> None:
        """Run from start to stop, concurrently. Restarted on failure, up to three times in five seconds."""

    async def stop(self) -> None:
        """Stop the plugin. Called only if `start` returned."""

    async def intercept_chat_request(self, ctx: ChatRequestContext) -> HandledResponse | None:
        """Answer a message instead of a session, or return None to let it pass. Called for every message with a user's words."""

    async def attachment_handler(self, files: tuple[AttachmentFile, ...]) -> AttachmentText | None:
        """Return a text about the files of a message, placed before it, or None."""

    async def on_request_start(self, ctx: RequestContext) -> None:
        """Called at the start of a request. From here on, `on_request_end` is guaranteed."""

    async def on_before_tool_call(self, event: BeforeToolCall) -> Allow | Deny:
        """Judge a call, after the plugins of its session and before any user approval."""
        return Allow()

    async def on_after_tool_call(self, event: AfterToolCall) -> None:
        """Called with the outcome of a call. Cannot change it."""

    async def on_turn_persisted(self, ctx: RequestContext) -> None:
        """Called when a request's additions to the history are committed."""

    async def on_request_end(self, ctx: RequestContext) -> None:
        """Called once with the outcome of a request. The last hook of each request."""

    async def on_budget_warning(self, warning: DayBudgetWarning) -> None:
        """Called when 80 % of a daily budget are spent, once a day for each budget. Belongs to no request."""


def overrides(plugin: HostPlugin, hook: str) -> bool:
    own = inspect.getattr_static(plugin, hook)
    return own is not inspect.getattr_static(HostPlugin, hook)


def in_order(plugins: Iterable[HostPlugin]) -> tuple[HostPlugin, ...]:
    return tuple(sorted(plugins, key=lambda plugin: -plugin.priority))


def check_host_plugins(plugins: Iterable[Any]) -> tuple[HostPlugin, ...]:
    given = tuple(plugins)
    faults: list[str] = []
    names: dict[str, int] = {}
    for place, plugin in enumerate(given):
        if not isinstance(plugin, HostPlugin):
            faults.append(
                f"plugins[{place}] is {repr_of(plugin):.200}: expected an object of a subclass of HostPlugin"
            )
            continue
        faults += [f"plugins[{place}] {type(plugin).__name__}: {fault}" for fault in faults_of_plugin(plugin)]
        name: Any = plugin.name
        first = names.setdefault(name, place) if isinstance(name, str) and name else place
        if first != place:
            faults.append(f"plugins[{place}] has the name {name!r} of plugins[{first}]: give each its own")
    OptionError.raise_for(faults)
    return in_order(given)


def faults_of_plugin(plugin: HostPlugin) -> Iterator[str]:
    given: Any = plugin  # mypy takes the annotations at their word, and those are in doubt here
    if not isinstance(given.name, str) or not given.name.strip():
        yield f"name is {repr_of(given.name):.80}: set `name` to a text that no other plugin of the host has"
    if not isinstance(given.version, str):
        yield f"version is {repr_of(given.version):.80}: expected a text such as '1.2.0'"
    if type(given.priority) is not int:
        yield f"priority is {repr_of(given.priority):.80}: expected a whole number; higher runs first"
    for flag in ("critical", "fail_closed"):
        if type(getattr(given, flag)) is not bool:
            yield f"{flag} is {repr_of(getattr(given, flag)):.80}: expected True or False"
    for hook in HOST_HOOKS:
        if overrides(plugin, hook) and not inspect.iscoroutinefunction(getattr(plugin, hook)):
            yield f"{hook} is not an `async def`: write `async def {hook}`, and move blocking work into a thread"
        wanted = [*inspect.signature(getattr(HostPlugin, hook)).parameters]
        if callable(getattr(plugin, hook)) and not takes(getattr(plugin, hook), wanted[1:]):
            yield f"{hook} has other parameters: write `async def {hook}({', '.join(wanted)})`"
    for name in sorted(set(dir(plugin)) - set(HOST_HOOKS)):
        if not name.startswith("_") and _LOOKS_LIKE_A_HOOK.fullmatch(name):
            listed = f"expected one of {', '.join(HOST_HOOKS)};"
            meant = near_name(name, HOST_HOOKS, "did you mean {}?", listed, cutoff=0.4)
            yield f"{name} is not a hook and is never called: {meant} If it is a helper, start its name with an underscore"
    yield from _faults_of_timeouts(given.timeouts)
    if given.critical is True and not overrides(plugin, "intercept_chat_request"):
        yield "critical is True, but there is no intercept_chat_request that could fail: write one, or remove `critical`"
    if given.fail_closed is True and not overrides(plugin, "on_before_tool_call"):
        yield "fail_closed is True, but there is no on_before_tool_call that could fail: write one, or remove `fail_closed`"
    yield from faults_of_context_providers(given.context_providers)


def faults_of_context_providers(given: Any) -> Iterator[str]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(map(is_async, given)):
        yield f"context_providers are {repr_of(given):.200}: expected a sequence of async functions (`async def`)"


def _faults_of_timeouts(timeouts: Any) -> Iterator[str]:
    if not isinstance(timeouts, Mapping):
        yield f"timeouts are {repr_of(timeouts):.200}: expected hook names and seconds"
        return
    for hook, seconds in timeouts.items():
        if hook not in HOST_HOOKS:
            listed = f"expected one of {', '.join(HOST_HOOKS)}"
            meant = near_name(str(hook), HOST_HOOKS, "did you mean {!r}?", listed, cutoff=0.4)
            yield f"timeouts[{repr_of(hook):.80}] is not for a hook: {meant}"
        elif hook == "background":
            yield "timeouts['background']: it runs until the host stops, without a timeout"
        elif not is_amount(seconds, above_zero=True):
            yield f"timeouts[{hook!r}] is {repr_of(seconds):.80}: expected seconds above 0"
