"""What `MemoryStore` keeps of one session, and what it decides from that alone. No other session enters, no lock and no clock."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence

from agentrail.abc.store import Filters, Opening, Standing, StoredSession, StoredSnapshot
from agentrail.core.journal.erasing import closing_record, erased_record, is_erased
from agentrail.core.journal.record import ERASED, Record, Tail, tail_of
from agentrail.core.journal.session_owner import NO_OWNER
from agentrail.errors import AlreadyExists, Fenced
from agentrail.messages import SessionId


class MemoryJournal:
    """What is kept of one session. Its records have no gaps, so a number is a place."""

    __slots__ = (
        "blobs",
        "first_seq",
        "forked_from",
        "node",
        "opened_at_ms",
        "owner",
        "parent",
        "records",
        "root",
        "scope",
        "session",
        "snapshots",
        "standing",
        "written_at_ms",
    )

    def __init__(self, opening: Opening, now: int) -> None:
        """Begin with an opening, at a time of the store."""
        self.scope: str = opening.records[0].scope
        self.session: SessionId = opening.records[0].session
        self.root: SessionId = opening.root
        self.parent: str = opening.parent
        self.forked_from: tuple[SessionId, int] | None = opening.forked_from
        self.node: str = opening.node
        self.owner: str = opening.owner
        self.opened_at_ms: int = now
        self.written_at_ms: int = now
        self.first_seq: int = 1
        self.records: list[Record] = list(opening.records)
        self.standing: Standing = opening.standing
        self.snapshots: dict[int, StoredSnapshot] = {}
        self.blobs: dict[str, None] = {}

    @property
    def tail(self) -> Tail:
        """Where it ends: read from the records, so that there is one truth and no moment between two."""
        last = self.records[-1]
        return Tail(seq=last.seq, epoch=last.epoch, hash=last.hash)

    @property
    def forks_at(self) -> int:
        """The number of the record that it was forked at; 0 where it was not."""
        return 0 if self.forked_from is None else self.forked_from[1]

    def takes(self, records: Sequence[Record]) -> bool:
        """Whether records may stand where they want to: nothing else does, and the one before is of their own epoch."""
        first, last = records[0], self.records[-1]
        if first.epoch != last.epoch or first.seq > last.seq + 1:
            return False
        # Records that were trimmed cannot be compared. Their epoch is still the newest, so they are the owner's own.
        return all(
            record.seq < self.first_seq or self.records[record.seq - self.first_seq] == record
            for record in records[: last.seq - first.seq + 1]
        )

    def extend(self, records: Sequence[Record], now: int) -> None:
        """Write records behind the last."""
        self.records.extend(records)
        self.written_at_ms = now

    def last_of(self, epoch: int) -> int:
        """Give the number of the last record that is not of a later epoch."""
        return self.first_seq + bisect_right(self.records, epoch, key=lambda record: record.epoch) - 1

    def is_sound(self, snapshot: StoredSnapshot) -> bool:
        """Whether a snapshot is of this journal, and is what was put."""
        place = snapshot.seq - self.first_seq
        if not 0 <= place < len(self.records) or self.records[place].hash != snapshot.hash:
            return False
        return snapshot.check == hashlib.blake2b(snapshot.hash + snapshot.state, digest_size=16).digest()

    def trim(self, before: int) -> int:
        """Drop records before a number."""
        dropped = before - self.first_seq
        del self.records[:dropped]
        self.first_seq = before
        return dropped

    def was_erased(self, seq: int) -> bool:
        """Whether the content of a record was removed."""
        place = seq - self.first_seq
        return 0 <= place < len(self.records) and self.records[place].kind == ERASED

    def erase(self, why: str, now: int) -> tuple[int, int]:
        """Remove the content of all records, drop the snapshots, and end it.

        Returns:
            How many records and snapshots that were.
        """
        snapshots, self.snapshots = len(self.snapshots), {}
        self.standing = Standing(has_ended=True)
        self.owner = NO_OWNER
        if is_erased(self.records[-2:], why):
            return 0, snapshots
        count = sum(record.kind != ERASED for record in self.records)
        end = closing_record(self.records[-1], why, now)
        self.records = [*(erased_record(record, why) for record in self.records), end]
        self.written_at_ms = now
        return count, snapshots

    def size_bytes(self) -> int:
        """How many bytes its records and snapshots are, without blobs."""
        texts = sum(len(record.body) + len(record.does.encode()) for record in self.records)
        return texts + sum(len(one.state) for one in self.snapshots.values())

    def stored(self) -> StoredSession:
        """Say how it stands."""
        return StoredSession(
            scope=self.scope,
            session=self.session,
            root=self.root,
            parent=self.parent,
            forked_from=self.forked_from,
            node=self.node,
            opened_at_ms=self.opened_at_ms,
            written_at_ms=self.written_at_ms,
            first_seq=self.first_seq,
            tail=self.tail,
            events=self.records[-1].events,
            standing=self.standing,
        )


def check_same_opening(there: MemoryJournal, opening: Opening) -> None:
    """Refuse an opening that is not that of a journal.

    Raises:
        AlreadyExists: It is another one.
        Fenced: It is that one, and another owner has taken the session over.
    """
    tail = tail_of(opening.records)
    is_same = (
        (there.root, there.parent, there.forked_from) == (opening.root, opening.parent, opening.forked_from)
        and there.tail.seq >= tail.seq
        and all(
            record.seq < there.first_seq or there.records[record.seq - there.first_seq] == record
            for record in opening.records
        )
    )
    if is_same and there.tail.epoch > tail.epoch:
        raise Fenced(there.session, durable_up_to=there.last_of(tail.epoch))
    if not is_same or there.node not in ("", opening.node):
        message = f"there is a session {there.session!r} already: resume_session, or take another id"
        raise AlreadyExists(message)


def fits(journal: MemoryJournal, filters: Filters) -> bool:
    """Whether a session is one of those that are looked for."""
    standing = journal.standing
    return (
        filters.scope in (None, journal.scope)
        and filters.root in (None, journal.root)
        and filters.owner in (None, journal.owner)
        and filters.node in (None, journal.node)
        and filters.is_working in (None, standing.is_working)
        and filters.has_ended in (None, standing.has_ended)
        and not (filters.only_roots and journal.root != journal.session)
        and (filters.written_before_ms is None or journal.written_at_ms < filters.written_before_ms)
    )
