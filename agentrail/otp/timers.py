"""Running timers of one machine, as a value. There is no clock or ordering here: the shell watches the due times.

Keys and timers are not tracked by the garbage collector. Walking a hundred thousand of each again and again
would be two thirds of the cost of setting them. A name or content that refers back to its machine keeps it
alive only while the timer or the machine runs: the cell of an actor releases its machine at the end.
"""

from collections.abc import Hashable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from agentrail.otp.persistent_maps import NO_ENTRIES, Index

TimerKind: TypeAlias = Literal["event", "state", "named"]


class TimerKey(Struct, frozen=True, gc=False):
    """Identity of a timer: the one event timer, the one state timer, or a named timer.

    Attributes:
        name: Name of a named timer, otherwise `None`.
    """

    kind: TimerKind
    name: Hashable = None


class Timer(Struct, frozen=True, gc=False):
    """One running timer.

    Attributes:
        epoch: Number of this arming, unique within the machine.
    """

    epoch: int
    due_seconds: float
    content: object


EVENT_TIMER: Final = TimerKey("event")
STATE_TIMER: Final = TimerKey("state")

TimerIndex: TypeAlias = Index[TimerKey, Timer]
NO_TIMERS: Final[TimerIndex] = NO_ENTRIES
