"""How texts and queries are cut into words, and which of them decide."""

import re

import pytest
from hypothesis import given, strategies as st

from agentrail.stores.words import (
    FEW_ROWS,
    MAX_INDEXED_CHARACTERS,
    MAX_QUERY_WORDS,
    any_of,
    choose_words,
    cut_words,
    label_of,
    owner_key,
    query_words,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Green-Tea, twice!", ["green", "tea", "twice"]),
        ("snake_case x1", ["snake", "case", "x1"]),
        ("Müller e\u0301tude ÉTÉ", ["muller", "etud", "et"]),
        ("STRASSE straße", ["strass", "strass"]),
        ("\u2121 \ufb01n", ["tel", "fin"]),
        ("我喜欢绿茶 tea", ["我喜", "喜欢", "欢绿", "绿茶", "tea"]),
        ("茶 ok", ["茶", "ok"]),
        ("x" * 100, ["x" * MAX_INDEXED_CHARACTERS]),
        ("a\0b\ud800c", ["a", "b", "c"]),
    ],
)
def test_texts_are_cut_into_words(text, words):
    """Letters and digits, small, without accents and English endings."""
    assert [*cut_words(text)] == words


@given(text=st.text())
def test_a_word_has_no_sign_that_means_something(text):
    """So a query made of words cannot be syntax, and each is one word when it is cut again."""
    for word in query_words(text):
        assert word.isalnum()
        assert word.isascii() or not word.isspace()
        assert not re.search(r'["\0\s(){}:*^+-]', word)


def test_thirty_two_words_are_looked_for():
    """The first different ones; of a long query no more is read than that takes."""
    assert query_words(" ".join(["tea"] * 50 + [f"w{n}" for n in range(100)])) == (
        "tea",
        *(f"w{n}" for n in range(31)),
    )
    assert len(query_words("x " * 1_000_000 + "y")) == 1
    assert MAX_QUERY_WORDS == 32


def counting(rows):
    """Count from a table, no further than to a bound, and remember what was asked."""
    asked = []

    def count(word, most):
        asked.append(word)
        found = rows.get(word, 0)
        return found if most is None else min(found, most)

    return count, asked


def test_few_rows_are_not_counted():
    """To rank them takes no time, whatever words they have."""
    count, asked = counting({"the": FEW_ROWS})
    assert choose_words(["the", "tea"], count, FEW_ROWS) == ("the", "tea")
    assert asked == []


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


def test_what_names_an_owner_has_one_length_and_one_meaning():
    """Names joined to one text would not."""
    keys = [
        owner_key("a", "b"),
        owner_key("ab", ""),
        owner_key("", "ab"),
        owner_key('a","b', ""),
        owner_key("\ud800", ""),
    ]
    assert len(set(keys)) == 5
    assert {len(key) for key in keys} == {32}
    assert label_of("c++") != label_of("c")
    assert any_of("body tags", "k", ["a", "b"]) == '{body tags}: ("ka" OR "kb")'
