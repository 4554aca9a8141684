"""Paths as text: the table of what is refused, and where the rest leads."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given, strategies as st

from agentrail.abc import Refusal
from agentrail.sandboxes.paths import decide_names

ROOTS = (PurePosixPath("/srv/ws"), PurePosixPath("/mnt/real"))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "",
            'Invalid path "": it is empty. Paths are relative to the working directory, such as "src/app.py".',
        ),
        ("a\0b", "it has a control character in it"),
        ("a\nb", "Invalid path 'a\\nb': it has a control character in it"),
        ("a\x1b[2J", "it has a control character in it"),
        ("a\x7f", "it has a control character in it"),
        ("\ud800", "it is not valid Unicode"),
        ("../secret", '".." is not allowed'),
        ("a/../../b", '".." is not allowed'),
        ("a/../b", '".." is not allowed'),
        ("a/..", '".." is not allowed'),
        ("/srv/ws/../ws/a", '".." is not allowed'),
        ("~", '"~" is not expanded'),
        ("~/.ssh/id_rsa", '"~" is not expanded'),
        ("~root/x", '"~" is not expanded'),
        ("/etc/passwd", 'Invalid path "/etc/passwd": it is outside the working directory'),
        ("/", "it is outside the working directory"),
        ("/srv/ws-evil/a", "it is outside the working directory"),
        ("/srv", "it is outside the working directory"),
        ("//srv/ws/a", "it is outside the working directory"),
        ("a/" * 2048 + "b", "it has 4097 bytes, at most 4096 are allowed"),
        ("é" * 128, "a name in it is longer than 255 bytes"),
    ],
)
def test_what_leads_elsewhere_is_refused_before_any_system_call(path, words):
    """The code is `invalid_path`, and the message says why and what a path looks like."""
    refusal = decide_names(path, ROOTS)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "invalid_path"
    assert words in refusal.message
    assert "/srv/ws" not in refusal.message.replace(path, "")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (".", ()),
        ("./", ()),
        ("a", ("a",)),
        ("a//b/./c/", ("a", "b", "c")),
        ("...", ("...",)),
        ("a..b/..c", ("a..b", "..c")),
        ("a/~", ("a", "~")),
        ("with space/é", ("with space", "é")),
        ("/srv/ws", ()),
        ("/srv/ws/a/b", ("a", "b")),
        ("/mnt/real/a", ("a",)),
        ("x" * 255, ("x" * 255,)),
    ],
)
def test_what_stays_inside_is_split_into_names(path, names):
    """An absolute path counts when it is below the root, by whichever of its names."""
    assert decide_names(path, ROOTS) == names


@given(path=st.text(st.sampled_from("a./~\n\0é \\")) | st.text())
def test_no_name_leads_upwards(path):
    """Whatever is taken consists of names that mean themselves."""
    names = decide_names(path, ROOTS)
    if isinstance(names, Refusal):
        assert names.message.isprintable()
        return
    assert all(name not in {"", ".", ".."} and "/" not in name and "\0" not in name for name in names)
