"""Rows for people who look after a server: nodes of the supervision tree, and plugins. Pure.

Both sides of a connection read them. What a tree is says `agentrail.actors.tree`; a field may be added at any time, none is taken away.
"""

from agentrail.structs import Value


class ExitNote(Value, frozen=True, kw_only=True):
    """How something ended by itself, or why an attempt to start it failed.

    Attributes:
        reason: In one line, without secrets.
        at_ms: When, in milliseconds since 1970.
    """

    reason: str
    at_ms: int


class Intensity(Value, frozen=True, kw_only=True):
    """How many restarts are allowed, and how many of them are used.

    Attributes:
        used: Restarts within the last `within_ms`.
        allowed: With one more it is given up.
        within_ms: The period that counts.
    """

    used: int
    allowed: int
    within_ms: int


class TreeRow(Value, frozen=True, kw_only=True):
    """A node of the supervision tree.

    Attributes:
        key: Where it stands below the root, numbers with points between them: the same over all its restarts. Of a session that was
            given up `parked:` and its id.
        parent: The key of the node above; None of the root.
        name: Of a session its id.
        kind: `supervisor`, `session` or `actor`.
        status: Such as `running`; `parked` of a session that crashed too often and was given up.
        phase: Of a session what it does.
        session_id: Of a session its id.
        title: What a session is about, as its model called it; None while it has not.
        first_words: What was said to a session first, up to 80 characters; to one that works for another, what it has to do. None where
            that is not known.
        incarnation: How many instances of it came up.
        restarts: How often it was started again since it recovered.
        mailbox: How many messages wait for it; None of what has no mailbox.
        up_at_ms: When its last instance came up, in milliseconds since 1970; None while none is up.
        strategy: Of a supervisor what it does about a child that ends.
        intensity: How many restarts are allowed and used; None of what has no budget of its own.
        exits: How it ended the last five times, the newest last.
        stuck: Whether it did not obey when it was told to stop.
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
        hook: Its name.
        calls: How often it was called.
        failures: How often it failed.
        p50_ms: Within how many milliseconds half of the calls ended, at most 9 % too much.
        p99_ms: Within how many all but the slowest of a hundred did.
    """

    hook: str
    calls: int
    failures: int
    p50_ms: float
    p99_ms: float


class FailureNote(Value, frozen=True, kw_only=True):
    """What a plugin failed with last.

    Attributes:
        hook: In which hook.
        words: What it raised, in one line.
        at_ms: When, in milliseconds since 1970.
    """

    hook: str
    words: str
    at_ms: int


class PluginRow(Value, frozen=True, kw_only=True):
    """A plugin of the host, or all plugins of one name in the sessions of a tenant.

    Attributes:
        key: `host:` or `session:` and the name: a plugin of each kind may have the same one.
        name: Which one.
        kind: `host` or `session`.
        version: Of a plugin of the host; empty of others.
        order: Of a plugin of the host its place, from 1.
        hooks: Those that it has, in the order in which they are met; of a session's plugin those that were called.
        failures: How often it failed.
        stuck_hook: The hook that does not come back; None without.
        stuck_at_ms: Since when, in milliseconds since 1970.
        sessions: How many sessions have it now; None of a plugin of the host, which stands beside them all.
        last_failure: What it failed with last; None where it never did.
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
