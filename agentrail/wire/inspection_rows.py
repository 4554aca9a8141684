"""Rows for operators: nodes of the supervision tree, and plugins. Pure."""

from agentrail.structs import Value


class ExitNote(Value, frozen=True, kw_only=True):
    """An unrequested exit, or a failed attempt to start.

    Attributes:
        reason: Reason in one line, without secrets.
        at_ms: Time in milliseconds since 1970.
    """

    reason: str
    at_ms: int


class Intensity(Value, frozen=True, kw_only=True):
    """Restart intensity: the allowed restarts, and how many of them are used.

    Attributes:
        used: Restarts within the last `within_ms`.
        allowed: Allowed restarts. With one more, the supervisor gives up.
        within_ms: Length of the period in milliseconds.
    """

    used: int
    allowed: int
    within_ms: int


class TreeRow(Value, frozen=True, kw_only=True):
    """A node of the supervision tree.

    Attributes:
        key: Position below the root, as numbers separated by dots. Stable across restarts. For a session or a tool source that was given up,
            `parked:` and its id.
        parent: Key of the parent node, or None for the root.
        name: Name of the node, or the id of a session.
        kind: `supervisor`, `session`, `source` for an MCP server, or `actor`.
        status: Status such as `running`, or `parked` for a session or a source that was given up after too many crashes.
        phase: Phase of a session.
        session_id: Id of a session.
        title: Title that the model gave a session, or None before it sets one.
        first_words: First message to a session, or the task of a child session, up to 80 characters, or None if unknown.
        incarnation: Number of instances started so far.
        restarts: Restarts since it last recovered.
        mailbox: Messages in the mailbox, or None if it has no mailbox.
        up_at_ms: Start of the current instance, in milliseconds since 1970, or None if none is running.
        strategy: Restart strategy of a supervisor.
        intensity: Allowed and used restarts, or None if it has no restart budget of its own.
        exits: Its last five exits, the newest last.
        stuck: Whether it did not stop when asked to.
    """

    key: str
    parent: str | None
    name: str
    kind: str
    status: str
    phase: str | None = None
    session_id: str | None = None
    title: str | None = None
    first_words: str | None = None
    incarnation: int
    restarts: int
    mailbox: int | None = None
    up_at_ms: int | None = None
    strategy: str | None = None
    intensity: Intensity | None = None
    exits: tuple[ExitNote, ...] = ()
    stuck: bool = False


class HookRow(Value, frozen=True, kw_only=True):
    """One hook of a plugin.

    Attributes:
        hook: Name of the hook.
        calls: Number of calls.
        failures: Number of failed calls.
        p50_ms: Median duration in milliseconds, overestimated by at most 9 %.
        p99_ms: 99th percentile of the duration in milliseconds.
    """

    hook: str
    calls: int
    failures: int
    p50_ms: float
    p99_ms: float


class FailureNote(Value, frozen=True, kw_only=True):
    """The last failure of a plugin.

    Attributes:
        hook: Hook that failed.
        words: Exception in one line.
        at_ms: Time in milliseconds since 1970.
    """

    hook: str
    words: str
    at_ms: int


class PluginRow(Value, frozen=True, kw_only=True):
    """A plugin of the host, or all plugins of one name in the sessions of a tenant.

    Attributes:
        key: `host:` or `session:`, followed by the name, because one plugin of each kind may share a name.
        name: Name of the plugin.
        kind: `host` or `session`.
        version: Version of a host plugin, or empty for a session plugin.
        order: Position of a host plugin, from 1.
        hooks: Hooks of a host plugin in running order, or the called hooks of a session plugin.
        failures: Number of failed calls.
        stuck_hook: Hook that does not return, or None if there is none.
        stuck_at_ms: Time since which it has not returned, in milliseconds since 1970.
        sessions: Number of sessions that use it now, or None for a host plugin, which belongs to no session.
        last_failure: The last failure, or None if it never failed.
    """

    key: str
    name: str
    kind: str
    version: str = ""
    order: int | None = None
    hooks: tuple[HookRow, ...]
    failures: int
    stuck_hook: str | None = None
    stuck_at_ms: int | None = None
    sessions: int | None = None
    last_failure: FailureNote | None = None
