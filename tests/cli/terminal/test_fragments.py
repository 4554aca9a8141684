"""What is drawn below the words, as the editor takes it: no letter and no colour is lost when pieces are put together."""

from hypothesis import given, strategies as st
from prompt_toolkit.formatted_text import ANSI, to_formatted_text

from agentrail.cli.terminal.editor import _fragments_of
from agentrail.cli.terminal.styles import Ink, draw_line

STYLES = st.sampled_from(["", "bold", "dim", "fault", "good", "bold asks", "dim italic"])
ROWS = st.lists(st.lists(st.tuples(st.text("ab –✓\x1b", max_size=6), STYLES), max_size=4), max_size=5)


@given(ROWS)
def test_pieces_are_what_the_letters_are(parts):
    """As prompt_toolkit reads the rows letter by letter, a line's end between two of them and none behind the last."""
    rows = tuple(draw_line(row, Ink(colors="256")) for row in parts)
    letters = [(style, letter) for style, text in _fragments_of(rows) for letter in text]
    wanted = to_formatted_text(ANSI("\x1b[0m\n".join(rows)))
    assert letters == [(style, letter) for style, text in wanted for letter in text]
