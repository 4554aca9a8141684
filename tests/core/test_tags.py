"""Tags in what a model says: taken out, across any chunk borders (3-session, `inline_tags`)."""

import itertools
import re
import time
from collections import Counter

from hypothesis import given, strategies as st

from agentrail.core.policy.tags import MAX_CONTENT, Tag, TagReader, rest_of
from tests.slowness import slowness

LONG = "x" * (MAX_CONTENT + 1)
PIECES = st.sampled_from(
    (
        *("a", " ", "<", ">", "/", "<b>", "é\n"),
        *("`", "``", "```", "\n"),
        *("<status>", "</status>", "<title>", "</title>", "<sta", "tus>", "</sta"),
        "<title>T</title>",
        *("x" * (MAX_CONTENT - 1), LONG),
    )
)
# Code comes first: a fence to its end or that of the text, then backticks to the next one or to the end of the line.
CODE = r"```.*?(?:```|\Z)|`[^`\n]*(?:[`\n]|\Z)"
WHOLE = re.compile(rf"{CODE}|<(status|title)>(.{{0,{MAX_CONTENT}}}?)</\1>", re.DOTALL)


def read(chunks: list[str]) -> tuple[str, list[Tag]]:
    """Read a response chunk by chunk, to its end."""
    tags: list[Tag] = []
    reader, said = TagReader(), ""
    for chunk in chunks:
        reader, visible, found = reader.fed(chunk)
        said += visible
        tags += found
    rest, found = reader.closed()
    return said + rest, [*tags, *found]


@given(pieces=st.lists(PIECES, max_size=12), cuts=st.lists(st.integers(0, 3_000), max_size=12))
def test_chunks_never_change_the_outcome(pieces, cuts):
    """Text and tags are what one expression finds in the whole, wherever the chunks are cut."""
    text = "".join(pieces)
    borders = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    chunks = [text[left:right] for left, right in itertools.pairwise(borders)]
    visible, tags = read(chunks)
    assert visible == WHOLE.sub(lambda found: "" if found[1] else found[0], text)
    assert [(tag.name, tag.content) for tag in tags] == [found for found in WHOLE.findall(text) if found[0]]


@given(pieces=st.lists(PIECES, max_size=12))
def test_every_character_comes_out_once(pieces):
    """Visible text and tags, counted together, are what the model wrote; and no more than one tag is ever held."""
    written = "".join(pieces)
    visible, tags = read(list(written))
    came = visible + "".join(f"<{tag.name}>{tag.content}</{tag.name}>" for tag in tags)
    assert Counter(came) == Counter(written)
    reader = TagReader()
    for character in written:
        reader, _, _ = reader.fed(character)
        assert len(reader.held) < len("<status></status>") + MAX_CONTENT


def test_what_is_a_tag_and_what_is_text():
    """Unclosed, unknown, nested and overlong ones are text, and nothing of a text is lost."""
    for text, visible, tags in (
        ("Hello.", "Hello.", []),
        ("<status>Reading</status>Hello.", "Hello.", [Tag("status", "Reading")]),
        ("a<title>T</title>b<status>S</status>c", "abc", [Tag("title", "T"), Tag("status", "S")]),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2", []),
        ("`a\n<title>T</title>`", "`a\n`", [Tag("title", "T")]),
        ("``<title>T</title>``", "````", [Tag("title", "T")]),
        ("```a`b``c``` `x` <title>T</title> ```", "```a`b``c``` `x`  ```", [Tag("title", "T")]),
        ("<b>bold</b>", "<b>bold</b>", []),
        ("<Status>x</Status>", "<Status>x</Status>", []),
        ("<status>never closed", "<status>never closed", []),
        ("<status>a<title>T</title>", "<status>a", [Tag("title", "T")]),
        ("<status>a <b>b</b></status>", "", [Tag("status", "a <b>b</b>")]),
        ("<status>a<title>T</title></status>", "", [Tag("status", "a<title>T</title>")]),
        (f"<status>{LONG}</status>", f"<status>{LONG}</status>", []),
        (f"<status>{LONG[1:]}</status>", "", [Tag("status", LONG[1:])]),
        (
            "```a\n<title>T</title>\n```\n<title>U</title>",
            "```a\n<title>T</title>\n```\n",
            [Tag("title", "U")],
        ),
        ("Put it into `<title>` and `</title>`.", "Put it into `<title>` and `</title>`.", []),
        ("A ` alone\n<title>T</title>", "A ` alone\n", [Tag("title", "T")]),
        ("``<title>T</title>", "``", [Tag("title", "T")]),
        ("```\n``<title>T</title>", "```\n``<title>T</title>", []),
        ("<status>In `a.py`</status>`", "`", [Tag("status", "In `a.py`")]),
        ("<stat", "<stat", []),
        ("</status>", "</status>", []),
        ("<status>" + LONG * 2, "<status>" + LONG * 2, []),
    ):
        assert read([text]) == read(list(text)) == (visible, tags)


def test_what_cannot_be_a_tag_is_passed_over():
    """A million of them in one step; and those that can be are found, however the text comes."""
    for text, visible, names in (
        ("<" * 5_000 + "<status>a</status>", "<" * 5_000, ["status"]),
        ("<status>" * 500 + "x</status>", None, ["status"]),
        ("<title>" * 500 + "`<status>a</status>`", None, []),
        ("<status>" + "`" * 3 + "x" * 600 + "</status>", "<status>```" + "x" * 600 + "</status>", []),
        ("<status>" * 500 + "`" + "x" * 600 + "\n<title>t</title>", None, ["title"]),
        ("<status>" * 500, "<status>" * 500, []),
    ):
        for size in (len(text), 7, 1):
            said, tags = read([text[begin : begin + size] for begin in range(0, len(text), size)])
            assert [tag.name for tag in tags] == names
            assert visible is None or said == visible


def test_the_time_for_a_chunk_grows_with_its_length_alone():
    """Half a megabyte between code and the next end tag, or without one: the rest is not searched again for each mark."""
    far = f"<status>{LONG * 2}</status>"
    for piece in ("`<status>", "<title>`x` ", "``<title>", far, f"`a` {far}"):
        text = piece * (500_000 // len(piece))

        def seconds(text=text):
            began_at = time.thread_time()
            TagReader().fed(text)
            return time.thread_time() - began_at

        assert any(seconds() < 0.5 * slowness() for _ in range(3)), piece


def test_what_was_not_streamed_of_a_response_is_known_from_its_text():
    """Its deltas have no tags, unless the session keeps them. Where a part in the middle is missing, nothing is said."""
    text = "One.<title>T</title> Two."
    streams = ("", "One.", "One. Two.", "One.<title>", text, " Two.", "Three.")
    rests = [rest_of(text, streamed) for streamed in streams]
    assert rests == ["One. Two.", " Two.", "", "T</title> Two.", "", None, None]
