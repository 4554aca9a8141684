"""Session facts for readers of committed events, and their progress: telemetry, metrics, the audit log."""

from attrs import field, frozen

from agentrail.messages import JsonObject


@frozen(eq=False)
class SessionOrigin:
    """The session of an event.

    Attributes:
        scope: Its scope, such as the tenant of a host.
        session_id: Its id.
        user_data: Data that it was started with, such as its profile (`agent_id`) and tenant (`tenant_id`).
    """

    scope: str
    session_id: str
    user_data: JsonObject = field(repr=False)


@frozen
class ConsumerStatistics:
    """Progress of one consumer of events.

    Attributes:
        name: Its name, such as `spans`.
        behind: Committed events that it has not taken yet.
        dropped: Events that it will never get: without a store, or lost in an unreadable journal.
        failures: Attempts that raised, each retried with the same events.
        rejected: Items made of events and refused for good, such as spans by their backend.
    """

    name: str
    behind: int
    dropped: int
    failures: int
    rejected: int
