"""The plugins of a host, asked one after another: who comes next, what each is given, and what its answer or its failure means.

Pure: a chain is told what happened and says what is to be done. How a hook is called, and for how long, stands in `hook_runner`. The
table of failures is 8.4 of the specification: each `failed` is one of its rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import attrs
from attrs import frozen

from agentrail.abc import HostVerdict
from agentrail.errors import RequestRefused
from agentrail.frozen import thawed, too_large
from agentrail.host.payloads import (
    AfterToolCall,
    Allow,
    AttachmentFile,
    AttachmentText,
    BeforeToolCall,
    ChatRequestContext,
    Deny,
    HandledResponse,
    RequestContext,
)
from agentrail.host.plugin import HOST_HOOKS, HostPlugin, overrides
from agentrail.otp.exits import keep

Q = TypeVar("Q")

REFUSAL_STATUSES: Final = frozenset({401, 402, 403, 409, 422, 429, 503})
"""The statuses that a refusal of a plugin may have."""


class WrongAnswer(TypeError):
    """A hook returned what it may not return: its plugin's bug, as if it had raised."""


@frozen
class PluginOrder:
    """The plugins of a host in their order, and for each hook those that have one of their own.

    Attributes:
        all: Every plugin.
        having: By hook.
    """

    all: tuple[HostPlugin, ...]
    having: Mapping[str, tuple[HostPlugin, ...]]

    @classmethod
    def of(cls, plugins: Sequence[HostPlugin]) -> "PluginOrder":
        """Look once at which plugin has which hook; `plugins` are checked and sorted."""
        having = {hook: tuple([one for one in plugins if overrides(one, hook)]) for hook in HOST_HOOKS}
        return cls(tuple(plugins), MappingProxyType(having))


class Chain(ABC, Generic[Q]):
    """Plugins that are asked one after another by one hook.

    Attributes:
        hook: Which one.
        is_waited_out: Whether a caller that is cancelled waits for the hook that runs as long as one that is not: where it says then that
            nothing of the call is left.
    """

    is_waited_out: bool = False

    def __init__(self, hook: str, plugins: Sequence[HostPlugin]) -> None:
        """Begin in front of the first."""
        self.hook: str = hook
        self._plugins = plugins
        self._next = 0

    def next(self) -> HostPlugin | None:
        """Say who is asked now; None when the chain is over."""
        if self._next == len(self._plugins):
            return None
        self._next += 1
        return self._plugins[self._next - 1]

    def end(self) -> None:
        """Ask no one any more."""
        self._next = len(self._plugins)

    def function(self, plugin: HostPlugin) -> Callable[..., Awaitable[Any]]:
        """Say what of a plugin is called: the hook of this name, in most chains."""
        found: Callable[..., Awaitable[Any]] = getattr(plugin, self.hook)
        return found

    @abstractmethod
    def question(self, plugin: HostPlugin) -> tuple[Q, ...]:
        """Say what a plugin's hook is called with: where it can be changed, a copy of its own."""

    @abstractmethod
    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Take what a hook returned.

        Raises:
            WrongAnswer: It is not of the hook's type: as if it had raised.
        """

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Take that a hook raised, ran out of time, or returned what it may not. Most chains go on with the next plugin."""

    def cut(self) -> None:
        """Take that no plugin is asked any more, because the host closes, though some were not. What they guard must not pass for it."""

    def scrub(self, text: str) -> str:
        """Take out of a text for the log what its question may have brought in and no log may hold."""
        return text


class Blaming(Chain[Any]):
    """No plugin is asked: one of them did wrong where no hook of a chain was called, and that is to be told of as a failure."""

    def __init__(self, hook: str, scrub: Callable[[str], str] = keep) -> None:
        """Say what the failure counts as one of."""
        super().__init__(hook, ())
        self._scrub = scrub

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give nothing."""
        return ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""

    def scrub(self, text: str) -> str:
        """Take out what it was told to."""
        return self._scrub(text)


class Hearing(Chain[RequestContext]):
    """Plugins that hear of a request: of its beginning, of its being kept, or of its end."""

    def __init__(self, hook: str, order: PluginOrder, context: RequestContext) -> None:
        """Begin in front of the first."""
        super().__init__(hook, order.having[hook])
        self._context = context

    def question(self, plugin: HostPlugin) -> tuple[RequestContext, ...]:
        """Give the request."""
        return (self._context,)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""
        _expect_nothing(self.hook, value)


class Intercepting(Chain[ChatRequestContext]):
    """Plugins that may answer a message in place of a session. The first answer counts.

    Attributes:
        response: What was answered; None to let it pass.
        refusal: What the caller is told where a critical plugin failed.
    """

    def __init__(self, order: PluginOrder, context: ChatRequestContext) -> None:
        """Begin in front of the first."""
        super().__init__("intercept_chat_request", order.having["intercept_chat_request"])
        self._context = context
        self.response: HandledResponse | None = None
        self.refusal: RequestRefused | None = None

    def question(self, plugin: HostPlugin) -> tuple[ChatRequestContext, ...]:
        """Give the message."""
        return (self._context,)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Take an answer, which ends the chain, or None."""
        if value is None:
            return
        if not isinstance(value, HandledResponse):
            raise WrongAnswer(_wrong(self.hook, value, "HandledResponse, or None to let the message pass"))
        self.response = value
        self.end()

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Refuse the request where the plugin is critical; else it is as if it had returned None."""
        if plugin.critical:
            self.refusal = decide_request_refusal(plugin, error)
            self.end()

    def cut(self) -> None:
        """Refuse the request: a plugin that would have kept it out may not have been asked."""
        self.refusal = RequestRefused(503, "draining", "this host is closing: try again later")


def decide_request_refusal(plugin: HostPlugin, error: BaseException) -> RequestRefused:
    """Say what the caller is told when a critical plugin failed: its own refusal, else nothing of what it raised."""
    if isinstance(error, RequestRefused) and error.status in REFUSAL_STATUSES:
        return error
    message = f"the plugin {plugin.name!r} could not judge this request: try again later"
    return RequestRefused(503, "plugin_failed", message)


class Attaching(Chain[tuple[AttachmentFile, ...]]):
    """Plugins that say something of the files of a message.

    Attributes:
        texts: What they said, trimmed, without empty ones.
    """

    def __init__(self, order: PluginOrder, files: tuple[AttachmentFile, ...]) -> None:
        """Begin in front of the first; without files there is none."""
        super().__init__("attachment_handler", order.having["attachment_handler"] if files else ())
        self._files = files
        self.texts: tuple[str, ...] = ()

    def question(self, plugin: HostPlugin) -> tuple[tuple[AttachmentFile, ...], ...]:
        """Give the files."""
        return (self._files,)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Keep a text."""
        if value is None:
            return
        if not isinstance(value, AttachmentText):
            raise WrongAnswer(_wrong(self.hook, value, "AttachmentText, or None"))
        text = (value.context_text or "").strip()
        if text:
            self.texts = (*self.texts, text)

    def message(self, said: str) -> str:
        """Put what was said of the files in front of a message."""
        if not self.texts:
            return said
        return "\n\n".join(self.texts) + f"\n\n---\n\n{said}"


class Judging(Chain[BeforeToolCall]):
    """Plugins that judge a call. The first denial counts; arguments that one rewrites reach the next.

    A plugin that is `fail_closed` judges again where a later one rewrote the arguments, because policy is to see what will run. Then
    only its denial counts: another rewrite would begin it all anew.
    """

    # The receipt of an abort says that the hook's task is gone, or names it; left behind here it would do neither.
    is_waited_out = True

    def __init__(self, order: PluginOrder, call: BeforeToolCall) -> None:
        """Begin in front of the first. Of what is no JSON object no plugin is asked."""
        given: Any = call.input
        super().__init__(
            "on_before_tool_call", order.having["on_before_tool_call"] if isinstance(given, Mapping) else ()
        )
        self._call = call
        self._input: Mapping[str, Any] = call.input
        self._rewrote: tuple[str, ...] = ()
        self._again: tuple[HostPlugin, ...] = ()  # those that have not seen the arguments as they are now
        self._seen: tuple[HostPlugin, ...] = ()
        self._is_second_round = False
        self._deny: tuple[str, str] | None = None

    def next(self) -> HostPlugin | None:
        """Give the next one; behind the last those that have to judge again."""
        found = super().next()
        if found is None and self._again and self._deny is None:
            self._plugins, self._next, self._again = self._again, 0, ()
            self._is_second_round = True
            found = super().next()
        return found

    def question(self, plugin: HostPlugin) -> tuple[BeforeToolCall, ...]:
        """Give the call, with a copy of its arguments that is this plugin's own."""
        return (attrs.evolve(self._call, input=thawed(self._input)),)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Take a verdict."""
        if not isinstance(value, Allow | Deny):
            raise WrongAnswer(_wrong(self.hook, value, "Allow() or Deny(reason)"))
        if (
            isinstance(value, Allow)
            and value.input is not None
            and (size := too_large(value.input)) is not None
        ):
            message = f"{self.hook} wants to run an input of {size}: write it to a file, and give its path"
            raise WrongAnswer(message)
        self._note_seen(plugin)
        if isinstance(value, Deny):
            self._refuse(plugin, value.reason)
        elif value.input is not None and not self._is_second_round:
            # A copy: what was handed over is the plugin's, which may go on changing it.
            self._input = thawed(value.input)
            self._rewrote = (*self._rewrote, plugin.name)
            self._again = tuple([one for one in self._seen if one.fail_closed and one is not plugin])

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Go on, with what was rewritten before; one that is `fail_closed` denies the call."""
        self._note_seen(plugin)
        if plugin.fail_closed:
            reason = (
                f"the plugin {plugin.name!r} could not judge this call, and what it cannot judge does not run"
            )
            self._refuse(plugin, reason)

    def cut(self) -> None:
        """Deny the call: a plugin that would have denied it may not have been asked."""
        self._deny = ("host", "Not run: the host closes, and its plugins cannot judge this call any more")

    @property
    def verdict(self) -> HostVerdict:
        """What becomes of the call, once the chain is over."""
        if self._deny is not None:
            by, reason = self._deny
            return HostVerdict(deny=reason, by=by)
        if self._rewrote:
            return HostVerdict(input=self._input, by=", ".join(dict.fromkeys(self._rewrote)))
        return HostVerdict()

    def _note_seen(self, plugin: HostPlugin) -> None:
        if not self._is_second_round:
            self._seen = (*self._seen, plugin)

    def _refuse(self, plugin: HostPlugin, reason: str) -> None:
        self._deny = (plugin.name, reason)
        self.end()


class Reporting(Chain[AfterToolCall]):
    """Plugins that hear what a call came to."""

    def __init__(self, order: PluginOrder, call: AfterToolCall) -> None:
        """Begin in front of the first. Of a call whose arguments were no JSON object no plugin is told."""
        given: Any = call.input
        super().__init__(
            "on_after_tool_call", order.having["on_after_tool_call"] if isinstance(given, Mapping) else ()
        )
        self._call = call

    def question(self, plugin: HostPlugin) -> tuple[AfterToolCall, ...]:
        """Give the call, with a copy of its arguments that is this plugin's own."""
        return (attrs.evolve(self._call, input=thawed(self._call.input)),)

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""
        _expect_nothing(self.hook, value)


class Beginning(Chain[Any]):
    """Plugins that start, all or nothing.

    Attributes:
        started: Those that did, in this order.
        error: What kept one from it.
    """

    def __init__(self, order: PluginOrder) -> None:
        """Begin in front of the first. One that has no `start` of its own has started when its turn comes."""
        super().__init__("start", order.all)
        self.started: tuple[HostPlugin, ...] = ()
        self.error: BaseException | None = None

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give nothing."""
        return ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Note that it runs."""
        _expect_nothing(self.hook, value)
        self.started = (*self.started, plugin)

    def failed(self, plugin: HostPlugin, error: BaseException) -> None:
        """Start no later one."""
        self.error = error
        self.end()

    def cut(self) -> None:
        """Start no later one, and let none pass for started that was not."""
        message = "the host was closed before all of its plugins had started"
        self.error = self.error or RuntimeError(message)


class Stopping(Chain[Any]):
    """Plugins that stop, in the exact reverse of the order in which they were started. One that fails keeps no other from it."""

    def __init__(self, started: Sequence[HostPlugin]) -> None:
        """Begin with the last one."""
        super().__init__("stop", [one for one in reversed(started) if overrides(one, "stop")])

    def question(self, plugin: HostPlugin) -> tuple[Any, ...]:
        """Give nothing."""
        return ()

    def answered(self, plugin: HostPlugin, value: Any) -> None:
        """Expect nothing."""
        _expect_nothing(self.hook, value)


def _expect_nothing(hook: str, value: Any) -> None:
    if value is not None:
        raise WrongAnswer(_wrong(hook, value, "None"))


def _wrong(hook: str, value: Any, expected: str) -> str:
    return f"{hook} returned {type(value).__name__}, expected {expected}"
