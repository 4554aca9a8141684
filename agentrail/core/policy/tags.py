"""Inline tags: `<status>…</status>` and `<title>…</title>` are removed from a model's visible text."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

TagName: TypeAlias = Literal["status", "title"]
Code: TypeAlias = Literal["none", "inline", "fence"]

MAX_CONTENT: Final = 500
"""A status is a line, and a title is shorter. A model that writes more between two tags is writing about tags."""
MAX_TITLE: Final = 60

_NAMES: Final[tuple[TagName, ...]] = ("status", "title")
_SPELLED: Final[tuple[tuple[TagName, str, str], ...]] = tuple(
    (name, f"<{name}>", f"</{name}>") for name in _NAMES
)
_OPENING: Final = r"(?:status>|title>|(?:s(?:t(?:a(?:t(?:us?)?)?)?)?|t(?:i(?:t(?:le?)?)?)?)?\Z)"
"""Follows a `<` that starts a tag, or may start one when more text arrives. Other `<` come by the million."""

_MARKS: Final[Mapping[Code, re.Pattern[str]]] = MappingProxyType(
    {
        "none": re.compile(rf"<(?={_OPENING})|`{{1,3}}"),
        "inline": re.compile("[`\n]"),
        "fence": re.compile("`{1,3}"),
    }
)
"""The next mark to look for, by the kind of the surrounding code. Inline code ends with its line if nothing else ends it."""


_CODE: Final = re.compile(
    rf"""(?:
        (?: ```[^`]*+(?:`(?!``)[^`]*+)*+```  # a fence
          | `(?!`)[^`\n]*+[`\n]  # inline code
          | ``(?=[^`])  # two backticks, which open nothing
        )
        [^`<]*+(?:<(?!{_OPENING})[^`<]*+)*+
    )++""",
    re.VERBOSE,
)
"""Completed code and text without a mark after it, repeated: one regex call, as a response may have half a million of them."""
_TICKS: Final = re.compile("`{1,3}")
_ENDING: Final = re.compile("</(?:status|title)>")
_REACH: Final = MAX_CONTENT + len("<status></status>")
"""Maximum distance from a tag's start to its end, or to the end of the text so far."""


class Tag(msgspec.Struct, frozen=True, gc=False):
    """A tag in the text."""

    name: TagName
    content: str

    @property
    def text(self) -> str:
        """The text for users: one line, without surrounding space, a title cut at 60 characters. May be empty."""
        line = " ".join(self.content.split())
        return line[:MAX_TITLE] if self.name == "title" else line


class TagReader(msgspec.Struct, frozen=True, gc=False):
    """Reads the text of one response.

    Attributes:
        held: Text that may still become a tag or a fence. Starts with `<` or a backtick, or is empty.
        code: The kind of code that the next text is in.
    """

    held: str = ""
    code: Code = "none"

    def fed(self, text: str) -> tuple["TagReader", str, tuple[Tag, ...]]:
        # The case of nearly all chunks: no tag is pending and none begins. Only the result is allocated.
        if not self.held and self.code != "inline" and "<" not in text and "`" not in text:
            return self, text, ()
        return _read(self.held + text, self.code, is_all=False)

    def closed(self) -> tuple[str, tuple[Tag, ...]]:
        """Return the text that was held back: the response is complete, or broke off."""
        if not self.held:
            return "", ()
        _, visible, found = _read(self.held, self.code, is_all=True)
        return visible, found


def _read(text: str, code: Code, *, is_all: bool) -> tuple[TagReader, str, tuple[Tag, ...]]:
    """Split a text into visible text, tags, and a rest that needs more text to decide."""
    visible: list[str] = []
    found: list[Tag] = []
    shown, position, end, ending = 0, 0, len(text), 0
    while mark := _MARKS[code].search(text, position):
        if mark[0] == "<":
            if ending < mark.end():  # not for each mark: the next end tag may be far away
                nearest = _ENDING.search(text, mark.end())
                ending = nearest.start() if nearest else len(text)
            if (mark := _mark_behind(text, mark, ending - _REACH)) is None:
                break
        position = mark.end()
        if mark[0] == "<":
            match _tag_at(text, mark.start()):
                case (tag, behind):
                    found.append(tag)
                    visible.append(text[shown : mark.start()])
                    shown = position = behind
                case "undecided" if not is_all:
                    end = mark.start()
                    break
                case _:  # it is text, and a tag may follow
                    pass
        elif code == "inline":
            code = "none"
        elif code == "none" and (ended := _CODE.match(text, mark.start())):
            position = ended.end()
        elif mark[0] == "```":
            code = "fence" if code == "none" else "none"
        elif position == end and not is_all:
            end = mark.start()  # it may become a fence
            break
        elif mark[0] == "`" and code == "none":
            code = "inline"
    visible.append(text[shown:end])
    return TagReader(text[end:], code), "".join(visible), tuple(found)


def _mark_behind(text: str, mark: "re.Match[str]", first: int) -> "re.Match[str] | None":
    """Skip marks that look like the start of a tag but cannot be one: tags start near an end tag, or near the end of the text."""
    if mark.start() >= first:
        return mark
    tick = text.find("`", mark.end(), first)
    return _TICKS.match(text, tick) if tick >= 0 else _MARKS["none"].search(text, first)


def _tag_at(text: str, start: int) -> tuple[Tag, int] | Literal["undecided", "none"]:
    """Classify a `<`: a tag with the position after it, not a tag, or undecided until more text arrives."""
    for name, opening, ending in _SPELLED:
        if text.startswith(opening, start):
            begin = start + len(opening)
            last = begin + MAX_CONTENT + len(ending)
            end = text.find(ending, begin, last)
            if end >= 0:
                return Tag(name, text[begin:end]), end + len(ending)
            return "undecided" if len(text) < last else "none"
    return "undecided"  # a partial opening occurs only at the end of the text


def rest_of(text: str, streamed: str) -> str | None:
    """Return what follows the streamed part of a text, without its tags if they were removed. None if another part is missing."""
    reader, visible, _ = TagReader().fed(text)
    for whole in (visible + reader.closed()[0], text):
        if whole.startswith(streamed):
            return whole[len(streamed) :]
    return None
