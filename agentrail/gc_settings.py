"""Tuning of the cyclic garbage collector for processes with many sessions, on request only.

CPython scans live objects whenever allocations exceed deallocations by a threshold. With ten thousand sessions these scans take most of the CPU and free next
to nothing.

    import trio
    from agentrail.gc_settings import many_sessions

    many_sessions()  # once, when all is imported and set up, before `trio.run`

The commands of `agentrail` call this module. The library does not.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, TypeAlias

from attrs import frozen

Thresholds: TypeAlias = tuple[int, int, int]

THRESHOLDS: Final[Thresholds] = (10_000, 100, 50)
"""Allocations before a scan of the youngest generation, such scans before one of the next generation, and those before
a full scan. CPython 3.11 has 700, 10 and 10. Scans of 50,000 took 3 % less of the CPU, and held the loop five times as long.
"""

SHORT_LOOK: Final = 5_000
"""Allocations before a scan of the youngest generation when no pause may be noticeable: scanning this many takes a millisecond."""

_FROZEN_AT_START: Final = 1_000
"""More objects than CPython freezes itself at start: 375 in 3.12.1, none in 3.11 and 3.13. `gc.freeze()` in a program
without imports freezes five thousand.
"""


@frozen(kw_only=True)
class CollectorState:
    """Settings of the collector of this process.

    Attributes:
        is_enabled: Whether it runs automatically.
        thresholds: Thresholds of the three generations, as returned by `gc.get_threshold()`.
        frozen: Number of objects that it never scans, as returned by `gc.get_freeze_count()`.
    """

    is_enabled: bool
    thresholds: Thresholds
    frozen: int


class CollectorChange:
    """The change made by `many_sessions()`, and its undo. As a context manager it undoes the change.

    Attributes:
        before: Settings before the change.
        after: Settings after it. Equal to `before` if nothing changed.
    """

    __slots__ = ("_is_undone", "after", "before")

    def __init__(self, before: CollectorState, after: CollectorState) -> None:
        self.before: Final = before
        self.after: Final = after
        self._is_undone = False

    def undo(self) -> None:
        """Restore the collector's settings. Idempotent.

        Thresholds set since are left alone. If the call froze objects, all frozen ones are scanned again.
        """
        if self._is_undone:
            return
        self._is_undone = True
        if gc.get_threshold() == self.after.thresholds:
            gc.set_threshold(*self.before.thresholds)
        if not _is_frozen(self.before) and _is_frozen(self.after):
            gc.unfreeze()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()


def collector_state() -> CollectorState:
    """Return the collector's settings."""
    return CollectorState(
        is_enabled=gc.isenabled(), thresholds=gc.get_threshold(), frozen=gc.get_freeze_count()
    )


def many_sessions(*, collect: bool = True) -> CollectorChange:
    """Configure the collector of this process for many long-lived objects, and exclude the current objects from its scans.

    Raises the thresholds to `THRESHOLDS`, runs one full collection, and freezes the remaining objects. Call it once after imports and setup, before `trio.run`
    or the first session.

    The cost is memory: garbage is freed later. Reference cycles wait until 10,000 objects more were allocated than freed, those that survived two scans until
    millions were. So do unclosed files and sockets in them. Frozen objects are freed by their reference counts, cycles among them never before `undo`. The
    collection blocks the thread: about 50 ms per hundred thousand objects.

    Args:
        collect: Whether garbage is freed before the rest is frozen. False if the program has only imported modules so far.

    Returns:
        The change, with `undo()`, also a context manager. A second call, and its `undo`, change nothing. Thresholds are never lowered. A collector that is off,
        by `gc.disable()` or a threshold of 0, stays off. If objects are already frozen, no more are.

    Threads: The collector belongs to the process, so the change applies to all threads and all their Trio runs. Any thread may
        call it. Two concurrent calls set the same. Let one of them keep the result.

    Cancellation: Not a checkpoint. Source: docs/how-to/run-many-sessions.md
    """
    before = collector_state()
    raised = _raised(before.thresholds)
    if raised != before.thresholds:
        gc.set_threshold(*raised)
    if not _is_frozen(before):
        if collect:
            gc.collect()
        gc.freeze()
    return CollectorChange(before, collector_state())


def _is_frozen(state: CollectorState) -> bool:
    return state.frozen > _FROZEN_AT_START


def _raised(thresholds: Thresholds) -> Thresholds:
    youngest, middle, oldest = thresholds
    if youngest == 0:  # the collector is off
        return thresholds
    return max(youngest, THRESHOLDS[0]), max(middle, THRESHOLDS[1]), max(oldest, THRESHOLDS[2])


@contextmanager
def no_looks() -> Iterator[None]:
    """Pause the collector for a block of imports, of which scans take a quarter. One that was off stays off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def rare_looks() -> None:
    """Raise the thresholds of a command. It imports most modules while it runs, and scans took a tenth of its start."""
    gc.set_threshold(*_raised(gc.get_threshold()))


def no_last_look() -> None:
    """Skip the scan with which the interpreter shuts down: 0.3 s with the libraries of MCP, and seconds under load."""
    gc.freeze()


@contextmanager
def short_looks() -> Iterator[None]:
    """Run the collector often, with few objects each time, while a user waits for each key.

    prompt_toolkit leaves about three thousand objects in cycles per drawing, and rarer scans stop all threads for ten milliseconds. A collector that is off
    stays off. The block's end restores the thresholds.
    """
    before = gc.get_threshold()
    if before[0]:  # otherwise it is off
        gc.set_threshold(SHORT_LOOK, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
