"""Messages that came through an address: should their actor be passivated first, they go back there."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from agentrail.otp.exits import Shutdown
from agentrail.otp.statem import Call, Cast

PASSIVATED: Final = Shutdown("passivated")
"""An actor that ends with this is woken by the next message through its address."""


class AddressedCast(Cast, frozen=True):
    """A cast, and the address it came through."""

    via: Any


class AddressedCall(Call, frozen=True):
    """A call, and the address it came through."""

    via: Any


Addressed: TypeAlias = AddressedCast | AddressedCall


def hand_back(events: Sequence[object]) -> None:
    """Give each address what had come through it, in order; forget the rest."""
    by_address: dict[Any, list[Addressed]] = {}
    for event in events:
        if isinstance(event, Addressed):
            by_address.setdefault(event.via, []).append(event)
    for address, own in by_address.items():
        address.take_back(own)
