"""A fork at each number, rewinds to any, where turns end, and what a rewind does not take back."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from agentrail.core.journal.fold import first_state, fold_journal, walk
from agentrail.core.journal.jsonl import read_journal
from agentrail.core.journal.record import Draft, RewoundBody, Tail, encode_body, sealed
from agentrail.core.journal.recorder import opened_draft
from agentrail.core.journal.replay import state_at
from agentrail.core.journal.turn_index import calls_behind, past_turns
from agentrail.core.protocol.effects import RunTool
from agentrail.core.session.fork import config_of_fork, forked_state, without_what_was_open
from agentrail.core.session.state import Phase
from agentrail.core.values.toolbox import Toolbox, ToolSpec
from agentrail.messages import SessionId
from tests.core.journal.golden_journals import FOLDER, SOURCES
from tests.core.journal.recorded import Told, behind, call, plain_life
from tests.core.worlds import new_session

GOLDEN = [file for file in sorted(FOLDER.rglob("*.jsonl")) if file.stem not in {"erased", "forgotten"}]
OBJECT = {"type": "object"}


@pytest.mark.journal(21)
@pytest.mark.at(57)
@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_fork_at_each_number_folds_to_what_was_there(file):
    """From its own journal alone: the conversation of that number, with what was open there closed; and its next prompt works."""
    records = read_journal(file.read_bytes()).records
    for record in records:
        then = state_at(records, record.seq, SOURCES)
        config = config_of_fork(then.data.config, SessionId("fork"))
        draft = opened_draft(
            forked_state(then, config, 500), at_ms=500, engine="1", forked_from=(record.session, record.seq)
        )
        own, _ = sealed((draft,), Tail(), scope="", session=SessionId("fork"))
        folded = fold_journal(own, SOURCES).state
        closed = without_what_was_open(then, 500)
        assert folded.phase is Phase.IDLE
        assert folded.data.history == closed.data.history
        assert folded.data.history.messages[: len(then.data.history)] == then.data.history.messages[:]
        assert folded.data.plugin_states == closed.data.plugin_states
        assert folded.data.usage == then.data.usage
        assert not folded.data.open
        assert not folded.data.history.open


@pytest.mark.journal(22)
@pytest.mark.at(145)
@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_rewind_to_each_number_is_what_was_there(file):
    """One behind the other, forth and back; numbers of events never fall."""
    records = [one for one in read_journal(file.read_bytes()).records if one.kind != "closed"]
    length, events = len(records), records[-1].events
    for number in (*range(length, 0, -1), *range(1, length + 1, 3)):
        then = fold_journal(records[:number], SOURCES).state
        rewound = encode_body(RewoundBody(number=number))
        records = behind(records, Draft(at_ms=600, kind="rewound", body=rewound, events=events))
        folded = fold_journal(records, SOURCES).state
        assert folded.data.history == without_what_was_open(then, 600).data.history
        assert folded.data.config == then.data.config
        assert folded.data.seq == events


@given(targets=st.lists(st.integers(0, 40), max_size=6))
def test_which_turns_count_is_what_the_conversation_has(targets):
    """A journal that goes back and forth anywhere: a turn counts where the state that is gone on with was behind it."""
    records = [one for one in plain_life().life.records if one.kind != "closed"]
    ends = [turn.record for turn in past_turns(_walked(records))]
    has = {number: frozenset(one for one in ends if one <= number) for number in range(len(records) + 1)}
    for target in targets:
        number = 1 + target % len(records)
        body = encode_body(RewoundBody(number=number))
        draft = Draft(at_ms=600, kind="rewound", body=body, events=records[-1].events)
        records = behind(records, draft)
        has[len(records)] = has[number]
    turns = past_turns(_walked(records))
    # Behind them at most one that a rewind cut off.
    assert [turn.record for turn in turns[: len(ends)]] == ends
    assert {turn.record for turn in turns if turn.counts} == has[len(records)]


def _walked(records):
    return walk(first_state(records, SOURCES), records, sources=SOURCES)


def classes() -> Told:
    """A batch of one call of each class, and a session that works for another."""
    tools = [
        ToolSpec(name=name, description="It.", parameters=OBJECT, effect_class=name)
        for name in ("pure", "idempotent", "reconcilable", "once")
    ]
    task = ToolSpec(name="task", description="It.", parameters=OBJECT, answered_by="child")
    session = Told(new_session(Toolbox([*tools, task]), max_parallel_tools=8))
    session.prompt()
    names = ("pure", "once", "idempotent", "reconcilable", "task")
    session.complete(*(call(name, f"c-{name}") for name in names))
    return session


def test_calls_that_are_not_taken_back_are_named_once():
    """Not those that promise to do no harm twice, nor those before the number; one whose tool is not known may have done anything."""
    session = classes()
    walked = session.life.walk()
    found = calls_behind(walked)
    named = [("once", "once"), ("reconcilable", "reconcilable"), ("task", "session")]
    assert [(one.name, one.effect_class) for one in found] == named
    assert {one.number for one in found} == {len(walked)}
    assert calls_behind([*walked, *walked]) == found
    assert calls_behind(walked[:-1]) == ()

    (last,) = [one for one in session.life.walk() if any(isinstance(e, RunTool) for e in one.effects)]
    lost = msgspec.structs.replace(last, after=last.before)
    assert "pure" in {one.name for one in calls_behind([lost])}


def test_a_turn_that_is_not_over_has_no_end():
    """It is seen when it is."""
    session = Told(new_session())
    session.prompt()
    session.hear("I ")
    assert past_turns(session.life.walk()) == ()
