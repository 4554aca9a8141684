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


@pytest.mark.parametrize("name", JOURNALS)
def test_todays_code_writes_the_newest_file(name):
    """What goes to disk changes only together with the file that shows it: `python -m tests.core.journal.golden_journals`."""
    assert (FOLDER / f"{name}.jsonl").read_bytes() == encode_journal(JOURNALS[name]())


def test_there_is_one_of_each_kind_of_record():
    """All that is no signal stands in one of them."""
    kinds = {json.loads(line)["kind"] for file in STORED for line in file.read_bytes().splitlines()}
    assert kinds >= OWN_KINDS


@pytest.mark.parametrize("file", WHOLE, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_stored_journal_is_sound_and_folds_without_drift(file):
    """Also that of an older version: the same events, the same decisions."""
    read = read_journal(file.read_bytes())
    assert read.damaged is None
    assert first_broken(read.records) is None
    folded = fold_journal(read.records, SOURCES)
    assert folded.drift is None
    assert replay(read.records, SOURCES).difference is None
    assert replay(read.records, SOURCES).state == folded.state


@pytest.mark.parametrize("file", WHOLE, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_state_at_a_number_goes_on_to_the_same_end(file):
    """Whatever number one stops at."""
    records = read_journal(file.read_bytes()).records
    folded = fold_journal(records, SOURCES)
    for number in range(3, len(records)):
        rest = fold(state_at(records, number, SOURCES), records[number:], tail=tail_of(records[:number]),
                    sources=_looking_back(records))  # fmt: skip
        assert rest.state.data.history == folded.state.data.history
        assert rest.state.data.seq == folded.state.data.seq


@pytest.mark.parametrize("name", ["plain", "guarded", "taken_over"])
def test_a_journal_of_version_1_says_the_same(name):
    """Its bodies are longer, and so its hashes are others: a record for a record it comes to what that of version 2 comes to."""
    old, new = (
        read_journal((folder / f"{name}.jsonl").read_bytes()).records
        for folder in (FOLDER / "v1", FOLDER / "semantics_0")
    )
    assert where_they_part(old, new, SOURCES) is None
    short, long = (sum(len(one.body) for one in some if one.kind != "drifted") for some in (new, old))
    assert short < long


def test_a_session_of_version_1_goes_on_in_version_2():
    """One journal may have both, and one chain of hashes over both."""
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


@pytest.mark.parametrize("name", ["erased", "forgotten", "v1/erased"])
def test_what_was_removed_is_told(name):
    """Its journal is sound, and cannot be folded from its beginning."""
    read = read_journal((FOLDER / f"{name}.jsonl").read_bytes())
    assert read.damaged is None
    assert first_broken(read.records) is None
    assert [decode_erased(one.body).number for one in read.records if one.kind == "erased"]
    with pytest.raises(Erased):
        fold_journal(read.records, SOURCES)


def _looking_back(records):
    return type(SOURCES)(resolve=SOURCES.resolve, state_at=lambda number: state_at(records, number, SOURCES))
