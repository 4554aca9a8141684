"""JSON from models is read strictly; tests/core/test_toolbox.py has what this means for arguments."""

import pytest

from agentrail.core.values.json_schema import NotJson, decode_strictly, json_kind_of


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a" 1}', "Expecting ':' delimiter at line 1 column 6, near: …{\"a\" 1}…"),
        ("NaN", "NaN is not JSON."),
        ("1e999", "1e999 is too large for a number."),
        ("[" * 100_000, "100000 objects and arrays, at most 50000 are allowed."),
        ("[" * 40_000, "maximum recursion depth exceeded"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, complaint):
    """So that a model can put it right."""
    with pytest.raises(NotJson) as caught:
        decode_strictly(text)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "a boolean"),
        ("a", "a string"),
        ([], "an array"),
        ({}, "an object"),
        (1.5, "a number"),
    ],
)
def test_each_kind_has_a_name(value, kind):
    """A sentence says what was expected, and names what came instead."""
    assert json_kind_of(value) == kind


@pytest.mark.parametrize("digits", [1, 299, 300])
def test_digits_at_any_place_are_read(digits):
    """A number of 300 digits is finite too; fewer are not looked at again."""
    text = f'["{"a" * 290}", {"9" * digits}, "{"b" * 600}"]'
    assert decode_strictly(text)[1] == int("9" * digits)
