"""What stays of a journal whose content is removed: of each record number, time, kind, length and hash, so that the chain goes on. Pure.

A journal is erased whole. What was said once goes into each request behind it, into summaries and into the words of the model, so no
search for a text finds all that came of it. Whose journals these are is decided elsewhere.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from agentrail.core.journal.record import (
    CLOSED,
    ERASED,
    ClosedBody,
    Draft,
    ErasedBody,
    Record,
    Tail,
    encode_body,
    sealed,
)

USER_FORGOTTEN: Final = "user forgotten"
"""Why, where a user is forgotten."""


def erased_record(record: Record, why: str) -> Record:
    """Give what stands in place of a record from now on; one that was erased before stays as it is."""
    if record.kind == ERASED:
        return record
    body = ErasedBody(
        number=record.seq,
        hash=record.hash.hex(),
        why=why,
        kind=record.kind,
        length=len(record.body) + len(record.does.encode()),
    )
    return msgspec.structs.replace(record, kind=ERASED, body=encode_body(body), does="")


def closing_record(last: Record, why: str, at_ms: int) -> Record:
    """Give the record that ends a journal which is erased: of a higher epoch, so that an old owner who wakes can add nothing to it."""
    tail = Tail(seq=last.seq, epoch=last.epoch + 1, hash=last.hash)
    draft = Draft(at_ms=at_ms, kind=CLOSED, body=_closing_body(why), events=last.events)
    return sealed([draft], tail, scope=last.scope, session=last.session)[0][0]


def is_erased(end: Sequence[Record], why: str) -> bool:
    """Say whether all of a journal was erased before, for this reason."""
    # What `closed` says alone is no proof: a session may have been stopped with these very words.
    *before, last = end[-2:]
    is_behind_erased = bool(before) and before[0].kind == ERASED
    return is_behind_erased and last.kind == CLOSED and last.body == _closing_body(why)


def _closing_body(why: str) -> bytes:
    return encode_body(ClosedBody(reason=why))
