"""Journals for tests of stores: openings, and appends that follow on what a store has."""

import hashlib

from agentrail.abc.store import Append, Opening, StoredSnapshot
from agentrail.core.journal.record import Draft, Tail, sealed


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now=1_000_000):
        self.now = now

    def __call__(self):
        return self.now


def drafts(*bodies, kind="prompt", events=0):
    return [Draft(at_ms=1, kind=kind, body=body.encode(), does="reply", events=events) for body in bodies]


def opening(session="s", *, scope="", node="n1", root=None, more=(), **rest):
    first = Draft(at_ms=1, kind="opened", body=b"{}")
    records, _ = sealed([first, *drafts(*more)], Tail(), scope=scope, session=session)
    return Opening(records=records, root=root or session, node=node, **rest)


def following(tail, *bodies, session="s", events=0, **rest):
    records, after = sealed(drafts(*bodies, events=events), tail, scope="", session=session)
    return Append(records=records, **rest), after


def snapshot_of(record, state=b"state"):
    """A sound snapshot of what stands behind a record."""
    check = hashlib.blake2b(record.hash + state, digest_size=16).digest()
    return StoredSnapshot(
        scope=record.scope, session=record.session, seq=record.seq, hash=record.hash, state=state, check=check
    )
