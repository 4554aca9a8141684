"""Progress of the readers of committed events: telemetry, metrics and the audit log."""

from attrs import frozen


@frozen
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
