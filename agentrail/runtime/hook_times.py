"""Counts, failures and durations of plugin hooks, in bounded memory."""

import math
from bisect import bisect_left
from collections import defaultdict
from functools import partial
from typing import Final

from attrs import define, field

from agentrail.wire.inspection_rows import FailureNote, HookRow

MAX_NAMES: Final = 200
"""Maximum number of plugins counted separately in one scope. Others are counted together, because a caller may invent names."""

MAX_SCOPES: Final = 10_000
"""Maximum number of scopes. Further scopes are not counted."""

OTHERS: Final = "…"
"""Name under which further plugins are counted."""

MAX_FAILURE_WORDS: Final = 300
"""Maximum number of characters kept of a plugin's last failure."""

_STEPS: Final = 8  # steps per doubling, so that a reported value is at most 9 % too high
_SHORTEST_MS: Final = 0.001
_CLASSES: Final = 30 * _STEPS  # up to 2**30 microseconds, or 18 minutes
# Upper bound of each class in seconds; the last has none. A lookup takes half as long as a logarithm.
_ENDS: Final = tuple([_SHORTEST_MS / 1000 * 2 ** (place / _STEPS) for place in range(_CLASSES)])


@define(eq=False)
class Durations:
    """Durations in classes of nearly equal relative width: a few hundred numbers, however many durations."""

    count: int = 0
    classes: dict[int, int] = field(factory=partial(defaultdict, int))

    def note(self, seconds: float) -> None:
        self.count += 1
        self.classes[bisect_left(_ENDS, seconds)] += 1

    def percentile_ms(self, share: float) -> float:
        """Return a percentile in milliseconds: the upper bound of a class, so never too low. 0.0 without durations."""
        left = math.ceil(self.count * share)
        for place in sorted(self.classes):
            left -= self.classes[place]
            if left <= 0:
                return float(_SHORTEST_MS * 2 ** (place / _STEPS))
        return 0.0


@define(eq=False)
class _Hook(Durations):
    failures: int = 0


@define(eq=False)
class PluginTally:
    _hooks: dict[str, dict[str, _Hook]] = field(factory=dict)
    _last: dict[str, FailureNote] = field(factory=dict)

    def note(self, plugin: str, hook: str, seconds: float) -> None:
        try:
            one = self._hooks[plugin][hook]
        except KeyError:
            one = self._hook(plugin, hook)
        one.note(seconds)

    def note_failure(self, plugin: str, hook: str, words: str, at_ms: int) -> None:
        self._hook(plugin, hook).failures += 1
        name = plugin if plugin in self._hooks else OTHERS
        self._last[name] = FailureNote(hook=hook, words=words[:MAX_FAILURE_WORDS], at_ms=at_ms)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._hooks)

    def hooks_of(self, plugin: str) -> tuple[HookRow, ...]:
        return tuple([
            HookRow(
                hook=name,
                calls=one.count,
                failures=one.failures,
                p50_ms=one.percentile_ms(0.5),
                p99_ms=one.percentile_ms(0.99),
            )
            for name, one in self._hooks.get(plugin, {}).items()
        ])  # fmt: skip

    def last_failure_of(self, plugin: str) -> FailureNote | None:
        return self._last.get(plugin)

    def _hook(self, plugin: str, hook: str) -> _Hook:
        hooks = self._hooks.get(plugin)
        if hooks is None:
            name = plugin if len(self._hooks) < MAX_NAMES else OTHERS
            hooks = self._hooks.setdefault(name, {})
        one = hooks.get(hook)
        if one is None:
            one = hooks[hook] = _Hook()
        return one


NO_TALLY: Final = PluginTally()
"""A tally that counts nothing, compared by identity."""


@define(eq=False)
class PluginTallies:
    _by_scope: dict[str, PluginTally] = field(factory=dict)

    def of(self, scope: str) -> PluginTally:
        """Return the tally of a scope, for counting and reading. `NO_TALLY` if there are too many scopes."""
        found = self._by_scope.get(scope)
        if found is None and len(self._by_scope) < MAX_SCOPES:
            found = self._by_scope[scope] = PluginTally()
        return NO_TALLY if found is None else found
