"""Records the address of each message that a machine received through one. A passivated machine hands such messages back."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import Engine, MachineEvent

PASSIVATED: Final = Shutdown("passivated")
"""Exit reason of a passivated actor: the next message through its address starts it again."""

_SLACK: Final = 32


class Origins:
    """The postponed events of a machine with the address of each, in order of arrival."""

    __slots__ = ("_postponed", "came")

    def __init__(self) -> None:
        self.came: dict[int, tuple[object, Any]] | None = None  # created on first use
        self._postponed: Sequence[MachineEvent] = ()

    def note(self, event: object, via: object, engine: Engine[Any, Any]) -> None:
        before, self._postponed = self._postponed, engine.postponed
        if engine.stopped is not None:  # `hand_back` collects the rest
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
        left = {id(event) for event in unhandled}
        came = [entry for key, entry in (self.came or {}).items() if key in left]
        by_address: dict[Any, list[object]] = {}
        for event, via in (*came, *waiting):
            if via is not None:
                by_address.setdefault(via, []).append(event)
        for address, own in by_address.items():
            address.take_back(own)
