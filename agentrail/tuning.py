"""The cyclic garbage collector of a process that holds many sessions: set on request, never by itself.

CPython looks for reference cycles whenever so many objects were made more than were freed, and it looks through all that
lives. Its thresholds suit programs of few objects: with ten thousand sessions most of the CPU is these looks, and next to
nothing is found, for what a session drops is freed by its reference count.

    import trio
    from agentrail.tuning import many_sessions

    many_sessions()  # once, when all is imported and set up, before `trio.run`

Nothing else of this library touches the collector: it belongs to the program. The commands of `agentrail` are programs, and
ask.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, TypeAlias

from attrs import frozen

Thresholds: TypeAlias = tuple[int, int, int]

THRESHOLDS: Final[Thresholds] = (50_000, 20, 50)
"""How many objects are made before the youngest are looked through; how many such looks before the next generation is;
how many of those before all are. CPython 3.11 has 700, 10 and 10."""

SHORT_LOOK: Final = 5_000
"""How many objects are made before the youngest are looked through, where no look may be felt: so many take a millisecond."""

_FROZEN_AT_START: Final = 1_000
"""More than what CPython has frozen of its own when it starts: 375 objects in 3.12.1, none in 3.11 and 3.13. `gc.freeze()` in a program
that has imported nothing freezes five thousand."""


@frozen(kw_only=True)
class CollectorState:
    """How the collector of this process is set.

    Attributes:
        is_enabled: Whether it runs by itself.
        thresholds: Of the three generations, as `gc.get_threshold()` has them.
        frozen: How many objects it never looks at, as `gc.get_freeze_count()` has them.
    """

    is_enabled: bool
    thresholds: Thresholds
    frozen: int


class CollectorChange:
    """What `many_sessions()` changed, and the way back; as a context manager it goes back by itself.

    Attributes:
        before: How the collector was set.
        after: How it was set then. Equal to `before` when there was nothing to change.
    """

    __slots__ = ("_is_undone", "after", "before")

    def __init__(self, before: CollectorState, after: CollectorState) -> None:
        self.before: Final = before
        self.after: Final = after
        self._is_undone = False

    def undo(self) -> None:
        """Set the collector as it was; the second time, nothing.

        Thresholds that were set since are left alone. Whatever is frozen is looked through again, if the call froze.
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
    """Say how the collector of this process is set."""
    return CollectorState(
        is_enabled=gc.isenabled(), thresholds=gc.get_threshold(), frozen=gc.get_freeze_count()
    )


def many_sessions(*, collect: bool = True) -> CollectorChange:
    """Set the collector of this process for many objects that live long, and keep it from looking at those that are there.

    Raises the thresholds to `THRESHOLDS`, looks through everything once, and freezes what is left. Call it once, when the
    program has imported and set up what it keeps, before `trio.run` or before the first session.

    What it costs: memory, and time until things are gone. Reference cycles, such as those of an exception that holds its own
    frames, wait until 50,000 objects more were made than freed, and those that survived two looks until millions were; so do
    the unclosed files and sockets in them. What is frozen is freed by its reference count as ever, but cycles among
    it stay until the end of the process, or until `undo`. The one look at everything holds the thread: about 50 ms for each
    hundred thousand objects.

    Args:
        collect: Whether what is garbage now is freed before the rest is frozen. False spares that look, where nothing was done
            yet but importing.

    Returns:
        What was changed, with `undo()`; a context manager too. A second call finds nothing to change, and its `undo` changes
        nothing: the first one's does. Thresholds are raised and never lowered; a collector that is off, by `gc.disable()` or a
        threshold of 0, stays off; where the program has frozen something already, nothing is added.

    Threads: The collector belongs to the process, so this is for all threads and all of its Trio runs, and may be called from
        any thread. Two that call at once set the same; let one of them keep the result.

    Cancellation: Not a checkpoint.
    Source: docs/how-to/run-many-sessions.md
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
    """Let the collector of this process rest for a block that imports: what is imported stays, and looking for garbage in it is a quarter of the time.

    One that was off stays off. What is garbage is found by the first look behind the block.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def short_looks() -> Iterator[None]:
    """Let the collector of this process look often, and each time at few objects, for a block in which a person waits for each key.

    prompt_toolkit leaves some three thousand objects in cycles each time that it draws: looking through fifty thousand of them, three
    times a second, stops all threads for ten milliseconds. A collector that is off stays off; thresholds are as before behind the block.
    """
    before = gc.get_threshold()
    if before[0]:  # else it is off
        gc.set_threshold(SHORT_LOOK, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
