"""Errors of a store and of its sessions."""

from collections.abc import Sequence

from agentrail.errors.base import AgentrailError, YourMove


class StoreError(AgentrailError):
    """Base class of store failures."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store accepts no records now: full disk, lost connection, or read-only directory.

    Sessions continue once it is back, without losing work.
    """

    code = "store_unavailable"


class StopNotWritten(StoreUnavailable):
    """Work was stopped, but the store records it only once it is back.

    If the process dies first, resuming the session may restart the work.
    """

    code = "stop_not_written"


class NotAStore(YourMove):
    """The file is not an agentrail store. Nothing was touched."""

    code = "not_a_store"


class StoreInUse(YourMove):
    """Another process is writing to this store. Reading commands work meanwhile.

    Attributes:
        pid: Id of that process, or None if unknown.
    """

    code = "store_in_use"

    def __init__(self, message: str, *, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class StoreTooNew(YourMove):
    """A newer version of agentrail created this store. Nothing was touched.

    Attributes:
        found: Version of the store's tables or records.
        known: Newest version that this code can read.
    """

    code = "store_too_new"

    def __init__(self, message: str, *, found: int, known: int) -> None:
        super().__init__(message)
        self.found = found
        self.known = known


class SessionNotFound(YourMove):
    """The store has no session of this id.

    Attributes:
        nearest: Similar ids.
    """

    code = "session_not_found"

    def __init__(self, message: str, *, nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nearest: tuple[str, ...] = tuple(nearest)


class AlreadyExists(YourMove):
    """The store already has a session of this id. Resume it, or choose another id."""

    code = "already_exists"


class HeldBy(StoreError):
    """Another live node owns the session.

    Attributes:
        node: Name of the owner.
        address: Address of the owner, empty if it accepts no calls.
        seen_ago_ms: Time since the owner's last sign of life, in milliseconds.
    """

    code = "held_by"

    def __init__(self, session_id: str, *, node: str, address: str, seen_ago_ms: int) -> None:
        at = f" at {address}" if address else ""
        message = f"session {session_id!r} is owned by node {node!r}{at}, seen {seen_ago_ms / 1000:.1f} s ago: call that node"
        super().__init__(message)
        self.node = node
        self.address = address
        self.seen_ago_ms = seen_ago_ms


class Fenced(StoreError):
    """Another owner has taken the session over. The previous one's records are refused.

    Attributes:
        session_id: Id of the session.
        durable_up_to: The previous owner's last stored record.
    """

    code = "fenced"

    def __init__(self, session_id: str, *, durable_up_to: int) -> None:
        super().__init__(
            f"session {session_id!r} was taken over by another owner after record {durable_up_to}: use that owner's instance"
        )
        self.session_id = session_id
        self.durable_up_to = durable_up_to


class JournalBehind(StoreError):
    """The store lacks acknowledged records of a session, as after a failover or a salvage, or may lack some after a backup was restored. The session is parked.

    Attributes:
        session_id: Id of the session.
        have: The store's last record of it.
        acknowledged: The last record that the store had acknowledged. None if unknown: the store was restored from a backup, or a sub-agent lost records in a salvage.
    """

    code = "journal_behind"

    def __init__(self, session_id: str, *, have: int, acknowledged: int | None) -> None:
        lost = (
            f"the store was restored from a backup or salvaged, and may lack records after {have} that it had acknowledged"
            if acknowledged is None
            else f"the store acknowledged record {acknowledged} and now ends at {have}: it was restored, salvaged or failed over without the rest"
        )
        super().__init__(
            f"journal of session {session_id!r}: {lost}; fork the session at {have}, or resume it with on_drift='go_on' to continue without the lost records"
        )
        self.session_id = session_id
        self.have = have
        self.acknowledged = acknowledged


class JournalCorrupt(StoreError):
    """A record's hash does not match.

    Attributes:
        session_id: Id of the session. Empty if no record could be read.
        seq: Number of the record. Earlier ones are intact.
    """

    code = "journal_corrupt"

    def __init__(self, session_id: str, seq: int, *, why: str = "its hash does not match") -> None:
        whose = f" of session {session_id!r}" if session_id else ""
        intact = f"; it is intact up to {seq - 1}, and can be forked there" if seq > 1 else ""
        super().__init__(f"journal{whose}: record {seq} is damaged ({why}){intact}")
        self.session_id = session_id
        self.seq = seq


class JournalDrifted(YourMove):
    """Replaying a journal with this code starts other operations: newer code, or another plugin.

    The session is parked, unchanged. Resume it with its versions, or with `resume_session(id, on_drift="go_on")`, which keeps the newer state. Then no started
    `once` or `reconcilable` tool reruns: its outcome is unknown.

    Attributes:
        session_id: Id of the session.
        seq: The first record that differs.
        operation: The first operation on one side only, such as `run_tool t7 pay args=…`.
        plugin: The probable plugin, empty for agentrail itself.
    """

    code = "journal_drifted"

    def __init__(
        self, session_id: str, seq: int, *, what: str, operation: str = "", plugin: str = ""
    ) -> None:
        by = f" (probably by plugin {plugin!r})" if plugin else ""
        super().__init__(
            f"session {session_id!r} is parked: the current code derives different operations from its journal{by}: {what[:1000]}; "
            "resume it with its earlier versions of agentrail and plugins, or continue it with "
            "resume_session(id, on_drift='go_on') or agentrail sessions resume ID --on-drift go_on, "
            "which does not repeat any `once` tool that had started"
        )
        self.session_id = session_id
        self.seq = seq
        self.operation = operation
        self.plugin = plugin


class Erased(StoreError):
    """The content of a record was erased on purpose. No earlier state can be computed.

    Attributes:
        seq: Number of the record.
    """

    code = "erased"

    def __init__(self, session_id: str, seq: int) -> None:
        super().__init__(
            f"journal of session {session_id!r}: the content of record {seq} was removed; start after it"
        )
        self.seq = seq


class Trimmed(StoreError):
    """The requested records were dropped to save space.

    Attributes:
        first: Number of the oldest remaining record.
    """

    code = "trimmed"

    def __init__(self, session_id: str, *, first: int) -> None:
        super().__init__(
            f"journal of session {session_id!r}: records before {first} were dropped; start from {first}"
        )
        self.first = first


class StillNeeded(YourMove):
    """The session cannot be deleted, because something depends on it.

    Attributes:
        by: The forks of the session, or the node that owns it.
    """

    code = "still_needed"

    def __init__(self, session_id: str, *, by: Sequence[str]) -> None:
        super().__init__(f"session {session_id!r} cannot be deleted: it is needed by {', '.join(by)}")
        self.by: tuple[str, ...] = tuple(by)


class Unrevivable(YourMove):
    """Code for resuming a session is missing. The session stays unchanged.

    Attributes:
        session_id: Id of the session.
        missing: Missing tools, plugins or other code, with versions if any.
    """

    code = "unrevivable"

    def __init__(self, session_id: str, *, missing: Sequence[str]) -> None:
        super().__init__(
            f"session {session_id!r} cannot be resumed without {', '.join(missing)}: pass them to resume_session, or as `revive` to open_supervisor"
        )
        self.session_id = session_id
        self.missing: tuple[str, ...] = tuple(missing)
