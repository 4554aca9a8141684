"""`.gitignore`: judged as git judges it."""

import shutil
import subprocess

import pytest
from hypothesis import given, strategies as st

from agentrail.sandboxes.path_patterns import decide_anchored, is_ignored, read_ignore_file

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
PATHS = [
    *(
        "a.log",
        "keep.log",
        "sub/a.log",
        "sub/keep.log",
        "only",
        "sub/only",
        "sub/out",
        "x/sub/out",
        "docs/gen",
    ),
    *("docs/x/y/gen", "cache", "cache/x", "sub/cache/x", "deep/a.tmp", "x/deep/a.tmp", "x/deep/y/a.tmp"),
    *(
        "space ",
        "space",
        "!bang",
        "#hash",
        "a.o",
        "c.o",
        "important",
        "axb/x",
        "axb",
        "#",
        "sub/a.o",
        "sub/c.o",
    ),
]


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
    """An empty repository."""
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
