"""What docstrings say of parameters and attributes, in three styles; and that none of them is an error."""

import pytest
from hypothesis import given, strategies as st

from agentrail.typed import described_names, described_whole

GOOGLE = """Look something up.

    More of it,
    in a paragraph.

    Args:
        word: What to look for,
            in any case.
        limit (int, optional): How many.
        filter (Callable[[int], bool]): Which ones.
        a, b: Both.
        *rest: Others.
        nothing:
        late:
            What begins a line later.

            And goes on.
    Returns:
        word: not this one.
    """

NUMPY = """Look something up.

    More of it,
    in a paragraph.

    Parameters
    ----------
    word : str
        What to look for,
        in any case.
    limit : int, optional
        How many.
    filter : Callable[[int], bool]
        Which ones.
    a, b : int
        Both.
    *rest
        Others.
    nothing : int
    late
        What begins a line later.

        And goes on.

    Returns
    -------
    word : str
        not this one
    """

SPHINX = """Look something up.

    More of it,
    in a paragraph.

    :param word: What to look for,
        in any case.
    :param int limit: How many.
    :type limit: int
    :param filter: Which ones.
    :param a: Both.
    :param b: Both.
    :keyword rest: Others.
    :param nothing:
    :param late: What begins
        a line later. And goes on.
    :returns word: not this one
    """

SAID = {
    "word": "What to look for, in any case.",
    "limit": "How many.",
    "filter": "Which ones.",
    "a": "Both.",
    "b": "Both.",
    "rest": "Others.",
}


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_is_read(docstring):
    """Names with their text in one line; types, empty texts and other sections are left out."""
    said = dict(described_names(docstring))
    assert said.pop("late").replace("What begins a line later. And goes on.", "") == ""
    assert said == SAID
    assert described_whole(docstring) == "Look something up.\n\nMore of it,\nin a paragraph."


@pytest.mark.parametrize(
    ("docstring", "said", "whole"),
    [
        (None, {}, ""),
        ("", {}, ""),
        ("One line.", {}, "One line."),
        ("Args: one: no section.", {}, "Args: one: no section."),
        ("A.\n\nArgs:\n    x: One.\n    x: Two.", {"x": "One."}, "A."),
        ("A.\n\nAttributes:\n    x: One.", {"x": "One."}, "A."),
        ("A.\n\nAttributes\n----------\nx\n    One.\nNotes\n-----\ny\n    No.", {"x": "One."}, "A."),
        ("A.\n\n:ivar x: One.", {"x": "One."}, "A."),
        ("A.\n\nRaises:\n    ValueError: No.", {}, "A."),
        ("A.\n\nArgs:\n    x: One.\n    what is this\n    y: Two.", {"x": "One.", "y": "Two."}, "A."),
        ("A.\n\nArgs:\nx: no indentation", {}, "A."),
        ("A.\n\nParameters\n----------", {}, "A."),
        ("A: b.\n\n---\n:param", {}, "A: b.\n\n---\n:param"),
        ("A.\n\n    Args:\n        x: Indented.", {"x": "Indented."}, "A."),
        ("See :class:`x`: yes.", {}, "See :class:`x`: yes."),
    ],
)
def test_corners(docstring, said, whole):
    """What is no section says nothing."""
    assert dict(described_names(docstring)) == said
    assert described_whole(docstring) == whole


@given(
    docstring=st.lists(
        st.sampled_from(
            ["Args:", "Parameters", "----", ":param x: y", "    x: y", "x : int", "", "    ", "é("]
        )
        | st.text(max_size=8)
    ).map("\n".join)
)
def test_nothing_that_is_written_is_an_error(docstring):
    """A docstring is for people first."""
    for name, text in described_names(docstring).items():
        assert name
        assert text == " ".join(text.split()) != ""
    described_whole(docstring)
