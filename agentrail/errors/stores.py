"""What a store refuses, and what becomes of sessions that one cannot keep."""

from collections.abc import Sequence

from agentrail.errors.base import AgentrailError, YourMove


class StoreError(AgentrailError):
    """Something about a store of sessions; its classes say what."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store does not take records now: a full disk, a lost connection, a directory that cannot be written.

    Nothing that waits for it is lost. Sessions go on by themselves when it is back.
    """

    code = "store_unavailable"


class StopNotWritten(StoreUnavailable):
    """Work was stopped as asked, and the store does not have that yet. It is written when the store is back; do not stop it again.

    If the process dies before, the work may begin again when the session is resumed.
    """

    code = "stop_not_written"


class NotAStore(YourMove):
    """A file that is something else than a store of agentrail. Nothing in it was touched."""

    code = "not_a_store"


class StoreInUse(YourMove):
    """Another process writes this store. Commands that only read work beside it.

    Attributes:
        pid: Which process; None where that is not known.
    """

    code = "store_in_use"

    def __init__(self, message: str, *, pid: int | None) -> None:
        """Keep the process."""
        super().__init__(message)
        self.pid = pid


class StoreTooNew(YourMove):
    """A newer version of agentrail made this store. Nothing in it was touched.

    Attributes:
        found: The version of its tables, or of its records.
        known: The newest that can be read here.
    """

    code = "store_too_new"

    def __init__(self, message: str, *, found: int, known: int) -> None:
        """Keep both versions."""
        super().__init__(message)
        self.found = found
        self.known = known


class SessionNotFound(YourMove):
    """The store has no session of this id.

    Attributes:
        nearest: Ids that look like it.
    """

    code = "session_not_found"

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        """Keep what was near."""
        super().__init__(message)
        self.nearest: tuple[str, ...] = tuple(nearest)


class AlreadyExists(YourMove):
    """The store has a session of this id: resume it, or take another id."""

    code = "already_exists"


class HeldBy(StoreError):
    """Another node owns the session, and is alive as far as the store knows.

    Attributes:
        node: Which one.
        address: Where it answers; empty for one that does not.
        seen_ago_ms: How long ago it was last heard of, in milliseconds.
    """

    code = "held_by"

    def __init__(self, session_id: str, *, node: str, address: str, seen_ago_ms: int) -> None:
        """Say who owns it."""
        at = f" at {address}" if address else ""
        message = f"session {session_id!r} is owned by node {node!r}{at}, seen {seen_ago_ms / 1000:.1f} s ago: ask it there"
        super().__init__(message)
        self.node = node
        self.address = address
        self.seen_ago_ms = seen_ago_ms


class Fenced(StoreError):
    """Another owner has taken the session over: nothing that this one writes is taken any more.

    Attributes:
        session_id: Which one.
        durable_up_to: The last number of the old owner that the store has.
    """

    code = "fenced"

    def __init__(self, session_id: str, *, durable_up_to: int) -> None:
        """Keep how far it came."""
        super().__init__(
            f"session {session_id!r} was taken over by another owner behind record {durable_up_to}: it lives on there"
        )
        self.session_id = session_id
        self.durable_up_to = durable_up_to


class JournalCorrupt(StoreError):
    """A record is not what was written: its hash does not belong to it.

    Attributes:
        session_id: Whose journal.
        seq: Its number. What stands before it is sound.
    """

    code = "journal_corrupt"

    def __init__(self, session_id: str, seq: int, *, why: str = "its hash does not belong to it") -> None:
        """Say which record."""
        super().__init__(
            f"journal of session {session_id!r}: record {seq} is damaged ({why}); "
            f"up to {seq - 1} it is sound, and can be forked there"
        )
        self.session_id = session_id
        self.seq = seq


class JournalDrifted(YourMove):
    """The code here folds a journal to other operations than those that began: it is newer, or another plugin was given.

    The session is parked: it stays as it is. Resume it with the versions that it had, or continue it with
    `resume_session(id, on_drift="go_on")`. Then the state of the newer code counts, and no `once` or `reconcilable` tool that had begun
    runs again: its outcome is reported as unknown.

    Attributes:
        session_id: Whose journal.
        seq: The number of the first record that differs.
        operation: The first operation that the journal has and the fold has not, or the other way round, such as `run_tool t7 pay args=…`.
        plugin: The plugin that probably caused it; empty for agentrail itself.
    """

    code = "journal_drifted"

    def __init__(
        self, session_id: str, seq: int, *, what: str, operation: str = "", plugin: str = ""
    ) -> None:
        """Say which record, and how it differs."""
        by = f" (probably by plugin {plugin!r})" if plugin else ""
        super().__init__(
            f"session {session_id!r} is parked: the code here folds its journal to other operations{by}: {what[:1000]}; "
            "resume it with the versions of agentrail and of its plugins that it had, or continue it with "
            "resume_session(id, on_drift='go_on') or agentrail sessions resume ID --on-drift go_on, "
            "which runs no `once` tool again that had begun"
        )
        self.session_id = session_id
        self.seq = seq
        self.operation = operation
        self.plugin = plugin


class Erased(StoreError):
    """What stood in a record was removed on purpose: nothing before it can be computed any more.

    Attributes:
        seq: Its number.
    """

    code = "erased"

    def __init__(self, session_id: str, seq: int) -> None:
        """Say which record."""
        super().__init__(
            f"journal of session {session_id!r}: the content of record {seq} was removed; start behind it"
        )
        self.seq = seq


class Trimmed(StoreError):
    """The records asked for were dropped to save space.

    Attributes:
        first: The first number that is still there.
    """

    code = "trimmed"

    def __init__(self, session_id: str, *, first: int) -> None:
        """Say what is left."""
        super().__init__(
            f"journal of session {session_id!r}: what stands before record {first} was dropped; ask from {first}"
        )
        self.first = first


class StillNeeded(YourMove):
    """What was to be deleted is needed.

    Attributes:
        by: The forks of the session, or the node that owns it.
    """

    code = "still_needed"

    def __init__(self, session_id: str, *, by: Sequence[str]) -> None:
        """Say by whom."""
        super().__init__(f"session {session_id!r} cannot be deleted: it is needed by {', '.join(by)}")
        self.by: tuple[str, ...] = tuple(by)


class Unrevivable(YourMove):
    """A session cannot be resumed with what was given: code that it had is missing. It stays as it is.

    Attributes:
        session_id: Which one.
        missing: Each thing that is missing, with its version where it has one.
    """

    code = "unrevivable"

    def __init__(self, session_id: str, *, missing: Sequence[str]) -> None:
        """Say what is missing, and where to give it."""
        super().__init__(
            f"session {session_id!r} cannot be resumed without {', '.join(missing)}: "
            "give them to resume_session, or as `revive` to open_supervisor"
        )
        self.session_id = session_id
        self.missing: tuple[str, ...] = tuple(missing)
