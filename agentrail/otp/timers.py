"""The running timers of one machine, as a value. No clock and no order in here: when one is due is for the shell to watch.

Neither a key nor a timer is seen by the cyclic garbage collector, which would else walk a hundred thousand of each over
and over: two thirds of what setting them costs. A name or a content that leads back to its machine keeps that alive
only as long as the timer runs, or the machine: the cell of an actor lets go of its machine at the end.
"""

from collections.abc import Hashable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from agentrail.otp.tables import NO_ENTRIES, Index

TimerKind: TypeAlias = Literal["event", "state", "named"]


class TimerKey(Struct, frozen=True, gc=False):
    """Which timer of a machine: the one event timer, the one state timer, or one of the named.

    Attributes:
        name: Of a named timer its name, else `None`.
    """

    kind: TimerKind
    name: Hashable = None


class Timer(Struct, frozen=True, gc=False):
    """One timer that runs.

    Attributes:
        epoch: The number of this arming, which no other arming of this machine has.
        due_seconds: When it fires, on the clock of `now`.
    """

    epoch: int
    due_seconds: float
    content: object


EVENT_TIMER: Final = TimerKey("event")
STATE_TIMER: Final = TimerKey("state")

TimerIndex: TypeAlias = Index[TimerKey, Timer]
NO_TIMERS: Final[TimerIndex] = NO_ENTRIES
