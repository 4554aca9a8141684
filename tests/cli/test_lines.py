"""Lines from an editor that is leaving while something is written."""

from types import SimpleNamespace

from agentrail.cli.lines import EditedLines
from agentrail.cli.rendering import Piece


class _Above:
    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> None:
        self.written += text


def _without_loop() -> None:
    message = "no running event loop"
    raise RuntimeError(message)


async def test_an_editor_whose_loop_has_just_gone_loses_no_line():
    """Its thread may end at any time; what is written stands above all the same."""
    above = _Above()
    lines = EditedLines(SimpleNamespace(app=SimpleNamespace(invalidate=_without_loop)), above)
    await lines.write([Piece("out", "all of it\nand ")])
    await lines.write([Piece("out", "more\n")])
    assert above.written == "all of it\nand more\n"
