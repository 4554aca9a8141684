"""JSON goes out as UTF-8 and comes in as proper Unicode."""

import json

from hypothesis import given, strategies as st

from agentrail.providers.json_text import decode_json, encode_json

CHARACTERS = st.characters(exclude_categories=["Cs"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner),
    max_leaves=10,
)


@given(value=VALUES)
def test_encoding_and_decoding_are_the_inverse_of_each_other(value):
    """For all that JSON can say in proper Unicode."""
    assert decode_json(encode_json(value)) == value
    assert json.loads(encode_json(value)) == value


@given(value=st.lists(st.text(st.characters(categories=["Cs", "L"]), max_size=4), max_size=3))
def test_lone_surrogates_become_replacement_characters(value):
    """In both directions: what comes in can always go out again."""
    decoded = decode_json(json.dumps(value))
    assert all(text.encode() is not None for text in decoded)
    assert json.loads(encode_json({"x": value}))["x"] == decoded
