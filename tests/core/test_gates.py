"""The gates inside the core: each refusal tells the model what was wrong and what to do."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.policy.calls import (
    CUT_OFF,
    WITHHELD,
    Passed,
    Refused,
    hash_arguments,
    operation_id_of,
    settle_call_ids,
    validate_call,
)
from agentrail.core.values.history import GrowingSet
from agentrail.core.values.toolbox import Toolbox, ToolSpec, read_call
from agentrail.messages import CallId
from agentrail.testing import strategies

READ = ToolSpec(
    name="read_file",
    description="",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "default": 10}},
        "required": ["path"],
    },
)
TOOLS = Toolbox([READ, ToolSpec(name="list_dir", description="", parameters={"type": "object"})])


def judged(name: str, text: str, *, tools=TOOLS, stop_reason="tool_use", withheld=False):
    """What becomes of one call."""
    return validate_call(read_call("c1", name, text), tools, stop_reason, withheld=withheld)


def test_a_good_call_passes_with_its_defaults():
    """What will run is what came, and the schema's defaults for what did not."""
    assert judged("read_file", '{"path": "a"}') == Passed(arguments={"path": "a", "lines": 10})


def test_nothing_at_all_counts_as_no_arguments():
    """Vendors send the empty string for a call without arguments."""
    assert judged("list_dir", "") == Passed(arguments={})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("readfile", 'Unknown tool "readfile". Did you mean "read_file"? Tools: list_dir, read_file.'),
        ("zzz", 'Unknown tool "zzz". Tools: list_dir, read_file.'),
    ],
)
def test_an_unknown_tool_is_answered_with_the_nearest_name(name, expected):
    """The model reads which tools there are, and which one it may have meant."""
    assert judged(name, "{}") == Refused(text=expected, unknown=True)


def test_without_tools_the_model_is_told_to_do_without():
    """There is no list to show."""
    refusal = judged("read_file", "{}", tools=Toolbox())
    assert refusal == Refused(
        text='Unknown tool "read_file". There are no tools in this session: answer without.', unknown=True
    )


def test_malformed_arguments_are_refused_with_the_place():
    """Nothing that is no JSON object is ever turned into `{}`."""
    refusal = judged("read_file", '{"path": ')
    assert isinstance(refusal, Refused)
    assert refusal.text.startswith("Malformed arguments: ")
    assert not refusal.unknown


def test_arguments_cut_off_by_the_output_limit_say_so():
    """The model is told to send less, not that it made a mistake; complete arguments run all the same (3.5)."""
    assert judged("read_file", '{"path": ', stop_reason="max_tokens") == Refused(text=CUT_OFF)
    assert isinstance(judged("read_file", '{"path": "a"}', stop_reason="max_tokens"), Passed)


def test_invalid_arguments_are_refused_with_the_path_of_each_fault():
    """Defaults are filled in first, so a missing property with a default is no fault."""
    assert judged("read_file", '{"lines": "x"}') == Refused(
        text="Invalid arguments for \"read_file\": $.path is required; $.lines: 'x' is not of type 'integer'"
    ) or judged("read_file", '{"lines": "x"}') == Refused(
        text="Invalid arguments for \"read_file\": $.lines: 'x' is not of type 'integer'; $.path is required"
    )


def test_on_the_last_turn_nothing_runs():
    """Withheld comes before all else: the model is told to answer (3.2)."""
    assert judged("read_file", '{"path": "a"}', withheld=True) == Refused(text=WITHHELD)
    assert judged("nowhere", "{}", withheld=True) == Refused(text=WITHHELD)


def settle(*ids: str, used=()) -> tuple[str, ...]:
    """Settle the ids of one response."""
    seen: GrowingSet[CallId] = GrowingSet()
    for each in used:
        seen = seen.added(CallId(each))
    return settle_call_ids(tuple(read_call(each, "read_file", "{}") for each in ids), seen, "r1")[0]


def test_a_vendors_id_stays_where_it_can():
    """Only an id that is empty, too odd, too long or used is replaced, by one that repeats on a replay."""
    assert settle("toolu_01", "x-Y_9") == ("toolu_01", "x-Y_9")
    assert settle("", "a b", "x" * 65, "ok") == ("call_r1_1", "call_r1_2", "call_r1_3", "ok")
    assert settle("a", "a", used=("a",)) == ("call_r1_1", "call_r1_2")
    assert settle("call_r1_2", "") == ("call_r1_2", "call_r1_2_")


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


def test_the_hash_is_of_the_canonical_arguments():
    """The order of keys does not matter; any value does."""
    assert hash_arguments({"a": 1, "b": [2]}) == hash_arguments({"b": [2], "a": 1})
    assert hash_arguments({"a": 1}) != hash_arguments({"a": 2})
    assert len(hash_arguments({})) == 64


def test_an_operation_has_one_name():
    """The same at a replay, another one as soon as session, place, tool or arguments differ."""
    name = operation_id_of("s", 2, "read", "abc")
    assert name == operation_id_of("s", 2, "read", "abc")
    others = [
        ("t", 2, "read", "abc"),
        ("s", 3, "read", "abc"),
        ("s", 2, "raed", "abc"),
        ("s", 2, "read", "abd"),
    ]
    assert name not in {operation_id_of(*each) for each in others}
