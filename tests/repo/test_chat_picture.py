"""The picture of a chat: what a real session put on the screen, and the same in every run."""

from itertools import pairwise
from xml.etree import ElementTree as Xml

import pytest
from rich.cells import cell_len
from rich.text import Text

from scripts import chat_picture as picture
from scripts.docsite.nav import ROOT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.check  # `make docs-check` compares all that is drawn
def test_the_chat_is_a_real_run_and_is_the_picture_that_is_shown():
    """Every word on it is of the run, no row is wider than the terminal, and no stretch of a row stands on another one."""
    plain = [Text.from_ansi(row).plain for row in picture.rows_of_chat()]
    assert "? may edit_file src/totals.py run?" in plain
    assert max(map(cell_len, plain)) <= picture.COLUMNS
    for theme in ("light", "dark"):
        drawn = picture.draw_chat(theme)
        assert (ROOT / f"docs/pictures/chat-{theme}.svg").read_text(encoding="utf-8") == f"{drawn}\n"
        texts = [one for one in Xml.fromstring(drawn).iter(f"{SVG}text") if "textLength" in one.attrib]  # noqa: S314 - drawn a line above
        assert "".join("".join(one.text or "" for one in texts).split()) == "".join("".join(plain).split())
        for left, right in pairwise(texts):
            end = float(left.attrib["x"]) + float(left.attrib["textLength"])
            assert left.attrib["y"] != right.attrib["y"] or end <= float(right.attrib["x"]) + 0.2
