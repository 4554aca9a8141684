"""How short patches are, and what they cost; that they are right is a property."""

from agentrail.core.values.json_patch import PatchStep, json_patch


def steps(one, other):
    return [(step.op, step.path) for step in json_patch(one, other)]


def test_a_patch_says_no_more_than_what_is_other():
    """What came at an end is added, what a queue gave is removed; pointers are escaped (RFC 6901), and a null that is added is there."""
    messages = [{"role": "user", "text": str(number)} for number in range(9)]
    added = [("add", "/messages/7"), ("add", "/messages/8")]
    assert steps({"messages": messages[:7]}, {"messages": messages}) == added
    assert steps({"queue": messages[:4]}, {"queue": messages[2:4]}) == [("remove", "/queue/0")] * 2
    assert json_patch([1, 2, 3], [1, 9, 3]) == (PatchStep(op="replace", path="/1", value=9),)

    assert json_patch({}, {"a/b~c": None}) == (PatchStep(op="add", path="/a~1b~0c", value=None),)
    assert steps({"a": 1}, {"a": True}) == [("replace", "/a")]
    assert steps(None, {}) == [("replace", "")]
    assert steps({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []
