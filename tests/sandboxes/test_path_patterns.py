"""Paths and their patterns as text, also those of `.gitignore`, which are judged as git judges them; none takes for ever."""

import fnmatch
import re
import shutil
import subprocess
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given, strategies as st

from agentrail.abc import DirectoryEntry, Refusal
from agentrail.sandboxes.path_patterns import (
    MAX_ALTERNATIVES,
    PatternFault,
    compile_names,
    compile_pattern,
    decide_anchored,
    is_ignored,
    read_ignore_file,
)
from agentrail.sandboxes.paths import decide_names
from agentrail.sandboxes.walk import DirectoryTree, glob_tree


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


RULES = (
    r"""
# a comment
*.log
!keep.log
/only
sub/out
docs/**/gen
cache/
**/deep/*.tmp
\!bang
\#hash
[ab].o
[z-a].o
!important/
a*b/
"""
    "space\\ \nplain  \n"
)
NAMES = (
    *("a.log", "keep.log", "only", "out", "gen", "cache", "a.tmp", "space ", "space", "plain", "!bang"),
    *("#hash", "#", "a.o", "c.o", "important", "axb", "x"),
)
FOLDERS = ("", "sub/", "x/sub/", "docs/", "docs/x/y/", "cache/", "sub/cache/", "deep/", "x/deep/y/", "axb/")
PATHS = [f"{folder}{name}" for folder in FOLDERS for name in NAMES]


def _ignored(path: str, rules: str = RULES) -> bool:
    files = [read_ignore_file(rules, ())]
    names = tuple(path.split("/"))
    depths = range(1, len(names) + 1)
    return any(is_ignored(files, names[:depth], is_directory=depth < len(names)) for depth in depths)


def _ignored_by_git(root, paths) -> set[str]:
    asked = "\0".join(paths)
    argv = ["git", "-C", str(root), "check-ignore", "--no-index", "-z", "--stdin"]
    found = subprocess.run(argv, input=asked, capture_output=True, text=True, check=False)
    assert found.returncode in {0, 1}, found.stderr
    return set(found.stdout.split("\0")) - {""}


@pytest.fixture
def repository(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_it_is_judged_as_git_does(repository):
    """Comments, exceptions, anchors, directories, double stars, escapes and classes."""
    (repository / ".gitignore").write_text(RULES)
    assert {path for path in PATHS if _ignored(path)} == _ignored_by_git(repository, PATHS)


@given(
    lines=st.lists(st.text("ab*/!?#", max_size=6), max_size=5),
    path=st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=3),
)
def test_a_file_means_the_same_when_it_is_anchored_at_the_root(lines, path):
    """So the rules of directories above a search can be handed to a program that looks at one file only."""
    here = read_ignore_file("\n".join(lines), ("x", "y"))
    anchored = [line for line in (decide_anchored(one, ("x", "y")) for one in lines) if line is not None]
    at_root = read_ignore_file("\n".join(anchored), ())
    names = ("x", "y", *path)
    for is_directory in (True, False):
        assert here.decide(names, is_directory=is_directory) == at_root.decide(
            names, is_directory=is_directory
        )


ROOTS = (PurePosixPath("/srv/ws"), PurePosixPath("/mnt/real"))


@given(path=st.text(st.sampled_from("a./~\n\0é \\")) | st.text())
def test_no_name_leads_upwards(path):
    """Whatever is taken consists of names that mean themselves."""
    names = decide_names(path, ROOTS)
    if isinstance(names, Refusal):
        assert names.message.isprintable()
        return
    assert all(name not in {"", ".", ".."} and "/" not in name and "\0" not in name for name in names)


def test_a_search_ends_in_the_middle_of_a_directory():
    """One directory may have a hundred thousand files, each compared with thousands of patterns."""
    checks = []

    def check():
        checks.append(None)
        if len(checks) == 2:
            raise TimeoutError

    entries = [DirectoryEntry(name=f"{number}", kind="file") for number in range(3)]
    tree = DirectoryTree(list_dir=lambda _: entries, read_text=lambda _: None, check=check)
    with pytest.raises(TimeoutError):
        glob_tree(tree, "*", ())
