"""Dead letters: messages that no actor will handle. Counted, never an error for the sender. No contents are kept."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import trio
from attrs import field, frozen

from agentrail.logs import Logger
from agentrail.otp.statem import Call, Cast, Info

LOGGER: Final = Logger("agentrail.actors")


@frozen
class DeadLetters:
    """The dead letters of one Trio run.

    Attributes:
        count: Total number.
        by_type: Number per type. A message in a `Cast`, `Call` or `Info` counts under its own type.
    """

    count: int = 0
    by_type: Mapping[str, int] = field(factory=dict)


_counted: Final[trio.lowlevel.RunVar[Counter[str]]] = trio.lowlevel.RunVar("dead_letters")


def dead_letters() -> DeadLetters:
    """Return the dead letters of this Trio run. Empty outside of a run."""
    counter = _counter()
    return DeadLetters(counter.total(), dict(counter))


def bury(message: object, why: str) -> None:
    """Count a dead message. Logs the 1st, 10th, 100th …, so that many dead letters do not flood the log."""
    match message:
        case Call(request=content) | Cast(message=content) | Info(message=content):
            name = type(content).__name__
        case _:
            name = type(message).__name__
    counter = _counter()
    counter[name] += 1
    count = counter.total()
    if str(count).rstrip("0") == "1":
        LOGGER.warning("dead letter number %d: a message of type %s (%s)", count, name, why)


def _counter() -> Counter[str]:
    if not trio.lowlevel.in_trio_run():
        return Counter()
    try:
        return _counted.get()
    except LookupError:
        counter: Counter[str] = Counter()
        _counted.set(counter)
        return counter
