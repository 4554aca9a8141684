"""Thinking between tags at the beginning of a text: `ThinkTags`. Pure; no wire format enters this file.

Servers that do not know their model's way of thinking send it as text, `<think>` in front and `</think>` behind. Tags
count at the beginning only: behind it a model may write about them. They arrive in pieces, so what could become one is
held until it is one or is none.
"""

from typing import Final

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkTags:
    """Tells thinking from text, piece by piece. The pairs it returns are a text and whether it is thinking."""

    def __init__(self) -> None:
        """Begin at the beginning of a text."""
        self._held = ""
        self._blanks: list[str] = []  # in front of what is held: they are looked at once
        self._is_inside = False
        self._has_thought = False
        self._is_behind = False  # of the closing tag, where the blank lines are a part of the tag
        self.is_over: bool = False
        """Whether all that follows is text, and there is nothing to ask here any more."""

    def feed(self, piece: str) -> list[tuple[str, bool]]:
        """Take a piece, and return what is certain by now."""
        if self.is_over:
            return [(piece, False)] if piece else []
        said: list[tuple[str, bool]] = []
        self._held += piece
        if not (self._is_inside or self._is_behind):
            self._look_for_open(said)
        if self._is_inside:
            self._look_for_close(said)
        if self._is_behind:
            self._held = self._held.lstrip()
            if self._held:
                said.append((self._held, False))
                self._end()
        return said

    def flush(self) -> list[tuple[str, bool]]:
        """Return what was held, because no more text comes."""
        held, is_inside, is_behind = "".join((*self._blanks, self._held)), self._is_inside, self._is_behind
        self._end()
        return [(held, is_inside)] if held and not is_behind else []

    def _look_for_open(self, said: list[tuple[str, bool]]) -> None:
        begin = self._held.lstrip()
        if begin.startswith(_OPEN):
            self._is_inside = True
            self._blanks = []
            self._held = begin[len(_OPEN) :]
        elif not _OPEN.startswith(begin):
            said.append(("".join((*self._blanks, self._held)), False))
            self._end()
        elif len(begin) < len(self._held):
            self._blanks.append(self._held[: len(self._held) - len(begin)])
            self._held = begin

    def _look_for_close(self, said: list[tuple[str, bool]]) -> None:
        if not self._has_thought:  # the line break behind the tag is a part of it
            self._held = self._held.lstrip("\n")
        thought, tag, rest = self._held.partition(_CLOSE)
        if tag:
            self._is_inside, self._is_behind = False, True
            self._held = rest
        else:
            thought, self._held = _split_at_beginning(thought)
        if thought:
            self._has_thought = True
            said.append((thought, True))

    def _end(self) -> None:
        self._held, self._blanks = "", []
        self._is_inside = self._is_behind = False
        self.is_over = True


def _split_at_beginning(text: str) -> tuple[str, str]:
    """Split off the end of a text that could be the beginning of the closing tag."""
    for length in range(min(len(_CLOSE) - 1, len(text)), 0, -1):
        if _CLOSE.startswith(text[-length:]):
            return text[:-length], text[-length:]
    return text, ""
