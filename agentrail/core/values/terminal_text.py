"""Terminal output of a program as text for a model: decoded, with one kind of line end, without escapes. Pure."""

import codecs
import io
import re
from typing import Final

# ECMA-48: control sequences, strings with their terminator (titles, links), and the short escapes. The
# strings come before the short ones, which would otherwise match their first two characters and leave the
# rest as text.
_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_MAX_ESCAPE_CHARACTERS: Final = 4_096
_CONTROLS: Final = dict.fromkeys(sorted(set(range(0x20)) - {0x09, 0x0A} | set(range(0x7F, 0xA0))))


class PrintedText:
    """Accepts bytes in pieces, and returns the text of each. A character or escape cut by a piece's end waits for the next."""

    def __init__(self) -> None:
        # Undecodable bytes become U+FFFD; "\r\n" and the "\r" of progress bars become "\n", also across two pieces.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._unfinished = ""  # begins with an escape whose end has not arrived yet

    def read(self, piece: bytes) -> str:
        return self._clean(self._decoder.decode(piece), final=False)

    def finish(self) -> str:
        return self._clean(self._decoder.decode(b"", final=True), final=True)

    def _clean(self, text: str, *, final: bool) -> str:
        # U+009B is equivalent to these two characters, so one expression finds both.
        text = self._unfinished + text.replace("\x9b", "\x1b[")
        self._unfinished = ""
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
            start = text.find("\x1b")
            if start >= 0 and not final and len(text) - start <= _MAX_ESCAPE_CHARACTERS:
                text, self._unfinished = text[:start], text[start:]
        return text.translate(_CONTROLS)
