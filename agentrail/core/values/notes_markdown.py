"""Working notes: the format of `NOTES.md`."""

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from attrs import evolve, frozen

from agentrail.errors import OptionError
from agentrail.structs import END_OF_CALENDAR_MS, Value

NOTES_FILE: Final = "NOTES.md"

MAX_NOTES_BYTES: Final = 64 << 10
"""Limit of all notes of a session, in UTF-8."""

MAX_NOTE_BYTES: Final = 8 << 10
"""Limit of one note, in UTF-8."""

MAX_TOPIC_CHARACTERS: Final = 64

USUAL_TOPIC: Final = "general"
"""Topic of notes without a topic, and of text before the first heading."""

_HEADING: Final = "## "
_COMMENT: Final = "<!--"
_COMMENT_END: Final = "-->"
_BULLET: Final = re.compile(r"\s*(?:[-*•]|\d+[.)])\s++(.*\S)\s*")


class NoteTopic(Value, frozen=True, kw_only=True):
    """A topic in the index.

    Attributes:
        name: Its name.
        size_bytes: Size of all its notes, in UTF-8.
        at_ms: Time of the last change, in milliseconds since 1970. None if the user removed it.
    """

    name: str
    size_bytes: int
    at_ms: int | None = None


@frozen(kw_only=True)
class _Section:
    """A part of the file, up to the next heading."""

    topic: str
    heading: str | None
    at_ms: int | None
    lines: tuple[str, ...]

    @property
    def body(self) -> str:
        return "\n".join(self.lines).strip("\r\n")


def fault_of_topic(topic: object) -> str | None:
    """Return why a value is not a valid topic, or None if it is."""
    if (
        isinstance(topic, str)
        and 0 < len(topic) <= MAX_TOPIC_CHARACTERS
        and topic.isprintable()
        and topic == topic.strip()
        and _COMMENT not in topic
    ):
        return None
    return f"topic is invalid: expected 1 to {MAX_TOPIC_CHARACTERS} printable characters without surrounding spaces and without {_COMMENT}"


def topics_of(text: str) -> tuple[NoteTopic, ...]:
    """Return the index: each topic once, in the order of the file. A topic with two headings is one."""
    found: dict[str, NoteTopic] = {}
    for section in _sections(text):
        if section.heading is None and not section.body:
            continue
        key, size = _key(section.topic), len(section.body.encode())
        known = found.get(key)
        if known is None:
            found[key] = NoteTopic(name=section.topic, size_bytes=size, at_ms=section.at_ms)
        else:
            times = [at_ms for at_ms in (known.at_ms, section.at_ms) if at_ms is not None]
            found[key] = NoteTopic(
                name=known.name, size_bytes=known.size_bytes + size, at_ms=max(times, default=None)
            )
    return tuple(found.values())


def notes_about(text: str, topic: str) -> str | None:
    bodies = [one.body for one in _sections(text) if _key(one.topic) == _key(topic) and _is_there(one)]
    return "\n\n".join(filter(None, bodies)) if bodies else None


def facts_in(answer: str, max_facts: int) -> tuple[str, ...]:
    """Return the list items of a model's answer: models often add text before and after the list."""
    found = (_BULLET.fullmatch(line) for line in answer.splitlines())
    return tuple(" ".join(item[1].split()) for item in found if item is not None)[:max_facts]


def new_notes(text: str, notes: Iterable[str]) -> tuple[str, ...]:
    """Return the notes that no topic has yet. Case, white space and the last full stop are ignored."""
    seen = {_fact_key(line) for line in text.splitlines()}
    new: dict[str, str] = {}
    for note in notes:
        if _fact_key(note) not in seen:
            new.setdefault(_fact_key(note), note)
    return tuple(new.values())


def with_notes(text: str, topic: str, notes: Sequence[str], at_ms: int) -> str:
    """Add notes to a topic, which is created if needed. Existing ones are not written twice."""
    fault = fault_of_topic(topic)
    if fault is not None:
        raise OptionError([fault])
    sections = [*_sections(text)]
    place = next(
        (n for n, one in enumerate(sections) if one.heading is not None and _key(one.topic) == _key(topic)),
        None,
    )
    there = f"\n{notes_about(text, topic) or ''}\n"
    items = [item for item in dict.fromkeys(map(_item, notes)) if f"\n{item}\n" not in there]
    if not items:
        return text
    if place is None:
        place = len(sections)
        sections.append(_Section(topic=topic, heading="", at_ms=None, lines=()))
    old = sections[place]
    ended = tuple(old.body.split("\n")) if old.body else ()
    # Otherwise a paragraph of the user would absorb the first item.
    gap = ("",) if ended and not ended[-1].startswith(("- ", "  ")) else ()
    sections[place] = evolve(old, heading=_heading(old.topic, at_ms), lines=("", *ended, *gap, *items, ""))
    written = _joined(sections)
    size = len(written.encode())
    if size > MAX_NOTES_BYTES:
        fault = (
            f"the notes of this session would have {size:,} bytes, at most {MAX_NOTES_BYTES:,} are kept: "
            "forget a topic, or write less"
        )
        raise OptionError([fault])
    return written


def without_topic(text: str, topic: str) -> str | None:
    sections = [*_sections(text)]
    left = [one for one in sections if not (_key(one.topic) == _key(topic) and _is_there(one))]
    return None if len(left) == len(sections) else _joined(left)


def age_of(at_ms: int | None, now_ms: int) -> str:
    """Return the age of a time, in the largest unit that gives a whole number."""
    if at_ms is None:
        return "age unknown"
    minutes = max(now_ms - at_ms, 0) // 60_000
    for size, unit in ((24 * 60, "d"), (60, "h"), (1, "min")):
        if minutes >= size:
            return f"{minutes // size} {unit} ago"
    return "just now"


def _sections(text: str) -> Iterator[_Section]:
    topic, heading, at_ms = USUAL_TOPIC, None, None
    lines: list[str] = []
    for line in text.split("\n"):  # not splitlines(), which breaks at characters that a line may contain
        named = _named_in(line)
        if not named[0]:
            lines.append(line)
            continue
        yield _Section(topic=topic, heading=heading, at_ms=at_ms, lines=tuple(lines))
        (topic, at_ms), heading, lines = named, line, []
    yield _Section(topic=topic, heading=heading, at_ms=at_ms, lines=tuple(lines))


def _named_in(line: str) -> tuple[str, int | None]:
    """Return the topic of a heading, and its time. Empty if the line is not a heading."""
    if not line.startswith(_HEADING):
        return "", None
    words = line[len(_HEADING) :].strip()
    name, opening, comment = words.rpartition(_COMMENT)
    if not opening or not comment.endswith(_COMMENT_END):
        return words, None
    return name.strip(), _time_in(comment.removesuffix(_COMMENT_END).strip())


def _is_there(section: _Section) -> bool:
    return section.heading is not None or bool(section.body)


def _joined(sections: Sequence[_Section]) -> str:
    written = []
    for number, one in enumerate(sections):
        body = "\n".join(one.lines)
        if one.heading is not None:
            written.append("\n".join([one.heading, *one.lines]))
        elif number == 0 and one.lines != ("",):
            written.append(body)
    text = "\n".join(written).rstrip("\n")
    return f"{text}\n" if text else ""


def _heading(topic: str, at_ms: int) -> str:
    when = datetime.datetime.fromtimestamp(min(at_ms, END_OF_CALENDAR_MS - 1) / 1000, datetime.UTC)
    return f"## {topic} <!-- {when:%Y-%m-%dT%H:%M:%SZ} -->"


def _time_in(written: str) -> int | None:
    try:
        when = datetime.datetime.fromisoformat(written)
    except ValueError:  # the user wrote another text there
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return max(int(when.timestamp() * 1000), 0)


def _item(note: str) -> str:
    """Return a note as a list item. Its further lines are indented, so that none of them can be a heading."""
    lines = note.strip().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join([f"- {lines[0]}", *(f"  {line}" if line else "" for line in lines[1:])])


def _key(topic: str) -> str:
    return topic.casefold()


def _fact_key(line: str) -> str:
    found = _BULLET.fullmatch(line)
    return " ".join((line if found is None else found[1]).casefold().split()).rstrip(".")
