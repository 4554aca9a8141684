"""The gates inside the core: each refusal tells the model what was wrong and what to do."""

from hypothesis import given, strategies as st

from agentrail.core.policy.calls import CUT_OFF, Refused, settle_call_ids, validate_call
from agentrail.core.values.history import GrowingSet
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.messages import CallId, ToolCall
from agentrail.testing import strategies


def test_without_tools_the_model_is_told_to_do_without():
    """There is no list to show."""
    said = 'Unknown tool "read_file". There are no tools in this session: answer without.'
    refusal = validate_call(read_call("c1", "read_file", "{}"), Toolbox(), "tool_use", withheld=False)
    assert refusal == Refused(text=said, unknown=True)


def test_a_call_that_was_cut_before_its_first_argument_does_not_run():
    """Whatever cut it: a tool without required parameters would run with its defaults, which the model did not choose."""
    tools = Toolbox([ToolSpec(name="clean", description="Delete files.", parameters={"type": "object"})])
    cut = ToolCall(call_id=CallId("c1"), name="clean", arguments=None, malformed="")
    assert validate_call(cut, tools, "refused", withheld=False) == Refused(text=CUT_OFF)


@given(responses=st.lists(st.lists(strategies.tool_calls(), max_size=5).map(tuple), max_size=5))
def test_no_id_is_given_twice(responses):
    """However odd the ids of a vendor are, in a session each call gets one of its own."""
    used: GrowingSet[str] = GrowingSet()
    given_out: list[str] = []
    for position, calls in enumerate(responses):
        ids, used = settle_call_ids(calls, used, f"r{position}")
        given_out += ids
        assert all(each in used for each in ids)
    assert len(given_out) == len(set(given_out))
