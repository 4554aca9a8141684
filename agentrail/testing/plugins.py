"""Plugins with one behaviour each, for scenarios and tests, configured by lines of text instead of code.

A rule is `HOOK=ACTION`, or `HOOK.TOOL=ACTION` for the hooks of calls. The action is a word, with an optional text after a
colon: `approve:"is it safe?"`, `block:"not today"`, `abort:"no"`, `intervene:"think again"`, `skip`, `args:{"path": "b"}`,
`result:"[hidden]"`, `response:"[hidden]"`, `model:scripted:other` with an optional `?{options}` after it, `emit:seen`, `raise`,
`section:"Today is Friday."`, and `messages:2`, which passes on only the last two messages.
"""

import functools
import json
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from signal import ITIMER_VIRTUAL, SIGVTALRM
from types import FrameType, MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import frozen

from agentrail import plugins as p
from agentrail.core.protocol.hooks import Hook
from agentrail.core.protocol.plugin_record import PluginRecord
from agentrail.core.stack.loaded_stack import Ask, Member, PluginEntry, call_handler
from agentrail.core.stack.plugin import Plugin
from agentrail.core.stack.plugin_code import part_entry, plugin_origin
from agentrail.messages import Message
from agentrail.otp.crash_text import describe_bug
from agentrail.testing.timer_signals import timer_signal

PuppetAnswer: TypeAlias = p.Action[int]

_ONCE: Final = frozenset({"intervene"})
"""Actions that would loop indefinitely if taken on every occurrence of the hook."""


@frozen(kw_only=True)
class PuppetRule:
    """A rule of the answers.

    Attributes:
        hook: Name of the hook event.
        tool: Only calls of this tool. None for all.
        action: The action word.
        text: The text after it.
    """

    hook: str
    tool: str | None
    action: str
    text: str


class PuppetPlugin(p.Plugin[int]):
    """Answers by rules. Its state counts the interventions.

    Attributes:
        rules: Its rules.
    """

    def __init__(self, rules: tuple[PuppetRule, ...], *, name: str, priority: int = 500) -> None:
        """Store the rules. The first matching rule counts."""
        self.rules = rules
        self.name = name
        self.priority = priority
        self.hooks: frozenset[Hook] = frozenset(
            hook for hook in p.HOOKS if hook.__name__ in {rule.hook for rule in rules}
        )

    def init(self) -> int:
        """Return the count 0."""
        return 0

    def handle(self, event: p.HookEvent, state: int, ctx: p.Context) -> PuppetAnswer:
        """Return the action of the first matching rule."""
        del ctx
        for rule in self.rules:
            fits = rule.hook == type(event).__name__ and rule.tool in (None, getattr(event, "name", None))
            if fits and rule.action == "messages":
                shown: tuple[Message, ...] = getattr(event, "messages", ())
                count = int(rule.text) if rule.text.isdecimal() else 1
                return p.ReplaceMessages(shown[max(len(shown) - count, 0) :], state)
            if fits and not (rule.action in _ONCE and state):
                return _ANSWERS[rule.action](rule.text, state)
        return p.Continue(state)


def _switch(text: str, state: int) -> PuppetAnswer:
    model, _, opts = text.partition("?")
    return p.SwitchModel(model, state, provider_opts=json.loads(opts) if opts else None)


def _fail(text: str, state: int) -> PuppetAnswer:
    del state
    raise RuntimeError(text or "on purpose")


_ANSWERS: Final[Mapping[str, Callable[[str, int], PuppetAnswer]]] = MappingProxyType(
    {
        "approve": p.RequireApproval,
        "block": p.BlockTool,
        "abort": p.Abort,
        "intervene": lambda text, state: p.Intervene(text, state + 1),
        "skip": lambda _, state: p.Skip(state),
        "args": lambda text, state: p.ReplaceToolArgs(json.loads(text), state),
        "result": p.ReplaceToolResult,
        "resolve": lambda text, state: p.ResolveApproval(text, "approve", state),
        "response": p.ReplaceResponse,
        "model": _switch,
        "emit": lambda text, state: p.Emit(text, {}, state),
        "section": lambda text, state: p.Continue(state, context={"note": text}),
        "read": lambda text, state: p.Request(p.ReadFile(text), text, state),
        "wait": lambda text, state: p.Request(p.ReadFile(text), text, state, wait=True),
        "raise": _fail,
    }
)

PUPPET_ACTIONS: Final = frozenset({*_ANSWERS, "messages"})
"""The action words of a rule."""


def read_rule(key: str, value: Any) -> PuppetRule:
    """Parse one rule.

    Args:
        key: `HOOK` or `HOOK.TOOL`.
        value: `ACTION`, `ACTION:TEXT`.

    Raises:
        ValueError: Your move: an unknown hook or action. The message lists the known ones.
    """
    hook, _, tool = key.partition(".")
    action, _, text = str(value).partition(":")
    known = {known.__name__ for known in p.HOOKS}
    if hook not in known or action not in PUPPET_ACTIONS:
        message = f"{key}={value!r} is not a rule; expected one of {sorted(known)}, and one of {sorted(PUPPET_ACTIONS)}"
        raise ValueError(message)
    return PuppetRule(hook=hook, tool=tool or None, action=action, text=text)


def call_unless_it_exits(member: Member, event: p.HookEvent, state: Any, ctx: p.Context) -> object:
    """Call a handler, as `call_to_end`."""
    return call_to_end(type(member.plugin), "return an action", call_handler, member, event, state, ctx)


def call_to_end(code: Hashable, duty: str, function: Callable[..., object], *args: Any) -> object:
    """Call code of a plugin.

    Raises:
        AssertionError: It exits, which would end the test or the command, perhaps with the code of a success. Or it does not end.
    """
    try:
        return call_in_time(code, duty, function, *args)
    except SystemExit as leaving:
        message = f"a plugin must not end the process, and this one raised {describe_bug(leaving)}"
        raise AssertionError(message) from leaving


def call_in_time(code: Hashable, duty: str, function: Callable[..., object], *args: Any) -> object:
    """Call code of a plugin.

    Raises:
        AssertionError: It does not end.
    """
    seconds = CHECKED_HOOK_SECONDS / 100 if code in _endless else CHECKED_HOOK_SECONDS
    is_heard = threading.current_thread() is threading.main_thread()
    try:
        with timer_signal(SIGVTALRM, ITIMER_VIRTUAL, _interrupt, seconds) if is_heard else nullcontext():
            return function(*args)
    except _HookTooLong as late:
        _endless.add(code)
        message = f"a plugin must {duty}, and this one still computed after {CHECKED_HOOK_SECONDS:g} seconds, at {late}"
        raise AssertionError(message) from late


CHECKED_HOOK_SECONDS: Final = 5.0
"""Processor time after which code of a plugin counts as endless. A hundredth of it for code that was endless before."""

_endless: Final[set[Hashable]] = set()


class _HookTooLong(KeyboardInterrupt):
    """A handler that does not end. Guards of foreign code let it pass, as they do Ctrl-C."""


def _interrupt(_: int, frame: FrameType | None) -> None:
    raise _HookTooLong("" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}")


class PluginShelf:
    """Plugins to be added while a session lives, as in the shell. Pass it to `load_stack(entries, ask=shelf)`.

    A plugin that was not put here is a puppet without rules if its record names this module, and otherwise missing.
    """

    def __init__(self, ask: Ask = call_unless_it_exits) -> None:
        """Create an empty shelf.

        Args:
            ask: Calls a handler.
        """
        self._ask = ask
        self._coming: dict[str, Plugin] = {}

    def __call__(self, member: Member, event: p.HookEvent, state: Any, ctx: p.Context) -> object:
        """Call a handler."""
        return self._ask(member, event, state, ctx)

    def put(self, change: str, entry: PluginEntry) -> PluginRecord:
        """Store the plugin of a change, and return its record for the signal.

        Args:
            change: Id of the signal.
            entry: An entry, as in `load_stack`.

        Raises:
            PluginError: Your move: the errors of `load_stack`.
        """
        plugin, record = part_entry(entry, self)
        self._coming[change] = plugin
        return record

    def find(self, change: str, record: PluginRecord) -> Plugin | None:
        """Return the plugin of a change."""
        found = self._coming.get(change)
        return found if found is not None else puppet_of(record)


PUPPET_ORIGIN: Final = plugin_origin(PuppetPlugin)
"""Origin of puppets."""


def puppet_of(record: PluginRecord) -> PuppetPlugin | None:
    """Return a puppet without rules for a record. None if the record is for another plugin."""
    return _silent(record.name) if record.origin == PUPPET_ORIGIN else None


@functools.cache  # a plugin is equal only to itself, and a repeated step must return equal states
def _silent(name: str) -> PuppetPlugin:
    return PuppetPlugin((), name=name)
