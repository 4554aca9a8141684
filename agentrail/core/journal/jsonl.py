"""A journal as text: one line of JSON per record, readable by other tools, and decoded bit for bit. Pure: bytes in and out."""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from agentrail.core.journal.record import NO_HASH, RECORD_VERSION, Record, Tail, fits_behind
from agentrail.errors import CodecError, JournalCorrupt
from agentrail.messages import SessionId
from agentrail.structs import MAX_SAFE_NUMBER, CalendarTime, SafeNumber, Value, decoder_of, struct_from


class _Line(Value, frozen=True, kw_only=True):
    """A record as a line: its body is part of the JSON, its hash hexadecimal."""

    version: int
    scope: str
    session: SessionId
    seq: SafeNumber
    epoch: Annotated[int, Meta(ge=1, le=MAX_SAFE_NUMBER)]
    at_ms: CalendarTime
    kind: str
    body: Raw
    does: str
    events: SafeNumber
    hash: str


_LINES: Final = decoder_of(_Line)


class ReadJournal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of reading a journal's text.

    Attributes:
        damaged: The error that ends them early. None if the text is complete, or only its last line is torn.
    """

    records: tuple[Record, ...]
    damaged: JournalCorrupt | None = None


def encode_line(record: Record) -> bytes:
    """Encode a record as one line of JSON, with a line break at its end."""
    body, digest = Raw(record.body), record.hash.hex()
    line = struct_from(_Line, record, version=RECORD_VERSION, body=body, hash=digest)
    return msgspec.json.encode(line) + b"\n"


def decode_line(text: bytes) -> Record:
    """Decode the output of `encode_line`. Its hash is not checked."""
    try:
        line = _LINES.decode(text)
        digest = bytes.fromhex(line.hash)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors too
        message = f"not a line of a journal: {error}"
        raise CodecError(message, path="$") from error
    if not 1 <= line.version <= RECORD_VERSION:
        message = f"not a line of a journal: it is of version {line.version}, and this version reads 1 to {RECORD_VERSION}"
        raise CodecError(message, path="$.version")
    return struct_from(Record, line, body=bytes(line.body), hash=digest)


def encode_journal(records: Iterable[Record]) -> bytes:
    return b"".join(map(encode_line, records))


def read_journal(text: bytes, tail: Tail = Tail()) -> ReadJournal:  # noqa: B008 - frozen
    """Decode the output of `encode_journal`, up to the first damaged line."""
    whole = text.rpartition(b"\n")[0]
    records: list[Record] = []
    session, epoch, seq, last = SessionId(""), 0, tail.seq, tail.hash if tail.seq else NO_HASH
    for line in whole.split(b"\n") if whole else ():
        seq += 1
        try:
            record = decode_line(line)
        except CodecError as error:
            return _ending(records, JournalCorrupt(session, seq, why=str(error)))
        session = session or record.session
        fits = record.seq == seq and record.epoch >= epoch and fits_behind(last, record)
        if not fits or record.session != session:
            return _ending(records, JournalCorrupt(session, seq))
        records.append(record)
        epoch, last = record.epoch, record.hash
    return ReadJournal(records=tuple(records))


def _ending(records: list[Record], damaged: JournalCorrupt) -> ReadJournal:
    return ReadJournal(records=tuple(records), damaged=damaged)
