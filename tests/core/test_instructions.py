"""Which files for agents count, how much of them is shown, and which directories a call touches: see `core/values/instructions.py`."""

import pytest
from hypothesis import given, strategies as st

from agentrail.core.values.instructions import (
    MAX_DEPTH,
    MAX_FILE_CHARACTERS,
    MAX_INSTRUCTION_BYTES,
    InstructionFile,
    fit_instructions,
    line_of_left_out,
    names_in_order,
    touched_directories,
)


def files(*texts):
    """Files with these texts, the farthest first."""
    return [InstructionFile(path=f"{number}.md", text=text) for number, text in enumerate(texts)]


def test_what_fits_is_shown_whole_in_its_order():
    """The nearest one last; a file that says nothing is no file."""
    fitted = fit_instructions(files("far\n", " \n", "near"))
    assert [(one.path, one.text) for one in fitted.files] == [("0.md", "far"), ("2.md", "near")]
    assert (fitted.cut, fitted.left_out, fitted.size_bytes) == ((), (), 7)


def test_the_far_end_goes_first():
    """Others cut the nearest files, silently: here the nearest stay whole, one is cut with a line, and the farthest are named (12.5)."""
    fitted = fit_instructions(files("a" * 9, "b" * 9, "c" * 9, "d" * 9), max_bytes=20)
    assert fitted.left_out == ("0.md",)
    assert fitted.cut == ("1.md",)
    assert [one.path for one in fitted.files] == ["1.md", "2.md", "3.md"]
    assert fitted.files[0].text == "bb\n[Only the first 2 characters are shown. The rest is in 1.md.]"
    assert line_of_left_out(fitted.left_out).endswith(": 0.md.]")


def test_the_limits_are_those_of_the_page():
    """40,000 characters of each, and 64 KiB of all (12.5)."""
    fitted = fit_instructions(files(*["x" * 50_000] * 3))
    shown = [one.text.count("x") for one in fitted.files]
    assert shown == [MAX_INSTRUCTION_BYTES - MAX_FILE_CHARACTERS, MAX_FILE_CHARACTERS]
    assert (fitted.left_out, fitted.size_bytes) == (("0.md",), 65_536)


_TEXTS = st.lists(st.text(st.sampled_from("aä€😀 \n\ud800"), max_size=12), max_size=6)


@given(texts=_TEXTS, max_bytes=st.integers(0, 60))
def test_no_cut_exceeds_the_room_or_shows_a_far_file_in_place_of_a_near_one(texts, max_bytes):
    """Whatever stands in the files: the beginnings of the nearest, within the room, and no character in halves."""
    given_files = files(*texts)
    fitted = fit_instructions(given_files, max_bytes)
    bodies = {one.path: one.text.split("\n[Only")[0] for one in fitted.files}
    whole = {one.path: one.text.strip() for one in given_files if one.text.strip()}
    assert sum(len(one.encode("utf-8", "surrogatepass")) for one in bodies.values()) <= max_bytes
    said = [*fitted.left_out, *bodies]
    assert said == list(whole)
    for number, path in enumerate(bodies):
        is_cut = path in fitted.cut
        assert number == 0 or not is_cut
        letters = [sign for sign in bodies[path] if sign in whole[path]]
        assert len(letters) == len(bodies[path])
        assert is_cut or bodies[path] == whole[path]


@pytest.mark.parametrize(
    ("tool", "path", "expected"),
    [
        ("read_file", "a/b/c.py", ("a", "a/b")),
        ("edit_file", "./a/c.py", ("a",)),
        ("write_file", "c.py", ()),
        ("list_dir", "a/b", ("a", "a/b")),
        ("grep", ".", ()),
        ("glob", "a/", ("a",)),
        ("read_file", "/srv/here/a/c.py", ("a",)),
        ("read_file", "/srv/hereafter/a/c.py", ()),
        ("read_file", "/etc/passwd", ()),
        ("read_file", "a/../../b/c.py", ()),
        ("read_file", "a/\0/c.py", ()),
        ("glob", "a/*/b", ()),
        ("shell", "a/b/c.py", ()),
        ("read_file", 7, ()),
        ("read_file", None, ()),
    ],
)
def test_the_directories_that_a_call_touches(tool, path, expected):
    """From the top, without the working directory itself; a path that may lead elsewhere touches none."""
    assert touched_directories(tool, {"path": path}, "/srv/here") == expected


def test_a_deep_path_is_looked_at_from_the_top():
    """A model may name a path of any length."""
    assert len(touched_directories("read_file", {"path": "a/" * 900 + "x"}, "/srv")) == MAX_DEPTH


def test_an_override_comes_before_what_it_overrides():
    """`AGENTS.override.md` before `AGENTS.md`; the others as they were asked for (12.5)."""
    assert names_in_order(["CLAUDE.md", "AGENTS.md"]) == ("CLAUDE.md", "AGENTS.override.md", "AGENTS.md")
    assert names_in_order([]) == ()
