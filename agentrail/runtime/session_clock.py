"""The two clocks of the shell: the signal clock, with dates for users, and Trio's clock, for all waiting."""

import heapq
import math
from collections.abc import Callable, Hashable
from contextlib import suppress
from operator import methodcaller
from typing import Any, Final, Generic, Protocol, TypeVar

import trio
from attrs import define, field

from agentrail.actors.mailbox import NO_MESSAGE, Mailbox
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import TimerFired
from agentrail.errors import NoTrioRun
from agentrail.outside import Outside, current, jitter

K = TypeVar("K", bound=Hashable)
L = TypeVar("L")
L_contra = TypeVar("L_contra", contravariant=True)

MAX_IN_A_ROW: Final = 64
"""Messages handled before other tasks get a turn, so that a full mailbox cannot starve the process.

Not fewer: each turn lets all senders refill the mailbox, so a flooded session would need more turns to reach a stop
request.
"""

_SLACK: Final = 32
"""Withdrawn times that an alarm may hold in addition to as many as are set."""

_WALL_AT_ZERO: Final[trio.lowlevel.RunVar[dict[Outside, tuple[float, Callable[[], float]]]]] = (
    trio.lowlevel.RunVar("agentrail_wall_clock_at_trio_zero")
)
"""One entry per machine in this run: the nodes of a simulation have separate clocks. With the reading of Trio's clock, which
`trio.current_time` finds through three calls."""

_STORE_CLOCKS: Final[trio.lowlevel.RunVar[dict[Outside, "StoreClock"]]] = trio.lowlevel.RunVar(
    "agentrail_clocks_of_shared_stores"
)


@define(eq=False)
class StoreClock:
    """A shared store's clock as seen by this node, in seconds since 1970. It never goes back: while it is ahead, it runs at half speed."""

    _at_zero: float
    _told: float = field(init=False, default=-math.inf)
    _told_at: float = field(init=False, default=0.0)

    def set(self, earliest: float, latest: float, now: float) -> None:
        """Move the store's time at the zero of Trio's clock into these bounds, measured now. A late answer with wide bounds moves it little."""
        self._told, self._told_at = self.read(now), now
        self._at_zero = min(max(self._at_zero, earliest), latest)

    def read(self, trio_time: float) -> float:
        return max(self.read_told(trio_time), self._told + (trio_time - self._told_at) / 2)

    def read_told(self, trio_time: float) -> float:
        """Return the store's time as it was told last. It may go back."""
        return self._at_zero + trio_time


def follow_store(outside: Outside, told: float, sent_at: float) -> float:
    """Set the signal clock of a machine to follow a shared store, which was asked and has answered now.

    Args:
        outside: The machine.
        told: Time of the store's clock between question and answer, in seconds since 1970.
        sent_at: Time of Trio's clock at the question.

    Returns:
        Time of the store's clock now.
    """
    now = trio.current_time()
    try:
        clocks = _STORE_CLOCKS.get()
    except LookupError:
        clocks = {}
        _STORE_CLOCKS.set(clocks)
    if outside in clocks:
        clocks[outside].set(told - now, told - sent_at, now)
    else:
        clocks[outside] = StoreClock(told - (sent_at + now) / 2)
        with suppress(LookupError):
            del _WALL_AT_ZERO.get()[outside]
    return clocks[outside].read_told(now)


def now_ms() -> int:
    """Return the time of the signal clock, in milliseconds since 1970."""
    try:
        wall_at_zero, read = _WALL_AT_ZERO.get()[current()]
    except LookupError:
        return ms_of(trio.current_time())
    except RuntimeError:
        raise NoTrioRun from None
    return int((wall_at_zero + read()) * 1000)


def store_now_ms() -> int:
    """Return the time of a shared store as it was told last, which may go back, in milliseconds since 1970. Without one, the time of the signal clock."""
    try:
        clock = _STORE_CLOCKS.get()[current()]
    except LookupError:
        return now_ms()
    return int(clock.read_told(trio.current_time()) * 1000)


def ms_of(trio_time: float) -> int:
    outside = current()
    try:
        wall_at_zero, _ = _WALL_AT_ZERO.get()[outside]
    except LookupError:
        with suppress(LookupError):
            return int(_STORE_CLOCKS.get()[outside].read(trio_time) * 1000)
        wall_at_zero = outside.wall() - trio.current_time()
        _put_wall_at_zero(outside, wall_at_zero)
    return int((wall_at_zero + trio_time) * 1000)


def set_now_ms(at_ms: int) -> None:
    """Set the signal clock for the rest of this Trio run. For tests that need repeatable dates."""
    _put_wall_at_zero(current(), at_ms / 1000 - trio.current_time())


def _put_wall_at_zero(outside: Outside, seconds: float) -> None:
    try:
        known = _WALL_AT_ZERO.get()
    except LookupError:
        known = {}
        _WALL_AT_ZERO.set(known)
    known[outside] = seconds, trio.lowlevel.current_clock().current_time


@define(eq=False)
class Alarm(Generic[K]):
    """One task for the times of many keys, such as mailboxes: a cancel scope for each wait would cost several times as much."""

    _ring: Callable[[K], object] = methodcaller("wake")
    _due: dict[K, tuple[float, int, K]] = field(init=False, factory=dict)
    # Also those that were replaced or withdrawn.
    _heap: list[tuple[float, int, K]] = field(init=False, factory=list)
    _number: int = field(init=False, default=0)
    _sleep: trio.CancelScope = field(init=False, factory=trio.CancelScope)

    def wake_at(self, key: K, at_seconds: float) -> None:
        """Ring for a key at this time of Trio's clock, unless that is set for earlier. Infinity: no longer."""
        due = self._due
        if at_seconds == math.inf:
            due.pop(key, None)
        elif key not in due or at_seconds < due[key][0]:
            self._number += 1
            due[key] = entry = (at_seconds, self._number, key)
            heapq.heappush(self._heap, entry)
            if at_seconds < self._sleep.deadline:  # noqa: PLR1730 - setting it costs as much as half a scope
                self._sleep.deadline = at_seconds
        if len(self._heap) > 2 * len(due) + _SLACK:
            self._heap = sorted(due.values())

    async def run(self) -> None:
        """Run until cancelled. Times that were set before are kept."""
        while True:
            while self._heap and self._due.get(self._heap[0][2]) is not self._heap[0]:
                heapq.heappop(self._heap)
            until = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=until) as self._sleep:
                await trio.sleep_forever()
            in_a_row = 0
            while self._heap and self._heap[0][0] <= trio.current_time():
                entry = heapq.heappop(self._heap)
                if self._due.get(entry[2]) is entry:
                    del self._due[entry[2]]
                    self._ring(entry[2])
                    in_a_row += 1
                    if in_a_row == MAX_IN_A_ROW:
                        in_a_row = 0
                        await trio.lowlevel.checkpoint()


# Shared by all sessions without timers, and never written to: an empty or emptied dict per session would add up in ten
# thousand idle ones.
_NO_DEADLINES: Final[dict[EffectId, float]] = {}


class _Actor(Protocol[L_contra]):
    @property
    def is_idle(self) -> bool: ...

    def handle(self, item: L_contra | TimerFired, /) -> bool: ...


@define(eq=False)
class SessionTimers:
    """The timers of one session: deadlines checked by its loop, without tasks."""

    _deadlines: dict[EffectId, float] = field(init=False, default=_NO_DEADLINES)
    # Of some: its stream, or what to call in place of a signal. Created with the first one.
    _watched: dict[EffectId, object] | None = field(init=False, default=None)

    def set(self, effect_id: EffectId, at_ms: int) -> None:
        """Set a timer on the signal clock. A time in the past fires immediately."""
        now = trio.current_time()
        if not self._deadlines:
            self._deadlines = {}
        self._deadlines[effect_id] = now + max(at_ms - ms_of(now), 0) / 1000

    def watch(self, effect_id: EffectId, watched: object) -> None:
        if self._watched is None:
            self._watched = {}
        self._watched[effect_id] = watched

    def cancel(self, effect_id: EffectId) -> None:
        self._deadlines.pop(effect_id, None)
        if self._watched is not None:
            self._watched.pop(effect_id, None)
        if not self._deadlines:
            self._deadlines = _NO_DEADLINES
            self._watched = self._watched or None

    async def serve(self, mailbox: Mailbox[L], served: _Actor[L], alarm: Alarm[Mailbox[Any]]) -> None:
        """Pass each message and each due timer to an actor until it returns False. The alarm wakes the mailbox.

        Due timers come first: a message sent after the deadline is later.

        Cancellation: Nothing is lost. An unhandled message stays in the mailbox, and a timer stays set. A checkpoint
            whenever there is nothing to handle, and after 64 items in a row, so that other tasks get a turn.
        """
        actor: _Actor[Any] = served  # a `cast` would cost a call per message
        in_a_row = 0
        try:
            while True:
                item = self._take_due() if self._deadlines else NO_MESSAGE
                if item is NO_MESSAGE:
                    item = mailbox.take_nowait()
                if item is NO_MESSAGE:
                    if self._deadlines or actor.is_idle:  # between two of them the next is near, and later
                        alarm.wake_at(mailbox, min(self._deadlines.values(), default=math.inf))
                    await mailbox.wait()
                    in_a_row = 0
                    continue
                if not actor.handle(item):
                    return
                in_a_row += 1
                if in_a_row == MAX_IN_A_ROW:
                    in_a_row = 0
                    await trio.lowlevel.checkpoint()
        finally:
            alarm.wake_at(mailbox, math.inf)

    def _take_due(self) -> object:
        effect_id = min(self._deadlines, key=self._deadlines.__getitem__)
        if self._deadlines[effect_id] > trio.current_time():
            return NO_MESSAGE
        del self._deadlines[effect_id]
        watched = None if self._watched is None else self._watched.get(effect_id)
        if callable(watched):
            watched()
            return NO_MESSAGE
        pinged_at = getattr(watched, "pinged_at", None)
        return TimerFired(
            at_ms=now_ms(),
            effect_id=effect_id,
            jitter=jitter(),
            pinged_at_ms=ms_of(pinged_at) if isinstance(pinged_at, float) else 0,
        )
