"""What records come to: the state that was lived; and what is said of records that are missing, damaged, removed, or of other code."""

from types import MappingProxyType

import msgspec
import pytest

from agentrail.core.journal import record as rec
from agentrail.core.journal.fold import Sources, fold, fold_journal, rewound_state, walk
from agentrail.core.policy.budget import Budget
from agentrail.core.protocol import signals as s
from agentrail.core.protocol.request import EffectId
from agentrail.core.session.effect_owners import OfCall
from agentrail.core.session.fork import without_what_was_open
from agentrail.core.session.state import Phase
from agentrail.core.wire.codec import encode_signal
from agentrail.errors import CodecError, JournalCorrupt, OptionError
from agentrail.messages import CallId
from tests.core.drawn_lives import start_of, steps
from tests.core.journal.recorded import Life, Told, behind, folds_to_what_was_lived, plain_life, resealed
from tests.core.worlds import TOOLS, changed, new_session, prompt as prompted

LIFE = plain_life().life
RECORDS = tuple(LIFE.records)


def own(kind: str, body, events: int = 0) -> rec.Draft:
    return rec.Draft(at_ms=95, kind=kind, body=rec.encode_body(body), events=events)


def said(signal, does: str = "", events: int = 0) -> rec.Draft:
    """A record of a signal, with whatever stands beside it."""
    kind = msgspec.json.decode(encode_signal(signal))["kind"]
    return rec.Draft(at_ms=signal.at_ms, kind=kind, body=encode_signal(signal), does=does, events=events)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_lives_fold_to_what_they_were(seed):
    """Plugins, hosts, budgets, agents, recoveries: property_tests has the rest."""
    in_play = {"has_host": seed % 2 == 0, "gathers_context": seed % 3 > 0, "is_new": True}
    life = Life.begun(start_of(seed, **in_play))
    life.live_all(signal for signal, _, __ in steps(seed, 40, **in_play))
    folds_to_what_was_lived(life)


@pytest.mark.at(142)
def test_a_record_that_is_missing_is_named():
    """By the number that should stand there; also in front of a removed one, whose hash says nothing of what stood before it."""
    for number in range(1, len(RECORDS) - 1):
        without = (*RECORDS[: number - 1], *RECORDS[number:])
        with pytest.raises(JournalCorrupt, match=f"record {number} is damaged") as caught:
            fold_journal(without)
        assert caught.value.seq == number
        assert rec.first_broken(without) == number
    with pytest.raises(JournalCorrupt, match="record 1 is damaged"):
        fold_journal(())

    gone = RECORDS[6]
    body = rec.encode_body(rec.ErasedBody(number=7, hash=gone.hash.hex(), why="retention"))
    records = (*RECORDS[:5], msgspec.structs.replace(gone, kind="erased", body=body), *RECORDS[7:])
    with pytest.raises(JournalCorrupt, match="it is missing: found 7 in its place") as caught:
        fold_journal(records)
    assert caught.value.seq == rec.first_broken(records) == 6


@pytest.mark.at(142)
def test_a_record_that_is_damaged_is_named():
    """Whatever field was changed, in each fourth record and the last: what stands before it is sound."""
    changes = {
        "scope": "x",
        "session": "x",
        "epoch": 9,
        "at_ms": 10**9,
        "kind": "stop",
        "body": b"{ }",
        "does": "run_tool t9 shell",
        "events": 99,
        "hash": bytes(16),
    }
    for number in (*range(1, len(RECORDS), 4), len(RECORDS)):
        for name, value in changes.items():
            spoilt = list(RECORDS)
            spoilt[number - 1] = msgspec.structs.replace(RECORDS[number - 1], **{name: value})
            with pytest.raises(JournalCorrupt) as caught:
                fold_journal(spoilt)
            assert caught.value.seq == number, name
            assert rec.first_broken(spoilt) == number


def test_what_no_session_would_have_written_is_damage():
    """Anything else than `opened` at the beginning, or that once more; a rewind to nowhere, or one that cannot be read."""
    headless = resealed(RECORDS[:1], {1: {"kind": "closed"}})
    with pytest.raises(JournalCorrupt, match="it is 'closed', but a journal must begin with 'opened'"):
        fold_journal(headless)
    early = resealed(RECORDS[:1], {1: {"epoch": 0}})
    assert rec.first_broken(early) == 1
    with pytest.raises(JournalCorrupt, match="record 1"):
        fold_journal(early)
    stray = msgspec.structs.replace(RECORDS[0], session="t")
    with pytest.raises(JournalCorrupt, match=f"it opens '{RECORDS[0].session}' below"):
        fold_journal(resealed([stray], {}))
    again = behind(RECORDS, rec.Draft(at_ms=1, kind="opened", body=RECORDS[0].body))
    with pytest.raises(JournalCorrupt, match="a journal is opened only once, at its beginning"):
        fold_journal(again)

    for number in (0, -1, len(RECORDS) + 1, 99):
        records = behind(RECORDS, own("rewound", rec.RewoundBody(number=number)))
        said = f"it goes back to {number}: expected 1 to {len(RECORDS)}"
        with pytest.raises(JournalCorrupt, match=said):
            fold_journal(records)
    records = behind(RECORDS, rec.Draft(at_ms=1, kind="rewound", body=b"{}"))
    with pytest.raises(CodecError, match=f"record {len(records)} of session"):
        fold_journal(records)


def test_large_values_are_put_in_their_places():
    """The hash is that of what is stored; what is missing is told with the number."""
    session = Told(new_session(TOOLS))
    session.prompt("x" * 100)
    life, blobs = session.life, {}
    changes = {}
    for record in life.records:
        body, found = rec.split_blobs(record.body, 80)
        changes[record.seq] = {"body": body}
        blobs |= found
    stored = resealed(life.records, changes)
    assert len(blobs) >= 1
    assert fold_journal(stored, Sources(blob=blobs.get)).state == life.state
    with pytest.raises(CodecError, match=r"record 3 of session 's' \(prompt\): a large value is missing"):
        fold_journal(stored)


def test_of_ten_thousand_effects_only_those_that_are_open_are_kept():
    """A long journal names many."""
    named = "\n".join(f"run_tool t{number} read" for number in range(1_500))
    records = resealed(RECORDS, {3: {"does": named}})
    assert fold_journal(records).begun == fold_journal(RECORDS).begun != ()


@pytest.mark.journal(16)
def test_drift_is_told_with_the_first_record_and_the_fold_counts():
    """One event more in the new code: the number goes on from the larger of both; said once, it is no drift any more."""
    seq = LIFE.state.data.seq
    older = {record.seq: {"events": record.events - 1} for record in RECORDS[3:]}
    for number, record in enumerate(RECORDS[3:], 4):
        older[number]["does"] = record.does.replace("publish", "publish ")
    records = resealed(RECORDS, older)
    folded = fold_journal(records)
    assert folded.drift is not None
    first = next(record.seq for record in records if "publish  " in record.does)
    assert (folded.drift.first, folded.drift.what, folded.drift.events) == (first, "does", seq)
    assert str(folded.drift).startswith(f"record {folded.drift.first} (")
    assert folded.state.data.seq == seq
    noted = rec.DriftedBody(first=folded.drift.first, what=str(folded.drift), events=seq)
    settled = behind(records, own("drifted", noted, seq))
    again = fold_journal(settled)
    assert again.drift is None
    assert again.state == folded.state
    prompt = prompted("z", "?", at_ms=99)
    (*_, last) = walk(again.state, behind(settled, said(prompt))[len(settled) :], tail=again.tail)
    on = behind(settled, said(prompt, last.does, last.after.data.seq))
    assert fold_journal(on).drift is None
    assert fold_journal(on).state.data.seq > seq


def test_a_signal_that_crashes_newer_code_is_stepped_over_and_told():
    """It would have been put aside, had it come now; the session comes back all the same."""
    lost = EffectId("t99")
    opened = MappingProxyType({lost: OfCall(CallId("nowhere"))})  # no code of ours comes to such a state
    start = changed(LIFE.state, open=opened)
    done = s.ToolFinished(at_ms=99, effect_id=lost, text="?", started_at_ms=98)
    records = behind(RECORDS, said(done, "publish 3", start.data.seq))
    folded = fold(start, records[len(RECORDS) :], tail=LIFE.tail)
    assert (folded.drift.what, folded.drift.recorded) == ("crash", "publish 3")
    assert folded.drift.folded
    assert folded.state == start


@pytest.mark.journal(22)
def test_a_rewind_and_a_rewind_of_it_are_what_the_session_was_then():
    """Back to 10, on to 14, back to 5: the conversation of each; numbers of events and ids of effects only rise."""
    records, seq = list(RECORDS), LIFE.state.data.seq
    for number in (10, 14, 5):
        records = behind(records, own("rewound", rec.RewoundBody(number=number), seq))
        folded = fold_journal(records)
        then = fold_journal(records[:number]).state
        assert folded.drift is None
        closed = without_what_was_open(then, 0)
        assert folded.state.phase is Phase.IDLE
        assert folded.state.data.history == closed.data.history
        assert folded.state.data.queue == ()
        assert not folded.state.data.open
        assert folded.state.data.seq == seq
        assert folded.state.data.minted == LIFE.state.data.minted
        assert folded.state.data.usage == LIFE.state.data.usage
        assert folded.state.data.call_ids == LIFE.state.data.call_ids
    assert rec.first_broken(records) is None


def test_what_was_spent_is_spent_also_behind_a_rewind():
    """A session cannot rewind itself out of its budget; what is promised is what was promised then."""
    session = Told(new_session(TOOLS, budget=Budget(max_total_tokens=500_000), max_output_tokens=20))
    start = session.life.state
    session.prompt()
    session.complete("It is a fox.")
    now = session.life.state
    assert now.data.ledger.spent_tokens > 0
    back = rewound_state(now, start, 9)
    assert back.data.ledger.spent_tokens == now.data.ledger.spent_tokens
    assert back.data.ledger.open == start.data.ledger.open
    plain = rewound_state(LIFE.state, LIFE.states[3], 9)
    assert plain.data.ledger is None


def test_a_rewind_in_front_of_what_is_folded_asks_for_the_state():
    """As behind a snapshot; without it the caller is told what to do."""
    records = behind(RECORDS, own("rewound", rec.RewoundBody(number=3), LIFE.state.data.seq))
    rest, tail = records[8:], rec.tail_of(records[:8])
    with pytest.raises(OptionError, match=r"goes back to 3, .* give state_at"):
        fold(LIFE.states[8], rest, tail=tail)
    folded = fold(LIFE.states[8], rest, tail=tail, sources=Sources(state_at=LIFE.states.__getitem__))
    assert folded.state == fold_journal(records).state
    to_the_edge = behind(RECORDS, own("rewound", rec.RewoundBody(number=8), LIFE.state.data.seq))
    assert fold(LIFE.states[8], to_the_edge[8:], tail=tail).state == fold_journal(to_the_edge).state
