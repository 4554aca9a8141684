"""What people have on disk stays what it is: stored journals are read, folded and replayed by this version."""

import json

import pytest

from agentrail.core.journal.fold import fold, fold_journal
from agentrail.core.journal.jsonl import encode_journal, read_journal
from agentrail.core.journal.record import OWN_KINDS, decode_erased, first_broken, tail_of
from agentrail.core.journal.replay import replay, state_at, where_they_part
from agentrail.core.protocol.signals import Recovered
from agentrail.core.session.state import SEMANTICS
from agentrail.errors import Erased
from tests.core.journal.golden_journals import FOLDER, JOURNALS, SOURCES
from tests.core.journal.recorded import Life

STORED = sorted(FOLDER.rglob("*.jsonl"))
WITHOUT = {"erased", "forgotten"}
WHOLE = [file for file in STORED if file.stem not in WITHOUT]


def test_todays_code_writes_the_newest_file():
    """What goes to disk changes only together with the file that shows it: `python -m tests.core.journal.golden_journals`."""
    for name, records in JOURNALS.items():
        assert (FOLDER / f"{name}.jsonl").read_bytes() == encode_journal(records()), name
    kinds = {json.loads(line)["kind"] for file in STORED for line in file.read_bytes().splitlines()}
    assert kinds >= OWN_KINDS  # all that is no signal stands in one of them


@pytest.mark.parametrize("file", WHOLE, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_stored_journal_is_sound_and_folds_without_drift(file):
    """Also that of an older version: the same events and decisions, and the same end from whatever number one stops at."""
    read = read_journal(file.read_bytes())
    records = read.records
    assert read.damaged is None
    assert first_broken(records) is None
    folded = fold_journal(records, SOURCES)
    assert folded.drift is None
    assert replay(records, SOURCES).difference is None
    assert replay(records, SOURCES).state == folded.state

    back = type(SOURCES)(resolve=SOURCES.resolve, state_at=lambda number: state_at(records, number, SOURCES))
    for number in range(3, len(records)):
        then, tail = state_at(records, number, SOURCES), tail_of(records[:number])
        rest = fold(then, records[number:], tail=tail, sources=back)
        assert rest.state.data.history == folded.state.data.history
        assert rest.state.data.seq == folded.state.data.seq


def test_a_journal_of_version_1_says_the_same_and_goes_on_in_version_2():
    """Its bodies are longer and its hashes others, and record for record it comes to the same; one journal may have both, in one chain of hashes."""
    for name in ("plain", "guarded", "taken_over"):
        old, new = (
            read_journal((folder / f"{name}.jsonl").read_bytes()).records
            for folder in (FOLDER / "v1", FOLDER / "semantics_0")
        )
        assert where_they_part(old, new, SOURCES) is None
        short, long = (sum(len(one.body) for one in some if one.kind != "drifted") for some in (new, old))
        assert short < long

    old = read_journal((FOLDER / "v1" / "plain.jsonl").read_bytes()).records
    life = Life.again(old, SOURCES)
    life.live(Recovered(at_ms=200, cause="gone", attempt=1))
    text = encode_journal(life.records)
    assert text.endswith(b"\n")
    again = read_journal(text)
    assert (again.records, again.damaged) == (tuple(life.records), None)
    assert again.records[: len(old)] == old
    assert fold_journal(again.records, SOURCES).state == life.state


def test_the_decisions_of_a_journal_are_those_of_its_time():
    """What "always" allowed runs again in its fold; once its session comes back with this code, the decisions are those of today."""
    old = read_journal((FOLDER / "semantics_0" / "approved.jsonl").read_bytes()).records
    folded = fold_journal(old, SOURCES)
    assert (folded.drift, folded.state.data.semantics) == (None, 0)
    assert [(rule.family, rule.exact) for rule in folded.state.data.rules] == [("git clean", False)]
    life = Life.again(old, SOURCES)
    life.live(Recovered(at_ms=200, attempt=1, semantics=SEMANTICS))
    assert life.state.data.semantics == SEMANTICS
    assert fold_journal(life.records, SOURCES).state == life.state
    life.live(Recovered(at_ms=201, attempt=1))
    assert life.state.data.semantics == SEMANTICS


def test_what_was_removed_is_told():
    """Its journal is sound, and cannot be folded from its beginning."""
    for name in ("erased", "forgotten", "v1/erased"):
        read = read_journal((FOLDER / f"{name}.jsonl").read_bytes())
        assert read.damaged is None
        assert first_broken(read.records) is None
        assert [decode_erased(one.body).number for one in read.records if one.kind == "erased"]
        with pytest.raises(Erased):
            fold_journal(read.records, SOURCES)
