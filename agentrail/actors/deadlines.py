"""The timers of one loop: deadlines that the loop itself waits for, without tasks."""

import heapq
import math
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import trio
from attrs import define, field

from agentrail.actors.mailbox import NO_MESSAGE, Mailbox
from agentrail.otp.statem import TimerDue, TimerKey

K = TypeVar("K", bound=Hashable)

_SLACK: Final = 32


@define(eq=False, weakref_slot=False)
class Deadlines(Generic[K]):
    _heap: list[tuple[float, int, K]] = field(init=False, factory=list)
    _due: dict[K, tuple[float, int]] = field(init=False, factory=dict)
    _number: int = field(init=False, default=0)

    def __len__(self) -> int:
        return len(self._due)

    def arm(self, key: K, at_seconds: float) -> None:
        self._number += 1
        self._due[key] = (at_seconds, self._number)
        heapq.heappush(self._heap, (at_seconds, self._number, key))
        self._sweep()

    def disarm(self, key: K) -> None:
        if self._due.pop(key, None) is not None:
            self._sweep()

    def next_seconds(self) -> float:
        heap = self._heap
        while heap:
            at_seconds, number, key = heap[0]
            if self._due.get(key) == (at_seconds, number):
                return at_seconds
            heapq.heappop(heap)
        return math.inf

    def take_due(self, now: float) -> K | None:
        if not self._due or self.next_seconds() > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        return key

    def _sweep(self) -> None:
        if len(self._heap) > 2 * len(self._due) + _SLACK or not self._due:
            self._heap = [(at_seconds, number, key) for key, (at_seconds, number) in self._due.items()]
            heapq.heapify(self._heap)


@define(eq=False, weakref_slot=False)
class Due(Generic[K]):
    key: K


async def take_next(mailbox: Mailbox[object], deadlines: Deadlines[K]) -> object:
    """Take the next message of a loop, or `Due` for a passed deadline. Deadlines come first.

    Cancellation: Always a checkpoint for cancellation. If cancelled, no message was taken.
    """
    await mailbox.give_way()
    while True:
        is_timed = bool(deadlines) and not mailbox.is_held
        if is_timed:
            key = deadlines.take_due(trio.current_time())
            if key is not None:
                return Due(key)
        item = mailbox.take_nowait()
        if item is not NO_MESSAGE:
            return item
        if is_timed:
            with trio.CancelScope(deadline=deadlines.next_seconds()):
                await mailbox.wait()
        else:
            await mailbox.wait()


class MachineTimers:
    """The timers of one machine. A due timer is put into its mailbox, after the messages that arrived before it was due."""

    __slots__ = ("_deadlines", "_epochs", "_mailbox", "is_suspended")

    def __init__(self, mailbox: Mailbox[object]) -> None:
        self._deadlines: Deadlines[TimerKey] = Deadlines()
        self._epochs: dict[TimerKey, int] = {}
        self._mailbox = mailbox
        self.is_suspended: bool = False
        mailbox.run_by(self)

    def arm(self, key: TimerKey, epoch: int, due_seconds: float) -> None:
        self._epochs[key] = epoch
        self._deadlines.arm(key, due_seconds)

    def disarm(self, key: TimerKey) -> None:
        """Remove the deadline of this key. A fired timer in the mailbox then has an outdated epoch and is ignored."""
        self._epochs.pop(key, None)
        self._deadlines.disarm(key)

    def next_seconds(self) -> float:
        """Return the time of the next deadline. Infinity if there is none or the machine is suspended."""
        return math.inf if self.is_suspended else self._deadlines.next_seconds()

    def collect(self) -> None:
        if self._deadlines and not self.is_suspended:
            for fired in self._take_due():
                self._mailbox.put_timer(fired)

    def resume(self) -> None:
        self.is_suspended = False
        self._mailbox.put_timers_first(self._take_due())

    def _take_due(self) -> list[TimerDue]:
        now = trio.current_time()
        due: list[TimerDue] = []
        while (key := self._deadlines.take_due(now)) is not None:
            due.append(TimerDue(key, self._epochs.pop(key)))
        return due


async def take_in_turn(
    mailbox: Mailbox[object], timers: MachineTimers | None, *, suspended: bool = False
) -> object:
    await mailbox.give_way()
    while True:
        item = mailbox.take_nowait(control_only=suspended)
        if item is not NO_MESSAGE:
            return item
        due_seconds = math.inf if timers is None or mailbox.is_held else timers.next_seconds()
        if timers is None or due_seconds == math.inf:
            await mailbox.wait(control_only=suspended)
        else:  # also for a timer that is due already: other tasks get their turn, however busy the machine is
            with trio.CancelScope(deadline=due_seconds):
                await mailbox.wait()
            timers.collect()
