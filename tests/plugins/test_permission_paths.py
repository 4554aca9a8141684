"""Paths in rules: where a path leads, and what a glob is about."""

import pytest
from hypothesis import given, strategies as st

from agentrail.plugins.permission_paths import PathGlob, may_hold, may_match, must_match, path_place

WORKSPACE = "/srv/project"


def both(glob, path, **more):
    place = path_place(path, WORKSPACE, **{"home": "/home/ada", **more})
    assert place is not None
    return must_match(PathGlob(text=glob), place), may_match(PathGlob(text=glob), place)


@pytest.mark.parametrize(
    ("glob", "path", "must", "may"),
    [
        ("./src/*.py", "src/a.py", True, True), ("src/*.py", "src/a.py", True, True), ("src/*.py", "src/b/a.py", False, False), ("./src/**", "src/b/a.py", True, True), ("./src/**", "src", False, True), ("./src", "src/a", False, True),
        ("*.pem", "a/b/x.pem", True, True), ("*.pem", "/etc/x.pem", False, True), ("a", "b/a/c", False, True), ("./a", "b/a", False, False), ("**", "x/y", True, True), ("**/a/*/b", "x/a/y/a/z/b", True, True), ("**/a/*/b", "a/b", False, False),
        ("~/.ssh", "~/.ssh", False, True), ("~/.ssh", "/home/ada/.ssh", True, True), ("~/.ssh", "/home/bob/.ssh/id", False, True), ("~/.ssh", "/root/.ssh", False, True), ("~", "/home/ada", True, True), ("~bob/x", "/home/bob/x", False, True),
        ("//etc/passwd", "/etc/passwd", True, True), ("//etc/passwd", "../../etc/passwd", True, True), ("//etc/**", "/etc/a/b", True, True), ("//srv/project/a", "a", True, True), ("./secrets", "/secrets", False, True), ("./a", "/srv/project/a", True, True),
        ("./A", "a", False, True), ("./a?c", "abc", True, True), ("./a[b]", "a[b]", True, True), ("./a[b]", "ab", False, False), ("./a", " a", False, True), ("./a", "./x/../a", True, True), ("./a", "file:///srv/project/a", False, True),
        ("//etc/passwd", "/proc/self/root/etc/passwd", False, True), ("./a", "a\0", False, False), ("./caf\u00e9", "cafe\u0301", False, True), ("~/x", "$HOME/x", False, False),
    ],
)  # fmt: skip
def test_globs(glob, path, must, may):
    """The two readings: for `allow` what is certain, for `deny` what may be."""
    assert both(glob, path) == (must, may)


def test_a_workspace_without_a_root_is_a_world_of_its_own():
    """A relative working directory; and a path that is too long leads nowhere."""
    place = path_place("a/../b", ".")
    assert (place.ends, place.inside) == (("/b",), True)
    assert path_place("x" * 5_000, ".") is None
    assert both("~/x", "/home/ada/x", home="") == (False, True)


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        ("./a/b/**", "a", True),
        ("./a/b/**", "a/b/c", True),
        ("./a/b", "c", False),
        ("x", "c", True),
        ("//etc/*", "/", True),
        ("~/x", "/home", True),
        ("~/x", "/srv", False),
    ],
)
def test_what_may_lie_below(glob, path, holds):
    """A search in a folder may come upon what a pattern means."""
    assert may_hold(PathGlob(text=glob), path_place(path, WORKSPACE, "/home/ada")) is holds


paths = st.lists(st.sampled_from(("a", "b", "..", ".", "A")), min_size=1, max_size=6).map("/".join)
globs = st.lists(st.sampled_from(("a", "b", "*", "**", "a*")), min_size=1, max_size=4).map("/".join)


@given(globs, paths)
def test_what_must_match_may_match(glob, path):
    """The narrow reading lies within the wide one, and within the workspace for patterns of it."""
    must, may = both(glob, path)
    assert may >= must
    if must:
        assert path_place(path, WORKSPACE).inside
