"""A record: one line of a session's journal, numbered without gaps and chained to the one before it by a hash. Pure.

Only the form stands here. What is recorded is decided in `recording`, and what it comes to in `folding`.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from agentrail.messages import SessionId

RECORD_VERSION: Final = 3
"""Of the form of a record, and of all bodies. In version 1 bodies of signals were longer: see `signal_bodies`. Since version 3 a
`drifted` record holds a state."""

OPENED: Final = "opened"
HEARD: Final = "heard"
TAKEN: Final = "taken"
CHANGED: Final = "changed"
DRIFTED: Final = "drifted"
REWOUND: Final = "rewound"
CLOSED: Final = "closed"
ERASED: Final = "erased"

OWN_KINDS: Final = frozenset({OPENED, HEARD, TAKEN, CHANGED, DRIFTED, REWOUND, CLOSED, ERASED})
"""Records that are no signals of that name; every other kind is the tag of a signal."""

NO_HASH: Final = bytes(16)
"""What the first record of a journal is chained to."""


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record. `scope`, `session` and `seq` are its key.

    Attributes:
        scope: Of the session; empty for one without.
        session: Whose journal it is in.
        seq: Its number, from 1, without gaps.
        epoch: How often the session had been taken over when it was written; 1 for its first owner.
        at_ms: When, on the clock of signals; of a `taken` on the clock of the store.
        kind: One of `OWN_KINDS`, or the tag of a signal.
        body: A JSON object, UTF-8, without a line break.
        does: What the step decided, as `outline` writes it: one line for each effect that is not ephemeral.
        events: The number of the last event behind this step.
        hash: BLAKE2b-128 over the hash of the record before and over this one.
    """

    scope: str
    session: SessionId
    seq: int
    epoch: int
    at_ms: int
    kind: str
    body: bytes
    does: str = ""
    events: int = 0
    hash: bytes = NO_HASH


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a record says, before it has a number, an owner and a hash. Fields are those of `Record`."""

    at_ms: int
    kind: str
    body: bytes
    does: str = ""
    events: int = 0


class Tail(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a journal ends.

    Attributes:
        seq: The number of its last record; 0 for one without.
        epoch: The epoch to write with.
        hash: The hash of its last record.
    """

    seq: int = 0
    epoch: int = 1
    hash: bytes = NO_HASH


def hash_of(before: bytes, record: Record) -> bytes:
    """Give the hash that belongs into a record. What `hash` holds already does not count.

    Each part is written with its length, so that no two records give one text.

    Args:
        before: The hash of the record before it; `NO_HASH` for the first.
        record: Any.
    """
    scope, session, kind = record.scope.encode(), record.session.encode(), record.kind.encode()
    body, does = record.body, record.does.encode()
    numbers = (
        f"{record.seq} {record.epoch} {record.at_ms} {record.events} "
        f"{len(scope)} {len(session)} {len(kind)} {len(body)} {len(does)}\n"
    )
    text = b"".join((before, numbers.encode(), scope, session, kind, body, does))
    return hashlib.blake2b(text, digest_size=16).digest()


def fits_behind(before: bytes, record: Record) -> bool:
    """Say whether the hash of a record belongs to it, behind this one.

    An `erased` one has the hash of what stood there, as its own and in its body: the chain goes on over it.
    """
    if record.kind == ERASED:
        return record.hash.hex().encode() in record.body
    return record.hash == hash_of(before, record)


def sealed(
    drafts: Iterable[Draft], tail: Tail, *, scope: str, session: SessionId
) -> tuple[tuple[Record, ...], Tail]:
    """Number drafts, and chain them to the end of a journal.

    Args:
        drafts: In order.
        tail: Where the journal ends, and the epoch to write with.
        scope: Of the session.
        session: Its id.

    Returns:
        The records, and where the journal ends with them.
    """
    records: list[Record] = []
    seq, last = tail.seq, tail.hash
    for draft in drafts:
        seq += 1
        record = Record(
            scope=scope,
            session=session,
            seq=seq,
            epoch=tail.epoch,
            at_ms=draft.at_ms,
            kind=draft.kind,
            body=draft.body,
            does=draft.does,
            events=draft.events,
        )
        last = hash_of(last, record)
        records.append(msgspec.structs.replace(record, hash=last))
    return tuple(records), Tail(seq=seq, epoch=tail.epoch, hash=last)


def first_broken(records: Iterable[Record], tail: Tail = Tail()) -> int | None:  # noqa: B008 - frozen
    """Give the number of the first record that does not fit behind the one before it; None when all do.

    Args:
        records: In order.
        tail: What they stand behind. Its epoch is not looked at.

    Returns:
        The number that should have stood there: of a record whose hash, number or epoch is not right.
    """
    seq, epoch, last = tail.seq, 0, tail.hash
    for record in records:
        seq += 1
        if record.seq != seq or record.epoch < epoch or not fits_behind(last, record):
            return seq
        epoch, last = record.epoch, record.hash
    return None


def tail_of(records: Iterable[Record], tail: Tail = Tail()) -> Tail:  # noqa: B008 - frozen
    """Say where a journal ends that has these records behind this tail."""
    for record in records:
        tail = Tail(seq=record.seq, epoch=record.epoch, hash=record.hash)
    return tail


class TakenBody(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a `taken` record says.

    Attributes:
        node: Who took the session over.
        cause: Why: `start`, `lease_over`, `gone` or `drain`.
        engine: The version of agentrail that does.
        version: Of this form.
    """

    node: str
    cause: str
    engine: str = ""
    version: int = RECORD_VERSION


def taken_draft(*, node: str, cause: str, engine: str, at_ms: int, events: int) -> Draft:
    """Make the record of a new owner; a store seals it, with an epoch one higher.

    Args:
        node: As of `TakenBody`.
        cause: As of `TakenBody`.
        engine: As of `TakenBody`.
        at_ms: Now, on the clock of the store.
        events: Of the last record.
    """
    body = TakenBody(node=node, cause=cause, engine=engine)
    return Draft(at_ms=at_ms, kind=TAKEN, body=msgspec.json.encode(body), events=events)
