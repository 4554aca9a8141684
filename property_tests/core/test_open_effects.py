"""Who waits for an open effect: exactly the ids that are open from outside, after any signals in any order."""

from hypothesis import given, strategies as st

from agentrail.core.session import machine
from agentrail.testing import strategies
from tests.core.outside import OpenFromOutside
from tests.core.worlds import WITH_CLIENT as TOOLS, config, walk

CONFIGS = st.builds(
    config,
    max_parallel_tools=st.sampled_from((2, 1, 3)),
    max_turns=st.sampled_from((3, 2, 4)),
    tool_max_retries=st.sampled_from((1, 0, 2)),
)


@given(data=st.data(), chosen=CONFIGS)
def test_exactly_the_open_ids_have_an_owner(data, chosen):
    """What was asked for, less what has ended, was cancelled or given up, is what the state says, in every state."""
    start = machine.new_session(chosen, TOOLS)
    outside = OpenFromOutside(has_budget=False)
    for seen in walk(data.draw(strategies.scripts(start)), start):
        if not seen.before.ended:
            outside.saw(seen.signal, seen.after, seen.effects)
        assert {effect_id for effect_id, _ in seen.after.data.open.items()} == set(outside.open)
