"""Patterns of paths: what fits, what is none, and that none takes for ever."""

import fnmatch
import re

import pytest
from hypothesis import example, given, strategies as st

from agentrail.sandboxes.path_patterns import MAX_ALTERNATIVES, PatternFault, compile_names, compile_pattern


def _fits(pattern: str, path: str) -> bool:
    return compile_pattern(pattern).matches(path.rstrip("/").split("/"), is_directory=path.endswith("/"))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "it is empty"),
        ("///", "it is empty"),
        ("/a", 'it begins with "/", but patterns are relative'),
        ("a/../b", '".." is not allowed'),
        ("{a,..}/b", '".." is not allowed'),
        ("[z-a]", "'[z-a]' is not a pattern (bad character range z-a)"),
        ("{a,b}" * 9, f"its braces expand to more than {MAX_ALTERNATIVES} patterns"),
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
