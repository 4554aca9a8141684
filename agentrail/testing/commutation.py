"""Two orders of one stack, compared: both receive the same signals, and after each of them nothing may differ."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from attrs import frozen

from agentrail.core.protocol.effects import Effect, Publish, Refuse, ReplyToCaller
from agentrail.core.session import machine
from agentrail.core.session.state import SessionData, SessionState
from agentrail.core.stack.loaded_stack import PluginStates, Stack, compile_stack, load_stack
from agentrail.events import SessionStart
from agentrail.testing.checked_run import CounterExample, Run, Setup
from agentrail.testing.differences import first_difference
from agentrail.testing.plugin_promises import PLUGIN_PROMISES
from agentrail.testing.plugins import PluginShelf
from agentrail.testing.promises import PROMISES, Seen, comparable

ALL_PROMISES: Final = tuple(promise.__name__ for promise in (*PROMISES, *PLUGIN_PROMISES))
"""All promises: a comparison of two orders checks none of them, so that no other fault hides the difference."""

# The user's options list plugins in their order, which does not count as a difference.
_NOT_COMPARED: Final = frozenset({"config", "stack", "seq"})
_MAX_SHOWN: Final = 300


@frozen(kw_only=True)
class Commutation:
    """Whether two plugins may change places.

    Attributes:
        found: Where the order matters. None if no such place was found.
        runs: Number of conversations completed with both orders.
    """

    found: CounterExample | None
    runs: int

    def __bool__(self) -> bool:
        """Whether they commute, in all runs."""
        return self.found is None

    @property
    def conversation(self) -> str:
        """The shortest conversation in which the order matters, as a scenario. Empty if there is none."""
        return "" if self.found is None else self.found.scenario

    @property
    def difference(self) -> str:
        """The difference at its end. Empty if there is none."""
        return "" if self.found is None else self.found.why


class Twins(Run):
    """A session with two plugins, and one with their order swapped."""

    def __init__(self, setup: Setup) -> None:
        self._other = machine.new_session(setup.config, setup.tools, *_swapped(setup))
        super().__init__(setup)

    def compared(self, seen: Seen) -> None:
        other, effects = machine.step(self._other, seen.signal)
        self._other = other
        difference = _state_differs(seen.after, other) or _effects_differ(seen.effects, effects)
        if difference is not None:
            raise AssertionError(difference)  # `assert` would add its own words under pytest


def _swapped(setup: Setup) -> tuple[Stack, PluginStates]:
    shelf = PluginShelf()  # knows the plugins added during the session, like the one of the first order
    stack, states = load_stack(setup.entries, ask=shelf)
    first, second = stack.members
    replace = msgspec.structs.replace
    members = [replace(second, priority=first.priority), replace(first, priority=second.priority)]
    return compile_stack(members, ask=shelf), states


def _state_differs(one: SessionState, other: SessionState) -> str | None:
    if one.phase is not other.phase or one.ended != other.ended:
        return f"in this order the session is in {one.phase.name}, in the other in {other.phase.name}"
    for name in sorted(set(SessionData.__struct_fields__) - _NOT_COMPARED):
        mine, others = getattr(one.data, name), getattr(other.data, name)
        if mine != others:
            left, right = (msgspec.to_builtins(value, enc_hook=_to_builtin) for value in (mine, others))
            place, here, there = first_difference(left, right, name)
            return f"{place} in this order: {_shown(here)}; in the other: {_shown(there)}"
    return None


def _to_builtin(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else repr(value)


def _effects_differ(effects: Sequence[Effect], others: Sequence[Effect]) -> str | None:
    """Compare as multisets: the plugin called first also publishes first, which does not count as a difference."""
    left = [_plain(effect) for effect in others if _counts(effect)]
    for effect in filter(_counts, effects):
        plain = _plain(effect)
        if plain not in left:
            return f"only this order has {_shown(effect)}"
        left.remove(plain)
    return f"only the other order has {_shown(left[0])}" if left else None


def _counts(effect: Effect) -> bool:
    return not isinstance(effect, ReplyToCaller) and not (
        isinstance(effect, Publish) and isinstance(effect.event, SessionStart)
    )


def _plain(effect: Effect) -> object:
    if isinstance(effect, Publish):
        return msgspec.structs.replace(effect.event, meta=None)
    if isinstance(effect, Refuse):  # its text may name the plugins in their order
        return (effect.to, type(effect.error))
    return comparable(effect)


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
