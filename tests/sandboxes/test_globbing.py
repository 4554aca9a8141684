"""Patterns of paths: what fits, what is none, and that none takes for ever."""

import fnmatch
import re

import pytest
import trio
from hypothesis import example, given, strategies as st

from agentrail.sandboxes.globbing import MAX_ALTERNATIVES, PatternFault, compile_names, compile_pattern


def _fits(pattern: str, path: str) -> bool:
    return compile_pattern(pattern).matches(path.rstrip("/").split("/"), is_directory=path.endswith("/"))


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.txt"]),
        ("**", ["a", "a/b"], []),
        ("a/**", ["a/b", "a/b/c"], ["a/", "b/a/c"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/x", "b"]),
        ("**/x/**/y", ["x/y", "a/x/b/x/c/y"], ["x", "y", "a/y/x"]),
        ("?", ["a", "é"], ["ab", ""]),
        ("[a-c]", ["a", "c"], ["d"]),
        ("[!a-c]", ["d", "-"], ["a"]),
        ("[^a]", ["b"], ["a"]),
        ("[]]", ["]"], ["["]),
        ("[!]]", ["a"], ["]"]),
        ("[a", ["[a"], ["a"]),
        ("[&&~|]", ["&", "~", "|"], ["a"]),
        ("{a,b}.{c,d}", ["a.c", "b.d"], ["a.b"]),
        ("{a,b/{c,d}}/x", ["a/x", "b/c/x", "b/d/x"], ["b/x"]),
        ("{a}", ["{a}"], ["a"]),
        ("{a,b", ["{a,b"], ["a"]),
        (r"\*", ["*"], ["a"]),
        ("a/", ["a/"], ["a"]),
        ("./a//b", ["a/b"], ["b"]),
        ("a.b+c", ["a.b+c"], ["aXb+c", "a.bbc"]),
        ("*a*b*", ["ab", "xaybz"], ["ba"]),
    ],
)
def test_what_fits_a_pattern(pattern, fitting, others):
    """A star stays within a name, two stars do not."""
    assert [path for path in fitting if not _fits(pattern, path)] == []
    assert [path for path in others if _fits(pattern, path)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "it is empty"),
        ("///", "it is empty"),
        ("/a", 'it begins with "/", but patterns are relative'),
        ("a/../b", '".." is not allowed'),
        ("{a,..}/b", '".." is not allowed'),
        ("[z-a]", "'[z-a]' is no pattern (bad character range z-a)"),
        ("{a,b}" * 9, f"its braces stand for more than {MAX_ALTERNATIVES} patterns"),
        ("{" * 300 + "a,b" + "}" * 300, None),
    ],
)
def test_what_is_no_pattern_says_why(pattern, words):
    """Each fault has its words; deep nesting is none."""
    if words is None:
        assert _fits(pattern, "{" * 299 + "a" + "}" * 299)
        return
    with pytest.raises(PatternFault) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == words


@example(pattern="[?--]", name="")
@example(pattern="[--a]", name="-")
@example(pattern="[a--]", name="a")
@given(
    pattern=st.text("ab*?[]!-", min_size=1, max_size=8).filter(lambda text: text != "**"),
    name=st.text("ab-]", max_size=8),
)
def test_a_name_is_matched_as_the_standard_library_does(pattern, name):
    """Which has been right about stars, question marks and classes for thirty years."""
    try:
        (ours,) = compile_names(pattern)
    except PatternFault:  # a range such as [b-a], of which the library says that it matches nothing
        assert re.search(r"\[.*-", pattern)
        return
    assert ours is not None
    assert bool(ours.fullmatch(name)) == fnmatch.fnmatchcase(name, pattern)


async def test_no_pattern_takes_for_ever():
    """Neither many stars in a name, nor many double stars in a path."""
    with trio.fail_after(10):
        assert not await trio.to_thread.run_sync(_fits, "*a" * 40 + "b", "a" * 255)
        assert not await trio.to_thread.run_sync(_fits, "**/a/" * 40 + "b", "a/" * 400 + "c")
