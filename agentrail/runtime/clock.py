"""The two clocks of the shell: that of signals, which people read, and Trio's, by which everything waits."""

import random
import time
from typing import Final, TypeVar, cast

import trio

from agentrail.actors.mailbox import Mailbox
from agentrail.core.request import EffectId
from agentrail.core.signals import TimerFired

L = TypeVar("L")

_WALL_AT_ZERO: Final[trio.lowlevel.RunVar[float]] = trio.lowlevel.RunVar("agentrail_wall_clock_at_trio_zero")


def now_ms() -> int:
    """Read the clock of signals: milliseconds since 1970.

    It is Trio's clock with the date put in front: it never goes back, and a test with virtual time has virtual dates.
    """
    return ms_of(trio.current_time())


def ms_of(trio_time: float) -> int:
    """Give the date of a time on Trio's clock, in milliseconds since 1970."""
    try:
        wall_at_zero = _WALL_AT_ZERO.get()
    except LookupError:
        wall_at_zero = time.time() - trio.current_time()
        _WALL_AT_ZERO.set(wall_at_zero)
    return int((wall_at_zero + trio_time) * 1000)


def set_now_ms(at_ms: int) -> None:
    """Say what the clock of signals shows now, for the rest of this Trio run; for tests whose dates have to repeat."""
    _WALL_AT_ZERO.set(at_ms / 1000 - trio.current_time())


def jitter() -> float:
    """Draw the random number that a failure brings along, so that the core need not."""
    return random.random()  # noqa: S311 - spreads retries over time; no secret


class Timers:
    """The timers of one session: deadlines that its loop looks at, and no tasks."""

    def __init__(self) -> None:
        """Begin with none."""
        self._deadlines: dict[EffectId, float] = {}
        self._streams: dict[EffectId, object] = {}

    def set(self, effect_id: EffectId, at_ms: int) -> None:
        """Set a timer on the clock of signals; one whose time has passed fires at once."""
        self._deadlines[effect_id] = trio.current_time() + max(at_ms - now_ms(), 0) / 1000

    def watch(self, effect_id: EffectId, stream: object) -> None:
        """Let a timer bring along when a stream last gave a sign of life that is no chunk, until it is cancelled.

        Args:
            effect_id: Of the timer, set or not.
            stream: What a provider gave; one without `pinged_at` gives no signs.
        """
        self._streams[effect_id] = stream

    def cancel(self, effect_id: EffectId) -> None:
        """Forget a timer; fine if it has fired."""
        self._deadlines.pop(effect_id, None)
        self._streams.pop(effect_id, None)

    async def next_letter(self, mailbox: Mailbox[L]) -> L | TimerFired:
        """Wait for the next message, or for the next timer, which is one too.

        Timers that are due come first: whoever sent after that time came later.

        Cancellation: Nothing is lost: the message stays where it is, and the timer set.
        """
        while self._deadlines:
            effect_id, deadline = min(self._deadlines.items(), key=lambda timer: timer[1])
            if deadline > trio.current_time():
                with trio.CancelScope(deadline=deadline):
                    return cast("L", await mailbox.get())
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
            # The stream that it belonged to may have ended, and taken it along, while this waited.
            if self._deadlines.pop(effect_id, None) is not None:
                pinged_at_ms = _pinged_at_ms(self._streams.get(effect_id))
                return TimerFired(
                    at_ms=now_ms(), effect_id=effect_id, jitter=jitter(), pinged_at_ms=pinged_at_ms
                )
        return cast("L", await mailbox.get())


def _pinged_at_ms(stream: object) -> int:
    pinged_at = getattr(stream, "pinged_at", None)
    return ms_of(pinged_at) if isinstance(pinged_at, float) else 0
