"""The port of readers of all committed events. No session waits for one, or notices that it fails."""

from typing import Any, Protocol

from attrs import frozen

from agentrail.events import Event


@frozen(kw_only=True)
class ConsumerStatistics:
    """Progress of one consumer of events.

    Attributes:
        name: Its name, such as `spans`.
        behind: Committed events that it has not taken yet.
        dropped: Events that it will never get: without a store, or lost in an unreadable journal.
        failures: Attempts that raised, each retried with the same events.
    """

    name: str
    behind: int
    dropped: int
    failures: int


class EventReader(Protocol):
    """Reads the events of one supervisor. Implemented in `agentrail.telemetry`."""

    def hear(self, scope: str, event: Event, /) -> None:
        """Note a committed event. Called at once by its session, so it must neither wait nor raise."""
        ...

    def open(self, source: Any, /) -> None:
        """Called with the supervisor before its first session."""
        ...

    async def run(self) -> None:
        """Pass events on until closed."""
        ...

    async def aclose(self) -> None:
        """Pass on the remaining events within a time limit, and end `run`. Called after the last session."""
        ...

    def statistics(self) -> tuple[ConsumerStatistics, ...]:
        """Return the progress of each consumer."""
        ...
