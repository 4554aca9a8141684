"""A JSON Patch that is made of two documents makes one of them the other, carried out by the words of RFC 6902 and by nothing of ours."""

import copy
from typing import Any, Final

import msgspec
from hypothesis import example, given, strategies as st

from agentrail.core.values.json_patch import json_patch

NAMES: Final = st.sampled_from(["a", "b", "", "a/b", "m~n", "~1", "0", "é"])
LEAVES: Final = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, -0.5]) | NAMES
DOCUMENTS: Final = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=30,
)


def carry_out(document: Any, step: Any) -> Any:
    """One operation, as RFC 6902, 4.1 to 4.3 say; the pointer is read as RFC 6901, 4 says."""
    if step["path"] == "":
        assert step["op"] != "remove"
        return step["value"]
    assert step["path"].startswith("/")
    *above, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"][1:].split("/")]
    place = document
    for part in above:
        place = place[int(part)] if isinstance(place, list) else place[part]
    key: Any = int(last) if isinstance(place, list) else last
    there = range(len(place)) if isinstance(place, list) else place
    match step["op"]:
        case "add" if isinstance(place, list):
            assert 0 <= key <= len(place)
            place.insert(key, step["value"])
        case "add":
            place[key] = step["value"]
        case "replace":
            assert key in there, "the target location MUST exist"
            place[key] = step["value"]
        case "remove":
            assert key in there, "the target location MUST exist"
            del place[key]
    return document


def as_sent(value: Any) -> bytes:
    """What tells two documents apart: 1 is not true, and no order of names counts."""
    return msgspec.json.encode(value, order="deterministic")


@given(one=DOCUMENTS, other=DOCUMENTS)
@example(one=[True, 1], other=[1, True])
@example(one={"a": [1, 2, 3, 4]}, other={"a": [2, 3]})
@example(one={"m~n": {"a/b": 1}}, other={"m~n": {"a/b": 2}})
def test_a_patch_gives_the_other_document(one, other):
    """Whatever both are; what is the same takes no step, and neither document is touched."""
    before = as_sent([one, other])
    steps = msgspec.json.decode(msgspec.json.encode(json_patch(one, other)))
    assert as_sent([one, other]) == before
    made = copy.deepcopy(one)
    for step in steps:
        made = carry_out(made, step)
    assert as_sent(made) == as_sent(other)
    assert bool(steps) == (as_sent(one) != as_sent(other))
