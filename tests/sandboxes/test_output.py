"""What is shown of an output: all of it while it is small, else its beginning and its end; clean, and in little memory."""

import unicodedata

import pytest
from hypothesis import given, strategies as st

from agentrail.sandboxes.command_process import MAX_SHOWN_BYTES, MAX_SHOWN_LINES, OutputWindow


def _shown(*pieces: bytes) -> tuple[str, int]:
    window = OutputWindow()
    for piece in pieces:
        window.feed(piece)
    return window.finish()


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"", ""),
        (b"plain\n", "plain\n"),
        (b"a\r\nb\rc", "a\nb\nc"),
        (b"\xff\xfeabc\xe9", "��abc�"),
        ("é€𝄞".encode(), "é€𝄞"),
        (b"\x1b[31mred\x1b[0m \x1b[1;2Hthere", "red there"),
        ("\x9b31mred".encode(), "red"),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        (b"\x1bP1$r0m\x1b\\a\x1b(Bb\x1b=c\x1b7d", "abcd"),
        (b"nul\0 bell\a back\b tab\t", "nul bell back tab\t"),
        (b"unfinished \x1b[31", "unfinished [31"),
        ("stray \x85\x1b".encode(), "stray "),
    ],
)
def test_output_is_clean_text_however_it_is_cut(printed, shown):
    """Undecodable bytes are U+FFFD, line ends are line feeds, nothing that a terminal would obey is left."""
    assert _shown(printed) == (shown, 0)
    assert _shown(*(bytes([byte]) for byte in printed)) == (shown, 0)


def test_a_line_without_end_is_cut_inside():
    """10 KB, a note with the bytes that are missing, 40 KB; a character that was cut in two is not shown."""
    shown, left_out_bytes = _shown(*(["é".encode() * 10_000] * 10), b"!")
    head, note, tail = shown.split("\n")
    assert head == "é" * 5_000
    assert note == "[… 150,001 bytes left out …]"
    assert tail == "é" * 19_999 + "!"
    assert left_out_bytes == 200_001 - 50_000


def test_wide_lines_are_cut_between_lines():
    """By bytes, and still whole lines."""
    shown, _ = _shown(b"".join(b"%05d" % n + b"x" * 94 + b"\n" for n in range(600)))
    lines = shown.splitlines()
    assert [line[:5] for line in (lines[0], lines[99], lines[101], lines[-1])] == [
        "00000",
        "00099",
        "00200",
        "00599",
    ]
    assert lines[100] == "[… 100 lines left out …]"


_pieces = st.lists(
    st.one_of(
        # Without escapes, whose rules stand in a table above; so the model can be two lines.
        st.binary(max_size=50).filter(lambda piece: b"\x1b" not in piece and b"\x9b" not in piece),
        st.builds(
            lambda n, c: c * n, st.integers(0, 120_000), st.sampled_from([b"x", b"y\n", b"\n", "é".encode()])
        ),
    ),
    max_size=8,
)


def _clean(printed: bytes) -> str:
    text = printed.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in text if c in "\t\n" or unicodedata.category(c) != "Cc")


@given(pieces=_pieces)
def test_what_is_shown_is_bounded_and_nothing_is_uncounted(pieces):
    """However it comes: it is the beginning and the end of what was printed, within bounds, and the rest is counted."""
    shown, left_out_bytes = _shown(*pieces)
    whole = _clean(b"".join(pieces))
    if not left_out_bytes:
        assert shown == whole
        return
    before, _, rest = shown.partition("[… ")
    after = rest.partition(" left out …]\n")[2]
    if not whole.startswith(before):
        before = before.removesuffix("\n")  # the note begins a line of its own
    assert whole.startswith(before)
    assert whole.endswith(after)
    shown_bytes = len(before.encode()) + len(after.encode())
    assert shown_bytes <= MAX_SHOWN_BYTES
    assert before.count("\n") + after.count("\n") <= MAX_SHOWN_LINES
    halves = len(whole.encode()) - shown_bytes - left_out_bytes  # of characters, at both cuts
    assert 0 <= halves <= 6
