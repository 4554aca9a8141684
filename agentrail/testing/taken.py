"""`no_lost_items()`: checks that every item accepted by a mailbox is handled, still waiting, or reported as discarded.

with no_lost_items() as watch:
    trio.run(main, clock=FakeClock())
assert watch.handled > 100
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from agentrail.actors import machine_loop, supervisor_loop
from agentrail.actors.mailbox import Mailbox
from agentrail.runtime.session_actor import SessionCell
from agentrail.testing.seams import Seam, around, wrapped

_MAX_SHOWN: Final = 200
_MAX_FAULTS: Final = 20


class Lost(AssertionError):
    """Items that mailboxes accepted, and that no code handled."""


class ItemWatch:
    """The fates of the items of all mailboxes.

    Attributes:
        accepted: Number of accepted items.
        handled: Number of items that reached their handler.
        given_up: Number of items discarded with a report: the mailbox was closed, drained, or too full.
    """

    def __init__(self) -> None:
        self.accepted: int = 0
        self.handled: int = 0
        self.given_up: int = 0
        # By identity rather than equality: two equal items are two. Oldest first, so the handled one is near the start.
        self._open: dict[int, list[object]] = {}
        self._mailboxes: dict[int, Mailbox[Any]] = {}

    def put(self, mailbox: Mailbox[Any], item: object) -> None:
        """Record that a mailbox accepted an item."""
        self._mailboxes[id(mailbox)] = mailbox
        self._open.setdefault(id(mailbox), []).append(item)
        self.accepted += 1

    def handle(self, mailbox: Mailbox[Any], item: object) -> None:
        """Record that an item has reached its handler."""
        if self._close(mailbox, item):
            self.handled += 1

    def give_up(self, mailbox: Mailbox[Any], item: object) -> None:
        """Record that a mailbox discarded an item."""
        if self._close(mailbox, item):
            self.given_up += 1

    def _close(self, mailbox: Mailbox[Any], item: object) -> bool:
        open_items = self._open.get(id(mailbox), [])
        for place, known in enumerate(open_items):
            if known is item:
                del open_items[place]
                return True
        return False  # put before the watch started

    def lost(self) -> tuple[str, ...]:
        """Return the items that are neither handled nor discarded nor still in their mailbox."""
        return tuple(
            f"{type(item).__name__} in the mailbox of {_owner_of(mailbox)}: {repr(item)[:_MAX_SHOWN]}"
            for number, mailbox in self._mailboxes.items()
            for item in _missing(self._open[number], _waiting_in(mailbox))
        )

    def stuck(self) -> tuple[str, ...]:
        """Return the mailboxes whose reader sleeps although an item is waiting."""
        return tuple(
            f"{len(_waiting_in(mailbox))} items wait in the mailbox of {_owner_of(mailbox)}, whose reader was not woken"
            for mailbox in self._mailboxes.values()
            if mailbox._reader is not None and mailbox.has_mail(control_only=mailbox._control_only)  # noqa: SLF001 - our own test kit
        )


def _missing(accepted: list[object], waiting: list[object]) -> list[object]:
    """Return the accepted items that no longer wait. An item that was put twice counts twice."""
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
    return [*(mailbox._control or ()), *(item for item, _ in mailbox._queue)]  # noqa: SLF001 - see above


@contextmanager
def no_lost_items() -> Iterator[ItemWatch]:
    """Watch all mailboxes of the process during the block, and raise at its end if one has lost an item.

    Not in two threads at once, because classes are patched. An exception of the block propagates unchanged.

    Raises:
        Lost: An accepted item was not handled, or a reader sleeps although an item is waiting.
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
    """The points where items are accepted, discarded and handled: in sessions, machines and supervisors."""

    @around
    def puts(before: Any, self: Mailbox[Any], message: object, via: object) -> None:
        watch.put(self, message)
        before(self, message, via)

    @around
    def puts_control(before: Any, self: Mailbox[Any], message: object) -> None:
        if not self.is_closed:
            watch.put(self, message)
        before(self, message)

    @around
    def puts_timers(before: Any, self: Mailbox[Any], fired: Any) -> None:
        for each in fired:
            watch.put(self, each)
        before(self, fired)

    @around
    def gives_up(before: Any, self: Mailbox[Any], *args: Any) -> Any:
        waited = _waiting_in(self)
        result = before(self, *args)
        for item in _missing(waited, _waiting_in(self)):
            watch.give_up(self, item)
        return result

    @around
    async def takes(before: Any, mailbox: Mailbox[Any], *args: Any, **options: Any) -> object:
        item = await before(mailbox, *args, **options)
        watch.handle(mailbox, item)
        return item

    @around
    def handles(before: Any, self: SessionCell, item: Any) -> bool:
        watch.handle(self.mailbox, item)
        handled: bool = before(self, item)
        return handled

    return (
        (Mailbox, "_append", puts),
        (Mailbox, "put_control", puts_control),
        (Mailbox, "put_timers_first", puts_timers),
        (Mailbox, "_make_room", gives_up),
        (Mailbox, "drain", gives_up),
        (machine_loop, "take_in_turn", takes),
        (supervisor_loop, "take_next", takes),
        (SessionCell, "handle", handles),
    )


def _owner_of(mailbox: Mailbox[Any]) -> str:
    reader = mailbox._reader  # noqa: SLF001 - see above
    return "an actor that does not wait" if reader is None else repr(reader.name)
