"""How short patches are, and what they cost; that they are right is a property."""

from agentrail.core.values.json_patch import PatchStep, json_patch


def steps(one, other):
    """In a word each."""
    return [(step.op, step.path) for step in json_patch(one, other)]


def test_what_came_at_an_end_is_added_and_nothing_else_is_said():
    """A conversation that went on, and a queue whose first one was taken."""
    messages = [{"role": "user", "text": str(number)} for number in range(9)]
    assert steps({"messages": messages[:7]}, {"messages": messages}) == [
        ("add", "/messages/7"),
        ("add", "/messages/8"),
    ]
    assert steps({"queue": messages[:4]}, {"queue": messages[2:4]}) == [("remove", "/queue/0")] * 2
    assert json_patch([1, 2, 3], [1, 9, 3]) == (PatchStep(op="replace", path="/1", value=9),)


def test_pointers_are_escaped_and_null_is_a_value():
    """RFC 6901: `~` is `~0`, `/` is `~1`; a null that is added is there."""
    assert json_patch({}, {"a/b~c": None}) == (PatchStep(op="add", path="/a~1b~0c", value=None),)
    assert steps({"a": 1}, {"a": True}) == [("replace", "/a")]
    assert steps(None, {}) == [("replace", "")]
    assert steps({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []
