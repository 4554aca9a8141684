"""A branch begins at any record of any life: nothing is open in it, its history is whole, and it folds from its own bytes."""

from hypothesis import given, strategies as st

from agentrail.core.journal.fold import Sources, fold_journal, rewound_state
from agentrail.core.journal.record import Draft, RewoundBody, Tail, encode_body, sealed
from agentrail.core.journal.recorder import opened_draft
from agentrail.core.session import machine
from agentrail.core.session.fork import config_of_fork, forked_state, without_what_was_open
from agentrail.core.session.state import Phase
from agentrail.messages import SessionId
from agentrail.testing import strategies
from agentrail.testing.cancelling import check_history
from agentrail.testing.checked_run import Run, Setup
from property_tests.core.test_journals_fold import CONFIGS, STREAMED, lived
from tests.core.journal.recorded import Life, behind, plugins_again
from tests.core.worlds import WITH_CLIENT as TOOLS


def branches_hold(life: Life, number: int) -> None:
    """Fork and rewind at a record."""
    then = life.states[number]
    closed = without_what_was_open(then, 9_000)
    assert closed.phase is Phase.IDLE
    assert not closed.data.open
    check_history(closed.data.history.messages)
    fork = forked_state(then, config_of_fork(then.data.config, SessionId("f")), 9_000)
    draft = opened_draft(fork, at_ms=9_000, engine="1", forked_from=(SessionId("s"), number))
    own, _ = sealed((draft,), Tail(), scope="", session=SessionId("f"))
    sources = Sources(resolve=plugins_again(fork), ask=fork.data.stack.ask)  # also of those that came later
    assert fold_journal(own, sources).state == fork
    rewound = Draft(
        at_ms=9_000,
        kind="rewound",
        body=encode_body(RewoundBody(number=number)),
        events=life.state.data.seq,
    )
    back = fold_journal(behind(life.records, rewound), life.sources()).state
    assert back == rewound_state(life.state, then, 9_000)
    assert back.data.history == closed.data.history


@given(drawn=st.lists(STREAMED, min_size=10, max_size=40), chosen=CONFIGS, where=st.integers(0, 10_000))
def test_a_branch_begins_anywhere_in_streams(drawn, chosen, where):
    """Also in the middle of one, in a pause, in a batch."""
    life = lived(machine.new_session(chosen, TOOLS), drawn)
    branches_hold(life, 1 + where % len(life.records))


@given(data=st.data(), plugins=strategies.stacks(max_size=3), chosen=CONFIGS, where=st.integers(0, 10_000))
def test_a_branch_begins_anywhere_in_any_script(data, plugins, chosen, where):
    """With plugins that answer anything when the cycle ends by it."""
    run = Run(Setup(tools=TOOLS, config=chosen, entries=plugins))
    life = Life.begun(run.state).live_all(data.draw(strategies.scripts(run.state)))
    if not life.state.ended:
        branches_hold(life, 1 + where % len(life.records))
