"""A journal without its content: each record keeps its number, time, kind, length and hash, so the chain stays valid. Pure."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

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
"""The reason when a user is forgotten."""


def erased_record(record: Record, why: str) -> Record:
    """Return the record that replaces a record from now on. An erased one stays as it is."""
    if record.kind == ERASED:
        return record
    body = ErasedBody(
        number=record.seq,
        hash=record.hash.hex(),
        why=why,
        kind=record.kind,
        length=len(record.body) + len(record.does.encode()),
    )
    return replace(record, kind=ERASED, body=encode_body(body), does="")


def closing_record(last: Record, why: str, at_ms: int) -> Record:
    """Return the last record of an erased journal. Its higher epoch keeps an old owner that wakes from adding to it."""
    tail = Tail(seq=last.seq, epoch=last.epoch + 1, hash=last.hash)
    draft = Draft(at_ms=at_ms, kind=CLOSED, body=_closing_body(why), events=last.events)
    return sealed([draft], tail, scope=last.scope, session=last.session)[0][0]


def is_erased(end: Sequence[Record], why: str) -> bool:
    """Return whether a whole journal was erased before, for this reason."""
    # The `closed` body alone is no proof: a session may have been stopped with the same words.
    *before, last = end[-2:]
    is_behind_erased = bool(before) and before[0].kind == ERASED
    return is_behind_erased and last.kind == CLOSED and last.body == _closing_body(why)


def _closing_body(why: str) -> bytes:
    return encode_body(ClosedBody(reason=why))
