"""The two clocks of the shell: that of signals, which people read, and Trio's, by which everything waits."""

import math
from typing import Any, Final, Protocol, TypeVar

import trio

from agentrail.actors.mailbox import NO_MESSAGE, Mailbox
from agentrail.core.protocol.request import EffectId
from agentrail.core.protocol.signals import TimerFired
from agentrail.errors import NoTrioRun
from agentrail.outside import Outside, current, jitter

L = TypeVar("L")
L_contra = TypeVar("L_contra", contravariant=True)

MAX_IN_A_ROW: Final = 64
"""How many messages are handled before others get a turn, so that a full mailbox cannot starve the process. Not fewer: each turn
is one of all who keep it full, so a besieged session would need as many more of them until it reads that it is to stop."""

_WALL_AT_ZERO: Final[trio.lowlevel.RunVar[dict[Outside, float]]] = trio.lowlevel.RunVar(
    "agentrail_wall_clock_at_trio_zero"
)
"""Of each that stands for a machine in this run: nodes of one simulation have clocks of their own."""


def now_ms() -> int:
    """Read the clock of signals: milliseconds since 1970.

    It is Trio's clock with the date put in front: it never goes back, and a test with virtual time has virtual dates.
    """
    try:
        return ms_of(trio.current_time())
    except RuntimeError:
        raise NoTrioRun from None


def ms_of(trio_time: float) -> int:
    """Give the date of a time on Trio's clock, in milliseconds since 1970."""
    outside = current()
    try:
        wall_at_zero = _WALL_AT_ZERO.get()[outside]
    except LookupError:
        wall_at_zero = outside.wall() - trio.current_time()
        _put_wall_at_zero(outside, wall_at_zero)
    return int((wall_at_zero + trio_time) * 1000)


def set_now_ms(at_ms: int) -> None:
    """Say what the clock of signals shows now, for the rest of this Trio run; for tests whose dates have to repeat."""
    _put_wall_at_zero(current(), at_ms / 1000 - trio.current_time())


def _put_wall_at_zero(outside: Outside, seconds: float) -> None:
    try:
        known = _WALL_AT_ZERO.get()
    except LookupError:
        known = {}
        _WALL_AT_ZERO.set(known)
    known[outside] = seconds


# One for all sessions that have none, and never written to: an empty table of its own, or one that was emptied, would weigh in
# ten thousand idle ones.
_NO_DEADLINES: Final[dict[EffectId, float]] = {}


class _Actor(Protocol[L_contra]):
    """Who is given messages and timers. An object, and no two functions of it: ten thousand idle sessions would have two objects more."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is at work, so that the next message may be long in coming."""
        ...

    def handle(self, item: L_contra | TimerFired, /) -> bool:
        """Take what came; False when that was the last."""
        ...


class SessionTimers:
    """The timers of one session: deadlines that its loop looks at, and no tasks."""

    __slots__ = ("_deadlines", "_streams")

    def __init__(self) -> None:
        """Begin with none."""
        self._deadlines = _NO_DEADLINES
        self._streams: dict[EffectId, object] | None = None  # made for the first one: idle sessions have none

    def set(self, effect_id: EffectId, at_ms: int) -> None:
        """Set a timer on the clock of signals; one whose time has passed fires at once."""
        now = trio.current_time()
        if not self._deadlines:
            self._deadlines = {}
        self._deadlines[effect_id] = now + max(at_ms - ms_of(now), 0) / 1000

    def watch(self, effect_id: EffectId, stream: object) -> None:
        """Let a timer bring along when a stream last gave a sign of life that is no chunk, until it is cancelled."""
        if self._streams is None:
            self._streams = {}
        self._streams[effect_id] = stream

    def cancel(self, effect_id: EffectId) -> None:
        """Forget a timer; fine if it has fired."""
        self._deadlines.pop(effect_id, None)
        if self._streams is not None:
            self._streams.pop(effect_id, None)
        if not self._deadlines:
            self._deadlines = _NO_DEADLINES
            self._streams = self._streams or None

    async def serve(self, mailbox: Mailbox[L], served: _Actor[L]) -> None:
        """Give each message to an actor, and each timer, which is one too, until it says that this was the last one.

        Timers that are due come first: what was sent after that time came later.

        Cancellation: Nothing is lost: a message that was not handled stays where it is, and a timer set. A checkpoint
            whenever there is nothing to handle, and after sixty-four in a row, so that others have their turn.
        """
        actor: _Actor[Any] = served  # a `cast` would be a call, for each message
        in_a_row = 0
        while True:
            if self._deadlines:
                in_a_row = 0
                if not await self._serve_at_work(mailbox, actor):
                    return
            item = mailbox.take_nowait()
            if item is NO_MESSAGE:
                await mailbox.wait()
                in_a_row = 0
                continue
            if not actor.handle(item):
                return
            in_a_row += 1
            if in_a_row == MAX_IN_A_ROW:
                in_a_row = 0
                await trio.lowlevel.checkpoint()

    async def _serve_at_work(self, mailbox: Mailbox[Any], actor: _Actor[Any]) -> bool:
        """Serve until the actor wants no more: False; or until nothing is at work: True.

        One scope for all that time, and not one for each wait: of a stream of a thousand deltas that would be a thousand. It
        is left when a timer is due, or with nothing more to wait for. And a frame of its own, which an idle session has not.

        Its deadline is only ever made earlier, because Trio takes long to change one: where the timer that it stood for was
        cancelled, or set anew, it wakes the session once in vain.
        """
        in_a_row = 0
        # Given at once: to set it later takes half as long as the scope itself.
        until = min(self._deadlines.values(), default=math.inf)
        while True:
            with trio.CancelScope(deadline=until) as scope:
                while True:
                    item = self._take_due() if self._deadlines else NO_MESSAGE
                    if item is NO_MESSAGE:
                        item = mailbox.take_nowait()
                    if item is NO_MESSAGE:
                        if not self._deadlines and actor.is_idle:
                            return True
                        due_at = min(self._deadlines.values(), default=math.inf)
                        if due_at < until:
                            until = scope.deadline = due_at
                        await mailbox.wait()
                        in_a_row = 0
                        continue
                    if not actor.handle(item):
                        return False
                    in_a_row += 1
                    if in_a_row == MAX_IN_A_ROW:
                        in_a_row = 0
                        await trio.lowlevel.checkpoint()
            until = math.inf  # a timer is due, which is taken first

    def _take_due(self) -> object:
        effect_id = min(self._deadlines, key=self._deadlines.__getitem__)
        if self._deadlines[effect_id] > trio.current_time():
            return NO_MESSAGE
        del self._deadlines[effect_id]
        return TimerFired(
            at_ms=now_ms(),
            effect_id=effect_id,
            jitter=jitter(),
            pinged_at_ms=_pinged_at_ms((self._streams or {}).get(effect_id)),
        )


def _pinged_at_ms(stream: object) -> int:
    pinged_at = getattr(stream, "pinged_at", None)
    return ms_of(pinged_at) if isinstance(pinged_at, float) else 0
