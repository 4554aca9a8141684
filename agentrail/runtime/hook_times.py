"""How often hooks of plugins were called, how often they failed and how long they took, in bounded memory.

For people who look at plugins: nothing is decided by it, nothing is journaled, and a replay counts nothing. No clock and no loop enter;
durations are given.
"""

import math
from bisect import bisect_left
from typing import Final

from attrs import define, field, frozen

MAX_NAMES: Final = 200
"""How many plugins are told apart in one scope; further ones are counted together, since a caller may make up names."""

MAX_SCOPES: Final = 10_000
"""How many scopes are told apart; of a further one nothing is counted."""

OTHERS: Final = "…"
"""Under which name further plugins are counted."""

MAX_FAILURE_WORDS: Final = 300
"""How many characters are kept of what a plugin failed with last."""

_STEPS: Final = 8  # parts of a doubling, so that what is told is at most 9 % too much
_SHORTEST_MS: Final = 0.001
_CLASSES: Final = 30 * _STEPS  # up to 2**30 microseconds, which is 18 minutes
# Where each class ends, in seconds; the last one has no end. Looked up, which takes half as long as a logarithm.
_ENDS: Final = tuple([_SHORTEST_MS / 1000 * 2 ** (place / _STEPS) for place in range(_CLASSES)])


@define(eq=False)
class Durations:
    """How long something took, by classes of nearly equal length: a few hundred numbers, however often it happens.

    Attributes:
        classes: How many of them are in each class that has any.
    """

    count: int = 0
    classes: dict[int, int] = field(factory=dict)

    def note(self, seconds: float) -> None:
        """Take one more."""
        self.count += 1
        place, classes = bisect_left(_ENDS, seconds), self.classes
        try:
            classes[place] += 1
        except KeyError:
            classes[place] = 1

    def percentile_ms(self, share: float) -> float:
        """Say within how many milliseconds this share of them ended: the end of a class, so never too little; 0.0 without any."""
        left = math.ceil(self.count * share)
        for place in sorted(self.classes):
            left -= self.classes[place]
            if left <= 0:
                return float(_SHORTEST_MS * 2 ** (place / _STEPS))
        return 0.0


@frozen(kw_only=True)
class HookCount:
    """What is known of one hook of one plugin.

    Attributes:
        hook: Its name.
        calls: How often it was called.
        failures: How often it failed.
        p50_ms: Within how many milliseconds half of its calls ended; at most 9 % too much.
        p99_ms: Within how many all but the slowest of a hundred did.
    """

    hook: str
    calls: int
    failures: int
    p50_ms: float
    p99_ms: float


@frozen(kw_only=True)
class LastFailure:
    """What a plugin failed with last.

    Attributes:
        hook: In which hook.
        words: What it raised, one line, without secrets.
        at_ms: When, in milliseconds since 1970.
    """

    hook: str
    words: str
    at_ms: int


@define(eq=False)
class _Hook:
    failures: int = 0
    durations: Durations = field(factory=Durations)


@define(eq=False)
class PluginTally:
    """Counts of the plugins of one scope, by name: over all who have a plugin of that name."""

    _hooks: dict[str, dict[str, _Hook]] = field(factory=dict)
    _last: dict[str, LastFailure] = field(factory=dict)

    def note(self, plugin: str, hook: str, seconds: float) -> None:
        """Count a call, and how long it took."""
        try:
            one = self._hooks[plugin][hook]
        except KeyError:
            one = self._hook(plugin, hook)
        one.durations.note(seconds)

    def note_failure(self, plugin: str, hook: str, words: str, at_ms: int) -> None:
        """Count a failure; its call is counted by `note`, where there was one."""
        self._hook(plugin, hook).failures += 1
        name = plugin if plugin in self._hooks else OTHERS
        self._last[name] = LastFailure(hook=hook, words=words[:MAX_FAILURE_WORDS], at_ms=at_ms)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that were called or failed, in the order in which they first did."""
        return tuple(self._hooks)

    def hooks_of(self, plugin: str) -> tuple[HookCount, ...]:
        """Say what is known of the hooks of a plugin, in the order in which they were first called."""
        return tuple([
            HookCount(
                hook=name,
                calls=one.durations.count,
                failures=one.failures,
                p50_ms=one.durations.percentile_ms(0.5),
                p99_ms=one.durations.percentile_ms(0.99),
            )
            for name, one in self._hooks.get(plugin, {}).items()
        ])  # fmt: skip

    def last_failure_of(self, plugin: str) -> LastFailure | None:
        """Say what a plugin failed with last; None where it never did."""
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
"""Where nothing is counted: told apart by its identity."""


@define(eq=False)
class PluginTallies:
    """Counts of session plugins, by scope, so that none reads what others' sessions do."""

    _by_scope: dict[str, PluginTally] = field(factory=dict)

    def of(self, scope: str) -> PluginTally:
        """Give those of a scope, to count in and to read; `NO_TALLY` where there are too many scopes."""
        found = self._by_scope.get(scope)
        if found is None and len(self._by_scope) < MAX_SCOPES:
            found = self._by_scope[scope] = PluginTally()
        return NO_TALLY if found is None else found
