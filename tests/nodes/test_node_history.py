"""The history check of `make crash-nodes` notices each broken promise."""

import msgspec
import pytest

from agentrail.core.journal.record import TakenBody
from scripts.crash_nodes_history import LedgerLine, StoredRecord, history_faults, takeover_times


def stored(seq, epoch=1, *, session="s", node="", cause="gone"):
    """A record, a `taken` one if it has a node."""
    body = msgspec.json.encode(TakenBody(node=node, cause=cause)) if node else b""
    kind = "taken" if node else "prompt"
    return StoredRecord(session=session, seq=seq, epoch=epoch, at_ms=1_000 * seq, kind=kind, body=body)


def ran(operation="op", **given):
    usual = {"node": "a", "session": "s", "epoch": 1, "tool": "charge", "at_ms": 1_500}
    return LedgerLine(operation=operation, **usual | given)


WHOLE = [stored(1), stored(2), stored(3, 2, node="b"), stored(4, 2)]


def test_a_whole_history_has_no_fault():
    """Dense numbers, an owner per epoch and tools of their owners: nothing is wrong. An idempotent tool may run again."""
    again = [ran("note", tool="store_note"), ran("note", tool="store_note", epoch=2, node="b", at_ms=3_500)]
    assert history_faults(WHOLE, [ran(), *again]) == []


@pytest.mark.parametrize(
    ("records", "ledger", "fault"),
    [
        ([stored(1), stored(3)], [], "not dense"),
        ([stored(2), stored(3)], [], "not dense"),
        ([*WHOLE, stored(5, 1)], [], "the epoch falls from 2 to 1"),
        ([stored(1), stored(2, 2)], [], "is no `taken`"),
        ([*WHOLE, stored(5, 2, node="c")], [], "epoch 2 has a second owner, c"),
        (WHOLE, [ran(), ran(epoch=2, node="b", at_ms=3_500)], "`once` and ran 2 times"),
        (WHOLE, [ran("1"), ran("2", node="b")], "which is the epoch of a"),
        (WHOLE, [ran(at_ms=3_300)], "300 ms after epoch 2 began"),
        (WHOLE, [ran(session="t")], "is not stored"),
    ],
)
def test_each_broken_promise_is_named(records, ledger, fault):
    """A gap, a falling epoch, a second owner, a second run or a late run is reported, and nothing else is."""
    (found,) = history_faults(records, ledger)
    assert fault in found


def test_a_takeover_is_the_first_take_from_a_dead_owner():
    """The time of a takeover counts from the fault to the first take because of it. Other sessions, causes and times do not count."""
    records = [
        stored(3, 2, node="b"),
        stored(9, 3, node="c"),
        stored(3, 2, session="t", node="b", cause="drain"),
    ]
    assert takeover_times(records, ["s", "t", "u"], 1_000, 8_000) == {"s": 2.0}
    assert takeover_times(records, ["s"], 4_000, 8_000) == {}
