"""What a supervisor of sessions has counted, as one value."""

from attrs import frozen


@frozen(kw_only=True)
class SupervisorStatistics:
    """What a supervisor of sessions has seen.

    Attributes:
        live: Sessions that have not ended.
        started: All that were ever started.
        asleep: Those of them that sleep, which a row stands for.
        ended: Those that have ended, the parked ones among them.
        parked: Those that crashed too often.
        restarts: How often one was brought back.
        tool_threads: How many worker threads are at work for tools.
        left_behind: The tools of those that work on although their calls were stopped.
        deleted: Stored sessions that were deleted with their trees, because of `keep_days` or `keep_bytes`.
        deleted_bytes: How many bytes of records, snapshots and large values those had.
    """

    live: int
    asleep: int = 0
    started: int
    ended: int
    parked: int
    restarts: int
    tool_threads: int = 0
    left_behind: tuple[str, ...] = ()
    deleted: int = 0
    deleted_bytes: int = 0
