"""Promise 2: no history that a provider would reject can exist.

Every call has exactly one result, in every state that can be reached, whatever was interrupted before. Held by the history
type (tests/core/test_history.py), by every step (tests/core/promises.py), and here by whole lives.
"""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from agentrail.core.session.state import Phase
from agentrail.messages import AssistantMessage, ToolMessage
from agentrail.testing import strategies
from tests.core.worlds import new_session, small_world, walk


def unanswered(state):
    """The calls of a history that have no result right behind them."""
    messages = [*state.data.history.messages, None]
    missing = []
    for said, behind in pairwise(messages):
        if isinstance(said, AssistantMessage):
            results = behind.results if isinstance(behind, ToolMessage) else ()
            missing += [
                call.call_id for call in said.calls if call.call_id not in {r.call_id for r in results}
            ]
    return missing


@pytest.mark.at(1, 3, 6)
def test_calls_are_unanswered_only_while_they_run_or_a_person_decides():
    """In all of the small world a call lacks its result in EXECUTING_TOOLS and in a suspended cycle, and nowhere else."""
    known = {}  # most steps leave the history as it is
    for seen in small_world():
        may_lack = seen.after.phase is Phase.EXECUTING_TOOLS or seen.after.suspended
        history = id(seen.after.data.history)
        if history not in known:
            known[history] = bool(unanswered(seen.after))
        assert known[history] == may_lack


@given(data=st.data())
def test_no_life_leads_to_an_invalid_request(data):
    """Whatever happened before, each request goes out with every call answered once, under ids of its own."""
    start = new_session()
    for seen in walk(data.draw(strategies.scripts(start)), start):
        if seen.after.phase is not Phase.EXECUTING_TOOLS and not seen.after.suspended:
            assert unanswered(seen.after) == []
        messages = seen.after.data.history.messages
        ids = [
            result.call_id for said in messages if isinstance(said, ToolMessage) for result in said.results
        ]
        assert len(ids) == len(set(ids))
