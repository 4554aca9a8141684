"""Inline tags: `<status>…</status>` and `<title>…</title>` are taken out of what a model says aloud.

The text comes in chunks that may end anywhere, in the middle of a tag too. Whatever the chunks, the outcome is what one
look at the whole text finds: a tag is its opening, at most `MAX_CONTENT` characters, and its end, spelled exactly like
this. Everything else is text: other tags, tags inside of a tag, a tag that is not closed or too long. So a reader holds
back no more than one tag's length, and gives it back when it was none.
"""

from typing import Final, Literal, TypeAlias

import msgspec

TagName: TypeAlias = Literal["status", "title"]

MAX_CONTENT: Final = 500
"""A status is a line, and a title shorter: whoever writes more between two tags writes about tags, not with them."""
MAX_TITLE: Final = 60

_NAMES: Final[tuple[TagName, ...]] = ("status", "title")
_SPELLED: Final[tuple[tuple[TagName, str, str], ...]] = tuple(
    (name, f"<{name}>", f"</{name}>") for name in _NAMES
)


class Tag(msgspec.Struct, frozen=True, gc=False):
    """A tag that was found.

    Attributes:
        name: Which one.
        content: What stood in it, as it was written.
    """

    name: TagName
    content: str

    @property
    def text(self) -> str:
        """What people see: in one line, without space around it, a title cut at 60 characters. May be empty."""
        line = " ".join(self.content.split())
        return line[:MAX_TITLE] if self.name == "title" else line


class TagReader(msgspec.Struct, frozen=True, gc=False):
    """Reads the text of one response.

    Attributes:
        held: What may still become a tag; begins with `<`, or is empty.
    """

    held: str = ""

    def fed(self, text: str) -> tuple["TagReader", str, tuple[Tag, ...]]:
        """Read on.

        Args:
            text: The next chunk.

        Returns:
            The reader for the chunk after it, the text that is visible by now, and the tags that are complete.
        """
        # Nearly all chunks: no tag is on its way and none begins. Then nothing is made but the answer.
        if not self.held and "<" not in text:
            return self, text, ()
        visible, found, held = _read(self.held + text, is_all=False)
        return (TagReader(held) if held else _EMPTY), visible, found

    def closed(self) -> tuple[str, tuple[Tag, ...]]:
        """Say what was held back: the response is complete, or broke off."""
        visible, found, _ = _read(self.held, is_all=True)
        return visible, found


_EMPTY: Final = TagReader()


def _read(text: str, *, is_all: bool) -> tuple[str, tuple[Tag, ...], str]:
    """Split a text into what is visible, the tags, and what cannot be told before more has come."""
    visible: list[str] = []
    found: list[Tag] = []
    position = 0
    while (start := text.find("<", position)) >= 0:
        visible.append(text[position:start])
        match _tag_at(text, start):
            case (tag, end):
                found.append(tag)
                position = end
            case "undecided" if not is_all:
                return "".join(visible), tuple(found), text[start:]
            case _:
                visible.append("<")
                position = start + 1
    visible.append(text[position:])
    return "".join(visible), tuple(found), ""


def _tag_at(text: str, start: int) -> tuple[Tag, int] | Literal["undecided", "none"]:
    """Judge a `<`: the tag that it begins, with the place behind it; or that it begins none, or that nobody knows yet."""
    for name, opening, ending in _SPELLED:
        if text.startswith(opening, start):
            begin = start + len(opening)
            last = begin + MAX_CONTENT + len(ending)
            end = text.find(ending, begin, last)
            if end >= 0:
                return Tag(name, text[begin:end]), end + len(ending)
            return "undecided" if len(text) < last else "none"
        if opening.startswith(text[start : start + len(opening)]):
            return "undecided"
    return "none"
