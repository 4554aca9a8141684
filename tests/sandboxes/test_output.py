"""What is shown of an output: all of it while it is small, else its beginning and its end; clean, and in little memory."""

import sys
import unicodedata

import pytest
from hypothesis import given, strategies as st

from agentrail.sandboxes.output import MAX_OUTPUT_BYTES, MAX_SHOWN_BYTES, MAX_SHOWN_LINES, OutputWindow


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


def test_an_escape_that_never_ends_hides_nothing():
    """Text after the beginning of a title is held back, but not for ever."""
    text = "x" * 5000
    assert _shown(b"\x1b]0;", text.encode(), b"tail\n") == (f"]0;{text}tail\n", 0)


def test_everything_is_shown_up_to_the_bounds():
    """2,000 lines, 50 KB, in whatever distribution."""
    for printed in (
        b"\n" * MAX_SHOWN_LINES,
        b"x" * MAX_SHOWN_BYTES,
        b"\n" * 1999 + b"x" * (MAX_SHOWN_BYTES - 1999),
    ):
        assert _shown(printed) == (printed.decode(), 0)


def test_of_many_lines_the_first_fifth_and_the_last_are_shown():
    """400 lines, a note with the number that is missing, 1,600 lines."""
    shown, left_out_bytes = _shown(*(f"{n}\n".encode() for n in range(20_204)))
    lines = shown.splitlines()
    assert lines[:400] == [str(n) for n in range(400)]
    assert lines[400] == "[… 18,204 lines left out …]"
    assert lines[401:] == [str(n) for n in range(18_604, 20_204)]
    assert left_out_bytes == sum(len(f"{n}\n") for n in range(400, 18_604))


def test_one_line_over_the_bound_is_left_out_alone():
    """2,001 lines are cut by the same rule."""
    lines = _shown(b"x\n" * 2001)[0].splitlines()
    assert lines[400] == "[… 1 lines left out …]"
    assert len(lines) == 2001


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


@pytest.mark.parametrize("first", [b"", b"\x1b]0;"])
def test_memory_stays_small_whatever_comes(first):
    """64 MB in, a few hundred kilobytes held, also behind an escape without end; then it has printed enough."""
    window = OutputWindow()
    window.feed(first)
    piece = b"y\n" * 32_768
    while not window.is_over:
        window.feed(piece)
    assert window.received_bytes - len(piece) <= MAX_OUTPUT_BYTES < window.received_bytes
    held = sum(sys.getsizeof(value) for value in vars(window).values())
    assert held < 1_000_000
    shown, left_out_bytes = window.finish()
    assert len(shown.encode()) <= MAX_SHOWN_BYTES + 100
    assert left_out_bytes > MAX_OUTPUT_BYTES - MAX_SHOWN_BYTES


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
