"""Which files for agents count, how much of them is shown, and which directories a call touches: see `core/values/instruction_order.py`."""

from hypothesis import given, strategies as st

from agentrail.core.values.instruction_order import InstructionFile, fit_instructions, touched_directories

_TEXTS = st.lists(st.text(st.sampled_from("aä€😀 \n\ud800"), max_size=12), max_size=6)


@given(texts=_TEXTS, max_bytes=st.integers(0, 60))
def test_no_cut_exceeds_the_room_or_shows_a_far_file_in_place_of_a_near_one(texts, max_bytes):
    """Whatever stands in the files: the beginnings of the nearest, within the room, and no character in halves."""
    given_files = [InstructionFile(path=f"{number}.md", text=text) for number, text in enumerate(texts)]
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


def test_the_directories_that_a_call_touches():
    """From the top, without the working directory itself; a path that may lead elsewhere touches none."""
    for tool, path, expected in (
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
    ):
        assert touched_directories(tool, {"path": path}, "/srv/here") == expected, (tool, path)
