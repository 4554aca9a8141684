"""The head of a Markdown agent."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.front_matter import HeadFault, read_head


def test_a_head_is_read_as_texts():
    """`no` and `1:30` are texts, a colon in a text stays, lists come in three ways."""
    values, body, lines = read_head(
        "\ufeff---\r\n# a comment\r\ndescription: use: so # said\r\na: no\nb: 1:30\nq: 'it''s # no'\nd: \"x\\n\\\"y\\\\\"\n"
        "flow: [a, 'b, c', \"d\",]\nempty:\nnone: []\nlist:\n- one\n\n-   two # 2\nother:\n  - three\n"
        "table:\n  x: 1\n  y:\n  - z\nlast: end\n---\n\n\nBody.\n---\nMore.\n"
    )
    assert values == {
        "description": "use: so",
        "a": "no",
        "b": "1:30",
        "q": "it's # no",
        "d": 'x\n"y\\',
        "flow": ["a", "b, c", "d"],
        "empty": "",
        "none": [],
        "list": ["one", "two"],
        "other": ["three"],
        "table": {"x": "1", "y": ["z"]},
        "last": "end",
    }
    assert body == "Body.\n---\nMore."
    assert (lines["description",], lines["flow", 2], lines["list", 1], lines["table", "y", 0]) == (
        3,
        8,
        14,
        20,
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("description: x\n", 1, "expected front matter: --- in the first line"),
        ("", 1, "expected front matter"),
        ("---\na: b\n", 1, "has no end"),
        ("---\na b\n---\n", 2, "expected a line such as description:"),
        ("---\na: b\n  c: d\n---\n", 3, "at the beginning of the line"),
        ("---\na: b\na: c\n---\n", 3, "a is there twice"),
        ("---\na:\n\tb: c\n---\n", 3, "a tab"),
        ("---\na: &x b\n---\n", 2, "anchors are not read"),
        ("---\na: *x\n---\n", 2, "alias to YAML"),
        ("---\na: !!python/object x\n---\n", 2, "tags are not read"),
        ("---\na: |\n  x\n---\n", 2, "block texts"),
        ("---\na: {x: 1}\n---\n", 2, "tables in braces"),
        ("---\na: [b,\n c]\n---\n", 2, "ends in its own line"),
        ("---\na: [b,,c]\n---\n", 2, "between two commas"),
        ('---\na: "b" c\n---\n', 2, "quotes do not end"),
        ('---\na: "\\x41"\n---\n', 2, "is not read"),
        ("---\na:\n-\n---\n", 3, "expected a text behind the -"),
        ("---\na:\n  b:\n    c: d\n---\n", 4, "no deeper than this"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text, line, said):
    """The rest of YAML is refused by name, and never guessed at."""
    with pytest.raises(HeadFault, match=said) as caught:
        read_head(text)
    assert caught.value.line == line


@given(st.text(alphabet="ab: -\n#\"'[],|&\t\\{", max_size=60))
def test_any_head_is_read_or_refused(text):
    """Whatever it is: texts, lists and tables with a line each, or one fault."""
    try:
        values, _, lines = read_head(f"---\n{text}\n---\n")
    except HeadFault:
        return  # with a line, as all of them
    assert {(name,) for name in values} <= set(lines)
