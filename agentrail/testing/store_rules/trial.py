"""Tools for testing rules of stores: a store, the means to let time pass, and owners that write journals."""

import hashlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

from attrs import field, frozen

from agentrail.abc.store import Append, Opening, Store, StoredSession, StoredSnapshot
from agentrail.core.journal.record import OPENED, Draft, Record, Tail, first_broken, sealed
from agentrail.errors import Fenced, JournalBehind
from agentrail.messages import SessionId
from agentrail.testing.faulty_store import CutStore, DecideCut
from agentrail.testing.rule_failures import expect_same

E = TypeVar("E", Fenced, JournalBehind)

OpenCut: TypeAlias = Callable[[Store, DecideCut], Store]

LOCAL_CUT: Final = cast("OpenCut", CutStore)  # it takes its methods from the store

AT_MS: Final = 1_790_000_000_000
"""Time of all writes, on the clock of signals."""


class Author:
    def __init__(self, session: str = "s", *, scope: str = "", tail: Tail | None = None) -> None:
        """Write a journal from its beginning, or continue after a tail."""
        self.session: SessionId = SessionId(session)
        self.scope: str = scope
        self.tail: Tail = tail or Tail()
        self.records: list[Record] = []

    def seal(self, *drafts: Draft) -> tuple[Record, ...]:
        records, self.tail = sealed(drafts, self.tail, scope=self.scope, session=self.session)
        self.records += records
        return records

    def opening(self, *bodies: str, root: str | None = None, node: str = "n1", **rest: Any) -> Opening:
        """Return the beginning of its journal: `opened`, and a record for each body. Further fields are those of `Opening`."""
        first = Draft(at_ms=AT_MS, kind=OPENED, body=b'{"version":1}')
        records = self.seal(first, *(_draft(body) for body in bodies))
        return Opening(records=records, root=SessionId(root or self.session), node=node, **rest)

    def write(self, *bodies: str, events: int = 0, **rest: Any) -> Append:
        return Append(records=self.seal(*(_draft(body, events) for body in bodies)), **rest)


def _draft(body: str, events: int = 0) -> Draft:
    return Draft(at_ms=AT_MS, kind="prompt", body=body.encode(), does=f"reply {body[:9]}", events=events)


@frozen
class StoreTrial:
    """A new, empty store, with the other needs of a rule.

    Attributes:
        reopen: Closes a store and opens its stored data again. None if it stores nothing.
    """

    store: Store
    make: Callable[[], Store]
    pass_lease: Callable[[], None]
    reopen: Callable[[Store], Store] | None = None
    cut: OpenCut = field(default=LOCAL_CUT)

    def begin(self, session: str = "s", *bodies: str, scope: str = "", **rest: Any) -> Author:
        author = Author(session, scope=scope)
        self.store.create(author.opening(*bodies, **rest))
        return author

    def stored(self, session: str, scope: str = "") -> StoredSession:
        """Return the stored data of a session that must exist."""
        found = self.store.get(scope, SessionId(session))
        assert found is not None, f"session {session!r} does not exist"
        return found

    def records(self, session: str, scope: str = "") -> tuple[Record, ...]:
        """Return all records of a session, which must be numbered without gaps and chained."""
        records = self.store.read(scope, SessionId(session))
        expect_same(first_broken(records), None, f"the first number of {session!r} that does not fit")
        return records

    def keep(self, *batch: Append) -> None:
        """Append a batch that must be accepted."""
        expect_same(self.store.append(batch), (None,) * len(batch), "the answer to appends that fit")

    def refuse(self, *batch: Append) -> tuple[Fenced, ...]:
        """Append a batch that must be refused as that of an old owner."""
        return self._refused(Fenced, *batch)

    def find_behind(self, *batch: Append) -> tuple[JournalBehind, ...]:
        """Append a batch that must be refused because the store lacks earlier records."""
        return self._refused(JournalBehind, *batch)

    def _refused(self, kind: type[E], *batch: Append) -> tuple[E, ...]:
        answers = self.store.append(batch)
        expect_same(len(answers), len(batch), "the number of answers")
        refused = tuple(one for one in answers if isinstance(one, kind))
        expect_same(
            len(refused), len(batch), f"the number of appends refused as {kind.__name__} among {answers}"
        )
        return refused

    def expect_journal(self, author: Author) -> None:
        """Check that the store has exactly the written records, byte for byte."""
        expect_same(self.records(author.session, author.scope), tuple(author.records), "the journal")
        expect_same(self.stored(author.session, author.scope).tail, author.tail, "the end of the journal")


def snapshot_behind(record: Record, state: bytes = b'{"a":1}') -> StoredSnapshot:
    """Return a sound snapshot of the state after a record."""
    check = hashlib.blake2b(record.hash + state, digest_size=16).digest()
    return StoredSnapshot(
        scope=record.scope, session=record.session, seq=record.seq, hash=record.hash, state=state, check=check
    )


def blob_name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def session_ids(found: tuple[StoredSession, ...]) -> list[str]:
    """Return the ids of sessions, in order."""
    return [one.session for one in found]
