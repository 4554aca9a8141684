"""Inline tags: `<status>…</status>` and `<title>…</title>` are taken out of what a model says aloud.

The text comes in chunks that may end anywhere, in the middle of a tag too. Whatever the chunks, the outcome is what one
look at the whole text finds: a tag is its opening, at most `MAX_CONTENT` characters, and its end, spelled exactly like
this. Everything else is text: other tags, tags inside of a tag, a tag that is not closed or too long, and all that stands
in code, in a fence or between backticks, because a `<title>` there belongs to a page. So a reader holds back no more than
one tag's length, and gives it back when it was none.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

TagName: TypeAlias = Literal["status", "title"]
Code: TypeAlias = Literal["none", "inline", "fence"]

MAX_CONTENT: Final = 500
"""A status is a line, and a title shorter: a model that writes more between two tags writes about tags, not with them."""
MAX_TITLE: Final = 60

_NAMES: Final[tuple[TagName, ...]] = ("status", "title")
_SPELLED: Final[tuple[tuple[TagName, str, str], ...]] = tuple(
    (name, f"<{name}>", f"</{name}>") for name in _NAMES
)
_OPENING: Final = r"(?:status>|title>|(?:s(?:t(?:a(?:t(?:us?)?)?)?)?|t(?:i(?:t(?:le?)?)?)?)?\Z)"
"""Behind a `<`: it begins a tag, or may when more has come. Others come by the million."""

_MARKS: Final[Mapping[Code, re.Pattern[str]]] = MappingProxyType(
    {
        "none": re.compile(rf"<(?={_OPENING})|`{{1,3}}"),
        "inline": re.compile("[`\n]"),
        "fence": re.compile("`{1,3}"),
    }
)
"""What matters next, by where one stands. Code between single backticks ends with its line, in case it has no other end."""


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
"""Code that has ended, and text without a mark after it, as often as they follow each other: one call, where a response may
have half a million of them."""
_TICKS: Final = re.compile("`{1,3}")
_ENDING: Final = re.compile("</(?:status|title)>")
_REACH: Final = MAX_CONTENT + len("<status></status>")
"""How far in front of its end, or of the end of what has come, a tag can begin."""


class Tag(msgspec.Struct, frozen=True, gc=False):
    """A tag that was found.

    Attributes:
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
        held: What may still become a tag or a fence; begins with `<` or a backtick, or is empty.
        code: Whether what follows stands in code.
    """

    held: str = ""
    code: Code = "none"

    def fed(self, text: str) -> tuple["TagReader", str, tuple[Tag, ...]]:
        """Read on."""
        # Nearly all chunks: nothing is on its way and nothing begins. Then nothing is made but the answer.
        if not self.held and self.code != "inline" and "<" not in text and "`" not in text:
            return self, text, ()
        return _read(self.held + text, self.code, is_all=False)

    def closed(self) -> tuple[str, tuple[Tag, ...]]:
        """Say what was held back: the response is complete, or broke off."""
        if not self.held:
            return "", ()
        _, visible, found = _read(self.held, self.code, is_all=True)
        return visible, found


def _read(text: str, code: Code, *, is_all: bool) -> tuple[TagReader, str, tuple[Tag, ...]]:
    """Split a text into what is visible, the tags, and what cannot be told before more has come."""
    visible: list[str] = []
    found: list[Tag] = []
    shown, position, end = 0, 0, len(text)
    while mark := _MARKS[code].search(text, position):
        if mark[0] == "<" and (mark := _mark_behind(text, mark)) is None:
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
                case _:  # it is text, and what follows it may be a tag
                    pass
        elif code == "inline":
            code = "none"
        elif code == "none" and (ended := _CODE.match(text, mark.start())):
            position = ended.end()
        elif mark[0] == "```":
            code = "fence" if code == "none" else "none"
        elif position == end and not is_all:
            end = mark.start()  # a fence may come of it
            break
        elif mark[0] == "`" and code == "none":
            code = "inline"
    visible.append(text[shown:end])
    return TagReader(text[end:], code), "".join(visible), tuple(found)


def _mark_behind(text: str, mark: "re.Match[str]") -> "re.Match[str] | None":
    """Pass over what looks like the beginning of a tag and can be none: tags begin near an end of one, or of the text."""
    ending = _ENDING.search(text, mark.end())
    first = (ending.start() if ending else len(text)) - _REACH
    if mark.start() >= first:
        return mark
    ticks = _TICKS.search(text, mark.end())
    return ticks if ticks is not None and ticks.start() < first else _MARKS["none"].search(text, first)


def _tag_at(text: str, start: int) -> tuple[Tag, int] | Literal["undecided", "none"]:
    """Judge a `<`: the tag that it begins, with the place behind it; or that it begins none, or that this is open yet."""
    for name, opening, ending in _SPELLED:
        if text.startswith(opening, start):
            begin = start + len(opening)
            last = begin + MAX_CONTENT + len(ending)
            end = text.find(ending, begin, last)
            if end >= 0:
                return Tag(name, text[begin:end]), end + len(ending)
            return "undecided" if len(text) < last else "none"
    return "undecided"  # a mark that is not all of one is the beginning of one, at the end of the text
