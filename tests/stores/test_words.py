"""How texts and queries are cut into words, and which of them decide."""

import re

import pytest
from hypothesis import given, strategies as st

from agentrail.stores.words import (
    choose_words,
    query_words,
)


@given(text=st.text())
def test_a_word_has_no_sign_that_means_something(text):
    """So a query made of words cannot be syntax, and each is one word when it is cut again."""
    for word in query_words(text):
        assert word.isalnum()
        assert word.isascii() or not word.isspace()
        assert not re.search(r'["\0\s(){}:*^+-]', word)


def counting(rows):
    """Count from a table, no further than to a bound, and remember what was asked."""
    asked = []

    def count(word, most):
        asked.append(word)
        found = rows.get(word, 0)
        return found if most is None else min(found, most)

    return count, asked


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ({"the": 90_000, "tea": 1_000, "rare": 1}, ("tea", "rare")),
        ({"the": 90_000, "tea": 2_001}, ("tea",)),
        ({"the": 90_000, "tea": 30_000}, ("tea",)),
        ({"the": 90_000}, ("the",)),
        ({"rare": 1}, ("rare",)),
        ({}, ()),
    ],
)
def test_frequent_words_are_left_out_while_a_rarer_one_remains(rows, chosen):
    """One that stands nowhere is no rarer one: it would find nothing, and take the place of what finds something."""
    count, _ = counting(rows)
    assert choose_words(["the", "tea", "rare", "nowhere"], count, 100_000) == chosen
