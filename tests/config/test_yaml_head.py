"""The head of an agent, a skill, a command, or of another program's file."""

import pytest
from hypothesis import given, strategies as st

from agentrail.config.front_matter import HeadFault, read_yaml_head


@pytest.mark.blueprint("G-028")
def test_a_head_is_read_as_texts():
    """G-028: `name: on` is "on"; block texts, quotes, lists and tables come in all of YAML's forms, each value with its line."""
    head = read_yaml_head(
        "\ufeff---\r\nname: on\nn: 1:30\nlist: [a, 'b, c']\nbelow:\n- one\n- two\nfolded: >\n  long\n  text\nm: {x: no}\n---\n\nBody.\n"
    )
    assert head.values == {
        "name": "on",
        "n": "1:30",
        "list": ["a", "b, c"],
        "below": ["one", "two"],
        "folded": "long text\n",
        "m": {"x": "no"},
    }
    assert (head.body, head.quoted) == ("Body.", ())
    assert [head.lines[path] for path in (("name",), ("below", 1), ("folded",), ("m", "x"))] == [2, 7, 8, 11]
    assert read_yaml_head("---\n---\nBody").values == {}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: b\n", 1, "expected front matter"),
        ("---\na: &x b\nc: d\n---\n", 2, "anchors and aliases"),
        ("---\na: 1\nc: *x\n---\n", 3, "anchors and aliases"),
        ("---\n&x a: 1\n---\n", 2, "anchors and aliases"),
        ("---\na: !!python/object x\n---\n", 2, "tags are not supported: write only the value"),
        ("---\n- a\n---\n", 2, "expected keys"),
        ("---\nb: 1\na: 2\na: 3\n---\n", 4, "a appears twice"),
        ("---\n? [a]\n: b\n---\n", 2, "expected a name before the colon"),
        ("---\na: '\n---\n", 2, "close the quotes or brackets"),
        ("---\na: b: c\nd: '\n---\n", 2, "this is not YAML:"),
        ("---\na: \x01\n---\n", 1, "this is not YAML: control characters"),
        ("---\na: b\n...\n---\n", 1, ""),
        ("---\na: b\n--- {c: d}\n---\n", 3, "expected one document"),
        ("", 1, "expected front matter"),
        ("---\na: b\n", 1, "has no end"),
        ("---\nc: d\na b\n---\n", 3, "a line such as description:"),
        ("---\na: b\n  c: d\n---\n", 3, "quote a value that contains a colon"),
        (
            "---\na:\n\tb: c\n---\n",
            3,
            "indent with spaces, not tabs, and quote a text that begins with @, ` or %",
        ),
        ("---\na: @b\n---\n", 2, "that begins with @"),
        ("---\na: [b,\n---\n", 3, "end the list in brackets"),
        ("---\na: [b\nc: d\n---\n", 2, "end the list in brackets"),
        ('---\na: "b" c\n---\n', 2, "indent the keys"),
        ('---\na: "\\q"\n---\n', 2, "the known escapes are"),
        ("---\na: " + "[" * 9 + "]" * 9 + "\n---\n", 2, "at most 8 levels"),
        ("---\na: " + "[" * 30_000 + "\n---\n", 2, "at most 8 levels"),
    ],
)
def test_what_is_not_read_is_said_with_its_line(text, line, said):
    """One fault, the first."""
    if not said:
        assert read_yaml_head(text).values == {"a": "b"}
        return
    with pytest.raises(HeadFault, match=said) as raised:
        read_yaml_head(text)
    assert raised.value.line == line


@given(st.text(alphabet="ab:-#&*!|>'\"[]{},. \n?%@`\t", max_size=60))
def test_no_head_makes_it_raise_anything_else(text):
    """Whatever stands there: values, or a fault with a line of the file."""
    whole = f"---\n{text}\n---\nBody"
    try:
        found = list(read_yaml_head(whole).lines.values())
    except HeadFault as fault:
        found = [fault.line]
    assert all(1 <= line <= whole.count("\n") + 1 for line in found)


def test_blanks_in_a_line_that_is_quoted_take_linear_time():
    """Each of them was tried as the first before a comment: 256 KiB took five minutes."""
    blanks = " " * 200_000
    head = read_yaml_head(f"---\ndescription: a{blanks}b: c{blanks}# d\n---\n")
    assert (head.values, head.quoted) == ({"description": f"a{blanks}b: c"}, (2,))
