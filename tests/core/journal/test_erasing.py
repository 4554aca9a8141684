"""What stays of a journal whose content is removed."""

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from agentrail.core.journal.erasure import USER_FORGOTTEN, closing_record, erased_record, is_erased
from agentrail.core.journal.fold import fold_journal
from agentrail.core.journal.jsonl import encode_journal, read_journal
from agentrail.core.journal.record import Draft, Tail, decode_erased, first_broken, sealed
from agentrail.errors import Erased

CANARY = "kingfisher"
DRAFTS = st.builds(
    Draft,
    at_ms=st.integers(0, 9),
    kind=st.sampled_from(("opened", "prompt", "taken", "closed", "heard")),
    body=st.text(max_size=9).map(lambda text: f'{{"said":"{CANARY}"}}{text}'.encode()),
    does=st.sampled_from(("", f"publish {CANARY}")),
    events=st.integers(0, 9),
)


@settings(max_examples=40)
@given(st.lists(DRAFTS, min_size=1, max_size=4), st.permutations(range(4)))
def test_the_chain_goes_on_over_what_is_erased(drafts, order):
    """Whichever records are erased, in whatever order: nothing of their content is left, and a change of another is found still."""
    records = list(sealed(drafts, Tail(), scope="", session="s")[0])
    for place in order:
        if place < len(records):
            was, now = records[place], erased_record(records[place], USER_FORGOTTEN)
            records[place] = now
            assert msgspec.structs.replace(now, kind=was.kind, body=was.body, does=was.does) == was
            said = decode_erased(now.body)
            length = len(was.body) + len(was.does.encode())
            assert (said.number, said.kind, said.length) == (was.seq, was.kind, length)
            assert erased_record(now, "another reason") is now
            assert first_broken(records) is None
    assert CANARY.encode() not in encode_journal(records)
    end = closing_record(records[-1], USER_FORGOTTEN, at_ms=10)
    assert first_broken([*records, end]) is None
    assert first_broken([*records, msgspec.structs.replace(end, at_ms=11)]) == end.seq
    assert read_journal(encode_journal([*records, end])).records == (*records, end)
    assert is_erased([*records, end], USER_FORGOTTEN)
    assert not is_erased([*records, end], "retention")
    with pytest.raises(Erased):
        fold_journal([*records, end])
