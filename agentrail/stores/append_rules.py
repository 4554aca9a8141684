"""Decisions that every store makes alike: openings, appends, takeovers, reservations, deletions, allowances. Pure.

No file, no lock and no clock. Functions that begin with `check_` raise the errors of the port.
"""

import difflib
import hashlib
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from attrs import frozen
from msgspec.structs import replace

from agentrail.abc.store import (
    Append,
    Cause,
    Heartbeats,
    Node,
    Opening,
    SharedDraw,
    Standing,
    StoredSession,
    StoredSnapshot,
    Taken,
    TakeOver,
)
from agentrail.core.journal.fold import RECOVERY_KINDS
from agentrail.core.journal.record import Record, Tail, sealed, tail_of, taken_draft
from agentrail.errors import (
    AlreadyExists,
    Fenced,
    HeldBy,
    JournalBehind,
    OptionError,
    QuotaReached,
    SessionNotFound,
    StillNeeded,
)
from agentrail.messages import SessionId
from agentrail.otp.guarded_calls import repr_of

P = ParamSpec("P")
R = TypeVar("R")

AppendRefusal: TypeAlias = Fenced | JournalBehind

KEPT_SNAPSHOTS: Final = 2
"""Snapshots that a store keeps of each session."""

FORGET_NODE_MS: Final = 3_600_000
"""A shared store forgets a node that owns nothing when its last heartbeat is this much older than the previous one of the node whose heartbeat it records.

The clock alone does not decide: after a step of an hour all living nodes would be forgotten, and the sessions of an unknown node can be taken. Not a
lease: a node that comes back later must find that it was reported gone.
"""

NEIGHBOURS: Final = 32
"""Number of ids compared on each side of an unknown id, to suggest similar ones."""

_COMPARED: Final = 128
"""Characters of an unknown id that are compared. A whole megabyte would take a tenth of a second."""

_SLACK_MS: Final = 0.5
"""Tolerance of an allowance: sums of steps are inexact, and the clock of a store has whole milliseconds."""


def lent(lend: str, call: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Create a method of a store that makes a call with a connection. Its method `lend` has one for the call."""

    @wraps(call)
    def method(self: object, *args: P.args, **kwargs: P.kwargs) -> R:
        made: R = getattr(self, lend)(lambda connection: call(connection, *args, **kwargs))
        return made

    return cast("Callable[Concatenate[Any, P], R]", method)


def leased(lend: str, call: Callable[Concatenate[Any, Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Same as `lent`, for a call whose second argument is the lease of nodes."""

    @wraps(call)
    def method(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        made: R = getattr(self, lend)(lambda connection: call(connection, self._lease(), *args, **kwargs))
        return made

    # The store takes the place of the lease.
    signature = inspect.Signature([*inspect.signature(call).parameters.values()][1:])
    method.__signature__ = signature  # type: ignore[attr-defined]  # read by `inspect`
    return cast("Callable[Concatenate[Any, P], R]", method)


class TreeTaker:
    """A store that takes a tree over by one value."""

    def take(  # noqa: PLR0913 - the arguments of the port
        self,
        scope: str,
        root: SessionId,
        node: str,
        cause: Cause,
        *,
        force: bool = False,
        silent: Heartbeats | None = None,
        tail: Tail | None = None,
    ) -> Taken:
        """Transfer a tree to a node as its owner. See `Store.take`."""
        return self._take(
            TakeOver(scope=scope, root=root, node=node, cause=cause, force=force, silent=silent, tail=tail)
        )

    def _take(self, wanted: TakeOver) -> Taken:
        raise NotImplementedError


class StoredJournal(Protocol):
    """The journal of a session that exists, as a store reads it."""

    @property
    def tail(self) -> Tail: ...

    def has(self, records: Sequence[Record]) -> bool:
        """Return whether exactly these records are stored at their numbers. Trimmed ones cannot be compared and count."""

    def last_of(self, epoch: int) -> int:
        """Return the number of the last record up to this epoch, or the one before the first record."""


@frozen
class PagedJournal:
    """A stored journal whose records are read when they are asked for.

    Attributes:
        there: Its session.
        read: Returns records from number `after + 1`, up to a limit.
        epoch_at: Returns the epoch of the record with a number, or None.
    """

    there: StoredSession
    read: Callable[[int, int], tuple[Record, ...]]
    epoch_at: Callable[[int], int | None]

    @property
    def tail(self) -> Tail:
        return self.there.tail

    def has(self, records: Sequence[Record]) -> bool:
        kept = tuple(record for record in records if record.seq >= self.there.first_seq)
        before = kept[0].seq - 1 if kept else 0
        return self.read(before, len(kept)) == kept

    def last_of(self, epoch: int) -> int:
        low, high = self.there.first_seq - 1, self.there.tail.seq
        while low < high:
            middle = (low + high + 1) // 2
            found = self.epoch_at(middle)
            if found is not None and found <= epoch:
                low = middle
            else:
                high = middle - 1
        return low


# --- openings


def check_dense(records: Sequence[Record], *, is_one_epoch: bool = True) -> None:
    """Raise ValueError for records that no session could have written."""
    first, last = records[0], records[-1]
    if last.seq - first.seq + 1 != len(records) or (is_one_epoch and first.epoch != last.epoch):
        message = f"records {first.seq} to {last.seq} of session {first.session!r} are {len(records)}, of epochs {first.epoch} to {last.epoch}: expected numbers without gaps, and one epoch"
        raise ValueError(message)


def check_same_opening(opening: Opening, there: StoredSession, journal: StoredJournal) -> None:
    """Check that a session that exists began with this opening, and that its node may still write it."""
    tail = tail_of(opening.records)
    # Trimmed records cannot be compared: of a repeated opening, at least the last one is still stored.
    is_same = (there.root, there.parent, there.forked_from) == (
        opening.root, opening.parent, opening.forked_from
    ) and there.first_seq <= tail.seq <= there.tail.seq and journal.has(opening.records)  # fmt: skip
    if is_same and there.tail.epoch > tail.epoch:
        raise Fenced(there.session, durable_up_to=journal.last_of(tail.epoch))
    if not is_same or there.node not in ("", opening.node):
        message = f"session {there.session!r} already exists: call resume_session, or choose another id"
        raise AlreadyExists(message)


def check_quota(opening: Opening, count_open_roots: Callable[[str], int]) -> None:
    """Check the number of sessions of the opening's user. It is counted only if the opening has a limit."""
    limit = opening.max_of_owner
    is_counted = opening.owner and opening.root == opening.session
    if limit is not None and is_counted and count_open_roots(opening.owner) >= limit:
        message = f"{limit} sessions are open, which is the limit; end one, or continue one of them"
        raise QuotaReached(message)


# --- appends


def _joined(appends: Sequence[Append]) -> Append | None:
    """Return appends of one session as one, or None unless each begins where the one before ends."""
    if len(appends) == 1:
        return appends[0]
    records: list[Record] = []
    blobs: dict[str, bytes] = {}
    for one in appends:
        first = one.records[0]
        if records and (first.seq, first.epoch) != (records[-1].seq + 1, records[-1].epoch):
            return None
        records += one.records
        blobs.update(one.blobs)
    codec = max(one.codec for one in appends)
    return Append(records=tuple(records), standing=appends[-1].standing, codec=codec, blobs=blobs)


def append_in_groups(
    batch: Sequence[Append],
    advance_all: Callable[[Sequence[Append]], Collection[int]],
    append_alone: Callable[[Append], AppendRefusal | None],
) -> tuple[AppendRefusal | None, ...]:
    """Append records of many sessions, with one statement unless some are refused or repeated. See `Store.append`.

    Args:
        batch: The appends.
        advance_all: Writes the appends of different sessions that fit, and returns their places.
        append_alone: Writes the missing rest of one, or returns why it is refused.
    """
    for one in batch:
        check_dense(one.records)
    answers: list[AppendRefusal | None] = [None] * len(batch)
    groups: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(batch):
        groups.setdefault((one.scope, one.session), []).append(place)
    maybe = [(places, _joined([batch[at] for at in places])) for places in groups.values()]
    whole = [(places, one) for places, one in maybe if one is not None]
    advanced = advance_all([one for _, one in whole])
    done = {places[0] for number, (places, _) in enumerate(whole) if number in advanced}
    for places in groups.values():
        if places[0] in done:
            continue
        refused: AppendRefusal | None = None
        for place in places:
            refused = refused or append_alone(batch[place])
            answers[place] = refused
    return tuple(answers)


def decide_append(one: Append, journal: StoredJournal | None) -> tuple[Record, ...] | AppendRefusal:
    """Return the records of an append that are not stored yet, or why it is refused.

    An epoch above the stored one is reported as a loss of records, since `take` alone gives epochs and had stored this one.
    """
    first = one.records[0]
    if journal is None:
        return Fenced(one.session, durable_up_to=0)
    tail = journal.tail
    overlap = tail.seq - first.seq + 1
    if first.epoch > tail.epoch or (first.epoch == tail.epoch and overlap < 0):
        return JournalBehind(one.session, have=tail.seq, acknowledged=first.seq - 1)
    if first.epoch < tail.epoch or (overlap and not journal.has(one.records[:overlap])):
        return Fenced(one.session, durable_up_to=journal.last_of(first.epoch))
    return one.records[overlap:]


def resets_deaths(records: Iterable[Record]) -> bool:
    """Whether these records show that a session does more than recover, which sets its `deaths` to 0."""
    return any(record.kind not in RECOVERY_KINDS for record in records)


# --- owners


@frozen
class NodeLease:
    """Which nodes count as alive, at one time of the store's clock.

    Attributes:
        ms: Time after its last heartbeat during which a node counts as alive.
    """

    now_ms: int
    ms: int

    @property
    def since_ms(self) -> int:
        """Time after which a heartbeat counts."""
        return self.now_ms - self.ms

    def is_dead(self, node: Node | None, silent: Heartbeats | None = None) -> bool:
        """Whether a node's sessions may be taken. None is an unknown node. See `Store.claim` and `TakeOver.silent`."""
        if node is None or node.gone_at_ms:
            return True
        is_over = node.seen_at_ms <= self.since_ms
        if silent is None:
            return is_over
        # A heartbeat in the future is from before the store's clock was set back: then the silence that was watched decides alone. Only
        # that of the last heartbeat counts, because the taker may have stood still since.
        is_over = is_over or self.now_ms < node.seen_at_ms
        return is_over and silent.get(node.id) == node.seen_at_ms

    def may_run(self, node: Node | None) -> bool:
        """Whether a node may still run its sessions. Its own lease counts if it is longer, because it trusts itself for so long."""
        return node is not None and not NodeLease(self.now_ms, max(self.ms, node.lease_ms)).is_dead(node)


def check_take(
    wanted: TakeOver,
    top: StoredSession,
    claimed_by: str,
    node_of: Callable[[str], Node | None],
    lease: NodeLease,
) -> None:
    """Check that a node may take a tree, whose root may be reserved by a node. A reservation counts only while the owner is dead.

    Raises:
        HeldBy: As in `Store.take`.
    """
    is_moved = wanted.tail is not None and wanted.tail != top.tail
    if not is_moved and wanted.force:
        return
    for holder in (top.node, claimed_by):
        node = node_of(holder)
        if holder and not lease.is_dead(node, wanted.silent):
            if holder == wanted.node:
                break
            raise _held_by(top, holder, node, lease.now_ms)
    if is_moved:
        raise _held_by(top, top.node, node_of(top.node), lease.now_ms)


def _held_by(top: StoredSession, holder: str, node: Node | None, now: int) -> HeldBy:
    address, seen_at_ms = (node.address, node.seen_at_ms) if node else ("", now)
    return HeldBy(top.session, node=holder, address=address, seen_ago_ms=max(0, now - seen_at_ms))


def takeover_record(one: StoredSession, *, node: str, cause: Cause, engine: str, now: int) -> Record:
    """Return the `taken` record that gives a session to a node, under the next number and the next epoch."""
    draft = taken_draft(node=node, cause=cause, engine=engine, at_ms=now, events=one.events)
    tail = replace(one.tail, epoch=one.tail.epoch + 1)
    return sealed([draft], tail, scope=one.scope, session=one.session)[0][0]


# --- what is refused


def session_of_columns(row: Sequence[Any]) -> StoredSession:
    """Return the session with these columns, in the order of `SESSION_COLUMNS`."""
    return StoredSession(
        scope=row[0],
        session=SessionId(row[1]),
        root=SessionId(row[2]),
        parent=row[3],
        forked_from=None if row[4] is None else (SessionId(row[4]), row[5]),
        node=row[6],
        opened_at_ms=row[7],
        written_at_ms=row[8],
        first_seq=row[9],
        tail=Tail(seq=row[10], epoch=row[11], hash=row[12]),
        events=row[13],
        standing=Standing(
            is_working=bool(row[14]),
            has_ended=bool(row[15]),
            waits_for=row[16],
            due_at_ms=row[17],
            title=row[18],
        ),
        codec=row[19],
        deaths=row[20],
    )


def session_not_found(session: str, neighbours: Sequence[str]) -> SessionNotFound:
    """Return the error for an unknown id, which suggests similar ones among its neighbours in order."""
    nearest = difflib.get_close_matches(session[:_COMPARED], neighbours)
    like = f": is it {' or '.join(map(repr, nearest))}?" if nearest else ": search for it with `find`"
    return SessionNotFound(f"there is no session {session!r:.200}{like}", nearest=nearest)


def checked_root(there: StoredSession) -> StoredSession:
    """Return a session that is the root of its tree, or raise OptionError."""
    if there.root != there.session:
        fault = f"session {there.session!r} belongs to the tree of {there.root!r}: name that one instead"
        raise OptionError([fault])
    return there


def check_left(root: SessionId, tree: Iterable[Standing], owner: Node | None, lease: NodeLease) -> None:
    """Check that a tree has ended, or that its owner may not run it any more."""
    if owner is not None and any(not one.has_ended for one in tree) and lease.may_run(owner):
        raise StillNeeded(root, by=[f"node {owner.id}"])


def check_deletion(root: SessionId, forks: Iterable[str], written_at_ms: int, before_ms: int | None) -> None:
    """Check that no fork needs a tree, and that its last record is old enough."""
    if by := sorted(forks):
        raise StillNeeded(root, by=by)
    if before_ms is not None and written_at_ms >= before_ms:
        raise StillNeeded(root, by=[f"its own records: the last was written at {written_at_ms}"])


def check_trim(session: SessionId, before: int, last: int) -> None:
    """Check that the records before a number may be dropped, if the last has this number."""
    if before > last:
        fault = f"before is {repr_of(before)}, but session {session!r} ends at {last}: name a record of it"
        raise OptionError([fault])


def check_trim_has_snapshot(
    session: SessionId,
    before: int,
    snapshots: Iterable[StoredSnapshot],
    read: Callable[[int, int], Sequence[Record]],
) -> None:
    """Check that an intact snapshot replaces the records before a number. `read` returns so many records after a number."""
    for one in snapshots:
        record = read(one.seq - 1, 1) if one.seq >= before else ()
        is_of_this = bool(record) and (record[0].seq, record[0].hash) == (one.seq, one.hash)
        if is_of_this and one.check == hashlib.blake2b(one.hash + one.state, digest_size=16).digest():
            return
    fault = f"session {session!r} has no intact snapshot at record {before} or later: trim to a record that has one"
    raise OptionError([fault])


# --- allowances


def draw_allowance(full_at_ms: float, *, step_ms: float, limit_ms: float, now: int) -> SharedDraw:
    """Draw from an allowance that is full at a time. See `Store.take_allowance`. The answer's `full_at_ms` is to be stored."""
    # A draw leaves a later time only if the clock was set back since, or the burst was larger.
    start = max(min(full_at_ms, now + limit_ms + _SLACK_MS), float(now))
    is_allowed = start + step_ms <= now + limit_ms + _SLACK_MS
    return SharedDraw(
        is_allowed=is_allowed, full_at_ms=start + step_ms if is_allowed else start, now_ms=float(now)
    )
