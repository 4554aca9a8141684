"""`no_lost_items()`: every item that a mailbox accepted is handled, or still there, or was given up in a way that is told.

    with no_lost_items() as watch:
        trio.run(main, clock=FakeClock())
    assert watch.handled > 100

Actors take an item from their mailbox and handle it in the same turn of the loop. Where something can come between the two (a
deadline, a cancellation), an item is gone and all else goes on: no reply is missing where none was owed, and no promise of
one session tells. So it is counted: what goes in, against what reaches the code that acts on it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from agentrail.actors import machine_loop, supervising
from agentrail.actors.mailbox import Mailbox
from agentrail.runtime.session import SessionCell
from agentrail.testing.seams import Seam, wrapped

_MAX_SHOWN: Final = 200
_MAX_FAULTS: Final = 20


class Lost(AssertionError):
    """Items that mailboxes accepted, and that nothing ever handled."""


class ItemWatch:
    """What became of the items of all mailboxes.

    Attributes:
        accepted: How many went in.
        handled: How many reached the code that acts on them.
        given_up: How many were thrown away in a way that is told: the mailbox was closed, drained, or too full.
    """

    def __init__(self) -> None:
        self.accepted: int = 0
        self.handled: int = 0
        self.given_up: int = 0
        # By what it is and not by what it equals: two that are equal are two. Oldest first, so the one that is handled is near.
        self._open: dict[int, list[object]] = {}
        self._mailboxes: dict[int, Mailbox[Any]] = {}

    def put(self, mailbox: Mailbox[Any], item: object) -> None:
        """Note that a mailbox accepted an item."""
        self._mailboxes[id(mailbox)] = mailbox
        self._open.setdefault(id(mailbox), []).append(item)
        self.accepted += 1

    def handle(self, mailbox: Mailbox[Any], item: object) -> None:
        """Note that an item has reached the code that acts on it."""
        if self._close(mailbox, item):
            self.handled += 1

    def give_up(self, mailbox: Mailbox[Any], item: object) -> None:
        """Note that a mailbox threw an item away."""
        if self._close(mailbox, item):
            self.given_up += 1

    def _close(self, mailbox: Mailbox[Any], item: object) -> bool:
        open_items = self._open.get(id(mailbox), [])
        for place, known in enumerate(open_items):
            if known is item:
                del open_items[place]
                return True
        return False  # put before the watch began

    def lost(self) -> tuple[str, ...]:
        """Say which items are neither handled nor given up nor in their mailbox any more."""
        return tuple(
            f"{type(item).__name__} in the mailbox of {_owner_of(mailbox)}: {repr(item)[:_MAX_SHOWN]}"
            for number, mailbox in self._mailboxes.items()
            for item in _missing(self._open[number], _waiting_in(mailbox))
        )

    def stuck(self) -> tuple[str, ...]:
        """Say of which mailboxes the reader sleeps although there is something to take."""
        return tuple(
            f"{len(_waiting_in(mailbox))} items wait in the mailbox of {_owner_of(mailbox)}, whose reader was not woken"
            for mailbox in self._mailboxes.values()
            if mailbox._reader is not None and mailbox.has_mail(control_only=mailbox._control_only)  # noqa: SLF001 - its own test kit
        )


def _missing(accepted: list[object], waiting: list[object]) -> list[object]:
    """Give what was accepted and waits no more; of an item that was put twice each counts."""
    left = list(waiting)
    missing = []
    for item in accepted:
        place = next((place for place, other in enumerate(left) if other is item), None)
        if place is None:
            missing.append(item)
        else:
            del left[place]
    return missing


def _waiting_in(mailbox: Mailbox[Any]) -> list[object]:
    return [*(mailbox._control or ()), *(item for item, _ in mailbox._queue)]  # noqa: SLF001 - as above


@contextmanager
def no_lost_items() -> Iterator[ItemWatch]:
    """Watch all mailboxes of the process for the time of the block, and refuse its end when one has lost an item.

    Not in two threads at once: what is watched are the classes. An exception of the block leaves as itself.

    Raises:
        Lost: An item was accepted and nothing handled it, or a reader sleeps although there is something to take.
    """
    watch = ItemWatch()
    with wrapped(_seams(watch)):
        yield watch
    faults = (*watch.lost(), *watch.stuck())
    if faults:
        shown = "\n".join(faults[:_MAX_FAULTS])
        message = f"{len(faults)} of {watch.accepted} items were accepted and never handled:\n{shown}"
        raise Lost(message)


def _seams(watch: ItemWatch) -> tuple[Seam, ...]:
    """Where items go in, are given up, and reach what acts on them: of sessions, of machines, of supervisors."""

    def puts(before: Any) -> Any:
        def _append(self: Mailbox[Any], message: object, via: object) -> None:
            watch.put(self, message)
            before(self, message, via)

        return _append

    def puts_control(before: Any) -> Any:
        def put_control(self: Mailbox[Any], message: object) -> None:
            if not self.is_closed:
                watch.put(self, message)
            before(self, message)

        return put_control

    def puts_timers(before: Any) -> Any:
        def put_timers_first(self: Mailbox[Any], fired: Any) -> None:
            for each in fired:
                watch.put(self, each)
            before(self, fired)

        return put_timers_first

    def gives_up(before: Any) -> Any:
        def give_up(self: Mailbox[Any], *args: Any) -> Any:
            waited = _waiting_in(self)
            result = before(self, *args)
            for item in _missing(waited, _waiting_in(self)):
                watch.give_up(self, item)
            return result

        return give_up

    def takes(before: Any) -> Any:
        async def take(mailbox: Mailbox[Any], *args: Any, **options: Any) -> object:
            item = await before(mailbox, *args, **options)
            watch.handle(mailbox, item)
            return item

        return take

    def handles(before: Any) -> Any:
        def _handle(self: SessionCell, item: Any) -> bool:
            watch.handle(self.mailbox, item)
            handled: bool = before(self, item)
            return handled

        return _handle

    return (
        (Mailbox, "_append", puts),
        (Mailbox, "put_control", puts_control),
        (Mailbox, "put_timers_first", puts_timers),
        (Mailbox, "_make_room", gives_up),
        (Mailbox, "drain", gives_up),
        (machine_loop, "take_in_turn", takes),
        (supervising, "take_next", takes),
        (SessionCell, "handle", handles),
    )


def _owner_of(mailbox: Mailbox[Any]) -> str:
    reader = mailbox._reader  # noqa: SLF001 - as above
    return "an actor that does not wait" if reader is None else repr(reader.name)
