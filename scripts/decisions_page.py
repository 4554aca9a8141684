"""The page of all decisions: the titles by topic, drawn from the records.

A record is a heading with a number, its date, and three short paragraphs: context, decision, consequences. The records of a topic
are one page of `docs/explanation/decisions/`.
"""

import re
from pathlib import Path
from typing import Final

from attrs import frozen

from scripts.docsite.nav import ROOT
from scripts.docsite.pages import github_anchor, title_of

FOLDER: Final = ROOT / "docs" / "explanation" / "decisions"
DRAWN: Final = "<!-- Drawn from the records by `make docs`; edit those. -->"
MAX_WORDS: Final = 150
LAST_NUMBER: Final = 778
"""Highest number ever given. Most of the records up to 667 were deleted, and a number is never given twice."""
RECORD: Final = re.compile(
    r"^## (?P<heading>(?P<number>\d{4}) · (?P<title>[^\n]+))\n\n\*(?P<date>\d{4}-\d{2}-\d{2})\*\n\n"
    r"(?P<text>\*\*Context\.\*\* .+?\n\n\*\*Decision\.\*\* .+?\n\n\*\*Consequences\.\*\* .+?)(?=^## |\Z)",
    re.MULTILINE | re.DOTALL,
)


@frozen(kw_only=True)
class DecisionRecord:
    """One decision.

    Attributes:
        number: Four digits.
        title: The decision, as a sentence.
        date: As YYYY-MM-DD.
        text: Context, decision and consequences.
        anchor: Anchor of its heading.
    """

    number: str
    title: str
    date: str
    text: str
    anchor: str


def read_records(text: str) -> list[DecisionRecord]:
    """Read the records of a page, in their order.

    Raises:
        ValueError: A heading of the second level does not begin a record.
    """
    found = [
        DecisionRecord(
            number=one["number"],
            title=one["title"],
            date=one["date"],
            text=one["text"].strip(),
            anchor=github_anchor(one["heading"]),
        )
        for one in RECORD.finditer(text)
    ]
    known = {f"{one.number} · {one.title}" for one in found}
    for heading in re.findall(r"^## (.+)$", text, re.MULTILINE):
        if heading not in known:
            message = (
                f"{heading!r} does not begin a record: expected `## 0001 · The decision`, `*2026-11-22*`, and paragraphs that "
                "begin with `**Context.**`, `**Decision.**` and `**Consequences.**`"
            )
            raise ValueError(message)
    return found


def decisions_page(folder: Path = FOLDER) -> str:
    """Return the list of titles by topic.

    Raises:
        FileNotFoundError: The folder holds no records.
    """
    lines = [
        "# Decisions",
        "",
        DRAWN,
        "",
        "Choices that a reader of the code would otherwise undo, each with its reasons in at most 150 words. Reasons that concern one function are",
        "comments next to it.",
        "",
    ]
    found = sorted(folder.glob("*.md"))
    if not found:
        message = f"{folder} holds no records, so the list would be empty"
        raise FileNotFoundError(message)
    for page in found:
        text = page.read_text(encoding="utf-8")
        topic = title_of(text).removeprefix("Decisions: ")
        lines += [f"## {topic[:1].upper()}{topic[1:]}", ""]
        lines += [
            f"- [{one.number}](decisions/{page.name}#{one.anchor}) {one.title}" for one in read_records(text)
        ]
        lines.append("")
    return "\n".join(lines)
