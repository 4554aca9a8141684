"""Which messages of a machine came through an address: should it be passivated first, they go back there.

An event says nothing of it. It is the same however it came, and a machine may compare it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import Engine, MachineEvent

PASSIVATED: Final = Shutdown("passivated")
"""An actor that ends with this is woken by the next message through its address."""

_SLACK: Final = 32


class Origins:
    """The events that a machine has postponed, and the address that each came through, in the order of their coming.

    Known by identity: two casts of one word are equal, and each of them has to be handled.
    """

    __slots__ = ("_postponed", "came")

    def __init__(self) -> None:
        """Begin with none."""
        self.came: dict[int, tuple[object, Any]] | None = None  # made when it is needed
        self._postponed: Sequence[MachineEvent] = ()

    def note(self, event: object, via: object, engine: Engine[Any, Any]) -> None:
        """Note how an event came that the machine was given a moment ago, if it has put it by.

        To be called for each that came through an address, and for all others while `came` is something.
        """
        before, self._postponed = self._postponed, engine.postponed
        if engine.stopped is not None:  # what is left of it is asked for now, in `hand_back`
            self._add(event, via)
        elif not engine.postponed:
            self.came = None
        elif engine.postponed is not before and any(each is event for each in reversed(engine.postponed)):
            came = self._add(event, via)
            if len(came) > 2 * len(engine.postponed) + _SLACK:
                left = {id(each) for each in engine.postponed}
                self.came = {key: entry for key, entry in came.items() if key in left}

    def _add(self, event: object, via: object) -> dict[int, tuple[object, Any]]:
        self.came = self.came or {}
        self.came.setdefault(id(event), (event, via))
        return self.came

    def hand_back(self, unhandled: Iterable[object], waiting: Iterable[tuple[object, object]]) -> None:
        """Give each address what had come through it, in the order in which it came; forget the rest."""
        left = {id(event) for event in unhandled}
        came = [entry for key, entry in (self.came or {}).items() if key in left]
        by_address: dict[Any, list[object]] = {}
        for event, via in (*came, *waiting):
            if via is not None:
                by_address.setdefault(via, []).append(event)
        for address, own in by_address.items():
            address.take_back(own)
