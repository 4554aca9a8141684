"""Journals as a file that another store imports bit for bit, or as a summary without content. Pure: bytes in and out."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec.structs import replace

from agentrail.core.journal.jsonl import decode_line, encode_line
from agentrail.core.journal.record import NO_HASH, Record, blobs_of, first_broken, fits_behind
from agentrail.errors import CodecError, JournalCorrupt
from agentrail.messages import SessionId
from agentrail.structs import SafeNumber, Value, decoder_of, struct_from

EXPORT_VERSION: Final = 1

EXPORT_BEGINS: Final = b'{"agentrail_export":'
"""The beginning of a file of exported sessions, of any version."""


class ExportHead(Value, frozen=True, kw_only=True):
    """The head of a session in an export.

    Attributes:
        hash: Hash of the last record, hexadecimal. Empty without content.
        forked_from: The session that it is a fork of, and the record number. None for none.
        due_at_ms: Time of its next timer, in milliseconds since 1970. None without one.
    """

    agentrail_export: int = EXPORT_VERSION
    session: SessionId
    records: int
    hash: str = ""
    scope: str = ""
    root: SessionId
    parent: str = ""
    forked_from: tuple[SessionId, SafeNumber] | None = None
    is_working: bool = False
    has_ended: bool = False
    waits_for: SafeNumber = 0
    # A time limit may be as long as the column of a store can hold.
    due_at_ms: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    title: str = ""
    content: bool = True


_HEADS: Final = decoder_of(ExportHead)


class _Blob(Value, frozen=True):
    blob: str
    text: str


_BLOBS: Final = decoder_of(_Blob)


class _Size(Value, frozen=True, kw_only=True):
    """A record without content."""

    seq: int
    epoch: int
    at_ms: int
    kind: str
    size_bytes: int
    events: int


class ExportedSession(Value, frozen=True, kw_only=True):
    """One session of an export that was read.

    Attributes:
        blobs: The large values of its records, by their SHA-256.
    """

    head: ExportHead
    records: tuple[Record, ...]
    blobs: dict[str, bytes]


def encode_export(
    head: ExportHead, records: Sequence[Record], blob: Callable[[str], bytes | None]
) -> Iterator[bytes]:
    if (broken := first_broken(records)) is not None:  # no store could import it
        raise JournalCorrupt(head.session, broken)
    last = records[-1].hash.hex() if records else ""
    yield _line(replace(head, records=len(records), hash=last))
    told: set[str] = set()
    for record in records:
        for digest in sorted(blobs_of(record.body) - told):
            content = blob(digest)
            if content is None:
                raise JournalCorrupt(record.session, record.seq, why=f"its large value {digest} is missing")
            told.add(digest)
            yield _line(_Blob(digest, content.decode()))
        yield encode_line(record)


def encode_sizes(head: ExportHead, records: Sequence[Record]) -> Iterator[bytes]:
    """Encode a session without content: only kinds, numbers, times and sizes."""
    bare = replace(head, records=len(records), hash="", scope="", title="", content=False)
    yield _line(bare)
    for record in records:
        yield _line(struct_from(_Size, record, size_bytes=len(record.body)))


def read_export(text: bytes) -> tuple[ExportedSession, ...]:
    lines = text.split(b"\n")
    if lines.pop():
        lines.append(b"{")  # the last line is torn, and this makes it unreadable
    found: list[ExportedSession] = []
    place = 0
    while place < len(lines):
        head = _head_of(lines[place])
        session, place = _session_of(head, lines, place + 1)
        found.append(session)
    if not found:
        _refuse("it is empty")
    return tuple(found)


def _session_of(head: ExportHead, lines: Sequence[bytes], place: int) -> tuple[ExportedSession, int]:
    records: list[Record] = []
    blobs: dict[str, bytes] = {}
    before, epoch = NO_HASH, 0
    while len(records) < head.records:
        seq = len(records) + 1
        if place >= len(lines):
            raise JournalCorrupt(head.session, seq, why="it is missing")
        line = lines[place]
        place += 1
        if line.startswith(b'{"blob":'):
            _keep_blob(line, blobs, head.session, seq)
            continue
        try:
            record = decode_line(line)
        except CodecError as error:
            raise JournalCorrupt(head.session, seq, why=str(error)) from error
        fits = record.seq == seq and record.epoch >= epoch and fits_behind(before, record)
        if not fits or (record.scope, record.session) != (head.scope, head.session):
            raise JournalCorrupt(head.session, seq)
        missing = blobs_of(record.body) - blobs.keys()
        if missing:
            raise JournalCorrupt(head.session, seq, why=f"its large value {min(missing)} is missing")
        records.append(record)
        before, epoch = record.hash, record.epoch
    if before.hex() != head.hash:
        raise JournalCorrupt(head.session, head.records, why="it is not the last one that was exported")
    return ExportedSession(head=head, records=tuple(records), blobs=blobs), place


def _head_of(line: bytes) -> ExportHead:
    try:
        head = _HEADS.decode(line)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors too
        _refuse(f"expected the start of a session ({error})")
    if head.agentrail_export != EXPORT_VERSION:
        _refuse(f"it is of version {head.agentrail_export}, and this version reads {EXPORT_VERSION}")
    if not head.content:
        _refuse("it was exported without content, so it cannot be continued: export it with content")
    if head.records < 1:
        _refuse("one of its sessions has no records")
    return head


def _keep_blob(line: bytes, blobs: dict[str, bytes], session: SessionId, seq: int) -> None:
    try:
        one = _BLOBS.decode(line)
    except (ValueError, RecursionError) as error:
        raise JournalCorrupt(session, seq, why=f"one of its large values cannot be read ({error})") from error
    content = one.text.encode()
    if hashlib.sha256(content).hexdigest() != one.blob:
        raise JournalCorrupt(session, seq, why=f"its large value {one.blob:.64} is not the recorded one")
    blobs[one.blob] = content


def _line(value: Value) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _refuse(why: str) -> NoReturn:
    message = f"not an export of a session: {why}"
    raise CodecError(message, path="$")
