"""Exports are read back bit for bit; one that was changed is refused, with the first record that is another one."""

import re

import msgspec
import pytest

from agentrail.core.journal.exports import ExportHead, encode_export, encode_sizes, read_export
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.journal.record import Draft, Tail, sealed, split_blobs
from agentrail.errors import CodecError, JournalCorrupt
from tests.core.journal.golden_journals import FOLDER
from tests.core.journal.recorded import SESSION, resealed

GOLDEN = sorted(FOLDER.rglob("*.jsonl"))
HEAD = ExportHead(session=SESSION, records=0, root=SESSION, scope="", title="Foxes", waits_for=2)
LARGE = "x" * 70_000 + "y"


def with_blobs():
    """A journal in which two records have one large value in common, and one has another."""
    blobs = {}
    drafts = []
    for at_ms, text in enumerate((LARGE, "small", LARGE, LARGE * 2)):
        body, large = split_blobs(msgspec.json.encode({"text": text}))
        blobs |= large
        drafts.append(Draft(at_ms=at_ms, kind="prompt", body=body))
    return sealed(drafts, Tail(), scope="", session=SESSION)[0], blobs


def exported(records, blobs=(), head=HEAD):
    known = dict(blobs)
    return b"".join(encode_export(head, records, known.get))


@pytest.mark.journal(24)
@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_what_was_exported_comes_back_bit_for_bit(file):
    """Records, hashes, and what the head says; also with an erased record in it."""
    records = read_journal(file.read_bytes()).records
    (found,) = read_export(exported(records))
    assert found.records == records
    assert found.head == msgspec.structs.replace(HEAD, records=len(records), hash=records[-1].hash.hex())
    assert exported(found.records, head=found.head) == exported(records)


@pytest.mark.journal(24)
def test_large_values_go_along_once():
    """In front of the first record that needs them."""
    records, blobs = with_blobs()
    text = exported(records, blobs)
    assert text.count(b'{"blob":') == len(blobs) == 2
    (found,) = read_export(text)
    assert (found.records, found.blobs) == (records, blobs)
    with pytest.raises(JournalCorrupt, match="record 1 is damaged"):
        exported(records, {})


@pytest.mark.journal(24)
@pytest.mark.parametrize("kept", [lambda records: records[1:], lambda records: records[:2] + records[3:]])
def test_a_damaged_journal_is_not_exported(kept):
    """No store could import the file: the error names the record instead."""
    records = kept(read_journal(GOLDEN[0].read_bytes()).records)
    with pytest.raises(JournalCorrupt) as raised:
        exported(records)
    assert (raised.value.session_id, raised.value.seq) == (SESSION, 1 if records[0].seq == 2 else 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("epoch", "events", "at_ms") for value in (-1, 2**63 - 1, 2**63, 2**70)),
        ("epoch", 0),
        ("at_ms", 253_402_300_800_000),
    ],
)
def test_a_number_that_no_session_reaches_is_refused(name, value):
    """Whoever writes a file can make its hashes fit, but a store keeps 64 bits, and a takeover and an event add 1. The year 10000 has no date."""
    records = read_journal(GOLDEN[0].read_bytes()).records[:3]
    text = exported(resealed(records, {3: {name: value}}) if name != "epoch" else records)
    if name == "epoch":  # an export itself refuses one that falls
        text = re.sub(rb'"epoch":\d+', b'"epoch":%d' % value, text)
    with pytest.raises(JournalCorrupt, match=rf"not a line of a journal: .*\$\.{name}"):
        read_export(text)


def test_any_changed_byte_is_noticed():
    """Whatever it is: refused, or of no meaning, so that the very same comes back."""
    records = read_journal(GOLDEN[0].read_bytes()).records[:6]
    text = exported(records)
    before = read_export(text)
    head_ends = text.index(b"\n")
    for place in range(head_ends + 1, len(text)):
        changed = bytearray(text)
        changed[place] ^= 1
        try:
            after = read_export(bytes(changed))
        except (JournalCorrupt, CodecError):
            continue
        assert after == before, place


def test_what_is_missing_or_changed_is_named():
    """A record, the end of a line, a large value, the last record; a changed value by the record that needs it."""
    records, blobs = with_blobs()
    text = exported(records, blobs)
    lines = text.splitlines(keepends=True)
    for spoilt, number in (
        (b"".join(lines[:-1]), 4),
        (text[:-5], 4),
        (b"".join(line for line in lines if not line.startswith(b'{"blob":')), 1),
        (b"".join((*lines[:3], *lines[4:])), 2),
        (exported(records[:3], blobs, HEAD).replace(records[2].hash.hex().encode(), b"00" * 16, 1), 3),
        (text.replace(b'xy"', b'xz"', 1), 1),
        (text.replace(b'{"blob":"', b'{"blob":', 1), 1),
    ):
        with pytest.raises(JournalCorrupt) as raised:
            read_export(spoilt)
        assert raised.value.seq == number


def test_what_is_no_export_is_refused():
    """The message says what it is."""
    for text, said in (
        (b"", "empty"),
        (b"hello\n", "expected the start of a session"),
        (b'{"agentrail_export":2,"session":"s","records":1,"root":"s"}\n', "version 2"),
        (b'{"session":"s","records":0,"root":"s"}\n', "no record"),
        (b'{"session":"s","records":1,"root":"s","content":false}\n', "without content"),
        (b'{"session":"s","records":1,"root":"s","due_at_ms":9223372036854775808}\n', "due_at_ms"),
        (b'{"session":"s","records":1,"root":"s","forked_from":["p",9223372036854775808]}\n', "forked_from"),
    ):
        with pytest.raises(CodecError, match=said):
            read_export(text)


@pytest.mark.journal(25)
@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_without_content_no_word_is_left(file):
    """Kinds, numbers, times and sizes; no text, no name of a tool, no hash of anything that was said."""
    records = read_journal(file.read_bytes()).records
    head = msgspec.structs.replace(HEAD, scope="canary-scope", hash="canary-hash")
    text = b"".join(encode_sizes(head, records))
    for canary in (b"fox", b"Foxes", b"canary", b"look", b"read", b"deploy", records[-1].hash.hex().encode()):
        assert canary not in text
    lines = [msgspec.json.decode(line) for line in text.splitlines()]
    assert [one["kind"] for one in lines[1:]] == [one.kind for one in records]
    assert [one["size_bytes"] for one in lines[1:]] == [len(one.body) for one in records]
    assert set(lines[1]) == {"seq", "epoch", "at_ms", "kind", "size_bytes", "events"}
    with pytest.raises(CodecError, match="without content"):
        read_export(text)
