"""Journals as text: bit for bit, and of a spoilt one as much as is sound."""

import json

import msgspec
import pytest

from agentrail.core.journal.jsonl import decode_line, encode_journal, encode_line, read_journal
from agentrail.core.journal.record import tail_of
from agentrail.errors import CodecError
from tests.core.journal.golden_journals import FOLDER

PLAIN = (FOLDER / "plain.jsonl").read_bytes()
RECORDS = read_journal(PLAIN).records


@pytest.mark.at(142)
def test_a_journal_that_ends_anywhere_opens_up_to_its_last_whole_record():
    """Every byte: a torn line is what a writer leaves that was stopped."""
    ends = [place for place, byte in enumerate(PLAIN) if byte == ord("\n")]
    for length in range(len(PLAIN) + 1):
        read = read_journal(PLAIN[:length])
        assert read.damaged is None
        assert read.records == RECORDS[: sum(end < length for end in ends)]


@pytest.mark.at(142)
@pytest.mark.parametrize("mask", [0x01, 0x20])
def test_a_byte_that_is_another_one_is_found(mask):
    """Every byte: what stands before its record is sound, and its number is told; no spoilt record is ever taken for a sound one."""
    lines = PLAIN.splitlines(keepends=True)
    begin = 0
    for number, line in enumerate(lines, 1):
        # From the line in front of it on: what stands before that is not touched.
        tail = tail_of(RECORDS[: max(number - 2, 0)])
        front, behind = b"".join(lines[max(number - 2, 0) : number - 1]), b"".join(lines[number : number + 1])
        sound = RECORDS[max(number - 2, 0) : number + 1]
        for place in range(len(line)):
            spoilt = bytearray(line)
            spoilt[place] ^= mask
            read = read_journal(front + bytes(spoilt) + behind, tail)
            assert read.records == sound[: len(read.records)], (number, place)
            if len(read.records) < len(sound):
                is_torn = number == len(lines) and place == len(line) - 1
                assert is_torn or read.damaged.seq in {number, number + 1}, (number, place)
        begin += len(line)
    assert begin == len(PLAIN)


def test_what_is_no_line_is_refused():
    """One of another journal, although its own hash would fit; and of a newer version, which may mean something else."""
    other = msgspec.structs.replace(RECORDS[3], session="other")
    read = read_journal(encode_journal((*RECORDS[:3], other, *RECORDS[4:])))
    assert (read.records, read.damaged.seq) == (RECORDS[:3], 4)

    line = json.loads(encode_line(RECORDS[0]))
    odd = (json.dumps(line | one).encode() for one in ({"mood": 1}, {"hash": "xyz"}))
    for wrong in (b"", b"[]", b"{", *odd):
        with pytest.raises(CodecError, match="not a line of a journal"):
            decode_line(wrong)
    with pytest.raises(CodecError, match="it is of version 4, and this version reads 1 to 3"):
        decode_line(json.dumps(line | {"version": 4}).encode())
