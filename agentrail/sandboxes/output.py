"""What a command printed, cleaned for a model and kept small: its beginning and its end, however much came between.

Bytes in, text out; nothing is read or awaited here.
"""

from typing import Final

from agentrail.core.values.printed import PrintedText

MAX_SHOWN_LINES: Final = 2_000
MAX_SHOWN_BYTES: Final = 50_000
MAX_OUTPUT_BYTES: Final = 64_000_000
"""More than this and the command is stopped."""

_HEAD_SHARE: Final = 0.2  # the end says how it went, and the beginning what it was about
_HEAD_LINES: Final = int(MAX_SHOWN_LINES * _HEAD_SHARE)
_HEAD_BYTES: Final = int(MAX_SHOWN_BYTES * _HEAD_SHARE)
_TAIL_LINES: Final = MAX_SHOWN_LINES - _HEAD_LINES
_TAIL_BYTES: Final = MAX_SHOWN_BYTES - _HEAD_BYTES
_KEPT_BYTES: Final = 4 * MAX_SHOWN_BYTES


class OutputWindow:
    """Takes what a command prints, in pieces; holds a few hundred kilobytes, whatever comes."""

    def __init__(self) -> None:
        self._text = PrintedText()
        self._head = b""
        self._tail = bytearray()
        self._dropped_lines = 0
        self._dropped_bytes = 0
        self._is_closed = False
        self.received_bytes: int = 0

    @property
    def is_over(self) -> bool:
        """Whether more came than any command may print."""
        return self.received_bytes > MAX_OUTPUT_BYTES

    def feed(self, piece: bytes) -> bytes:
        """Take the next bytes; nothing any more after `close`.

        Returns:
            What is new of the clean text, whether or not it will be shown.
        """
        if self._is_closed:
            return b""
        self.received_bytes += len(piece)
        return self._keep(self._text.read(piece))

    def close(self) -> None:
        """Take no more: what still comes is read, so that no process blocks on a full pipe, and thrown away."""
        self._is_closed = True

    def finish(self, path: str | None = None) -> tuple[str, int]:
        """Take it that nothing more comes.

        Args:
            path: Where all of it can be read, if anywhere; for the note.

        Returns:
            What to show, with a note where the middle was left out; and how many bytes of clean text were left out.
        """
        self._keep(self._text.finish())
        kept = self._head + self._tail
        if not self._dropped_bytes and len(kept) <= MAX_SHOWN_BYTES and _count_lines(kept) <= MAX_SHOWN_LINES:
            return kept.decode(), 0
        # Where nothing was dropped yet, `_head` may be empty, and the beginning is in `_tail` like all the rest.
        head = first_part(self._head or bytes(self._tail))
        tail = last_part(bytes(self._tail))
        left_out_bytes = len(kept) + self._dropped_bytes - len(head) - len(tail)
        left_out_lines = kept.count(b"\n") + self._dropped_lines - head.count(b"\n") - tail.count(b"\n")
        left_out = f"{left_out_lines:,} lines" if left_out_lines else f"{left_out_bytes:,} bytes"
        before = head.decode(errors="ignore")  # a cut in the middle of a character leaves half of it
        after = tail.decode(errors="ignore")
        seam = "" if before.endswith("\n") else "\n"
        where = f"; full output in {path}, read it with read_file" if path else ""
        return f"{before}{seam}[… {left_out} left out{where} …]\n{after}", left_out_bytes

    def _keep(self, text: str) -> bytes:
        data = text.encode()
        self._tail += data
        if len(self._tail) > _KEPT_BYTES:
            self._drop_middle()
        return data

    def _drop_middle(self) -> None:
        if not self._head:
            self._head = first_part(bytes(self._tail))
            del self._tail[: len(self._head)]
        surplus = len(self._tail) - 2 * MAX_SHOWN_BYTES
        self._dropped_lines += self._tail.count(b"\n", 0, surplus)
        self._dropped_bytes += surplus
        del self._tail[:surplus]


def first_part(data: bytes) -> bytes:
    """Take the beginning, up to 20 % of what may be shown: whole lines, or part of one that is longer than all that."""
    end = 0
    for _ in range(_HEAD_LINES):
        end = data.find(b"\n", end) + 1
        if end == 0 or end > _HEAD_BYTES:
            return data[: data.rfind(b"\n", 0, _HEAD_BYTES) + 1 or _HEAD_BYTES]
    return data[:end]


def last_part(data: bytes) -> bytes:
    """Take the end, up to 80 % of what may be shown: whole lines, or part of one that is longer than all that."""
    earliest = max(len(data) - _TAIL_BYTES, 0)
    start = len(data) - data.endswith(b"\n")
    for _ in range(_TAIL_LINES):
        start = data.rfind(b"\n", earliest, start)
        if start < 0:
            # Bytes are the bound. One byte earlier, because a line may begin just there.
            begin = data.find(b"\n", earliest - 1, -1) + 1 if earliest else 0
            return data[begin or earliest :]
    return data[start + 1 :]


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))
